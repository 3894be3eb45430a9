"""The calls of applications as generators, shared by the asyncio and the blocking session.

A call yields the condition that it waits for, with a deadline, gets the time when it continues, and returns its
result in the end; the session does the waiting. Closing a call at any yield is safe: that is how a cancelled
call ends.

A batch that counts once goes by one connection: half by one and half by another could leave a hole. If that
connection is lost, BatchInDoubt says so, and any session may send the batch again, from the beginning.
Receivers drop the messages that they have had (dedup.py).
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from hopring.client.arguments import check_number, check_service, checked_message, got, group_named
from hopring.client.connection import DaemonConnection, Request
from hopring.client.core import ClientCore
from hopring.client.errors import (
    AlreadyMember,
    BatchInDoubt,
    Expired,
    InDoubt,
    MessageTooLarge,
    NoReceipt,
    SessionClosed,
    TimedOut,
    WrongType,
    WrongValue,
)
from hopring.client.events import Event, Message, Receipt, View
from hopring.client.outgoing import OutgoingMessage, OutgoingSeries, Ticket
from hopring.client.queries import Query
from hopring.client.receiving.remote_replay import PageFetcher, RemoteReplay
from hopring.client.receiving.replay import BEHIND_SECONDS, POLL_US, Replay
from hopring.client.receiving.sequence import EventSequence, Taken
from hopring.ids import NEVER, GroupName, Place
from hopring.services import Service
from hopring.wire.batch_mark import APP_BYTES_MAX, BATCH_MAX, INDEXES, BatchMark, is_legal_app

GOODBYE_SECONDS: Final = 10.0
MANY_MESSAGES: Final = 1_000

T = TypeVar("T")


class Wait(NamedTuple):
    """A wait until the condition holds, or until a time."""

    condition: Callable[[], bool]
    until_us: int


Call = Generator[Wait, int, T]


def until_us(now_us: int, seconds: float | None) -> int:
    """The time after this many seconds; NEVER for None."""
    return NEVER if seconds is None else now_us + int(seconds * 1_000_000)


def join(core: ClientCore, group: str, now_us: int, seconds: float | None = None) -> Call[None]:
    """Joins a group; the session is a member when it returns."""
    return _ask(core, ("join", group), core.join, now_us, seconds)


def join_from(
    core: ClientCore,
    group: str,
    since: int | Place | None,
    spool: Path | str | None,
    now_us: int,
    seconds: float | None = None,
    fetcher: PageFetcher | None = None,
) -> Call[None]:
    """Joins a group; with `since`, events of a spool precede the live ones. `check_join` has checked them.

    Without the directory of the spool its pages come by the fetcher, from a spooler.
    """
    if since is None:
        yield from join(core, group, now_us, seconds)
        return
    if group in core.replays or group in core.groups:
        raise AlreadyMember(group, "the session is in it, or soon will be", "leave it first")
    if spool is not None:
        replay = Replay(spool, group, since)
    else:
        assert fetcher is not None, "a session that asks spoolers"
        replay = RemoteReplay(group, since, fetcher)
    core.replays[group] = replay
    try:
        yield from _until(lambda: replay.begun, now_us, seconds, "join")
        yield from join(core, group, now_us, seconds)
    except BaseException:
        replay.close()
        core.replays.pop(group, None)
        raise


def leave(core: ClientCore, group: str, now_us: int, seconds: float | None = None) -> Call[None]:
    """Leaves a group; the session is no member when it returns."""
    yield from _ask(core, ("leave", group), core.leave, now_us, seconds)
    replay = core.replays.pop(group, None)
    if replay is not None:
        replay.close()


def end_replays(core: ClientCore) -> None:
    """Ends what replays have beside the session, when that ends."""
    for replay in core.replays.values():
        replay.close()


def multicast(
    core: ClientCore, sending: OutgoingMessage, now_us: int, seconds: float | None = None
) -> Call[None]:
    """Waits for room in the window and sends a message."""
    if sending.ttl_us:
        sending = yield from _wait_alive(lambda: core.has_room(sending), sending, now_us, seconds, "multicast")
    else:
        yield from _until(lambda: core.has_room(sending), now_us, seconds, "multicast")
    core.send(sending)


def _wait_alive(
    has_room: Callable[[], bool], sending: OutgoingMessage, now_us: int, seconds: float | None, what: str
) -> Call[OutgoingMessage]:
    """Waits for room as long as the message lives; returns it with the rest of its time."""
    end_us, dead_us = until_us(now_us, seconds), now_us + sending.ttl_us
    while not has_room():
        now_us = yield Wait(has_room, min(end_us, dead_us))
        if now_us >= dead_us:
            raise Expired(sending.groups, sending.ttl_us / 1_000_000)
        if now_us >= end_us and not has_room():
            raise TimedOut(what, seconds or 0.0)
    return sending._replace(ttl_us=dead_us - now_us)


def multicast_many(
    core: ClientCore, many: OutgoingSeries, now_us: int, seconds: float | None = None
) -> Call[None]:
    """Sends a series of messages, waiting for room in the window."""
    end_us = until_us(now_us, seconds)
    while many.left:
        yield from _wait(lambda: core.has_room_for_some(many), end_us, seconds, "multicast_many")
        core.send_some(many)


def multicast_wait(
    core: ClientCore, sending: OutgoingMessage, now_us: int, seconds: float | None = None
) -> Call[Receipt]:
    """Sends a message and waits for its receipt; the kind of error shows whether it was sent."""
    if sending.service.loose:
        reason = "an Unreliable message has no place in the order, so it has no receipt"
        raise WrongValue("service", reason, "use multicast, or Service.RELIABLE or above")
    end_us = until_us(now_us, seconds)
    what = "multicast_wait: the message was not sent, for want of room in the window"
    room = partial(core.has_room_and_ticket, sending)
    if sending.ttl_us:
        sending = yield from _wait_alive(room, sending, now_us, seconds, what)
    else:
        yield from _wait(room, end_us, seconds, what)
    ticket = core.send_for_receipt(sending)
    try:
        yield from _wait(lambda: ticket.receipt is not None or ticket.lost, end_us, seconds, what)
    except TimedOut:
        raise NoReceipt(sending.groups, seconds or 0.0) from None
    if ticket.denied is not None:
        raise ticket.denied
    if ticket.receipt is None:
        raise InDoubt(sending.groups, "the connection was lost before its receipt came")
    return ticket.receipt


def receive(core: ClientCore, group: str | None, now_us: int, seconds: float | None = None) -> Call[Event]:
    """Waits for the next event; an error if none can arrive."""
    replayed = yield from _replayed(core, group, now_us, until_us(now_us, seconds))
    if replayed is not None:
        return replayed
    yield from _until(lambda: core.stream.waits(group) or core.is_over(group), now_us, seconds, "receive")
    event = core.take(group)
    if event is None:
        raise core.ended or SessionClosed(f"{group} was left")
    return event


def receive_many(
    core: ClientCore, group: str | None, messages: int, now_us: int, seconds: float | None
) -> Call[EventSequence]:
    """Waits for many events. None is taken before the last wait is over: a cancelled call loses none."""
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


def following(core: ClientCore, group: str | None, now_us: int) -> Call[Event | None]:
    """The next event for a loop: None if the loop ends normally, an error otherwise."""
    replayed = yield from _replayed(core, group, now_us, NEVER)
    if replayed is not None:
        return replayed
    yield from _until(lambda: core.stream.waits(group) or core.is_over(group), now_us, None, "receive")
    event = core.take(group)
    closed = core.quit_done or core.closed_here
    if event is None and core.ended is not None and not closed and core.is_in(group):
        raise core.ended
    return event


def _replayed(core: ClientCore, group: str | None, now_us: int, end_us: int) -> Call[Event | None]:
    """The next event of a replay; None if there is none left, or not in time."""
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
        now_us = yield Wait(replay.has_news, min(now_us + POLL_US, end_us))
    return None


def _replayed_many(core: ClientCore, group: str | None, first: Event | None, messages: int) -> EventSequence:
    """The events of a replay that need no waiting; they have no number in the session."""
    taken: list[Taken] = []
    replay = core.replay(group)
    event = first
    while event is not None:
        taken.append(Taken(event, 0, 0))
        messages -= isinstance(event, Message)
        event = replay.next() if replay is not None and messages > 0 else None
    return EventSequence(tuple(taken))


def query(core: ClientCore, asked: Query[T], now_us: int, seconds: float | None = None) -> Call[T]:
    """Runs a query; repeats a question if the connection was lost meanwhile."""
    end_us = until_us(now_us, seconds)
    question = next(asked)
    while True:
        yield from _wait(core.may_ask, end_us, seconds, question[0])
        serial = core.ask(*question)
        try:
            yield from _wait(lambda one=serial: core.has_query_answer(one), end_us, seconds, question[0])  # type: ignore[misc]
            query_answers = core.query_answers.get(serial)
            question = question if query_answers is None else asked.send(query_answers)
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            core.query_answers.pop(serial, None)


def close(core: ClientCore, now_us: int) -> Call[None]:
    """Ends the session after all its requests; an error if messages are left in doubt."""
    if core.ended is not None:
        return
    core.quit()
    yield from _until(lambda: core.ended is not None, now_us, GOODBYE_SECONDS, "close")
    _raise_if_in_doubt(core)
    core.raise_denied()


def _raise_if_in_doubt(core: ClientCore) -> None:
    if isinstance(core.ended, SessionClosed) and core.ended.in_doubt:
        raise core.ended


def _ask(
    core: ClientCore, request: Request, ask: Callable[[str], None], now_us: int, seconds: float | None
) -> Call[None]:
    end_us = until_us(now_us, seconds)
    # Only one call at a time waits for the answer to this request.
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


def _until(condition: Callable[[], bool], now_us: int, seconds: float | None, what: str) -> Call[None]:
    return _wait(condition, until_us(now_us, seconds), seconds, what)


def _wait(condition: Callable[[], bool], end_us: int, seconds: float | None, what: str) -> Call[None]:
    while not condition():
        now_us = yield Wait(condition, end_us)
        if now_us >= end_us and not condition():
            raise TimedOut(what, seconds or 0.0)


BUNDLE_BYTES: Final = 64 * 1024
BUNDLE_MESSAGES: Final = 1024
"""The limits at which a bundle of a batch is closed."""

BatchItem = bytes | tuple[bytes, int]
"""A message of a batch: its body, or its body and type."""


class OutgoingBatch(NamedTuple):
    """A batch that counts once, checked by `batch_of`."""

    group: GroupName
    app: str
    number: int
    service: Service

    def in_doubt(self, reason: str) -> BatchInDoubt:
        """The error that leaves this batch in doubt."""
        return BatchInDoubt(self.group, self.app, self.number, reason)


def batch_of(group: str, app: str, number: int, service: Service) -> OutgoingBatch:
    """Checks the arguments of `multicast_batch`."""
    name = group_named(group)
    remedy = f"name the application with a str of 1 to {APP_BYTES_MAX} bytes of UTF-8 without NUL"
    if not isinstance(app, str):
        raise WrongType("app", got(app), remedy)
    if not is_legal_app(app):
        raise WrongValue("app", f"got {app!r}", remedy)
    check_number("batch", number, 0, BATCH_MAX)
    check_service(service)
    if service.loose:
        raise WrongValue("service", "an Unreliable message has no receipt", "use Service.RELIABLE or above")
    return OutgoingBatch(name, app, number, service)


def multicast_batch(
    core: ClientCore,
    batch: OutgoingBatch,
    messages: Iterable[BatchItem],
    now_us: int,
    seconds: float | None = None,
) -> Call[Receipt | None]:
    """Sends a batch; returns the last receipt when all messages are delivered. `seconds` limits each pause."""
    if not core.named:
        raise WrongValue(
            "name",
            "a session with a random name sends a batch",
            "give connect a name: receivers know a repeated batch by the sender's name",
        )
    now_us = yield from _wait_for_progress(batch, core.may_ask, now_us, seconds)
    sender = _BatchSender(core, batch, core.connection)
    for bodies, types in _bundles(messages, core.welcomed.message_bytes_max):
        room = partial(sender.has_room, len(bodies), sum(map(len, bodies)))
        now_us = yield from _wait_for_progress(batch, room, now_us, seconds)
        sender.send(bodies, types)
        sender.take_receipts()  # Bounds the number of tickets, however long the batch.
    while not sender.take_receipts():
        now_us = yield from _wait_for_progress(batch, sender.has_news, now_us, seconds)
    return sender.last


@dataclass(slots=True)
class _BatchSender:
    """Sends one batch by one connection."""

    core: ClientCore
    batch: OutgoingBatch
    connection: DaemonConnection
    index: int = 0  # Of the next message.
    tickets: deque[Ticket] = field(default_factory=deque)
    last: Receipt | None = None

    def has_room(self, messages: int, bodies_bytes: int) -> bool:
        """Whether there is room for a bundle, or the connection has ended."""
        if self.connection.ended is not None:
            return True
        return self.core.has_room_for_bundle(self.batch.group, messages, bodies_bytes)

    def send(self, bodies: list[bytes], types: list[int]) -> None:
        """Sends the next bundle; check `has_room` first."""
        its = self.batch
        if self.connection.ended is not None:
            raise self._lost()
        if self.index + len(bodies) > INDEXES:
            raise WrongValue("messages", f"more than {INDEXES}", "divide them among several batches")
        sending = OutgoingMessage((its.group,), b"", its.service)
        mark = BatchMark(its.app, its.number, self.index)
        self.tickets.append(self.core.outgoing.append_bundle(sending, mark, bodies, types))
        self.index += len(bodies)

    def has_news(self) -> bool:
        """Whether the receipt of the oldest bundle has arrived, or is lost."""
        return self.tickets[0].receipt is not None or self.tickets[0].lost

    def take_receipts(self) -> bool:
        """Takes the receipts that have arrived, in their order; returns whether none is missing."""
        while self.tickets and self.tickets[0].receipt is not None:
            self.last = self.tickets.popleft().receipt
        if self.tickets and self.tickets[0].denied is not None:
            raise self.tickets[0].denied
        if self.tickets and self.tickets[0].lost:
            raise self._lost()
        return not self.tickets

    def _lost(self) -> BatchInDoubt:
        why = getattr(self.connection.ended, "reason", "it broke")
        return self.batch.in_doubt(f"the connection was lost before all its receipts came ({why})")


def _wait_for_progress(
    batch: OutgoingBatch, condition: Callable[[], bool], now_us: int, seconds: float | None
) -> Call[int]:
    """Waits for a condition; BatchInDoubt if that takes too long. Returns the latest known time."""
    if condition():
        return now_us
    now_us = yield Wait(condition, now_us)  # Returns the time; much may have passed since the last wait.
    end_us = until_us(now_us, seconds)
    while not condition():
        if now_us >= end_us:
            raise batch.in_doubt(f"nothing moved for {seconds:g} s")
        now_us = yield Wait(condition, end_us)
    return now_us


def _bundles(messages: Iterable[BatchItem], limit_bytes: int) -> Iterator[tuple[list[bytes], list[int]]]:
    """Divides the messages into bundles."""
    bodies: list[bytes] = []
    types: list[int] = []
    size_bytes = 0
    for at, message in enumerate(messages):
        data, kind = checked_message(at, message)
        if len(data) > limit_bytes:
            raise MessageTooLarge(len(data), limit_bytes)
        full = len(bodies) == BUNDLE_MESSAGES or size_bytes + len(data) > min(BUNDLE_BYTES, limit_bytes)
        if bodies and full:
            yield bodies, types
            bodies, types, size_bytes = [], [], 0
        bodies.append(data)
        types.append(kind)
        size_bytes += len(data)
    if bodies:
        yield bodies, types
