"""The workload of a world: random messages, and bursts of them just before a fault that breaks a view.

In a world with clients the workload consists of their actions: sessions connect, join, leave, send and end.
"""

from random import Random
from typing import Final

from hopring.groups.private_groups import private_group
from hopring.ids import GroupName
from hopring.ordering.holders import MAJORITY
from hopring.services import Service
from hopring.sim.block_cluster import BlockKind, SimBlockCluster
from hopring.sim.blocks.kinds import KINDS
from hopring.sim.campaign.fault_schedule import BREAKS, CHAOS_US, Fault
from hopring.sim.campaign.world import HEALED_US, ClientLoad, SimWorld
from hopring.sim.client_cluster import SimClientCluster, SimClientDaemon
from hopring.sim.cluster import SimCluster
from hopring.sim.engine import generator
from hopring.sim.network import HostState
from hopring.wire.bundle import BundleKey

BURST_SPAN_US: Final = 25_000
SPEECH_BYTES: Final = 100
LEVELS: Final = (0, 1, 1, 2, 3)
RESILIENCES: Final = (*LEVELS, MAJORITY)
"""Draws of the resilience of messages that may have one."""


class Workload:
    """Sends the load of a world without clients."""

    def __init__(self, world: SimWorld, cluster: SimCluster) -> None:
        self._world = world
        self._cluster = cluster
        self._dice = generator(world.seed, "load")
        self._asking = generator(world.seed, "resilience")

    def plan(self) -> None:
        """Schedules the load before the run begins."""
        if not self._world.load.per_second:
            return
        self._plan_next()
        bursts = [fault for fault in self._world.schedule if fault.kind in BREAKS and not fault.moment]
        for fault in bursts:
            self._plan_burst(fault)
        for fault in self._world.schedule:
            if fault.kind == "speak":
                self._cluster.engine.at(fault.at_us, self._speak, *fault.what)

    def _plan_next(self) -> None:
        now_us = self._cluster.engine.now_us
        rate = self._world.load.per_second / (1 if now_us < CHAOS_US else 3)
        at_us = now_us + int(self._dice.expovariate(rate) * 1_000_000)
        if at_us < CHAOS_US + HEALED_US // 2:
            self._cluster.engine.at(at_us, self._send_and_plan)

    def _send_and_plan(self) -> None:
        self._send(self._dice)
        self._plan_next()

    def _plan_burst(self, fault: Fault) -> None:
        """Schedules messages just before a break, so that some are in flight when it happens."""
        # One generator for each fault: leaving a fault out does not change the others' bursts.
        dice = generator(self._world.seed, f"burst {fault}")
        for _ in range(self._world.load.burst):
            self._cluster.engine.at(fault.at_us - dice.randint(0, BURST_SPAN_US), self._send, dice)

    def _send(self, dice: Random) -> None:
        load = self._world.load
        name = dice.choice(sorted(self._cluster.numbers))
        service, size = dice.choice(load.services), dice.choice(load.sizes)
        self._submit(name, service, size)

    def _speak(self, name: str, service: str) -> None:
        self._submit(name, Service[service.upper()], SPEECH_BYTES)

    def _submit(self, name: str, service: Service, size: int) -> None:
        host = self._cluster.hosts.get(name)
        if host is not None and self._cluster.network.host(name).state is HostState.RUNNING:
            session = session_of(host.sent + 1, self._world.load.sessions)
            host.submit(service, size, session, self._resilience(service, RESILIENCES))

    def _resilience(self, service: Service, choices: tuple[int, ...]) -> int:
        """The resilience of the next message; 0 for most, and in worlds without it."""
        if not self._world.resilient or not service.may_be_resilient:
            return 0
        return self._asking.choice(choices)


def session_of(number: int, sessions: int) -> int:
    """The session that sends a daemon's message of this number; sessions take turns."""
    return number % sessions


FIRST_US: Final = 400_000
"""Until then every running daemon gets its first sessions."""

NAMES: Final = ("ann", "bob", "cat", "dan")
JOINS, LEAVES = 0.5, 0.3
"""Shares of the changes; the rest are ends of sessions."""

MIXED: Final = 0.3
"""The share of mixed bundles, with one group per message, among the bundles to several groups."""


class ClientWorkload(Workload):
    """The actions of clients: sessions connect, join, leave, send and end."""

    _levels: tuple[int, ...] = LEVELS

    def __init__(self, world: SimWorld, cluster: SimClientCluster) -> None:
        super().__init__(world, cluster)
        assert world.clients is not None, "a world with clients"
        self._clients: ClientLoad = world.clients
        self._hosts = cluster
        self._acts = generator(world.seed, "acts of clients")
        self._mixing = generator(world.seed, "mixed bundles")

    def plan(self) -> None:
        """Schedules the first sessions and the load."""
        super().plan()
        if self._world.load.per_second:
            dice = generator(self._world.seed, "first sessions")
            for name in sorted(self._hosts.numbers):
                for _ in range(self._clients.sessions):
                    self._hosts.engine.at(dice.randint(0, FIRST_US), self._come, name)

    def _submit(self, name: str, service: Service, size: int) -> None:
        """Replaces a daemon's message by an action of one of its clients."""
        if name not in self._hosts.hosts or self._hosts.network.host(name).state is not HostState.RUNNING:
            return
        host, dice = self._hosts.client_host(name), self._acts
        sessions = self._sessions(host)
        few = len(sessions) < self._clients.sessions
        if not sessions or (few and dice.random() < self._clients.changes):
            self._come(name)
            return
        session = dice.choice(sessions)
        if dice.random() < self._clients.changes:
            self._change(host, session)
        else:
            self._send_to_groups(host, session, service, size)

    def _sessions(self, host: SimClientDaemon) -> list[int]:
        """The sessions of a daemon that this workload may use."""
        return sorted(host.sessions)

    def _come(self, name: str) -> None:
        if name not in self._hosts.hosts or self._hosts.network.host(name).state is not HostState.RUNNING:
            return
        host, dice = self._hosts.client_host(name), self._acts
        session = host.connect(dice.choice(NAMES))
        if session is not None:
            for _ in range(dice.choice([0, 1, 1, 2])):
                self._join_one(host, session)

    def _join_one(self, host: SimClientDaemon, session: int) -> None:
        others = [group for group in self._clients.groups if group not in host.sessions[session]]
        if others:
            host.join(session, GroupName(self._acts.choice(others)))

    def _change(self, host: SimClientDaemon, session: int) -> None:
        chance = self._acts.random()
        joined = sorted(host.sessions[session])
        if chance < JOINS or not joined:
            self._join_one(host, session)
        elif chance < JOINS + LEAVES:
            host.leave(session, self._acts.choice(joined))
        else:
            host.disconnect(session)

    def _send_to_groups(self, host: SimClientDaemon, session: int, service: Service, size: int) -> None:
        dice = self._acts
        count = min(len(self._clients.groups), dice.choice([1, 1, 2, 3]))
        groups = [GroupName(one) for one in dice.sample(self._clients.groups, count)]
        if dice.random() < 0.1:
            groups.append(private_group(dice.choice(NAMES), dice.choice(sorted(self._hosts.numbers))))
        key = BundleKey(host.me.daemon, session, service, tuple(groups), dice.random() < 0.1)
        key = key.replace(resilience=self._resilience(service, self._levels))
        sizes = (size,) * dice.choice([1, 1, 1, 3]) if size <= 3_000 else (size,)
        if len(groups) > 1 and service.total and self._mixing.random() < MIXED:
            places = self._mixing.choices(range(len(groups)), k=len(sizes))
            host.send(key.replace(mixed=True), sizes, tuple(places))
        else:
            host.send(key, sizes)


WIND_DOWN_US: Final = 400_000
"""The time before the quiet end in which agents give up their locks."""

MOVES: Final = 0.03
"""The share of actions of agents that are moves to another daemon."""


class BlockWorkload(ClientWorkload):
    """Agents of blocks act, and move from daemon to daemon, beside other clients."""

    _levels = RESILIENCES

    def __init__(self, world: SimWorld, cluster: SimBlockCluster) -> None:
        super().__init__(world, cluster)
        self._cluster_of_agents = cluster
        cluster.quiet_us = CHAOS_US + world.healed_us - world.rest_us - WIND_DOWN_US
        self._kinds = [KINDS[name] for name in world.blocks]
        # Each kind has a generator of its own: its actions do not depend on the other kinds of the world.
        self._acts_of = {kind.name: generator(world.seed, kind.name) for kind in self._kinds}
        choices = generator(world.seed, "agents' choices")
        self._agents = cluster.start_agents(self._kinds, world.agents, choices)

    def plan(self) -> None:
        """Schedules actions until shortly after the heal."""
        super().plan()
        if self._world.load.per_second:
            for kind in self._kinds:
                self._plan_act(kind)

    def _plan_act(self, kind: BlockKind) -> None:
        after_us = int(self._acts_of[kind.name].expovariate(kind.per_second) * 1_000_000)
        at_us = self._hosts.engine.now_us + after_us
        if at_us < CHAOS_US + HEALED_US // 4:
            self._hosts.engine.at(at_us, self._act, kind)

    def _act(self, kind: BlockKind) -> None:
        dice = self._acts_of[kind.name]
        agent = dice.choice(self._agents[kind.name])
        if dice.random() < MOVES:
            agent.move()
        else:
            agent.act()
        self._plan_act(kind)

    def _sessions(self, host: SimClientDaemon) -> list[int]:
        agents = self._cluster_of_agents.agents
        return [one for one in super()._sessions(host) if (host.process, one) not in agents]
