"""Messages of one bundle, in columns: the unit of the hot path. Single messages are made only for who asks.

A bundle that came is a *lot* in the session's stream, and whoever takes something of it moves its place on. A
*run* is what was taken at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from hopring.client.events import Event, Message, bodies_of, groups_of, messages_of
from hopring.services import Service
from hopring.session.messages import Messages
from hopring.session.place import Place
from hopring.wire.bundle import Bundle


@dataclass(frozen=True, slots=True)
class MessageRun:
    """Messages that share all but type and body, in their order; columns are mapped, nothing is copied."""

    order: int  # The number of its first message among all events of the session, from 1.
    received_at_us: int  # When the library read it; microseconds since 1970.
    start: int  # Its first message in the bundle.
    end: int
    came: Messages = field(repr=False)

    def __len__(self) -> int:
        return self.end - self.start

    @property
    def bundle(self) -> Bundle:
        """What it came in."""
        return self.came.bundle

    @property
    def sender(self) -> str:
        """The sender's private group: an answer goes there."""
        return self.came.sender

    @property
    def groups(self) -> tuple[str, ...]:
        """Where it was sent to."""
        return self.came.bundle.run.groups

    @property
    def service(self) -> Service:
        """With what promise."""
        return self.came.bundle.run.service

    @property
    def place(self) -> Place:
        """In the one order of all groups; Unreliable messages have none."""
        return self.came.place

    @property
    def types(self) -> memoryview:
        """The type of each message."""
        return self.came.bundle.types[self.start : self.end]

    @property
    def offsets(self) -> memoryview:
        """Where each body begins in `whole`, and where the last one ends."""
        return self.came.bundle.offsets[self.start : self.end + 1]

    @property
    def whole(self) -> memoryview:
        """All bodies of the bundle, end to end."""
        return self.came.bundle.bodies

    def bodies(self) -> list[bytes]:
        """The body of each message."""
        return bodies_of(self.bundle, self.start, self.end)

    def messages(self) -> list[Message]:
        """The messages as events."""
        return messages_of(self.came, self.start, self.end)


@dataclass(slots=True, eq=False)
class Lot:
    """What came at once and nobody has taken all of: one event, or messages of one bundle in a row."""

    order: int  # Of the first of it, when it came.
    at_us: int
    credit_bytes: int  # For whoever takes the last of it.
    groups: Sequence[str]
    event: Event | None  # None if it is messages.
    came: Messages | None = None
    start: int = 0
    at: int = 0  # What is taken next.
    end: int = 1
    made: list[Message] = field(default_factory=list)  # The bundle's up to the end, once one was asked for.

    @property
    def messages(self) -> int:
        """How many wait in it."""
        return 0 if self.came is None else self.end - self.at

    def message(self) -> Message:
        """The next one; look first whether there is one."""
        if not self.made:
            assert self.came is not None, "it is messages"
            self.made = messages_of(self.came, 0, self.end)
        at = self.at
        self.at = at + 1
        return self.made[at]

    def run(self, messages: int) -> MessageRun:
        """The next ones, so many at most."""
        assert self.came is not None, "it is messages"
        at = self.at
        self.at = min(self.end, at + messages)
        return MessageRun(self.order + at - self.start, self.at_us, at, self.at, self.came)

    def forget(self) -> None:
        """All of it was taken; it may still stand in a queue."""
        self.at = self.end
        self.event = self.came = None
        self.made = []


def lot_of(event: Event, order: int, at_us: int, credit_bytes: int) -> Lot:
    """One event."""
    return Lot(order, at_us, credit_bytes, groups_of(event), event)
