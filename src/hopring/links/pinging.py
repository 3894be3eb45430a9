"""Measuring one link by PING objects: its round trip from their stamps, its loss from the link's own counts.

Below       any link: a ping is an urgent object, so that it does not wait behind data.
Above       the stack, which sends a ping when it is told to and takes what came of the earlier ones.
"""

from dataclasses import dataclass, field
from typing import Final, final

from hopring.links.events import LinkCounters
from hopring.links.round_trip import RoundTrip, stamp_of
from hopring.value import Value
from hopring.wire.hop import STAMP_MASK
from hopring.wire.ping import Ping


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
