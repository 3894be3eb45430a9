"""The load of a world: messages by chance, and more of them just before something breaks."""

from random import Random
from typing import Final

from hopring.services import Service
from hopring.sim.campaign.draw import HEALED_US, World
from hopring.sim.campaign.schedule import BREAKS, CHAOS_US, Fault
from hopring.sim.chance import generator
from hopring.sim.cluster import Cluster
from hopring.sim.host import HostState

BURST_SPAN_US: Final = 25_000
SPEECH_BYTES: Final = 100


class Sending:
    """Whoever sends in a world."""

    def __init__(self, world: World, cluster: Cluster) -> None:
        self._world = world
        self._cluster = cluster
        self._dice = generator(world.seed, "load")

    def plan(self) -> None:
        """All of it, before the world begins."""
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
        """A break is only worth something if there is something under way."""
        # A generator for each: with one fault less, the luck of the others stays.
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
            host.submit(service, size, session_of(host.sent + 1, self._world.load.sessions))


def session_of(number: int, sessions: int) -> int:
    """Which session sends a daemon's message of this number; they take turns, so a history need not say."""
    return number % sessions
