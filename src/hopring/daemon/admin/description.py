"""The description of a daemon: answers to queries of clients, and the source of status and metrics."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from hopring import __version__
from hopring.config import Config, config_digest
from hopring.daemon.engines.host import EngineHost
from hopring.daemon.net.udp import Unsent
from hopring.engine import LinkSnapshot, OverlaySnapshot, RouteSnapshot, Snapshot
from hopring.errors import Drop
from hopring.ids import DaemonId
from hopring.session.protocol import ConfiguredLine, DaemonAnswer, LinkLine, WeightLine, WeightsPage
from hopring.session.server import SessionServer

_NO_OVERLAY = OverlaySnapshot(None, (), ())
TEXT_CHARACTERS_MAX: Final = 1_024
"""The limit of a text in an answer to a client."""

_SEALING_DROPS: Final = (Drop.CLEAR_TEXT, Drop.KEY, Drop.SEAL, Drop.REPLAY, Drop.UNMET)
"""The reasons for which sealing refuses packets."""


@dataclass(frozen=True, slots=True)
class KeysReport:
    """The cluster keys of a daemon by their ids, and what sealing has refused. There are no secrets in it."""

    insecure: bool  # The configuration says `insecure = true`.
    in_use: str | None  # What it seals with; None if datagrams are in the clear.
    wanted: str | None  # What the file of keys says, once all others have that key.
    live: tuple[str, ...]
    announced: dict[str, tuple[str, ...]]  # By daemon that was met: the keys that it said it has.
    refused: dict[str, int]  # Packets, by reason.


@dataclass(frozen=True, slots=True)
class SpoolerReport:
    """The process that writes spools beside the daemon's loop."""

    pid: int | None  # None while it does not run.
    starts: int
    problem: str  # Why it ended last; empty once it has been up again for a while.


@dataclass(frozen=True, slots=True)
class ConfiguredLink:
    """A link of the own site to another one."""

    site: str
    peer: str  # The site's representative in the view; if there is none, its first daemon of the configuration.
    protocol: str
    up: bool  # The site is in the view, and the view uses this link.


class DaemonDescription:
    """The state of a daemon as others see it; everything is read on request."""

    def __init__(
        self, config: Config, host: EngineHost, session_server: SessionServer | None, started_us: int
    ) -> None:
        self.host = host
        self.session_server = session_server
        self.started_us = started_us
        self.problems: tuple[str, ...] = ()
        """Why optional listeners are missing, with remedies."""
        self.spooler: Callable[[], SpoolerReport] | None = None
        """Set if the daemon has one."""
        self.tls_refused: Counter[str] = Counter()
        """Clients that were refused before their TLS handshake was complete, by reason."""
        self.cut: tuple[str, ...] = ()
        """Daemons that the admin channel has cut off here."""
        self.shaped: tuple[str, ...] = ()
        """Daemons whose packets from here the admin channel delays or loses."""
        self._insecure = config.security.insecure  # As at the start: a reload does not change it.
        self.use_config(config)

    def use_config(self, config: Config) -> None:
        """Applies another configuration, with other numbers of daemons."""
        self.config = config
        self.names = {DaemonId(at): daemon.name for at, daemon in enumerate(config.daemons)}

    @property
    def name(self) -> str:
        """The daemon's name in the configuration."""
        return self.names[self.host.me.daemon]

    @property
    def all_problems(self) -> tuple[str, ...]:
        """What needs attention at this daemon: missing listeners, and a spooler that does not stay up."""
        spooler = None if self.spooler is None else self.spooler()
        return self.problems if spooler is None or not spooler.problem else (*self.problems, spooler.problem)

    def snapshot(self) -> Snapshot:
        """The state of the daemon's engine."""
        return self.host.snapshot()

    def configured_links(self, snapshot: Snapshot) -> list[ConfiguredLink]:
        """The links of the own site, in the order of the other sites, whether they work or not."""
        config, overlay = self.config, snapshot.overlay or _NO_OVERLAY
        mine = config.site_of[snapshot.me.daemon]
        # While no view is installed, no link is known to work.
        members = snapshot.members if snapshot.settled else ()
        present = {config.site_of[one.daemon]: one.daemon for one in reversed(members)}
        first = {site: DaemonId(at) for at, site in reversed(list(enumerate(config.site_of)))}
        links = []
        for route in overlay.routes:
            if mine in route.sites:
                site = route.sites[1] if route.sites[0] == mine else route.sites[0]
                peer = self.names[present.get(site, first[site])]
                up = site in present and not route.cut
                links.append(ConfiguredLink(config.sites[site].name, peer, route.protocol, up))
        return links

    def missing(self, snapshot: Snapshot) -> list[str]:
        """The daemons of the configuration that are not in the view."""
        present = {one.daemon for one in snapshot.members}
        return [name for one, name in self.names.items() if one not in present]

    def dropped(self, snapshot: Snapshot) -> Counter[Drop]:
        """Packets that were refused, by reason."""
        dropped: Counter[Drop] = Counter(snapshot.drops)
        for one in self.host.socket_report().all:
            dropped += one.dropped
        if snapshot.network is not None:
            dropped += Counter(snapshot.network.drops)
        return dropped

    def keys(self, snapshot: Snapshot) -> KeysReport:
        """The cluster keys, and what was refused because of them."""
        sealing, dropped = self.host.socket_report().sealing, self.dropped(snapshot)
        refused = {str(reason): dropped[reason] for reason in _SEALING_DROPS}
        if sealing is None:
            return KeysReport(self._insecure, None, None, (), {}, refused)
        return KeysReport(
            self._insecure,
            _key_id(sealing.in_use),
            _key_id(sealing.wanted),
            tuple([_key_id(one) for one in sealing.live]),
            # Of two processes of one daemon the later one counts.
            {
                self.names[one.daemon]: tuple([_key_id(key) for key in keys])
                for one, keys in sealing.met.items()
            },
            refused,
        )

    def unsent(self) -> Counter[Unsent]:
        """Datagrams that the kernel refused to send, by reason."""
        unsent: Counter[Unsent] = Counter()
        for one in self.host.socket_report().all:
            unsent += one.unsent
        return unsent

    def answer(self, now_us: int) -> DaemonAnswer:
        """The answer to a client that asks about the daemon."""
        snapshot = self.snapshot()
        return DaemonAnswer(
            daemon=self.name,
            cluster=self.config.cluster,
            config_digest=config_digest(self.config),
            version=__version__,
            phase=snapshot.phase,
            uptime_us=now_us - self.started_us,
            sessions=0 if self.session_server is None else len(self.session_server.sessions),
            groups=0 if self.session_server is None else len(self.session_server.groups.table.groups),
            ring=tuple([self.names[one] for one in snapshot.ring.members]),
            links=tuple([self.link_line(link) for link in snapshot.links]),
            dropped={str(reason): count for reason, count in sorted(self.dropped(snapshot).items())},
            unsent={str(reason): count for reason, count in sorted(self.unsent().items())},
            cut=self.cut,
            shaped=self.shaped,
            problems=tuple([one[:TEXT_CHARACTERS_MAX] for one in self.all_problems]),
            configured=tuple(
                sorted(
                    [
                        ConfiguredLine(one.name, site.name, one.votes)
                        for site in self.config.sites
                        for one in site.daemons
                    ],
                    key=lambda line: line.name,
                )
            ),
            tie_site=self.config.tie_site or "",
        )

    def link_line(self, link: LinkSnapshot) -> LinkLine:
        """A link, in the form for clients and admins."""
        counters = link.counters
        return LinkLine(
            daemon=self.names[link.peer],
            protocol=link.protocol,
            sent=counters.sent,
            received=counters.received,
            lost=counters.lost,
            nacks=counters.nacks,
            retransmissions=counters.retransmissions,
            round_trip_us=counters.round_trip_us,
            backlog_bytes=link.backlog_bytes,
        )

    def weights(self) -> WeightsPage:
        """The weights of all links between sites, as one page."""
        overlay = self.snapshot().overlay or _NO_OVERLAY
        first = overlay.representative
        lines = [self._weight(route) for route in overlay.routes]
        return WeightsPage(
            daemon=self.name,
            weights=self.config.weights.value,
            representative="" if first is None else self.names[first],
            links=tuple(sorted(lines, key=lambda line: line.sites)),
            more=False,
        )

    def _weight(self, route: RouteSnapshot) -> WeightLine:
        one, other = [self.config.sites[site].name for site in route.sites]
        return WeightLine(
            sites=(one, other),
            protocol=route.protocol,
            configured=route.configured_weight,
            agreed=route.agreed_weight,
            measured=route.measured_us,
            round_trip_us=route.round_trip_us,
            loss_ppm=route.loss_ppm,
            use=route.use,
        )


def _key_id(key: int) -> str:
    return f"{key:08x}"
