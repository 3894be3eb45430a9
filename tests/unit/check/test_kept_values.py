"""The checks of times to live and retained values, on histories written by hand, right and wrong."""

import pytest

from hopring.check.kept_values import (
    AT_END,
    AT_JOIN,
    EXPIRED,
    IN_TIME,
    NOT_OLDER,
    KeptValueEvent,
    TimedShown,
    TimeEnded,
    ValueAtEnd,
    ValueAtJoin,
    ValueAtView,
    ValueSeen,
    check_kept_values,
)

ENDED = TimeEnded(5, "late", 4)
SHOWN = TimedShown(3, "ann/1", "soon")
SEEN = ValueSeen(1, "ann/1", "one", (3, 7))
ANN = ValueAtView(2, "ann/1", "v", "one")
JOINED = ValueAtJoin(3, "bob/1", "v", "one")


def broken(*events: KeptValueEvent, quiet_end: bool = True) -> list[str]:
    return [verdict.property for verdict in check_kept_values(events, quiet_end) if not verdict]


@pytest.mark.parametrize(
    "events",
    [
        (),
        (ENDED, SHOWN),
        (SEEN, ANN, JOINED, ValueSeen(4, "ann/1", "two", (3, 8)), ValueSeen(4, "bob/1", "zero", (2, 9))),
        (ValueAtView(2, "ann/1", "v", ""), JOINED),  # She has joined before the value.
        (JOINED, ValueAtView(4, "ann/1", "w", "two")),
        (ValueAtEnd(9, "ann/1", "v", "one"), ValueAtEnd(9, "bob/1", "w", "two")),  # Each side has its own.
    ],
)
def test_right_histories(events: tuple[KeptValueEvent, ...]) -> None:
    assert broken(*events) == []


@pytest.mark.parametrize(
    ("name", "events"),
    [
        (EXPIRED, (ENDED, TimedShown(6, "ann/1", "late"))),
        (EXPIRED, (TimedShown(3, "ann/1", "late"), ENDED)),
        (IN_TIME, (TimeEnded(5, "late", 6),)),
        (AT_JOIN, (ANN, ValueAtJoin(3, "bob/1", "v", "zero"))),
        (AT_JOIN, (ValueAtJoin(3, "bob/1", "v", ""), ANN)),
        (AT_END, (ValueAtEnd(9, "ann/1", "v", "one"), ValueAtEnd(9, "bob/1", "v", ""))),
        (NOT_OLDER, (SEEN, ValueSeen(2, "ann/1", "zero", (3, 6)))),
    ],
)
def test_wrong_histories(name: str, events: tuple[KeptValueEvent, ...]) -> None:
    assert broken(*events) == [name]


def test_values_may_differ_if_the_end_is_not_quiet() -> None:
    ends = ValueAtEnd(9, "ann/1", "v", "one"), ValueAtEnd(9, "bob/1", "v", "")
    assert broken(*ends, quiet_end=False) == []
