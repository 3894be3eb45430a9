"""Whole networks in memory: every daemon gets every bundle once, with the body exactly where the mask says."""

from collections import Counter
from dataclasses import dataclass, field
from random import Random

import pytest

from hopring.ids import DaemonId, SiteId, SiteMask
from hopring.routing.network import FromLink, FromRing, Item, Network, Output, ToLink, ToRing, Up
from hopring.routing.trees import LinkPlan, Pair, Topology, build_trees, islands
from hopring.wire.routed import Routed


@dataclass
class World:
    """All daemons of a view, on links that lose nothing and keep no order."""

    random: Random
    networks: dict[DaemonId, Network]
    in_flight: list[tuple[DaemonId, FromRing | FromLink]] = field(default_factory=list)
    up: dict[DaemonId, Counter[Item]] = field(default_factory=dict)
    link_items: Counter[tuple[Pair, Item]] = field(default_factory=Counter)

    def originate(self, sender: DaemonId, routed: Routed) -> None:
        network = self.networks[sender]
        part = network.ring_part(routed)
        to_ring = [] if part is None else [ToRing(part)]
        self._carry(sender, [*network.forward_own(routed), *to_ring, Up(routed)])

    def run(self) -> None:
        while self.in_flight:
            receiver, event = self.in_flight.pop(self.random.randrange(len(self.in_flight)))
            self._carry(receiver, self.networks[receiver].step(event))

    def _carry(self, me: DaemonId, outputs: list[Output]) -> None:
        network = self.networks[me]
        for output in outputs:
            match output:
                case Up(item=item):
                    self.up.setdefault(me, Counter())[item] += 1
                case ToRing(item=item):
                    others = [daemon for daemon in network.ring if daemon != me]
                    assert others
                    self.in_flight += [(other, FromRing(item)) for other in others]
                case ToLink(neighbour=neighbour, item=item):
                    (other,) = [one for one in network.neighbours if one.daemon == neighbour]
                    self.link_items[(network.site, other.site), item] += 1
                    self.in_flight.append((neighbour, FromLink(me, item)))


def random_world(seed: int) -> World:
    random = Random(seed)
    sites = [SiteId(site) for site in range(random.randint(1, 9))]
    site_of = tuple([site for site in sites for _ in range(random.randint(1, 3))])
    links: dict[Pair, LinkPlan] = {
        (one, other): LinkPlan(random.randint(1, random.choice([1, 5, 50])))
        for one in sites
        for other in sites
        if one < other
    }
    everybody = [DaemonId(daemon) for daemon in range(len(site_of))]
    members = sorted(random.sample(everybody, random.randint(1, len(everybody))))
    topology = Topology(site_of, links)
    present = {site_of[daemon] for daemon in members}
    cut = [ends for ends in links if random.random() < 0.4]
    if len(islands(build_trees(present, topology.weights, cut))) > 1:
        cut = []
    return World(random, {me: Network(topology, me, members, cut) for me in members})


def random_bundle(world: World, sender: DaemonId, seq: int) -> list[Routed]:
    mask = SiteMask(world.random.choice([0, 0x1FF, world.random.getrandbits(9)]))
    count = world.random.randint(1, 3)
    source = world.networks[sender].site
    return [Routed(source, seq, seq, mask, index, count, b"%d" % index) for index in range(count)]


def expected_up(network: Network, sender: DaemonId, fragments: list[Routed]) -> Counter[Item]:
    if network.me == sender or fragments[0].mask >> network.site & 1:
        return Counter(fragments)
    return Counter([fragments[0].meta()])


def expected_on_links(world: World, fragments: list[Routed]) -> Counter[tuple[Pair, Item]]:
    any_network = next(iter(world.networks.values()))
    tree = any_network.trees[fragments[0].source]
    counts: Counter[tuple[Pair, Item]] = Counter()
    for child, parent in tree.parent.items():
        wanted = fragments[0].mask & tree.below[child]
        counts.update([((parent, child), item) for item in (fragments if wanted else [fragments[0].meta()])])
    return counts


@pytest.mark.parametrize("seed", range(150))
def test_bodies_go_exactly_where_the_mask_says_and_meta_data_everywhere_else(seed: int) -> None:
    world = random_world(seed)
    sent: list[tuple[DaemonId, list[Routed]]] = []
    for seq in range(1, 6):
        sender = world.random.choice(list(world.networks))
        sent.append((sender, random_bundle(world, sender, seq)))
        for fragment in sent[-1][1]:
            world.originate(sender, fragment)
    world.run()

    for me, network in world.networks.items():
        expected: Counter[Item] = Counter()
        for sender, fragments in sent:
            expected += expected_up(network, sender, fragments)
        assert world.up[me] == expected
    assert world.link_items == sum([expected_on_links(world, fragments) for _, fragments in sent], Counter())


def test_all_daemons_of_a_view_have_the_same_trees() -> None:
    for seed in range(40):
        networks = list(random_world(seed).networks.values())
        assert all(network.trees == networks[0].trees for network in networks)


def test_links_exist_at_both_ends_or_at_none() -> None:
    for seed in range(40):
        networks = random_world(seed).networks
        ends = {(me, other.daemon) for me, network in networks.items() for other in network.neighbours}
        assert ends == {(other, me) for me, other in ends}
