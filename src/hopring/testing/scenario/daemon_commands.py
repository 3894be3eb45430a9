"""Scenario commands for whole daemons: a cluster that starts, sends, splits, crashes, heals, and is judged.

`daemons eu=3 us=2 delay=200us wide=40ms` makes the cluster. All links are Hop; `tcp=eu-us,us-ap` makes these
TCP, `tcp=all` every one.
"""

import re
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from hopring.check.trace import Event, MessageId
from hopring.config.builder import local_config
from hopring.config.model import Config, LinkConfig, LinkProtocol, LinkTuning
from hopring.links.ring.options import RingOptions
from hopring.membership.options import MembershipOptions
from hopring.ordering.entry import MESSAGE_HEAD_BYTES_MAX
from hopring.services import Service
from hopring.sim.cluster import SimCluster, SimDaemon
from hopring.sim.network import HostState
from hopring.stack_events import StackOptions
from hopring.testing.link_world import LinkWorld
from hopring.testing.scenario.daemon_render import (
    MessageNames,
    count,
    phase_of,
    render_events,
    verdict_on,
    who_is_where,
)
from hopring.testing.scenario.values import BadValue, duration_us, exactly, number, settings

DELAY_US_DEFAULT: Final = 200
WIDE_US_DEFAULT: Final = 20_000
_TUNABLE: Final = (MembershipOptions, RingOptions, LinkTuning, StackOptions)


@dataclass(frozen=True, slots=True)
class ClusterSetup:
    """The configuration, delays and options of a scenario's cluster."""

    config: Config
    delay_us: int
    wide_us: int
    membership: MembershipOptions
    stack: StackOptions


def parse_cluster(words: list[str]) -> ClusterSetup:
    """Parses the arguments of `daemons`: sites with their number of daemons, delays, options of any layer."""
    delay_us, wide_us = DELAY_US_DEFAULT, WIDE_US_DEFAULT
    counts: dict[str, int] = {}
    tcp: list[str] = []
    tuned: dict[type[Any], dict[str, Any]] = {kind: {} for kind in _TUNABLE}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise BadValue(f"{word!r} is not KEY=VALUE")
        if key == "delay":
            delay_us = duration_us(value)
        elif key == "wide":
            wide_us = duration_us(value)
        elif key == "tcp":
            tcp = value.split(",")
        elif (kind := _tunes(word)) is not None:
            tuned[kind].update(settings([word], kind))
        else:
            counts[key] = _count(word, value)
    if not counts:
        raise BadValue("daemons need sites, as in daemons eu=3 us=2")
    config = _linked(local_config(counts), wide_us, LinkTuning(**tuned[LinkTuning]), tcp)
    stack = replace(StackOptions(ring=RingOptions(**tuned[RingOptions])), **tuned[StackOptions])
    return ClusterSetup(config, delay_us, wide_us, MembershipOptions(**tuned[MembershipOptions]), stack)


def _tunes(word: str) -> type[Any] | None:
    """The first layer that has an option of that name."""
    for kind in _TUNABLE:
        try:
            settings([word], kind)
        except BadValue:
            continue
        return kind
    return None


def _count(word: str, value: str) -> int:
    count = number(value)
    if not isinstance(count, int) or count < 1:
        names = [field.name for kind in _TUNABLE for field in fields(kind)]
        raise BadValue(f"{word!r} is neither a site with its daemons nor one of {', '.join(names)}")
    return count


def _linked(config: Config, wide_us: int, tuning: LinkTuning, tcp: list[str]) -> Config:
    names = [site.name for site in config.sites]
    pairs = [(one, other) for at, one in enumerate(names) for other in names[at + 1 :]]
    streams = {"-".join(ends): ends for ends in pairs if tcp == ["all"] or "-".join(ends) in tcp}
    if tcp != ["all"] and len(streams) != len(tcp):
        raise BadValue(f"tcp={','.join(tcp)} names a pair that is not there; write tcp=eu-us, or tcp=all")
    hop_or_tcp = dict.fromkeys(streams.values(), LinkProtocol.TCP)
    links = [
        LinkConfig(ends, max(1, wide_us), hop_or_tcp.get(ends, LinkProtocol.HOP), tuning) for ends in pairs
    ]
    return Config(config.cluster, config.sites, tuple(links))


NAME_BYTES: Final = 14
"""The message name that the cluster puts in front of a payload."""

UNTIL_US_MAX: Final = 10_000_000
_SIZE: Final = re.compile(r"(?:(\d+)x)?(\d+)B")
_TIMES: Final = re.compile(r"x(\d+)")


def _cluster_in(world: LinkWorld, base: ClusterSetup) -> SimCluster:
    """A cluster in the world of a scenario, on its clock and its network."""
    cluster = SimCluster(base.config, world.seed, None, base.membership, base.stack)
    cluster.engine = world.engine
    cluster.network = world.network
    # Daemons send too many datagrams to record them.
    world.network.on_send = None
    world.network.shape_all(delay_us=base.delay_us)
    for one in base.config.sites:
        for other in base.config.sites:
            for near in one.daemons:
                for far in other.daemons if one != other else ():
                    world.network.shape(near.name, far.name, delay_us=base.wide_us)
    return cluster


class DaemonCommands:
    """Scenario commands for one cluster of daemons."""

    def __init__(self, world: LinkWorld, words: list[str]) -> None:
        self._world = world
        self._cluster = _cluster_in(world, parse_cluster(words))
        self._called: dict[MessageId, str] = {}
        self._shown = 0
        self._lines: list[str] = []
        self._paths_cut = False  # Single paths are cut, so components are not defined.
        self._forgot = False
        self._sides: list[list[str]] | None = None

    def happened(self) -> list[str]:
        """Renders the events since the last call."""
        self._world.run_for(0)
        lines, self._lines = self._lines, []
        called = MessageNames(self._called)
        return [*render_events(self._news(), called), *lines]

    def _news(self) -> list[Event]:
        news = self._cluster.history[self._shown :]
        self._shown = len(self._cluster.history)
        return news

    # Starts and ends of daemons.

    def do_start(self, words: list[str]) -> None:
        """`start [DAEMON ...]`: these, or all."""
        for name in words:
            self._check(name)
        self._cluster.start(*words)

    def do_stop(self, words: list[str]) -> None:
        """`stop DAEMON ...`: in an orderly way."""
        for name in words:
            self._host(name)
            self._cluster.stop(name)

    def do_crash(self, words: list[str]) -> None:
        """`crash DAEMON ...`: at once, without notice to the others."""
        for name in words:
            self._host(name)
            self._cluster.crash(name)

    def do_restart(self, words: list[str]) -> None:
        """`restart DAEMON ... [forgetting]`: as new processes, with `forgetting` with an empty disk."""
        names = [word for word in words if word != "forgetting"]
        for name in names:
            self._check(name)
            if name in self._cluster.hosts:
                raise BadValue(f"{name} is running")
            if names != words:
                self._cluster.counters[name] = 0
                self._forgot = True
            self._cluster.restart(name)

    def do_pause(self, words: list[str]) -> None:
        """`pause DAEMON ... TIME`: stops these daemons for this time."""
        *names, span = words
        for name in names:
            self._host(name)
            self._world.pause(name, duration_us(span))

    def _check(self, name: str) -> None:
        if name not in self._cluster.numbers:
            raise BadValue(f"there is no daemon {name!r}")

    def _host(self, name: str) -> SimDaemon:
        self._check(name)
        if name not in self._cluster.hosts:
            raise BadValue(f"{name} is not running")
        return self._cluster.hosts[name]

    # Messages.

    def do_send(self, words: list[str]) -> None:
        """`send DAEMON SERVICE WHAT ...`: words, x20 for many small ones, 500B, 20x500B, max."""
        if len(words) < 3:
            raise BadValue("send needs a daemon, a service and what to send")
        name, service, *what = words
        for word in what:
            for size, called in self._sizes(word):
                self._submit(self._host(name), _service(service), size, called)

    def _sizes(self, word: str) -> list[tuple[int, str]]:
        sized, times = _SIZE.fullmatch(word), _TIMES.fullmatch(word)
        if word == "max":
            limit = self._cluster.stack_options.bundle_bytes_max
            return [(limit - MESSAGE_HEAD_BYTES_MAX - NAME_BYTES, "max")]
        if sized is not None:
            return [(int(sized.group(2)), "")] * int(sized.group(1) or 1)
        if times is not None:
            return [(100, "")] * int(times.group(1))
        return [(len(word), word)]

    def _submit(self, host: SimDaemon, service: Service, size: int, called: str) -> None:
        host.submit(service, size)
        if called:
            self._called[MessageId(host.name, host.me.incarnation, host.sent)] = called

    def do_load(self, words: list[str]) -> None:
        """`load DAEMON[,DAEMON] SERVICE SIZE every TIME for TIME`: as long as the daemon runs."""
        names, service, size, _every, gap, _for, span = exactly(
            words, "DAEMON SERVICE SIZE every TIME for TIME"
        )
        sized = _SIZE.fullmatch(size)
        if sized is None:
            raise BadValue(f"{size!r} is no size; write 100B")
        until_us = self._world.now_us + duration_us(span)
        for name in names.split(","):
            host = self._host(name)
            self._feed(host, _service(service), int(sized.group(2)), duration_us(gap), until_us)

    def _feed(self, host: SimDaemon, service: Service, size: int, gap_us: int, until_us: int) -> None:
        if self._cluster.hosts.get(host.name) is not host or self._world.now_us >= until_us:
            return
        if self._world.network.host(host.name).state is HostState.RUNNING and host.membership.queue_open:
            host.submit(service, size)
        self._world.engine.after(gap_us, self._feed, host, service, size, gap_us, until_us)

    # Cuts.

    def do_split(self, words: list[str]) -> None:
        """`split A B | C D E`: sides without any path between them."""
        sides = [side.split() for side in " ".join(words).split("|")]
        for name in [name for side in sides for name in side]:
            self._check(name)
        self._sides = sides
        self._world.network.partition(*sides)

    def do_cut(self, words: list[str]) -> None:
        """`cut A->B`, or `cut A B` for both directions; the names of sites stand for their daemons."""
        one, other = words[0].split("->") if "->" in words[0] else exactly(words, "A B")
        self._paths_cut = True
        for near in self._members(one):
            for far in self._members(other):
                self._world.network.cut(near, far)
                if len(words) > 1:
                    self._world.network.cut(far, near)

    def _members(self, name: str) -> list[str]:
        sites = {site.name: [daemon.name for daemon in site.daemons] for site in self._cluster.config.sites}
        if name not in sites:
            self._check(name)
        return sites.get(name, [name])

    def do_heal(self, words: list[str]) -> None:
        """`heal` ends all cuts and splits."""
        exactly(words, "")
        self._paths_cut, self._sides = False, None
        self._world.network.heal()

    def do_flap(self, words: list[str]) -> None:
        """`flap A B every TIME for TIME`: the path is cut and restored in turns of the first TIME."""
        one, other, _every, gap, _for, span = exactly(words, "A B every TIME for TIME")
        self._swing(one, other, duration_us(gap), self._world.now_us + duration_us(span), True)

    def _swing(self, one: str, other: str, gap_us: int, until_us: int, down: bool) -> None:
        if down and self._world.now_us < until_us:
            self._world.network.cut_both(one, other)
        else:
            self._world.network.heal()
        if self._world.now_us < until_us:
            self._world.engine.after(gap_us, self._swing, one, other, gap_us, until_us, not down)

    # Running and judging.

    def do_run(self, words: list[str]) -> None:
        """`run TIME [quiet]`: shows views, signals and deliveries, or only their number."""
        if not words or words[1:] not in ([], ["quiet"]):
            raise BadValue("run needs a time, and perhaps quiet")
        self._world.run_for(duration_us(words[0]))
        if words[1:]:
            self._lines.extend(count(self._news()))

    def do_until(self, words: list[str]) -> None:
        """`until DAEMON PHASE`: until it is in seg, rep, gather, statetrans, evs or op."""
        name, phase = exactly(words, "DAEMON PHASE")
        engine = self._world.engine
        end_us = engine.now_us + UNTIL_US_MAX
        while (next_us := engine.next_us) is not None and next_us <= end_us:
            engine.run_until(next_us)
            if phase_of(self._host(name)) == phase:
                return
        raise BadValue(f"{name} did not come to {phase} within {UNTIL_US_MAX // 1_000_000} s")

    def do_views(self, words: list[str]) -> None:
        """`views`: lists each daemon with its phase and view."""
        exactly(words, "")
        self._lines.extend(who_is_where(self._cluster))

    def do_verdict(self, words: list[str]) -> None:
        """`verdict`: all properties of extended virtual synchrony, over the whole history."""
        exactly(words, "")
        running = set(self._cluster.hosts)
        sides = [sorted(running & set(side)) for side in self._sides or [sorted(running)]]
        components = None if self._paths_cut else [side for side in sides if side]
        self._lines.append(verdict_on(self._cluster, components, counters_survive=not self._forgot))


def _service(word: str) -> Service:
    named = {service.name.lower(): service for service in Service}
    if word not in named:
        raise BadValue(f"{word!r} is no service; there are {', '.join(named)}")
    return named[word]
