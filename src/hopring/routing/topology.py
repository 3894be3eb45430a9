"""The topology: which daemon is at which site, and which links there may be, by number."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hopring.config.model import UNTUNED, Config, LinkProtocol, LinkTuning, Weights
from hopring.ids import SiteId
from hopring.routing.trees import Pair, pair


@dataclass(frozen=True, slots=True)
class LinkPlan:
    """What is known of a link before it exists."""

    weight: int
    protocol: LinkProtocol = LinkProtocol.HOP
    tuning: LinkTuning = UNTUNED


@dataclass(frozen=True, slots=True)
class Topology:
    """All that may take part, present or not."""

    site_of: tuple[SiteId, ...]  # By DaemonId.
    links: Mapping[Pair, LinkPlan]
    measured: bool = False  # Whether weights are measured; then those here hold until there are some.

    @property
    def weights(self) -> dict[Pair, int]:
        """The weight of every link."""
        return {ends: plan.weight for ends, plan in self.links.items()}

    def reweighted(self, weights: Mapping[Pair, int]) -> "Topology":
        """The same with measured weights, for the links that have one."""
        links = {
            ends: replace(plan, weight=weights.get(ends, plan.weight)) for ends, plan in self.links.items()
        }
        return replace(self, links=links)


def topology_of(config: Config) -> Topology:
    """What routing needs of a configuration."""
    links = {
        pair(config.site_id(link.sites[0]), config.site_id(link.sites[1])): LinkPlan(
            link.weight, link.protocol, link.tuning
        )
        for link in config.all_links
    }
    return Topology(config.site_of, links, config.weights is Weights.MEASURED)
