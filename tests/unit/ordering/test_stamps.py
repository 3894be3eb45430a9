from collections.abc import Callable

import pytest

from hopring.ids import SiteId, SiteMask
from hopring.ordering.destinations import Destinations
from hopring.ordering.stamps import StampedBundles, Stamps
from hopring.wire.routed import Routed

ALL = SiteMask(0b11)


def everything(_fragment: Routed) -> bool:
    return True


def one_fragment() -> Callable[[Routed], bool]:
    """Space for the first fragment only."""
    answers = iter([True])
    return lambda _fragment: next(answers, False)


def none(_fragment: Routed) -> bool:
    return False


def stamps_at(clock: int = 0) -> Stamps:
    stamps = Stamps(SiteId(1), object_bytes_max=1_000)
    stamps.heard(clock)
    return stamps


def labels(stamped: StampedBundles) -> list[tuple[int, int, int]]:
    """Sequence, stamp and the session's previous bundle, for each bundle that is sent completely."""
    return [(one.seq, one.lts, one.prev) for one in stamped.fragments if one.index == 0]


def test_sequence_and_stamp_come_from_the_token_and_rise_together() -> None:
    stamps = stamps_at()
    stamps.put(1, ALL, b"a")
    stamps.put(1, ALL, b"b")

    stamped = stamps.visit(site_seq=7, site_lts=40, reserve=everything)

    assert labels(stamped) == [(8, 41, 0), (9, 42, 8)]
    assert (stamped.site_seq, stamped.site_lts) == (9, 42)


def test_a_stamp_is_above_everything_heard_of() -> None:
    stamps = stamps_at(clock=90)
    stamps.put(1, ALL, b"a")

    assert labels(stamps.visit(7, 40, everything)) == [(8, 91, 0)]


def test_an_idle_visit_lifts_the_token_to_the_clock() -> None:
    """So that the promise derived from it covers everything that this daemon has heard of."""
    stamps = stamps_at(clock=90)

    stamped = stamps.visit(7, 40, everything)

    assert (stamped.site_seq, stamped.site_lts, stamped.fragments) == (7, 90, ())


def test_the_clock_learns_from_the_token() -> None:
    stamps = stamps_at()

    stamps.visit(7, 40, everything)

    assert stamps.clock == 40


def test_each_session_has_a_chain_of_its_own() -> None:
    stamps = stamps_at()
    for session in (1, 2, 1, 2):
        stamps.put(session, ALL, b"x")

    assert labels(stamps.visit(0, 0, everything)) == [(1, 1, 0), (2, 2, 0), (3, 3, 1), (4, 4, 2)]


def test_a_bundle_that_did_not_fit_is_sent_first_next_time_with_its_stamp() -> None:
    stamps = stamps_at()
    stamps.put(1, ALL, bytes(2_500))
    stamps.put(1, ALL, b"next")

    first = stamps.visit(0, 0, reserve=one_fragment())
    second = stamps.visit(first.site_seq, first.site_lts, everything)

    assert [(one.seq, one.index, one.count) for one in first.fragments] == [(1, 0, 3)]
    assert [(one.seq, one.index) for one in second.fragments] == [(1, 1), (1, 2), (2, 0)]
    assert labels(second) == [(2, 2, 1)]


def test_nothing_is_stamped_ahead_of_its_visit() -> None:
    stamps = stamps_at()
    stamps.put(1, ALL, b"a")

    stamps.heard(500)

    assert labels(stamps.visit(0, 0, everything)) == [(1, 501, 0)]


def test_bundles_without_a_stamp_are_taken_back_oldest_first() -> None:
    stamps = stamps_at()
    stamps.put(1, ALL, bytes(2_500))
    stamps.put(2, ALL, b"waits")
    stamps.put(1, ALL, b"too")
    stamps.visit(0, 0, reserve=one_fragment())

    assert stamps.take_back() == [(2, b"waits"), (1, b"too")]
    assert stamps.take_back() == []


def test_a_stamped_bundle_is_not_taken_back_even_if_nothing_of_it_was_sent() -> None:
    """It has its place in the order, and the token says so."""
    stamps = stamps_at()
    stamps.put(1, ALL, b"stamped")

    stamped = stamps.visit(0, 0, reserve=none)

    assert (stamped.site_seq, stamped.fragments) == (1, ())
    assert [(meta.seq, bundle) for meta, bundle in stamped.bundles] == [(1, b"stamped")]
    assert stamps.take_back() == []


@pytest.mark.parametrize("start", [2**32 - 2, 2**63 - 2])
def test_numbers_go_on_past_the_powers_of_two(start: int) -> None:
    stamps = stamps_at()
    for _ in range(4):
        stamps.put(1, ALL, b"x")

    stamped = stamps.visit(start, start, everything)

    assert [one.seq for one in stamped.fragments] == [start + 1, start + 2, start + 3, start + 4]
    assert stamped.site_lts == start + 4


class Listed(Destinations):
    """A mask that is empty until the test sets it."""

    def __init__(self) -> None:
        self.wanted = SiteMask(0b10)

    def mask(self, bundle: bytes, sites: SiteMask) -> SiteMask:  # noqa: ARG002
        return SiteMask(self.wanted & sites)


def test_where_a_bundle_goes_is_decided_when_it_is_stamped_and_not_when_it_is_queued() -> None:
    destinations = Listed()
    stamps = Stamps(SiteId(1), object_bytes_max=1_000, destinations=destinations)
    stamps.put(1, SiteMask(0b111), b"a")
    stamps.put(1, SiteMask(0b011), b"b")

    destinations.wanted = SiteMask(0b110)
    stamped = stamps.visit(site_seq=0, site_lts=0, reserve=everything)

    assert [meta.mask for meta, _ in stamped.bundles] == [0b110, 0b010]
