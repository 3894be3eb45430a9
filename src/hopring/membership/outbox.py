"""The outbox: messages of this daemon on their way into the order, and how many may be on their way at once.

The window is the papers' global flow control: a daemon's own bundles that not everybody is known to have. The
slowest receiver holds back the stability line, so it governs everybody; and since every daemon has the same
window, nobody gets more than the others for long. An Unreliable message never becomes stable: it leaves the
window when the stability line has passed the clock at which it was sent.

A daemon's own messages (session CONTROL_SESSION) have a lane of their own, before all others and outside the
window. Under a layer that has to agree on something at the beginning of each view, the clients' messages are
held back until it has.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from hopring.ordering.entry import CONTROL_SESSION, Entry, Message

MESSAGE_COST_BYTES: Final = 256
"""What keeping a message costs beside its payload; counted, so that many tiny ones do not go unseen."""


@dataclass(slots=True)
class Outbox:
    """What waits, and what is out and not stable."""

    window_bytes: int
    window_bundles: int
    queue_bytes_max: int
    waiting: deque[Message] = field(default_factory=deque)
    waiting_bytes: int = 0  # Of the clients.
    control: deque[Message] = field(default_factory=deque)
    held: bool = False  # The clients' messages have to wait.
    out_bytes: int = 0
    out_bundles: int = 0
    # Unreliable and out: the clock at the send, and bytes.
    loose: deque[tuple[int, int]] = field(default_factory=deque)
    loose_bytes: int = 0

    @property
    def open(self) -> bool:
        """Whether another message may be put."""
        return self.waiting_bytes < self.queue_bytes_max

    @property
    def ready(self) -> bool:
        """Whether a message waits and the window lets it through; one is always let through."""
        if self.control:
            return True
        if self.held or not self.waiting:
            return False
        return not self.out_bundles or (
            self.out_bytes < self.window_bytes and self.out_bundles < self.window_bundles
        )

    def put(self, message: Message) -> None:
        """Queues a message."""
        if message.session == CONTROL_SESSION:
            self.control.append(message)
            return
        assert self.open, "look at queue_open before Submit"
        self.waiting.append(message)
        self.waiting_bytes += len(message.payload) + MESSAGE_COST_BYTES

    def take(self) -> Message:
        """The next message, which is now out."""
        if self.control:
            message = self.control.popleft()
        else:
            message = self.waiting.popleft()
            self.waiting_bytes -= len(message.payload) + MESSAGE_COST_BYTES
        self.out_bytes += len(message.payload)
        self.out_bundles += 1
        return message

    def stable(self, entries: Iterable[Entry], me: int) -> None:
        """Everybody has these."""
        for entry in entries:
            if entry.message is not None and entry.message.daemon == me:
                self.out_bytes -= len(entry.message.payload)
                self.out_bundles -= 1

    @property
    def loose_crowded(self) -> bool:
        """Whether Unreliable messages have so much of the window that they should soon leave it."""
        return 4 * len(self.loose) >= self.window_bundles or 4 * self.loose_bytes >= self.window_bytes

    def left(self, message: Message, lts: int) -> None:
        """An Unreliable message that was taken has left, when the clock was there."""
        self.loose.append((lts, len(message.payload)))
        self.loose_bytes += len(message.payload)

    def overtaken(self, aru: int) -> None:
        """Everybody has all that is stamped below the line; what left loosely before it is past."""
        while self.loose and self.loose[0][0] < aru:
            size = self.loose.popleft()[1]
            self.loose_bytes -= size
            self.out_bytes -= size
            self.out_bundles -= 1

    def put_back(self, messages: Iterable[Message]) -> None:
        """The oldest first: these were taken and have not gone anywhere."""
        for message in reversed(list(messages)):
            if message.session == CONTROL_SESSION:
                self.control.appendleft(message)
                continue
            self.waiting.appendleft(message)
            self.waiting_bytes += len(message.payload) + MESSAGE_COST_BYTES

    def settle(self) -> None:
        """A new view begins: what was out in the old one is dealt with."""
        self.out_bytes = self.out_bundles = self.loose_bytes = 0
        self.loose.clear()
