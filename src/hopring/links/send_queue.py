"""Objects that wait for a packet: urgent ones first, lazy ones when there is company or their time has come."""

from collections import deque
from dataclasses import dataclass, field

from hopring.ids import NEVER
from hopring.links.events import Submit


@dataclass(slots=True)
class SendQueue:
    """The objects submitted to a link and not sent yet."""

    urgent: deque[bytes] = field(default_factory=deque)
    ready: deque[bytes] = field(default_factory=deque)
    lazy: deque[bytes] = field(default_factory=deque)
    lazy_until_us: int = NEVER  # When the oldest lazy object stops waiting for company.
    size_bytes: int = 0

    def put(self, event: Submit, lazy_until_us: int) -> None:
        """Queues an object."""
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
