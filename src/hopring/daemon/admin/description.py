"""What a daemon knows of itself, for clients that ask and for metrics."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from hopring import __version__
from hopring.config import Config, cluster_hash
from hopring.daemon.engines.membership_host import MembershipHost
from hopring.daemon.net.udp import SocketCounters, Unsent
from hopring.errors import Drop
from hopring.ids import DaemonId
from hopring.links.events import LinkCounters
from hopring.links.hop import Hop
from hopring.links.tcp import Tcp
from hopring.membership.snapshot import MembershipPhase
from hopring.routing.network import Network
from hopring.routing.topology import LinkPlan
from hopring.routing.trees import Pair, edges_used
from hopring.routing.weights import delivery_us
from hopring.session.protocol import DaemonAnswer, LinkLine, LinkUse, WeightLine, WeightsPage
from hopring.session.server import SessionServer


@dataclass(frozen=True, slots=True)
class ConfiguredLink:
    """A link of the own site to another one."""

    site: str
    peer: str  # The site's representative in the view; if there is none, its first daemon of the configuration.
    protocol: str
    up: bool  # The site is in the view, and the view does not do without this link.


class DaemonDescription:
    """One life of a daemon, seen from outside; all is read where it is kept, when somebody asks."""

    def __init__(
        self, config: Config, member: MembershipHost, desk: SessionServer | None, started_us: int
    ) -> None:
        self.member = member
        self.desk = desk
        self.started_us = started_us
        self.cut: tuple[str, ...] = ()
        """Daemons that the admin channel has cut off here."""
        self.shaped: tuple[str, ...] = ()
        """Daemons whose packets from here the admin channel delays or loses."""
        self.take(config)

    def take(self, config: Config) -> None:
        """Another configuration, with other numbers."""
        self.config = config
        self.names = {DaemonId(at): daemon.name for at, daemon in enumerate(config.daemons)}

    @property
    def name(self) -> str:
        """The daemon's."""
        return self.names[self.member.membership.local.me.daemon]

    @property
    def links(self) -> Mapping[DaemonId, Hop | Tcp]:
        """Those of the present network."""
        stack = self.member.membership.stack
        return {} if stack is None else stack.links

    def configured_links(self) -> list[ConfiguredLink]:
        """The links of the own site, in the order of the other sites, whether they work or not."""
        membership, config = self.member.membership, self.config
        mine = config.site_of[membership.local.me.daemon]
        # While no view is whole, nothing is known to work.
        members = membership.view.members if membership.phase is MembershipPhase.OP else ()
        present = {config.site_of[one.daemon]: one.daemon for one in reversed(members)}
        first = {site: DaemonId(at) for at, site in reversed(list(enumerate(config.site_of)))}
        links = []
        for ends, plan in sorted(membership.local.topology.links.items()):
            if mine in ends:
                site = ends[1] if ends[0] == mine else ends[0]
                peer = self.names[present.get(site, first[site])]
                up = site in present and ends not in membership.view.cut
                links.append(ConfiguredLink(config.sites[site].name, peer, plan.protocol.value, up))
        return links

    def missing(self) -> list[str]:
        """The daemons of the configuration that are not in the view."""
        present = {one.daemon for one in self.member.membership.view.members}
        return [name for one, name in self.names.items() if one not in present]

    def traffics(self) -> list[SocketCounters]:
        """Of all sockets that carry datagrams."""
        datagrams = self.member.sockets.datagrams
        group = [] if datagrams.group is None else [datagrams.group.traffic]
        return [datagrams.traffic, datagrams.endpoint.traffic, *group]

    def dropped(self) -> Counter[Drop]:
        """Packets that were refused, by reason."""
        dropped: Counter[Drop] = Counter(self.member.membership.drops)
        stack = self.member.membership.stack
        for some in [*[one.dropped for one in self.traffics()], Counter() if stack is None else stack.drops]:
            dropped += some
        return dropped

    def unsent(self) -> Counter[Unsent]:
        """Datagrams that never left, by reason."""
        unsent: Counter[Unsent] = Counter()
        for one in self.traffics():
            unsent += one.unsent
        return unsent

    def told(self, now_us: int) -> DaemonAnswer:
        """The answer to a client."""
        membership = self.member.membership
        stack = membership.stack
        return DaemonAnswer(
            daemon=self.name,
            cluster=self.config.cluster,
            hash=f"{cluster_hash(self.config):08x}",
            version=__version__,
            phase=membership.phase.value,
            uptime_us=now_us - self.started_us,
            sessions=0 if self.desk is None else len(self.desk.sessions),
            groups=0 if self.desk is None else len(self.desk.groups.table.groups),
            ring=tuple([self.names[one] for one in (() if stack is None else stack.network.ring)]),
            links=tuple([self.line(daemon, link) for daemon, link in sorted(self.links.items())]),
            dropped={str(reason): count for reason, count in sorted(self.dropped().items())},
            unsent={str(reason): count for reason, count in sorted(self.unsent().items())},
            cut=self.cut,
            shaped=self.shaped,
        )

    def line(self, daemon: DaemonId, link: Hop | Tcp) -> LinkLine:
        """One link."""
        counters: LinkCounters = link.counters
        return LinkLine(
            daemon=self.names[daemon],
            protocol="hop" if isinstance(link, Hop) else "tcp",
            sent=counters.sent,
            received=counters.received,
            lost=counters.lost,
            nacks=counters.nacks,
            retransmissions=counters.retransmissions,
            round_trip_us=counters.round_trip_us,
            backlog_bytes=link.backlog_bytes,
        )

    def weights(self) -> WeightsPage:
        """What all links weigh, as one page."""
        membership = self.member.membership
        stack = membership.stack
        network = None if stack is None else stack.network
        first = None if network is None else network.representatives[membership.site]
        uses = {} if network is None else _uses(network)
        agreed = {} if network is None else network.topology.weights
        lines = [
            self._weight(ends, plan, uses.get(ends, "absent"), agreed.get(ends))
            for ends, plan in membership.local.topology.links.items()
        ]
        return WeightsPage(
            daemon=self.name,
            weights=self.config.weights.value,
            representative="" if first is None else self.names[first],
            links=tuple(sorted(lines, key=lambda line: line.sites)),
            more=False,
        )

    def _weight(self, ends: Pair, plan: LinkPlan, use: LinkUse, agreed: int | None) -> WeightLine:
        mine = self.member.membership.network.measuring.measure_of(ends)
        one, other = [self.config.sites[site].name for site in ends]
        return WeightLine(
            sites=(one, other),
            protocol=plan.protocol.value,
            configured=plan.weight,
            agreed=None if use == "absent" else agreed,
            measured=None if mine is None else delivery_us(mine),
            round_trip_us=None if mine is None else mine.round_trip_us,
            loss_ppm=None if mine is None else mine.loss_ppm,
            use=use,
        )


def _uses(network: Network) -> dict[Pair, LinkUse]:
    """What a network does with each link between its sites."""
    used = edges_used(network.trees)
    idle: LinkUse = "spare" if network.topology.measured else "unused"
    return {
        ends: "tree" if ends in used else "cut" if ends in network.left_out else idle
        for ends in network.topology.links
        if ends[0] in network.representatives and ends[1] in network.representatives
    }
