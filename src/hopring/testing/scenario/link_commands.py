"""Scenario commands for single links, and for overlays of sites: build them, and send over them."""

import re
from typing import Final

from hopring.config.model import Config, Daemon, LinkConfig, LinkProtocol, Site
from hopring.links.hop.hop import HopOptions
from hopring.links.ring.options import RingOptions
from hopring.links.tcp import TcpOptions
from hopring.sim.host import HostState
from hopring.testing.link_ends import LinkEnd
from hopring.testing.link_world import LinkWorld
from hopring.testing.network_check import NetworkEvent
from hopring.testing.overlay import Overlay
from hopring.testing.scenario.values import BadValue, duration_us, exactly, settings

_SIZE: Final = re.compile(r"(?:(\d+)x)?(\d+)B")
_LIMIT: Final = re.compile(r"max([+-]\d+)?")


class LinkCommands:
    """Scenario commands for single links and rings."""

    def __init__(self, world: LinkWorld) -> None:
        self._world = world
        self._filled = 0

    def do_link(self, words: list[str]) -> None:
        """`link A B [protocol=hop|tcp] [KEY=VALUE ...]`; again, it is a new generation of the link."""
        if len(words) < 2:
            raise BadValue("a link needs two hosts")
        one, other, *options = words
        protocol = options.pop(0) if options and options[0].startswith("protocol=") else "protocol=hop"
        match protocol.removeprefix("protocol="):
            case "hop":
                self._world.hop(one, other, HopOptions(**settings(options, HopOptions)))
            case "tcp":
                self._world.tcp(one, other, TcpOptions(**settings(options, TcpOptions)))
            case unknown:
                raise BadValue(f"no protocol {unknown!r}; there are hop and tcp")

    def do_ring(self, words: list[str]) -> None:
        """`ring A B C ... [KEY=VALUE ...]`; again, it is a new generation of the ring."""
        hosts = [word for word in words if "=" not in word]
        options = [word for word in words if "=" in word]
        if not hosts:
            raise BadValue("a ring needs hosts")
        self._world.ring(hosts, RingOptions(**settings(options, RingOptions)))

    def do_submit(self, words: list[str]) -> None:
        """`submit HOST OBJECT ...`: words, sizes as 500B or 20x500B, and max, max-1, max+1."""
        if len(words) < 2:
            raise BadValue("submit needs a host and what to submit")
        end = self._end(words[0])
        for word in words[1:]:
            for payload in self._payloads(end, word):
                end.submit(payload)

    def _end(self, where: str) -> LinkEnd:
        """The end at HOST, or at HOST@LINK where the host has several."""
        host, _at, link = where.partition("@")
        ends = [end for (name, at), end in self._world.ends.items() if at == host and link in ("", name)]
        if len(ends) != 1:
            raise BadValue(f"{where!r} is the end of {len(ends)} links; name one as HOST@LINK")
        return ends[0]

    def _payloads(self, end: LinkEnd, word: str) -> list[bytes]:
        size, limit = _SIZE.fullmatch(word), _LIMIT.fullmatch(word)
        if limit is not None:
            return [self._fill(end.payload_bytes_max + int(limit.group(1) or 0))]
        if size is None:
            return [word.encode()]
        return [self._fill(int(size.group(2))) for _copy in range(int(size.group(1) or 1))]

    def _fill(self, size: int) -> bytes:
        """So many bytes, different from all others of the story where there is room for it."""
        self._filled += 1
        pattern = b"%08d" % self._filled
        return (pattern * (size // len(pattern) + 1))[:size]


class ScenarioOverlay(Overlay):
    """An overlay in the world of a story, on its clock and its network, writing in its trace."""

    def __init__(self, config: Config, world: LinkWorld) -> None:
        super().__init__(config, world.seed)
        self.engine = world.engine
        self.network = world.network
        self._world = world

    def _note(self, event: NetworkEvent) -> None:
        super()._note(event)
        self._world.trace.append(event)


class OverlayCommands:
    """Sites and edges first; `net` then gives every running daemon the network that they make."""

    def __init__(self, world: LinkWorld) -> None:
        self._world = world
        self._sites: dict[str, tuple[str, ...]] = {}
        self._edges: dict[tuple[str, str], LinkConfig] = {}
        self._overlay: ScenarioOverlay | None = None

    @property
    def site_names(self) -> list[str]:
        """The sites by their numbers."""
        return sorted(self._sites)

    def do_site(self, words: list[str]) -> None:
        """`site NAME HOST ...`: the daemons of one local network."""
        if len(words) < 2:
            raise BadValue("a site needs a name and hosts")
        self._check_not_started()
        self._sites[words[0]] = tuple(sorted(words[1:]))

    def do_edge(self, words: list[str]) -> None:
        """`edge SITE SITE TIME [protocol=tcp]`: a link between sites, with its delay as its weight."""
        protocol = LinkProtocol.TCP if words[-1:] == ["protocol=tcp"] else LinkProtocol.HOP
        one, other, delay = exactly(words[:3] if protocol is LinkProtocol.TCP else words, "SITE SITE TIME")
        self._check_not_started()
        for site in (one, other):
            self._check_site(site)
        ends = (min(one, other), max(one, other))
        delay_us = duration_us(delay)
        self._edges[ends] = LinkConfig(ends, delay_us, protocol)
        for near in self._sites[one]:
            for far in self._sites[other]:
                self._world.network.shape_both(near, far, delay_us=delay_us)

    def do_net(self, words: list[str]) -> None:
        """`net [SITE-SITE ...]`: a new network of all running daemons, without these edges."""
        cut = [self._edge(word) for word in words]
        if self._overlay is None:
            if not self._sites:
                raise BadValue("a net needs sites")
            self._overlay = ScenarioOverlay(self._config(), self._world)
            self._world.numbers.update(self._overlay.numbers)
        running = [name for name in self._overlay.numbers if self._runs(name)]
        self._overlay.start(running, cut)

    def _edge(self, word: str) -> tuple[str, str]:
        one, _dash, other = word.partition("-")
        ends = (min(one, other), max(one, other))
        if ends not in self._edges:
            raise BadValue(f"there is no edge {word!r}")
        return ends

    def _runs(self, host: str) -> bool:
        return self._world.network.host(host).state is not HostState.DOWN

    def _config(self) -> Config:
        sites = [
            Site(name, tuple(Daemon(host, "127.0.0.1") for host in self._sites[name]))
            for name in self.site_names
        ]
        links = [self._edges[ends] for ends in sorted(self._edges)]
        return Config("story", tuple(sites), tuple(links), mesh=False)

    def do_multicast(self, words: list[str]) -> None:
        """`multicast HOST WORD ... [to=SITE,...]`: bundles for these sites, or for all."""
        if self._overlay is None:
            raise BadValue("there is no net yet")
        host, *bundles = words
        sites: list[str] = []
        if bundles and bundles[-1].startswith("to="):
            sites = bundles.pop().removeprefix("to=").split(",")
            for site in sites:
                self._check_site(site)
        if host not in self._overlay.daemons or not bundles:
            raise BadValue("multicast needs a running daemon and what to send")
        for bundle in bundles:
            self._overlay.multicast(host, bundle.encode(), self._overlay.mask(*sites))

    def do_sever(self, words: list[str]) -> None:
        """`sever SITE SITE`: cuts all paths between the daemons of two sites."""
        one, other = exactly(words, "SITE SITE")
        for site in (one, other):
            self._check_site(site)
        for near in self._sites[one]:
            for far in self._sites[other]:
                self._world.network.cut_both(near, far)

    def _check_site(self, site: str) -> None:
        if site not in self._sites:
            raise BadValue(f"there is no site {site!r}")

    def _check_not_started(self) -> None:
        if self._overlay is not None:
            raise BadValue("sites and edges come before the first net")
