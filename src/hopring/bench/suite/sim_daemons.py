"""Many daemons in virtual time: up to 120 come together, send, are split in two and merge, and are judged.

    python -m hopring.bench.suite.sim_daemons [SITESxDAEMONS ...]

Each daemon has one session, and all sessions are in one group. Times of the world are virtual and depend on the
seed alone: they describe the protocols, not this machine. `wall_s` is the time to compute the world here, and
`judged_s` the time to judge it. A violation of extended virtual synchrony, by daemons or by clients, is
reported and makes the exit code 1.
"""

import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import Final

from hopring import compiled
from hopring.check.judge import check_evs, check_evs_c
from hopring.check.properties.order import FIFO_ORDER
from hopring.check.trace import ClientDelivered, ClientSent, GroupInstalled
from hopring.config import Config, local_config
from hopring.groups.groups import GroupsState
from hopring.ids import GroupName
from hopring.services import Service
from hopring.sim.client_cluster import SimClientCluster
from hopring.sim.cluster import CLUSTER
from hopring.sim.network import SentDatagram
from hopring.sim.path import Quality
from hopring.wire.bundle import BundleKey
from hopring.wire.data import Data
from hopring.wire.header import Family
from hopring.wire.ring import Token
from hopring.wire.train import decode

SHAPES: Final = ((4, 3), (6, 5), (12, 5), (24, 5), (6, 20))
"""Sites, and daemons in each."""

SEED: Final = 1
NEAR_US: Final = 100
FAR_US: Final = 10_000
GROUP: Final = GroupName("all")
MESSAGES: Final = 200
EVERY_US: Final = 5_000
MESSAGE_BYTES: Final = 100
STRIDE: Final = 7
"""From sender to sender; no shape is a multiple of it, so that all daemons send."""

IDLE_US: Final = 5_000_000
REST_US: Final = 1_000_000
LOOK_US: Final = 1_000
TOGETHER_US_MAX: Final = 60_000_000


@dataclass(slots=True)
class SimTraffic:
    """Datagrams sent in some time: a multicast is one send, and a datagram for each receiver."""

    duration_us: int = 0
    datagrams: int = 0
    kinds: Counter[str] = field(default_factory=Counter)  # Sends, by kind of content.
    busy: Counter[str] = field(default_factory=Counter)  # By daemon: datagrams from it and for it.

    def note(self, sending: SentDatagram) -> None:
        """Counts one datagram that was sent."""
        packet = decode(sending.datagram, CLUSTER)
        self.kinds[_kind(packet.header.family, {type(frame) for frame in packet.frames})] += 1
        self.datagrams += len(sending.fates)
        self.busy[sending.source.host] += 1
        self.busy.update([host for host, _ in sending.fates])

    def each_message(self, messages: int, idle: "SimTraffic") -> dict[str, float]:
        """Datagrams per message, above those of idle daemons in the same time."""
        silence = self.duration_us / idle.duration_us
        kinds = {kind: self.kinds[kind] - idle.kinds[kind] * silence for kind in sorted(self.kinds)}
        busiest = max([self.busy[name] - idle.busy[name] * silence for name in self.busy])
        figures = {"datagrams": self.datagrams - idle.datagrams * silence, "busiest_daemon": busiest}
        return {name: round(count / messages, 1) for name, count in (figures | kinds).items()}

    def each_second(self) -> dict[str, float]:
        """Datagrams per second, for idle daemons."""
        figures = {"datagrams": self.datagrams, "busiest_daemon": max(self.busy.values())}
        return {
            name: round(count * 1e6 / self.duration_us, 1) for name, count in (figures | self.kinds).items()
        }


def _kind(family: Family, frames: set[type]) -> str:
    if family is Family.RING:
        return "tokens" if frames == {Token} else "on_rings" if Data in frames else "of_tokens"
    if family is Family.MEMBERSHIP:
        return "words"
    return "on_links" if Data in frames else "acks"


class SimDaemons:
    """A simulated cluster with a session at each daemon."""

    def __init__(self, sites: int, daemons: int) -> None:
        names = [f"{chr(ord('a') + at // 26)}{chr(ord('a') + at % 26)}" for at in range(sites)]
        self.config: Config = local_config(dict.fromkeys(names, daemons))
        self.cluster = SimClientCluster(self.config, SEED, Quality(delay_us=NEAR_US))
        self.site_of = {one.name: site.name for site in self.config.sites for one in site.daemons}
        self.names = list(self.site_of)
        for one in self.names:
            for other in self.names:
                if self.site_of[one] != self.site_of[other]:
                    self.cluster.network.shape(one, other, delay_us=FAR_US)
        self.sessions: dict[str, int] = {}

    # Actions.

    def together(self, *parts: list[str]) -> float:
        """Runs until each part has a view of its own; returns the virtual milliseconds."""
        begin_us = self.cluster.engine.now_us
        while not all(self._share_a_view(part) for part in parts):
            assert self.cluster.engine.now_us < begin_us + TOGETHER_US_MAX, "the parts do not form their views"
            self.cluster.run_for(LOOK_US)
        return (self.cluster.engine.now_us - begin_us) / 1000

    def _share_a_view(self, names: list[str]) -> bool:
        hosts = [self.cluster.client_host(name) for name in names]
        seen = [host.snapshot() for host in hosts]
        together = {one.me for one in seen}
        views_shared = all(
            one.settled and one.view == seen[0].view and set(one.members) == together for one in seen
        )
        return views_shared and all(host.groups.state is GroupsState.GOP for host in hosts)

    def join(self) -> float:
        """A session at each daemon joins the group; virtual milliseconds until all have the full view."""
        begin_us, begin = self.cluster.engine.now_us, len(self.cluster.history)
        for name in self.names:
            host = self.cluster.client_host(name)
            session = host.connect("one")
            assert session is not None, "a first session is not refused"
            self.sessions[name] = session
            host.join(session, GROUP)
        while self._shown(begin) < len(self.names):
            assert self.cluster.engine.now_us < begin_us + TOGETHER_US_MAX, "the group does not fill"
            self.cluster.run_for(LOOK_US)
        return (self.cluster.engine.now_us - begin_us) / 1000

    def _shown(self, begin: int) -> int:
        """How many sessions have the view of all members."""
        news = self.cluster.history[begin:]
        return sum(isinstance(one, GroupInstalled) and len(one.members) == len(self.names) for one in news)

    def send(self, messages: int) -> None:
        """Daemons send in turn, one message at a time, followed by a pause."""
        for number in range(messages):
            host = self.cluster.client_host(self.names[number * STRIDE % len(self.names)])
            key = BundleKey(host.me.daemon, self.sessions[host.name], Service.AGREED, (GROUP,))
            host.send(key, (MESSAGE_BYTES,))
            self.cluster.run_for(EVERY_US)
        self.cluster.run_for(REST_US)

    @contextmanager
    def traffic(self) -> Iterator[SimTraffic]:
        """Counts the datagrams sent in the block."""
        traffic, begin_us = SimTraffic(), self.cluster.engine.now_us
        self.cluster.network.on_send = traffic.note
        yield traffic
        self.cluster.network.on_send = None
        traffic.duration_us = self.cluster.engine.now_us - begin_us

    # Figures.

    def latencies_ms(self, begin: int) -> tuple[list[float], list[float]]:
        """Latencies since an event of the history, within a site and between sites."""
        near, far, sent_us = list[float](), list[float](), dict[object, int]()
        for event in self.cluster.history[begin:]:
            if isinstance(event, ClientSent):
                sent_us[event.message] = event.at_us
            elif isinstance(event, ClientDelivered) and event.process.daemon != event.message.daemon:
                same = self.site_of[event.process.daemon] == self.site_of[event.message.daemon]
                (near if same else far).append((event.at_us - sent_us[event.message]) / 1000)
        return near, far

    def violations(self) -> list[str]:
        """Broken properties. FIFO holds for each session, so it is checked for clients only."""
        history = self.cluster.history
        daemons = check_evs(history, quiet_end=True, components=[self.names])
        clients = check_evs_c(history, quiet_end=True, components=[self.names])
        verdicts = [one for one in daemons if one.property != FIFO_ORDER.name] + clients
        return [f"{one.property}: {one.witness}" for one in verdicts if not one]


def measure(sites: int, daemons: int) -> dict[str, object]:
    """Runs and checks one cluster."""
    begin_s = time.monotonic()
    many = SimDaemons(sites, daemons)
    many.cluster.start()
    view_ms = many.together(many.names)
    view_datagrams = sum([path.counters.sent for path in many.cluster.network.paths.values()])
    joined_ms = many.join()
    many.cluster.run_for(REST_US)
    with many.traffic() as idle:
        many.cluster.run_for(IDLE_US)
    begin = len(many.cluster.history)
    with many.traffic() as sent:
        many.send(MESSAGES)
    near, far = many.latencies_ms(begin)
    half = [name for name in many.names if many.site_of[name] <= many.config.sites[sites // 2 - 1].name]
    many.cluster.network.partition(half)
    split_ms = many.together(half, [name for name in many.names if name not in half])
    many.send(MESSAGES // 10)
    many.cluster.network.heal()
    merged_ms = many.together(many.names)
    many.send(MESSAGES // 10)
    wall_s, begin_s = time.monotonic() - begin_s, time.monotonic()
    violations = many.violations()
    return {
        "case": f"{sites} sites of {daemons}",
        "daemons": sites * daemons,
        "view_ms": view_ms,
        "view_datagrams": view_datagrams,
        "joined_ms": joined_ms,
        "near_ms": _spread(near),
        "far_ms": _spread(far),
        "each_message": sent.each_message(MESSAGES, idle),
        "idle_each_second": idle.each_second(),
        "split_ms": split_ms,
        "merged_ms": merged_ms,
        "violations": violations,
        "events": many.cluster.engine.events,
        "wall_s": round(wall_s, 2),
        "judged_s": round(time.monotonic() - begin_s, 2),
        "compiled": compiled.active(),
    }


def _spread(values: list[float]) -> dict[str, float]:
    return {"p50": round(median(values), 2), "p99": round(quantiles(values, n=100)[-1], 2)}


def main(shapes: list[tuple[int, int]]) -> int:
    """Prints a line for each cluster."""
    wrong = 0
    for shape in shapes:
        figures = measure(*shape)
        print(json.dumps(figures), flush=True)
        wrong += bool(figures["violations"])
    return int(wrong > 0)


def _shape(text: str) -> tuple[int, int]:
    sites, daemons = text.split("x")
    return int(sites), int(daemons)


if __name__ == "__main__":
    sys.exit(main([_shape(text) for text in sys.argv[1:]] or list(SHAPES)))
