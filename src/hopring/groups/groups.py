"""Groups: views and messages of many groups on top of the daemons' one view and order. The main class.

Implements  thesis 6.4 (states GOP, GTRANS, GGATHER, GGT) and 3.4.2; EVS-C of chapter 2.
Below       the membership: ordered messages, transitional signals, views of daemons. `next_submission` returns
            the messages to submit there; the membership asks `interest` for the masks of bundles.
Above       sessions: requests go in; views, signals and messages come out, in one ordered stream.
Invariants  in GOP no group is signalled; outside of GOP requests wait, and none is lost; the table and the ids
            are the same at all daemons of a view that are in GOP at the same place in the order.
Deviations  see docs/protocols/groups.md.
"""

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from hopring.engine import (
    Delivered,
    Installed,
    Resume,
    Rift,
    Stamped,
    SubmitMessage,
    TransitionalSignal,
    Withdraw,
)
from hopring.errors import Drop, PeerError
from hopring.groups.backpressure import Backpressure
from hopring.groups.delivery import EarlyMessages, GroupDelivery, groups_of
from hopring.groups.events import (
    Cause,
    ClaimLock,
    Connect,
    Disconnect,
    Input,
    JoinGroup,
    LeaveGroup,
    LockEnded,
    Output,
    PresenceReport,
    ReleaseLock,
    Send,
    SessionGone,
    ShowRetained,
)
from hopring.groups.exchange import GroupsExchange, groups_parts
from hopring.groups.interest import InterestTable, OwnInterest
from hopring.groups.interface import GroupsInterface
from hopring.groups.leases import Leases
from hopring.groups.locks import LockClaim, LockEnd, LockTable
from hopring.groups.messages import (
    CHANGES_BY,
    GroupHold,
    GroupInterest,
    GroupJoin,
    GroupKill,
    GroupLeave,
    GroupLock,
    GroupMessage,
    GroupPresence,
    GroupsPart,
    GroupUnlock,
    LeaseRenew,
    LeasesLapsed,
    OfDaemon,
    decode_group_message,
    encode_group_message,
    service_of,
)
from hopring.groups.minimum import Suspensions
from hopring.groups.names import GroupMember, is_legal_group, is_legal_session
from hopring.groups.payloads import is_group_message
from hopring.groups.private_groups import split_private
from hopring.groups.requests import Requests
from hopring.groups.retained import RetainedValues, with_values
from hopring.groups.views import GroupViews, ViewNumbering
from hopring.ids import NEVER, DaemonId, GroupName, Incarnation, Place, Process, SiteId, ViewId
from hopring.links.events import Tick
from hopring.ordering.entry import DAEMON_SESSION, Position
from hopring.wire.bundle import is_retained

NO_VIEW: Final = ViewId(0, DaemonId(0), Incarnation(0))
"""The view id before the first view."""


class GroupsState(Enum):
    """The states of the thesis."""

    GOP = "gop"
    GTRANS = "gtrans"  # The daemons' view is closing.
    GGATHER = "ggather"  # They have a new view and exchange GROUPS.
    GGT = "ggt"  # That view is closing before the exchange is complete.


@dataclass(frozen=True, slots=True)
class GroupsOptions:
    """Limits and times of groups."""

    session_queue_bytes_max: int = 4 * 1024 * 1024  # Of the queued requests of one session.
    groups_bytes_max: int = 48 * 1024  # Of one part of GROUPS, approximately.
    linger_us: int = 120_000_000  # How long a daemon keeps its interest in a group without local members.
    lease_us: int = 2_000_000  # Of locks; the same at all daemons.


class Groups(GroupsInterface):
    """The groups as one daemon knows them."""

    def __init__(
        self,
        me: Process,
        site_of: Mapping[DaemonId, SiteId],
        names: Sequence[str],
        options: GroupsOptions | None = None,
    ) -> None:
        """`names` are those of all daemons, by number."""
        self.options = options or GroupsOptions()
        super().__init__(me, names, self.options.session_queue_bytes_max)
        self.state = GroupsState.GOP
        self.view: ViewId | None = None  # RMemb_id; None until the first.
        self.members: frozenset[Process] = frozenset()  # RMemb.
        self.primary = False  # Whether the daemons' view is.
        self.epoch = 0  # Its place in the chain of primary views; 0 if it is none, or not known for sure.
        numbers = {name: DaemonId(at) for at, name in enumerate(names)}
        self.interest = InterestTable(me.daemon, site_of, numbers)
        self.own = OwnInterest(self.options.linger_us)
        limit = self.options.session_queue_bytes_max
        self.requests = Requests(me.daemon, self.names[me.daemon], limit, self.table, self.own)
        self.backpressure = Backpressure(self.requests.sessions)
        self.locks = self.lock_table = LockTable()
        suspensions = Suspensions(self.requests.sessions, self.locks, self.suspended)
        self.views = GroupViews(me, self.table, ViewNumbering(NO_VIEW), suspensions)
        self.leases = Leases(self.options.lease_us)
        self.early = EarlyMessages(me.daemon)
        sessions = self.requests.sessions
        self.delivery = GroupDelivery(me, tuple(names), self.table, sessions, self.early, self.suspended)
        self._site_of = dict(site_of)
        self._one_site = True
        self._signal: TransitionalSignal | None = None  # Of the view that is closing.
        self._exchange: GroupsExchange | None = None  # In GGATHER and GGT.
        # Reliable and FIFO messages from daemons that already have all GROUPS; the senders' windows limit them.
        self._ahead: list[Delivered] = []
        self.retained = RetainedValues()
        self._speaks = True  # Whether this daemon's GROUPS has the values of those who stay together with it.
        self._exchanged: list[GroupName] = []  # The interest in this daemon's GROUPS.
        self._parts: list[GroupsPart] = []  # This daemon's GROUPS of the exchange.
        self._lock_messages: deque[SubmitMessage] = deque()  # RENEW and LAPSED of this view.
        self._lapse_at_us = NEVER  # When to send LAPSED.
        self._daemon_messages: deque[SubmitMessage] = deque()  # GROUPS to submit; they precede all else.

    @property
    def wake_at_us(self) -> int:
        """When the next tick is due."""
        at_us = min(self._lapse_at_us if self.state is GroupsState.GOP else NEVER, self.own.wake_at_us)
        # Of two, because compiled code calls `min` of three, a thousand instructions in each turn of the loop.
        return min(min(at_us, self.requests.sessions.expires_at_us), self.leases.wake_at_us)  # noqa: PLW3301

    def queued_bytes(self, session: int) -> int:
        """The size of a session's requests that are not submitted; 0 for an unknown session."""
        return self.requests.queued_bytes(session)

    def has_session(self, name: str) -> bool:
        """Whether a session of this daemon has this name."""
        return name in self.requests.sessions.by_name

    @property
    def joins(self) -> int:
        """How many groups the sessions of this daemon are in or want to join, each counted by session."""
        return self.requests.joins

    def groups_wanted(self, session: int) -> Collection[GroupName]:
        """The groups that this session is in or asked to join."""
        return self.requests.sessions.by_number[session].wants

    def block(self, groups: Collection[GroupName]) -> None:
        """Holds back messages to these groups at all daemons, until as many calls of `unblock`."""
        self.backpressure.block(groups)

    def unblock(self, groups: Collection[GroupName]) -> None:
        """Ends one `block` of these groups."""
        self.backpressure.unblock(groups)

    @property
    def settled(self) -> bool:
        """Whether no view of the daemons is closing, and no GROUPS are being exchanged."""
        return self.state is GroupsState.GOP

    @property
    def phase(self) -> str:
        """The state by its name."""
        return self.state.value

    def is_closing(self, _group: GroupName) -> bool:
        """Whether the daemons' view is closing: those of all groups close with it."""
        return self.state in (GroupsState.GTRANS, GroupsState.GGT)

    def is_primary(self, _group: GroupName | None) -> bool:
        """Whether the daemons' view is primary."""
        return self.primary

    @property
    def holders_max(self) -> int:
        """The number of configured daemons."""
        return len(self.names)

    def private_holder(self, group: GroupName) -> GroupMember | Process | None:
        """The session of this daemon that a private group stands for, or the daemon that reports it."""
        name, daemon = split_private(group)
        process = next((one for one in self.members if self.names[one.daemon] == daemon), None)
        if process != self.me:
            return process
        session = self.requests.sessions.by_name.get(name)
        return (
            None if session is None else GroupMember(self.me.daemon, name, self.me.incarnation, session.number)
        )

    @property
    def idle(self) -> bool:
        """Whether no request of a session or message of the daemon is queued."""
        return not self._daemon_messages and not self._lock_messages and self.requests.idle

    def next_submission(
        self, queue_open: bool, bulk_open: bool = True, now_us: int = 0
    ) -> SubmitMessage | None:
        """Takes the next message for the engine, if there is one; clients' messages only if `queue_open`.

        Sessions without priority also need `bulk_open`. Messages whose time to live has ended are dropped.
        """
        self.requests.sessions.time_passes(now_us)
        if self._daemon_messages:
            return self._daemon_messages.popleft()
        if self.state is not GroupsState.GOP or self.view is None:
            return None
        if self._lock_messages:
            return self._lock_messages.popleft()
        held = self.backpressure.next_message()
        if held is not None:
            return _submission(held)
        present = self.delivery.next_presence(self.view)
        if present is not None:
            return _submission(present)
        message = self.requests.next_submission(self._one_site, queue_open, bulk_open)
        return _submission(message) if isinstance(message, GroupInterest) else message

    @property
    def has_dropped(self) -> bool:
        """Whether messages were dropped: `take_expired` or `take_refused` has them."""
        sessions = self.requests.sessions
        return bool(sessions.expired or sessions.refused)

    def take_expired(self) -> list[Send]:
        """The messages that were dropped because their time to live had ended."""
        sessions = self.requests.sessions
        expired, sessions.expired = sessions.expired, []
        return expired

    def take_refused(self) -> list[Send]:
        """The messages that were dropped because their groups are suspended, and their sessions do not wait."""
        sessions = self.requests.sessions
        refused, sessions.refused = sessions.refused, []
        return refused

    def step(self, event: Input, now_us: int) -> list[Output]:
        """Handles one event; a peer's mistake is dropped and counted."""
        try:
            self._handle(event, now_us)
        except PeerError as error:
            self.drops[error.reason] += 1
        if self.locks.out or now_us >= self.leases.wake_at_us or now_us >= self._lapse_at_us:
            self._tend_locks(now_us)
        out, self.views.out = self.views.out, []
        return out

    def _handle(self, event: Input, now_us: int) -> None:
        if isinstance(event, Delivered):
            self._delivered(event, now_us)
        elif isinstance(event, Stamped):
            self._stamped(event)
        elif isinstance(event, Send):
            self.requests.send(event)
        elif isinstance(event, (JoinGroup, LeaveGroup)):
            self._emit(self.requests.ask(event))
        elif isinstance(event, ClaimLock):
            self._emit(self.requests.claim(event))
        elif isinstance(event, ReleaseLock):
            self.requests.release(event)
        elif isinstance(event, Connect):
            self._emit(self.requests.connect(event))
        elif isinstance(event, Disconnect):
            self.requests.disconnect(event.session, now_us)
        elif isinstance(event, Rift):
            self._rift(event)
        elif isinstance(event, TransitionalSignal):
            self._signalled(event)
        elif isinstance(event, Installed):
            self._installed(event, now_us)
        elif isinstance(event, Tick):
            self.own.tick(now_us)

    def _emit(self, output: Output | None) -> None:
        if output is not None:
            self.views.out.append(output)

    # Messages.

    def _stamped(self, event: Stamped) -> None:
        message = event.message
        if message.service is CHANGES_BY and is_group_message(message.payload):
            group_message = decode_group_message(message.payload, message.service)
            if isinstance(group_message, GroupJoin):
                self.requests.check_join(message.session, group_message)
                self.early.stamped(message.session, GroupName(group_message.group), event.position)

    def _delivered(self, event: Delivered, now_us: int) -> None:
        message = event.message
        if not is_group_message(message.payload):
            self._client_message(event)
            return
        group_message = decode_group_message(message.payload, message.service)
        if isinstance(group_message, OfDaemon) is not (message.session == DAEMON_SESSION):
            raise PeerError(Drop.INCONSISTENT, f"{type(group_message).__name__} of session {message.session}")
        if isinstance(group_message, GroupsPart):
            self._groups(event.sender, group_message)
        elif isinstance(group_message, GroupInterest):
            self.interest.delivered(event.sender.daemon, group_message)
            if event.sender == self.me:
                self.requests.known(self.own.announced(group_message))
        elif isinstance(group_message, GroupHold):
            if event.sender != self.me:
                self.backpressure.apply(event.sender.daemon, group_message)
        elif isinstance(group_message, GroupPresence):
            self._present(event.sender, group_message)
        elif isinstance(group_message, LeaseRenew | LeasesLapsed) and group_message.view != self.view:
            pass  # Submitted in the view before.
        elif self._exchange is not None:
            # The others are held back until all GROUPS are delivered, and GROUPS are Safe.
            raise PeerError(Drop.INCONSISTENT, f"{type(group_message).__name__} before GROUPS are complete")
        else:
            self._changed(group_message, event, now_us)

    def _changed(
        self,
        message: GroupJoin | GroupLeave | GroupKill | GroupLock | GroupUnlock | LeaseRenew | LeasesLapsed,
        event: Delivered,
        now_us: int,
    ) -> None:
        """Members or locks change at this place in the order."""
        self.locks.place = Place(event.view, *event.position)
        if isinstance(message, (GroupJoin, GroupLeave, GroupKill)):
            self._change(message, event, now_us)
        else:
            self._lock_message(message, event, now_us)

    # Locks.

    def _lock_message(
        self, message: GroupLock | GroupUnlock | LeaseRenew | LeasesLapsed, event: Delivered, now_us: int
    ) -> None:
        if isinstance(message, GroupLock):
            self._claim(message, event)
        elif isinstance(message, GroupUnlock):
            self.locks.release(event.sender, event.message.session, message.serial)
        elif isinstance(message, LeasesLapsed):
            if event.sender != min(self.members):
                raise PeerError(Drop.FOREIGN_SENDER, f"LAPSED of daemon {event.sender.daemon}")
            self.locks.lapse()
        elif event.sender == self.me and self.state is GroupsState.GOP:
            # After the signal it proves nothing.
            self.views.out.extend(self.leases.renewed(message.number, now_us))

    def _claim(self, message: GroupLock, event: Delivered) -> None:
        key, session = (GroupName(message.group), message.lock), event.message.session
        member = self.table.member(event.sender, session, key[0])
        if member is not None:
            self.locks.claim(key, LockClaim(self.locks.place, member, message.serial, message.partial))
        elif event.sender == self.me:
            self._emit(LockEnded(session, message.serial, *key, LockEnd.NOT_A_MEMBER))

    def _begin_locks(self, view: ViewId) -> None:
        """All daemons of this view know the same of locks."""
        self.locks.begin(self.primary, self.epoch, view.counter)
        self.leases.begin()
        if not self.locks.lapsing:
            self._lapse_at_us = NEVER

    def _tend_locks(self, now_us: int) -> None:
        """Tells sessions what has become of their locks, and sends the messages that are due."""
        changes, self.locks.out = self.locks.out, []
        for change in changes:
            member = change.claim.member
            if member.process == self.me and member.session in self.requests.sessions.by_number:
                self.views.out.extend(self.leases.change(change, now_us))
        expired = self.leases.expire(now_us)
        self.views.out.extend(expired)
        for one in expired:
            if isinstance(one, LockEnded):
                self.requests.release(ReleaseLock(one.session, one.serial))
        if self.state is not GroupsState.GOP or self.view is None:
            self.leases.renew_at_us = NEVER  # Until the next view.
            return
        renew = self.leases.due(self.view, now_us)
        if renew is not None:
            self._lock_messages.append(_submission(renew))
        if now_us >= self._lapse_at_us:
            self._lapse_at_us = NEVER
            if self.locks.lapsing and self.me == min(self.members):
                self._lock_messages.append(_submission(LeasesLapsed(self.view)))

    def _client_message(self, event: Delivered) -> None:
        message = event.message
        if self._exchange is not None and message.service.early:
            self._ahead.append(event)
            return
        if self.state is GroupsState.GTRANS and message.service.total:
            self.views.close_addressed(groups_of(event))
        if is_retained(message.payload) and (kept := self.delivery.retained(event)) is not None:
            self.retained.put(*kept)
        self.views.out.extend(self.delivery.deliver(event))

    def _show_retained(self, sessions: tuple[int, ...], group: GroupName) -> None:
        value = self.retained.by_group.get(group)
        if sessions and value is not None:
            self._emit(ShowRetained(sessions, group, value))

    def _catch_up(self) -> None:
        """Delivers the messages that came ahead of the last GROUPS."""
        ahead, self._ahead = self._ahead, []
        for event in ahead:
            try:
                self.views.out.extend(self.delivery.deliver(event))
            except PeerError as error:
                # The others are delivered all the same, and the change of view goes on.
                self.drops[error.reason] += 1

    def _present(self, sender: Process, presence: GroupPresence) -> None:
        if presence.view != self.view or sender == self.me:
            return
        for one in presence.answers:
            if one.daemon == self.me.daemon:
                self._emit(PresenceReport(one.session, Position(one.lts, one.site), sender, one.present))

    def _change(self, change: GroupJoin | GroupLeave | GroupKill, event: Delivered, now_us: int) -> None:
        sender, message = event.sender, event.message
        if isinstance(change, GroupJoin):
            self._join(change, event)
        elif isinstance(change, GroupLeave):
            self._remove(event, GroupName(change.group), Cause.LEAVE, now_us)
        elif isinstance(change, GroupKill):
            if sender == self.me:
                self.requests.check_kill(message.session)
            for name in self.table.groups_of(sender, message.session):
                self._remove(event, name, Cause.DISCONNECT, now_us)
            if sender == self.me:
                self.leases.forget(message.session)
                self._emit(SessionGone(message.session, self.requests.sessions.end(message.session)))

    def _join(self, change: GroupJoin, event: Delivered) -> None:
        sender, message, name = event.sender, event.message, GroupName(change.group)
        if not is_legal_group(name) or not is_legal_session(change.name, self.names[sender.daemon]):
            raise PeerError(Drop.INCONSISTENT, f"JOIN of {change.name!r} to {name!r}")
        if self.table.member(sender, message.session, name) is not None:
            raise PeerError(Drop.INCONSISTENT, f"second JOIN of session {message.session} to {name!r}")
        if (self.table.name_of(sender, message.session) or change.name) != change.name:
            raise PeerError(Drop.INCONSISTENT, f"session {message.session} joins as {change.name!r} too")
        if sender == self.me:
            self.requests.check_join(message.session, change)
        joiner = GroupMember(sender.daemon, change.name, sender.incarnation, message.session)
        self.views.join(joiner, name, event.position, change.minimum)
        if sender == self.me:
            self.requests.joined(name)
            self._show_retained((message.session,), name)
            self.views.out.extend(self.delivery.joined(event.position))
        self.views.joined(name)

    def _remove(self, event: Delivered, name: GroupName, cause: Cause, now_us: int) -> None:
        member = self.table.member(event.sender, event.message.session, name)
        if member is not None:
            self.views.remove(member, name, cause, event.position)
            self.locks.leave(name, member)
            if event.sender == self.me:
                self.requests.mark_if_idle(name, now_us)

    # The daemons' views.

    def _rift(self, event: Rift) -> None:
        if self._exchange is not None:
            # Nothing is pruned before all GROUPS are delivered, so there can be no rift.
            raise PeerError(Drop.INCONSISTENT, "a rift before GROUPS are complete")
        self.views.close_early(event, self._site_of)

    def _signalled(self, event: TransitionalSignal) -> None:
        assert self._signal is None, "a view closes once"
        self._signal = event
        if self.state is GroupsState.GGATHER:
            # It is not known yet whether the views from GROUPS come before or after this signal.
            self.state = GroupsState.GGT
        else:
            self._trans(event)

    def _trans(self, event: TransitionalSignal) -> None:
        self.state = GroupsState.GTRANS
        self.locks.close()
        self.views.close(frozenset(event.together), event.next_view, event.primary)

    def _installed(self, event: Installed, now_us: int) -> None:
        signal, self._signal = self._signal, None
        together = frozenset(event.together)
        left, self.view = self.view, event.view
        self.members = frozenset(event.members)
        self.primary, self.epoch = bool(event.primary), event.epoch
        self.backpressure.begin()
        self.locks.place = Place(event.view, 0, 0)
        self._lapse_at_us = now_us + self.options.lease_us
        self._lock_messages.clear()
        self._one_site = len({self._site_of[one.daemon] for one in self.members}) == 1
        if signal is None or left is None:
            assert self.views.ids.view == NO_VIEW, "every view but the first follows a signal"
            self.views.begin_unchanged(event.view, self.primary)
            self._begin_locks(event.view)
            self._resume()
            return
        # The exchange of GROUPS failed for all that stay together: groups still have the views before it.
        self._catch_up()
        if self.state is GroupsState.GGT:
            self.views.close_again(together, left, signal.primary)
        self.views.begin()
        self.locks.part(together)
        self.early.clear()
        self.delivery.presences.clear()  # Senders wait for answers within the view only.
        self.interest.keep({one.daemon for one in together})
        even = self.state is GroupsState.GTRANS and not event.uneven
        self._speaks = not even or self.me == min(together)
        alike = together == self.members and even
        if alike and len(self.members) == 1:
            self.views.begin_unchanged(event.view, self.primary)
            self._begin_locks(event.view)
            self._resume()
        else:
            self._gather(event.view, alike)

    def _resume(self) -> None:
        assert self.view is not None, "there is a view"
        self.state = GroupsState.GOP
        self._emit(Resume(self.view))

    # The exchange of GROUPS.

    def _gather(self, view: ViewId, alike: bool) -> None:
        """Begins the exchange of GROUPS; if all know the same, GROUPS are empty."""
        self.state = GroupsState.GGATHER
        self._exchange = GroupsExchange(view, self.members, alike)
        if alike:
            self._parts = [GroupsPart(view, 0, 1, self.own.version, primary=self.views.primary)]
            self._daemon_messages.append(_submission(self._parts[0]))
            return
        self._exchanged = sorted(self.own.for_exchange())
        self.interest.stop_pruning()
        local, version = self.table.in_order(), self.own.version
        bytes_max = self.options.groups_bytes_max
        shown = self.views.primary
        locks = self.locks.report(self.me)
        parts = groups_parts(view, self.me, local, self._exchanged, version, bytes_max, shown, locks)
        self._parts = with_values(parts, self.retained.entries() if self._speaks else [], bytes_max)
        # Messages left in the queue are of a failed exchange, or an interest that GROUPS includes.
        self._daemon_messages.clear()
        self._emit(Withdraw())
        self._daemon_messages.extend([_submission(part) for part in self._parts])

    def _groups(self, sender: Process, part: GroupsPart) -> None:
        exchange = self._exchange
        if exchange is None:
            return
        if sender == self.me and part.view == exchange.view and part not in self._parts:
            raise PeerError(Drop.FOREIGN_SENDER, "GROUPS of this daemon that it has not sent")
        exchange.add(sender, part)
        if not exchange.complete:
            return
        self._exchange = None
        self._parts = []
        self.locks.place = Place(exchange.view, 0, 0)
        if exchange.alike:
            self.views.begin_unchanged(exchange.view, self.primary)
        else:
            self.locks.merge(exchange.locks(), self.primary)
            self.views.compute_notify(exchange.view, self.members, exchange.merge(), self.primary)
            self.interest.agree(exchange.interests())
            self.requests.known(self._exchanged)
            for name in self.retained.merge(exchange.retained()):
                self._show_retained(self.table.local(name), name)
        self._begin_locks(exchange.view)
        self._catch_up()
        if self._signal is None:
            self._resume()
        else:
            # Another daemon may have completed the exchange before the signal, and shown the same views.
            self._trans(self._signal)


def _submission(message: GroupMessage) -> SubmitMessage:
    return SubmitMessage(service_of(message), encode_group_message(message), DAEMON_SESSION)
