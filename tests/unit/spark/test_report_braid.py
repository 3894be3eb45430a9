"""The geometry of braids: from stays to positions."""

from itertools import pairwise

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow: make arrow")

from docs.pictures.braid import FILE, picture

from hopring.spark.report.braid import (
    Braid,
    Epoch,
    Spacing,
    StayEnd,
    closed,
    course,
    lay_out,
    ranks,
    view_in,
    views_of,
)
from hopring.spark.report.braid_chart import counted, placed, view_text, views, what_changed
from hopring.spark.report.gold import StayRow
from hopring.spark.report.scales import LinearScale

SECOND = 1_000_000
END = 30 * SECOND
KNOT = SECOND
SPACING = Spacing(strand=10.0, gap=50.0, home=20.0)
ALL = ("a", "b", "c", "d")


def stay(daemon: str, view: str, begin: float, end: float | None, members: str, **more: object) -> StayRow:
    end_us = None if end is None else int(end * SECOND)
    return StayRow(daemon, int(begin * SECOND), view, end_us, tuple(members), **more)  # type: ignore[arg-type]


def split_and_merge() -> list[StayRow]:
    """ab and cd part at 10 s and merge at 20 s, each daemon a little after the one before it."""
    found = []
    for at, daemon in enumerate(ALL):
        side, view = ("ab", "2") if daemon in "ab" else ("cd", "3")
        late = at * 0.01
        found += [
            stay(daemon, "1", late, 10 + late, "abcd"),
            stay(daemon, view, 10 + late, 20 + late, side, cause="silence", signalled_us=19_500_000),
            stay(daemon, "4", 20 + late, None, "abcd"),
        ]
    return found


def laid_out(stays: list[StayRow]) -> Braid:
    return lay_out(stays, END, KNOT, SPACING)


def changes(braid: Braid) -> list[str]:
    return [what_changed(*pair) for pair in braid.knots]


def check_places(braid: Braid) -> None:
    """Checks the invariants: members of a view adjacent, others further away, all within the height."""
    for epoch in braid.epochs:
        assert set(epoch.places) == {daemon for bundle in epoch.bundles for daemon in bundle.daemons}
        assert all(0 <= y <= braid.height for y in epoch.places.values())
        for bundle in epoch.bundles:
            places = [epoch.places[daemon] for daemon in bundle.daemons]
            assert [below - above for above, below in pairwise(places)] == [10.0] * (len(places) - 1)
        for upper, lower in pairwise(epoch.bundles):
            assert epoch.places[lower.daemons[0]] - epoch.places[upper.daemons[-1]] == 50.0


def test_strands_of_a_view_run_together_part_at_a_split_and_join_at_a_merge() -> None:
    braid = laid_out(split_and_merge())

    assert changes(braid) == ["start", "split", "merge"]
    assert [[bundle.daemons for bundle in epoch.bundles] for epoch in braid.epochs] == [
        [ALL],
        [("a", "b"), ("c", "d")],
        [ALL],
    ]
    assert [epoch.begin_us for epoch in braid.epochs] == [0, 10 * SECOND, 20 * SECOND]
    assert braid.epochs[-1].end_us == END
    check_places(braid)


def test_the_order_of_rows_does_not_matter() -> None:
    stays = split_and_merge()

    assert laid_out(stays[::-1]) == laid_out(stays)


def test_changes_close_in_time_are_one_knot_and_others_are_not() -> None:
    assert len(lay_out(split_and_merge(), END, knot_us=30_000).epochs) == 3
    assert len(lay_out(split_and_merge(), END, knot_us=0).epochs) > 3


def test_a_knot_is_no_longer_than_it_may_be_however_many_changes_come() -> None:
    stays = [stay("a", f"{number}", number * 0.5, number * 0.5 + 0.5, "a") for number in range(40)]
    braid = lay_out(stays, END, knot_us=SECOND)

    assert {behind.begin_us - before.begin_us for before, behind in pairwise(braid.epochs)} == {1_500_000}


def test_a_crashed_daemon_has_no_strand_after_its_recorded_crash() -> None:
    stays = [stay("a", "1", 0, 10, "ab"), stay("b", "1", 0, 8, "ab"), stay("a", "2", 10, None, "a")]
    braid = laid_out(stays)

    assert changes(braid) == ["start", "b gone", "new view"]
    assert [leg.end for leg in braid.legs] == [StayEnd.MOVED, StayEnd.LASTS, StayEnd.STOPPED]
    assert "b" not in braid.epochs[1].places
    check_places(braid)


def test_a_daemon_without_a_recorded_end_is_lost_when_the_others_install_a_view_without_it() -> None:
    stays = [stay("a", "1", 0, 10, "ab"), stay("b", "1", 0, None, "ab"), stay("a", "2", 10, None, "a")]
    (lost,) = [leg for leg in closed(stays, END) if leg.stay.daemon == "b"]

    assert (lost.end, lost.end_us) == (StayEnd.LOST, 10 * SECOND)
    assert changes(laid_out(stays)) == ["start", "b gone"]


def test_a_daemon_that_restarts_comes_back_as_a_strand_of_its_own() -> None:
    stays = [
        *(stay("a", "1", 0, 10, "ab"), stay("a", "2", 10, 20, "a"), stay("a", "3", 20, None, "ab")),
        *(stay("b", "1", 0, 8, "ab"), stay("b", "3", 20, None, "ab")),
    ]
    braid = laid_out(stays)

    assert changes(braid) == ["start", "b gone", "new view", "b comes"]
    assert [view for view, _, _ in views_of(braid, "b")] == ["1", "3"]
    check_places(braid)


def test_a_last_view_that_nobody_left_lasts_to_the_end() -> None:
    (leg,) = closed([stay("a", "1", 0, None, "a")], END)

    assert (leg.end, leg.end_us) == (StayEnd.LASTS, END)


def test_nothing_gives_an_empty_braid() -> None:
    braid = laid_out([])

    assert (braid.daemons, braid.epochs, braid.knots) == ((), (), ())


def test_sides_of_a_split_are_placed_so_that_strands_do_not_cross() -> None:
    order = ranks(("ap1", "eu1", "us1"), [(10, [("ap1", "us1"), ("eu1",)]), (5, [("ap1", "eu1", "us1")])])

    assert sorted(order, key=order.__getitem__) in (["ap1", "us1", "eu1"], ["eu1", "ap1", "us1"])


def test_two_compatible_splits_have_no_crossings() -> None:
    order = ranks(("a", "b", "c"), [(9, [("a", "c"), ("b",)]), (5, [("b", "c"), ("a",)])])

    assert sorted(order, key=order.__getitem__) in (["a", "c", "b"], ["b", "c", "a"])


def test_an_absent_daemon_keeps_its_place_among_its_neighbours() -> None:
    order = ranks(ALL, [(9, [("a", "c"), ("d",)])])

    assert abs(order["b"] - order["a"]) == 1


@pytest.mark.parametrize("daemon", ALL)
def test_a_strand_is_where_its_epoch_says_and_between_both_places_in_a_knot(daemon: str) -> None:
    braid = laid_out(split_and_merge())
    strands = course(braid, LinearScale(0, END, 100, 400), 60, 400)
    before, behind = braid.epochs[0].places[daemon], braid.epochs[1].places[daemon]

    assert strands.y_at(daemon, 150) == before
    assert strands.y_at(daemon, 250) == behind
    assert strands.y_at(daemon, 200) == pytest.approx((before + behind) / 2, abs=0.01)
    assert min(before, behind) < strands.y_at(daemon, 195) < max(before, behind)


def test_knots_do_not_overlap() -> None:
    braid = lay_out(split_and_merge(), END, knot_us=0)
    knots = course(braid, LinearScale(0, END, 100, 400), 60, 400).knots

    assert all(one.x + one.half <= other.x - other.half + 1.0 for one, other in pairwise(knots))


def test_a_view_is_described_with_its_members_cause_and_times() -> None:
    first, second, third, last = views(laid_out(split_and_merge()).legs)

    assert [one.letter for one in (first, second, third, last)] == ["A", "B", "C", "D"]
    assert (second.members, second.causes, second.first_us) == (("a", "b"), ("silence",), 10 * SECOND)
    assert view_text(second) == "View B (2) · 2 members: a, b · 10 s · cause: silence · closing for 510 ms"
    assert last.lasts


def test_splits_and_merges_are_counted() -> None:
    assert counted(laid_out(split_and_merge()).knots) == {"start": 1, "split": 1, "merge": 1}


def test_the_view_of_a_daemon_is_found() -> None:
    epoch: Epoch = laid_out(split_and_merge()).epochs[1]

    assert (view_in(epoch, "a"), view_in(epoch, "d"), view_in(epoch, "x")) == ("2", "3", None)


def test_splits_and_merges_are_named_before_anything_else_and_long_names_are_cut() -> None:
    knots = [
        (100.0, "start", "t"),
        (150.0, "split", "t"),
        (180.0, "b gone", "t"),
        (250.0, "merge, b comes", "t"),
    ]

    assert [label.what for label in placed(knots, 900.0)] == ["split", "merge, b comes"]
    assert [label.what for label in placed([*knots[:1], (210.0, "merge, b comes", "t")], 900.0)] == [
        *("start", "merge, b comes")
    ]
    assert [label.what for label in placed([(150.0, "split", "t"), (220.0, "merge, b comes", "t")], 900.0)] == [
        *("split", "merge")
    ]
    assert [label.side for label in placed([(5.0, "split", "t"), (890.0, "merge", "t")], 900.0)] == [
        "begin",
        "end",
    ]


@pytest.mark.slow
def test_the_picture_of_the_docs_matches_the_simulator() -> None:
    assert FILE.read_text() == picture()
