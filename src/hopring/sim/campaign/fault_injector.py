"""Injects faults into a cluster: at their time, or when daemons reach the moment they wait for."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Final, Protocol

from hopring.config.model import Config
from hopring.engine import EngineState
from hopring.ids import DaemonId
from hopring.sim.campaign.fault_schedule import Fault
from hopring.sim.engine import SimEngine
from hopring.sim.network import HostState, SimNetwork

LOOK_US: Final = 500
"""The period in which the moment of a waiting fault is looked for."""

WAIT_US_MAX: Final = 1_000_000
"""A fault that has waited this long is dropped."""


class StruckDaemon(Protocol):
    """A daemon that faults can strike."""

    def state(self) -> EngineState:
        """The phase and the view of its engine."""


class FaultyCluster(Protocol):
    """A cluster that faults can strike."""

    engine: SimEngine
    network: SimNetwork
    numbers: dict[str, DaemonId]

    @property
    def config(self) -> Config:
        """Its daemons, sites and links."""

    @property
    def hosts(self) -> Mapping[str, StruckDaemon]:
        """The daemons that run, by name."""

    def crash(self, name: str) -> None:
        """Ends a daemon without a word."""

    def stop(self, name: str) -> None:
        """Asks a daemon to end."""

    def start(self, *names: str) -> None:
        """Starts daemons on machines that run."""

    def restart(self, name: str) -> None:
        """Starts a machine, and its daemon."""

    def forget(self, name: str) -> None:
        """Loses the view counter of a daemon that does not run."""


class FaultInjector:
    """Applies the faults of a schedule to a cluster."""

    def __init__(self, cluster: FaultyCluster) -> None:
        self._cluster = cluster
        self._over = False
        self._bound: dict[str, object] = {}  # Daemons once bound by an attempt, with their view then.

    def plan(self, fault: Fault) -> None:
        """Schedules a fault for its time, or from then on for its moment."""
        if fault.moment:
            self._cluster.engine.at(fault.at_us, self._begin_waiting, fault)
        else:
            self._cluster.engine.at(fault.at_us, self.happen, fault)

    def _begin_waiting(self, fault: Fault) -> None:
        before = {name: host.state().view for name, host in self._cluster.hosts.items()}
        self._look(fault, before)

    def _look(self, fault: Fault, before: Mapping[str, object]) -> None:
        if self._over:
            return
        engine = self._cluster.engine
        seen = {name: host.state() for name, host in self._cluster.hosts.items()}
        self._bound.update({name: one.view for name, one in seen.items() if _bound_to_others(one)})
        since = self._bound if fault.moment == "adrift" else before
        struck = [name for name, one in seen.items() if reaches(one, fault.moment, since.get(name))]
        if struck and len(struck) >= min(fault.count, len(seen)):
            self.happen(fault, struck)
        elif engine.now_us < fault.at_us + WAIT_US_MAX:
            engine.after(LOOK_US, self._look, fault, before)

    def happen(self, fault: Fault, struck: Sequence[str] = ()) -> None:
        """Applies a fault; ignores one without effect any more, like the crash of a daemon that is down.

        `struck` are the daemons that have reached the moment the fault waited for.
        """
        network = self._cluster.network
        match fault.kind:
            case "loss":
                network.shape_all(loss=fault.number)
            case "heal":
                network.heal()
            case "partition":
                network.heal()
                network.partition(*sides(fault.what).values())
            case "tear":
                network.heal()
                network.partition(struck)
            case "numb":
                # Several may have reached it since the last look; the order of the schedule picks one.
                for name in [name for name in fault.what if name in struck][:1]:
                    network.host(name).numb = True
                    self._cluster.engine.after(int(fault.number * 1_000), self._hear_again, name)
            case "faint":
                for source, target in self._directions(fault, struck):
                    network.shape(source, target, loss=fault.number)
            case "sever" | "one_way" | "cut_sites" | "patchy" | "deaf":
                for source, target in self._directions(fault, struck):
                    network.cut(source, target)
            case _:
                self._strike_host(fault.what[0], fault)

    def _directions(self, fault: Fault, struck: Sequence[str]) -> Iterator[tuple[str, str]]:
        """The directions that a fault affects, as source and target."""
        match fault.kind:
            case "patchy" | "faint":
                for way in fault.what:
                    source, _, target = way.partition(">")
                    yield source, target
            case "deaf":
                for deaf in fault.what or struck:
                    yield from ((name, deaf) for name in sorted(self._cluster.numbers) if name != deaf)
            case "cut_sites":
                daemons = {site.name: site.daemons for site in self._cluster.config.sites}
                for one, other in product(*[daemons[site] for site in fault.what]):
                    yield from ((one.name, other.name), (other.name, one.name))
            case "one_way":
                yield fault.what[0], fault.what[1]
            case _:
                yield from ((fault.what[0], fault.what[1]), (fault.what[1], fault.what[0]))

    def _strike_host(self, name: str, fault: Fault) -> None:
        """Applies a fault to the host of one daemon."""
        cluster = self._cluster
        host = cluster.network.host(name)
        match fault.kind:
            case "crash" if name in cluster.hosts:
                cluster.crash(name)
            case "stop" if name in cluster.hosts and host.state is HostState.RUNNING:
                cluster.stop(name)
            case "restart":
                self.start(name)
            case "forget" if name not in cluster.hosts:
                cluster.forget(name)
            case "pause" if host.state is HostState.RUNNING:
                cluster.network.pause(name, int(fault.number * 1_000))
            case "wake" if host.state is HostState.PAUSED:
                cluster.network.resume(name)
            case "late":
                host.late_us = int(fault.number * 1_000)
            case "slow":
                host.packet_cost_us = int(fault.number * 1_000)

    def _hear_again(self, name: str) -> None:
        self._cluster.network.host(name).numb = False

    def start(self, name: str) -> None:
        """Starts a daemon that does not run, and its host if that is down."""
        if name in self._cluster.hosts:
            return
        if self._cluster.network.host(name).state is HostState.DOWN:
            self._cluster.restart(name)
        else:
            self._cluster.start(name)

    def end(self) -> None:
        """Ends all faults and starts all daemons."""
        self._over = True
        network = self._cluster.network
        network.heal()
        network.shape_all(loss=0.0, duplicate=0.0, reorder=0.0)
        for name in sorted(self._cluster.numbers):
            host = network.host(name)
            host.late_us = host.packet_cost_us = 0
            host.numb = False
            if host.state is HostState.PAUSED:
                network.resume(name)
            self.start(name)


def sides(what: tuple[str, ...]) -> dict[str, list[str]]:
    """The sides of a partition, from words like `a=0`."""
    found: dict[str, list[str]] = {}
    for word in what:
        name, _, side = word.partition("=")
        found.setdefault(side, []).append(name)
    return found


def reaches(state: EngineState, moment: str, before: object) -> bool:
    """Whether a daemon has reached a moment; `before` is its view when the wait began, or when it was bound."""
    attempt = state.attempt
    match moment:
        case "evs":
            return attempt is not None and attempt.decided
        case "bound":
            return attempt is not None and attempt.bound
        case "adrift":
            return attempt is None and state.view == before
        case _:
            return state.view != before and len(state.members) > 1


def _bound_to_others(state: EngineState) -> bool:
    attempt = state.attempt
    return attempt is not None and attempt.bound and attempt.decided and attempt.together > 1
