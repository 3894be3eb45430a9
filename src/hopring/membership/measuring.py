"""Measured link weights: ends sample their links, representatives report them, NEWMEMB fixes them for a view.

Implements  thesis 3.3: the membership service gives each server "the link weights of the current overlay
            network", and so all compute the same trees.
Below       the stack, whose links carry PING; `routing.weights`, which computes a weight from samples.
Above       discovery, which puts this daemon's reports into its records; the membership, which puts the agreed
            weights into NEWMEMB.
Invariants  the trees of a network follow from its NEWMEMB alone: no daemon routes by its own measurement, and
            none changes the trees of a network that has begun. A weight is the same as in the network before
            unless an end of the link reports another one. A link without measurements has its configured
            weight. With configured weights nothing is sampled, reported or agreed on.

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
from hopring.links.timing import LinkSample
from hopring.membership.messages import LinkWeight
from hopring.routing.trees import Pair, Topology, pair
from hopring.routing.weights import LinkMeasure, LinkMeter, smoothed_weight

REPORTED_US: Final = 600_000_000
"""A link that was last sampled longer ago than this is not reported: its other site was away."""


@dataclass(slots=True)
class MeasuredLink:
    """This daemon's measurements of one link of its site; they outlive networks."""

    meter: LinkMeter = field(default_factory=LinkMeter)
    reported: int | None = None  # The weight in the last report.
    sampled_at_us: int = 0


@dataclass(slots=True)
class Measuring:
    """One daemon's measurements, and the agreed weights of its current network."""

    topology: Topology
    site: SiteId
    period_us: int
    links: dict[Pair, MeasuredLink] = field(default_factory=dict)
    agreed: dict[Pair, int] = field(default_factory=dict)  # By the last NEWMEMB that this daemon accepted.
    wake_at_us: int = NEVER

    def begin(self, weights: Iterable[LinkWeight]) -> Topology:
        """A network begins; returns the topology from which all members compute its trees."""
        if not self.topology.measured:
            return self.topology
        self.agreed = {(SiteId(one), SiteId(other)): weight for one, other, weight in weights}
        return self.topology.reweighted(self.agreed)

    def installed(self, now_us: int) -> None:
        """The view is installed: measuring begins. During an attempt PINGs would look like progress."""
        if self.topology.measured:
            self.wake_at_us = now_us + self.period_us

    def end(self) -> None:
        """The network is over: measuring ends."""
        self.wake_at_us = NEVER

    def sample(self, samples: Mapping[SiteId, LinkSample], now_us: int) -> None:
        """Adds the samples of the links to these sites; only representatives have any."""
        self.wake_at_us = now_us + self.period_us if samples else NEVER
        for site, sample in samples.items():
            link = self.links.setdefault(pair(self.site, site), MeasuredLink())
            link.meter.add(sample)
            if sample.round_trip_us:
                link.sampled_at_us = now_us

    def report(self, now_us: int) -> tuple[LinkWeight, ...]:
        """The weights that this daemon reports, of its site's links."""
        reports: list[LinkWeight] = []
        for (one, other), link in sorted(self.links.items()):
            measure = link.meter.measure
            if measure is None or now_us - link.sampled_at_us > REPORTED_US:
                continue
            link.reported = smoothed_weight(link.reported, measure)
            reports.append((one, other, link.reported))
        return tuple(reports)

    def measure_of(self, ends: Pair) -> LinkMeasure | None:
        """Recent measurements of a link, if this daemon has any."""
        link = self.links.get(ends)
        return None if link is None else link.meter.measure

    def agree(self, reports: Iterable[LinkWeight], sites: Collection[SiteId]) -> tuple[LinkWeight, ...]:
        """The weights for a NEWMEMB of these sites, from the reports of their representatives."""
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
    """The larger of the reports of a link's two ends: trees use a link in both directions."""
    weights: dict[Pair, int] = {}
    for one, other, weight in reports:
        ends = SiteId(one), SiteId(other)
        weights[ends] = max(weight, weights.get(ends, 0))
    return weights
