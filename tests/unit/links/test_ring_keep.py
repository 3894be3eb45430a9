"""A member that keeps the token: packet by packet, and among others on a lossy wire."""

import pytest
from tests.unit.links.ring_wire import MS, RingWire, assert_all_delivered_once, bodies
from tests.unit.links.rings import A, B, C, make_ring, passed_token, token

from hopring.ids import NOBODY, DaemonId
from hopring.links.events import Submit, Tick, Transmit
from hopring.links.ring.events import FromMember, Passed, Release, TransmitTo, Visit, Wish
from hopring.links.ring.options import RingOptions
from hopring.links.ring.ring import Output, Ring
from hopring.links.ring.state import KEPT_SEGMENTS_MAX
from hopring.wire.data import Data
from hopring.wire.ring import Held, Hurry, Token


def send(ring: Ring, number: int, now_us: int, *, safe_waits: bool = False, busy: bool = False) -> list[Output]:
    """Submits the next bundle of this member in the visit that has just begun."""
    release = Release(number, number, 0, (b"object %d" % number,), busy, safe_waits)
    return ring.step(release, now_us)


def make_sender(me: DaemonId = B, options: RingOptions | None = None) -> Ring:
    """A member that has sent once, and has the token again, at the time 1 ms."""
    ring = make_ring(me, options)
    ring.step(FromMember(A, token(1)), now_us=0)
    send(ring, 1, now_us=0)
    back = token(4, link_seq=1, link_aru=1, site_seq=1, site_lts=1, flow_control=1)
    assert isinstance(ring.step(FromMember(A, back), now_us=1_000)[-1], Visit)
    return ring


def make_keeper(options: RingOptions | None = None) -> Ring:
    """The same a little later: it has sent once more, and kept the token."""
    ring = make_sender(options=options)
    assert send(ring, 2, now_us=1_000) == [Transmit((Data(2, b"object 2"), Held(4)))]
    return ring


def wish(ring: Ring, now_us: int) -> None:
    ring.step(Wish(), now_us)
    assert ring.wake_at_us == now_us
    assert isinstance(ring.step(Tick(), now_us)[-1], Visit)


def test_a_member_that_sends_twice_in_a_row_keeps_the_token_and_announces_it() -> None:
    ring = make_keeper()

    assert ring.wake_at_us == 1_000 + ring.options.keep_us


def test_the_first_packet_after_anothers_goes_with_the_token() -> None:
    ring = make_ring()
    ring.step(FromMember(A, token(1, link_seq=7, link_aru=7)), now_us=0)

    assert passed_token(send(ring, 1, now_us=0)).link_seq == 8


def test_objects_submitted_while_it_is_kept_are_sent_at_once() -> None:
    ring = make_keeper()

    wish(ring, 1_200)

    assert send(ring, 3, now_us=1_200) == [Transmit((Data(3, b"object 3"), Held(4)))]


def test_the_token_is_passed_when_nothing_more_comes_and_covers_all_that_was_sent() -> None:
    ring = make_keeper()
    wish(ring, 1_200)
    send(ring, 3, now_us=1_200)

    assert isinstance(ring.step(Tick(), now_us=2_200)[-1], Visit)
    gone = passed_token(ring.step(Release(3, 3, 0), now_us=2_200))

    assert (gone.number, gone.link_seq, gone.site_seq, gone.flow_control) == (5, 3, 3, 2)


def test_a_hurry_ends_the_keeping() -> None:
    ring = make_keeper()

    assert isinstance(ring.step(FromMember(C, Hurry()), now_us=1_300)[-1], Visit)
    assert passed_token(send(ring, 3, now_us=1_300)).number == 5


def test_the_keeping_ends_in_time_however_much_is_submitted() -> None:
    ring = make_keeper(RingOptions(keep_us=1_000, keep_us_max=5_000))
    sent = 2
    for now_us in range(1_500, 6_000, 500):
        wish(ring, now_us)
        sent += 1
        assert send(ring, sent, now_us)[0] == Transmit((Data(sent, b"object %d" % sent), Held(4)))

    wish(ring, 6_000)
    assert passed_token(send(ring, sent + 1, now_us=6_000)).number == 5


def test_the_keeping_ends_when_much_was_sent() -> None:
    ring = make_keeper(RingOptions(keep_us=100_000, keep_us_max=100_000))
    for sent in range(3, KEPT_SEGMENTS_MAX + 2):
        wish(ring, 1_500)
        assert isinstance(send(ring, sent, 1_500)[0], Transmit)

    wish(ring, 1_500)
    assert passed_token(send(ring, KEPT_SEGMENTS_MAX + 2, 1_500)).flow_control == KEPT_SEGMENTS_MAX + 1


@pytest.mark.parametrize("reason", ["safe_waits", "busy"])
def test_the_token_is_not_kept_while_bundles_wait_for_it(reason: str) -> None:
    ring = make_sender()

    out = send(ring, 2, now_us=1_000, safe_waits=reason == "safe_waits", busy=reason == "busy")

    assert passed_token(out).number == 5


def test_the_token_is_not_kept_while_transit_waits() -> None:
    ring = make_sender()
    ring.step(Submit(b"from elsewhere"), now_us=1_000)

    assert passed_token(send(ring, 2, now_us=1_000)).number == 5


def test_keeping_can_be_switched_off() -> None:
    ring = make_sender(options=RingOptions(keep_us_max=0))

    assert passed_token(send(ring, 2, now_us=1_000)).number == 5


def test_a_kept_visit_does_not_raise_the_aru() -> None:
    ring = make_keeper()
    discarded = ring.state.store.discarded

    wish(ring, 1_200)
    out = send(ring, 3, now_us=1_200)

    assert not any(isinstance(output, Passed) for output in out)
    assert ring.state.store.discarded == discarded
    assert sorted(ring.state.store.packets) == [1, 2, 3], "a member may lack them"


def test_other_members_hurry_the_member_that_keeps_the_token() -> None:
    ring = make_ring(C)
    ring.step(FromMember(B, token(2)), now_us=0)
    ring.step(Release(0, 0, 0), now_us=0)
    ring.step(FromMember(B, Data(1, b"from B")), now_us=500)
    ring.step(FromMember(B, Held(4)), now_us=500)

    ring.step(Wish(), now_us=600)

    assert ring.wake_at_us == 600
    assert ring.step(Tick(), now_us=600) == [TransmitTo(B, (Hurry(),))]


def test_a_member_that_has_had_the_token_since_hurries_nobody() -> None:
    ring = make_ring(C)
    ring.step(FromMember(B, Held(1)), now_us=0)
    ring.step(FromMember(B, token(2)), now_us=100)
    ring.step(Release(0, 0, 0), now_us=100)

    assert ring.state.keeping.held_by == NOBODY
    ring.step(Wish(), now_us=200)
    assert ring.wake_at_us > 200


def waiting_for_the_one_after() -> Ring:
    """C has passed token 3 on to A."""
    ring = make_ring(C)
    ring.step(FromMember(B, token(2)), now_us=0)
    ring.step(Release(0, 0, 0), now_us=0)
    return ring


def test_a_member_with_earlier_work_hurries_once_it_hears_of_the_keeping() -> None:
    ring = waiting_for_the_one_after()
    ring.step(Wish(), now_us=400)
    assert ring.wake_at_us > 500

    ring.step(FromMember(B, Held(4)), now_us=500)

    assert ring.wake_at_us == 500
    assert ring.step(Tick(), now_us=500) == [TransmitTo(B, (Hurry(),))]


def test_a_member_that_lacks_a_packet_hurries_a_kept_token() -> None:
    ring = waiting_for_the_one_after()

    ring.step(FromMember(B, Data(2, b"the one before is lost")), now_us=500)
    ring.step(FromMember(B, Held(4)), now_us=500)

    assert ring.step(Tick(), now_us=500) == [TransmitTo(B, (Hurry(),))]


def test_a_member_hurries_the_next_one_too_if_the_announcement_may_be_old() -> None:
    ring = make_ring(B)
    ring.step(FromMember(A, token(1, quiet=6)), now_us=0)
    ring.step(Release(0, 0, 0), now_us=0)
    ring.step(FromMember(C, Held(2)), now_us=11_000)  # C has passed it on to A, where it rests.

    ring.step(Wish(), now_us=12_000)

    assert ring.step(Tick(), now_us=12_000) == [TransmitTo(C, (Hurry(),)), TransmitTo(A, (Hurry(),))]


def test_a_kept_token_never_looks_like_a_lost_one() -> None:
    short = RingOptions(token_resend_us=1_000, token_loss_us=4_000, hold_us=0)
    ring = make_keeper(short)

    assert ring.wake_at_us == 2_000
    wish(ring, 2_000)
    assert passed_token(send(ring, 3, now_us=2_000)).number == 5


def test_packets_sent_while_it_was_kept_count_in_the_window() -> None:
    ring = make_keeper()
    ring.step(Wish(), now_us=1_200)
    before = ring.options.personal_window_segments
    visit = ring.step(Tick(), now_us=1_200)[-1]

    assert isinstance(visit, Visit)
    assert ring.state.plan is not None
    assert ring.state.plan.new_segments == before - 1


# Among others.


def test_a_lone_sender_does_not_wait_for_rotations() -> None:
    wire = RingWire(5)
    wire.run(200 * MS)
    wire.frames.clear()

    for body in bodies("one after the other", 50):
        wire.multicast(2, body)
        wire.run(wire.now_us + 100)

    assert wire.frames[Data] > 40
    assert wire.frames[Token] < 50
    wire.run(wire.now_us + 20 * MS)
    assert_all_delivered_once(wire)


def test_two_members_that_answer_each_other_do_not_keep_the_token() -> None:
    wire = RingWire(3)
    wire.run(200 * MS)

    for number in range(40):
        wire.multicast(number % 2, b"ball %d" % number)
        wire.run(wire.now_us + 500)
        assert not wire[number % 2].to_stamp

    wire.run(wire.now_us + 20 * MS)
    assert_all_delivered_once(wire)


def test_a_member_that_wants_a_kept_token_waits_for_one_request_only() -> None:
    wire = RingWire(3)
    wire.run(200 * MS)
    for body in bodies("chatter", 10):
        wire.multicast(1, body)
        wire.run(wire.now_us + 100)
    assert wire.frames[Held] > 5

    wire.multicast(0, b"me too")
    wire.run(wire.now_us + 5 * 50)

    assert wire[0].sent == [b"me too"]


@pytest.mark.parametrize("seed", range(20))
def test_nothing_is_lost_or_called_safe_too_soon_when_packets_are_lost(seed: int) -> None:
    wire = RingWire(4, seed=seed, loss=0.08, repeat=0.05, delay_us=(20, 400))
    wire.run(100 * MS)
    for number in range(150):
        wire.multicast(number // 30 % 4, b"body %d" % number)
        wire.run(wire.now_us + wire.random.randint(50, 900))

    wire.run(wire.now_us + 500 * MS)

    assert_all_delivered_once(wire)
    assert {daemon.site_aru for daemon in wire.all} == {150}
