"""A member that holds the token for an expected answer: packet by packet, and two that answer each other."""

import pytest
from tests.unit.links.ring_wire import MS, RingWire, assert_all_delivered_once
from tests.unit.links.rings import A, B, C, make_ring, passed_token, token

from hopring.links.events import Tick, Transmit
from hopring.links.ring.events import FromMember, Release, Visit, Wish
from hopring.links.ring.options import RingOptions
from hopring.links.ring.ring import Output, Ring
from hopring.links.ring.state import ANSWERS_MISSED, ANSWERS_SURE
from hopring.wire.data import Data, Missing
from hopring.wire.ring import Hurry, Token

ROUND_US = 1_000


def question(ring: Ring, number: int, now_us: int, **changed: object) -> list[Output]:
    """A's packet of this round and the token with it; each round before had two packets."""
    seq = 2 * number - 1
    ring.step(FromMember(A, Data(seq, b"question %d" % number)), now_us)
    plain = token(ring.state.expected, seq, seq - 1, site_seq=seq, site_lts=seq)
    return ring.step(FromMember(A, plain.replace(**changed)), now_us)


def answer(ring: Ring, number: int, now_us: int) -> None:
    """B's packet in the visit that has just begun; the token goes with it."""
    seq = 2 * number
    out = ring.step(Release(seq, seq, 0, (b"answer %d" % number,)), now_us)
    assert out[0] == Transmit((Data(seq, b"answer %d" % number),))
    assert passed_token(out).link_seq == seq


def missed_round(ring: Ring, number: int, think_us: int = 300) -> None:
    """The token comes and goes before the answer, which waits for the next rotation."""
    now_us, seq = number * ROUND_US, 2 * number - 1
    assert isinstance(question(ring, number, now_us)[-1], Visit)
    passed_token(ring.step(Release(seq, seq, 0), now_us))
    ring.step(Wish(), now_us + think_us)
    back = token(ring.state.expected, seq, seq - 1, site_seq=seq, site_lts=seq)
    assert isinstance(ring.step(FromMember(A, back), now_us + 600)[-1], Visit)
    answer(ring, number, now_us + 600)


def make_talker(options: RingOptions | None = None) -> Ring:
    """B, after so many answers came in time that the next one is expected."""
    ring = make_ring(B, options)
    for number in range(1, ANSWERS_SURE + 1):
        missed_round(ring, number)
    return ring


THIRD = ANSWERS_SURE + 1
NOW = THIRD * ROUND_US


def test_the_token_is_held_where_answers_come_in_time() -> None:
    ring = make_talker()

    assert question(ring, THIRD, NOW) == []
    assert ring.wake_at_us == NOW + ring.options.answer_us
    ring.step(Wish(), NOW + 200)
    assert ring.wake_at_us == NOW + 200
    assert isinstance(ring.step(Tick(), NOW + 200)[-1], Visit)
    answer(ring, THIRD, NOW + 200)


def test_the_token_is_passed_when_no_answer_comes_and_is_not_held_again_soon() -> None:
    ring = make_talker()
    question(ring, THIRD, NOW)

    assert isinstance(ring.step(Tick(), NOW + ring.options.answer_us)[-1], Visit)
    answer(ring, THIRD, NOW + ring.options.answer_us)
    for number in range(THIRD + 1, THIRD + 1 + ANSWERS_SURE - ANSWERS_MISSED):
        missed_round(ring, number)
    again = THIRD + 1 + ANSWERS_SURE - ANSWERS_MISSED
    assert question(ring, again, again * ROUND_US) == []


def test_a_late_answer_does_not_count() -> None:
    ring = make_ring(B)
    for number in range(1, 10):
        missed_round(ring, number, think_us=ring.options.answer_us)


def test_only_the_first_copy_of_a_packet_is_answered() -> None:
    ring = make_talker()
    question(ring, THIRD, NOW)
    ring.step(FromMember(A, Data(2 * THIRD - 1, b"question %d" % THIRD)), NOW + 400)

    assert ring.state.answers.heard_at_us == NOW


def test_a_hurry_ends_the_hold_and_does_not_count_as_a_miss() -> None:
    ring = make_talker()
    question(ring, THIRD, NOW)

    assert isinstance(ring.step(FromMember(C, Hurry()), NOW + 100)[-1], Visit)
    answer(ring, THIRD, NOW + 100)
    ring.state.answers.note_hold_over()  # As at the end of any other hold.
    assert ring.state.answers.in_time == ANSWERS_SURE


def test_the_token_is_not_held_while_a_third_member_sends() -> None:
    ring = make_talker()
    ring.step(FromMember(C, Data(2 * THIRD - 1, b"of another")), NOW)
    ring.step(FromMember(A, Data(2 * THIRD, b"question")), NOW)
    seq = 2 * THIRD
    both = token(ring.state.expected, seq, seq - 2, site_seq=seq, site_lts=seq)

    assert isinstance(ring.step(FromMember(A, both), NOW)[-1], Visit)


@pytest.mark.parametrize("reason", ["requests", "a hurry", "transit", "a wish", "a gap", "turned off"])
def test_the_token_is_not_held_while_there_is_work(reason: str) -> None:
    ring = make_talker(RingOptions(answer_us=0) if reason == "turned off" else None)
    if reason == "a hurry":
        ring.step(FromMember(C, Hurry()), NOW)
    if reason == "transit":  # Left over from a visit in which it did not fit.
        ring.state.outbox.transit.put(b"from elsewhere")
    changed: dict[str, object] = {}
    if reason == "requests":
        changed["missing"] = (Missing(2 * THIRD - 2, 1),)
    if reason == "a gap":
        ring.step(FromMember(A, Data(2 * THIRD + 1, b"behind what is missing")), NOW)
    if reason == "a wish":
        ring.step(FromMember(A, Data(2 * THIRD - 1, b"question")), NOW)
        ring.step(Wish(), NOW)

    assert isinstance(question(ring, THIRD, NOW, **changed)[-1], Visit)


# Among others.


def talk(wire: RingWire, rounds: range) -> None:
    """The first and the second answer each other, each 100 us after a receipt; the third is idle."""
    for number in range(2 * rounds.start, 2 * rounds.stop):
        one, other = wire[number % 2], wire[1 - number % 2]
        body = b"ball %d" % number
        wire.multicast(number % 2, body)
        begin_us = wire.now_us
        while body not in other.delivered:
            wire.run(wire.now_us + 10)
            assert wire.now_us < begin_us + 100 * MS, "the answer did not come"
        assert not one.to_stamp
        wire.run(wire.now_us + 100)


def test_two_members_that_answer_each_other_need_one_rotation_for_both() -> None:
    wire = RingWire(3)
    wire.run(200 * MS)
    talk(wire, range(10))
    wire.frames.clear()
    begin_us = wire.now_us
    talk(wire, range(10, 50))

    assert wire.frames[Token] <= 3 * 40 + 3
    assert wire.now_us - begin_us <= 2 * 40 * (50 + 10 + 100), "a member waited for the token"
    wire.run(wire.now_us + 20 * MS)
    assert_all_delivered_once(wire)


@pytest.mark.parametrize("seed", range(5))
def test_two_members_that_answer_each_other_get_everything_despite_losses(seed: int) -> None:
    wire = RingWire(3, seed=seed, loss=0.05, repeat=0.05, delay_us=(20, 400))
    wire.run(200 * MS)
    talk(wire, range(60))
    wire.run(wire.now_us + 400 * MS)

    assert_all_delivered_once(wire)
