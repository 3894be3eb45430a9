"""Records the events of each session as a trace, for the checkers."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from hopring.check import trace
from hopring.groups.events import (
    DeliverBundle,
    Disconnect,
    GroupRequestRefused,
    JoinGroup,
    LeaveGroup,
    LeftGroup,
    Output,
    SessionConnected,
    SessionGone,
    ShowSignal,
    ShowView,
)
from hopring.groups.names import GroupMember, GroupViewId
from hopring.ids import GroupName, Process, ViewId
from hopring.wire.bundle import BundleKey

STAMPS_OF_A_VIEW_MAX = 1_000_000


@dataclass(slots=True)
class Trace:
    """The trace of one session."""

    member: GroupMember
    private: GroupName
    joined: set[GroupName] = field(default_factory=set)  # Groups as it asked for them.
    ended: bool = False  # It asked to disconnect, or its daemon crashed.


class SessionHistories:
    """All sessions by daemon and number; numbers are unique over all daemons."""

    def __init__(self) -> None:
        self.traces: dict[tuple[Process, int], Trace] = {}
        self.refused: list[GroupRequestRefused] = []
        self.history: list[trace.Event] = []
        self._messages: dict[bytes, trace.MessageId] = {}

    @property
    def _at(self) -> int:
        return len(self.history)

    def begin(self, process: Process, connected: SessionConnected, name: str) -> None:
        session, private = connected.session, connected.private_group
        member = GroupMember(process.daemon, name, process.incarnation, session)
        self.traces[process, session] = Trace(member, private)
        self.history.append(trace.ClientConnected(_client(process, session), self._at, name, private))

    def asked(self, process: Process, event: JoinGroup | LeaveGroup | Disconnect) -> None:
        session, client = self.traces[process, event.session], _client(process, event.session)
        match event:
            case JoinGroup():
                session.joined.add(event.group)
                self.history.append(trace.AsksJoin(client, self._at, event.group))
            case LeaveGroup():
                session.joined.discard(event.group)
                self.history.append(trace.AsksLeave(client, self._at, event.group))
            case Disconnect():
                session.ended = True
                self.history.append(trace.AsksEnd(client, self._at))

    def sent(self, process: Process, key: BundleKey, label: bytes) -> None:
        client = _client(process, key.session)
        name = trace.MessageId(client.daemon, client.incarnation, len(self._messages) + 1, key.session)
        self._messages[label] = name
        parts = client, self._at, key.groups, name, key.service, len(label), key.self_discard
        self.history.append(trace.ClientSent(*parts))

    def crashed(self, process: Process) -> None:
        self.history.append(trace.Crash(_client(process, 0), self._at))
        for session in self.traces.values():
            if session.member.process == process:
                session.ended = True

    def record(self, process: Process, outputs: Iterable[Output]) -> None:
        for output in outputs:
            match output:
                case GroupRequestRefused():
                    self.refused.append(output)
                case ShowView(sessions, view):
                    sets = _members(view.members), _members(view.together)
                    parts = view.group, _group_view(view.id), *sets, str(view.cause)
                    for one in sessions:
                        self.history.append(trace.GroupInstalled(_client(process, one), self._at, *parts))
                case ShowSignal(sessions, group, view_id, together):
                    closes = group, _group_view(view_id), _members(together)
                    for one in sessions:
                        self.history.append(trace.GroupSignal(_client(process, one), self._at, *closes))
                case LeftGroup(session, group):
                    self.history.append(trace.GroupLeft(_client(process, session), self._at, group))
                case SessionGone(session, _):
                    self.history.append(trace.Gone(_client(process, session), self._at))
                case DeliverBundle():
                    self._got(process, output)
                case _:
                    pass

    def _got(self, process: Process, output: DeliverBundle) -> None:
        key, (lts, site) = output.bundle.key, output.position
        # The world's stamps restart in each view, those of the real order do not.
        stamp = trace.Ord(output.view.counter * STAMPS_OF_A_VIEW_MAX + lts, site, _view(output.view))
        for place, label in enumerate([bytes(body) for body in output.bundle.messages()]):
            if output.only is not None and place not in output.only:
                continue
            groups = output.bundle.groups_of(place)
            parts = groups, self._messages[label], key.service, stamp._replace(place=place)
            for one in output.sessions:
                self.history.append(trace.ClientDelivered(_client(process, one), self._at, *parts))


def _client(process: Process, session: int) -> trace.ProcessName:
    return trace.ProcessName(f"d{process.daemon}", process.incarnation, session)


def _members(members: tuple[GroupMember, ...]) -> tuple[trace.ProcessName, ...]:
    return tuple([_client(one.process, one.session) for one in members])


def _view(view: ViewId) -> trace.ViewName:
    return trace.ViewName(*view)


def _group_view(view: GroupViewId) -> trace.GroupViewName:
    return trace.GroupViewName(_view(view.view), tuple([_view(one) for one in view.path]), view.step)
