"""Runs a world: faults by schedule, then everything heals, all daemons must come together, and checkers judge.

Daemons are judged by EVS-S, clients by EVS-C. An exception in the code under test is a finding as well.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from traceback import extract_tb

import msgspec

from hopring.check.block_kinds import noted_all
from hopring.check.history import index
from hopring.check.judge import check_evs, check_evs_c
from hopring.check.properties.order import FIFO_ORDER
from hopring.check.properties.property import Verdict, broken
from hopring.check.trace import Event, MessageDelivered, MessageSent, ProcessName, Recover, ViewInstalled
from hopring.groups.groups import GroupsOptions, GroupsState
from hopring.sim.block_cluster import SimBlockCluster
from hopring.sim.campaign.fault_injector import FaultInjector, sides
from hopring.sim.campaign.fault_schedule import CHAOS_US
from hopring.sim.campaign.workload import BlockWorkload, ClientWorkload, Workload, session_of
from hopring.sim.campaign.world import PLAIN, SimWorld, WorldKind, draw_world
from hopring.sim.client_cluster import SimClientCluster, SimClientDaemon
from hopring.sim.cluster import SimCluster, SimDaemon
from hopring.sim.engine import BudgetSpent

CONVERGENCE = "I7 all daemons share one view after the heal"
SELF_SENDING = "I5 what a daemon takes it sends"
SAME_TREES = "I11 all daemons of a view have the same trees"
OPENED_ONCE = "I12 a sealed packet is opened once, and by no daemon that started after it was sealed"
BUDGET = "I8 the world comes to its end"
NO_CRASH = "the code keeps its own assertions"


@dataclass(frozen=True, slots=True)
class WorldOutcome:
    """The outcome of a world: its history and the broken properties."""

    seed: int
    events: int
    broken: tuple[Verdict, ...]
    history: list[Event]
    faults: int
    records: Mapping[str, Sequence[object]] = field(default_factory=dict)
    """By block: what its agents saw."""

    @property
    def trace(self) -> list[Event]:
        """The history with the records of blocks."""
        return [*self.history, *noted_all(self.records)]

    @property
    def views(self) -> int:
        """How many views were installed, at all daemons together."""
        return sum(isinstance(event, ViewInstalled) for event in self.history)


class WorldRun:
    """One run of a world without clients."""

    def __init__(self, world: SimWorld, link_counters_us: int = 0) -> None:
        self.world = world
        self.cluster = self._make_cluster(link_counters_us)
        self.injector = FaultInjector(self.cluster)
        self._late_views = ""  # The views of all daemons at the deadline, if they had not converged.
        self._rested = False  # Whether all converged early enough to deliver what they sent then.
        for link in world.config.links:
            self._shape(link.sites, world.wide_delay_us)

    def _make_cluster(self, link_counters_us: int) -> SimCluster:
        world = self.world
        parts = world.config, world.seed, world.quality, world.membership, world.stack
        return SimCluster(*parts, link_counters_us, world.sealed, world.faulty, world.mark_us)

    def _load(self) -> Workload:
        return Workload(self.world, self.cluster)

    def _shape(self, ends: tuple[str, str], delay_us: int) -> None:
        sites = {site.name: site.daemons for site in self.world.config.sites}
        for near in sites[ends[0]]:
            for far in sites[ends[1]]:
                self.cluster.network.shape_both(near.name, far.name, delay_us=delay_us)

    def live(self) -> None:
        """Runs the world: faults until the heal, then a quiet time."""
        cluster, world = self.cluster, self.world
        engine = cluster.engine
        late = dict(world.starts_us)
        cluster.start(*[name for name in sorted(cluster.numbers) if name not in late])
        for name, at_us in world.starts_us:
            engine.at(at_us, self.injector.start, name)
        for fault in world.schedule:
            if fault.kind != "speak":
                self.injector.plan(fault)
        for path in world.paths:
            engine.at(path.at_us, self._shape, path.sites, path.delay_us)
        engine.at(CHAOS_US, self._heal)
        engine.at(CHAOS_US + world.settle_us, self._look)
        engine.at(CHAOS_US + world.healed_us - world.rest_us, self._rest)
        self._load().plan()
        engine.run_until(CHAOS_US + world.healed_us)

    def _heal(self) -> None:
        self.injector.end()
        if self.world.faulty is not None:
            self.cluster.crash(self.world.faulty.name)
            self.cluster.restart(self.world.faulty.name)
        for fault in self.world.lasting:
            self.injector.happen(fault)

    def _look(self) -> None:
        if not self._settled():
            self._late_views = self._views_now()

    def _rest(self) -> None:
        self._rested = self._settled()

    # Convergence.

    @property
    def _components(self) -> list[list[str]] | None:
        """The sets of daemons that should share a view at the end; None if the cuts do not determine them."""
        kinds = [fault.kind for fault in self.world.lasting]
        if not kinds:
            return [sorted(self.cluster.numbers)]
        if kinds == ["partition"]:
            return [sorted(names) for names in sides(self.world.lasting[0].what).values()]
        return None

    def _settled(self) -> bool:
        components = self._components
        if components is None:
            return True
        hosts = self.cluster.hosts
        return all(_share_a_view([hosts[name] for name in names]) for names in components)

    def cut_short(self, verdict: Verdict) -> WorldOutcome:
        """The outcome of a world that did not come to its end."""
        cluster = self.cluster
        return WorldOutcome(
            self.world.seed,
            cluster.engine.events,
            (self._with_lie(verdict),),
            cluster.history,
            len(self.world.schedule),
        )

    def _with_lie(self, verdict: Verdict) -> Verdict:
        """The verdict with the last wrong packet of a faulty daemon, if there is one."""
        faulty = self.cluster.faulty
        if faulty is None or not faulty.lies:
            return verdict
        count, last = len(faulty.lies), faulty.lies[-1]
        return broken(
            verdict.property, f"{verdict.witness} ({faulty.plan.name} lied {count} times, last {last})"
        )

    def judge(self) -> WorldOutcome:
        """The verdicts on the history, those nearest to a cause first and convergence last."""
        cluster = self.cluster
        settled, components = self._settled(), self._components
        quiet = settled and self._rested and components is not None
        forgets = any(fault.kind == "forget" for fault in self.world.schedule)
        history = self._history(settled)
        verdicts = check_evs(
            history,
            quiet_end=quiet,
            components=components,
            counters_survive=not forgets,
        )
        if self._has_sessions:
            # FIFO order holds for each session, not for all sessions of a daemon together.
            verdicts = [
                self._fifo(history) if verdict.property == FIFO_ORDER.name else verdict for verdict in verdicts
            ]
        # Without a shared view after a faulty daemon, convergence is broken and nothing else can be judged.
        wrong = [verdict for verdict in verdicts if not verdict] if history else []
        wrong.extend([broken(SAME_TREES, witness) for witness in self._misrouted()[:1]])
        wrong.extend([broken(OPENED_ONCE, witness) for witness in cluster.opened_wrongly[:1]])
        wrong.extend(self._further_checks(quiet))
        if not settled:
            wrong.append(broken(CONVERGENCE, f"at the end {self._views_now()}"))
        elif self._late_views:
            after = f"{self.world.settle_us / 1_000:g} ms after the heal"
            wrong.append(broken(CONVERGENCE, f"{after} {self._late_views}"))
        events, wrong = cluster.engine.events, [self._with_lie(verdict) for verdict in wrong]
        counts = len(self.world.schedule)
        records = self._records(quiet)
        return WorldOutcome(self.world.seed, events, tuple(wrong), cluster.history, counts, records)

    def _records(self, _quiet: bool) -> Mapping[str, Sequence[object]]:
        """The records of blocks; there are none here."""
        return {}

    def _history(self, settled: bool) -> list[Event]:
        """The history that is judged: after a faulty daemon, that of the last views if they are shared."""
        if self.world.faulty is None:
            return self.cluster.history
        return last_stays(self.cluster.history, self.cluster.hosts.values()) if settled else []

    def _misrouted(self) -> list[str]:
        if self.world.faulty is None:
            return self.cluster.misrouted
        last = {host.state().view.counter for host in self.cluster.hosts.values()}
        return [one for one in self.cluster.misrouted if any(one.endswith(f" {view}") for view in last)]

    @property
    def _has_sessions(self) -> bool:
        return self.world.load.sessions > 1

    def _further_checks(self, quiet: bool) -> list[Verdict]:
        """Checks beyond the properties of daemons."""
        return self._unstamped() if quiet else []

    def _fifo(self, history: list[Event]) -> Verdict:
        """2.11 for each session by itself."""
        sessions = self.world.load.sessions
        verdicts = [
            FIFO_ORDER.judge(index(self._of_session(history, one, sessions), False)) for one in range(sessions)
        ]
        return min(verdicts, key=bool)

    def _of_session(self, history: list[Event], session: int, sessions: int) -> list[Event]:
        return [
            event
            for event in history
            if not isinstance(event, MessageSent | MessageDelivered)
            or session_of(event.message.number, sessions) == session
        ]

    def _unstamped(self) -> list[Verdict]:
        """Messages that a living daemon accepted and never sent: no property of the order covers them."""
        stamped = Counter(event.process for event in self.cluster.history if isinstance(event, MessageSent))
        return [
            broken(SELF_SENDING, f"{name} took {host.sent} messages and sent {stamped[host.process]}")
            for name, host in sorted(self.cluster.hosts.items())
            if stamped[host.process] != host.sent
        ]

    def _views_now(self) -> str:
        return "; ".join(
            f"{name} is {one.phase} in view {one.view.counter} of {len(one.members)}"
            for name, one in [(name, host.state()) for name, host in sorted(self.cluster.hosts.items())]
        )


def last_stays(history: list[Event], hosts: Iterable[SimDaemon]) -> list[Event]:
    """The events of these daemons in their last views, as if they had started with them."""
    started: dict[ProcessName, int] = {}
    living = {host.process for host in hosts}
    for at, event in enumerate(history):
        if isinstance(event, ViewInstalled) and event.process in living:
            started[event.process] = at
    out: list[Event] = []
    for at, event in enumerate(history):
        if at < started.get(event.process, len(history)):
            continue
        if isinstance(event, ViewInstalled):
            out.append(Recover(event.process, event.at_us))
            out.append(msgspec.structs.replace(event, together=(event.process,)))
        else:
            out.append(event)
    return out


def _share_a_view(hosts: list[SimDaemon]) -> bool:
    """Whether these daemons, and no others, share a view, and none of them searches."""
    seen = [host.state() for host in hosts]
    first = seen[0]
    return set(first.members) == {one.me for one in seen} and all(
        one.view == first.view and one.settled for one in seen
    )


SAME_GROUPS = "I9 daemons that share a view know the same groups"
UNDERSTOOD = "I10 daemons understand each other's group messages"


LEASE_US = 300_000
"""Of locks, beside the way to others: short, so that views change within many leases of one world."""


class ClientWorldRun(WorldRun):
    """One run of a world with clients."""

    _kind_of_cluster: type[SimClientCluster] = SimClientCluster

    def _make_cluster(self, link_counters_us: int) -> SimClientCluster:
        world = self.world
        assert world.clients is not None, "a world with clients"
        parts = world.config, world.seed, world.quality, world.membership, world.stack
        clients = world.clients
        limits = clients.linger_us, clients.groups_bytes_max
        # A renewal, a Safe message, crosses the wide area three times, and has three quarters of a lease.
        lease_us = LEASE_US + 6 * world.wide_delay_us
        options = GroupsOptions(linger_us=limits[0], groups_bytes_max=limits[1], lease_us=lease_us)
        self.clients = self._kind_of_cluster(
            *parts, link_counters_us, options, world.sealed, world.faulty, world.mark_us
        )
        return self.clients

    def _load(self) -> Workload:
        return ClientWorkload(self.world, self.clients)

    @property
    def _has_sessions(self) -> bool:
        return True

    def _fifo(self, history: list[Event]) -> Verdict:
        """2.11 for each session by itself; daemons have one more, for group messages."""
        session_of = self.clients.session_of
        named = [
            type(event)(
                event.process,
                event.at_us,
                event.view,
                event.message._replace(session=session_of[event.message]),
                event.service,
                event.ord,
            )
            if isinstance(event, MessageSent | MessageDelivered)
            else event
            for event in history
        ]
        return FIFO_ORDER.judge(index(named, False))

    def _further_checks(self, quiet: bool) -> list[Verdict]:
        """The properties of clients, and that all daemons have the same groups."""
        if self.world.faulty is not None:
            return self._different_groups() if quiet else []
        verdicts = check_evs_c(self.cluster.history, quiet, self._components)
        wrong = [verdict for verdict in verdicts if not verdict]
        for name in sorted(self.clients.hosts):
            drops = self.clients.client_host(name).groups.drops
            if drops:
                wrong.append(broken(UNDERSTOOD, f"{name} dropped {dict(drops)}"))
        if quiet:
            wrong.extend(self._different_groups())
        return wrong

    def _different_groups(self) -> list[Verdict]:
        for names in self._components or []:
            hosts = [self.clients.client_host(name) for name in names]
            for host in hosts:
                if host.groups.state is not GroupsState.GOP:
                    return [broken(SAME_GROUPS, f"{host.name} is in {host.groups.state.name} at the end")]
                if _table(host) != _table(hosts[0]):
                    return [broken(SAME_GROUPS, f"{hosts[0].name} and {host.name} do not")]
        return []


class BlockWorldRun(ClientWorldRun):
    """One run of a world with agents that use blocks."""

    _kind_of_cluster = SimBlockCluster

    @property
    def agents(self) -> SimBlockCluster:
        """The cluster, as one with agents."""
        assert isinstance(self.clients, SimBlockCluster), "made by this class"
        return self.clients

    def _load(self) -> Workload:
        return BlockWorkload(self.world, self.agents)

    def _further_checks(self, quiet: bool) -> list[Verdict]:
        """The properties of the blocks, too."""
        wrong = super()._further_checks(quiet)
        if self.world.faulty is None:
            for block in self.agents.blocks.values():
                wrong.extend([verdict for verdict in block.judge(quiet) if not verdict])
        return wrong

    def _records(self, quiet: bool) -> Mapping[str, Sequence[object]]:
        return {name: block.record(quiet) for name, block in self.agents.blocks.items()}


def _table(host: SimClientDaemon) -> dict[str, object]:
    groups = host.groups.table.groups.values()
    return {str(group.name): (group.id, frozenset(group.members), group.closing_path) for group in groups}


def run_seed(seed: int, kind: WorldKind = PLAIN) -> WorldOutcome:
    """Draws the world of a seed, runs it and judges it."""
    return run_world(draw_world(seed, kind))


def run_world(world: SimWorld, link_counters_us: int = 0) -> WorldOutcome:
    """Runs a world and judges it; with a period, its history has the links' counters too."""
    kind = BlockWorldRun if world.blocks else WorldRun if world.clients is None else ClientWorldRun
    run = kind(world, link_counters_us)
    try:
        run.live()
        return run.judge()
    except BudgetSpent as spent:
        return run.cut_short(broken(BUDGET, str(spent)))
    except Exception as error:  # Any exception of the code under test is a finding.
        return run.cut_short(broken(NO_CRASH, last_line(error)))


def last_line(error: Exception) -> str:
    """The place of an exception and its text, in one line."""
    frames = extract_tb(error.__traceback__)
    where = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}, " if frames else ""
    return f"{where}{type(error).__name__}: {error}"
