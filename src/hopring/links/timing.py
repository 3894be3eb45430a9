"""The clocks of a link: its measured round trip, its heartbeat, and measuring by PING.

The estimator is the one of TCP (RFC 6298): a smoothed round trip and its mean deviation. Nothing in Hop waits
for a fixed time where the link itself can tell how long to wait (a slow link with a full window answers later
than any constant guesses).

Each heartbeat wakes up two daemons that have nothing else to do, so there are only a few in the time after
which silence fails the link; if the daemon is awake anyway, one goes a little before its time. When one is
missing, Hop asks for another, again and again, before it gives up.

PING measures any link: its round trip from stamps, its loss from the link's own counts. A ping is an urgent
object, so that it does not wait behind data.
"""

from dataclasses import dataclass, field
from typing import Final, final

from hopring.links.events import LinkCounters
from hopring.value import Value
from hopring.wire.control import Ping
from hopring.wire.hop import STAMP_MASK

BEAT_US_MAX: Final = 330_000
"""A little more than three turns of a resting token, so that it rides with every third one."""

SILENCES_MAX: Final = 4
"""The limit of silence never grows beyond so many times what was asked for."""

_BEATS_IN_SILENCE: Final = 3

_RIDE_PART: Final = 3

_ROUND_TRIPS_IN_SILENCE: Final = 8


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


def beat_us(heartbeat_us: int, silence_us: int) -> int:
    """The time between two signs of life; what fits the silence if nothing (0) was asked for."""
    return heartbeat_us or min(BEAT_US_MAX, silence_us // _BEATS_IN_SILENCE)


def silence_limit_us(round_trip_us: int, silence_us: int) -> int:
    """The silence that fails a link: longer where an answer, or a repetition, takes longer.

    Bounded, because a pause of this host looks like a long round trip.
    """
    return min(max(_ROUND_TRIPS_IN_SILENCE * round_trip_us, silence_us), SILENCES_MAX * silence_us)


def ride_us(again_us: int) -> int:
    """So much before its time the next sign of life, which is due after this, may be given."""
    return again_us // _RIDE_PART


@final
class LinkSample(Value):
    """What one end has measured since it was last asked."""

    def __init__(self, round_trip_us: int, received: int, lost: int) -> None:
        self.round_trip_us: Final = round_trip_us  # 0 if there is no new one.
        self.received: Final = received  # Packets, since the last sample,
        self.lost: Final = lost  # and how many of them had to be asked for.


@dataclass(slots=True)
class Pinging:
    """One end of one link."""

    round_trip: RoundTrip = field(default_factory=lambda: RoundTrip(0))
    stamp_us: int = 0  # The neighbour's last stamp,
    stamped_at_us: int = 0  # and when it came.
    received: int = 0  # The link's counts when the last sample was taken.
    lost: int = 0

    def ping(self, now_us: int) -> Ping:
        """The next one to send."""
        delay_us = min(now_us - self.stamped_at_us, STAMP_MASK) if self.stamp_us else 0
        return Ping(stamp_of(now_us), self.stamp_us, delay_us)

    def heard(self, ping: Ping, now_us: int) -> None:
        """The neighbour's ping has come; values that cannot be are ignored by the round trip."""
        self.stamp_us, self.stamped_at_us = ping.stamp_us, now_us
        if ping.echo_us:
            self.round_trip.sample(ping.echo_us, ping.echo_delay_us, now_us)

    def sample(self, counters: LinkCounters) -> LinkSample:
        """What is new since the last call."""
        sample = LinkSample(
            self.round_trip.last_us, counters.received - self.received, counters.lost - self.lost
        )
        self.round_trip.last_us = 0
        self.received, self.lost = counters.received, counters.lost
        return sample
