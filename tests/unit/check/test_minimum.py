"""The checks of minimum sizes, on histories written by hand, right and wrong."""

from dataclasses import replace

import pytest

from hopring.check.minimum import (
    ALIKE,
    ALL,
    KEPT,
    MAJORITY,
    NONE_WAITS,
    NOT_WHILE_SUSPENDED,
    WHEN_MISSED,
    MinimumEvent,
    MinimumSignal,
    MinimumView,
    OrderedShown,
    SenderWaits,
    check_minimum,
)

THREE = MinimumView(1, "ann/1", "v", 3, 2, False, True, False)
SIGNAL = MinimumSignal(2, "ann/1", 1, True)
ALONE = MinimumView(3, "ann/1", "w", 1, 2, True, False, True)
BACK = MinimumView(4, "ann/1", "x", 3, 2, False, True, False)
MESSAGE = OrderedShown(5, "ann/1", "hello")


def broken(*events: MinimumEvent, quiet_end: bool = True) -> list[str]:
    return [verdict.property for verdict in check_minimum(events, quiet_end) if not verdict]


@pytest.mark.parametrize(
    "events",
    [
        (),
        (THREE, MESSAGE, SIGNAL, ALONE, BACK, MESSAGE),
        (THREE, replace(THREE, member="bob/1")),
        (replace(THREE, minimum=MAJORITY), replace(ALONE, minimum=MAJORITY)),
        (replace(THREE, minimum=ALL), replace(ALONE, minimum=ALL), replace(BACK, minimum=ALL)),
        (replace(THREE, minimum=MAJORITY), replace(SIGNAL, suspended=False)),  # Primary, as it seems.
        # Two are enough, and the lost ones' minimum is not in force any more.
        (THREE, MinimumSignal(2, "ann/1", 2, False), replace(ALONE, members=2, minimum=0, suspended=False)),
        (THREE, replace(ALONE, members=3, suspended=True, closing=True)),  # Two of the three are not here.
    ],
)
def test_right_histories(events: tuple[MinimumEvent, ...]) -> None:
    assert broken(*events) == []


@pytest.mark.parametrize(
    ("name", "events"),
    [
        (NOT_WHILE_SUSPENDED, (THREE, SIGNAL, MESSAGE)),
        (NOT_WHILE_SUSPENDED, (THREE, ALONE, MESSAGE)),
        (ALIKE, (THREE, replace(THREE, member="bob/1", members=4))),
        (WHEN_MISSED, (replace(THREE, suspended=True),)),
        (WHEN_MISSED, (replace(ALONE, suspended=False),)),
        (WHEN_MISSED, (THREE, replace(SIGNAL, suspended=False))),
        (WHEN_MISSED, (replace(THREE, minimum=MAJORITY, primary=False),)),
        (KEPT, (THREE, SIGNAL, replace(ALONE, minimum=0, suspended=False))),
        (KEPT, (replace(THREE, minimum=3), replace(ALONE, minimum=2))),
        (NONE_WAITS, (THREE, SenderWaits(9, "ann/1", "hello"))),
    ],
)
def test_wrong_histories(name: str, events: tuple[MinimumEvent, ...]) -> None:
    assert broken(*events) == [name]


def test_a_message_may_wait_if_the_end_is_not_quiet() -> None:
    assert broken(THREE, SenderWaits(9, "ann/1", "hello"), quiet_end=False) == []
