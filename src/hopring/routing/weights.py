"""Measured weights: how long a packet takes over a link, lost ones included, steady enough to route by.

Implements  the metric that the report (3.2) leaves open and the thesis (3.3) calls network cost information.
Below       what each end of a link measures: its round trip, and the losses of what it receives.
Above       membership, which makes one set of weights for a view of what all ends report.
Invariants  a weight moves only when the measurement has left its step by half a step on either side, and is
            then that far from moving back.

A weight is the expected time to deliver, in microseconds:

    round_trip / 2  +  (round_trip + report_delay) * loss / (1 - loss)

Half a round trip for the way; and for every loss before the packet gets through, of which loss / (1 - loss) are
to be expected, the delay until the gap is reported and a round trip for the report and the packet. A TCP link
hides its losses; they lengthen the round trips that are seen on it.

The round trip is the lower quartile of recent samples. A queue of our own traffic shows in the higher ones: a
route that followed it would move the traffic and, with it, the queue. A pause of a host shows there, too.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from hopring.config.model import WEIGHT_MAX
from hopring.links.timing import LinkSample

REPORT_DELAY_US: Final = 5_000
DELIVERY_US_MIN: Final = 500
"""What is faster is taken for as fast as this: below it, the noise of hosts is larger than what differs."""

LOSS_PPM_MAX: Final = 900_000  # More than nine of ten lost is as good as dead; it keeps the formula finite.
TRIPS_KEPT: Final = 120
TRIPS_MIN: Final = 8
"""With fewer samples a link counts as not measured."""

PACKETS_MIN: Final = 128
"""Losses are a share of at least so many packets: one that is lost early says little."""

PACKETS_KEPT: Final = 1_024
PACKETS_SPAN: Final = 16
"""Counts of packets are halved when they are more than so many, but not before so many samples."""

_MILLION: Final = 1_000_000
_STEP_BITS: Final = 3  # Leading bits that a weight keeps: four steps from each power of two to the next.


@dataclass(frozen=True, slots=True)
class LinkMeasure:
    """What one end knows of a link at the moment."""

    round_trip_us: int
    loss_ppm: int  # Of the packets towards this end, per million.


@dataclass(slots=True)
class LinkMeter:
    """The recent past of a link at one of its ends, over however many networks."""

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
        """The link as it was lately; None if too little is known."""
        if len(self.trips_us) < TRIPS_MIN:
            return None
        quartile_us = sorted(self.trips_us)[len(self.trips_us) // 4]
        # What is lost is received in the end, so the one is a part of the other.
        return LinkMeasure(quartile_us, self.lost * _MILLION // max(self.received, self.lost, PACKETS_MIN))


def delivery_us(measure: LinkMeasure) -> int:
    """The expected time to deliver one packet; see the module for the formula."""
    loss = min(max(measure.loss_ppm, 0), LOSS_PPM_MAX)
    recovery_us = (measure.round_trip_us + REPORT_DELAY_US) * loss // (_MILLION - loss)
    return min(max(DELIVERY_US_MIN, measure.round_trip_us // 2 + recovery_us), WEIGHT_MAX)


def quantised(delivery: int) -> int:
    """The step that this time lies in, by its lower end."""
    drop = max(0, delivery.bit_length() - _STEP_BITS)
    return delivery >> drop << drop


def settled(current: int | None, measure: LinkMeasure) -> int:
    """The weight after a new measurement: the current one, unless the link has really changed."""
    delivery = delivery_us(measure)
    if current is None:
        return quantised(delivery)
    step = 1 << max(0, current.bit_length() - _STEP_BITS)
    near_enough = current - step // 2 <= delivery < current + step + step // 2
    return current if near_enough else quantised(delivery)
