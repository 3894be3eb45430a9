"""A member that waits with the token for an answer: packet by packet, and two that talk on a wire."""

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
    """A's packet of this round and the token with it; in each round before there were two packets."""
    seq = 2 * number - 1
    ring.step(FromMember(A, Data(seq, b"question %d" % number)), now_us)
    plain = token(ring.state.expected, seq, seq - 1, site_seq=seq, site_lts=seq)
    return ring.step(FromMember(A, plain.replace(**changed)), now_us)


def answer(ring: Ring, number: int, now_us: int) -> None:
    """B's packet, in the visit that has just begun; the token goes with it."""
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
    """B, where answers have come in time so often that the next one is waited for."""
    ring = make_ring(B, options)
    for number in range(1, ANSWERS_SURE + 1):
        missed_round(ring, number)
    return ring


THIRD = ANSWERS_SURE + 1
NOW = THIRD * ROUND_US


def test_the_token_waits_where_answers_come_in_time() -> None:
    ring = make_talker()

    assert question(ring, THIRD, NOW) == []
    assert ring.wake_at_us == NOW + ring.options.answer_us
    ring.step(Wish(), NOW + 200)
    assert ring.wake_at_us == NOW + 200
    assert isinstance(ring.step(Tick(), NOW + 200)[-1], Visit)
    answer(ring, THIRD, NOW + 200)


def test_it_goes_on_when_no_answer_comes_and_is_not_held_up_again_soon() -> None:
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


def test_a_hurry_ends_it_and_is_no_miss() -> None:
    ring = make_talker()
    question(ring, THIRD, NOW)

    assert isinstance(ring.step(FromMember(C, Hurry()), NOW + 100)[-1], Visit)
    answer(ring, THIRD, NOW + 100)
    ring.state.answers.waited_long_enough()  # As at the end of any other hold.
    assert ring.state.answers.in_time == ANSWERS_SURE


def test_nobody_waits_while_a_third_sends_too() -> None:
    ring = make_talker()
    ring.step(FromMember(C, Data(2 * THIRD - 1, b"of another")), NOW)
    ring.step(FromMember(A, Data(2 * THIRD, b"question")), NOW)
    seq = 2 * THIRD
    both = token(ring.state.expected, seq, seq - 2, site_seq=seq, site_lts=seq)

    assert isinstance(ring.step(FromMember(A, both), NOW)[-1], Visit)


@pytest.mark.parametrize("reason", ["requests", "a hurry", "transit", "a wish", "a gap", "turned off"])
def test_nobody_waits_while_something_is_to_be_done(reason: str) -> None:
    ring = make_talker(RingOptions(answer_us=0) if reason == "turned off" else None)
    if reason == "a hurry":
        ring.step(FromMember(C, Hurry()), NOW)
    if reason == "transit":  # Left over from a visit that had no room for it.
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
    """The first and the second answer each other, each 100 us after it heard; the third is only there."""
    for number in range(2 * rounds.start, 2 * rounds.stop):
        one, other = wire[number % 2], wire[1 - number % 2]
        body = b"ball %d" % number
        wire.multicast(number % 2, body)
        begin_us = wire.now_us
        while body not in other.delivered:
            wire.run(wire.now_us + 10)
            assert wire.now_us < begin_us + 100 * MS, "it comes"
        assert not one.to_stamp
        wire.run(wire.now_us + 100)


def test_two_that_talk_let_the_token_go_round_once_for_both() -> None:
    wire = RingWire(3)
    wire.run(200 * MS)
    talk(wire, range(10))
    wire.frames.clear()
    begin_us = wire.now_us
    talk(wire, range(10, 50))

    assert wire.frames[Token] <= 3 * 40 + 3
    assert wire.now_us - begin_us <= 2 * 40 * (50 + 10 + 100), "nobody waits for the token"
    wire.run(wire.now_us + 20 * MS)
    assert_all_delivered_once(wire)


@pytest.mark.parametrize("seed", range(5))
def test_two_that_talk_get_all_of_it_whatever_is_lost(seed: int) -> None:
    wire = RingWire(3, seed=seed, loss=0.05, repeat=0.05, delay_us=(20, 400))
    wire.run(200 * MS)
    talk(wire, range(60))
    wire.run(wire.now_us + 400 * MS)

    assert_all_delivered_once(wire)
