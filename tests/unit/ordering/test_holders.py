import pytest

from hopring.errors import Drop, PeerError
from hopring.ids import SiteId, SiteMask
from hopring.ordering.holders import MAJORITY, Holders, ViewVotes, one_vote_each

EU, US, ASIA = SiteId(0), SiteId(1), SiteId(2)
NOTHING = {EU: 1, US: 1, ASIA: 1}
ALL_SITES = SiteMask(0b111)


def holders(**votes: tuple[int, ...]) -> Holders:
    """What the first daemon of eu knows at first."""
    sites = {"eu": EU, "us": US, "asia": ASIA}
    return Holders(ViewVotes({sites[name]: of for name, of in votes.items()}), EU, 0)


def test_k_needs_k_other_daemons_beside_this_one() -> None:
    one = holders(eu=(1, 1, 1))

    assert one.enough(5, SiteMask(1), 0, NOTHING)
    assert not one.enough(5, SiteMask(1), 1, NOTHING)
    one.learn(EU, (0, 6, 5))
    assert one.enough(5, SiteMask(1), 1, NOTHING)
    assert not one.enough(5, SiteMask(1), 2, NOTHING)
    one.learn(EU, (0, 0, 6))
    assert one.enough(5, SiteMask(1), 2, NOTHING)


def test_only_daemons_of_the_mask_are_counted() -> None:
    one = holders(eu=(1, 1), us=(2, 1))
    one.learn(EU, (0, 5))
    one.learn(US, (6, 6))

    assert one.daemons(SiteMask(0b11)) == 4
    assert one.count(5, SiteMask(0b11), NOTHING) == 3
    assert one.count(5, SiteMask(0b01), NOTHING) == 1


def test_a_line_never_falls_and_the_own_line_need_not_be_known() -> None:
    one = holders(eu=(1, 1))

    one.learn(EU, (0, 9))
    one.learn(EU, (0, 3))

    assert one.enough(8, SiteMask(1), 1, NOTHING)


def test_the_line_of_a_whole_site_stands_for_each_of_its_daemons() -> None:
    one = holders(eu=(1,), us=(1, 1))

    assert not one.enough(5, SiteMask(0b11), 2, {EU: 1, US: 5})
    assert one.enough(5, SiteMask(0b11), 2, {EU: 1, US: 6})


def test_daemons_outside_of_the_mask_are_no_holders() -> None:
    one = holders(eu=(1, 1), us=(1, 1))

    assert not one.enough(5, SiteMask(0b01), 1, {EU: 1, US: 9})
    assert one.enough(5, SiteMask(0b11), 1, {EU: 1, US: 9})


def test_a_view_or_a_mask_with_fewer_daemons_counts_them_all() -> None:
    one = holders(eu=(1,), us=(1,))

    assert one.enough(5, SiteMask(0b01), 3, NOTHING)
    assert not one.enough(5, SiteMask(0b11), 3, NOTHING)
    assert one.enough(5, SiteMask(0b11), 3, {EU: 1, US: 6})


def test_a_majority_is_more_than_half_of_the_votes() -> None:
    one = holders(eu=(1,), us=(1, 1), asia=(1,))

    one.learn(US, (6, 0))
    assert not one.enough(5, ALL_SITES, MAJORITY, NOTHING)
    one.learn(ASIA, (6,))
    assert one.enough(5, ALL_SITES, MAJORITY, NOTHING)


def test_daemons_without_a_vote_are_no_majority() -> None:
    one = holders(eu=(0,), us=(3, 1, 1))

    one.learn(US, (0, 6, 6))
    assert not one.enough(5, SiteMask(0b11), MAJORITY, NOTHING)
    one.learn(US, (6, 0, 0))
    assert one.enough(5, SiteMask(0b11), MAJORITY, NOTHING)


@pytest.mark.parametrize(
    ("lines", "reason"),
    [((1,), Drop.INCONSISTENT), ((1, 1, 1), Drop.INCONSISTENT), ((1, 12), Drop.OUT_OF_WINDOW)],
)
def test_lines_that_cannot_be_true_are_refused(lines: tuple[int, ...], reason: Drop) -> None:
    with pytest.raises(PeerError) as caught:
        holders(eu=(1, 1)).check(EU, lines, clock=10)
    assert caught.value.reason is reason


def test_the_mask_of_a_resilient_bundle_gets_as_many_sites_as_it_needs() -> None:
    votes = one_vote_each([EU, EU, US, ASIA, ASIA])

    assert votes.widened(SiteMask(0b010), 0) == 0b010
    assert votes.widened(SiteMask(0b010), 1) == 0b011
    assert votes.widened(SiteMask(0b010), 3) == 0b111
    assert votes.widened(SiteMask(0b100), 9) == 0b111
    assert votes.widened(SiteMask(0b010), MAJORITY) == 0b111
