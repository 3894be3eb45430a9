"""Runs a world of peers: faults by schedule, then all heals, one ring must come of it, and checkers judge.

R1 to R17 judge what the simulator sees of rings, EVS-C what members are told. An exception in the code
under test is a finding as well.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from hopring.check.properties.property import Verdict, broken
from hopring.check.rmp.client_form import check_rings, client_history
from hopring.check.rmp.peer_events import (
    AskedToLeave,
    EndSeen,
    ListSeen,
    PeerEvent,
    QueueSeen,
    RingStayEnded,
    SlotsOrdered,
    StrangerShown,
)
from hopring.check.rmp.peer_history import needed_of
from hopring.check.rmp.peer_judge import check_peers
from hopring.rmp.events import JoinRing
from hopring.rmp.snapshot import PeerRingSnapshot
from hopring.services import Service
from hopring.sim.campaign.fault_schedule import CHAOS_US
from hopring.sim.campaign.rmp.ring_injector import RingInjector
from hopring.sim.campaign.rmp.ring_workload import RingWorkload
from hopring.sim.campaign.rmp.ring_world import SETTLE_US, PeerPlan, RingWorld
from hopring.sim.campaign.runner import BUDGET, NO_CRASH, WorldOutcome, last_line
from hopring.sim.engine import BudgetSpent
from hopring.sim.rmp.peer import SimPeer
from hopring.sim.rmp.rings import SimRings, process_at

ONE_RING: Final = "I7 all peers share one ring after the heal"
SAME_BODIES: Final = "I13 a message is delivered as it was sent"
ALL_READ: Final = "I14 peers read each other's packets"
ATTEMPTS: Final = (
    "I16 Aborts end the attempts that they name, acknowledged ballots rise, voters are in the list"
)
SENT_ON: Final = "I15 what a member sends on for others is heard by all members, if nothing is lost"

UNDISTURBED: Final = "I17 a ring that loses nothing does not recover"

RECORD: Final = "ring"
"""The name of a ring's record in the files of a history."""

QUEUES_US: Final = 50_000
"""How often it is looked at what peers keep."""

LAST_SECOND_US: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class RingOutcome(WorldOutcome):
    """The outcome of a world of peers: its history is that of clients, and its record that of the ring."""

    peers: tuple[PeerEvent, ...] = ()

    @property
    def views(self) -> int:
        """How many lists were installed, at all peers together."""
        return sum(isinstance(event, ListSeen) for event in self.peers)


class RingRun:
    """One run of a world of peers."""

    def __init__(self, world: RingWorld) -> None:
        self.world = world
        names = sorted(world.names)
        via = tuple([process_at(names, one) for one in world.via])
        wishes = {one.name: _wish(world, one) for one in world.peers}
        self.rings = SimRings(
            wishes, world.seed, world.quality, world.options, dict.fromkeys(world.callers, via)
        )
        self.rings.one_host = world.one_host
        self.injector = RingInjector(self.rings)
        self.workload = RingWorkload(world, self.rings)
        self._late = ""  # Where all peers were at the deadline, if they shared no ring.

    def live(self) -> None:
        """Runs the world: faults until the heal, then a quiet time."""
        engine, world = self.rings.engine, self.world
        late = dict(world.starts_us)
        self.rings.start(*[name for name in world.names if name not in late])
        for name, at_us in world.starts_us:
            engine.at(at_us, self.injector.start, name)
        for fault in world.schedule:
            self.injector.plan(fault)
        engine.at(CHAOS_US, self.injector.end)
        engine.at(CHAOS_US + SETTLE_US, self._look)
        engine.after(QUEUES_US, self._look_at_queues)
        self.workload.plan()
        engine.run_until(world.end_us)

    def _look(self) -> None:
        if not self._settled():
            self._late = self._where()

    def _look_at_queues(self) -> None:
        for peer in self.rings.hosts.values():
            seen = peer.ring.snapshot()
            if seen.epoch is not None:
                self.rings.observer.note(self._queue_of(peer, seen))
        self.rings.engine.after(QUEUES_US, self._look_at_queues)

    def _queue_of(self, peer: SimPeer, seen: PeerRingSnapshot) -> QueueSeen:
        assert seen.epoch is not None, "only members keep something"
        needed = self.rings.observer.needed_from(peer.process, seen)
        now_us = self.rings.engine.now_us
        both = tuple([self.rings.observer.message(one, Service.AGREED) for one in seen.misplaced])
        return QueueSeen(peer.label, now_us, seen.epoch.generation, seen.stable + 1, needed, both, both)

    # The end.

    def _settled(self) -> bool:
        hosts = self.rings.hosts.values()
        lists = {None if peer.installed is None else peer.installed.list.id for peer in hosts}
        first = next(iter(hosts)).installed
        here = {peer.process for peer in hosts}
        return len(lists) == 1 and first is not None and set(first.list.processes) == here

    def _where(self) -> str:
        parts: list[str] = []
        for name, peer in sorted(self.rings.hosts.items()):
            seen = peer.ring.snapshot()
            ring = "no list" if peer.installed is None else f"a list of {len(peer.installed.list)}"
            doing = f", {seen.recovering}" if seen.recovering else ""
            parts.append(f"{name} is {seen.phase} with {ring}{doing}{', suspended' if peer.suspended else ''}")
        return "; ".join(parts)

    def cut_short(self, verdict: Verdict) -> RingOutcome:
        """The outcome of a world that did not come to its end."""
        return self._outcome([verdict], self.rings.observer.history())

    def _outcome(self, wrong: Iterable[Verdict], history: list[PeerEvent]) -> RingOutcome:
        faults, events = len(self.world.schedule), self.rings.engine.events
        told = client_history(history, copies=False)
        parts = self.world.seed, events, tuple(wrong), told, faults, {RECORD: history}
        return RingOutcome(*parts, peers=tuple(history))

    def judge(self) -> RingOutcome:
        """The verdicts on the history, those nearest to a cause first and convergence last."""
        settled = self._settled()
        self._note_ends()
        history = self.rings.observer.history()
        quiet = settled and not self._late
        verdicts = check_peers(history, quiet)
        verdicts += check_rings(history, quiet, [list(self.world.names)] if quiet else None)
        wrong = [verdict for verdict in verdicts if not verdict]
        observer = self.rings.observer
        wrong.extend([broken(SAME_BODIES, one) for one in observer.wrong_bodies[:1]])
        wrong.extend([broken(ATTEMPTS, one) for one in observer.wrong_attempts[:1]])
        drops = [f"{peer.label} dropped: {one}" for peer in self.rings.hosts.values() for one in peer.drops]
        drops += [
            f"{one.label} dropped: {error}" for one in self.rings.strangers.values() for error in one.drops
        ]
        wrong.extend([broken(ALL_READ, one) for one in drops[:1]])
        if not self.world.schedule and not self.world.quality.loss:
            wrong.extend([broken(SENT_ON, one) for one in not_heard(history, observer.onward)[:1]])
            wrong.extend(
                [broken(UNDISTURBED, one) for one in needless_recoveries(history, len(self.world.names))]
            )
        if not (quiet or self._is_stuck(history)):
            after = "" if not settled else f"{SETTLE_US / 1_000:g} ms after the heal "
            wrong.append(broken(ONE_RING, f"{after}{self._late or self._where()}"))
        return self._outcome(wrong, history)

    def _is_stuck(self, history: list[PeerEvent]) -> bool:
        """Whether too few members of the last list are alive: by its minimum it never goes on."""
        lists = [event for event in history if isinstance(event, ListSeen)]
        if not lists:
            return False
        alive = {peer.label for peer in self.rings.hosts.values()}
        # Rings that are not quorate go on in parts; the last list of each process counts.
        last: dict[str, ListSeen] = {event.process: event for event in lists}
        for one in last.values():
            if one.minimum > 1 and len(alive & {_process(member) for member in one.members}) < needed_of(one):
                return True
        return False

    def _note_ends(self) -> None:
        engine, observer = self.rings.engine, self.rings.observer
        since_us = engine.now_us - LAST_SECOND_US
        passes: dict[str, int] = {}
        for event in observer.events:
            if isinstance(event, SlotsOrdered) and event.at_us > since_us:
                passes[event.process] = passes.get(event.process, 0) + 1
        rest_us = self.world.options.rest_us
        most = LAST_SECOND_US // rest_us + 2 if rest_us else 2
        for _, peer in sorted(self.rings.hosts.items()):
            seen = peer.ring.snapshot()
            waiting = seen.orderable + seen.queued + seen.unordered
            observer.note(EndSeen(peer.label, engine.now_us, waiting, 0, passes.get(peer.label, 0), most))
        for _, caller in sorted(self.rings.strangers.items()):
            observer.note(EndSeen(caller.label, engine.now_us, calls=caller.unfinished, apart=True))


def _wish(world: RingWorld, peer: PeerPlan) -> JoinRing:
    """What a peer asks for; one that hears no multicast asks the others one by one."""
    names = sorted(world.names)
    others = () if peer.capable else tuple([process_at(names, one) for one in names if one != peer.name])
    return JoinRing(peer.name, peer.minimum, capable=peer.capable, found=peer.found, via=others)


def not_heard(history: list[PeerEvent], onward: list[tuple[int, str, str]]) -> list[str]:
    """Unreliable calls that a member has sent on, and that another member of its list has not delivered."""
    shown = {(one.process, one.message) for one in history if isinstance(one, StrangerShown)}
    out: list[str] = []
    for at_us, sender, message in onward:
        present: dict[str, ListSeen] = {}
        for event in history:
            if event.at_us > at_us:
                break
            if isinstance(event, ListSeen):
                present[event.process] = event
            elif isinstance(event, RingStayEnded | AskedToLeave):
                present.pop(event.process, None)
        members = present[sender].members if sender in present else ()
        here = [one for one in members if _process(one) in present and (sender, message) in shown]
        # One that leaves before the packet is there need not deliver it.
        gone = {one.process for one in history if isinstance(one, AskedToLeave | RingStayEnded)}
        for one in here:
            process = _process(one)
            if process not in gone and (process, message) not in shown:
                out.append(f"{sender} has sent on {message} at {at_us} us, and {process} has not delivered it")
    return out


def needless_recoveries(history: list[PeerEvent], peers: int) -> list[str]:
    """The first recovery after all had been in one list."""
    whole = False
    for event in history:
        if isinstance(event, ListSeen):
            whole = whole or len(event.members) == peers
            if whole and event.cause == "failure":
                return [f"{event.process} installs a list of a recovery at {event.at_us} us"]
    return []


def _process(member: str) -> str:
    return member.rstrip("'")


def run_ring_world(world: RingWorld) -> RingOutcome:
    """Runs a world of peers and judges it."""
    run = RingRun(world)
    try:
        run.live()
        return run.judge()
    except BudgetSpent as spent:
        return run.cut_short(broken(BUDGET, str(spent)))
    except Exception as error:  # Any exception of the code under test is a finding.
        return run.cut_short(broken(NO_CRASH, last_line(error)))
