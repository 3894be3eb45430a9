"""A member that waits for an answer with the token in hand: packet by packet, and among others."""

import pytest
from tests.unit.links.test_ring import A, B, make_ring, passed_token, token
from tests.unit.links.test_ring_keep import send
from tests.unit.links.test_ring_together import MS, Wire, assert_all_delivered_once, bodies

from hopring.links.events import Deliver, Tick, Transmit
from hopring.links.ring import Ring
from hopring.links.ring_answer import BUSY_SEGMENTS, SCORE_MAX, SURE
from hopring.links.ring_events import FromMember, Release, Visit, Wish
from hopring.links.ring_options import RingOptions
from hopring.wire.data import Data, Missing
from hopring.wire.ring import Held, Hurry, Token

WAITS = RingOptions(answer_us=500)


def heard(ring: Ring, seq: int, now_us: int) -> None:
    assert ring.step(FromMember(A, Data(seq, b"question")), now_us) == [Deliver(b"question")]


def make_answerer(options: RingOptions = WAITS, late_us: int = 100) -> tuple[Ring, int]:
    """A member that has answered SURE questions so much later; and how many packets there are."""
    ring = make_ring(B, options)
    seq = 0
    for turn in range(SURE):
        begin_us = turn * 10_000
        heard(ring, seq + 1, begin_us)
        ring.step(Wish(), begin_us + late_us)
        assert isinstance(ring.step(FromMember(A, come(turn, seq + 1)), begin_us + late_us)[-1], Visit)
        send(ring, turn + 1, begin_us + late_us)
        seq += 2
    return ring, seq


def come(turn: int, link_seq: int, **more: object) -> Token:
    """The token of this turn, as A passes it on."""
    fields = {"link_seq": link_seq, "link_aru": link_seq, "site_seq": turn, "site_lts": turn, **more}
    return token(1 + 3 * turn, **fields)  # type: ignore[arg-type]


def test_who_has_answered_soon_waits_for_the_next_answer_and_says_so() -> None:
    ring, seq = make_answerer()
    heard(ring, seq + 1, 50_000)

    assert ring.step(FromMember(A, come(SURE, seq + 1)), 50_100) == [Transmit((Held(1 + 3 * SURE),))]
    assert ring.wake_at_us == 50_600
    ring.step(Wish(), 50_300)
    assert ring.wake_at_us == 50_300
    assert isinstance(ring.step(Tick(), 50_300)[-1], Visit)
    assert passed_token(send(ring, SURE + 1, 50_300)).link_seq == seq + 2


def test_if_none_comes_it_goes_on_and_waits_no_more_before_it_has_answered_again() -> None:
    ring, seq = make_answerer()
    heard(ring, seq + 1, 50_000)
    ring.step(FromMember(A, come(SURE, seq + 1)), 50_100)
    assert ring.step(Tick(), 50_599) == []
    assert isinstance(ring.step(Tick(), 50_600)[-1], Visit)
    passed_token(ring.step(Release(SURE, SURE, 0, (), False, False), 50_600))
    heard(ring, seq + 2, 60_000)

    assert ring.state.answering.score == SURE - 1
    assert isinstance(ring.step(FromMember(A, come(SURE + 1, seq + 2)), 60_100)[-1], Visit)


def test_who_asks_gets_it_at_once() -> None:
    ring, seq = make_answerer()
    heard(ring, seq + 1, 50_000)
    ring.step(FromMember(A, come(SURE, seq + 1)), 50_100)

    assert isinstance(ring.step(FromMember(A, Hurry()), 50_200)[-1], Visit)
    assert ring.state.answering.score == SURE


@pytest.mark.parametrize("late_us", [501, 5_000])
def test_who_answers_late_is_not_waited_for(late_us: int) -> None:
    ring, seq = make_answerer(late_us=late_us)
    heard(ring, seq + 1, 50_000)

    assert isinstance(ring.step(FromMember(A, come(SURE, seq + 1)), 50_100)[-1], Visit)


def test_it_waits_only_behind_a_packet_that_has_just_come() -> None:
    ring, seq = make_answerer()
    assert isinstance(ring.step(FromMember(A, come(SURE, seq)), 50_000)[-1], Visit)

    ring, seq = make_answerer()
    heard(ring, seq + 1, 50_000)
    assert isinstance(ring.step(FromMember(A, come(SURE, seq + 1)), 50_501)[-1], Visit)


def test_it_does_not_wait_with_what_others_want() -> None:
    for more in ({"missing": (Missing(1, 1),)}, {"flow_control": BUSY_SEGMENTS + 2}):
        ring, seq = make_answerer()
        heard(ring, seq + 1, 50_000)
        assert isinstance(ring.step(FromMember(A, come(SURE, seq + 1, **more)), 50_100)[-1], Visit)
    ring, seq = make_answerer()
    heard(ring, seq + 1, 50_000)
    ring.settling = True  # A Safe bundle waits.
    assert isinstance(ring.step(FromMember(A, come(SURE, seq + 1)), 50_100)[-1], Visit)
    ring, seq = make_answerer()
    heard(ring, seq + 2, 50_000)  # One before it is missing.
    assert isinstance(ring.step(FromMember(A, come(SURE, seq + 2)), 50_100)[-1], Visit)
    ring, seq = make_answerer(RingOptions())
    heard(ring, seq + 1, 50_000)
    assert isinstance(ring.step(FromMember(A, come(SURE, seq + 1)), 50_100)[-1], Visit)


def test_the_score_stays_within_its_limits() -> None:
    answering = make_ring(B, WAITS).state.answering
    for at in range(10):
        answering.heard(at)
        answering.has(at)
    assert answering.score == SCORE_MAX
    for _ in range(10):
        answering.in_vain()
    assert answering.score == 0


# Among others.


def rally(wire: Wire, balls: int, every_us: int) -> list[int]:
    """Two that answer each other; how long each ball waited for the token."""
    waited_us = []
    for number in range(balls):
        begin_us = wire.now_us
        wire.multicast(number % 2, b"ball %d" % number)
        while wire[number % 2].to_stamp and wire.now_us < begin_us + 100 * MS:
            wire.run(wire.now_us + 10)
        waited_us.append(wire.now_us - begin_us)
        wire.run(wire.now_us + every_us)
    return waited_us


def test_two_who_answer_each_other_find_the_token() -> None:
    plain, waiting = Wire(3), Wire(3, options=WAITS)
    for wire in (plain, waiting):
        wire.run(200 * MS)

    assert sum(rally(plain, 40, 170)[10:]) / 30 >= 50
    assert max(rally(waiting, 40, 170)[10:]) <= 10
    waiting.run(waiting.now_us + 50 * MS)
    assert_all_delivered_once(waiting)


def test_a_third_one_gets_the_token_all_the_same() -> None:
    wire = Wire(3, options=WAITS)
    wire.run(200 * MS)
    rally(wire, 20, 170)
    wire.multicast(2, b"may I")
    wire.run(wire.now_us + 1 * MS)

    assert not wire[2].to_stamp
    rally(wire, 20, 170)
    wire.run(wire.now_us + 50 * MS)
    assert_all_delivered_once(wire)


@pytest.mark.parametrize("seed", range(20))
def test_on_a_lossy_wire_all_is_delivered_once(seed: int) -> None:
    wire = Wire(3, seed, loss=0.1, repeat=0.05, delay_us=(20, 300), options=RingOptions(answer_us=2 * MS))
    wire.run(50 * MS)
    rally(wire, 60, 500)
    wire.multicast(2, *bodies("more", 20, 5_000))
    rally(wire, 20, 500)
    wire.loss = 0.0
    wire.run(wire.now_us + 500 * MS)

    assert_all_delivered_once(wire)
