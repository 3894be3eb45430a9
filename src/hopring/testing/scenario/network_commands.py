"""Scenario commands for links, for overlays of sites, and for faults of paths and hosts.

Faults are qualities of a path, faults aimed at single datagrams, cuts, pauses and crashes.
"""

import re
from collections.abc import Callable
from typing import Any, Final

from hopring.config.model import Config, Daemon, LinkConfig, LinkProtocol, Site
from hopring.links.hop.hop import HopOptions
from hopring.links.ring.options import RingOptions
from hopring.links.tcp import TcpOptions
from hopring.sim.network import Delay, Duplicate, Effect, Flight, HostState, Lose, TargetedFault
from hopring.sim.path import Quality
from hopring.sim.tcp.stream import SimTcpSegment
from hopring.testing.link_ends import LinkEnd
from hopring.testing.link_world import LinkWorld
from hopring.testing.network_check import NetworkEvent
from hopring.testing.overlay import Overlay
from hopring.testing.scenario.render import INNER_KINDS, KINDS, frames_of, inside, kind
from hopring.testing.scenario.values import BadValue, duration_us, exactly, number, probability, settings
from hopring.wire.data import Data, Segment
from hopring.wire.train import Frame

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
        """This many bytes, different from all others of the scenario if there is room for that."""
        self._filled += 1
        pattern = b"%08d" % self._filled
        return (pattern * (size // len(pattern) + 1))[:size]


class ScenarioOverlay(Overlay):
    """An overlay in the world of a scenario, on its clock and its network, writing to its trace."""

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


class FaultCommands:
    """Scenario commands for faults; WHERE is A->B for one direction, or A B for both."""

    def __init__(self, world: LinkWorld) -> None:
        self._world = world
        self._network = world.network

    def do_path(self, words: list[str]) -> None:
        """`path WHERE KEY=VALUE ...`, as in `path a->b delay=30ms rate=1.5Mbit queue=64KB`."""
        pairs, rest = _where(words)
        self._shape(pairs, settings(rest, Quality))

    def do_mtu(self, words: list[str]) -> None:
        """`mtu WHERE BYTES`: larger IP packets vanish; 0 ends it."""
        pairs, rest = _where(words)
        (size,) = exactly(rest, "BYTES")
        self._shape(pairs, {"mtu_bytes": number(size)})

    def do_loss(self, words: list[str]) -> None:
        """`loss [WHERE] 10%`: random loss, there or everywhere."""
        self._weather("loss", words)

    def do_reorder(self, words: list[str]) -> None:
        """`reorder [WHERE] 5%`: random reordering, there or everywhere."""
        self._weather("reorder", words)

    def do_duplicate(self, words: list[str]) -> None:
        """`duplicate [WHERE] 5%`, or `duplicate [A->B] KIND [TURNS] [seq=S]`."""
        if words and words[-1].endswith("%"):
            self._weather("duplicate", words)
        else:
            self._network.interfere(aimed(words, Duplicate()))

    def _weather(self, quality: str, words: list[str]) -> None:
        if not words:
            raise BadValue(f"{quality} needs a probability, as in {quality} 5%")
        change: dict[str, Any] = {quality: probability(words[-1])}
        if len(words) == 1:
            self._network.shape_all(**change)
        else:
            self._shape(_where(words[:-1])[0], change)

    def _shape(self, pairs: list[tuple[str, str]], changes: dict[str, Any]) -> None:
        for one, other in pairs:
            self._network.shape(one, other, **changes)

    def do_lose(self, words: list[str]) -> None:
        """`lose [A->B] KIND [TURNS] [seq=S]`: the first such datagram, or the turns 2 or 2..4."""
        self._network.interfere(aimed(words, Lose()))

    def do_delay(self, words: list[str]) -> None:
        """`delay TIME [A->B] KIND [TURNS] [seq=S]`."""
        if not words:
            raise BadValue("delay needs a time and what to delay")
        self._network.interfere(aimed(words[1:], Delay(duration_us(words[0]))))

    def do_cut(self, words: list[str]) -> None:
        """`cut WHERE`: drops all datagrams there."""
        pairs, rest = _where(words)
        exactly(rest, "")
        for one, other in pairs:
            self._network.cut(one, other)

    def do_partition(self, words: list[str]) -> None:
        """`partition A,B C,D`: hosts of different words hear nothing of each other."""
        self._network.partition(*(word.split(",") for word in words))

    def do_heal(self, words: list[str]) -> None:
        """`heal` ends all cuts and partitions."""
        exactly(words, "")
        self._network.heal()

    def do_pause(self, words: list[str]) -> None:
        """`pause HOST TIME`: stops it for this time."""
        host, span = exactly(words, "HOST TIME")
        self._check(host, HostState.RUNNING)
        self._world.pause(host, duration_us(span))

    def do_crash(self, words: list[str]) -> None:
        """`crash HOST`: takes it down with its memory."""
        (host,) = exactly(words, "HOST")
        self._check(host, HostState.RUNNING, HostState.PAUSED)
        self._world.crash(host)

    def do_restart(self, words: list[str]) -> None:
        """`restart HOST`: it has no links until `link` or `ring` makes new ones."""
        (host,) = exactly(words, "HOST")
        self._check(host, HostState.DOWN)
        self._world.restart(host)

    def _check(self, host: str, *states: HostState) -> None:
        if host not in self._network.hosts:
            raise BadValue(f"there is no host {host!r}")
        if self._network.host(host).state not in states:
            raise BadValue(f"host {host} is {self._network.host(host).state.value}")


def _where(words: list[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """The directions that the first words name, and the words behind them."""
    if words and "->" in words[0]:
        one, _arrow, other = words[0].partition("->")
        return [(one, other)], words[1:]
    if len(words) < 2:
        raise BadValue("name the paths as A->B, or as A B for both directions")
    return [(words[0], words[1]), (words[1], words[0])], words[2:]


_TURNS: Final = re.compile(r"(\d+)(?:\.\.(\d+))?")


def aimed(words: list[str], effect: Effect) -> TargetedFault:
    """A fault for the first such datagram, or for those of the given turns, counted from now."""
    rest = list(words)
    source, target = _direction(rest)
    if not rest or rest[0].upper() not in KINDS | INNER_KINDS:
        raise BadValue(f"name a kind: {', '.join(sorted(KINDS | INNER_KINDS))}")
    wanted = rest.pop(0).upper()
    seq = _seq(rest)
    first, last = _turns(rest)
    return TargetedFault(_matcher(source, target, wanted, seq), effect, first, last)


def _direction(rest: list[str]) -> tuple[str, str]:
    if rest and "->" in rest[0]:
        source, _arrow, target = rest.pop(0).partition("->")
        return source, target
    return "", ""


def _seq(rest: list[str]) -> int | None:
    named = [word for word in rest if word.startswith("seq=")]
    for word in named:
        rest.remove(word)
    return int(named[0].removeprefix("seq=")) if named else None


def _turns(rest: list[str]) -> tuple[int, int]:
    if not rest:
        return 1, 1
    match = _TURNS.fullmatch(rest[0])
    if match is None or len(rest) > 1:
        raise BadValue(f"{' '.join(rest)!r} is no turn; write 2 for the second, or 2..4")
    first = int(match.group(1))
    return first, int(match.group(2) or first)


def _matcher(source: str, target: str, wanted: str, seq: int | None) -> Callable[[Flight], bool]:
    def matches(flight: Flight) -> bool:
        if source and (flight.source.host, flight.target.host) != (source, target):
            return False
        return any(_is(frame, wanted, seq) for frame in frames_of(flight.source, flight.datagram))

    return matches


def _is(frame: Frame | SimTcpSegment, wanted: str, seq: int | None) -> bool:
    if wanted in INNER_KINDS:
        return any(name == wanted and seq in (None, its) for name, its in inside(frame))
    if kind(frame) != wanted:
        return False
    return seq is None or (isinstance(frame, Data | Segment) and frame.seq == seq)
