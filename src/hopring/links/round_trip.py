"""Round-trip measurement, and the timers that follow from it.

The estimator is the one of TCP (RFC 6298): a smoothed round trip and its mean deviation. Nothing in Hop waits
for a fixed time where the link itself can tell how long to wait (trap: a slow link with a full window answers
later than any constant guesses).
"""

from dataclasses import dataclass

from hopring.wire.hop import STAMP_MASK

_SAMPLE_US_MAX = 5_000_000
"""No path takes longer; what does was waiting in a host that was paused."""


def stamp_of(now_us: int) -> int:
    """The clock as an ACK carries it; 0 is kept for 'none'."""
    return (now_us & STAMP_MASK) or 1


def clamp(value: int, low: int, high: int) -> int:
    """The value, or the bound it crossed."""
    return low if value < low else min(high, value)


@dataclass(slots=True)
class RoundTrip:
    """What is known of the time to the neighbour and back."""

    initial_us: int
    smoothed_us: int = 0
    deviation_us: int = 0
    least_us: int = 0
    last_us: int = 0
    since_us: int = -(
        2**62
    )  # An answer to what was sent before may have waited here, for this host to run again.

    @property
    def measured(self) -> bool:
        """Whether any sample was taken."""
        return self.smoothed_us > 0

    @property
    def estimate_us(self) -> int:
        """The smoothed round trip, or the initial guess."""
        return self.smoothed_us or self.initial_us

    def sample(self, echo_us: int, echo_delay_us: int, now_us: int) -> None:
        """Takes the age of an echoed stamp, less the time the neighbour kept it."""
        age_us = (stamp_of(now_us) - echo_us) & STAMP_MASK
        sample = age_us - echo_delay_us
        if not 0 < sample < _SAMPLE_US_MAX or now_us - age_us < self.since_us:
            return
        self.last_us = sample
        if not self.measured:
            self.smoothed_us, self.deviation_us, self.least_us = sample, sample // 2, sample
            return
        self.deviation_us += (abs(self.smoothed_us - sample) - self.deviation_us) // 4
        self.smoothed_us += (sample - self.smoothed_us) // 8
        self.least_us = min(self.least_us, sample)

    def resume(self, before: "RoundTrip") -> None:
        """Starts from what another link has measured, except its least: paths get longer, too."""
        self.smoothed_us = self.least_us = self.last_us = before.smoothed_us
        self.deviation_us = before.deviation_us

    @property
    def nack_delay_us(self) -> int:
        """How late a packet may be before it counts as missing: what the link is seen to vary."""
        return clamp(self.deviation_us, 2_000, 20_000)

    @property
    def answer_us(self) -> int:
        """After this time without an answer, the question or the answer was lost."""
        if not self.measured:
            return self.initial_us + self.initial_us // 2
        # The answer may wait its turn at the neighbour's pace; asking too early only doubles packets.
        patience_us = max(4 * self.deviation_us, self.smoothed_us // 4)
        return self.smoothed_us + max(patience_us, 5_000)

    @property
    def report_delay_us(self) -> int:
        """How long a report of what was received or sent may wait for company."""
        return clamp(self.estimate_us // 4, 1_000, 10_000)
