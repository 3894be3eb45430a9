"""A cluster with clients in virtual time: sessions at its daemons, and groups above the real membership.

The requests and events of sessions are recorded in the same history as those of their daemons. A daemon's
messages are group messages and the bundles of its sessions. A bundle whose body does not go to all sites is
left out of the daemons' history, because not all of them deliver it; the clients' has it. Majority messages are
in the daemons' history only: sides of a split withhold them, which EVS-C does not know.
"""

from collections import deque
from struct import Struct
from typing import Final

from hopring.check import trace
from hopring.compiled import mypyc_attr
from hopring.config.model import Config
from hopring.engine import (
    Delivered,
    Installed,
    Resume,
    Rift,
    Stamped,
    SubmitMessage,
    TransitionalSignal,
    Withdraw,
    Withheld,
)
from hopring.errors import PeerError
from hopring.groups import events as group_events
from hopring.groups.events import (
    Connect,
    DeliverBundle,
    Disconnect,
    JoinGroup,
    LeaveGroup,
    Request,
    Send,
    ShowSignal,
    ShowView,
)
from hopring.groups.groups import Groups, GroupsOptions
from hopring.groups.names import GroupMember, GroupViewId
from hopring.groups.payloads import is_group_message, split_sender
from hopring.ids import NEVER, DaemonId, GroupName, Incarnation, SiteMask, ViewId
from hopring.membership.current_network import LocalDaemon
from hopring.membership.events import Input, Output
from hopring.membership.membership import Membership
from hopring.membership.options import MembershipOptions
from hopring.ordering.destinations import Destinations
from hopring.ordering.entry import OrderedMessage, payload_of
from hopring.ordering.holders import MAJORITY
from hopring.session.lock_frames import LockOutput
from hopring.sim.cluster import SimCluster, SimDaemon, stamp, view_name
from hopring.sim.driver import Driver
from hopring.sim.faulty_daemon import FaultyPlan
from hopring.sim.path import Quality
from hopring.stack_events import DEFAULTS, StackOptions
from hopring.wire.bundle import Bundle, BundleKey, decode_bundle, encode_bundle

# daemon, incarnation, session, number: a message's name, in front of its body.
NAME: Final = Struct("<HQII")

Key = bytes | tuple[object, ...]
"""Identifies a message of a daemon: a bundle by its first message, a group message by its position."""


class RecordedDestinations(Destinations):
    """The interest of a daemon's groups; records every bundle that does not go to all sites."""

    def __init__(self, inner: Destinations, pruned: set[Key]) -> None:
        self._inner = inner
        self._pruned = pruned

    def mask(self, bundle: bytes, sites: SiteMask) -> SiteMask:
        """The mask that the groups give; records a bundle that does not go to all sites."""
        mask = self._inner.mask(bundle, sites)
        if mask != sites:
            self._pruned.add(first_name(payload_of(bundle)))
        return mask

    def heard(self, message: OrderedMessage) -> None:
        """Passes a received message on to the groups."""
        self._inner.heard(message)


def group_view_name(view: GroupViewId) -> trace.GroupViewName:
    """The name of a group's view in the trace."""
    path = tuple([view_name(one) for one in view.path])
    return trace.GroupViewName(view_name(view.view), path, view.step)


def first_name(payload: bytes | memoryview) -> bytes:
    """The name of a bundle's first message."""
    bundle: Bundle = decode_bundle(split_sender(payload)[1])
    return bytes(bundle.message(0)[: NAME.size])


class SimClientDaemon(SimDaemon):
    """One run of a daemon with groups and sessions."""

    groups: Groups
    groups_driver: Driver[group_events.Input, group_events.Output]

    @property
    def home(self) -> "SimClientCluster":
        """The cluster of this daemon, as one with clients."""
        assert isinstance(self.cluster, SimClientCluster), "daemons with groups live in a cluster with clients"
        return self.cluster

    def make_membership(self, who: LocalDaemon) -> Membership:
        """A membership with pruning, in which clients wait until the groups are known."""
        cluster = self.home
        site_of = {DaemonId(at): site for at, site in enumerate(who.topology.site_of)}
        names = [cluster.names[one] for one in sorted(cluster.names)]
        self.groups = Groups(self.me, site_of, names, cluster.groups_options)
        self.groups_driver = Driver(cluster.network, self.name, self.groups, self._show, self._pump)
        self.sessions: dict[int, set[GroupName]] = {}  # The groups that each open session asked to join.
        self._numbers: dict[int, int] = {}  # By session: its messages so far.
        self._down: deque[Resume | Withdraw] = deque()
        self._at_work = False
        self._refused = False
        destinations = RecordedDestinations(self.groups.interest, cluster.pruned)
        options = cluster.options, cluster.stack_options, destinations
        return Membership(who, cluster.counters[self.name], cluster.engine.now_us, *options)

    def make_driver(self) -> Driver[Input, Output]:
        """The driver of the membership; after each step it submits the messages of the groups."""
        return Driver(self.home.network, self.name, self.membership, self._carry_out, self._pump)

    # Requests of clients.

    def connect(self, name: str, impatient: bool = False) -> int | None:
        """Opens a session and returns its number, or None if it is refused.

        An impatient one does not wait for suspended groups.
        """
        self.home.sessions += 1
        session = self.home.sessions
        return session if self._ask(Connect(session, name, impatient=impatient), None) else None

    def join(self, session: int, group: GroupName, minimum: int = 0) -> None:
        """Requests a join of the session to a group."""
        asks = trace.AsksJoin(self._client(session), self.home.engine.now_us, group)
        if self._ask(JoinGroup(session, group, minimum), asks):
            self.sessions[session].add(group)

    def leave(self, session: int, group: GroupName) -> None:
        """Requests that the session leaves a group."""
        asks = trace.AsksLeave(self._client(session), self.home.engine.now_us, group)
        if self._ask(LeaveGroup(session, group), asks):
            self.sessions[session].discard(group)

    def claim(self, session: int, group: GroupName, lock: str, serial: int, partial: bool) -> None:
        """Claims a lock for a session."""
        self._ask(group_events.ClaimLock(session, group, lock, serial, partial), None)

    def release(self, session: int, serial: int) -> None:
        """Gives up a claim of a session."""
        self._ask(group_events.ReleaseLock(session, serial), None)

    def disconnect(self, session: int) -> None:
        """Ends a session in an orderly way."""
        del self.sessions[session]
        asks = trace.AsksEnd(self._client(session), self.home.engine.now_us)
        self._ask(Disconnect(session), asks)

    def next_name(self, session: int) -> bytes:
        """The name of the next message of a session."""
        return NAME.pack(*self.me, session, self._numbers.get(session, 0) + 1)

    def send(
        self,
        key: BundleKey,
        sizes: tuple[int, ...],
        places: tuple[int, ...] = (),
        payloads: tuple[bytes, ...] = (),
        deadline_us: int = NEVER,
    ) -> None:
        """Sends messages of these sizes in one bundle; `places` names the group of each if it is mixed.

        Without payloads the messages contain zeros.
        """
        if not self.groups.requests.accepts(key.session):
            return
        client, bodies = self._client(key.session), []
        self._at_work = True
        for at, size in enumerate(sizes):
            groups = (key.groups[places[at]],) if key.mixed else key.groups
            number = self._numbers[key.session] = self._numbers.get(key.session, 0) + 1
            payload = payloads[at] if payloads else bytes(size)
            bodies.append(NAME.pack(*self.me, key.session, number) + payload)
            name = trace.MessageId(self.name, self.me.incarnation, number, key.session)
            asks = key.self_discard, key.resilience
            parts = client, self.home.engine.now_us, groups, name, key.service, size, *asks
            if key.resilience != MAJORITY and self.home.unjudged.isdisjoint(groups):
                self.home.note(trace.ClientSent(*parts))
        zeros = [0] * len(bodies)
        self._at_work = False
        self.groups_driver.step(
            Send(key.session, key, encode_bundle(key, bodies, zeros, zeros, places), deadline_us)
        )

    def _ask(self, event: Request, asks: trace.Event | None) -> bool:
        """Makes a request; records it before its effects, and returns whether it was accepted."""
        self._at_work, self._refused = True, False
        self.groups_driver.step(event)
        if asks is not None and not self._refused:
            self.home.note(asks)
        self._at_work = False
        self._pump()
        return not self._refused

    def _client(self, session: int) -> trace.ProcessName:
        return self.process._replace(session=session)

    # Between groups and membership.

    def _carry_out(self, output: Output) -> None:
        if isinstance(output, Withheld):
            self._note_message(output)
        elif isinstance(output, (Stamped, Delivered)):
            self._note_message(output)
            self._tell(output)
            if isinstance(output, Delivered):
                self.home.ordered(self, output)
        elif isinstance(output, Rift):
            self._tell(output)
        elif isinstance(output, (TransitionalSignal, Installed)):
            if isinstance(output, Installed) and output.primary:
                self.home.primary_views.add(output.view)
            super()._carry_out(output)
            self._tell(output)
        else:
            super()._carry_out(output)

    def _tell(self, output: Stamped | Delivered | Rift | TransitionalSignal | Installed) -> None:
        """Passes an output to the groups; their messages wait until the membership's step is over."""
        before, self._at_work = self._at_work, True
        self.groups_driver.step(output)
        self._at_work = before

    def _pump(self) -> None:
        if self._at_work:
            return
        self._at_work = True
        while True:
            event = self._down.popleft() if self._down else self._next_submission()
            if event is None:
                break
            self.driver.step(event)
        self._at_work = False

    def _next_submission(self) -> SubmitMessage | None:
        submission = self.groups.next_submission(self.membership.queue_open, now_us=self.home.engine.now_us)
        if self.groups.has_dropped:
            for send in self.groups.take_expired():
                self._unsend(send)
                self.home.expired(self, send)
            for send in self.groups.take_refused():
                self._unsend(send)
                self.home.refused(self, send)
        return submission

    def _unsend(self, send: Send) -> None:
        """Takes messages out of the history that were dropped before they were sent."""
        names = {bytes(one[: NAME.size]) for one in decode_bundle(send.bundle).messages()}
        history = self.home.history
        for at in range(len(history) - 1, -1, -1):
            event = history[at]
            if not isinstance(event, trace.ClientSent):
                continue
            one = event.message
            if NAME.pack(self.me.daemon, one.incarnation, one.session, one.number) in names:
                del history[at]
                names.discard(NAME.pack(self.me.daemon, one.incarnation, one.session, one.number))
                if not names:
                    return

    def _note_message(self, output: Stamped | Delivered | Withheld) -> None:
        message, view = output.message, view_name(output.view)
        if is_group_message(message.payload):
            key: Key = (output.view, output.position)
        else:
            try:
                key = first_name(message.payload)
            except PeerError:
                assert self.home.faulty is not None, "only a faulty daemon sends bundles that do not decode"
                return
        if key in self.home.pruned:
            return
        number = self.home.messages.setdefault(key, len(self.home.messages) + 1)
        owner = self.me if isinstance(output, Stamped) else output.sender
        name = trace.MessageId(self.home.names[owner.daemon], owner.incarnation, number)
        self.home.session_of[name] = message.session
        place = stamp(view, output.position)
        parts = self.process, self.home.engine.now_us, view, name, message.service, place
        sent = isinstance(output, Stamped)
        self.home.note(
            trace.MessageSent(*parts, len(message.payload), message.resilience)
            if sent
            else trace.MessageDelivered(*parts, isinstance(output, Withheld))
        )

    # Events of clients.

    def _show(self, output: group_events.Output) -> None:
        at_us = self.home.engine.now_us
        if isinstance(output, (Resume, Withdraw)):
            self._down.append(output)
        elif isinstance(output, DeliverBundle):
            self._deliver(output)
        elif isinstance(output, ShowView):
            self.home.shown(self, output)
            sets = self._members(output.view.members), self._members(output.view.together)
            parts = at_us, output.view.group, group_view_name(output.view.id), *sets, str(output.view.cause)
            for one in output.sessions:
                self.home.note(trace.GroupInstalled(self._client(one), *parts))
        elif isinstance(output, ShowSignal):
            self.home.shown(self, output)
            for one in output.sessions:
                closes = output.group, group_view_name(output.id), self._members(output.together)
                self.home.note(trace.GroupSignal(self._client(one), at_us, *closes))
        elif isinstance(output, group_events.LeftGroup):
            self.home.shown(self, output)
            self.home.note(trace.GroupLeft(self._client(output.session), at_us, output.group))
        elif isinstance(output, group_events.ShowRetained):
            self.home.retained(self, output)
        elif isinstance(output, (group_events.LockGranted, group_events.LockEnded, group_events.LeaseRenewed)):
            self.home.locked(self, output)
        elif isinstance(output, group_events.SessionGone):
            self.home.note(trace.Gone(self._client(output.session), at_us))
        elif isinstance(output, group_events.GroupRequestRefused):
            self._refused = True
        elif isinstance(output, group_events.SessionConnected):
            self.sessions[output.session] = set()
            name = output.private_group.split("#")[1]
            self.home.note(
                trace.ClientConnected(self._client(output.session), at_us, name, output.private_group)
            )

    def _deliver(self, output: DeliverBundle) -> None:
        bundle, view = output.bundle, view_name(output.view)
        names = self.home.names
        for place, body in enumerate(bundle.messages()):
            if output.only is not None and place not in output.only:
                continue
            if self.home.faulty is not None and len(body) < NAME.size:
                continue
            daemon, incarnation, session, number = NAME.unpack_from(body)
            if self.home.faulty is not None and daemon not in names:
                continue
            name = trace.MessageId(names[daemon], incarnation, number, session)
            ord = stamp(view, output.position)._replace(place=place)
            parts = self.home.engine.now_us, bundle.groups_of(place), name, bundle.key.service, ord
            judged = bundle.key.resilience != MAJORITY and self.home.unjudged.isdisjoint(parts[1])
            for one in output.sessions:
                if judged:
                    self.home.note(trace.ClientDelivered(self._client(one), *parts))
                self.home.heard(self, one, output, place)

    def _members(self, members: tuple[GroupMember, ...]) -> tuple[trace.ProcessName, ...]:
        names = self.home.names
        return tuple([trace.ProcessName(names[one.daemon], one.incarnation, one.session) for one in members])


@mypyc_attr(allow_interpreted_subclasses=True)
class SimClientCluster(SimCluster):
    """A simulated cluster whose daemons serve clients."""

    def __init__(
        self,
        config: Config,
        seed: int,
        quality: Quality | None = None,
        options: MembershipOptions | None = None,
        stack_options: StackOptions = DEFAULTS,
        link_counters_us: int = 0,
        groups_options: GroupsOptions | None = None,
        sealed: bool = False,
        faulty: FaultyPlan | None = None,
        mark_us: int | None = None,
    ) -> None:
        super().__init__(
            config, seed, quality, options, stack_options, link_counters_us, sealed, faulty, mark_us
        )
        self.groups_options = groups_options or GroupsOptions()
        self.sessions = 0  # How many there were; session numbers are unique in the cluster.
        self.primary_views: set[ViewId] = set()
        self.unjudged: frozenset[GroupName] = frozenset()  # Groups whose messages the history leaves out.
        self.pruned: set[Key] = set()
        self.messages: dict[Key, int] = {}
        self.session_of: dict[trace.MessageId, int] = {}

    def make_host(self, name: str, incarnation: Incarnation) -> SimClientDaemon:
        """Creates a daemon with groups and sessions."""
        return SimClientDaemon(self, name, incarnation)

    def heard(self, host: SimClientDaemon, session: int, output: DeliverBundle, at: int) -> None:
        """Called for each message that a session gets, for clusters whose clients react to messages."""

    def shown(self, host: SimClientDaemon, output: ShowView | ShowSignal | group_events.LeftGroup) -> None:
        """Called for each view, signal and end of a leave, for clusters whose clients react to them."""

    def ordered(self, host: SimClientDaemon, output: Delivered) -> None:
        """Called when a daemon has delivered a message of its engine, for such clusters."""

    def retained(self, host: SimClientDaemon, output: group_events.ShowRetained) -> None:
        """Called for each retained value that is shown, for clusters whose clients use them."""

    def locked(self, host: SimClientDaemon, output: LockOutput) -> None:
        """Called for each word about a lock to a session, for clusters whose clients use locks."""

    def expired(self, host: SimClientDaemon, send: Send) -> None:
        """Called for each bundle whose time to live has ended, for clusters whose clients use one."""

    def refused(self, host: SimClientDaemon, send: Send) -> None:
        """Called for each bundle that an impatient session sent to a suspended group."""

    def client_host(self, name: str) -> SimClientDaemon:
        """The running daemon of this name."""
        host = self.hosts[name]
        assert isinstance(host, SimClientDaemon), "all daemons here have groups"
        return host

    def crash(self, name: str) -> None:
        """Ends a daemon, and all its sessions with it."""
        self.client_host(name).groups_driver.stop()
        super().crash(name)
