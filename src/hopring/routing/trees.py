"""Trees: the topology of sites and links, and for every source site the shortest paths to all other sites.

Implements  Amir and Stanton (report 1998) 3.1 and 3.2; Stanton (thesis 2002) 3.3.
Below       the configuration as a `Topology`: the site of each daemon, and the links that there may be, by
            number; the weights of the links between the sites that are present.
Above       the overlay network, which forwards along the tree of a bundle's source.
Invariants  all daemons compute the same trees from the same sites, weights and cut links, in any order: a path
            is shorter if its weights sum to less, then if it has fewer links; and of several parents at the end
            of equally short paths the one with the lowest site id is taken. A tree has every site that it
            reaches once.
Deviation   the thesis runs Floyd-Warshall on all pairs; we run Dijkstra once for each source, and later sources
            use the distances of earlier ones, which is several times faster with many links.

Distances here are packed: the sum of weights and, in the `_SITE_BITS` bits below it, the number of links. So
one comparison compares both, and a direct link wins every tie. In the heap, the index of the site is packed
below.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple, final

from hopring.config.model import UNTUNED, WEIGHT_MAX, Config, LinkProtocol, LinkTuning, Weights
from hopring.ids import NEVER, SITES_MAX, SiteId, SiteMask
from hopring.value import Value

Pair = tuple[SiteId, SiteId]
"""The two ends of a link, the lower site first."""


@dataclass(frozen=True, slots=True)
class LinkPlan:
    """The configuration of a link between two sites."""

    weight: int
    protocol: LinkProtocol = LinkProtocol.HOP
    tuning: LinkTuning = UNTUNED


@dataclass(frozen=True, slots=True)
class Topology:
    """The configured daemons, sites and links, present or not."""

    site_of: tuple[SiteId, ...]  # By DaemonId.
    links: Mapping[Pair, LinkPlan]
    measured: bool = False  # Weights are measured; those of the configuration count until then.

    @property
    def weights(self) -> dict[Pair, int]:
        """The weight of every link."""
        return {ends: plan.weight for ends, plan in self.links.items()}

    def reweighted(self, weights: Mapping[Pair, int]) -> "Topology":
        """The same topology with these weights, for the links that have one."""
        links = {
            ends: replace(plan, weight=weights.get(ends, plan.weight)) for ends, plan in self.links.items()
        }
        return replace(self, links=links)


def topology_of(config: Config) -> Topology:
    """The part of a configuration that routing needs."""
    links = {
        pair(config.site_id(link.sites[0]), config.site_id(link.sites[1])): LinkPlan(
            link.weight, link.protocol, link.tuning
        )
        for link in config.all_links
    }
    return Topology(config.site_of, links, config.weights is Weights.MEASURED)


_SITE_BITS: Final = (SITES_MAX - 1).bit_length()
_SITE_BITS_MASK: Final = (1 << _SITE_BITS) - 1

_Row = list[int]
"""Packed distances by index: the index of a site among those present, lowest id first."""


class Branch(NamedTuple):
    """A link of a tree away from its source: the child, and all sites that are reached through it."""

    site: SiteId
    below: SiteMask


@final
class Tree(Value):
    """The tree along which everything from site `source` is forwarded."""

    def __init__(
        self,
        source: SiteId,
        parent: dict[SiteId, SiteId],
        below: dict[SiteId, SiteMask],
        distance: dict[SiteId, int],
    ) -> None:
        self.source: Final = source
        self.parent: Final = parent  # Of every site that is reached, but the source.
        self.below: Final = below  # Of every site that is reached: itself and all that it forwards to.
        self.distance: Final = distance  # Of every site that is reached: the sum of weights from the source.

    @property
    def reached(self) -> SiteMask:
        """All sites of the tree, the source included."""
        return self.below[self.source]

    def branches(self, site: SiteId) -> tuple[Branch, ...]:
        """The links on which this site forwards, the lowest child first."""
        children = sorted([child for child, parent in self.parent.items() if parent == site])
        return tuple([Branch(child, self.below[child]) for child in children])


def pair(one: SiteId, other: SiteId) -> Pair:
    """The key of the link between two sites, the same at both ends."""
    return (one, other) if one < other else (other, one)


def build_trees(
    sites: Iterable[SiteId], weights: Mapping[Pair, int], cut: Collection[Pair] = ()
) -> dict[SiteId, Tree]:
    """A tree for each of the sites, over all links between them that are not cut."""
    present = sorted(set(sites))
    links = _matrix(present, weights, cut)
    rows = _all_distances(links)
    uplinks = [_shortest_links(row, distances) for row, distances in zip(links, rows, strict=True)]
    return {source: _tree(index, present, rows[index], uplinks) for index, source in enumerate(present)}


def edges_used(trees: Mapping[SiteId, Tree]) -> frozenset[Pair]:
    """The links that some tree uses: those that have to exist."""
    return frozenset(pair(child, parent) for tree in trees.values() for child, parent in tree.parent.items())


def islands(trees: Mapping[SiteId, Tree]) -> tuple[SiteMask, ...]:
    """The sets of sites that reach each other, sorted by their lowest site; one set if all are connected."""
    return tuple(sorted({tree.reached for tree in trees.values()}, key=lambda reached: reached & -reached))


def _matrix(present: list[SiteId], weights: Mapping[Pair, int], cut: Collection[Pair]) -> list[_Row]:
    index = {site: at for at, site in enumerate(present)}
    links = [[NEVER] * len(present) for _ in present]
    for (one, other), weight in weights.items():
        assert one < other, "a pair names the lower site first"
        assert 0 < weight <= WEIGHT_MAX, "weights are positive"
        if one in index and other in index and (one, other) not in cut:
            packed = weight << _SITE_BITS | 1
            links[index[one]][index[other]] = links[index[other]][index[one]] = packed
    return links


def _all_distances(links: list[_Row]) -> list[_Row]:
    """All shortest distances. Links have no direction, so the distance to an earlier source is known."""
    near = [sorted([(length, at) for at, length in enumerate(row) if length < NEVER]) for row in links]
    rows: list[_Row] = []
    farthest: list[int] = []
    for source, direct in enumerate(links):
        row = direct.copy()
        row[source] = 0
        for earlier, known in enumerate(rows):
            row[earlier] = known[source]
        # Through an earlier source no site is farther than this, so longer paths need no search.
        detours = [row[earlier] + most for earlier, most in enumerate(farthest)]
        _settle(row, near, min([max(row), NEVER - 1, *detours]))
        rows.append(row)
        farthest.append(max(row))
        # A link that is longer than another path between its ends is on no shortest path.
        near[source] = [(length, at) for length, at in near[source] if row[at] == length]
    return rows


def _settle(row: _Row, near: list[list[tuple[int, int]]], limit: int) -> None:
    """Runs Dijkstra on a row that starts with the direct links; no distance is above the limit."""
    heap = [distance << _SITE_BITS | at for at, distance in enumerate(row) if 0 < distance <= limit]
    heapify(heap)
    while heap:
        entry = heappop(heap)
        via, distance = entry & _SITE_BITS_MASK, entry >> _SITE_BITS
        if distance > row[via]:
            continue
        left = limit - distance
        for length, at in near[via]:
            if length > left:
                break
            if distance + length < row[at]:
                row[at] = distance + length
                heappush(heap, row[at] << _SITE_BITS | at)


def _shortest_links(links: _Row, distances: _Row) -> list[tuple[int, int]]:
    """The links of one site that are on shortest paths, as (index of the other end, length)."""
    return [(at, length) for at, length in enumerate(links) if length == distances[at] and length < NEVER]


def _tree(source: int, present: list[SiteId], row: _Row, uplinks: list[list[tuple[int, int]]]) -> Tree:
    reached = [at for at in sorted(range(len(row)), key=row.__getitem__) if row[at] < NEVER]
    parent: dict[SiteId, SiteId] = {}
    below = [1 << site for site in present]
    for at in reversed(reached[1:]):  # Children before their parents, which are nearer.
        up = _parent(source, at, row, uplinks[at])
        parent[present[at]] = present[up]
        below[up] |= below[at]
    return Tree(
        source=present[source],
        parent=parent,
        below={present[at]: SiteMask(below[at]) for at in reached},
        distance={present[at]: row[at] >> _SITE_BITS for at in reached},
    )


def _parent(source: int, at: int, row: _Row, uplinks: list[tuple[int, int]]) -> int:
    distance = row[at]
    if distance & _SITE_BITS_MASK == 1:
        return source
    for via, length in uplinks:  # The first that fits is the lowest.
        if row[via] + length == distance:
            return via
    raise AssertionError("a shortest path ends with a link that is one itself")
