"""The check of durable calls (W17) on histories written by hand: one that is right, and errors in it."""

import pytest

from hopring.check.wide.calls import CALLS, judge_calls
from hopring.check.wide.history import (
    WideCallAccepted,
    WideCallAnswered,
    WideCallAnswerSent,
    WideCalled,
    WideEvent,
    index_wide,
)
from hopring.haul.ids import ClusterId, ParcelId

HUB, NORWAY, SANDIEGO = ClusterId(1), ClusterId(2), ClusterId(3)


def asked(call: str = "sum", message: str = "anna:1") -> WideCalled:
    return WideCalled("anna", HUB, "s", call, message, NORWAY)


def known(number: int, call: str = "sum") -> WideCallAccepted:
    return WideCallAccepted(HUB, "s", call, ParcelId(HUB, number))


def answer(
    text: str, cluster: ClusterId = NORWAY, message: str = "anna:1", *, accepted: bool = True
) -> WideCallAnswerSent:
    return WideCallAnswerSent(cluster, HUB, "s", message, text, accepted)


def told(text: str, call: str = "sum") -> WideCallAnswered:
    return WideCallAnswered("anna", HUB, "s", call, text)


RIGHT = (asked(), known(1), answer("4"), answer("four"), known(1), told("4"), told("4"))


def broken(*events: WideEvent) -> bool:
    verdict = judge_calls(index_wide(events))
    assert verdict.property == CALLS
    return not verdict.holds


def test_a_call_that_is_asked_again_and_answered_twice_is_right() -> None:
    assert not broken(*RIGHT)


def test_calls_that_nobody_answers_and_answers_that_are_not_accepted_are_right() -> None:
    assert not broken(asked(), known(1), answer("4", accepted=False))
    assert not broken(asked(), answer("4")), "its host does not know whether it was made"
    assert not broken(asked(), known(1), asked("other", "anna:2"), known(2, "other"), answer("4"), told("4"))


WRONG = {
    "made twice": (*RIGHT, known(2)),
    "two answers": (*RIGHT, told("four")),
    "an answer of nobody": (asked(), known(1), told("5")),
    "an answer of another cluster": (asked(), known(1), answer("4", SANDIEGO), told("4")),
    "an answer to another call": (asked(), known(1), answer("4", message="anna:2"), told("4")),
    "an answer to no call": (known(1), answer("4"), told("4")),
    "answered, and never told": RIGHT[:4],
}


@pytest.mark.parametrize("events", WRONG.values(), ids=WRONG.keys())
def test_an_error_is_found(events: tuple[WideEvent, ...]) -> None:
    assert broken(*events)
