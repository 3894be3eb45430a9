"""A line that all hosts share, as an old Ethernet: one frame at a time, and a multicast is on it once.

Above       the network, which asks the line first and the paths afterwards.
Invariants  frames leave in the order in which they were sent; no rounding adds up.
Deviations  hosts do not collide and none is starved: the line serves everybody in the order of the sends.
"""

from typing import Final

from hopring.sim.path import LossReason

FRAME_BYTES_MAX: Final = 1_472
"""The most bytes of a datagram in one frame; IP cuts longer ones."""

FRAME_OVERHEAD_BYTES: Final = 66
"""Ethernet, IP and UDP for each frame: preamble, header, checksum, gap, and 28 bytes of IP and UDP."""

ETHERNET_BYTES_PER_SECOND: Final = 1_250_000
"""10 Mbit/s."""

_SECOND_US: Final = 1_000_000


class SharedLine:
    """The state of the line: until when it is busy, and what it has carried."""

    __slots__ = ("_busy_until", "bytes", "frames", "queue_bytes", "rate_bytes_per_second")

    def __init__(self, rate_bytes_per_second: int = ETHERNET_BYTES_PER_SECOND, queue_bytes: int = 0) -> None:
        """`queue_bytes` bounds what waits, over all hosts; 0 has no bound."""
        assert rate_bytes_per_second > 0, "a line has a rate"
        self.rate_bytes_per_second = rate_bytes_per_second
        self.queue_bytes = queue_bytes
        self.frames = 0
        self.bytes = 0
        # In units of 1/rate microseconds, in which one byte takes exactly a million.
        self._busy_until = 0

    def occupy(self, datagram_bytes: int, now_us: int) -> int | LossReason:
        """Sends one datagram, however many hear it: the time at which its last byte has left."""
        frames = frames_of(datagram_bytes)
        size = datagram_bytes + frames * FRAME_OVERHEAD_BYTES
        backlog = self.backlog_bytes(now_us)
        if self.queue_bytes and backlog and backlog + size > self.queue_bytes:
            return LossReason.QUEUE
        self.frames += frames
        self.bytes += size
        begin = max(self._busy_until, now_us * self.rate_bytes_per_second)
        self._busy_until = begin + size * _SECOND_US
        return -(-self._busy_until // self.rate_bytes_per_second)

    def backlog_bytes(self, now_us: int) -> int:
        """Bytes that wait or are in transmission, with what the frames add; a byte begun counts."""
        return max(0, -((now_us * self.rate_bytes_per_second - self._busy_until) // _SECOND_US))


def frames_of(datagram_bytes: int) -> int:
    """The number of frames of a datagram; an empty one takes a frame, too."""
    return max(1, -(-datagram_bytes // FRAME_BYTES_MAX))
