"""Measured weights: the expected time to deliver a packet over a link, steady enough for routing.

Implements  the metric that the report (3.2) leaves open and the thesis (3.3) calls network cost information.
Below       the measurements of each end of a link: its round trip, and the losses of packets towards it.
Above       membership, which makes one set of weights for a view from the reports of all ends.
Invariants  a weight changes only when the measurement is outside of its step by half a step, and then would
            have to move by as much to change back.

A weight is the expected time to deliver, in microseconds:

    round_trip / 2  +  (round_trip + report_delay) * loss / (1 - loss)

Half a round trip is the way of the packet. Before it gets through, loss / (1 - loss) losses are expected; each
costs the delay until the gap is reported, and a round trip for the report and the packet. A TCP link hides its
losses; they make its measured round trips longer.

The round trip is the lower quartile of recent samples. Queues of our own traffic, and pauses of hosts, show in
the higher ones: a route that followed these would move the traffic, and the queue with it.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from hopring.config.model import WEIGHT_MAX
from hopring.links.timing import LinkSample

REPORT_DELAY_US: Final = 5_000
DELIVERY_US_MIN: Final = 500
"""Lower bound of a weight: below it, the noise of hosts is larger than differences between links."""

LOSS_PPM_MAX: Final = 900_000  # Upper bound of the loss, which keeps the formula finite.
TRIPS_KEPT: Final = 120
TRIPS_MIN: Final = 8
"""With fewer samples a link counts as not measured."""

PACKETS_MIN: Final = 128
"""The loss is computed as a share of at least this many packets: one early loss means little."""

PACKETS_KEPT: Final = 1_024
PACKETS_SPAN: Final = 16
"""Counts of packets are halved above PACKETS_KEPT, but not before PACKETS_SPAN samples."""

_MILLION: Final = 1_000_000
_STEP_BITS: Final = 3  # Leading bits that a weight keeps: four steps from each power of two to the next.


@dataclass(frozen=True, slots=True)
class LinkMeasure:
    """The recent measurements of a link at one of its ends."""

    round_trip_us: int
    loss_ppm: int  # Of the packets towards this end, per million.


@dataclass(slots=True)
class LinkMeter:
    """Collects the samples of a link at one of its ends; it outlives networks."""

    trips_us: deque[int] = field(default_factory=lambda: deque(maxlen=TRIPS_KEPT))
    received: int = 0
    lost: int = 0
    samples: int = 0  # Since the counts were halved.

    def add(self, sample: LinkSample) -> None:
        """Adds a sample to the measurements of a link."""
        if sample.round_trip_us:
            self.trips_us.append(sample.round_trip_us)
        self.received += sample.received
        self.lost += sample.lost
        self.samples += 1
        if self.received > PACKETS_KEPT and self.samples >= PACKETS_SPAN:
            self.received //= 2
            self.lost //= 2
            self.samples = 0

    @property
    def measure(self) -> LinkMeasure | None:
        """The recent measurements; None if there are too few samples."""
        if len(self.trips_us) < TRIPS_MIN:
            return None
        quartile_us = sorted(self.trips_us)[len(self.trips_us) // 4]
        # Lost packets are received in the end, so they are among the received ones.
        return LinkMeasure(quartile_us, self.lost * _MILLION // max(self.received, self.lost, PACKETS_MIN))


def delivery_us(measure: LinkMeasure) -> int:
    """The expected time to deliver one packet; see the module for the formula."""
    loss = min(max(measure.loss_ppm, 0), LOSS_PPM_MAX)
    recovery_us = (measure.round_trip_us + REPORT_DELAY_US) * loss // (_MILLION - loss)
    return min(max(DELIVERY_US_MIN, measure.round_trip_us // 2 + recovery_us), WEIGHT_MAX)


def quantised(delivery: int) -> int:
    """Rounds a time down to the lower end of its step."""
    drop = max(0, delivery.bit_length() - _STEP_BITS)
    return delivery >> drop << drop


def smoothed_weight(current: int | None, measure: LinkMeasure) -> int:
    """The weight after a measurement: the current one, unless the link has changed by more than noise."""
    delivery = delivery_us(measure)
    if current is None:
        return quantised(delivery)
    step = 1 << max(0, current.bit_length() - _STEP_BITS)
    near_enough = current - step // 2 <= delivery < current + step + step // 2
    return current if near_enough else quantised(delivery)
