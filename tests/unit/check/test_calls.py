"""The checks of requests and replies, on histories written by hand, right and wrong."""

from dataclasses import replace

import pytest

from hopring.check.calls import (
    ALL_END,
    ANSWERED_ONCE,
    BY_HOLDER,
    DELIVERED_THERE,
    DONE_ONCE,
    ENDS,
    IN_TURN,
    OF_ITS_CALL,
    CallEvent,
    CallMade,
    CallOver,
    ReplySent,
    ReplyTaken,
    RequestDelivered,
    RequestDone,
    check_calls,
)

MADE = CallMade(1, "ann", 1, "one")
OTHER = CallMade(1, "ann", 2, "two")
SENT = (RequestDelivered(2, "s", "ann", 1), RequestDone(2, "s", "ann", 1), ReplySent(3, "s", "ann", 1, False))
TAKEN = ReplyTaken(4, "ann", 1, "s", "one")
OVER = CallOver(4, "ann", 1)
HELD = RequestDone(2, "s", "ann", 1, 1, "h?handler1", 7)
RIGHT = (MADE, *SENT, TAKEN, OVER)


def broken(*events: CallEvent, quiet_end: bool = True) -> list[str]:
    return [verdict.property for verdict in check_calls(events, quiet_end) if not verdict]


@pytest.mark.parametrize(
    "events",
    [
        (),
        RIGHT,
        (MADE, OVER),  # It timed out.
        (*RIGHT, RequestDelivered(5, "s", "ann", 1), ReplySent(5, "s", "ann", 1, True)),
        (MADE, *SENT, RequestDone(5, "t", "ann", 1), ReplySent(6, "t", "ann", 1, False), OVER),
        (MADE, *SENT, RequestDone(5, "s", "bob", 1), ReplySent(6, "s", "bob", 1, False), OVER),
        (MADE, HELD, replace(HELD, server="t", sending=2, fence=8), OVER),  # The next holder does it again.
        (MADE, HELD, RequestDone(5, "t", "bob", 1, 1, "h?handler2", 6), OVER),
    ],
)
def test_right_histories(events: tuple[CallEvent, ...]) -> None:
    assert broken(*events) == []


@pytest.mark.parametrize(
    ("name", "events"),
    [
        (DONE_ONCE, (*RIGHT, RequestDone(5, "s", "ann", 1))),
        (ANSWERED_ONCE, (*RIGHT, ReplySent(5, "s", "ann", 1, False))),
        (OF_ITS_CALL, (MADE, *SENT, ReplyTaken(4, "ann", 1, "s", "two"), OVER)),
        (OF_ITS_CALL, (*SENT, TAKEN)),
        (DELIVERED_THERE, (MADE, TAKEN, OVER)),
        (DELIVERED_THERE, (MADE, *SENT, ReplyTaken(4, "ann", 1, "t", "one"), OVER)),
        (ENDS, (*RIGHT, TAKEN)),
        (ENDS, (*RIGHT, OVER)),
        (ALL_END, (*RIGHT, OTHER)),
        (BY_HOLDER, (MADE, HELD, replace(HELD, server="t"), OVER)),
        (IN_TURN, (MADE, HELD, replace(HELD, server="t", sending=2, fence=6), OVER)),
    ],
)
def test_wrong_histories(name: str, events: tuple[CallEvent, ...]) -> None:
    assert broken(*events) == [name]


def test_a_call_may_wait_if_the_end_is_not_quiet() -> None:
    assert broken(MADE, quiet_end=False) == []
