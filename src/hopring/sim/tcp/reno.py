"""The arithmetic of TCP: congestion window and retransmission time-out, without segments or sockets.

Implements  RFC 5681 (slow start, congestion avoidance, fast retransmit and recovery), RFC 6582 (NewReno),
            RFC 3465 (growth by bytes acknowledged), RFC 6928 (initial window), RFC 6298 (time-out).
Deviation   no selective acknowledgements: a window with many losses recovers one hole per round trip.
"""

from dataclasses import dataclass, field
from typing import Final

DUPLICATES_TO_RETRANSMIT: Final = 3
INITIAL_WINDOW_SEGMENTS: Final = 10
RTO_INITIAL_US: Final = 1_000_000
RTO_MIN_US: Final = 200_000  # Linux; RFC 6298 asks for a second.
RTO_MAX_US: Final = 120_000_000  # Linux.


@dataclass(slots=True)
class SimTcpRoundTrip:
    """The smoothed round trip and the time-out that follows from it."""

    smoothed_us: int = 0
    variation_us: int = 0
    backoff: int = 0  # Time-outs since something was last acknowledged.

    def sample(self, measured_us: int) -> None:
        """Takes a measurement in; the gains are 1/8 and 1/4."""
        if self.smoothed_us == 0:
            self.smoothed_us = max(1, measured_us)
            self.variation_us = measured_us // 2
            return
        error_us = abs(self.smoothed_us - measured_us)
        self.variation_us = (3 * self.variation_us + error_us) // 4
        self.smoothed_us = max(1, (7 * self.smoothed_us + measured_us) // 8)

    @property
    def timeout_us(self) -> int:
        """The retransmission time-out, doubled for each time-out in a row."""
        base_us = self.smoothed_us + 4 * self.variation_us if self.smoothed_us else RTO_INITIAL_US
        return min(RTO_MAX_US, max(RTO_MIN_US, base_us) << min(self.backoff, 20))


@dataclass(slots=True)
class Reno:
    """The congestion window. Sequences are byte offsets; the stream reports acknowledgements."""

    mss: int
    window: int = field(init=False)
    threshold: int = 1 << 40
    recovering: bool = False
    recover: int = 0  # The highest byte sent when the last loss was seen.
    duplicates: int = 0
    grown: int = 0  # Bytes acknowledged towards the next increase.

    def __post_init__(self) -> None:
        self.window = INITIAL_WINDOW_SEGMENTS * self.mss

    def allowance(self) -> int:
        """How much may be in flight; the first two duplicates let new data out (RFC 3042)."""
        if self.recovering:
            return self.window
        return self.window + min(self.duplicates, DUPLICATES_TO_RETRANSMIT - 1) * self.mss

    def acknowledged(self, acked: int, acked_to: int, flight: int) -> bool:
        """New data was acknowledged; True asks for the next hole to be sent again (a partial ack)."""
        self.duplicates = 0
        if self.recovering:
            return self._recovery_goes_on(acked, acked_to, flight)
        if flight + acked + self.mss <= self.window:
            return False  # The window did not limit the sender, so it must not grow.
        if self.window < self.threshold:
            self.window += min(acked, 2 * self.mss)
        else:
            self.grown += acked
            if self.grown >= self.window:
                self.grown -= self.window
                self.window += self.mss
        return False

    def _recovery_goes_on(self, acked: int, acked_to: int, flight: int) -> bool:
        if acked_to >= self.recover:
            self.recovering = False
            self.window = min(self.threshold, max(flight, self.mss) + self.mss)
            return False
        self.window = max(self.mss, self.window - acked + (self.mss if acked >= self.mss else 0))
        return True

    def duplicated(self, acked_to: int, sent_to: int, flight: int) -> bool:
        """An acknowledgement came again; True asks for the first hole to be sent again."""
        self.duplicates += 1
        if self.recovering:
            self.window += self.mss
            return False
        if self.duplicates < DUPLICATES_TO_RETRANSMIT or acked_to < self.recover:
            return False
        self._halve(flight)
        self.recovering = True
        self.recover = sent_to
        self.window = self.threshold + DUPLICATES_TO_RETRANSMIT * self.mss
        return True

    def timed_out(self, sent_to: int, flight: int, again: bool) -> None:
        """Nothing came for a whole time-out; a repeated one does not halve the threshold again."""
        if not again:
            self._halve(flight)
        self.window = self.mss
        self.recovering = False
        self.recover = sent_to
        self.duplicates = 0

    def _halve(self, flight: int) -> None:
        self.threshold = max(flight // 2, 2 * self.mss)
        self.grown = 0
