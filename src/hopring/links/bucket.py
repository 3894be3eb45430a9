"""A token bucket: a steady rate with a bounded burst (the papers' leaky bucket, thesis 4.3).

Invariant   over any time t at most rate * t + burst + one packet is sent: a packet goes when any credit is left
            and may overdraw it, so that a packet larger than the burst is never stuck.
"""

from dataclasses import dataclass

_US_PER_SECOND = 1_000_000


@dataclass(slots=True)
class Bucket:
    """Credit in millionths of a byte, so that it stays an integer at any rate."""

    rate_bytes_per_second: int
    burst_bytes: int
    credit: int = 0
    filled_at_us: int = -1  # Before the first look the bucket is full.

    def fill(self, now_us: int) -> None:
        """Adds what has flowed in since the last look."""
        full = self.burst_bytes * _US_PER_SECOND
        if self.filled_at_us < 0:
            self.credit = full
        else:
            self.credit = min(full, self.credit + (now_us - self.filled_at_us) * self.rate_bytes_per_second)
        self.filled_at_us = now_us

    @property
    def ready_at_us(self) -> int:
        """When the next packet may go."""
        if self.credit > 0 or self.filled_at_us < 0:
            return max(0, self.filled_at_us)
        return self.filled_at_us + 1 + -self.credit // self.rate_bytes_per_second

    def take(self, size_bytes: int) -> None:
        """Spends what a packet costs."""
        self.credit -= size_bytes * _US_PER_SECOND
