"""One member of a ring, packet by packet."""

from copy import deepcopy

import pytest
from tests.unit.links.rings import NOTHING_NEW, STRANGER, A, B, C, make_ring, passed_token, token

from hopring.errors import Drop, PeerError
from hopring.ids import NEVER, DaemonId
from hopring.links.events import Deliver, LinkFailed, Submit, Tick, Transmit
from hopring.links.ring.events import FromMember, Passed, Release, RingFrame, TransmitTo, Visit, Wish
from hopring.links.ring.options import RingOptions
from hopring.links.ring.ring import Ring, open_ring
from hopring.wire.data import Data, Missing, Segment, cut
from hopring.wire.ring import Held, Hurry, Token


def visit(ring: Ring, sender: DaemonId, frame: Token, now_us: int = 0, release: Release = NOTHING_NEW) -> Token:
    """Lets a token come and go; returns the token that is passed on."""
    assert isinstance(ring.step(FromMember(sender, frame), now_us)[-1], Visit)
    return passed_token(ring.step(release, now_us))


# Windows at run time.


def test_new_windows_apply_from_the_next_visit_on() -> None:
    ring = make_ring()
    wide = ring.step(FromMember(A, token(1)), now_us=0)[-1]
    ring.tune(personal_segments=100, global_segments=100)
    ring.step(NOTHING_NEW, now_us=0)
    narrow = ring.step(FromMember(A, token(4)), now_us=0)[-1]

    assert isinstance(wide, Visit)
    assert isinstance(narrow, Visit)
    assert (wide.local_segments, narrow.local_segments) == (512, 100)


def test_tokens_of_a_member_with_larger_windows_are_accepted() -> None:
    ring = make_ring(options=RingOptions(personal_window_segments=46, global_window_segments=46))

    assert visit(ring, A, token(1, flow_control=100_000)).flow_control == 100_000


# A visit.


def test_the_representative_makes_the_first_token_on_its_first_tick() -> None:
    ring = make_ring(A)

    assert ring.wake_at_us == 0
    [first] = ring.step(Tick(), now_us=0)

    assert isinstance(first, Visit)
    assert (first.number, first.site_seq, first.site_lts, first.site_aru) == (0, 0, 0, 0)
    assert ring.step(NOTHING_NEW, now_us=0) == [TransmitTo(B, (token(1, quiet=1),)), Passed(1, 0)]


def test_a_visit_sends_packs_numbers_and_passes() -> None:
    ring = make_ring(initial_seq=40)
    ring.step(FromMember(A, token(1, 40, 40)), now_us=0)

    release = Release(site_seq=2, site_lts=9, local_aru=7, objects=(b"one", b"two"))

    assert ring.step(release, now_us=0) == [
        Transmit((Data(41, b"onetwo"),)),
        TransmitTo(C, (token(2, 41, 41, flow_control=1, site_seq=2, site_lts=9, site_aru=7),)),
        Passed(2, site_aru=0),
    ]


def test_the_site_aru_can_be_used_after_a_second_visit() -> None:
    ring = make_ring()
    release = Release(site_seq=0, site_lts=9, local_aru=7)
    visit(ring, A, token(1), release=release)

    outputs = ring.step(FromMember(A, token(4, site_lts=9, site_aru=6, site_aru_modifier=C)), now_us=0)
    assert outputs[-1] == Visit(4, 0, 9, site_aru=0, local_segments=512)

    assert ring.step(release, now_us=0)[-1] == Passed(5, site_aru=6)


def test_each_aru_has_a_modifier_of_its_own() -> None:
    ring = make_ring()

    left = visit(ring, A, token(1, 5, 5, site_lts=9, site_aru=3, site_aru_modifier=C), release=Release(0, 9, 8))

    assert (left.link_aru, left.link_aru_modifier) == (0, B)
    assert (left.site_aru, left.site_aru_modifier) == (3, C)


def test_transit_waits_for_the_token_and_goes_behind_local_objects() -> None:
    ring = make_ring()

    assert ring.step(Submit(b"transit"), now_us=0) == []
    assert ring.step(Submit(b"urgent", urgent=True), now_us=0) == []
    ring.step(FromMember(A, token(1)), now_us=0)
    outputs = ring.step(Release(1, 1, 0, (b"local",)), now_us=0)

    assert outputs[0] == Transmit((Data(1, b"urgent"), Data(2, b"localtransit")))


def test_an_object_is_kept_until_all_members_have_it() -> None:
    ring = make_ring()
    visit(ring, A, token(1), release=Release(1, 1, 1, (b"mine",)))
    stamped = {"site_seq": 1, "site_lts": 1}
    after = Release(1, 1, 1)

    visit(ring, A, token(4, 1, 0, link_aru_modifier=C, **stamped), release=after)
    visit(ring, A, token(7, 1, 1, **stamped), release=after)
    asked = ring.step(FromMember(A, token(10, 1, 1, missing=(Missing(1, 1),), **stamped)), now_us=0)
    assert asked[0] == Transmit((Data(1, b"mine"),))  # One value alone proves nothing yet.
    ring.step(after, now_us=0)
    asked = ring.step(FromMember(A, token(13, 1, 1, missing=(Missing(1, 1),), **stamped)), now_us=0)

    assert len(asked) == 1


# Packets.


def test_packets_are_delivered_at_once_in_any_order_and_once() -> None:
    ring = make_ring()

    assert ring.step(FromMember(C, Data(2, b"two")), now_us=0) == [Deliver(b"two")]
    assert ring.step(FromMember(A, Data(1, b"one")), now_us=0) == [Deliver(b"one")]
    assert ring.step(FromMember(A, Data(2, b"two")), now_us=0) == []


def test_own_packets_are_not_delivered_when_they_come_back() -> None:
    ring = make_ring()
    visit(ring, A, token(1), release=Release(1, 1, 0, (b"mine",)))

    assert ring.step(FromMember(B, Data(1, b"mine")), now_us=0) == []
    assert ring.step(FromMember(C, Data(1, b"mine")), now_us=0) == []


def test_only_packets_that_were_missing_in_the_last_visit_too_are_requested() -> None:
    ring = make_ring()

    first = visit(ring, A, token(1, link_seq=3))
    second = visit(ring, A, token(4, link_seq=5))

    assert first.missing == ()
    assert second.missing == (Missing(1, 3),)


def test_only_the_missing_segments_are_asked_for() -> None:
    ring = make_ring()
    visit(ring, A, token(1, link_seq=1))
    first, _, third = cut(1, bytes(3000), RingOptions().chunk_bytes)
    ring.step(FromMember(A, first), now_us=0)
    ring.step(FromMember(A, third), now_us=0)

    assert visit(ring, A, token(4, link_seq=1)).missing == (Missing(1, 1, 0b010),)


def test_a_holder_of_a_requested_packet_resends_it_and_removes_the_request() -> None:
    ring = make_ring()
    ring.step(FromMember(A, Data(1, bytes(3000))), now_us=0)
    ring.step(FromMember(A, Data(2, b"two")), now_us=0)
    wanted = (Missing(1, 1, 0b101), Missing(2, 2))

    outputs = ring.step(FromMember(A, token(1, 3, missing=wanted)), now_us=0)
    left = passed_token(ring.step(NOTHING_NEW, now_us=0))

    first, _, third = cut(1, bytes(3000), RingOptions().chunk_bytes)
    assert outputs[0] == Transmit((first, third, Data(2, b"two")))
    assert left.missing == (Missing(3, 1),)
    assert left.flow_control == 3


def test_requests_beyond_the_window_stay_on_the_token() -> None:
    ring = make_ring(options=RingOptions(personal_window_segments=2))
    for seq in (1, 2, 3):
        ring.step(FromMember(A, Data(seq, b"small")), now_us=0)

    left = visit(ring, A, token(1, 3, missing=(Missing(1, 3),)))

    assert left.missing == (Missing(3, 1),)
    assert left.flow_control == 2


def test_a_packet_of_a_member_with_larger_packets_is_sent_again_alone() -> None:
    ring = make_ring(options=RingOptions(personal_window_segments=2))
    for seq in (1, 2):
        ring.step(FromMember(A, Data(seq, bytes(ring.object_bytes_max))), now_us=0)

    left = visit(ring, A, token(1, 2, missing=(Missing(1, 2),)))

    assert left.missing == (Missing(2, 1),)
    assert left.flow_control == 46


# Windows that are too small for all kinds at once.


def data_of(ring: Ring, number: int, release: Release = NOTHING_NEW) -> list[bytes]:
    """The packets that a visit sends."""
    aru, last = ring.state.store.aru, ring.state.passed
    again = token(number, aru, aru, site_seq=last.site_seq, site_lts=last.site_lts)
    ring.step(FromMember(A, again), now_us=0)
    outputs = ring.step(release, now_us=0)
    frames = [frame for out in outputs if isinstance(out, Transmit) for frame in out.frames]
    return [frame.payload for frame in frames if isinstance(frame, Data)]


def test_in_a_window_of_one_segment_local_objects_and_transit_take_turns() -> None:
    ring = make_ring(options=RingOptions(personal_window_segments=1))
    for body in (b"t1", b"t2"):
        ring.step(Submit(body.ljust(1_000)), now_us=0)
    local = Release(0, 0, 0, (b"local".ljust(1_000),))

    assert data_of(ring, 1) == [b"t1".ljust(1_000)]
    assert data_of(ring, 4, local) == [b"local".ljust(1_000)]
    assert data_of(ring, 7) == [b"t2".ljust(1_000)]
    assert data_of(ring, 10, local) == [b"local".ljust(1_000)]


def test_transit_has_its_turn_alone() -> None:
    ring = make_ring(options=RingOptions(personal_window_segments=1))
    ring.step(Submit(bytes(1_000)), now_us=0)

    assert room_in(ring, token(1)) == 0


def test_transit_that_was_cut_for_larger_packets_goes_alone() -> None:
    ring = make_ring(options=RingOptions(personal_window_segments=1))
    ring.step(Submit(bytes(5_000)), now_us=0)
    ring.step(Submit(b"next"), now_us=0)

    assert data_of(ring, 1) == [bytes(5_000)]
    assert data_of(ring, 4) == [b"next"]


def test_an_urgent_object_that_was_cut_for_larger_packets_passes() -> None:
    ring = make_ring(options=RingOptions(personal_window_segments=1))
    ring.step(Submit(bytes(ring.object_bytes_max), urgent=True), now_us=0)

    assert data_of(ring, 1) == [bytes(ring.object_bytes_max)]


def test_own_objects_that_were_cut_for_larger_packets_go_one_by_one() -> None:
    ring = make_ring()
    ring.tune(personal_segments=1, global_segments=1)
    long = bytes(5_000)

    assert data_of(ring, 1, Release(1, 1, 0, (long,))) == [long]
    with pytest.raises(AssertionError):
        data_of(ring, 4, Release(2, 2, 0, (long, b"more")))


def test_a_packet_that_comes_whole_needs_its_segments_no_more() -> None:
    ring = make_ring()
    ring.step(FromMember(A, cut(1, bytes(3000), RingOptions().chunk_bytes)[0]), now_us=0)

    assert ring.step(FromMember(A, Data(1, bytes(3000))), now_us=0) == [Deliver(bytes(3000))]
    assert len(ring.state.store.assembly) == 0


def room_in(ring: Ring, frame: Token) -> int:
    told = ring.step(FromMember(A, frame), now_us=0)[-1]
    assert isinstance(told, Visit)
    return told.local_segments


def test_transit_that_waits_has_half_of_the_window() -> None:
    alone, shared = make_ring(), make_ring()
    for _ in range(20):
        shared.step(Submit(bytes(60_000)), now_us=0)

    assert room_in(alone, token(1)) == 512
    assert room_in(shared, token(1)) == 256


def test_the_window_opens_by_what_all_have_and_not_by_what_the_token_says_just_now() -> None:
    ring = make_ring(options=RingOptions(unstable_packets_max=30, urgent_packets_reserve=5))

    assert room_in(ring, token(1, link_seq=21, link_aru=21)) == 0


# Tokens that come twice, or not at all.


def test_a_token_is_resent_until_the_next_member_confirms_it() -> None:
    ring = make_ring(options=RingOptions(token_resend_us=10_000))
    left = visit(ring, A, token(1))

    assert ring.step(Tick(), now_us=9_999) == []
    assert ring.step(Tick(), now_us=10_000) == [TransmitTo(C, (left,))]
    assert ring.wake_at_us == 20_000
    assert ring.step(FromMember(C, Held(2)), now_us=10_500) == []
    assert ring.wake_at_us == 300_000


def test_an_old_answer_does_not_stop_the_resending() -> None:
    ring = make_ring()
    visit(ring, A, token(1))

    ring.step(FromMember(C, Held(1)), now_us=0)

    assert ring.wake_at_us == 10_000


def test_a_packet_of_a_later_holder_confirms_the_token_too() -> None:
    ring = make_ring()
    visit(ring, A, token(1, link_seq=3))

    ring.step(FromMember(C, Data(3, b"sent again")), now_us=0)
    assert ring.wake_at_us == 10_000
    ring.step(FromMember(C, Data(4, b"new")), now_us=0)

    assert ring.wake_at_us == 300_000


@pytest.mark.interpreted  # Copies a ring.
def test_a_token_that_comes_again_is_answered_and_does_nothing_else() -> None:
    ring = make_ring()
    visit(ring, A, token(1))
    before = deepcopy(ring)

    assert ring.step(FromMember(A, token(1)), now_us=100) == [TransmitTo(A, (Held(1),))]
    assert ring == before


@pytest.mark.interpreted  # Copies a ring.
def test_a_token_from_an_earlier_rotation_is_dropped() -> None:
    ring = make_ring()
    visit(ring, A, token(1))
    visit(ring, A, token(4))
    before = deepcopy(ring)

    assert ring.step(FromMember(A, token(1)), now_us=100) == []
    assert ring == before


def test_no_token_up_to_the_limit_fails_the_ring_once_and_for_ever() -> None:
    ring = make_ring(options=RingOptions(token_loss_us=300_000))

    assert ring.step(Tick(), now_us=299_999) == []
    assert ring.step(Tick(), now_us=300_000) == [LinkFailed("no token for 300 ms", True, 300_000)]
    assert ring.wake_at_us == NEVER
    assert ring.step(Tick(), now_us=900_000) == []
    assert ring.step(FromMember(A, token(1)), now_us=900_000) == []
    assert ring.step(FromMember(STRANGER, Hurry()), now_us=900_000) == []
    assert ring.step(Submit(b"too late"), now_us=900_000) == []
    assert ring.step(Wish(), now_us=900_000) == []


# The idle token.


def make_idle_ring(hold_us: int = 50_000) -> Ring:
    """A representative that has held the token since 10 ms."""
    ring = make_ring(A, RingOptions(hold_us=hold_us))
    ring.step(Tick(), now_us=0)
    ring.step(NOTHING_NEW, now_us=0)
    assert ring.step(FromMember(C, token(3, quiet=6)), now_us=10_000) == [Transmit((Held(3),))]
    return ring


def test_the_representative_holds_an_idle_token_and_announces_it() -> None:
    ring = make_idle_ring(hold_us=50_000)

    assert ring.wake_at_us == 60_000
    assert isinstance(ring.step(Tick(), now_us=60_000)[0], Visit)


def test_a_token_that_comes_again_while_held_is_answered() -> None:
    ring = make_idle_ring()

    assert ring.step(FromMember(C, token(3, quiet=6)), now_us=20_000) == [TransmitTo(C, (Held(3),))]
    assert ring.wake_at_us == 60_000


def test_a_hurry_frees_the_held_token_at_once() -> None:
    ring = make_idle_ring()

    assert isinstance(ring.step(FromMember(C, Hurry()), now_us=20_000)[0], Visit)


@pytest.mark.parametrize("event", [Wish(), Submit(b"transit"), Submit(b"urgent", urgent=True)])
def test_a_wish_or_a_submit_at_the_representative_waits_only_for_the_tick(event: Wish | Submit) -> None:
    ring = make_idle_ring()

    assert ring.step(event, now_us=20_000) == []
    assert ring.wake_at_us == 20_000
    assert isinstance(ring.step(Tick(), now_us=20_000)[0], Visit)


def test_a_hurry_that_overtakes_the_token_keeps_it_from_being_held() -> None:
    ring = make_ring(A)
    ring.step(Tick(), now_us=0)
    ring.step(NOTHING_NEW, now_us=0)

    ring.step(FromMember(C, Hurry()), now_us=9_000)

    assert isinstance(ring.step(FromMember(C, token(3, quiet=6)), now_us=10_000)[0], Visit)


def test_the_token_turns_freely_for_a_while_after_traffic() -> None:
    ring = make_ring(A, RingOptions(free_rotation_us=1_000))
    ring.step(Tick(), now_us=0)
    ring.step(NOTHING_NEW, now_us=0)
    visit(ring, C, token(3, quiet=2), now_us=100)

    assert isinstance(ring.step(FromMember(C, token(6, quiet=6)), now_us=1_099)[0], Visit)
    ring.step(NOTHING_NEW, now_us=1_099)
    assert ring.step(FromMember(C, token(9, quiet=9)), now_us=1_100) == [Transmit((Held(9),))]


def test_no_other_member_holds_the_token() -> None:
    ring = make_ring()

    assert visit(ring, A, token(1, quiet=100), now_us=10_000).quiet == 101


def test_a_member_with_work_hurries_a_token_that_may_be_held_until_it_comes() -> None:
    ring = make_ring(options=RingOptions(hurry_resend_us=5_000))
    visit(ring, A, token(1, quiet=4))

    assert ring.step(Wish(), now_us=1_000) == []
    assert ring.wake_at_us == 1_000
    assert ring.step(Tick(), now_us=1_000) == [TransmitTo(A, (Hurry(),))]
    ring.step(Submit(b"more work"), now_us=2_000)
    assert ring.step(Tick(), now_us=2_000) == []
    assert ring.step(Tick(), now_us=6_000) == [TransmitTo(A, (Hurry(),))]
    visit(ring, A, token(4, quiet=5), now_us=6_100)
    assert ring.wake_at_us == 16_100


def test_a_token_that_cannot_have_stopped_is_not_hurried() -> None:
    ring = make_ring()
    visit(ring, A, token(1, quiet=3))

    ring.step(Wish(), now_us=1_000)

    assert ring.wake_at_us == 10_000


@pytest.mark.parametrize(
    ("arrives", "release"),
    [
        pytest.param(token(1, quiet=5), Release(0, 0, 0, busy=True), id="a promise is owed"),
        pytest.param(token(1, quiet=5), Release(1, 1, 0, (b"x",)), id="something was sent"),
        pytest.param(token(1, quiet=5), Release(0, 3, 0), id="the clock went on"),
        pytest.param(token(1, quiet=5), Release(0, 0, 3), id="the site ARU changed"),
        pytest.param(token(1, 3, 3, quiet=5), Release(0, 0, 0), id="the link ARU changed"),
        pytest.param(token(1, 3, missing=(Missing(3, 1),), quiet=5), Release(0, 0, 0), id="others ask"),
    ],
)
def test_any_work_in_a_visit_ends_the_silence(arrives: Token, release: Release) -> None:
    assert visit(make_ring(), A, arrives, release=release).quiet == 0


def test_a_visit_without_work_adds_to_the_silence() -> None:
    assert visit(make_ring(), A, token(1, quiet=5)).quiet == 6


# A ring of one.


def make_lone_ring() -> Ring:
    return open_ring(A, (A,), RingOptions(lone_visit_us=250), initial_seq=0, now_us=0)


def settle(ring: Ring, release: Release) -> int:
    """Ticks a lone ring until it asks for no more; returns the final site ARU."""
    site_aru = -1
    while ring.wake_at_us < NEVER:
        now_us = ring.wake_at_us
        assert isinstance(ring.step(Tick(), now_us)[0], Visit)
        [passed] = ring.step(release, now_us)
        assert isinstance(passed, Passed)
        site_aru = passed.site_aru
    return site_aru


def test_a_lone_ring_settles_sends_nothing_and_comes_to_rest() -> None:
    assert settle(make_lone_ring(), Release(5, 9, 9, (b"for nobody",))) == 9


def test_a_lone_ring_is_visited_on_demand() -> None:
    ring = make_lone_ring()
    settle(ring, Release(0, 0, 0))

    ring.step(Wish(), now_us=7_000_000)

    assert ring.wake_at_us == 7_000_000
    assert settle(ring, Release(1, 4, 4)) == 4


def test_a_lone_ring_that_owes_a_promise_is_visited_again_soon_but_not_at_once() -> None:
    ring = make_lone_ring()
    for now_us in (0, 250, 500, 750):
        assert ring.wake_at_us == now_us
        ring.step(Tick(), now_us)
        ring.step(Release(0, 0, 0, busy=True), now_us)


def test_a_lone_ring_carries_transit_to_nobody() -> None:
    ring = make_lone_ring()
    settle(ring, Release(0, 0, 0))

    ring.step(Submit(b"transit"), now_us=1_000)

    assert ring.wake_at_us == NEVER


# Invalid input.


@pytest.mark.interpreted  # Copies a ring.
@pytest.mark.parametrize(
    ("sender", "frame", "reason"),
    [
        pytest.param(STRANGER, token(4, 1), Drop.FOREIGN_SENDER, id="token of a stranger"),
        pytest.param(STRANGER, Data(2, b"x"), Drop.FOREIGN_SENDER, id="packet of a stranger"),
        pytest.param(STRANGER, Hurry(), Drop.FOREIGN_SENDER, id="hurry of a stranger"),
        pytest.param(C, token(4, 1), Drop.INCONSISTENT, id="token from the wrong side"),
        pytest.param(A, token(5, 1), Drop.INCONSISTENT, id="token of the next rotation"),
        pytest.param(A, token(4, 0), Drop.INCONSISTENT, id="link_seq fell"),
        pytest.param(A, token(4, 1, site_lts=4), Drop.INCONSISTENT, id="site_lts fell"),
        pytest.param(A, token(4, 1, site_lts=5, site_seq=1), Drop.INCONSISTENT, id="site_seq fell"),
        pytest.param(A, token(4, 1, 2), Drop.INCONSISTENT, id="link_aru above link_seq"),
        pytest.param(A, token(4, 1026), Drop.OUT_OF_WINDOW, id="link_seq past the window"),
        pytest.param(
            A,
            token(4, 1, site_lts=5, site_seq=2, link_aru_modifier=STRANGER),
            Drop.INCONSISTENT,
            id="ARU lowered by a stranger",
        ),
        pytest.param(
            A, token(4, 1, site_lts=5, site_seq=2, flow_control=2**32 - 1), Drop.LIMIT, id="endless flow"
        ),
        pytest.param(
            A, token(4, 1, site_lts=2**64 - 1, site_seq=2), Drop.OUT_OF_WINDOW, id="stamp beyond the last"
        ),
        pytest.param(
            A, token(4, 1, site_lts=5, site_seq=2**64 - 1), Drop.OUT_OF_WINDOW, id="bundle beyond the last"
        ),
        pytest.param(C, Held(4), Drop.INCONSISTENT, id="held what comes here first"),
        pytest.param(C, Data(1026, b"x"), Drop.OUT_OF_WINDOW, id="packet past the window"),
        pytest.param(
            C, Segment(1026, 0, 2, 1357, bytes(1356)), Drop.OUT_OF_WINDOW, id="segment past the window"
        ),
        pytest.param(C, Data(2, bytes(65_001)), Drop.LIMIT, id="packet too long"),
        pytest.param(C, Segment(2, 0, 3, 3000, bytes(1200)), Drop.INCONSISTENT, id="another cut"),
        pytest.param(C, Segment(2, 0, 2, 1357, bytes(1300)), Drop.INCONSISTENT, id="another cut, same count"),
    ],
)
def test_invalid_input_is_refused_and_changes_nothing(sender: DaemonId, frame: RingFrame, reason: Drop) -> None:
    ring = make_ring()
    ring.step(FromMember(A, Data(1, b"one")), now_us=0)
    visit(ring, A, token(1, 1), release=Release(2, 5, 5))
    before = deepcopy(ring)

    with pytest.raises(PeerError) as error:
        ring.step(FromMember(sender, frame), now_us=1)

    assert error.value.reason == reason
    assert ring == before


@pytest.mark.interpreted  # Copies a ring.
def test_the_layer_above_must_not_exceed_the_offered_space() -> None:
    ring = make_ring()
    [told] = ring.step(FromMember(A, token(1)), now_us=0)
    assert isinstance(told, Visit)
    before = deepcopy(ring)
    too_much = (bytes(46 * 1_356),) * (told.local_segments // 46 + 1)

    with pytest.raises(AssertionError):
        ring.step(Release(1, 1, 0, too_much), now_us=0)

    assert ring == before


def test_a_full_queue_is_reported() -> None:
    ring = make_ring(options=RingOptions(queue_bytes_max=10))

    assert ring.transit_open
    ring.step(Submit(bytes(10)), now_us=0)

    assert not ring.transit_open
    with pytest.raises(AssertionError):
        ring.step(Submit(b"x"), now_us=0)


def test_a_daemon_outside_the_ring_cannot_make_one() -> None:
    with pytest.raises(AssertionError):
        open_ring(STRANGER, (A, B, C), RingOptions(), initial_seq=0, now_us=0)
