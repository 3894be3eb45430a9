"""Groups: views and messages of many groups on top of the daemons' one view and order. The door of the room.

Implements  thesis 6.4 (states GOP, GTRANS, GGATHER, GGT) and 3.4.2; EVS-C of chapter 2.
Below       the membership: ordered messages, transitional signals, views of daemons. `take` gives what is to be
            submitted there; `interest` is what it asks for masks.
Above       sessions: requests go in; views, signals and messages come out, in one ordered stream.
Invariants  in GOP no group is signalled; outside GOP requests wait, and none is lost; the table and the ids are
            the same at all daemons of a view that are in GOP at the same place of the order.
Deviations  see docs/protocols/groups.md.
"""

from collections import Counter, deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from hopring.engine.events import (
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
    Connect,
    Disconnect,
    Input,
    JoinGroup,
    LeaveGroup,
    Output,
    PresenceReport,
    Send,
    SessionGone,
)
from hopring.groups.exchange import GroupsExchange, groups_parts
from hopring.groups.group_table import GroupTable
from hopring.groups.interest import InterestTable, OwnInterest
from hopring.groups.messages import (
    CHANGES_BY,
    GroupHold,
    GroupInterest,
    GroupJoin,
    GroupKill,
    GroupLeave,
    GroupMessage,
    GroupPresence,
    GroupsPart,
    decode_group_message,
    encode_group_message,
    service_of,
)
from hopring.groups.names import GroupMember, is_legal_group, is_legal_session
from hopring.groups.payloads import is_group_message
from hopring.groups.requests import Requests
from hopring.groups.views import GroupViews, ViewNumbering
from hopring.ids import DaemonId, GroupName, Incarnation, Process, SiteId, ViewId
from hopring.links.events import Tick
from hopring.ordering.entry import CONTROL_SESSION, Position
from hopring.wire.bundle import with_daemon

NOWHERE: Final = ViewId(0, DaemonId(0), Incarnation(0))
"""Before the first view."""


class GroupsState(Enum):
    """The states of the thesis."""

    GOP = "gop"
    GTRANS = "gtrans"  # The daemons' view is closing.
    GGATHER = "ggather"  # They have a new one, and tell each other of their groups.
    GGT = "ggt"  # That one is closing before they were through.


@dataclass(frozen=True, slots=True)
class GroupsOptions:
    """Limits and times."""

    session_queue_bytes_max: int = 4 * 1024 * 1024  # Of requests that wait, for each session.
    groups_bytes_max: int = 48 * 1024  # Of one part of GROUPS, about.
    linger_us: int = 120_000_000  # So long a daemon stays interested in a group that nobody here is in.


class Groups:
    """The groups as one daemon knows them."""

    def __init__(
        self,
        me: Process,
        site_of: Mapping[DaemonId, SiteId],
        names: Sequence[str],
        options: GroupsOptions | None = None,
    ) -> None:
        """The names are those of all daemons, by their numbers."""
        self.me = me
        self.names = tuple(names)
        self.options = options or GroupsOptions()
        self.state = GroupsState.GOP
        self.view: ViewId | None = None  # RMemb_id; None until the first.
        self.members: frozenset[Process] = frozenset()  # RMemb.
        self.drops: Counter[Drop] = Counter()
        numbers = {name: DaemonId(at) for at, name in enumerate(names)}
        self.interest = InterestTable(me.daemon, site_of, numbers)
        self.own = OwnInterest(self.options.linger_us)
        self.table = GroupTable(me)
        self.views = GroupViews(me, self.table, ViewNumbering(NOWHERE))
        limit = self.options.session_queue_bytes_max
        self.requests = Requests(me.daemon, self.names[me.daemon], limit, self.table, self.own)
        self.backpressure = Backpressure(self.requests.sessions)
        self.early = EarlyMessages(me.daemon)
        self.delivery = GroupDelivery(me, self.names, self.table, self.requests.sessions, self.early)
        self._site_of = dict(site_of)
        self._one_site = True
        self._signal: TransitionalSignal | None = None  # Of the view that is closing.
        self._gathered: GroupsExchange | None = None  # In GGATHER and GGT.
        # Reliable and FIFO messages from daemons that have all GROUPS already; the senders' windows bound them.
        self._ahead: list[Delivered] = []
        self._told: list[GroupName] = []  # The interest that our GROUPS tells.
        self._control: deque[SubmitMessage] = deque()

    @property
    def wake_at_us(self) -> int:
        """When the next tick is due."""
        return self.own.wake_at_us

    def accepts(self, session: int) -> bool:
        """Whether this session may ask for more; an end is always accepted."""
        return self.requests.accepts(session)

    def queued_bytes(self, session: int) -> int:
        """What this session asked for and the membership has not taken; nothing if there is no such session."""
        return self.requests.queued_bytes(session)

    def named(self, name: str) -> bool:
        """Whether a session of this daemon has this name."""
        return name in self.requests.sessions.by_name

    def wanted(self, session: int) -> int:
        """In how many groups this session is or wants to be."""
        return len(self.requests.sessions.by_number[session].wants)

    def wants(self, session: int) -> Collection[GroupName]:
        """In which groups this session is or wants to be."""
        return self.requests.sessions.by_number[session].wants

    def block(self, groups: Collection[GroupName]) -> None:
        """Messages for these groups wait, here and elsewhere; as often as this is said, `unblock` has to be."""
        self.backpressure.hold(groups)

    def unblock(self, groups: Collection[GroupName]) -> None:
        """They need not wait any more."""
        self.backpressure.release(groups)

    @property
    def idle(self) -> bool:
        """Whether nothing of any session waits here."""
        return not self._control and self.requests.idle

    def take(self, queue_open: bool, bulk_open: bool = True) -> SubmitMessage | None:
        """The next message for the membership, if there is one; clients' only while its queue is open.

        Sessions without priority have to wait also while `bulk_open` is false.
        """
        if self._control:
            return self._control.popleft()
        if self.state is not GroupsState.GOP or self.view is None:
            return None
        held = self.backpressure.next_message()
        if held is not None:
            return _control(held)
        present = self.delivery.next_presence(self.view)
        if present is not None:
            return _control(present)
        taken = self.requests.take(self._one_site, queue_open, bulk_open)
        return _control(taken) if isinstance(taken, GroupInterest) else taken

    def step(self, event: Input, now_us: int) -> list[Output]:
        """Takes one event; what a peer should not have sent is dropped and counted."""
        try:
            self._take(event, now_us)
        except PeerError as error:
            self.drops[error.reason] += 1
        out, self.views.out = self.views.out, []
        return out

    def _take(self, event: Input, now_us: int) -> None:
        if isinstance(event, Delivered):
            self._delivered(event, now_us)
        elif isinstance(event, Stamped):
            self._stamped(event)
        elif isinstance(event, Send):
            self.requests.send(event)
        elif isinstance(event, (JoinGroup, LeaveGroup)):
            self._put(self.requests.ask(event))
        elif isinstance(event, Connect):
            self._put(self.requests.connect(event))
        elif isinstance(event, Disconnect):
            self.requests.disconnect(event.session, now_us)
        elif isinstance(event, Rift):
            self._rift(event)
        elif isinstance(event, TransitionalSignal):
            self._signalled(event)
        elif isinstance(event, Installed):
            self._installed(event)
        elif isinstance(event, Tick):
            self.own.tick(now_us)

    def _put(self, output: Output | None) -> None:
        if output is not None:
            self.views.out.append(output)

    # Messages.

    def _stamped(self, event: Stamped) -> None:
        message = event.message
        if message.service is CHANGES_BY and is_group_message(message.payload):
            word = decode_group_message(message.payload, message.service)
            if isinstance(word, GroupJoin):
                self.early.stamped(message.session, GroupName(word.group), event.position)

    def _delivered(self, event: Delivered, now_us: int) -> None:
        message = event.message
        if not is_group_message(message.payload):
            if self._gathered is not None and message.service.early:
                self._ahead.append(event)
                return
            if self.state is GroupsState.GTRANS and message.service.total:
                self.views.touch(groups_of(message.payload))
            self.views.out.extend(self.delivery.take(event))
            return
        word = decode_group_message(message.payload, message.service)
        if isinstance(word, GroupsPart | GroupInterest | GroupHold | GroupPresence) is not (
            message.session == CONTROL_SESSION
        ):
            raise PeerError(Drop.INCONSISTENT, f"{type(word).__name__} of session {message.session}")
        if isinstance(word, GroupsPart):
            self._groups(event.sender, word)
        elif isinstance(word, GroupInterest):
            self.interest.delivered(event.sender.daemon, word)
            if event.sender == self.me:
                self.requests.known(self.own.announced(word))
        elif isinstance(word, GroupHold):
            if event.sender != self.me:
                self.backpressure.heard(event.sender.daemon, word)
        elif isinstance(word, GroupPresence):
            self._present(event.sender, word)
        elif isinstance(word, (GroupJoin, GroupLeave, GroupKill)):
            if self._gathered is not None:
                # Clients wait until all GROUPS are delivered, and these are Safe.
                raise PeerError(Drop.INCONSISTENT, f"{type(word).__name__} before GROUPS are complete")
            self._change(word, event, now_us)

    def _catch_up(self) -> None:
        """What came ahead of the last GROUPS goes to the sessions now."""
        ahead, self._ahead = self._ahead, []
        for event in ahead:
            self.views.out.extend(self.delivery.take(event))

    def _present(self, sender: Process, word: GroupPresence) -> None:
        if word.view != self.view or sender == self.me:
            return
        for one in word.answers:
            if one.daemon == self.me.daemon:
                self._put(PresenceReport(one.session, Position(one.lts, one.site), sender, one.present))

    def _change(self, word: GroupJoin | GroupLeave | GroupKill, event: Delivered, now_us: int) -> None:
        sender, message = event.sender, event.message
        if isinstance(word, GroupJoin):
            self._join(word, event)
        elif isinstance(word, GroupLeave):
            self._remove(event, GroupName(word.group), Cause.LEAVE, now_us)
        elif isinstance(word, GroupKill):
            for name in self.table.groups_of(sender, message.session):
                self._remove(event, name, Cause.DISCONNECT, now_us)
            if sender == self.me:
                self._put(SessionGone(message.session, self.requests.sessions.end(message.session)))

    def _join(self, word: GroupJoin, event: Delivered) -> None:
        sender, message, name = event.sender, event.message, GroupName(word.group)
        if not is_legal_group(name) or not is_legal_session(word.name, self.names[sender.daemon]):
            raise PeerError(Drop.INCONSISTENT, f"JOIN of {word.name!r} to {name!r}")
        if self.table.member(sender, message.session, name) is not None:
            return
        joiner = GroupMember(sender.daemon, word.name, sender.incarnation, message.session)
        self.views.join(joiner, name, event.position)
        if sender == self.me:
            self.requests.joined(name)
            self.views.out.extend(self.delivery.joined(event.position))
        self.views.joined(name)

    def _remove(self, event: Delivered, name: GroupName, cause: Cause, now_us: int) -> None:
        member = self.table.member(event.sender, event.message.session, name)
        if member is not None:
            self.views.remove(member, name, cause, event.position)
            if event.sender == self.me:
                self.requests.look_idle(name, now_us)

    # The daemons' views.

    def _rift(self, event: Rift) -> None:
        if self._gathered is not None:
            # Nothing is pruned before all GROUPS are delivered, so there is nothing to go past either.
            raise PeerError(Drop.INCONSISTENT, "a rift before GROUPS are complete")
        self.views.close_early(event, self._site_of)

    def _signalled(self, event: TransitionalSignal) -> None:
        assert self._signal is None, "a view closes once"
        self._signal = event
        if self.state is GroupsState.GGATHER:
            # Whether the groups' views close before or after the ones that GROUPS bring is not known yet.
            self.state = GroupsState.GGT
        else:
            self._trans(event)

    def _trans(self, event: TransitionalSignal) -> None:
        self.state = GroupsState.GTRANS
        self.views.close(frozenset(event.together), event.next_view)

    def _installed(self, event: Installed) -> None:
        signal, self._signal = self._signal, None
        together = frozenset(event.together)
        left, self.view = self.view, event.view
        self.members = frozenset(event.members)
        self.backpressure.begin()
        self._one_site = len({self._site_of[one.daemon] for one in self.members}) == 1
        if signal is None or left is None:
            assert self.views.ids.view == NOWHERE, "every view but the first follows a signal"
            self.views.go_on(event.view)
            self._resume()
            return
        # GROUPS came to nothing, for all that come along: the views of groups are still the ones before.
        self._catch_up()
        if self.state is GroupsState.GGT:
            self.views.close_again(together, left)
        self.views.begin()
        self.early.clear()
        self.delivery.presences.clear()  # Senders do not wait for them beyond the view.
        self.interest.keep({one.daemon for one in together})
        alike = together == self.members and self.state is GroupsState.GTRANS and not event.uneven
        if alike and len(self.members) == 1:
            self.views.go_on(event.view)
            self._resume()
        else:
            self._gather(event.view, alike)

    def _resume(self) -> None:
        assert self.view is not None, "there is a view"
        self.state = GroupsState.GOP
        self._put(Resume(self.view))

    # The exchange of GROUPS.

    def _gather(self, view: ViewId, alike: bool) -> None:
        """If all know the same, they only tell each other that they are here."""
        self.state = GroupsState.GGATHER
        self._gathered = GroupsExchange(view, self.members, alike)
        if alike:
            self._control.append(_control(GroupsPart(view, 0, 1, self.own.version)))
            return
        self._told = sorted(self.own.told())
        self.interest.wait()
        local, version = self.table.in_order(), self.own.version
        words = groups_parts(view, self.me, local, self._told, version, self.options.groups_bytes_max)
        # What is left is of an exchange that came to nothing, or an interest that these words tell too.
        self._control.clear()
        self._put(Withdraw())
        self._control.extend([_control(word) for word in words])

    def _groups(self, sender: Process, word: GroupsPart) -> None:
        gathered = self._gathered
        if gathered is None:
            return
        gathered.add(sender, word)
        if not gathered.complete:
            return
        self._gathered = None
        if gathered.alike:
            self.views.go_on(gathered.view)
        else:
            self.views.compute_notify(gathered.view, gathered.merge())
            self.interest.agree(gathered.interests())
            self.requests.known(self._told)
        self._catch_up()
        if self._signal is None:
            self._resume()
        else:
            # Somebody may have been through with it before the signal, and was shown the same views.
            self._trans(self._signal)


def _control(word: GroupMessage) -> SubmitMessage:
    return SubmitMessage(service_of(word), encode_group_message(word), CONTROL_SESSION)


def renumber(groups: Groups, me: Process, site_of: Mapping[DaemonId, SiteId], names: Sequence[str]) -> None:
    """From now on the daemon is this process, among daemons of these names."""
    assert groups.state is GroupsState.GOP, "nothing is closing or being gathered"
    assert groups.members == {groups.me}, "nobody else is in the view"
    assert names[me.daemon] == groups.names[groups.me.daemon], "its name is what stays"
    table = [
        (
            one.name,
            one.id,
            [member._replace(daemon=me.daemon, incarnation=me.incarnation) for member in one.members],
        )
        for one in groups.table.in_order()
    ]
    groups.me = groups.table.me = groups.views.me = groups.delivery.me = me
    groups.table.replace(table)
    groups.members = frozenset([me])
    groups.names = groups.delivery.names = tuple(names)
    groups.requests.daemon = groups.early.me = me.daemon
    # Where others are is told anew when they come; until then nothing is pruned.
    groups.interest = InterestTable(me.daemon, site_of, {name: DaemonId(at) for at, name in enumerate(names)})
    groups._site_of = dict(site_of)
    for session in groups.requests.sessions.by_number.values():
        for at, request in enumerate(session.requests):
            if isinstance(request, Send):
                session.requests[at] = _of(request, me.daemon)


def _of(request: Send, daemon: DaemonId) -> Send:
    run = request.run.replace(daemon=daemon)
    return Send(request.session, run, with_daemon(request.bundle, daemon))
