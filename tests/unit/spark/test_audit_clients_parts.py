"""Parts of the audit of clients that need no Spark."""

from typing import Any

import pytest
from tests.unit.check.evs_c_notation import client_history

from hopring.check.locks import LOCK_PROPERTIES
from hopring.check.trace_files import rows
from hopring.spark.audit import CLIENT_NAMES, NAMES, AuditReport
from hopring.spark.audit.clients.messages import companions_of, early_of, gone_by
from hopring.spark.audit.clients.sessions import TracedSession, ended_daemons, sessions_of
from hopring.spark.audit.clients.stays import PIECE, GroupCourse, TracedGroup, courses_of, groups_of
from hopring.spark.audit.reading import Ends
from hopring.spark.audit.witness import AuditFinding, as_text, merged

A, B = "a#0000000000000001/1", "b#0000000000000001/1"


def followed(
    text: str,
) -> tuple[list[TracedSession], TracedGroup, list[GroupCourse], list[tuple[str, str, int]]]:
    """Follows a handwritten history that has one group."""
    events = [row for row in rows(client_history(text)) if row.process.endswith("/1")]
    small = [_row(row, number) for number, row in enumerate(events) if row.kind not in ("send", "deliver")]
    high: dict[str, int] = {}
    for row in events:
        high[row.process] = row.position
    extent = [{"run": "", "process": one, "daemon": one[0], "high": high[one]} for one in high]
    sessions = sessions_of(extent, small, [], {}, Ends(True))
    groups = groups_of(sessions)
    strays: list[tuple[str, str, int]] = []
    courses = list(courses_of(sessions, groups, strays))
    (group,) = groups.values()
    return sessions, group, courses, strays


def _row(row: Any, number: int) -> dict[str, Any]:
    names = "process", "position", "kind", "view", "members", "transitional_set", "cause"
    group = row.groups[0] if row.kind == "connect" else row.group
    return {name: getattr(row, name) for name in names} | {
        **{"run": "", "file": "f", "row": number, "group_name": group}
    }


def test_a_stay_begins_with_a_view_and_a_leave_separates_it_from_the_next() -> None:
    _, group, _, _ = followed("a: view red 1.1 a | view red 1.2 a | leave red | left red | view red 1.3 a")

    first, second, third = group.stays
    assert (first.before, first.after, second.before) == (None, second, first)
    assert (second.leaves, third.before, third.earlier) == (True, None, second)


def test_sessions_that_moved_to_one_view_are_together_if_one_counts_the_other() -> None:
    _, group, _, _ = followed(
        "a: view red 1.1 ab | view red 1.2 ab with a\nb: view red 1.1 ab | view red 1.2 ab with ab"
    )

    assert set(companions_of(group).values()) == {group.bit(A) | group.bit(B)}


def test_early_messages_are_owed_up_to_the_next_change_of_network() -> None:
    _, group, _, _ = followed(
        """
        a: view red 1.1 ab | view red 1.2 ab | view red 2.1 ab by network | view red 2.2 ab
        b: view red 1.1 ab | view red 1.2 ab | view red 2.1 ab by network | view red 2.2 ab
        """
    )

    owed = {stay.id: who for stay, who in early_of(group, companions_of(group)) if stay.session.process == A}
    assert owed == {stay.id: group.bit(A) | group.bit(B) for stay in group.stays[:2]}


def test_a_session_that_left_is_gone_until_it_comes_back() -> None:
    _, group, _, _ = followed(
        """
        a: view red 1.1 ab | view red 1.2 a | view red 1.3 ab
        b: view red 1.1 ab | leave red | left red | view red 1.3 ab
        """
    )

    gone = gone_by(group, {("", A), ("", B)})
    assert [gone[view] for view in sorted({stay.view for stay in group.stays})] == [
        group.bit(B),
        group.bit(B),
        0,
    ]


def test_a_span_has_a_row_for_every_piece_that_it_reaches_into() -> None:
    sessions, _, courses, _ = followed("a: view red 1.1 a")
    sessions[0].high = 3 * PIECE
    (red,) = [one for one in courses if one.name == "red"]
    red.spans[-1].ends = sessions[0].high + 1

    assert [row[3] for row in red.rows() if row[-3] is not None] == [0, 1, 2, 3]


def test_a_signal_outside_every_view_is_a_stray() -> None:
    *_, strays = followed("a: view red 1.1 a | leave red | left red | signal red a")

    assert [(process, position) for _run, process, position in strays] == [(A, 5)]


@pytest.mark.parametrize(
    ("kinds", "ended"),
    [
        (["a#1 recover", "a#2 recover"], {("", "a#1")}),
        (["a#1 recover", "a#1 crash"], {("", "a#1")}),
        (["a#1 recover", "b#1 recover"], set()),
    ],
)
def test_a_daemon_has_ended_if_it_crashed_or_started_again(
    kinds: list[str], ended: set[tuple[str, str]]
) -> None:
    borders = [
        {"run": "", "process": process, "daemon": process[0], "kind": kind}
        for process, kind in map(str.split, kinds)
    ]

    assert ended_daemons(borders) == ended


def test_in_one_history_daemons_are_reported_before_their_clients() -> None:
    daemons = AuditReport(("x",), (AuditFinding("x", NAMES[3], 1, "d"),), {"x": NAMES})
    clients = AuditReport(
        ("x", "y"), (AuditFinding("x", CLIENT_NAMES[0], 1, "c"),), {"x": CLIENT_NAMES, "y": ()}
    )

    both = merged(daemons, clients)

    assert (both.runs, [one.witness for one in both.findings]) == (("x", "y"), ["d", "c"])
    assert both.judged["x"] == (*NAMES, *CLIENT_NAMES)


LOCKS = tuple([one.name for one in LOCK_PROPERTIES])


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (NAMES, "one history: all 30 properties hold"),
        (CLIENT_NAMES, "one history: all 28 properties of clients hold"),
        ((*NAMES, *CLIENT_NAMES), "one history: all 30 properties of daemons and 28 of clients hold"),
        (LOCKS, "one history: all 5 properties of blocks hold"),
        (
            (*NAMES, *CLIENT_NAMES, *LOCKS),
            "one history: all 30 properties of daemons, 28 of clients and 5 of blocks hold",
        ),
    ],
)
def test_the_report_names_the_properties_that_hold_for_daemons_and_clients(
    names: tuple[str, ...], words: str
) -> None:
    assert as_text(AuditReport(("",), (), {"": names})) == words
