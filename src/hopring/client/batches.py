"""Sending a batch that counts once: its messages go in order, each with its number, and receipts are awaited.

The verb behind `multicast_batch`. All of a batch goes by one connection: half by one and half by another could
leave a hole between. If it is lost, BatchInDoubt says so, and whoever sends the batch again, this session or
another one, sends it from the beginning. Receivers drop what they have had (once.py).
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from hopring.client.arguments import check_number, check_service, checked_message, got, group_named
from hopring.client.connection import Connection
from hopring.client.core import Core
from hopring.client.errors import BatchInDoubt, MessageTooLarge, WrongType, WrongValue
from hopring.client.events import Receipt
from hopring.client.outgoing import Ticket
from hopring.client.sending import Sending
from hopring.client.verbs import Verb, Wait, until_us
from hopring.ids import GroupName
from hopring.services import Service
from hopring.wire.batch_mark import APP_BYTES_MAX, BATCH_MAX, INDEXES, BatchMark, is_legal_app

BUNDLE_BYTES: Final = 64 * 1024
BUNDLE_MESSAGES: Final = 1024
"""A bundle of a batch is closed when it has about so much."""

Numbered = bytes | tuple[bytes, int]
"""A message of a batch, or a message and its type."""


class Batch(NamedTuple):
    """Which batch it is, and how it goes; `batch_of` has checked it."""

    group: GroupName
    app: str
    number: int
    service: Service

    def in_doubt(self, reason: str) -> BatchInDoubt:
        """The error for this batch."""
        return BatchInDoubt(self.group, self.app, self.number, reason)


def batch_of(group: str, app: str, number: int, service: Service) -> Batch:
    """A batch as an application describes it, checked."""
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
    return Batch(name, app, number, service)


def multicast_batch(
    core: Core, batch: Batch, messages: Iterable[Numbered], now_us: int, seconds: float | None = None
) -> Verb[Receipt | None]:
    """Returns the receipt of the last message when all are delivered; `seconds` may pass without progress."""
    now_us = yield from _moved(batch, core.may_ask, now_us, seconds)
    way = _Way(core, batch, core.connection)
    for bodies, types in _bundles(messages, core.welcomed.message_bytes_max):
        room = partial(way.has_room, len(bodies), sum(map(len, bodies)))
        now_us = yield from _moved(batch, room, now_us, seconds)
        way.send(bodies, types)
        way.settle()  # So that as many tickets are kept as can be out, however long the batch.
    while not way.settle():
        now_us = yield from _moved(batch, way.has_news, now_us, seconds)
    return way.last


@dataclass(slots=True)
class _Way:
    """A batch on its way, by one connection."""

    core: Core
    batch: Batch
    connection: Connection
    index: int = 0  # Of the next message.
    tickets: deque[Ticket] = field(default_factory=deque)
    last: Receipt | None = None

    def has_room(self, messages: int, bodies_bytes: int) -> bool:
        """Whether a bundle may go, or none will."""
        if self.connection.ended is not None:
            return True
        return self.core.has_room_for_bundle(self.batch.group, messages, bodies_bytes)

    def send(self, bodies: list[bytes], types: list[int]) -> None:
        """The next bundle; look at `has_room` first."""
        its = self.batch
        if self.connection.ended is not None:
            raise self._lost()
        if self.index + len(bodies) > INDEXES:
            raise WrongValue("messages", f"more than {INDEXES}", "divide them among several batches")
        sending = Sending((its.group,), b"", its.service)
        mark = BatchMark(its.app, its.number, self.index)
        self.tickets.append(self.core.outgoing.put_bundle(sending, mark, bodies, types))
        self.index += len(bodies)

    def has_news(self) -> bool:
        """Whether the receipt of the oldest bundle has come, or will not."""
        return self.tickets[0].receipt is not None or self.tickets[0].lost

    def settle(self) -> bool:
        """Takes receipts; whether all have come."""
        while self.tickets and self.tickets[0].receipt is not None:
            self.last = self.tickets.popleft().receipt
        if self.tickets and self.tickets[0].lost:
            raise self._lost()
        return not self.tickets

    def _lost(self) -> BatchInDoubt:
        why = getattr(self.connection.ended, "reason", "it broke")
        return self.batch.in_doubt(f"the connection was lost before all its receipts came ({why})")


def _moved(batch: Batch, condition: Callable[[], bool], now_us: int, seconds: float | None) -> Verb[int]:
    """Until the condition holds; BatchInDoubt if that takes too long. Returns the time, as far as known."""
    if condition():
        return now_us
    now_us = yield Wait(condition, now_us)  # Tells the time; much may have passed since the last wait.
    end_us = until_us(now_us, seconds)
    while not condition():
        if now_us >= end_us:
            raise batch.in_doubt(f"nothing moved for {seconds:g} s")
        now_us = yield Wait(condition, end_us)
    return now_us


def _bundles(messages: Iterable[Numbered], limit_bytes: int) -> Iterator[tuple[list[bytes], list[int]]]:
    """The messages in portions, each for a bundle."""
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
