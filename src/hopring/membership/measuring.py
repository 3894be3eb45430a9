"""Measured weights in a membership: ends sample their links, representatives report, NEWMEMB says what holds.

Implements  thesis 3.3: the membership service gives each server "the link weights of the current overlay
            network", and so all compute the same trees.
Below       the stack, whose links carry PING; `routing.weights`, which makes a weight of what they tell.
Above       the search, which puts what this daemon reports into its records; the membership, which puts what a
            component reported into NEWMEMB.
Invariants  the trees of a network follow from its NEWMEMB alone: no daemon routes by its own measurement, and
            none changes the trees of a network that has begun. A weight is the same as in the network before
            unless an end of the link reports another one. What nobody has measured keeps the configured weight.
            With configured weights nothing is sampled, reported or agreed on.

Why not in STATETRANS: the network of an attempt is there before the first STATETRANS travels on it, and its
links are those of its trees. New trees at the installation would be another network under the same generation:
members install one after the other, so data of the new trees would meet daemons that still check parents by the
old ones. NEWMEMB makes the network, with its members and cut links, so the weights belong there too. A daemon
that accepts an attempt has its weights; one that does not takes no part in its network.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from hopring.ids import NEVER, SiteId
from hopring.links.pinging import LinkSample
from hopring.membership.messages import LinkWeight
from hopring.routing.topology import Topology
from hopring.routing.trees import Pair, pair
from hopring.routing.weights import LinkMeasure, LinkMeter, settled

REPORTED_US: Final = 600_000_000
"""A link that was last sampled longer ago than this is not reported: its other site was away."""


@dataclass(slots=True)
class MeasuredLink:
    """What this daemon knows of one link of its site; it outlives the networks in which it was measured."""

    meter: LinkMeter = field(default_factory=LinkMeter)
    settled: int | None = None  # As it was last reported.
    sampled_at_us: int = 0


@dataclass(slots=True)
class Measuring:
    """One daemon's measurements, and the weights that hold in its present network."""

    topology: Topology
    site: SiteId
    period_us: int
    links: dict[Pair, MeasuredLink] = field(default_factory=dict)
    agreed: dict[Pair, int] = field(default_factory=dict)  # By the last NEWMEMB that this daemon accepted.
    wake_at_us: int = NEVER

    def begin(self, weights: Iterable[LinkWeight]) -> Topology:
        """A network begins; returns the topology by which all its members compute its trees."""
        if not self.topology.measured:
            return self.topology
        self.agreed = {(SiteId(one), SiteId(other)): weight for one, other, weight in weights}
        return self.topology.reweighted(self.agreed)

    def installed(self, now_us: int) -> None:
        """The network is that of a view now. No PING in an attempt: it must be seen whether it gets on."""
        if self.topology.measured:
            self.wake_at_us = now_us + self.period_us

    def end(self) -> None:
        """There is no network to measure."""
        self.wake_at_us = NEVER

    def sample(self, samples: Mapping[SiteId, LinkSample], now_us: int) -> None:
        """Takes what the links to these sites have measured since then; only a representative has any."""
        self.wake_at_us = now_us + self.period_us if samples else NEVER
        for site, sample in samples.items():
            link = self.links.setdefault(pair(self.site, site), MeasuredLink())
            link.meter.take(sample)
            if sample.round_trip_us:
                link.sampled_at_us = now_us

    def report(self, now_us: int) -> tuple[LinkWeight, ...]:
        """What this daemon tells the others of its site's links."""
        reports: list[LinkWeight] = []
        for (one, other), link in sorted(self.links.items()):
            measure = link.meter.measure
            if measure is None or now_us - link.sampled_at_us > REPORTED_US:
                continue
            link.settled = settled(link.settled, measure)
            reports.append((one, other, link.settled))
        return tuple(reports)

    def measure_of(self, ends: Pair) -> LinkMeasure | None:
        """The recent past of a link, if this daemon has measured it."""
        link = self.links.get(ends)
        return None if link is None else link.meter.measure

    def agree(self, reports: Iterable[LinkWeight], sites: Collection[SiteId]) -> tuple[LinkWeight, ...]:
        """The weights for a NEWMEMB of these sites, from what the representatives of its component reported."""
        if not self.topology.measured:
            return ()
        weights = {**self.agreed, **worst(reports)}
        return tuple(
            [
                (one, other, weight)
                for (one, other), weight in sorted(weights.items())
                if one in sites and other in sites
            ]
        )


def worst(reports: Iterable[LinkWeight]) -> dict[Pair, int]:
    """Of the reports of a link's ends the larger: trees use a link both ways, and the worse one counts."""
    weights: dict[Pair, int] = {}
    for one, other, weight in reports:
        ends = SiteId(one), SiteId(other)
        weights[ends] = max(weight, weights.get(ends, 0))
    return weights
