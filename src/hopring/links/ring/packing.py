"""Packs the objects of a visit into packets, in order, each as full as whole objects allow."""

from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from typing import final

from hopring.links.queues import LooseQueue
from hopring.value import Mutable
from hopring.wire.data import segment_count


@final
class Fill(Mutable):
    """Counts the segments of objects that are packed in order, from their sizes alone."""

    def __init__(
        self, packet_bytes: int, chunk_bytes: int, closed_segments: int = 0, last_bytes: int = 0
    ) -> None:
        self.packet_bytes = packet_bytes
        self.chunk_bytes = chunk_bytes
        self.closed_segments = closed_segments
        self.last_bytes = last_bytes  # Of the open packet; 0 if none is open, since no object is empty.

    @property
    def segments(self) -> int:
        """The segments of everything added so far."""
        if not self.last_bytes:
            return self.closed_segments
        return self.closed_segments + segment_count(self.last_bytes, self.chunk_bytes)

    def fits(self, object_bytes: int) -> bool:
        """Whether an object of this length fits in the open packet."""
        return self.last_bytes + object_bytes <= self.packet_bytes

    def segments_with(self, object_bytes: int) -> int:
        """The segments of everything if an object of this length came next."""
        if self.fits(object_bytes):
            return self.closed_segments + segment_count(self.last_bytes + object_bytes, self.chunk_bytes)
        return self.segments + segment_count(object_bytes, self.chunk_bytes)

    def add(self, object_bytes: int) -> None:
        """Adds an object of this length."""
        if not self.fits(object_bytes):
            self.close()
        self.last_bytes += object_bytes

    def close(self) -> None:
        """Closes the open packet: the next object begins another one."""
        self.closed_segments = self.segments
        self.last_bytes = 0


class VisitSpace:
    """The space for local objects in one visit; the layer that stamps reserves some for each object.

    An object longer than a packet was cut before packets became smaller. It goes alone, if there is space for
    at least one packet.
    """

    def __init__(self, segments_max: int, packet_bytes: int, chunk_bytes: int) -> None:
        self._segments_max = segments_max
        self._fill = Fill(packet_bytes, chunk_bytes)
        self._bytes_max = segments_max * chunk_bytes
        self._bytes = 0  # Of all objects, whether they go on the ring or not.

    def reserve(self, object_bytes: int, ring_bytes: int) -> bool:
        """Reserves space for an object, of which `ring_bytes` go on the ring; False if it does not fit."""
        if object_bytes > self._fill.packet_bytes:
            fits = not self._bytes and self._bytes_max >= self._fill.packet_bytes
        else:
            segments = self._fill.segments_with(ring_bytes) if ring_bytes else 0
            fits = self._bytes + object_bytes <= self._bytes_max and segments <= self._segments_max
        if fits:
            self._bytes += object_bytes
            self._fill.add(ring_bytes)
        return fits


@final
class Packing(Mutable):
    """The packets of one visit, which are filled one after the other."""

    def __init__(self, fill: Fill, packets: list[bytes] | None = None, last: list[bytes] | None = None) -> None:
        self.fill = fill
        self.packets = [] if packets is None else packets  # Closed packets, in order.
        self.last = [] if last is None else last  # The objects of the open packet.

    @property
    def segments(self) -> int:
        """The segments of everything added so far."""
        return self.fill.segments

    def add(self, payload: bytes) -> None:
        """Puts an object in the open packet, or in a new one if it does not fit."""
        if not self.fill.fits(len(payload)):
            self.close()
        self.last.append(payload)
        self.fill.add(len(payload))

    def close(self) -> None:
        """Ends the open packet, if it has anything in it."""
        if not self.last:
            return
        self.packets.append(b"".join(self.last))
        self.last = []
        self.fill.close()


@dataclass(slots=True)
class ObjectQueue:
    """Objects that wait for the token, oldest first."""

    objects: deque[bytes] = field(default_factory=deque)
    total_bytes: int = 0

    def put(self, payload: bytes) -> None:
        """Appends an object to the queue."""
        self.objects.append(payload)
        self.total_bytes += len(payload)

    def first_segments(self, chunk_bytes: int) -> int:
        """The segments of the oldest object, or 0 if there is none."""
        return segment_count(len(self.objects[0]), chunk_bytes) if self.objects else 0

    def move_to(self, packing: Packing, segments_max: int) -> None:
        """Packs objects, the oldest first, while the whole packing has at most this many segments."""
        while self.objects and packing.fill.segments_with(len(self.objects[0])) <= segments_max:
            payload = self.objects.popleft()
            self.total_bytes -= len(payload)
            packing.add(payload)


class Kind(Enum):
    """The kinds of objects that share the window of a visit."""

    LOCAL = "local"
    TRANSIT = "transit"
    LOOSE = "loose"


@dataclass(slots=True)
class Outbox:
    """The objects that wait for the token at one member, without local ones, which the layer above has."""

    urgent: ObjectQueue = field(default_factory=ObjectQueue)
    transit: ObjectQueue = field(default_factory=ObjectQueue)
    loose: LooseQueue = field(
        default_factory=LooseQueue
    )  # Of Unreliable bundles: own ones, and those from other sites.
    first: Kind = Kind.LOCAL  # The kind that went first in the last visit in which not all kinds fitted.

    @property
    def waiting(self) -> bool:
        """Whether there is anything to send in the next visit."""
        return bool(self.urgent.objects or self.transit.objects or self.loose.objects)

    def next_first(self) -> Kind:
        """Picks the kind that goes first in this visit. Local objects may wait or not: it is not known here."""
        if self.first is Kind.LOCAL and self.transit.objects:
            self.first = Kind.TRANSIT
        elif self.first is not Kind.LOOSE and self.loose.objects:
            self.first = Kind.LOOSE
        else:
            self.first = Kind.LOCAL
        return self.first
