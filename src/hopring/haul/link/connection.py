"""One connection between two clusters, as the process at one end has it.

Implements  Makpangou and Birman, 5.1: acknowledgements ride on frames of the other direction; what was not
            acknowledged when a connection was lost goes again on the next one.
Below       a stream that keeps an order until it is lost.
Above       links.py, which opens connections and decides which one counts.
Invariants  it sends what the channels of the replicated state have, from where the peer said that it was, and
            nothing else; it holds what arrives until the log has taken it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from hopring.errors import Drop, PeerError
from hopring.haul.application import NO_CLUSTER, NO_GENERATION
from hopring.haul.entries import LinkOpened
from hopring.haul.ids import SETS_MAX, ClusterId, ParcelId
from hopring.haul.link.channel import (
    WINDOW_BYTES,
    Channel,
    ChannelFrame,
    ChannelReceiver,
    ChannelSender,
    NumberedFrame,
)
from hopring.haul.link.chunks import ChunkLine
from hopring.haul.link.frames import (
    Beat,
    ChunkFrame,
    ChunkReceived,
    DescriptorsFrame,
    LinkFrame,
    LinkGeneration,
    ParcelFrame,
    ReceivedFrame,
    SetFrame,
    SetReceived,
    WantFrame,
)
from hopring.haul.managed_set import ManagedSet
from hopring.haul.member_events import ConnectionId
from hopring.ids import NEVER

BEAT_US: Final = 10_000_000
SILENCE_US: Final = 30_000_000
GREETING_US: Final = 10_000_000
"""A connection without a greeting, or without its answer, ends after this time."""

ACKNOWLEDGE_US: Final = 50_000
RECEIPT_BYTES: Final = 32 * 1024
"""Frames go into the log in entries of about this size: short messages of the group."""

BLOCKED_US: Final = 5_000_000
"""A set that this cluster cannot have now is tried again after this time."""

EXTRAS_MAX: Final = 10_000
"""Frames without a number that wait for the log; above the limit the connection ends."""


HasBody = Callable[[str, ParcelId], bool]
"""Whether the body of a parcel of a set is here."""


class ConnectionPhase(Enum):
    """How far a connection has come."""

    GREETING = auto()  # The other end has not greeted.
    ORDERED = auto()  # That it is open is on its way into the log.
    OPEN = auto()


@dataclass(slots=True)
class Connection:
    """One connection of this process."""

    id: ConnectionId
    heard_us: int  # When something arrived last.
    sent_us: int = 0
    busy_us: int = 0  # When a frame with a number came or went last.
    window_bytes: int = WINDOW_BYTES
    phase: ConnectionPhase = ConnectionPhase.GREETING
    peer: ClusterId = NO_CLUSTER  # Known from the beginning if this end has dialled.
    dialer: ClusterId = NO_CLUSTER
    generation: LinkGeneration = NO_GENERATION
    opened: LinkOpened | None = None
    senders: dict[str, ChannelSender] = field(default_factory=dict)
    receivers: dict[str, ChannelReceiver] = field(default_factory=dict)
    extras: list[ReceivedFrame | WantFrame] = field(default_factory=list)  # Arrived, without a number.
    told: dict[str, int] = field(default_factory=dict)  # What the peer knows to be received here.
    files: ChunkLine = field(default_factory=ChunkLine)
    acknowledge_at_us: int = NEVER
    blocked_us: dict[str, int] = field(default_factory=dict)  # Sets that are not tried before then.

    @property
    def wake_at_us(self) -> int:
        """When this connection has something to do, or is given up."""
        if self.phase is not ConnectionPhase.OPEN:
            return self.heard_us + GREETING_US
        times = self.sent_us + BEAT_US, self.acknowledge_at_us, self.files.wake_at_us
        return min(self.heard_us + SILENCE_US, *times)

    def is_silent(self, now_us: int) -> bool:
        """Whether the other end has said nothing for too long."""
        limit_us = SILENCE_US if self.phase is ConnectionPhase.OPEN else GREETING_US
        return now_us >= self.heard_us + limit_us

    # Arriving.

    def arrive(self, frame: LinkFrame, received: int) -> None:
        """A frame for the log; `received`: what the log has of the frame's set."""
        if isinstance(frame, ReceivedFrame | WantFrame):
            if len(self.extras) >= EXTRAS_MAX:
                raise PeerError(Drop.LIMIT, f"more than {EXTRAS_MAX} frames without a number")
            self.extras.append(frame)
            return
        if isinstance(frame, ChunkReceived):
            self.files.asked(*frame.file)
            return
        if isinstance(frame, ChunkFrame):
            self.files.arrive(frame, self.heard_us)
            self.busy_us = self.heard_us
            return
        if not isinstance(frame, ParcelFrame | DescriptorsFrame | SetFrame):
            raise PeerError(Drop.UNKNOWN_TYPE, f"{type(frame).__name__} on a connection that is open")
        receiver = self.receivers.get(frame.set)
        if receiver is None:
            if len(self.receivers) >= SETS_MAX:
                raise PeerError(Drop.LIMIT, f"more than {SETS_MAX} sets")
            receiver = self.receivers[frame.set] = ChannelReceiver(received, self.window_bytes)
        receiver.arrive(frame)
        self.busy_us = self.heard_us

    def for_log(self, sets: dict[str, ManagedSet], now_us: int) -> list[LinkFrame]:
        """The next frames for the log; what has to wait there waits here."""
        frames: list[LinkFrame] = list(self.extras)
        self.extras.clear()
        for name, receiver in self.receivers.items():
            if not receiver.held or receiver.submitted >= receiver.arrived:
                continue
            if self._is_blocked(name, receiver, sets.get(name), now_us):
                frames += self._riding(name, receiver, sets)
            else:
                frames += receiver.submit(RECEIPT_BYTES)
        return [*frames, *self.files.for_log()]

    def _is_blocked(
        self, name: str, receiver: ChannelReceiver, managed: ManagedSet | None, now_us: int
    ) -> bool:
        first = receiver.held[0][0]
        if managed is not None and managed.takes(self.peer, first):
            return False
        if isinstance(first, SetFrame) and now_us >= self.blocked_us.get(name, 0):
            self.blocked_us[name] = now_us + BLOCKED_US
            return False
        return True

    def _riding(self, name: str, receiver: ChannelReceiver, sets: dict[str, ManagedSet]) -> list[ReceivedFrame]:
        """What frames acknowledge that have to wait: otherwise both ends could wait for each other."""
        managed, number = sets.get(name), receiver.held[-1][0].received
        if managed is None or number <= managed.channels[self.peer].acked:
            return []
        return [ReceivedFrame((SetReceived(name, number),))]

    def logged(self, sets: dict[str, ManagedSet]) -> None:
        """The log has taken, or not taken, what was submitted."""
        for name, receiver in self.receivers.items():
            managed = sets.get(name)
            received = 0 if managed is None else managed.channels[self.peer].received
            receiver.taken(received)
            if receiver.submitted > received:
                receiver.submit_again(received)

    # Sending.

    def due(self, sets: dict[str, ManagedSet], has_body: HasBody, now_us: int) -> list[LinkFrame]:
        """What is to be sent now: frames of channels, acknowledgements, or a sign of life.

        A frame whose body is not in memory is without it, and is sent with what the disk has.
        """
        out: list[LinkFrame] = []
        for managed in sets.values():
            channel = managed.channels.get(self.peer)
            if channel is not None:
                out += self._channel_frames(managed, channel, has_body)
        if out:
            self.busy_us = now_us
        out += self._acknowledgements(sets, now_us)
        if not out and now_us >= self.sent_us + BEAT_US:
            out.append(Beat())
        if out:
            self.sent_us = now_us
        return out

    def _channel_frames(self, managed: ManagedSet, channel: Channel, has_body: HasBody) -> list[LinkFrame]:
        sender = self.senders.get(managed.name)
        if sender is None:
            sender = self.senders[managed.name] = ChannelSender(channel.acked, self.window_bytes)

        def has(frame: ChannelFrame) -> bool:
            parcel = frame.parcel
            return parcel is None or parcel.id not in managed.kept or has_body(managed.name, parcel.id)

        frames = sender.take(channel, has)
        if frames:
            self.told[managed.name] = channel.received
        return [link_frame(managed, frame, channel.received) for frame in frames]

    def _acknowledgements(self, sets: dict[str, ManagedSet], now_us: int) -> list[LinkFrame]:
        behind = [
            SetReceived(managed.name, channel.received)
            for managed in sets.values()
            if (channel := managed.channels.get(self.peer)) is not None
            and channel.received > self.told.get(managed.name, 0)
        ]
        if not behind:
            self.acknowledge_at_us = NEVER
        elif self.acknowledge_at_us == NEVER:
            self.acknowledge_at_us = now_us + ACKNOWLEDGE_US
        elif now_us >= self.acknowledge_at_us:
            self.acknowledge_at_us = NEVER
            self.told.update(behind)
            return [ReceivedFrame(tuple(behind))]
        return []


def link_frame(managed: ManagedSet, frame: ChannelFrame, received: int) -> NumberedFrame:
    """The frame as it is sent; without its body if all destinations have that by now."""
    if frame.clusters is not None:
        return SetFrame(managed.name, frame.number, received, frame.clusters)
    if frame.parcel is None or frame.parcel.id not in managed.kept:
        return DescriptorsFrame(managed.name, frame.number, received, frame.descriptors)
    body, file = managed.bodies.get(frame.parcel.id, b""), managed.files.get(frame.parcel.id)
    return ParcelFrame(managed.name, frame.number, received, frame.parcel, frame.descriptors, body, file)
