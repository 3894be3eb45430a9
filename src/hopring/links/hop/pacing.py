"""Congestion control of Hop: a window that is fair to TCP, and a token bucket that paces packets.

Implements  CUBIC (RFC 9438), which TCP flows on the same path use: growth by the cubic of the time since the
            last loss, never below the window of Reno; multiplicative decrease once per round trip of losses;
            slow start that grows four times slower while the round trip is above its least (the
            conservative phase of HyStart++, RFC 9406) and ends at the first loss. The bucket is the papers'
            leaky bucket (thesis 4.3).
Invariant   over any time t at most rate * t + burst + one packet is sent: a packet is sent when any credit is
            left and may overdraw it, so that a packet larger than the burst can be sent.
Deviation   the window limits bytes beyond the highest packet the neighbour has reported, so a missing packet
            does not block the link; retransmissions are not counted in it, but the pacing rate counts them.
"""

from dataclasses import dataclass

_US_PER_SECOND = 1_000_000


_CUBIC = 0.4  # Segments per second cubed.
_DECREASE = 0.7
_RENO_STEP = 3 * (1 - _DECREASE) / (1 + _DECREASE)  # Segments per round trip that match Reno's share.
_INITIAL_SEGMENTS = 10
_LEAST_SEGMENTS = 2
_DELAY_RISE_US_MIN = 4_000
_DELAY_RISE_US_MAX = 16_000


@dataclass(slots=True)
class Congestion:
    """The congestion window, and its state since the last loss."""

    segment_bytes: int
    window_bytes: float = 0.0
    threshold_bytes: float = float("inf")  # Slow start below it.
    peak_segments: float = 0.0  # Where the cubic levels out: the window at the last loss.
    start_segments: float = 0.0  # Where it starts from.
    loss_at_us: int = 0
    reno_segments: float = 0.0
    recover_seq: int = -1  # Losses up to here belong to the last decrease.

    def __post_init__(self) -> None:
        self.window_bytes = float(_INITIAL_SEGMENTS * self.segment_bytes)

    @property
    def slow_start(self) -> bool:
        """Whether the window is below the slow start threshold."""
        return self.window_bytes < self.threshold_bytes

    def rate_bytes_per_second(self, round_trip_us: int) -> int:
        """The rate that spreads the window over a round trip, somewhat higher so that the window can grow."""
        gain = 2.0 if self.slow_start else 1.2
        return max(self.segment_bytes, int(gain * self.window_bytes * 1_000_000 / round_trip_us))

    def delivered(self, size_bytes: int, round_trip_us: int, least_us: int, last_us: int, now_us: int) -> None:
        """Grows the window after a report of this many new bytes; called only while the window is used."""
        if self.slow_start:
            rise_us = max(_DELAY_RISE_US_MIN, min(_DELAY_RISE_US_MAX, least_us // 8))
            self.window_bytes += size_bytes / (4 if last_us > least_us + rise_us else 1)
            return
        segments = self.window_bytes / self.segment_bytes
        acked = size_bytes / self.segment_bytes
        self.reno_segments += _RENO_STEP * acked / segments
        target = max(self._cubic_segments(round_trip_us, now_us), self.reno_segments)
        if target > segments:
            step = min((target - segments) / segments, 0.5) * acked
            self.window_bytes += step * self.segment_bytes

    def _cubic_segments(self, round_trip_us: int, now_us: int) -> float:
        rise = float((max(0.0, self.peak_segments - self.start_segments) / _CUBIC) ** (1 / 3))
        elapsed = (now_us + round_trip_us - self.loss_at_us) / 1_000_000
        return float(_CUBIC * (elapsed - rise) ** 3 + self.peak_segments)

    def _start_cubic(self, now_us: int) -> None:
        self.start_segments = self.reno_segments = self.window_bytes / self.segment_bytes
        self.loss_at_us = now_us

    def resume(self, before: "Congestion", now_us: int) -> None:
        """Starts from half of the last window of an earlier link on the same path.

        That half was in flight, since a window grows only while more than half of it is used.
        """
        if before.window_bytes <= 2 * self.window_bytes:
            return
        self.window_bytes = before.window_bytes / 2
        if not before.slow_start:
            # As after a loss at the old window: slow start up to the threshold, then the cubic.
            self.peak_segments = before.window_bytes / self.segment_bytes
            self.threshold_bytes = before.window_bytes * _DECREASE
            self.start_segments = self.reno_segments = self.threshold_bytes / self.segment_bytes
            self.loss_at_us = now_us

    def lost(self, seq: int, highest_sent: int, now_us: int) -> None:
        """Shrinks the window after a first request; all packets in flight then count as one loss."""
        if seq <= self.recover_seq:
            return
        self.recover_seq = highest_sent
        segments = self.window_bytes / self.segment_bytes
        falling = segments < self.peak_segments
        self.peak_segments = segments * (1 + _DECREASE) / 2 if falling else segments
        self.window_bytes = max(self.window_bytes * _DECREASE, float(_LEAST_SEGMENTS * self.segment_bytes))
        self.threshold_bytes = self.window_bytes
        self._start_cubic(now_us)


@dataclass(slots=True)
class Bucket:
    """Credit in millionths of a byte, so that it stays an integer at any rate."""

    rate_bytes_per_second: int
    burst_bytes: int
    credit: int = 0
    filled_at_us: int = -1  # -1: never filled; the first fill makes it full.

    def fill(self, now_us: int) -> None:
        """Adds the credit for the time since the last call."""
        full = self.burst_bytes * _US_PER_SECOND
        if self.filled_at_us < 0:
            self.credit = full
        else:
            self.credit = min(full, self.credit + (now_us - self.filled_at_us) * self.rate_bytes_per_second)
        self.filled_at_us = now_us

    @property
    def ready_at_us(self) -> int:
        """When the next packet may be sent."""
        if self.credit > 0 or self.filled_at_us < 0:
            return max(0, self.filled_at_us)
        return self.filled_at_us + 1 + -self.credit // self.rate_bytes_per_second

    def spend(self, size_bytes: int) -> None:
        """Subtracts a packet of this size from the credit."""
        self.credit -= size_bytes * _US_PER_SECOND
