import pytest
from tests.unit.ordering.small_views import EVERYWHERE, deliver, hold, hold_meta, order_of, promise

from hopring.errors import Drop, PeerError
from hopring.ids import NUMBER_MAX, SiteId, SiteMask
from hopring.ordering.entry import Position
from hopring.ordering.order import IN_FLIGHT_DEFAULT, Order
from hopring.services import Service
from hopring.wire.routed import Meta


def stable(order: Order, lts: int, *sites: int) -> None:
    for site in sites:
        order.stable(SiteId(site), lts)


# Agreed.


def test_an_agreed_bundle_waits_for_every_site() -> None:
    order = order_of(0, 1, 2)

    hold(order, 0, 1, 5, "m")
    promise(order, 1, 0, 6)
    assert deliver(order) == []

    promise(order, 2, 0, 6)
    assert deliver(order) == ["m"]


def test_of_a_site_with_a_higher_number_the_stamp_itself_is_enough() -> None:
    order = order_of(0, 1)
    hold(order, 0, 1, 5, "m")

    promise(order, 1, 0, 5)

    assert deliver(order) == ["m"]


def test_of_a_site_with_a_lower_number_the_stamp_itself_is_not_enough() -> None:
    order = order_of(0, 1)
    hold(order, 1, 1, 5, "m")

    promise(order, 0, 0, 5)
    assert deliver(order) == []

    promise(order, 0, 0, 6)
    assert deliver(order) == ["m"]


def test_equal_stamps_go_by_site() -> None:
    order = order_of(0, 1)

    hold(order, 1, 1, 5, "from one")
    hold(order, 0, 1, 5, "from zero")
    promise(order, 0, 1, 9)
    promise(order, 1, 1, 9)

    assert deliver(order) == ["from zero", "from one"]


def test_a_gap_in_the_own_site_holds_back_what_is_above_it() -> None:
    order = order_of(0, 1)
    promise(order, 1, 0, 50)

    hold(order, 0, 2, 6, "second")
    assert deliver(order) == []

    hold(order, 0, 1, 5, "first")
    assert deliver(order) == ["first", "second"]


def test_a_promise_that_overtakes_its_data_lets_nothing_past_them() -> None:
    order = order_of(0, 1)
    hold(order, 0, 1, 9, "m")

    promise(order, 1, 1, 20)
    assert deliver(order) == []

    hold(order, 1, 1, 4, "older")
    assert deliver(order) == ["older", "m"]


def test_a_late_bundle_is_delivered_before_those_with_later_stamps() -> None:
    order = order_of(0, 1)
    hold(order, 0, 1, 5, "five")
    hold(order, 0, 2, 8, "eight")
    hold(order, 1, 1, 6, "six")

    assert deliver(order) == ["five", "six"]


def test_nothing_is_delivered_twice() -> None:
    order = order_of(0)
    hold(order, 0, 1, 5, "m")
    hold(order, 0, 1, 5, "m")
    assert deliver(order) == ["m"]

    hold(order, 0, 1, 5, "m")
    assert deliver(order) == []


def test_meta_data_have_their_turn_too() -> None:
    order = order_of(0, 1)
    promise(order, 1, 0, 50)

    hold_meta(order, 0, 1, 5)
    hold(order, 0, 2, 6, "m")

    assert deliver(order) == ["-", "m"]


# Safe.


def test_a_safe_bundle_waits_until_its_stamp_is_below_all_stability_lines() -> None:
    order = order_of(0, 1)
    hold(order, 0, 1, 5, "m", Service.SAFE)
    promise(order, 1, 0, 50)

    stable(order, 6, 0)
    stable(order, 5, 1)
    assert deliver(order) == []

    stable(order, 6, 1)
    assert deliver(order) == ["m"]


def test_a_safe_bundle_that_is_not_stable_stops_the_agreed_ones_behind_it() -> None:
    order = order_of(0, 1)
    promise(order, 1, 0, 50)
    hold(order, 0, 1, 5, "agreed")
    hold(order, 0, 2, 6, "safe", Service.SAFE)
    hold(order, 0, 3, 7, "behind")

    assert deliver(order) == ["agreed"]

    stable(order, 7, 0, 1)
    assert deliver(order) == ["safe", "behind"]


def test_the_meta_data_of_a_safe_bundle_stop_nobody() -> None:
    order = order_of(0)
    hold_meta(order, 0, 1, 5)
    hold(order, 0, 2, 6, "m")

    assert deliver(order) == ["-", "m"]


# Reliable and FIFO.


def test_a_reliable_bundle_goes_on_receipt_and_not_again_in_its_turn() -> None:
    order = order_of(0, 1)

    assert hold(order, 0, 2, 6, "m", Service.RELIABLE) == ["m"]

    hold(order, 0, 1, 5, "before")
    promise(order, 1, 0, 50)
    assert deliver(order) == ["before"]


def test_fifo_goes_early_when_its_session_has_nothing_before_it() -> None:
    order = order_of(0, 1)

    assert hold(order, 0, 3, 6, "m", Service.FIFO, prev=0) == ["m"]


def test_fifo_does_not_pass_an_earlier_bundle_of_its_session_that_is_missing() -> None:
    order = order_of(0, 1)

    assert hold(order, 0, 3, 7, "second", Service.FIFO, prev=1) == []
    assert hold(order, 0, 1, 5, "first", Service.FIFO) == ["first", "second"]


def test_fifo_does_not_pass_an_earlier_reliable_bundle() -> None:
    order = order_of(0, 1)

    assert hold(order, 0, 2, 6, "fifo", Service.FIFO, prev=1) == []
    assert hold(order, 0, 1, 5, "reliable", Service.RELIABLE) == ["reliable", "fifo"]


def test_fifo_does_not_pass_an_earlier_agreed_bundle_that_waits_for_its_turn() -> None:
    order = order_of(0, 1)

    assert hold(order, 0, 1, 5, "agreed") == []
    assert hold(order, 0, 2, 6, "fifo", Service.FIFO, prev=1) == []

    promise(order, 1, 0, 6)
    assert deliver(order) == ["agreed", "fifo"]


def test_fifo_passes_an_agreed_bundle_of_another_session() -> None:
    order = order_of(0, 1)
    hold(order, 0, 1, 5, "other")

    assert hold(order, 0, 2, 6, "fifo", Service.FIFO, prev=0) == ["fifo"]


def test_fifo_steps_over_a_pruned_bundle_of_its_session() -> None:
    order = order_of(0, 1)
    hold(order, 0, 1, 5, "first", Service.FIFO)

    assert hold(order, 0, 3, 7, "third", Service.FIFO, prev=2) == []
    assert hold_meta(order, 0, 2, 6, prev=1) == ["third"]


def test_a_chain_of_pruned_bundles_does_not_stall_fifo() -> None:
    order = order_of(0, 1)

    for seq in (4, 3, 2):
        assert hold_meta(order, 0, seq, 4 + seq, prev=seq - 1) == []
    assert hold(order, 0, 5, 9, "last", Service.FIFO, prev=4) == []

    assert hold(order, 0, 1, 5, "first", Service.FIFO) == ["first", "last"]


def test_a_fifo_bundle_that_was_not_early_is_delivered_at_its_turn() -> None:
    order = order_of(0)
    hold(order, 0, 1, 5, "agreed")
    hold(order, 0, 2, 6, "fifo", Service.FIFO, prev=1)

    assert deliver(order) == ["agreed", "fifo"]


def test_fifo_after_a_bundle_that_is_forgotten_goes_at_once() -> None:
    order = order_of(0)
    hold(order, 0, 1, 5, "old")
    deliver(order)
    stable(order, 6, 0)
    order.discard()

    assert hold(order, 0, 2, 9, "new", Service.FIFO, prev=1) == ["new"]


def test_a_chain_of_a_thousand_waiting_fifo_bundles_is_delivered_at_once() -> None:
    order = order_of(0, 1)
    for seq in range(2, 1_000):
        hold(order, 0, seq, seq, str(seq), Service.FIFO, prev=seq - 1)

    assert len(hold(order, 0, 1, 1, "first", Service.FIFO)) == 999


# Lines and forgetting.


def test_the_lines_are_the_least_of_all_sites() -> None:
    order = order_of(0, 1, 2, start_lts=10)
    promise(order, 0, 0, 20)
    promise(order, 1, 0, 15)
    promise(order, 2, 0, 15)
    stable(order, 14, 0, 1)

    assert order.agreed_line == 15
    assert order.edge == Position(15, 1)
    assert order.aru == 11


def test_only_what_is_delivered_and_stable_is_forgotten() -> None:
    order = order_of(0, 1)
    promise(order, 1, 0, 50)
    for seq, lts in ((1, 5), (2, 6), (3, 7)):
        hold(order, 0, seq, lts, str(seq))

    stable(order, 50, 0, 1)
    assert order.discard() == []

    deliver(order)
    stable(order, 50, 0, 1)
    assert [entry.seq for entry in order.discard()] == [1, 2, 3]
    assert not order.entries


def test_a_bundle_exactly_at_the_stability_line_is_kept() -> None:
    order = order_of(0)
    hold(order, 0, 1, 5, "m")
    deliver(order)

    stable(order, 5, 0)
    assert order.discard() == []

    stable(order, 6, 0)
    assert [entry.seq for entry in order.discard()] == [1]


def test_a_stability_line_never_falls() -> None:
    order = order_of(0, start_lts=8)
    stable(order, 9, 0)
    stable(order, 5, 0)

    assert order.aru == 9


# The clock.


def test_the_clock_rises_on_receipt_of_bundles_meta_data_and_promises() -> None:
    order = order_of(0, 1, start_lts=3)
    clocks = [order.clock]
    hold(order, 0, 2, 9, "m")
    clocks.append(order.clock)
    hold_meta(order, 0, 1, 8)
    clocks.append(order.clock)
    promise(order, 1, 0, 13)
    clocks.append(order.clock)

    assert clocks == [3, 9, 9, 12]


@pytest.mark.parametrize("lts", [IN_FLIGHT_DEFAULT + 2, 2**48, 2**63, 2**64 - 1])
def test_a_stamp_far_ahead_is_refused_and_changes_nothing(lts: int) -> None:
    order = order_of(0, 1)

    with pytest.raises(PeerError) as caught:
        hold(order, 0, 1, lts, "m")
    with pytest.raises(PeerError):
        promise(order, 1, 0, lts)

    assert caught.value.reason is Drop.OUT_OF_WINDOW
    assert order == order_of(0, 1)


@pytest.mark.parametrize("seq", [IN_FLIGHT_DEFAULT + 1, 2**63])
def test_a_sequence_beyond_all_windows_is_refused_and_changes_nothing(seq: int) -> None:
    order = order_of(0, 1)

    with pytest.raises(PeerError) as caught:
        hold(order, 0, seq, 5, "m")
    with pytest.raises(PeerError):
        hold_meta(order, 0, seq, 5)
    with pytest.raises(PeerError):
        promise(order, 1, seq, 5)
    with pytest.raises(PeerError):
        order.recover(Meta(SiteId(0), seq, 5, SiteMask(1)), None)

    assert caught.value.reason is Drop.OUT_OF_WINDOW
    assert order == order_of(0, 1)


def test_all_windows_may_be_in_flight() -> None:
    order = order_of(0)

    hold_meta(order, 0, IN_FLIGHT_DEFAULT, IN_FLIGHT_DEFAULT)
    promise(order, 0, IN_FLIGHT_DEFAULT, IN_FLIGHT_DEFAULT + 1)

    assert order.lines[SiteId(0)].highest == IN_FLIGHT_DEFAULT


@pytest.mark.parametrize(
    ("seq", "lts", "prev"),
    [
        (2, 4, 0),  # Not above the bundle before it.
        (2, 3, 0),
        (3, 9, 0),  # Above a gap, and not below the next one that is here.
        (5, 9, 0),
        (5, 8, 0),
        (2, 5, 2),  # After itself.
        (2, 5, 3),
    ],
)
def test_a_stamp_that_does_not_rise_with_the_sequence_is_refused(seq: int, lts: int, prev: int) -> None:
    order = order_of(0)
    hold(order, 0, 1, 4, "m1")
    hold(order, 0, 4, 9, "m4")

    with pytest.raises(PeerError):
        hold(order, 0, seq, lts, "m", prev=prev)

    hold(order, 0, 2, 5, "m2")
    hold(order, 0, 3, 6, "m3", prev=2)
    assert deliver(order) == ["m1", "m2", "m3", "m4"]


def test_a_stability_line_beyond_all_stamps_is_refused() -> None:
    order = order_of(0)
    hold(order, 0, 1, 4, "m")

    with pytest.raises(PeerError):
        order.stable(SiteId(0), 6)

    order.stable(SiteId(0), 5)
    assert order.aru == 5


def test_a_stamp_above_the_last_number_is_refused_however_near_our_clock_is() -> None:
    order = order_of(0)
    order.clock = NUMBER_MAX - 1

    with pytest.raises(PeerError, match="beyond NUMBER_MAX"):
        hold(order, 0, 1, NUMBER_MAX + 1, "m")

    hold(order, 0, 1, NUMBER_MAX, "m")
    assert order.clock == NUMBER_MAX


def test_a_stamp_as_far_ahead_as_may_be_is_taken() -> None:
    order = order_of(0)

    hold(order, 0, 1, IN_FLIGHT_DEFAULT, "m")

    assert deliver(order) == ["m"]


def test_a_site_that_is_not_in_the_view_is_refused() -> None:
    order = order_of(0, 1)

    with pytest.raises(PeerError):
        hold(order, 2, 1, 5, "m")


@pytest.mark.parametrize("start", [2**32 - 3, 2**63 - 3])
def test_stamps_go_on_past_the_powers_of_two(start: int) -> None:
    order = order_of(0, start_lts=start)

    for seq in range(1, 7):
        hold(order, 0, seq, start + seq, str(seq))

    assert deliver(order) == ["1", "2", "3", "4", "5", "6"]
    assert order.agreed_line == start + 7


# Recovery adds to the order, and delivers nothing.


def test_a_recovered_body_fills_in_what_was_known_by_its_meta_data() -> None:
    order = order_of(0)
    hold_meta(order, 0, 1, 5)
    other = order_of(0)
    hold(other, 0, 1, 5, "m")
    entry = other.entries[SiteId(0), 1]

    order.recover(_meta(5), entry.message)

    assert order.entries[SiteId(0), 1].message == entry.message


def test_a_recovered_bundle_that_was_stable_here_is_not_taken_again() -> None:
    order = order_of(0)
    hold(order, 0, 1, 5, "m")
    deliver(order)
    stable(order, 6, 0)
    order.discard()

    order.recover(_meta(5), None)

    assert not order.entries


def _meta(lts: int) -> Meta:
    return Meta(SiteId(0), 1, lts, EVERYWHERE, 0)
