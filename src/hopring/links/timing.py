"""Times of a link: its measured round trip, its heartbeats, and measurements by PING.

The estimator is that of TCP (RFC 6298): a smoothed round trip and its mean deviation. The waiting times of Hop
follow from it instead of being fixed, since a slow link with a full window answers later than any constant.

Each heartbeat wakes up two idle daemons, so there are only a few within the silence that fails the link; if a
daemon is awake anyway, it sends a heartbeat a little early. When one is missing, Hop requests another
repeatedly before the link fails.

PING measures any link: its round trip from stamps, its loss from the link's own counters. A ping is an urgent
object, so that it does not wait behind data.
"""

from dataclasses import dataclass, field
from typing import Final, final

from hopring.links.events import LinkCounters
from hopring.value import Value
from hopring.wire.control import Ping
from hopring.wire.hop import STAMP_MASK

BEAT_US_MAX: Final = 330_000
"""A little more than three holds of an idle token, so that a heartbeat is sent with every third of them."""

SILENCES_MAX: Final = 4
"""The silence that fails a link is at most this many times the configured one."""

_BEATS_IN_SILENCE: Final = 3

_EARLY_PART: Final = 3

_ROUND_TRIPS_IN_SILENCE: Final = 8


_SAMPLE_US_MAX = 5_000_000
"""Longer samples are ignored: the packet waited in a host that was paused."""


def stamp_of(now_us: int) -> int:
    """The clock as an ACK carries it; never 0, which means none."""
    return (now_us & STAMP_MASK) or 1


def clamp(value: int, low: int, high: int) -> int:
    """The value, limited to these bounds."""
    return low if value < low else min(high, value)


@dataclass(slots=True)
class RoundTrip:
    """The measured round trip to the neighbour."""

    initial_us: int
    smoothed_us: int = 0
    deviation_us: int = 0
    least_us: int = 0
    last_us: int = 0
    # Answers to packets sent before this time give no sample: they may have waited while this host did not run.
    since_us: int = -(2**62)

    @property
    def measured(self) -> bool:
        """Whether any sample was taken."""
        return self.smoothed_us > 0

    @property
    def estimate_us(self) -> int:
        """The smoothed round trip, or the initial guess."""
        return self.smoothed_us or self.initial_us

    def sample(self, echo_us: int, echo_delay_us: int, now_us: int) -> None:
        """Adds a sample: the age of an echoed stamp, less the time that the neighbour had it."""
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
        """Starts from the measurements of an earlier link, except its least: the path may be longer now."""
        self.smoothed_us = self.least_us = self.last_us = before.smoothed_us
        self.deviation_us = before.deviation_us

    @property
    def nack_delay_us(self) -> int:
        """How late a packet may be before it is requested: the measured deviation, within bounds."""
        return clamp(self.deviation_us, 2_000, 20_000)

    @property
    def answer_us(self) -> int:
        """After this time without an answer, the question or the answer was lost."""
        if not self.measured:
            return self.initial_us + self.initial_us // 2
        # The answer may wait in the neighbour's paced queue; an early request would only duplicate packets.
        patience_us = max(4 * self.deviation_us, self.smoothed_us // 4)
        return self.smoothed_us + max(patience_us, 5_000)

    @property
    def report_delay_us(self) -> int:
        """How long an ACK may wait for other frames to share a datagram with."""
        return clamp(self.estimate_us // 4, 1_000, 10_000)


def beat_us(heartbeat_us: int, silence_us: int) -> int:
    """The time between two heartbeats; if 0 is configured, it follows from the silence."""
    return heartbeat_us or min(BEAT_US_MAX, silence_us // _BEATS_IN_SILENCE)


def silence_limit_us(round_trip_us: int, silence_us: int) -> int:
    """The silence that fails a link; it grows with the round trip, since answers and repetitions take longer.

    It is bounded, because a pause of this host looks like a long round trip.
    """
    return min(max(_ROUND_TRIPS_IN_SILENCE * round_trip_us, silence_us), SILENCES_MAX * silence_us)


def early_us(again_us: int) -> int:
    """How much earlier than planned the next heartbeat, due after `again_us`, may be sent."""
    return again_us // _EARLY_PART


@final
class LinkSample(Value):
    """The measurements of one end of a link since the last sample."""

    def __init__(self, round_trip_us: int, received: int, lost: int) -> None:
        self.round_trip_us: Final = round_trip_us  # 0 if there is no new one.
        self.received: Final = received  # Packets since the last sample.
        self.lost: Final = lost  # Of the packets received, those that had to be requested.


@dataclass(slots=True)
class Pinging:
    """The state of PING at one end of a link."""

    round_trip: RoundTrip = field(default_factory=lambda: RoundTrip(0))
    stamp_us: int = 0  # The neighbour's last stamp.
    stamped_at_us: int = 0  # When that stamp was received.
    received: int = 0  # The link's counter at the last sample.
    lost: int = 0  # The link's counter at the last sample.

    def ping(self, now_us: int) -> Ping:
        """The next PING for the neighbour."""
        delay_us = min(now_us - self.stamped_at_us, STAMP_MASK) if self.stamp_us else 0
        return Ping(stamp_of(now_us), self.stamp_us, delay_us)

    def heard(self, ping: Ping, now_us: int) -> None:
        """Notes a PING of the neighbour; impossible values give no sample."""
        self.stamp_us, self.stamped_at_us = ping.stamp_us, now_us
        if ping.echo_us:
            self.round_trip.sample(ping.echo_us, ping.echo_delay_us, now_us)

    def sample(self, counters: LinkCounters) -> LinkSample:
        """The measurements since the last call."""
        sample = LinkSample(
            self.round_trip.last_us, counters.received - self.received, counters.lost - self.lost
        )
        self.round_trip.last_us = 0
        self.received, self.lost = counters.received, counters.lost
        return sample
