"""What applications ask for, written once for both shells: verbs that wait, without saying how.

A verb is a generator. It yields what it waits for, with the time at which it no longer wants to wait, and is
told the time when it goes on; in the end it returns its result.
Closing a verb at any yield is safe: that is how a cancelled call ends.
"""

from collections.abc import Callable, Generator
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from hopring.client.core import Core
from hopring.client.errors import AlreadyMember, InDoubt, NoReceipt, SessionClosed, TimedOut, WrongValue
from hopring.client.events import Event, Message, Receipt, View
from hopring.client.kept import Request
from hopring.client.queries import Query
from hopring.client.sending import Many, Sending
from hopring.client.sequence import EventSequence, Taken
from hopring.client.since import BEHIND_SECONDS, LOOK_US, Replay
from hopring.ids import NEVER

GOODBYE_SECONDS: Final = 10.0
MANY_MESSAGES: Final = 1_000

T = TypeVar("T")


class Wait(NamedTuple):
    """Until the condition holds, or until that time."""

    condition: Callable[[], bool]
    until_us: int


Verb = Generator[Wait, int, T]


def until_us(now_us: int, seconds: float | None) -> int:
    """When so many seconds are over."""
    return NEVER if seconds is None else now_us + int(seconds * 1_000_000)


def join(core: Core, group: str, now_us: int, seconds: float | None = None) -> Verb[None]:
    """Is a member when it returns."""
    return _ask(core, ("join", group), core.join, now_us, seconds)


def join_from(
    core: Core,
    group: str,
    since: int | None,
    spool: Path | str | None,
    now_us: int,
    seconds: float | None = None,
) -> Verb[None]:
    """The same; with an offset, the events of a spool come first. `check_join` has looked at the arguments."""
    if since is None or spool is None:
        yield from join(core, group, now_us, seconds)
        return
    if group in core.replays or group in core.groups:
        raise AlreadyMember(group, "the session is in it, or soon will be", "leave it first")
    core.replays[group] = Replay(spool, group, since)
    try:
        yield from join(core, group, now_us, seconds)
    except BaseException:
        core.replays.pop(group, None)
        raise


def leave(core: Core, group: str, now_us: int, seconds: float | None = None) -> Verb[None]:
    """Is a member no longer when it returns."""
    yield from _ask(core, ("leave", group), core.leave, now_us, seconds)
    core.replays.pop(group, None)


def multicast(core: Core, sending: Sending, now_us: int, seconds: float | None = None) -> Verb[None]:
    """Has handed the message to the window when it returns."""
    yield from _until(lambda: core.has_room(sending), now_us, seconds, "multicast")
    core.send(sending)


def multicast_many(core: Core, many: Many, now_us: int, seconds: float | None = None) -> Verb[None]:
    """Has handed all the messages to the window when it returns."""
    end_us = until_us(now_us, seconds)
    while many.left:
        yield from _wait(lambda: core.has_room_for_some(many), end_us, seconds, "multicast_many")
        core.send_some(many)


def multicast_wait(core: Core, sending: Sending, now_us: int, seconds: float | None = None) -> Verb[Receipt]:
    """The receipt of the message; an error says whether it was sent."""
    if sending.service.loose:
        reason = "an Unreliable message has no place in the order, so it has no receipt"
        raise WrongValue("service", reason, "use multicast, or Service.RELIABLE or above")
    end_us = until_us(now_us, seconds)
    what = "multicast_wait: the message was not sent, for want of room in the window"
    yield from _wait(lambda: core.has_room_and_ticket(sending), end_us, seconds, what)
    ticket = core.send_for_receipt(sending)
    try:
        yield from _wait(lambda: ticket.receipt is not None or ticket.lost, end_us, seconds, what)
    except TimedOut:
        raise NoReceipt(sending.groups, seconds or 0.0) from None
    if ticket.receipt is None:
        raise InDoubt(sending.groups, "the connection was lost before its receipt came")
    return ticket.receipt


def receive(core: Core, group: str | None, now_us: int, seconds: float | None = None) -> Verb[Event]:
    """The next event; an error if there will be none."""
    replayed = yield from _replayed(core, group, now_us, until_us(now_us, seconds))
    if replayed is not None:
        return replayed
    yield from _until(lambda: core.stream.waits(group) or core.is_over(group), now_us, seconds, "receive")
    event = core.take(group)
    if event is None:
        raise core.ended or SessionClosed(f"{group} was left")
    return event


def receive_many(
    core: Core, group: str | None, messages: int, now_us: int, seconds: float | None
) -> Verb[EventSequence]:
    """Many events. Nothing is taken before the last wait is over: a cancelled call loses none."""
    replayed = yield from _replayed(core, group, now_us, until_us(now_us, seconds))
    if replayed is not None or core.replay(group) is not None:
        return _replayed_many(core, group, replayed, messages)
    if seconds is None:
        yield from _wait(lambda: core.stream.waits(group) or core.is_over(group), NEVER, None, "receive_many")
    else:
        end_us = until_us(now_us, seconds)
        while now_us < end_us and not core.has_many(messages, group) and not core.is_over(group):
            now_us = yield Wait(lambda: core.has_many(messages, group) or core.is_over(group), end_us)
    events = core.take_many(messages, group)
    if not events and core.is_over(group):
        raise core.ended or SessionClosed(f"{group} was left")
    return events


def following(core: Core, group: str | None, now_us: int) -> Verb[Event | None]:
    """The next event for a loop over all: None where the loop ends, an error where it breaks."""
    replayed = yield from _replayed(core, group, now_us, NEVER)
    if replayed is not None:
        return replayed
    yield from _until(lambda: core.stream.waits(group) or core.is_over(group), now_us, None, "receive")
    event = core.take(group)
    closed = core.quit_done or core.closed_here
    if event is None and core.ended is not None and not closed and core.is_in(group):
        raise core.ended
    return event


def _replayed(core: Core, group: str | None, now_us: int, end_us: int) -> Verb[Event | None]:
    """The next event of a spool, None if nothing is left to replay, or not in time."""
    behind_us = now_us + int(BEHIND_SECONDS * 1_000_000)
    while (replay := core.replay(group)) is not None:
        if replay.upto is None:
            first = core.stream.first(replay.group)
            replay.upto = first.event.id if first is not None and isinstance(first.event, View) else None
        event = None if replay.upto is None else replay.next()
        if event is not None:
            return event
        if replay.done or (replay.upto is None and core.ended is not None):
            core.end_replay(replay)
            continue
        if now_us >= end_us:
            return None
        if now_us >= behind_us:
            raise replay.behind()
        now_us = yield Wait(lambda: False, min(now_us + LOOK_US, end_us))
    return None


def _replayed_many(core: Core, group: str | None, first: Event | None, messages: int) -> EventSequence:
    """What can be had of a spool without waiting; events of the past have no number in the session."""
    taken: list[Taken] = []
    replay = core.replay(group)
    event = first
    while event is not None:
        taken.append(Taken(event, 0, 0))
        messages -= isinstance(event, Message)
        event = replay.next() if replay is not None and messages > 0 else None
    return EventSequence(tuple(taken))


def query(core: Core, asked: Query[T], now_us: int, seconds: float | None = None) -> Verb[T]:
    """What the daemon tells; asked again if the connection was lost meanwhile."""
    end_us = until_us(now_us, seconds)
    question = next(asked)
    while True:
        yield from _wait(core.may_ask, end_us, seconds, question[0])
        serial = core.ask(*question)
        try:
            yield from _wait(lambda one=serial: core.has_told(one), end_us, seconds, question[0])  # type: ignore[misc]
            told = core.told.get(serial)
            question = question if told is None else asked.send(told)
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            core.told.pop(serial, None)


def close(core: Core, now_us: int) -> Verb[None]:
    """Ends the session behind all that it asked for; an error if messages are left in doubt."""
    if core.ended is not None:
        return
    core.quit()
    yield from _until(lambda: core.ended is not None, now_us, GOODBYE_SECONDS, "close")
    _raise_if_in_doubt(core)


def _raise_if_in_doubt(core: Core) -> None:
    if isinstance(core.ended, SessionClosed) and core.ended.in_doubt:
        raise core.ended


def _ask(
    core: Core, request: Request, ask: Callable[[str], None], now_us: int, seconds: float | None
) -> Verb[None]:
    end_us = until_us(now_us, seconds)
    # One call at a time waits for such an answer.
    yield from _wait(lambda: core.may_ask() and request not in core.asking, end_us, seconds, request[0])
    core.asking.add(request)
    core.answers.pop(request, None)  # Of a call that was cancelled.
    try:
        ask(request[1])
        yield from _wait(lambda: core.answered(request), end_us, seconds, request[0])
    finally:
        core.asking.discard(request)
    answer = core.answers.pop(request)
    if answer is not None:
        raise answer


def _until(condition: Callable[[], bool], now_us: int, seconds: float | None, what: str) -> Verb[None]:
    return _wait(condition, until_us(now_us, seconds), seconds, what)


def _wait(condition: Callable[[], bool], end_us: int, seconds: float | None, what: str) -> Verb[None]:
    while not condition():
        now_us = yield Wait(condition, end_us)
        if now_us >= end_us and not condition():
            raise TimedOut(what, seconds or 0.0)
