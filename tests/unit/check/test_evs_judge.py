"""Which properties are judged in which cases, and how a witness names processes and views."""

import pytest
from tests.unit.check.evs_notation import history

from hopring.check.history import HistoryNames, index
from hopring.check.judge import check_evs, first_broken
from hopring.check.trace import Crash, MessageId, ProcessName, ViewName

EMPTY_HISTORY = ""
QUIET = """
a: view 1 ab | send 1 safe | deliver a:1
b: view 1 ab | deliver a:1
"""


def test_an_empty_history_breaks_nothing() -> None:
    assert all(check_evs(history(EMPTY_HISTORY), quiet_end=True, components=[]))


def test_liveness_is_judged_after_a_quiet_end_and_precision_where_components_are_known() -> None:
    loud = {verdict.property for verdict in check_evs(history(QUIET), quiet_end=False)}
    quiet = {verdict.property for verdict in check_evs(history(QUIET), quiet_end=True)}
    known = {verdict.property for verdict in check_evs(history(QUIET), quiet_end=True, components=["ab"])}

    assert quiet - loud == {"2.15 self delivery", "2.17 termination of delivery"}
    assert known - quiet == {"2.16 membership precision"}


def test_the_first_broken_property_is_the_nearest_to_the_cause() -> None:
    text = """
    a: view 1 ab | send 1 | deliver a:1 | view 2 ab
    b: view 1 ab | deliver a:1 | deliver a:1 | view 2 ab
    """

    verdict = first_broken(history(text), quiet_end=False)

    assert verdict is not None
    assert verdict.property == "2.5 no duplication"
    assert first_broken(history(QUIET), quiet_end=True, components=["ab"]) is None


def test_the_counter_of_views_may_be_lost() -> None:
    text = """
    a:   view 5 ab | send 1 | crash
    b:   view 5 ab | deliver a:1
    a.2: view 1 a.2
    """

    assert first_broken(history(text), quiet_end=False) is not None
    assert first_broken(history(text), quiet_end=False, counters_survive=False) is None


@pytest.mark.parametrize(
    ("text", "view", "name"),
    [
        ("a: view 1 a", ViewName(1, 0, 0), "view 1"),
        ("a: view 1a a | view 1b a", ViewName(1, 1, 0), "view 1 of 1"),
        ("a: view 1a a", ViewName(1, 0, 0xBEE), "view 1 of 0 (bee)"),
    ],
)
def test_a_view_is_named_by_the_shortest_unique_part_of_its_id(text: str, view: ViewName, name: str) -> None:
    assert HistoryNames(index(history(text), quiet_end=False)).view(view) == name


def test_processes_are_named_by_their_starts() -> None:
    text = """
    a:   view 1 a | crash
    a.2: view 2 a.2
    """
    words = HistoryNames(index(history(text), quiet_end=False))

    assert words.processes([ProcessName("a", 2), ProcessName("a", 1), ProcessName("b", 9)]) == "{a a.2 b}"
    assert words.process(ProcessName("a", 0xBEE)) == "a.bee?"
    assert words.process(ProcessName("a", 2, session=7)) == "a.2/7"
    assert words.message(MessageId("a", 2, 12)) == "a.2:12"


def test_values_that_are_no_events_are_passed_over() -> None:
    assert list(index(["a word", 7, Crash(ProcessName("a", 1), 5)], quiet_end=False).lives) == [
        ProcessName("a", 1)
    ]
