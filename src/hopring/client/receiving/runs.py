"""Messages of one bundle in columns: the unit of the hot path. Message objects are made only when needed.

A delivered bundle is one *entry* of the session's stream, and readers advance its position. A *run* is the part
of an entry that was taken at once.
"""

from dataclasses import dataclass, field
from typing import final

from hopring.client.events import Event, Message, bodies_of, groups_of, messages_of, split_envelope
from hopring.ids import Place
from hopring.services import Service
from hopring.session.frames import DeliveredBundle, decode_delivered
from hopring.wire.bundle import Bundle, as_of, rows_of
from hopring.wire.envelope import decode_envelope


@dataclass(frozen=True, slots=True)
class MessageRun:
    """Messages of one sender in their order; columns are views of the bundle, nothing is copied.

    They share all but type and body; in a mixed run also their groups differ: `apart` splits it by groups.
    """

    order: int  # The number of its first message among all events of the session, from 1.
    received_at_seconds: float  # When the library read it; seconds since 1970.
    start: int  # Its first message in the bundle.
    end: int
    _delivered: DeliveredBundle = field(repr=False)

    def __len__(self) -> int:
        return self.end - self.start

    @property
    def _bundle(self) -> Bundle:
        """The bundle of its messages."""
        return self._delivered.bundle

    @property
    def sender(self) -> str:
        """The sender's private group: an answer goes there."""
        return self._delivered.sender

    @property
    def groups(self) -> tuple[str, ...]:
        """The destination groups; each message of a mixed run went to one of them."""
        return self._delivered.bundle.key.groups

    @property
    def mixed(self) -> bool:
        """Whether each message went to one group, by `group_indexes`; otherwise all went to all groups."""
        return self._delivered.bundle.key.mixed

    @property
    def group_indexes(self) -> memoryview:
        """The index in `groups` of each message of a mixed run; otherwise empty."""
        return self._delivered.bundle.group_indexes[self.start : self.end]

    @property
    def service(self) -> Service:
        """The service of the messages."""
        return self._delivered.bundle.key.service

    @property
    def place(self) -> Place:
        """The place in the one order of all groups; Unreliable messages have none."""
        return self._delivered.place

    @property
    def types(self) -> memoryview:
        """The type of each message."""
        return self._delivered.bundle.types[self.start : self.end]

    @property
    def offsets(self) -> memoryview:
        """The start of each body in `whole`, and the end of the last."""
        return self._delivered.bundle.offsets[self.start : self.end + 1]

    @property
    def whole(self) -> memoryview:
        """All bodies of the bundle, end to end; if the run is `enveloped`, each with its envelope."""
        return self._delivered.bundle.bodies

    @property
    def enveloped(self) -> bool:
        """Whether the messages have headers: each body in `whole` then begins with an envelope."""
        return self._delivered.bundle.key.enveloped

    def apart(self) -> list["MessageRun"]:
        """Splits it into runs that are not mixed, in their order."""
        return [
            MessageRun(self.order + start - self.start, self.received_at_seconds, start, end, delivered)
            for delivered, start, end in apart(self._delivered, self.start, self.end)
        ]

    def bodies(self) -> list[bytes]:
        """The body of each message, without its headers."""
        bodies = bodies_of(self._bundle, self.start, self.end)
        return [split_envelope(body)[1] for body in bodies] if self.enveloped else bodies

    def _split(self) -> tuple[list[bytes], list[bytes]]:
        """Envelopes and bodies of the messages of an enveloped run; a malformed one belongs to the body."""
        assert self.enveloped, "other messages have no envelopes"
        envelopes: list[bytes] = []
        bodies: list[bytes] = []
        for body in bodies_of(self._bundle, self.start, self.end):
            found = decode_envelope(body)
            end = 0 if found is None else found[1]
            envelopes.append(body[:end])
            bodies.append(body[end:])
        return envelopes, bodies

    def messages(self) -> list[Message]:
        """The messages as `Message` objects, in their order."""
        return messages_of(self._delivered, self.start, self.end)


@final
class StreamEntry:
    """An entry of the stream that is not fully taken: one event, or consecutive messages of one bundle."""

    def __init__(
        self,
        order: int,
        at_us: int,
        credit_bytes: int,
        groups: tuple[str, ...],
        event: Event | None,
        columns: DeliveredBundle | None = None,
        start: int = 0,
        at: int = 0,
        end: int = 1,
        made: list[Message] | None = None,
        base: int = 0,
        body: bytes = b"",
    ) -> None:
        self.order = order  # The number of its first event, when it arrived.
        self.at_us = at_us
        self.credit_bytes = credit_bytes  # Due when the last of it is taken.
        self.groups = groups
        self.event = event  # None if it is messages.
        self.columns = columns  # None also for a single message, until the columns are needed.
        self.start = start
        self.at = at  # The next message to take.
        self.end = end
        self.made = made  # Messages from `base` to the end, once one is needed.
        self.base = base
        self.body = body  # The frame body of a single message.

    @property
    def delivered(self) -> DeliveredBundle:
        """The bundle of its messages."""
        if self.columns is None:
            assert self.body, "it is messages"
            self.columns = decode_delivered(self.body)
        return self.columns

    @property
    def messages(self) -> int:
        """The number of messages that are not taken."""
        return 0 if self.event is not None else self.end - self.at

    @property
    def mixed(self) -> bool:
        """Whether its messages go to different groups."""
        return self.columns is not None and self.columns.bundle.key.mixed

    def apart(self) -> list["StreamEntry"]:
        """Splits the rest of a mixed entry by groups; each part gives back the credit of its own bytes."""
        ends = self.delivered.bundle.offsets
        out: list[StreamEntry] = []
        credit_bytes = self.credit_bytes
        for delivered, start, end in apart(self.delivered, self.at, self.end):
            own_bytes = min(credit_bytes, ends[end] - ends[start]) if end < self.end else credit_bytes
            credit_bytes -= own_bytes
            order = self.order + start - self.start
            out.append(
                StreamEntry(
                    order,
                    self.at_us,
                    own_bytes,
                    delivered.bundle.key.groups,
                    None,
                    delivered,
                    start,
                    start,
                    end,
                )
            )
        return out

    def message(self) -> Message:
        """Takes the next message; check first that there is one."""
        at = self.at
        made = self.made
        if made is None:
            made = self.made = messages_of(self.delivered, at, self.end)
            self.base = at
        self.at = at + 1
        return made[at - self.base]

    def run(self, messages: int) -> MessageRun:
        """Takes the next messages, up to this many."""
        at = self.at
        self.at = min(self.end, at + messages)
        return MessageRun(self.order + at - self.start, self.at_us / 1_000_000, at, self.at, self.delivered)

    def forget(self) -> None:
        """Drops its contents after all was taken; it may still stand in a group's queue."""
        self.at = self.end
        self.event = self.columns = self.made = None
        self.body = b""


def apart(delivered: DeliveredBundle, start: int, end: int) -> list[tuple[DeliveredBundle, int, int]]:
    """Splits messages of a bundle into ranges whose messages all go to the same groups.

    Each range has a bundle whose key is that of a bundle to these groups only.
    """
    bundle = delivered.bundle
    if not bundle.key.mixed:
        return [(delivered, start, end)]
    alone: dict[int, DeliveredBundle] = {}
    out: list[tuple[DeliveredBundle, int, int]] = []
    for group_index, first, behind in rows_of(bundle, start, end):
        if group_index not in alone:
            alone[group_index] = DeliveredBundle(delivered.sender, delivered.place, as_of(bundle, group_index))
        out.append((alone[group_index], first, behind))
    return out


def entry_of(event: Event, order: int, at_us: int, credit_bytes: int) -> StreamEntry:
    """The stream entry of one event."""
    return StreamEntry(order, at_us, credit_bytes, groups_of(event), event)
