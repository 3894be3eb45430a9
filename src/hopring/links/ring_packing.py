"""Packing: objects in a row to packets, each as full as whole objects allow."""

from collections import deque
from dataclasses import dataclass, field

from hopring.links.loose_queue import LooseQueue
from hopring.wire.data import segment_count


@dataclass(slots=True)
class Packing:
    """The packets of one visit while they are being filled."""

    packet_bytes: int
    chunk_bytes: int
    packets: list[bytes] = field(default_factory=list)  # Closed ones, in order.
    closed_segments: int = 0
    last: list[bytes] = field(default_factory=list)  # The objects of the packet still open.
    last_bytes: int = 0

    @property
    def segments(self) -> int:
        """The segments of everything added so far."""
        return self.closed_segments + self._segments_of_last(0)

    def segments_with(self, object_bytes: int) -> int:
        """The segments of everything if an object of this length came next."""
        if self._fits(object_bytes):
            return self.closed_segments + self._segments_of_last(object_bytes)
        return self.segments + segment_count(object_bytes, self.chunk_bytes)

    def add(self, payload: bytes) -> None:
        """Puts an object in the open packet, or in a new one if it does not fit."""
        assert len(payload) <= self.packet_bytes, "an object is at most a packet long"
        if not self._fits(len(payload)):
            self.close()
        self.last.append(payload)
        self.last_bytes += len(payload)

    def close(self) -> None:
        """Ends the open packet, if it has anything in it."""
        if not self.last:
            return
        self.closed_segments += self._segments_of_last(0)
        self.packets.append(b"".join(self.last))
        self.last = []
        self.last_bytes = 0

    def _fits(self, object_bytes: int) -> bool:
        return self.last_bytes + object_bytes <= self.packet_bytes

    def _segments_of_last(self, more_bytes: int) -> int:
        if not self.last and not more_bytes:
            return 0
        return segment_count(self.last_bytes + more_bytes, self.chunk_bytes)


@dataclass(slots=True)
class ObjectQueue:
    """Objects that wait for the token, oldest first."""

    objects: deque[bytes] = field(default_factory=deque)
    total_bytes: int = 0

    def put(self, payload: bytes) -> None:
        """Adds an object behind the others."""
        self.objects.append(payload)
        self.total_bytes += len(payload)

    def move_to(self, packing: Packing, segments_max: int) -> None:
        """Packs from the front for as long as the whole packing stays within so many segments."""
        while self.objects and packing.segments_with(len(self.objects[0])) <= segments_max:
            payload = self.objects.popleft()
            self.total_bytes -= len(payload)
            packing.add(payload)


@dataclass(slots=True)
class Outbox:
    """What waits for the token at one member."""

    urgent: ObjectQueue = field(default_factory=ObjectQueue)
    transit: ObjectQueue = field(default_factory=ObjectQueue)
    loose: LooseQueue = field(default_factory=LooseQueue)  # Of Unreliable bundles, own ones and others.

    @property
    def waiting(self) -> bool:
        """Whether there is anything to send in the next visit."""
        return bool(self.urgent.objects or self.transit.objects or self.loose.objects)
