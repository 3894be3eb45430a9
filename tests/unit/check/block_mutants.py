"""Small alterations of records of blocks, each with the property that must detect it.

A mutant yields every edit of its kind for the events of a record: the events that replace some of them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from hopring.check import calls, kept_values, locks, minimum, state, view_synchrony
from hopring.check.calls import CallMade, CallOver, ReplySent, ReplyTaken, RequestDelivered, RequestDone
from hopring.check.kept_values import (
    TimedShown,
    TimeEnded,
    ValueAtEnd,
    ValueAtJoin,
    ValueAtView,
    ValueSeen,
)
from hopring.check.locks import LockAwaited, LockTaken
from hopring.check.minimum import MinimumView, OrderedShown, SenderWaits
from hopring.check.state import BecameReady, OperationApplied, RoundBegan, Spoke, StateAtEnd
from hopring.check.view_synchrony import (
    AgreementSent,
    FlushAgreed,
    FlushAsked,
    SentInView,
    ShownInView,
    StayBegan,
    SynchronousView,
)

Events = Sequence[Any]
Edit = dict[int, list[Any]]


def of(events: Events, kind: type) -> Iterator[tuple[int, Any]]:
    """The events of this kind with their places."""
    return ((at, event) for at, event in enumerate(events) if isinstance(event, kind))


def edited(events: Events, edit: Edit) -> list[Any]:
    """The record after an edit, with its events in place."""
    return [new for at, event in enumerate(events) for new in edit.get(at, [event])]


# Locks.


def holders(events: Events) -> list[tuple[int, LockTaken]]:
    return [(at, event) for at, event in of(events, LockTaken) if not event.partial]


def takes_what_is_held(events: Events) -> Iterator[Edit]:
    for at, event in holders(events):
        yield {at: [event, replace(event, holder="thief", step=event.step + 1)]}


def takes_with_the_first_fence_again(events: Events) -> Iterator[Edit]:
    for at, event in holders(events)[1:]:
        yield {at: [replace(event, epoch=0, step=0)]}


def takes_outside_of_a_primary(events: Events) -> Iterator[Edit]:
    for at, event in of(events, LockTaken):
        yield {at: [replace(event, primary=not event.primary)]}


def waits_for_a_free_lock(events: Events) -> Iterator[Edit]:
    last = len(events) - 1
    late = LockAwaited(events[last].at_us + 10_000_000, "late", "unused")
    yield {last: [events[last], late]}


def takes_the_fence_of_another(events: Events) -> Iterator[Edit]:
    taken = holders(events)
    for at, event in taken[1:]:
        before = [one for place, one in taken if place < at and one.lock == event.lock]
        if before and before[-1].holder != event.holder:
            yield {at: [replace(event, epoch=before[-1].epoch, step=before[-1].step)]}


# Calls.


def _twice(kind: type, events: Events) -> Iterator[Edit]:
    for at, event in of(events, kind):
        yield {at: [event, event]}


def does_a_request_twice(events: Events) -> Iterator[Edit]:
    return _twice(RequestDone, events)


def answers_twice(events: Events) -> Iterator[Edit]:
    for at, event in of(events, ReplySent):
        if not event.again:
            yield {at: [event, event]}


def answers_another_call(events: Events) -> Iterator[Edit]:
    for at, event in of(events, ReplyTaken):
        yield {at: [replace(event, content="another")]}


def answers_without_the_request(events: Events) -> Iterator[Edit]:
    for _at, taken in of(events, ReplyTaken):
        which = taken.server, taken.caller, taken.serial
        got = [
            place
            for place, one in of(events, RequestDelivered)
            if (one.server, one.caller, one.serial) == which
        ]
        yield {place: [] for place in got}


def forgets_its_call(events: Events) -> Iterator[Edit]:
    answered = {(one.caller, one.serial) for _at, one in of(events, ReplyTaken)}
    for at, event in of(events, CallMade):
        if (event.caller, event.serial) in answered:
            yield {at: []}


def ends_twice(events: Events) -> Iterator[Edit]:
    return _twice(CallOver, events)


def never_ends(events: Events) -> Iterator[Edit]:
    for at, _event in of(events, CallOver):
        yield {at: []}


def does_what_another_did(events: Events) -> Iterator[Edit]:
    for at, event in of(events, RequestDone):
        yield {at: [event, replace(event, server="thief")]}


def does_with_an_old_fence(events: Events) -> Iterator[Edit]:
    for at, event in list(of(events, RequestDone))[1:]:
        yield {at: [replace(event, fence=0)]}


# View synchrony.


def view_after(events: Events, at: int, stay: str) -> tuple[int, SynchronousView] | None:
    return next(((p, one) for p, one in of(events, SynchronousView) if p > at and one.stay == stay), None)


def delivers_in_the_next_view(events: Events) -> Iterator[Edit]:
    for at, event in of(events, ShownInView):
        after = view_after(events, at, event.stay)
        if after is not None:
            place, view = after
            yield {at: [], place: [view, event]}


def delivers_in_another_view_than_others(events: Events) -> Iterator[Edit]:
    shown = [event.message for _at, event in of(events, ShownInView)]
    return (edit for edit in delivers_in_the_next_view(events) if shown.count(events[min(edit)].message) > 1)


def installs_without_agreement(events: Events) -> Iterator[Edit]:
    names = {event.stay: event.name for _at, event in of(events, StayBegan)}
    agreed = [(names[event.stay], event.view) for _at, event in of(events, AgreementSent)]
    needed = {(name, view.view) for _at, view in of(events, SynchronousView) for name in view.members}
    for at, event in of(events, AgreementSent):
        which = names[event.stay], event.view
        if which in needed and agreed.count(which) == 1:
            yield {at: []}


def sends_after_it_agreed(events: Events) -> Iterator[Edit]:
    for at, event in of(events, FlushAgreed):
        yield {at: [event, SentInView(event.at_us, event.stay, "late")]}


def lacks_what_a_companion_sent(events: Events) -> Iterator[Edit]:
    senders = {event.message: event.stay for _at, event in of(events, SentInView)}
    names = {event.stay: event.name for _at, event in of(events, StayBegan)}
    for at, event in of(events, ShownInView):
        after = view_after(events, at, event.stay)
        sender = senders.get(event.message, "")
        if after is not None and names.get(sender) in after[1].together and sender != event.stay:
            began = max(p for p, one in of(events, StayBegan) if one.name == names[sender] and p < after[0])
            if events[began].stay == sender:
                yield {at: []}


def names_fewer_members(events: Events) -> Iterator[Edit]:
    views = [event.view for _at, event in of(events, SynchronousView)]
    for at, event in of(events, SynchronousView):
        if views.count(event.view) > 1:
            yield {at: [replace(event, members=event.members[1:])]}


def comes_alone(events: Events) -> Iterator[Edit]:
    names = {event.stay: event.name for _at, event in of(events, StayBegan)}
    for at, event in of(events, SynchronousView):
        if len(event.together) > 1:
            yield {at: [replace(event, together=(names[event.stay],))]}


def is_asked_to_flush_in_the_end(events: Events) -> Iterator[Edit]:
    ended = {event.stay for _at, event in of(events, view_synchrony.StayEnded)}
    last = len(events) - 1
    for stay in sorted({event.stay for _at, event in of(events, StayBegan)} - ended):
        yield {last: [FlushAsked(events[last].at_us, stay), events[last]]}


# State.

OTHER = ("another",)


def takes_another_state(events: Events) -> Iterator[Edit]:
    for at, event in of(events, BecameReady):
        if len(event.sources) == 1:
            yield {at: [replace(event, state=OTHER)]}


def takes_the_state_of_one_without(events: Events) -> Iterator[Edit]:
    sources = {source for _at, event in of(events, BecameReady) for source in event.sources}
    for at, event in of(events, RoundBegan):
        if (event.agent, event.round) in sources:
            yield {at: []}


def speaks_besides_another(events: Events) -> Iterator[Edit]:
    for at, event in of(events, Spoke):
        if event.of:
            yield {at: [event, replace(event, agent="another")]}


def applies_to_another_state(events: Events) -> Iterator[Edit]:
    first: dict[tuple[Any, ...], int] = {}
    for at, event in of(events, OperationApplied):
        if event.settled and first.setdefault((event.place, event.operation), at) != at:
            yield {at: [replace(event, state=OTHER)]}


def is_not_ready_in_the_end(events: Events) -> Iterator[Edit]:
    for at, event in of(events, StateAtEnd):
        yield {at: [replace(event, state=None)]}


# Minimum sizes.


def delivers_while_suspended(events: Events) -> Iterator[Edit]:
    for at, event in of(events, MinimumView):
        if event.suspended:
            yield {at: [event, OrderedShown(event.at_us, event.member, "late")]}


def is_told_of_fewer_members(events: Events) -> Iterator[Edit]:
    shown = [event.view for _at, event in of(events, MinimumView)]
    for at, event in of(events, MinimumView):
        if shown.count(event.view) > 1:
            yield {at: [replace(event, members=event.members + 1)]}


def is_suspended_though_enough_are_there(events: Events) -> Iterator[Edit]:
    for at, event in of(events, MinimumView):
        if event.minimum != minimum.ALL and not event.closing:
            yield {at: [replace(event, suspended=not event.suspended)]}


def loses_its_minimum_by_a_split(events: Events) -> Iterator[Edit]:
    told: dict[str, MinimumView] = {}
    for at, event in of(events, MinimumView):
        before, told[event.member] = told.get(event.member), event
        if before is not None and before.minimum > 1 and event.minimum >= 0:
            wrong = replace(event, members=1, minimum=0, suspended=False, split=True)
            yield {at: [wrong]}


def waits_in_the_end(events: Events) -> Iterator[Edit]:
    for at, event in of(events, OrderedShown):
        yield {at: [event, SenderWaits(event.at_us, event.member, event.message)]}


# Times to live and retained values.


def delivers_what_has_expired(events: Events) -> Iterator[Edit]:
    for at, event in of(events, TimeEnded):
        yield {at: [event, TimedShown(event.at_us, "ann/1", event.message)]}


def expires_too_soon(events: Events) -> Iterator[Edit]:
    for at, event in of(events, TimeEnded):
        yield {at: [replace(event, deadline_us=event.at_us + 1)]}


def joins_without_the_value(events: Events) -> Iterator[Edit]:
    seen = {event.view for _at, event in of(events, ValueAtView) if event.value}
    for at, event in of(events, ValueAtJoin):
        if event.view in seen:
            yield {at: [replace(event, value="another")]}


def has_another_value_in_the_end(events: Events) -> Iterator[Edit]:
    views = [event.view for _at, event in of(events, ValueAtEnd)]
    for at, event in of(events, ValueAtEnd):
        if views.count(event.view) > 1:
            yield {at: [replace(event, value="another")]}


def sees_an_older_value(events: Events) -> Iterator[Edit]:
    members: set[str] = set()
    for at, event in of(events, ValueSeen):
        if event.member in members:
            yield {at: [replace(event, place=(0,))]}
        members.add(event.member)


BLOCK_MUTANTS: dict[Callable[[Events], Iterator[Edit]], tuple[str, str]] = {
    takes_what_is_held: ("locks", locks.ONE_HOLDER),
    takes_with_the_first_fence_again: ("locks", locks.FENCES_RISE),
    takes_outside_of_a_primary: ("locks", locks.IN_PRIMARIES),
    waits_for_a_free_lock: ("locks", locks.ALL_GRANTED),
    takes_the_fence_of_another: ("locks", locks.PLACES),
    does_a_request_twice: ("calls", calls.DONE_ONCE),
    answers_twice: ("calls", calls.ANSWERED_ONCE),
    answers_another_call: ("calls", calls.OF_ITS_CALL),
    forgets_its_call: ("calls", calls.OF_ITS_CALL),
    answers_without_the_request: ("calls", calls.DELIVERED_THERE),
    ends_twice: ("calls", calls.ENDS),
    never_ends: ("calls", calls.ALL_END),
    does_what_another_did: ("handlers", calls.BY_HOLDER),
    does_with_an_old_fence: ("handlers", calls.IN_TURN),
    delivers_in_the_next_view: ("flush", view_synchrony.SENDING_VIEW),
    delivers_in_another_view_than_others: ("flush", view_synchrony.SAME_VIEW),
    installs_without_agreement: ("flush", view_synchrony.ALL_AGREED),
    sends_after_it_agreed: ("flush", view_synchrony.QUIET_BEFORE),
    lacks_what_a_companion_sent: ("flush", view_synchrony.COMPLETE),
    names_fewer_members: ("flush", view_synchrony.AGREEMENT),
    comes_alone: ("flush", view_synchrony.AGREEMENT),
    is_asked_to_flush_in_the_end: ("flush", view_synchrony.ALL_ARRIVE),
    takes_another_state: ("state", state.SPEAKERS_STATE),
    takes_the_state_of_one_without: ("state", state.HAS_STATE),
    speaks_besides_another: ("state", state.ONE_SPEAKER),
    applies_to_another_state: ("state", state.SAME_STATES),
    is_not_ready_in_the_end: ("state", state.ALL_READY),
    delivers_while_suspended: ("minimum", minimum.NOT_WHILE_SUSPENDED),
    is_told_of_fewer_members: ("minimum", minimum.ALIKE),
    is_suspended_though_enough_are_there: ("minimum", minimum.WHEN_MISSED),
    loses_its_minimum_by_a_split: ("minimum", minimum.KEPT),
    waits_in_the_end: ("minimum", minimum.NONE_WAITS),
    delivers_what_has_expired: ("values", kept_values.EXPIRED),
    expires_too_soon: ("values", kept_values.IN_TIME),
    joins_without_the_value: ("values", kept_values.AT_JOIN),
    has_another_value_in_the_end: ("values", kept_values.AT_END),
    sees_an_older_value: ("values", kept_values.NOT_OLDER),
}
"""By alteration: the block, and the property."""
