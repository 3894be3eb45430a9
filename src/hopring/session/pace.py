"""Pace: limits the bytes in flight so that queueing delay stays low.

Without a limit, bulk traffic of clients fills every queue below, up to the windows of the membership, and a
message with priority waits behind all of it. So the daemon measures the time until its own bulk is delivered
here, and limits the bytes in flight so that this time stays near the delay of an almost empty path. This is
delay-based congestion control (Vegas, FAST TCP) on the daemons' order instead of a link, with a periodic probe
of the empty path as in BBR.

Both delays are medians and are measured in the same way: of bulk, while more of it waits. Small or occasional
messages see another delay, which says nothing about bulk; and busy processors lengthen both measurements alike.

Invariants  a message with priority waits only if IN_FLIGHT_BYTES_MAX are in flight; bulk goes at least once in
            STARVED_US, however much priority traffic is in flight; the limit grows only after it was reached;
            lost counts are reset with the view, or after LOST_US.
"""

from dataclasses import dataclass, field
from typing import Final

from hopring.ids import NEVER

IN_FLIGHT_BYTES_MIN: Final = 64 * 1024
"""One bundle of full size: the least that keeps traffic moving."""

IN_FLIGHT_BYTES_MAX: Final = 4 * 1024 * 1024
"""Twice the window of the membership, which blocks beyond that."""

SAMPLES: Final = 8
"""Delays per median; after each median the limit is adjusted."""

SLACK_US: Final = 5_000
"""A delay is near that of the empty path up to a quarter of it and this slack above it."""

PROBE_EVERY_US: Final = 20_000_000
"""The interval of probes of the empty path, with the smallest limit."""

LOST_US: Final = 2_000_000
"""After this time without any traffic the count of bytes in flight is reset: it must be wrong."""

STARVED_US: Final = 200_000
"""The next bulk message may be submitted this long after the last, regardless of the bytes in flight."""


@dataclass(slots=True)
class Pace:
    """The limit of bytes in flight of one daemon's clients."""

    limit_bytes: int = IN_FLIGHT_BYTES_MIN  # For bulk; with priority it is IN_FLIGHT_BYTES_MAX.
    in_flight_bytes: int = 0  # Submitted and not delivered here.
    _submitted: int = 0
    _delivered: int = 0
    _measured_number: int = 0  # The number of the message whose delay is measured; 0 if none.
    _measured_since_us: int = 0  # When that message was submitted.
    _moved_at_us: int = 0  # When a message was last submitted or delivered.
    _bulk_at_us: int = 0  # When bulk was last submitted.
    _starved: bool = False  # No bulk was submitted for STARVED_US.
    _samples_us: list[int] = field(default_factory=list)
    _empty_us: int = 0  # The delay of the empty path; 0 if it is not known.
    _probe_at_us: int = 0  # The time of the next probe.
    _after_probe_bytes: int = IN_FLIGHT_BYTES_MIN  # The limit after the probe.
    _starting: bool = True  # The delay has never been above the empty path's.

    @property
    def bulk_open(self) -> bool:
        """Whether bulk may be submitted."""
        return self.in_flight_bytes < self.limit_bytes or self._starved

    @property
    def priority_open(self) -> bool:
        """Whether any message may be submitted, even with priority."""
        return self.in_flight_bytes < IN_FLIGHT_BYTES_MAX

    @property
    def wake_at_us(self) -> int:
        """The time at which `update` may open it for bulk."""
        return NEVER if self.bulk_open else min(self._moved_at_us + LOST_US, self._bulk_at_us + STARVED_US)

    def update(self, now_us: int) -> None:
        """Updates `bulk_open` and `priority_open` for the present time; call it before reading them."""
        if self.in_flight_bytes and now_us - self._moved_at_us >= LOST_US:
            self._forget()
        self._starved = now_us - self._bulk_at_us >= STARVED_US

    def submitted(self, size_bytes: int, now_us: int, bulk: bool = True) -> None:
        """Counts a message of a client that is submitted."""
        self._moved_at_us = now_us
        if bulk:
            self._bulk_at_us, self._starved = now_us, False
        self.in_flight_bytes += size_bytes
        self._submitted += 1
        if bulk and not self._measured_number and not self.bulk_open:
            self._measured_number, self._measured_since_us = self._submitted, now_us

    def delivered(self, size_bytes: int, now_us: int) -> None:
        """Counts a delivered message of a local client."""
        self._moved_at_us = now_us
        self.in_flight_bytes = max(0, self.in_flight_bytes - size_bytes)
        self._delivered = min(self._submitted, self._delivered + 1)
        if self._measured_number and self._delivered >= self._measured_number:
            self._measured_number = 0
            self._add_sample(now_us - self._measured_since_us, now_us)

    def begin(self) -> None:
        """Starts over with a new view, in which nothing is in flight."""
        self._forget()
        self._samples_us.clear()
        self._empty_us = 0
        self.limit_bytes = self._after_probe_bytes = IN_FLIGHT_BYTES_MIN
        self._starting = True

    def _forget(self) -> None:
        self.in_flight_bytes = 0
        self._delivered = self._submitted
        self._measured_number = 0

    def _add_sample(self, delay_us: int, now_us: int) -> None:
        self._samples_us.append(delay_us)
        if len(self._samples_us) == SAMPLES:
            self._adjust_limit(sorted(self._samples_us)[SAMPLES // 2], now_us)
            self._samples_us.clear()

    def _adjust_limit(self, median_us: int, now_us: int) -> None:
        if not self._empty_us:
            self._empty_us, self._probe_at_us = max(1, median_us), now_us + PROBE_EVERY_US
            self.limit_bytes = self._after_probe_bytes
            return
        if now_us >= self._probe_at_us:
            self._empty_us, self._after_probe_bytes = 0, self.limit_bytes
            self.limit_bytes = IN_FLIGHT_BYTES_MIN
            return
        self._empty_us = min(self._empty_us, max(1, median_us))
        near_us = self._empty_us + self._empty_us // 4 + SLACK_US
        self._starting = self._starting and median_us < near_us
        fitting = self.limit_bytes * (2 if self._starting else near_us / max(1, median_us))
        fitting = min(max(fitting, self.limit_bytes / 2), self.limit_bytes * 2)
        self.limit_bytes = min(max(int(fitting), IN_FLIGHT_BYTES_MIN), IN_FLIGHT_BYTES_MAX)
