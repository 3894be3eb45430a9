"""The objects that wait at a link: reliable ones in `SendQueue`, those of Unreliable bundles in `LooseQueue`.

Invariants  urgent objects go first, lazy ones together with others or when their time has come. Objects of
            Unreliable bundles never have more than `bytes_max`: the oldest is dropped, with all other fragments
            of its bundle, waiting ones and later ones, because an incomplete bundle is of no use. The last
            bundle that was dropped is remembered for that.
Limit       an Unreliable bundle passes only if all its fragments fit together, or leave as they come.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from hopring.ids import NEVER
from hopring.links.events import Submit
from hopring.wire.data import SEGMENT_BYTES_DEFAULT
from hopring.wire.header import FRAME_HEAD_BYTES, HEAD_BYTES
from hopring.wire.unreliable import Loose, bundle_id, loose_bytes_of

LOOSE_BYTES_MAX: Final = 512 * 1024
"""Limit of the Unreliable objects that wait for a link to another site: a fifth of a second at 20 Mbit/s."""

_OVERHEAD_BYTES: Final = HEAD_BYTES + FRAME_HEAD_BYTES + 28  # With IP and UDP: rates are those of the wire.

_SHARE: Final = 8


@dataclass(slots=True)
class SendQueue:
    """The objects submitted to a link and not sent yet."""

    urgent: deque[bytes] = field(default_factory=deque)
    ready: deque[bytes] = field(default_factory=deque)
    lazy: deque[bytes] = field(default_factory=deque)
    lazy_until_us: int = NEVER  # When the oldest lazy object is sent even without others.
    size_bytes: int = 0

    def put(self, event: Submit, lazy_until_us: int) -> None:
        """Appends an object to its queue."""
        self.size_bytes += len(event.payload)
        if event.urgent:
            self.urgent.append(event.payload)
        elif event.lazy:
            self.lazy.append(event.payload)
            self.lazy_until_us = min(self.lazy_until_us, lazy_until_us)
        else:
            self.ready.append(event.payload)

    @property
    def send_at_us(self) -> int:
        """When the next packet is due: at once, or when lazy objects have waited long enough."""
        return 0 if self.urgent or self.ready else self.lazy_until_us

    def pack(self, packet_bytes: int, urgent_only: bool) -> bytes:
        """Removes and joins as many objects as fit in a packet of this size, at least one."""
        objects: list[bytes] = []
        size = 0
        for queue in (self.urgent,) if urgent_only else (self.urgent, self.ready, self.lazy):
            while queue and (not objects or size + len(queue[0]) <= packet_bytes):
                size += len(queue[0])
                objects.append(queue.popleft())
        self.size_bytes -= size
        if not self.lazy:
            self.lazy_until_us = NEVER
        return b"".join(objects)


@dataclass(slots=True)
class LooseQueue:
    """Unreliable objects that wait for a datagram, oldest first."""

    object_bytes_max: int = loose_bytes_of(SEGMENT_BYTES_DEFAULT)
    bytes_max: int = LOOSE_BYTES_MAX
    objects: deque[bytes] = field(default_factory=deque)
    size_bytes: int = 0
    waited_bytes: int = 0  # Other data that was sent while objects waited here.
    sent: int = 0
    dropped: int = 0
    _dropped_bundle: bytes = b""  # The last bundle of which a fragment was dropped.

    def put(self, payload: bytes) -> None:
        """Queues an object; drops the oldest ones if the queue is full."""
        if len(payload) > self.object_bytes_max:
            self._dropped_bundle = bundle_id(payload)
        if bundle_id(payload) == self._dropped_bundle:
            self.dropped += 1
            return
        self.objects.append(payload)
        self.size_bytes += len(payload)
        while self.size_bytes > self.bytes_max:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        self._dropped_bundle = bundle_id(self.objects[0])
        while self.objects and bundle_id(self.objects[0]) == self._dropped_bundle:
            self.size_bytes -= len(self.objects.popleft())
            self.dropped += 1

    @property
    def due(self) -> bool:
        """Whether it is time for these objects: they get an eighth of the pace while other data is sent."""
        return self.waited_bytes >= (_SHARE - 1) * self.object_bytes_max

    def pack(self) -> tuple[Loose, int]:
        """Removes and joins as many objects as fit in one datagram; returns it and its bytes on the wire."""
        objects = [self.objects.popleft()]
        size = len(objects[0])
        while self.objects and size + len(self.objects[0]) <= self.object_bytes_max:
            size += len(self.objects[0])
            objects.append(self.objects.popleft())
        self.size_bytes -= size
        self.sent += len(objects)
        wire_bytes = size + _OVERHEAD_BYTES
        left_bytes = self.waited_bytes - (_SHARE - 1) * wire_bytes
        self.waited_bytes = max(0, left_bytes) if self.objects else 0
        return Loose(b"".join(objects)), wire_bytes
