"""W17: a call is made once, has one answer, which is one of the cluster that was asked, and gets it."""

from typing import Final

from hopring.check.properties.property import Verdict, broken, holds
from hopring.check.wide.history import (
    WideCallAccepted,
    WideCallAnswered,
    WideCallAnswerSent,
    WideCalled,
    WideHistory,
)
from hopring.haul.ids import ClusterId, ParcelId

CALLS: Final = "W17 a call is made once, and has one answer of the cluster that was asked"

CallKey = tuple[ClusterId, str, str]
"""A call of a set in a cluster, by its name."""


def judge_calls(history: WideHistory) -> Verdict:
    """W17: calls are made once, and answered once."""
    witness = _first_twice(history) or _first_invented(history) or _first_unanswered(history)
    return holds(CALLS) if witness is None else broken(CALLS, witness)


def _first_twice(history: WideHistory) -> str | None:
    parcels: dict[CallKey, ParcelId] = {}
    for event in history.of_kind(WideCallAccepted):
        first = parcels.setdefault((event.cluster, event.set, event.call), event.parcel)
        if first != event.parcel:
            return (
                f"{event.call} of cluster {event.cluster} is parcel {first.number}, and {event.parcel.number}"
            )
    return None


def _first_invented(history: WideHistory) -> str | None:
    made = {(one.cluster, one.set, one.call): one for one in history.of_kind(WideCalled)}
    sent = {(one.cluster, one.set, one.message, one.text) for one in history.of_kind(WideCallAnswerSent)}
    told: dict[CallKey, str] = {}
    for event in history.of_kind(WideCallAnswered):
        key = event.cluster, event.set, event.call
        call = made.get(key)
        if call is None or (call.to, call.set, call.message, event.text) not in sent:
            return f"{event.client} is told {event.text!r}, which nobody has answered to {event.call}"
        if told.setdefault(key, event.text) != event.text:
            return f"{event.client} is told {event.text!r} as the answer to {event.call}, after {told[key]!r}"
    return None


def _first_unanswered(history: WideHistory) -> str | None:
    known = {(one.cluster, one.set, one.call) for one in history.of_kind(WideCallAccepted)}
    told = {(one.cluster, one.set, one.call) for one in history.of_kind(WideCallAnswered)}
    answered = {(one.to, one.set, one.message) for one in history.of_kind(WideCallAnswerSent) if one.accepted}
    for call in history.of_kind(WideCalled):
        key = call.cluster, call.set, call.call
        if key in known and (call.cluster, call.set, call.message) in answered and key not in told:
            return f"{call.call} of cluster {call.cluster} was answered, and its caller is never told"
    return None
