"""Injects faults into a world of peers: at their time, or when a peer comes to the moment they wait for."""

from typing import Final

from hopring.sim.campaign.fault_injector import sides
from hopring.sim.campaign.fault_schedule import Fault
from hopring.sim.network import HostState
from hopring.sim.rmp.rings import SimRings

LOOK_US: Final = 200
"""The period in which the moment of a waiting fault is looked for."""

WAIT_US_MAX: Final = 1_000_000
"""A fault that has waited this long is dropped."""

DOWN_US: Final = 400_000
"""A peer that an ambush has crashed starts again after this time."""


class RingInjector:
    """Applies the faults of a schedule to peers."""

    def __init__(self, rings: SimRings) -> None:
        self._rings = rings
        self._over = False

    def plan(self, fault: Fault) -> None:
        """Schedules a fault for its time, or from then on for its moment."""
        if fault.moment:
            self._rings.engine.at(fault.at_us, self._begin_waiting, fault)
        else:
            self._rings.engine.at(fault.at_us, self.happen, fault)

    def _begin_waiting(self, fault: Fault) -> None:
        self._look(fault, len(self._rings.observer.reached))

    def _look(self, fault: Fault, begin: int) -> None:
        if self._over:
            return
        engine, reached = self._rings.engine, self._rings.observer.reached
        names = [who.partition(".")[0] for moment, who in reached[begin:] if moment == fault.moment]
        struck = next((name for name in names if name in self._rings.hosts), None)
        if struck is not None:
            self.happen(fault, struck)
        elif engine.now_us < fault.at_us + WAIT_US_MAX:
            engine.after(LOOK_US, self._look, fault, len(reached))

    def happen(self, fault: Fault, struck: str = "") -> None:
        """Applies a fault; ignores one without effect any more, like the crash of a peer that is down."""
        network = self._rings.network
        match fault.kind:
            case "loss":
                network.shape_all(loss=fault.number)
            case "heal":
                network.heal()
            case "partition":
                network.heal()
                network.partition(*sides(fault.what).values())
            case "sever":
                network.cut_both(*fault.what)
            case "one_way":
                network.cut(*fault.what)
            case "tear" | "turn" | "mute" | "numb" | "fell" | "freeze":
                self._strike(fault, struck)
            case _:
                self._strike_host(fault.what[0], fault)

    def _strike(self, fault: Fault, name: str) -> None:
        """Strikes the peer that has come to the moment."""
        network, engine = self._rings.network, self._rings.engine
        host, for_us = network.host(name), int(fault.number * 1_000)
        match fault.kind:
            case "tear":
                network.heal()
                network.partition([name])
            case "turn":
                others = [one for one in self._rings.numbers if not network.connected(name, one)]
                if others:
                    network.move(name, others[0])
            case "mute":
                for other in self._rings.numbers:
                    network.cut(name, other)
                engine.after(for_us, self._speak_again, name)
            case "numb":
                host.numb = True
                engine.after(for_us, self._hear_again, name)
            case "fell":
                self._rings.crash(name)
                engine.after(DOWN_US, self.start, name)
            case _ if host.state is HostState.RUNNING:
                network.pause(name, for_us)

    def _strike_host(self, name: str, fault: Fault) -> None:
        """Applies a fault to the host of one peer."""
        rings = self._rings
        host = rings.network.host(name)
        match fault.kind:
            case "crash" if name in rings.hosts:
                rings.crash(name)
            case "stop" if name in rings.hosts and host.state is HostState.RUNNING:
                peer = rings.hosts[name]
                if peer.may_send:
                    peer.leave()
            case "restart":
                self.start(name)
            case "pause" if host.state is HostState.RUNNING:
                rings.network.pause(name, int(fault.number * 1_000))
            case "late":
                host.late_us = int(fault.number * 1_000)
            case "slow":
                host.packet_cost_us = int(fault.number * 1_000)

    def _hear_again(self, name: str) -> None:
        self._rings.network.host(name).numb = False

    def _speak_again(self, name: str) -> None:
        for other in self._rings.numbers:
            self._rings.network.mend(name, other)

    def start(self, name: str) -> None:
        """Starts a peer that does not run, or lets one join that has left."""
        peer = self._rings.hosts.get(name)
        if peer is None and self._rings.network.host(name).state is HostState.DOWN:
            self._rings.restart(name)
        elif peer is None:
            self._rings.start(name)

    def end(self) -> None:
        """Ends all faults and starts all peers."""
        self._over = True
        network = self._rings.network
        network.heal()
        network.shape_all(loss=0.0, duplicate=0.0, reorder=0.0)
        for name in sorted(self._rings.numbers):
            host = network.host(name)
            host.late_us = host.packet_cost_us = 0
            host.numb = False
            if host.state is HostState.PAUSED:
                network.resume(name)
            self.start(name)
