"""The table of daemons: its columns, and the columns that are left out on narrow screens."""

import pytest

from hopring.cli.monitor.table import (
    HEADS,
    StatusCounters,
    cut_of,
    heads_that_fit,
    key_of,
    lacking,
    plain_table,
    rates,
    state_of,
)

ROW = [
    "eu1",
    "eu",
    "OP",
    "3.0",
    "3",
    "12/s",
    "9/s",
    "0/s",
    "7/s",
    "100/s",
    "1",
    "1",
    "0B/2MiB",
    "512/1024",
    "1a2b3c4d",
    "-",
]


def test_columns_are_aligned() -> None:
    head, line = plain_table([ROW]).splitlines()

    assert head.split() == list(HEADS)
    assert line.split() == ROW
    assert head.index("DAEMON") == line.index("eu1")


@pytest.mark.parametrize("width", [200, 100, 80, 60, 40])
def test_a_narrow_screen_leaves_out_some_columns(width: int) -> None:
    heads = heads_that_fit([ROW], width)

    assert heads[0] == "DAEMON"
    assert "STATE" in heads
    assert (len(heads) == len(HEADS)) == (width == 200)
    assert width < 60 or sum([len(head) + 2 for head in heads]) <= width


def test_rates_are_computed_within_a_view_only() -> None:
    before = StatusCounters(1.0, "3.0.aa", (10, 0, 0, 5, 7))

    assert rates(StatusCounters(3.0, "3.0.aa", (30, 2, 0, 5, 8)), before) == [
        "10/s",
        "1/s",
        "0/s",
        "0/s",
        "0/s",
    ]
    assert rates(StatusCounters(3.0, "4.0.aa", (30, 2, 0, 5, 8)), before) == ["-"] * 5
    assert rates(before, None) == ["-"] * 5


def test_the_state_shows_only_the_phase_if_groups_are_complete() -> None:
    assert state_of({"phase": "OP", "groups_state": "GOP"}) == "OP"
    assert state_of({"phase": "OP", "groups_state": "GGATHER"}) == "OP/GGATHER"
    assert state_of({"phase": "SEARCH", "groups_state": "GTRANS", "reloading": True}) == "SEARCH/GTRANS reload"


def test_a_cut_that_ends_by_itself_shows_the_seconds_that_are_left() -> None:
    assert cut_of({"cut": []}) == "-"
    assert cut_of({"cut": ["us1", "us2"]}) == "us1,us2"
    assert cut_of({"cut": ["us1"], "cut_left_us": None}) == "us1"
    assert cut_of({"cut": ["us1"], "cut_left_us": 28_000_001}) == "us1 29s"


def test_the_key_column_shows_the_key_in_use_and_whether_another_one_is_live() -> None:
    assert key_of({"keys": {"in_use": "aa", "live": ["aa"]}}) == "aa"
    assert key_of({"keys": {"in_use": "aa", "live": ["aa", "bb"]}}) == "aa+"
    assert key_of({"keys": {"in_use": None, "insecure": True}}) == "insecure"
    assert key_of({"keys": {"in_use": None, "insecure": False}}) == "none"
    assert key_of({}) == "none"


def test_members_of_the_view_that_have_not_announced_the_wanted_key_lack_it() -> None:
    announced = {"eu2": ["aa", "bb"], "us1": ["aa"], "us2": ["aa"]}
    status = {
        "daemon": "eu1",
        "members": ["eu1", "eu2", "us1"],
        "keys": {"wanted": "bb", "announced": announced},
    }

    assert lacking(status) == ["us1"]
    assert lacking({"daemon": "eu1", "members": ["eu1", "us1"]}) == []
