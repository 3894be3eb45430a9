"""What peers do in a world: they send with all services, leave and come back, claim locks, and are called."""

from random import Random
from typing import Final

from hopring.ordering.holders import MAJORITY
from hopring.rmp.events import ClaimRingLock, JoinFailed, ReleaseRingLock, RemovedFromRing, RingOutput
from hopring.services import Service
from hopring.sim.campaign.fault_schedule import BREAKS, CHAOS_US
from hopring.sim.campaign.rmp.ring_world import SETTLE_US, RingWorld
from hopring.sim.engine import generator
from hopring.sim.network import HostState
from hopring.sim.rmp.peer import SimPeer
from hopring.sim.rmp.rings import SimRings
from hopring.wire.rmp.packets import NO_HANDLER

SERVICES: Final = (*Service, Service.AGREED, Service.AGREED, Service.SAFE)
RESILIENCES: Final = (0, 0, 1, 1, 2, 3, MAJORITY, MAJORITY)
"""Draws of the resilience of messages that may have one."""

LOCKS: Final = ("1", "1", "2", "jobs", "keys")
HOLD_US_MAX: Final = 300_000
HANDLERS: Final = (NO_HANDLER, 1, 1, 2)
"""Draws of the handler of a call; 1 and 2 are names of locks, too, which are held longer than others."""

TIMEOUTS_US: Final = (100_000, 500_000, 1_500_000)
"""Draws of the time that a call has."""

CALL_BYTES_MAX: Final = 3_000
CRASHES_OF_CALLERS: Final = 0.04
"""The share of calls instead of which the caller crashes, and starts again at the same address."""

BACK_US: Final = (5_000, 300_000)
"""A peer that has left comes back after a time in this range."""

RETRY_US: Final = 50_000
"""A join that failed is tried again after this time."""

BURST_SPAN_US: Final = 25_000
QUIET_FROM_US: Final = CHAOS_US + SETTLE_US // 3


class RingWorkload:
    """Plans and does what a world's load asks for."""

    def __init__(self, world: RingWorld, rings: SimRings) -> None:
        self._world = world
        self._rings = rings
        self._dice = generator(world.seed, "load of peers")
        rings.when_ended = self._ended

    def plan(self) -> None:
        """Schedules the load before the run begins."""
        if self._world.load.per_second:
            self._plan_next()
        for fault in self._world.schedule if self._world.load.burst else ():
            if fault.kind in BREAKS and not fault.moment:
                dice = generator(self._world.seed, f"burst {fault}")
                for _ in range(self._world.load.burst):
                    at_us = max(0, fault.at_us - dice.randint(0, BURST_SPAN_US))
                    self._rings.engine.at(at_us, self._send, dice)

    def _plan_next(self) -> None:
        now_us = self._rings.engine.now_us
        rate = self._world.load.per_second / (1 if now_us < CHAOS_US else 3)
        at_us = now_us + int(self._dice.expovariate(rate) * 1_000_000)
        if at_us < QUIET_FROM_US:
            self._rings.engine.at(at_us, self._act)

    def _act(self) -> None:
        kind = self._dice.random()
        if kind < self._world.changes:
            self._leave(self._dice)
        elif kind < self._world.changes + self._world.locks:
            self._claim(self._dice)
        elif kind < self._world.changes + self._world.locks + self._world.calls:
            self._call(self._dice)
        else:
            self._send(self._dice)
        self._plan_next()

    def _pick(self, dice: Random) -> SimPeer | None:
        """A peer that may do something now."""
        name = dice.choice(self._world.names)
        peer = self._rings.hosts.get(name)
        running = self._rings.network.host(name).state is HostState.RUNNING
        return peer if peer is not None and running and peer.may_send else None

    def _send(self, dice: Random) -> None:
        service, size = dice.choice(SERVICES), dice.choice(self._world.load.sizes)
        resilience = dice.choice(RESILIENCES)
        if self._world.resilient:
            service, resilience = Service.AGREED, dice.choice(self._world.resilient)
        peer = self._pick(dice)
        # The holder of a handler is that of a message's place, so it has to have one when it is delivered.
        handler = dice.choice(HANDLERS) if self._world.callers and service.total else NO_HANDLER
        if peer is not None:
            peer.send(service, size, resilience if service.may_be_resilient else 0, handler)

    def _call(self, dice: Random) -> None:
        """A process that is no member calls the ring, or dies and comes back."""
        name, service = dice.choice(self._world.callers), dice.choice(SERVICES)
        size, resilience = dice.choice(self._world.load.sizes), dice.choice(RESILIENCES)
        handler, timeout_us = dice.choice(HANDLERS), dice.choice(TIMEOUTS_US)
        if service.loose:
            handler = NO_HANDLER  # Nobody waits for an answer to an Unreliable call.
        if name not in self._rings.strangers or dice.random() < CRASHES_OF_CALLERS:
            self._rings.start_caller(name)
        caller = self._rings.strangers[name]
        if caller.may_call:
            k = resilience if service.may_be_resilient else 0
            caller.call(service, min(size, CALL_BYTES_MAX), timeout_us, k, handler)

    def _leave(self, dice: Random) -> None:
        peer = self._pick(dice)
        if peer is not None:
            peer.leave()

    def _claim(self, dice: Random) -> None:
        peer, lock, partial = self._pick(dice), dice.choice(LOCKS), dice.random() < 0.3
        if peer is None or lock in peer.claims.open.values():
            return
        peer.claims.serial += 1
        serial = peer.claims.serial
        peer.claims.open[serial] = lock
        if partial:
            peer.observer.partial.add((peer.label, serial))
        peer.driver.step(ClaimRingLock(lock, serial, partial))
        longest_us = (4 if lock.isdigit() else 1) * HOLD_US_MAX
        self._rings.engine.after(dice.randint(20_000, longest_us), self._release, peer, serial)

    def _release(self, peer: SimPeer, serial: int) -> None:
        if self._rings.hosts.get(peer.name) is not peer or serial not in peer.claims.open:
            return
        if self._rings.network.host(peer.name).state is HostState.RUNNING and peer.installed is not None:
            peer.driver.step(ReleaseRingLock(serial))
        else:
            self._rings.engine.after(RETRY_US, self._release, peer, serial)

    # Ends of stays.

    def _ended(self, peer: SimPeer, news: RingOutput) -> None:
        """A peer is a member no more, or its join has failed: it comes back."""
        if isinstance(news, RemovedFromRing):
            delay_us = 0
        elif isinstance(news, JoinFailed):
            delay_us = RETRY_US
        else:
            delay_us = self._dice.randint(*BACK_US)
        self._rings.engine.after(delay_us, self._join, peer, isinstance(news, RemovedFromRing | JoinFailed))

    def _join(self, peer: SimPeer, same: bool) -> None:
        """Joins again as the same process, or after a leave as another one: a leaver may still serve others."""
        rings = self._rings
        if rings.hosts.get(peer.name) is not peer:
            return
        if rings.network.host(peer.name).state is HostState.PAUSED:
            rings.engine.after(RETRY_US, self._join, peer, same)
        elif same:
            peer.join()
        else:
            rings.crash(peer.name)
            rings.restart(peer.name)
