"""Measured weights: how long a packet takes over a link, lost ones included, steady enough to route by.

Implements  the metric that the report (3.2) leaves open and the thesis (3.3) calls network cost information.
Below       what each end of a link measures: its round trip, and the losses of what it receives.
Above       the trees, at the next view: weights are not to change within one.
Invariants  both ends and all others agree, because only settled weights travel and merging them ignores order;
            a weight moves only when the measurement has left its step by a quarter of a step on either side.

Not in use: nothing reports weights yet, and trees follow the configured ones.

A weight is the expected time to deliver, in microseconds:

    round_trip / 2  +  (round_trip + report_delay) * loss / (1 - loss)

Half a round trip for the way; and for every loss before the packet gets through, of which loss / (1 - loss) are
to be expected, the delay until the gap is reported and a round trip for the report and the packet.
"""

from dataclasses import dataclass
from typing import Final

from hopring.config.model import WEIGHT_MAX

REPORT_DELAY_US: Final = 5_000
LOSS_PPM_MAX: Final = 900_000  # More than nine of ten lost is as good as dead; it keeps the formula finite.
_MILLION: Final = 1_000_000
_STEP_BITS: Final = 3  # Leading bits that a weight keeps: four steps from each power of two to the next.


@dataclass(frozen=True, slots=True)
class LinkMeasure:
    """What one end knows of a link at the moment."""

    round_trip_us: int
    loss_ppm: int  # Of the packets towards this end, per million.


@dataclass(frozen=True, slots=True)
class LinkReport:
    """What one end tells the others: its settled weight, None if not measured, and whether the link works."""

    weight: int | None
    alive: bool = True


@dataclass(frozen=True, slots=True)
class LinkState:
    """What all agree on."""

    weight: int
    cut: bool


def delivery_us(measure: LinkMeasure) -> int:
    """The expected time to deliver one packet; see the module for the formula."""
    loss = min(max(measure.loss_ppm, 0), LOSS_PPM_MAX)
    recovery_us = (measure.round_trip_us + REPORT_DELAY_US) * loss // (_MILLION - loss)
    return min(max(1, measure.round_trip_us // 2 + recovery_us), WEIGHT_MAX)


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
    near_enough = current - step // 4 <= delivery < current + step + step // 4
    return current if near_enough else quantised(delivery)


def merged(one: LinkReport | None, other: LinkReport | None, configured: int) -> LinkState:
    """The state of a link from the reports of its ends, in either order; either may be absent.

    The worse direction counts, because trees use a link both ways. A link is cut if either end says so. What
    nobody has measured keeps its configured weight.
    """
    reports = [report for report in (one, other) if report is not None]
    weights = [report.weight for report in reports if report.weight is not None]
    return LinkState(weight=max(weights, default=configured), cut=not all(report.alive for report in reports))
