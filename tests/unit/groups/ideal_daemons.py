"""Daemons with an ideal order below their groups: it keeps the daemons' properties and nothing more.

Each view of daemons has a log; a place in it is a position in the order. Every daemon receives the entries of
the log in any order and delivers them by the rules of the services. A view ends by an attempt: daemons that
come from the same view equalize their messages, and decide which ones follow the signal, as the membership's
recovery does. Some daemons may drop out of an attempt and are bound by it nevertheless.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random

from tests.unit.groups.session_histories import SessionHistories, Trace

from hopring.engine import Delivered, Installed, Resume, Rift, Stamped, TransitionalSignal, Withdraw
from hopring.groups.events import (
    Connect,
    Disconnect,
    JoinGroup,
    LeaveGroup,
    Output,
    Send,
    SessionConnected,
)
from hopring.groups.groups import Groups, GroupsOptions
from hopring.ids import DaemonId, GroupName, Incarnation, Process, SiteId, SiteMask, ViewId, mask_of
from hopring.ordering.entry import DAEMON_SESSION, OrderedMessage, Position, encode_message
from hopring.services import Service
from hopring.wire.bundle import BundleKey, encode_bundle

NEVER_HOLE = 1 << 60
OPTIONS = GroupsOptions(groups_bytes_max=300, linger_us=3)


@dataclass(slots=True)
class Entry:
    sender: Process
    message: OrderedMessage
    mask: SiteMask


@dataclass(slots=True, eq=False)
class DaemonView:
    id: ViewId
    members: tuple[Process, ...]
    log: list[Entry] = field(default_factory=list)
    acked: dict[Process, set[int]] = field(default_factory=dict)  # The messages that a member is known to have.


@dataclass(slots=True, eq=False)
class IdealDaemon:
    process: Process
    site: SiteId
    groups: Groups
    view: DaemonView
    received: set[int] = field(default_factory=set)
    done: set[int] = field(default_factory=set)  # Delivered, or skipped because they are not for this site.
    walked: int = 0
    frozen: bool = False
    commit: frozenset[Process] = frozenset()
    bound: frozenset[int] = frozenset()  # Messages to which it has committed itself in an attempt.
    own: deque[OrderedMessage] = field(default_factory=deque)
    client: deque[OrderedMessage] = field(default_factory=deque)
    held: bool = False
    alive: bool = True

    @property
    def prefix(self) -> int:
        at = 0
        while at in self.received:
            at += 1
        return at


@dataclass(frozen=True, slots=True)
class Plan:
    received: frozenset[int]
    reached: int
    promised: frozenset[int]
    commit: frozenset[Process]
    together: tuple[Process, ...]
    rifts: tuple[int, ...]


class IdealWorld:
    def __init__(self, sites: list[int], seed: int = 0) -> None:
        """`sites` gives the site of each daemon."""
        self.rng = Random(seed)
        self.site_of = {DaemonId(at): SiteId(site) for at, site in enumerate(sites)}
        self.names = [f"d{at}" for at in range(len(sites))]
        self.counter = 0
        self.labels = 0
        self.now_us = 0
        self.hosts: list[IdealDaemon] = []  # The present incarnation of each daemon.
        self.book = SessionHistories()
        self.sessions = 0
        for at in range(len(sites)):
            self.hosts.append(self._start(DaemonId(at)))

    def _start(self, daemon: DaemonId) -> IdealDaemon:
        self.counter += 1
        process = Process(daemon, Incarnation(100 + self.counter))
        view = DaemonView(ViewId(self.counter, daemon, process.incarnation), (process,), acked={process: set()})
        groups = Groups(process, self.site_of, self.names, OPTIONS)
        host = IdealDaemon(process, self.site_of[daemon], groups, view)
        self._feed(host, [Installed(view.id, (process,), (process,), "start")])
        return host

    # Between the groups and the layers above and below them.

    def _feed(
        self, host: IdealDaemon, events: Iterable[Delivered | Rift | Stamped | TransitionalSignal | Installed]
    ) -> None:
        for event in events:
            self._carry(host, host.groups.step(event, self.now_us))
        self._pump(host)

    def _pump(self, host: IdealDaemon) -> None:
        while (submit := host.groups.next_submission(len(host.client) < 6)) is not None:
            message = OrderedMessage(submit.service, host.process.daemon, submit.session, submit.payload)
            (host.own if submit.session == DAEMON_SESSION else host.client).append(message)

    def _carry(self, host: IdealDaemon, outputs: list[Output]) -> None:
        self.book.record(host.process, outputs)
        for output in outputs:
            if isinstance(output, Resume) and output.view == host.view.id:
                host.held = False
            elif isinstance(output, Withdraw):
                host.own.clear()

    def _trace(self, host: IdealDaemon, session: int) -> Trace:
        return self.book.traces[host.process, session]

    # Clients.

    def connect(self, at: int, name: str) -> int:
        host = self.hosts[at]
        self.sessions += 1
        out = host.groups.step(Connect(self.sessions, name), self.now_us)
        self._carry(host, out)
        if isinstance(out[0], SessionConnected):
            self.book.begin(host.process, out[0], name)
        return self.sessions

    def request(self, at: int, event: JoinGroup | LeaveGroup | Disconnect) -> None:
        host = self.hosts[at]
        self.book.asked(host.process, event)
        self._carry(host, host.groups.step(event, self.now_us))
        self._pump(host)

    def send(
        self,
        at: int,
        session: int,
        service: Service,
        groups: tuple[str, ...],
        self_discard: bool = False,
        retained: bool = False,
    ) -> bytes:
        host = self.hosts[at]
        self.labels += 1
        label = b"m%d" % self.labels
        names = tuple([GroupName(name) for name in groups])
        key = BundleKey(host.process.daemon, session, service, names, self_discard, retained=retained)
        self.book.sent(host.process, key, label)
        event = Send(session, key, encode_bundle(key, [label], [7], [0]))
        self._carry(host, host.groups.step(event, self.now_us))
        self._pump(host)
        return label

    # The order.

    def stamp(self, host: IdealDaemon) -> bool:
        if host.frozen or not host.alive:
            return False
        if host.own:
            message = host.own.popleft()
        elif host.client and not host.held:
            message = host.client.popleft()
        else:
            return False
        view = host.view
        sites = mask_of(*[self.site_of[one.daemon] for one in view.members])
        mask = host.groups.interest.mask(encode_message(message), sites)
        assert mask >> host.site & 1
        view.log.append(Entry(host.process, message, mask))
        at = len(view.log) - 1
        self._feed(host, [Stamped(view.id, message, self._position(view, at))])
        self.receive(host, at)
        return True

    def _position(self, view: DaemonView, at: int) -> Position:
        return Position(at + 1, self.site_of[view.log[at].sender.daemon])

    def missing(self, host: IdealDaemon) -> list[int]:
        if host.frozen or not host.alive:
            return []
        return [at for at in range(len(host.view.log)) if at not in host.received]

    def receive(self, host: IdealDaemon, at: int) -> None:
        entry = host.view.log[at]
        host.received.add(at)
        host.view.acked[host.process].add(at)
        if self._here(host, entry) and entry.message.session == DAEMON_SESSION:
            host.groups.interest.heard(entry.message)
        if entry.message.service is Service.RELIABLE:
            self._deliver(host, at)
        self._early(host)

    def _here(self, host: IdealDaemon, entry: Entry) -> bool:
        return bool(entry.mask >> host.site & 1)

    def _deliver(self, host: IdealDaemon, at: int) -> None:
        if at not in host.done:
            host.done.add(at)
            self._feed(host, self._delivered(host, at))

    def _delivered(self, host: IdealDaemon, at: int) -> list[Delivered]:
        entry = host.view.log[at]
        if not self._here(host, entry):
            return []
        return [Delivered(host.view.id, entry.message, entry.sender, self._position(host.view, at))]

    def _early(self, host: IdealDaemon) -> None:
        """Delivers a FIFO message when all earlier ones of its session have been delivered."""
        passed: dict[tuple[Process, int], bool] = {}
        for at, entry in enumerate(host.view.log):
            key = (entry.sender, entry.message.session)
            goes = entry.message.service is Service.FIFO or not self._here(host, entry)
            if goes and passed.get(key, True) and at in host.received and at not in host.done:
                self._deliver(host, at)
            passed[key] = passed.get(key, True) and at in host.done

    def walk(self, host: IdealDaemon, most: int = 1_000) -> bool:
        moved = False
        while host.alive and not host.frozen and most and host.walked < len(host.view.log):
            at = host.walked
            entry = host.view.log[at]
            if at not in host.received or (
                self._here(host, entry)
                and entry.message.service is Service.SAFE
                and not self._stable(host.view, at)
            ):
                break
            host.walked += 1
            most -= 1
            moved = True
            self._deliver(host, at)
            self._early(host)
        return moved

    def _stable(self, view: DaemonView, at: int) -> bool:
        return all(one in acked for acked in view.acked.values() for one in range(at + 1))

    # Views.

    def attempt(self, hosts: list[IdealDaemon], installers: list[IdealDaemon]) -> None:
        """These daemons attempt to form a view; some drop out after they were bound by it."""
        self.counter += 1
        hosts = sorted(hosts, key=lambda one: one.process)
        first = hosts[0].process
        members = tuple([one.process for one in hosts])
        view = DaemonView(ViewId(self.counter, first.daemon, first.incarnation), members)
        view.acked = {one: set() for one in members}
        for host in hosts:
            if not host.frozen:
                host.frozen, host.commit = True, frozenset([host.process])
                host.bound = frozenset(range(host.prefix))
        plans = [(host, self._decide(host, [one for one in hosts if one.view is host.view])) for host in hosts]
        for host, plan in plans:
            host.received, host.bound, host.commit = set(plan.received), plan.promised, plan.commit
        for host, plan in plans:
            if host in installers:
                self._install(host, view, plan)

    def _decide(self, host: IdealDaemon, mine: list[IdealDaemon]) -> Plan:
        log = host.view.log
        received = {at for one in mine for at in one.received}
        sites = {one.site for one in mine}
        edge = NEVER_HOLE
        for at, entry in enumerate(log):
            holders = [one for one in mine if at in one.received]
            needed = any(entry.mask >> site & 1 for site in sites)
            body = any(self._here(one, entry) for one in holders)
            known = any(log[later].sender == entry.sender for later in received if later >= at)
            if known and (not holders or (needed and not body)):
                edge = min(edge, at)
                received.discard(at)
        promised = frozenset([at for at in received if at < edge]).union(*[one.bound for one in mine])
        commit = frozenset([*[one.process for one in mine], *[each for one in mine for each in one.commit]])
        reached = max(one.walked for one in mine)
        rifts = [at for at in range(reached) if at not in received or self._unstable_safe(host.view, at)]
        together = tuple([one.process for one in mine])
        return Plan(frozenset(received), reached, promised, commit, together, tuple(rifts))

    def _unstable_safe(self, view: DaemonView, at: int) -> bool:
        return view.log[at].message.service is Service.SAFE and not self._stable(view, at)

    def _rift(self, host: IdealDaemon, at: int, plan: Plan, next_view: ViewId) -> list[Delivered | Rift]:
        entry, place = host.view.log[at], self._position(host.view, at)
        if not self._here(host, entry):
            return []
        assert at >= host.walked, "a daemon that went past it is outside its mask"
        lost = at not in plan.received
        return [Rift(host.view.id, place, entry.mask, plan.together, next_view, lost)]

    def _install(self, host: IdealDaemon, view: DaemonView, plan: Plan) -> None:
        before: list[Delivered | Rift] = []
        after: list[Delivered] = []
        for at, entry in enumerate(host.view.log):
            if at in plan.rifts:
                before.extend(self._rift(host, at, plan, view.id))
            if at in host.done or at not in host.received:
                continue
            if at < plan.reached:
                before.extend(self._delivered(host, at))
            elif (
                at in plan.promised
                or entry.sender in plan.commit
                or entry.message.service in (Service.RELIABLE, Service.FIFO)
            ):
                after.extend(self._delivered(host, at))
        old = host.view
        host.view, host.received, host.done, host.walked = view, set(), set(), 0
        host.frozen, host.held = False, True
        events: list[Delivered | Rift | TransitionalSignal | Installed] = [*before]
        events.append(TransitionalSignal(old.id, plan.together, view.id))
        events.extend(after)
        events.append(Installed(view.id, view.members, plan.together, "test", bool(plan.rifts)))
        self._feed(host, events)

    def crash(self, at: int) -> None:
        host = self.hosts[at]
        host.alive = False
        self.book.crashed(host.process)
        self.hosts[at] = self._start(host.process.daemon)

    # Runs to the end.

    def settle(self) -> None:
        """Runs until nothing more happens."""
        while True:
            moved = False
            for host in self.hosts:
                self._pump(host)
                while self.stamp(host):
                    moved = True
                for at in self.missing(host):
                    self.receive(host, at)
                    moved = True
            for host in self.hosts:
                moved = self.walk(host) or moved
            if not moved:
                return

    def unite(self) -> None:
        """Merges all daemons in one view and runs until nothing is in flight."""
        self.attempt(self.hosts, self.hosts)
        self.settle()
