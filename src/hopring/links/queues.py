"""The objects that wait at a link: reliable ones in `SendQueue`, those of Unreliable bundles in `LooseQueue`.

Invariants  urgent objects go first, lazy ones when there is company or their time has come. Unreliable ones
            never hold more than `bytes_max`, and the oldest gives way: with a fragment, those behind it of the
            same bundle are dropped, and those that come as long as no other bundle was hit, because half a
            bundle is of no use.
Limit       all fragments of an Unreliable bundle pass only if they fit together, or leave as they come.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from hopring.ids import NEVER
from hopring.links.events import Submit
from hopring.wire.data import SEGMENT_BYTES_DEFAULT
from hopring.wire.header import FRAME_HEAD_BYTES, HEAD_BYTES
from hopring.wire.unreliable import Loose, loose_bytes_of, whose

LOOSE_BYTES_MAX: Final = 512 * 1024
"""What waits at most for a link to another site: at 20 Mbit/s it is gone in a fifth of a second."""

_OVERHEAD_BYTES: Final = HEAD_BYTES + FRAME_HEAD_BYTES + 28  # With IP and UDP: rates are those of the wire.

_SHARE: Final = 8


@dataclass(slots=True)
class SendQueue:
    """The objects submitted to a link and not sent yet."""

    urgent: deque[bytes] = field(default_factory=deque)
    ready: deque[bytes] = field(default_factory=deque)
    lazy: deque[bytes] = field(default_factory=deque)
    lazy_until_us: int = NEVER  # When the oldest lazy object stops waiting for company.
    size_bytes: int = 0

    def put(self, event: Submit, lazy_until_us: int) -> None:
        """Queues an object, behind those that wait already."""
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
        """When a packet should go: at once, or when the lazy ones have waited long enough."""
        return 0 if self.urgent or self.ready else self.lazy_until_us

    def pack(self, packet_bytes: int, urgent_only: bool) -> bytes:
        """As many objects as fit into a packet of this size, but always one."""
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
    waited_bytes: int = 0  # What other data was sent while something waited here.
    sent: int = 0
    dropped: int = 0
    _dead: bytes = b""  # The last bundle of which something was dropped.

    def put(self, payload: bytes) -> None:
        """Queues an object, at the cost of the oldest if there is no room."""
        if len(payload) > self.object_bytes_max:
            self._dead = whose(payload)
        if whose(payload) == self._dead:
            self.dropped += 1
            return
        self.objects.append(payload)
        self.size_bytes += len(payload)
        while self.size_bytes > self.bytes_max:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        self._dead = whose(self.objects[0])
        while self.objects and whose(self.objects[0]) == self._dead:
            self.size_bytes -= len(self.objects.popleft())
            self.dropped += 1

    @property
    def due(self) -> bool:
        """Whether so much other data went first that an eighth of the pace is owed to what waits here."""
        return self.waited_bytes >= (_SHARE - 1) * self.object_bytes_max

    def pack(self) -> tuple[Loose, int]:
        """As many objects as fit in one datagram, and its bytes on the wire."""
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
