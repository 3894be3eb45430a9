"""What a daemon knows of itself, for clients that ask and for metrics."""

from collections import Counter
from collections.abc import Mapping

from hopring import __version__
from hopring.config import Config, cluster_hash
from hopring.daemon.member import Member
from hopring.daemon.traffic import Traffic, Unsent
from hopring.errors import Drop
from hopring.ids import DaemonId
from hopring.links.events import LinkCounters
from hopring.links.hop import Hop
from hopring.links.tcp import Tcp
from hopring.session.answers import DaemonAnswer, LinkLine
from hopring.session.desk import Desk


class Facts:
    """One life of a daemon, seen from outside; all is read where it is kept, when somebody asks."""

    def __init__(self, config: Config, member: Member, desk: Desk | None, started_us: int) -> None:
        self.member = member
        self.desk = desk
        self.started_us = started_us
        self.take(config)

    def take(self, config: Config) -> None:
        """Another configuration, with other numbers."""
        self.config = config
        self.names = {DaemonId(at): daemon.name for at, daemon in enumerate(config.daemons)}

    @property
    def name(self) -> str:
        """The daemon's."""
        return self.names[self.member.membership.who.me.daemon]

    @property
    def links(self) -> Mapping[DaemonId, Hop | Tcp]:
        """Those of the present network."""
        stack = self.member.membership.stack
        return {} if stack is None else stack.links

    def traffics(self) -> list[Traffic]:
        """Of all sockets that carry datagrams."""
        datagrams = self.member.wires.datagrams
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
