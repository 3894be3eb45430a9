"""Sides of a partition: parsing, the cuts that they require, and the partition in force."""

from pathlib import Path

import pytest

from hopring.cli.monitor.actions import cuts_of, in_force, read_sides, show_sides
from hopring.cli.monitor.admin_client import Fleet, ReachedDaemon

SITES = {"eu": ["eu1", "eu2"], "us": ["us1"]}


def sight(cuts: dict[str, list[str]]) -> Fleet:
    seen = [
        ReachedDaemon(Path(name), {"daemon": name, "sites": SITES, "cut": cut}) for name, cut in cuts.items()
    ]
    return Fleet(tuple(seen), ())


@pytest.mark.parametrize(
    ("text", "sides"),
    [
        ("eu | us", "eu1 eu2 | us1"),
        ("eu1 us1 | eu2", "eu1 us1 | eu2"),
        ("eu1,us1|eu2", "eu1 us1 | eu2"),
        ("eu2", "eu2 | eu1 us1"),
        ("eu1 | us", "eu1 | us1 | eu2"),
    ],
)
def test_sides_are_daemons_and_sites_and_the_rest_is_another_side(text: str, sides: str) -> None:
    assert show_sides(read_sides(text, SITES)) == sides


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("eu | eu1", "eu1 would be on two sides"),
        ("eu us", "all daemons are on one side"),
        ("eu |", "a side is empty"),
        ("", "a side is empty"),
        ("eu3 | us", "did you mean eu?"),
    ],
)
def test_sides_that_separate_nothing_are_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem.replace("?", r"\?")):
        read_sides(text, SITES)


def test_every_daemon_cuts_off_all_daemons_of_other_sides() -> None:
    sides = read_sides("eu | us", SITES)

    assert cuts_of(sides, sight({"eu1": [], "eu2": [], "us1": []})) == {
        "eu1": ["us1"],
        "eu2": ["us1"],
        "us1": ["eu1", "eu2"],
    }


def test_a_cut_at_one_end_is_enough_and_one_at_neither_end_is_refused() -> None:
    sides = read_sides("eu | us", SITES)

    assert cuts_of(sides, sight({"us1": []})) == {"us1": ["eu1", "eu2"]}
    with pytest.raises(ValueError, match="neither eu2 nor us1 can be told"):
        cuts_of(sides, sight({"eu1": []}))


def test_a_partition_in_force_is_derived_from_either_end() -> None:
    assert in_force(sight({"eu1": [], "eu2": [], "us1": []})) == [{"eu1", "eu2", "us1"}]
    assert in_force(sight({"us1": ["eu1", "eu2"]})) == [{"eu1", "eu2"}, {"us1"}]
    assert in_force(sight({"eu1": ["eu2", "us1"], "us1": ["eu1", "eu2"]})) == [{"eu1"}, {"eu2"}, {"us1"}]
