"""The receiving half of a stream: bytes back in order, and when to acknowledge them."""

from bisect import insort
from dataclasses import dataclass, field

from hopring.ids import NEVER
from hopring.sim.tcp.segment import Flags, TcpSegment


@dataclass(slots=True)
class Incoming:
    """What has come from the other side; an acknowledgement is owed when `ack_at_us` has come."""

    delayed_ack_us: int
    next: int = 0  # The first byte that has not come.
    ahead: list[tuple[int, bytes]] = field(default_factory=list)  # What came past a gap, by its start.
    fin_at: int | None = None
    ack_at_us: int = NEVER
    unacknowledged: int = 0  # Segments since the last acknowledgement.
    ack_sent: int = 0
    data_segments: int = 0  # All that came, in any order, repetitions included.
    echo_us: int = 0  # The stamp that the next acknowledgement answers (RFC 7323, 4.3).

    @property
    def finished(self) -> bool:
        """Whether the other side's FIN and everything before it have come."""
        return self.fin_at is not None and self.next > self.fin_at

    def stamped(self, segment: TcpSegment) -> None:
        """Remembers the stamp of the first segment that the next acknowledgement covers."""
        if segment.seq <= self.ack_sent:
            self.echo_us = segment.stamp_us

    def take(self, segment: TcpSegment, now_us: int) -> bytes:
        """Takes a segment in and returns the bytes that are now in order."""
        fin = Flags.FIN in segment.flags
        if not segment.data and not fin:
            return b""
        self.data_segments += bool(segment.data)
        if fin:
            self.fin_at = segment.end
        # Gaps, their ends and repetitions are answered at once: the sender waits for it.
        in_order = segment.seq == self.next and not self.ahead
        ready = self._add(segment.seq, segment.data)
        if self.next == self.fin_at:
            self.next += 1
        self.unacknowledged += 1
        at_once = fin or not in_order or self.unacknowledged >= 2
        self.ack_at_us = min(self.ack_at_us, now_us if at_once else now_us + self.delayed_ack_us)
        return ready

    def _add(self, seq: int, data: bytes) -> bytes:
        if seq > self.next:
            if (seq, data) not in self.ahead:
                insort(self.ahead, (seq, data))
            return b""
        ready = [self._beyond(seq, data)]
        while self.ahead and self.ahead[0][0] <= self.next:
            ready.append(self._beyond(*self.ahead.pop(0)))
        return b"".join(ready)

    def _beyond(self, seq: int, data: bytes) -> bytes:
        fresh = data[self.next - seq :]
        self.next += len(fresh)
        return fresh

    def acknowledged(self) -> None:
        """A segment is leaving; every segment acknowledges, so nothing is owed any more."""
        self.ack_at_us = NEVER
        self.unacknowledged = 0
        self.ack_sent = self.next
