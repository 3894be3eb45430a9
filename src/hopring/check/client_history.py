"""A history of clients, indexed once for all checks.

Each group becomes a `History` as the checks of daemons know it: processes are sessions, views are those of the
group, numbered in the order of their ids. A stay that follows a join has no stay before it. A message counts as
delivered to a session wherever it came: in another view, or in another group. A session's own message that it
did not want counts as delivered, too.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from hopring.check.history import (
    Components,
    History,
    Life,
    MessageTable,
    ProcessSend,
    Stay,
    index,
    number_messages,
)
from hopring.check.trace import (
    Asked,
    AsksEnd,
    AsksJoin,
    AsksLeave,
    ClientConnected,
    ClientDelivered,
    ClientEvent,
    ClientSent,
    Crash,
    Gone,
    GroupInstalled,
    GroupLeft,
    GroupSignal,
    GroupViewName,
    MessageDelivered,
    MessageId,
    MessageSent,
    Ord,
    ProcessName,
    Recover,
    Signalled,
    ViewInstalled,
    ViewName,
)
from hopring.check.trace_row import group_view_text

NOWHERE: Final = ViewName(0, 0, 0)
"""The view of an event that names groups and no view of daemons."""

CLIENTS: Final = (
    *(ClientDelivered, ClientSent, GroupInstalled, GroupSignal),
    *(GroupLeft, ClientConnected, AsksJoin, AsksLeave, AsksEnd, Gone),
)


@dataclass(slots=True, eq=False)
class SessionSend:
    """A message that a session sent, and the views that the session was in then."""

    event: ClientSent
    stays: dict[str, Stay]  # By group, the views it was in.
    wanted: frozenset[str]  # The groups that it had asked to be in.
    asked: int  # The number of its requests until then.
    position: int  # Among the events of its session.


@dataclass(slots=True, eq=False)
class SessionTrace:
    """Everything that one session did and saw."""

    process: ProcessName
    events: list[ClientEvent] = field(default_factory=list)
    private_group: str = ""
    asked: list[Asked] = field(default_factory=list)
    posted: list[SessionSend] = field(default_factory=list)
    wants: set[str] = field(default_factory=set)  # The groups that it has asked to be in, in the end.
    gone: bool = False
    crashed: bool = False  # Its daemon ended.
    # Events of groups that it was not in, and signals that name another view than the one it was in.
    outside: list[tuple[int, ClientDelivered | GroupSignal | GroupLeft]] = field(default_factory=list)
    misplaced: list[tuple[int, GroupSignal]] = field(default_factory=list)  # Both with positions.

    @property
    def ends(self) -> bool:
        """Whether it asked to disconnect, or has ended."""
        return self.gone or self.crashed or any(isinstance(one, AsksEnd) for one in self.asked)


@dataclass(slots=True)
class ClientHistory:
    """A history as all checks of clients take it."""

    quiet_end: bool
    sessions: dict[ProcessName, SessionTrace]
    whole: History  # All that sessions sent and delivered, without views.
    groups: dict[str, History]
    closing: dict[str, set[ViewName]]  # By group: the views that were made after the daemons' signal.
    left: set[Stay]  # Stays that ended with a leave.
    discarded: dict[ProcessName, set[int]]  # Own messages that a session did not want.
    components: Components | None = None
    daemons: History | None = None  # If any message has a resilience: it is promised by views of daemons.

    def alive(self, process: ProcessName) -> bool:
        """Whether the session was there when everything had settled, and meant to stay."""
        session = self.sessions.get(process)
        return self.quiet_end and session is not None and not session.ends

    def ends_in(self, stay: Stay) -> bool:
        """Whether the session left the group from this view, or ended in it."""
        return stay.after is None and (stay in self.left or not self.alive(stay.process))

    def leaves(self, group: str, process: ProcessName) -> bool:
        """Whether the session ever left the group, or ended."""
        if not self.alive(process):
            return True
        life = self.groups[group].lives.get(process)
        return life is None or any(stay in self.left for stay in life.stays)

    def discards(self, process: ProcessName, number: int) -> bool:
        """Whether this is its own message, which it did not want."""
        return number in self.discarded.get(process, ())


def index_clients(
    events: Iterable[object], quiet_end: bool, components: Components | None = None
) -> ClientHistory:
    """Indexes a history; of the daemons' events only starts and ends count, unless messages are resilient."""
    events = list(events)
    sessions: dict[ProcessName, SessionTrace] = {}
    starts: dict[str, list[ProcessName]] = {}
    ended: set[ProcessName] = set()
    for event in events:
        if isinstance(event, CLIENTS):
            if event.process not in sessions:
                sessions[event.process] = SessionTrace(event.process)
            sessions[event.process].events.append(event)
        elif isinstance(event, Recover):
            lives = starts.setdefault(event.process.daemon, [])
            ended.update(lives)  # A daemon that starts again had ended, even if in silence.
            lives.append(event.process)
        elif isinstance(event, Crash):
            ended.add(event.process)
    for session in sessions.values():
        session.crashed = session.process._replace(session=0) in ended
    history = _Indexer(sessions, starts, quiet_end).history
    history.components = components
    if any(isinstance(event, ClientSent) and event.resilience for event in events):
        history.daemons = index(events, quiet_end, components)
    return history


class _Indexer:
    """Goes through all sessions, and sorts their events by group."""

    def __init__(
        self, sessions: dict[ProcessName, SessionTrace], starts: dict[str, list[ProcessName]], quiet_end: bool
    ) -> None:
        self._starts = starts
        self._names = number_views(sessions.values())
        self._messages = number_sent(sessions.values())
        whole = History(quiet_end, {}, self._messages, {}, starts)
        self.history = ClientHistory(quiet_end, sessions, whole, {}, {}, set(), {})
        for group, names in self._names.items():
            texts = view_texts(group, names)
            self.history.closing[group] = {name for view, name in names.items() if view.path}
            made = History(quiet_end, {}, self._messages, {}, starts, texts)
            made.view_ids = {name: group_view_text(view) for view, name in names.items()}
            self.history.groups[group] = made
        for session in sessions.values():
            self._follow(session)

    def _follow(self, session: SessionTrace) -> None:
        whole = Life(session.process, [*session.events])
        self.history.whole.lives[session.process] = whole
        present: dict[str, Stay] = {}
        for at, event in enumerate(session.events):
            match event:
                case ClientDelivered():
                    self._deliver(session, whole, at, event, present)
                case ClientSent():
                    self._send(session, whole, at, event, present)
                case GroupInstalled():
                    self._install(event, present)
                case GroupSignal():
                    self._signal(session, at, event, present)
                case GroupLeft(_, _, group):
                    if group in present:
                        self.history.left.add(present.pop(group))
                    else:
                        session.outside.append((at, event))
                case ClientConnected(_, _, _, private_group):
                    session.private_group = private_group
                case Gone():
                    session.gone = True
                case AsksJoin() | AsksLeave() | AsksEnd():
                    _ask(session, event)
        self._finish(session, whole)

    def _finish(self, session: SessionTrace, whole: Life) -> None:
        process = session.process
        whole.crashed = session.ends
        whole.got.update(whole.delivered)
        self._messages.place_in_session(sending.event for sending in whole.sends)
        own = [one.event for one in session.posted if one.event.self_discard]
        numbers = {self._messages.number[one.message] for one in own if one.message in self._messages.number}
        self.history.discarded[process] = numbers
        for history in self.history.groups.values():
            if process in history.lives:
                life = history.lives[process]
                life.crashed = session.ends
                life.got.update(whole.got, numbers)

    def _deliver(
        self, session: SessionTrace, whole: Life, at: int, event: ClientDelivered, present: dict[str, Stay]
    ) -> None:
        number = self._messages.number[event.message]
        delivered = MessageDelivered(
            event.process, event.at_us, NOWHERE, event.message, event.service, event.ord
        )
        here = {group: present[group] for group in event.groups if group in present}
        if not here and session.private_group not in event.groups:
            session.outside.append((at, event))
        reliable = self._messages.service[number].reliable
        for life in (whole, *[self.history.groups[group].lives[event.process] for group in here]):
            life.deliveries.append(delivered)
            life.numbers.append(number)
            if reliable:
                life.delivered.append(number)
        for stay in here.values():
            (stay.delivered if reliable else stay.loose).append(number)

    def _send(
        self, session: SessionTrace, whole: Life, at: int, event: ClientSent, present: dict[str, Stay]
    ) -> None:
        wanted, asked = frozenset(session.wants), len(session.asked)
        session.posted.append(SessionSend(event, dict(present), wanted, asked, at))
        number = self._messages.number.get(event.message)
        if number is not None:
            sent = sent_event(event, self._messages.ord[number])
            whole.sends.append(ProcessSend(sent, number, None, len(whole.deliveries), at))

    def _install(self, event: GroupInstalled, present: dict[str, Stay]) -> None:
        history, process = self.history.groups[event.group], event.process
        view = self._names[event.group][event.view]
        installed = ViewInstalled(process, event.at_us, view, event.members, event.together, event.cause)
        stay = Stay(installed, present.get(event.group))
        if stay.before is not None:
            stay.before.after = stay
        present[event.group] = stay
        history.lives.setdefault(process, Life(process)).stays.append(stay)
        history.views.setdefault(view, {}).setdefault(process, stay)

    def _signal(self, session: SessionTrace, at: int, event: GroupSignal, present: dict[str, Stay]) -> None:
        stay = present.get(event.group)
        if stay is None:
            session.outside.append((at, event))
            return
        view = self._names[event.group].get(event.view, NOWHERE)
        if stay.view != view:
            session.misplaced.append((at, event))
        stay.signals.append(Signalled(event.process, event.at_us, view, event.together))
        if stay.cut is None:
            stay.cut = len(stay.delivered)


def _ask(session: SessionTrace, event: Asked) -> None:
    session.asked.append(event)
    if isinstance(event, AsksJoin):
        session.wants.add(event.group)
    elif isinstance(event, AsksLeave):
        session.wants.discard(event.group)


def number_views(sessions: Iterable[SessionTrace]) -> dict[str, dict[GroupViewName, ViewName]]:
    """Views by group, as numbers that rise with the ids."""
    found: dict[str, set[GroupViewName]] = {}
    for session in sessions:
        for event in session.events:
            if isinstance(event, GroupInstalled):
                found.setdefault(event.group, set()).add(event.view)
    return {
        group: {view: ViewName(at, 0, 0) for at, view in enumerate(sorted(views), start=1)}
        for group, views in found.items()
    }


def view_texts(group: str, names: dict[GroupViewName, ViewName]) -> dict[ViewName, str]:
    """The shortest unambiguous names: `red 5.2`, and if the view was closing `red 5.-2>6`."""
    short = {view: short_view(view) for view in names}
    taken = list(short.values())
    return {
        names[view]: f"{group} {text if taken.count(text) == 1 else _long(view)}"
        for view, text in short.items()
    }


def short_view(view: GroupViewName) -> str:
    """As in `5.2`, or `5.-2>6`."""
    way = "".join([f">{one.counter}" for one in view.path])
    return f"{view.view.counter}.{'-' if view.path else ''}{view.step}{way}"


def _long(view: GroupViewName) -> str:
    way = "".join([f">{one.counter} of {one.representative} ({one.nonce:x})" for one in view.path])
    made = f"{view.view.counter} of {view.view.representative} ({view.view.nonce:x})"
    return f"{made}.{'-' if view.path else ''}{view.step}{way}"


def number_sent(sessions: Iterable[SessionTrace]) -> MessageTable:
    """All messages that were delivered; one that never was has no stamp, and so no number."""
    delivered: dict[MessageId, MessageDelivered] = {}
    sent: list[ClientSent] = []
    for session in sessions:
        for event in session.events:
            if isinstance(event, ClientDelivered) and event.message not in delivered:
                parts = event.process, event.at_us, NOWHERE, event.message, event.service, event.ord
                delivered[event.message] = MessageDelivered(*parts)
            elif isinstance(event, ClientSent):
                sent.append(event)
    sends = [sent_event(one, delivered[one.message].ord) for one in sent if one.message in delivered]
    return number_messages(sends, delivered.values())


def sent_event(event: ClientSent, ord: Ord) -> MessageSent:
    """The send as an event of a daemon, with the stamp that it got."""
    parts = event.process, event.at_us, NOWHERE, event.message, event.service, ord, event.size
    return MessageSent(*parts, event.resilience)
