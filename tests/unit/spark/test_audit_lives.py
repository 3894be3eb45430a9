"""The small tables of the audit, made without Spark."""

from typing import Any

from hopring.check.properties.sql import LIVES_MAX
from hopring.spark.audit.daemons.lives import (
    DaemonStay,
    lives_of,
    move_rows,
    number_processes,
    owed_rows,
    stay_rows,
    stays_of,
    view_rows,
)
from hopring.spark.audit.reading import Ends
from hopring.spark.audit.tables import _word

A, B = 1, 2  # The sets of a alone and of b alone.


def small(process: str, *moves: str) -> list[dict[str, Any]]:
    """The rows of `view NAME MEMBERS TOGETHER` and `transitional NAME TOGETHER`, after a recover."""
    rows: list[dict[str, Any]] = []
    for position, move in enumerate(("recover", *moves)):
        kind, *rest = move.split()
        view, *sets = rest or [""]
        rows.append(
            {
                **{"run": "", "process": process, "daemon": process[0], "position": position, "kind": kind},
                **{"view": view or None, "file": "f", "row": position, "primary": ""},
                "members": list(sets[0]) if kind == "view" and sets else None,
                "transitional_set": list(sets[-1]) if sets else None,
            }
        )
    return rows


def stays(*histories: list[dict[str, Any]], ends: Ends = Ends()) -> list[DaemonStay]:  # noqa: B008  It never changes.
    rows = [row for history in histories for row in history]
    extent = [
        {"run": "", "process": one[0]["process"], "daemon": one[0]["daemon"], "high": len(one) - 1}
        for one in histories
    ]
    numbers = number_processes(extent, rows)
    return stays_of(lives_of(extent, rows, numbers, {}, ends), numbers)


def test_a_stay_has_its_neighbours_its_sets_and_its_first_signal() -> None:
    found = stays(small("a", "view 1 ab a", "transitional 1 a", "transitional 9 ab", "view 2 a a"))
    before, first, last = stay_rows(found)

    assert (before["stay"], before["view"], before["ends"]) == (0, None, 1)
    assert (first["members"], first["together"], first["after_together"]) == (A | B, A, A)
    assert (first["cut"], first["signals"], first["misplaced_signal"]) == (2, 2, 3)
    assert (first["signal_together"], first["after_view"], first["ends"]) == (A, "2", 4)
    assert (last["before_view"], last["before_members"], last["after_view"]) == ("1", A | B, None)


def test_at_a_quiet_end_a_present_process_has_not_ended_and_an_earlier_start_has() -> None:
    first, again = small("a#1", "view 1 a a"), small("a#2", "view 2 a a")
    for row in again:
        row["row"] += 10

    found = [stay for stay in stays(again, first, ends=Ends(quiet=True)) if stay.stay]

    assert {stay.life.process: (stay.life.start, stay.ended) for stay in found} == {
        "a#1": (1, True),
        "a#2": (2, False),
    }


def test_the_id_of_a_stay_contains_view_and_process() -> None:
    found = stays(small("a", "view 1 ab ab"), small("b", "view 1 ab ab"))
    in_view = [stay for stay in found if stay.view == "1"]

    assert {stay.id % LIVES_MAX for stay in in_view} == {0, 1}
    assert len({stay.id // LIVES_MAX for stay in in_view}) == 1
    assert len({stay.id for stay in found}) == len(found)


def test_a_view_that_is_installed_again_is_another_row() -> None:
    found = stays(small("a", "view 1 a a", "view 1 a a"))

    assert [(row["view"], row["nth"], row["installed"]) for row in view_rows(found)] == [
        (None, 1, 0),
        ("1", 1, A),
        ("1", 2, A),
    ]


def test_two_processes_move_together_if_one_counts_the_other() -> None:
    found = stays(
        small("a", "view 1 abc abc", "view 2 abc ab"),
        small("b", "view 1 abc abc", "view 2 abc b"),
        small("c", "view 1 abc abc", "view 2 abc c"),
    )

    companions = {row["process"]: row["companions"] for row in move_rows(found)}

    assert companions == {"a": 0b011, "b": 0b011, "c": 0b100}


def test_each_debt_in_a_view_is_one_row_with_all_processes_that_state_it() -> None:
    found = stays(small("a", "view 1 ab ab", "view 2 ab ab"), small("b", "view 1 ab ab", "view 2 ab b"))
    view_id = next(stay.view_id for stay in found if stay.view == "1")

    assert [
        (row["kind"], row["owed"], row["said_by"]) for row in owed_rows(found) if row["view_id"] == view_id
    ] == [
        ("members", A | B, A | B),
        ("behind", A | B, A),
        ("behind", B, B),
    ]


def test_the_machine_word_of_a_set_is_signed() -> None:
    assert _word(1 << 63, 0) == -(1 << 63)
    assert _word(5 << 64, 1) == 5
