"""A book of what happened to each session, whoever ran it."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from hopring.groups.events import (
    Connected,
    Deliver,
    Disconnect,
    Gone,
    GroupView,
    JoinGroup,
    LeaveGroup,
    Left,
    Output,
    Refused,
    ShowSignal,
    ShowView,
)
from hopring.groups.names import Member
from hopring.ids import GroupName, Process, ViewId
from hopring.ordering.entry import Position
from hopring.services import Service
from hopring.wire.bundle import Run


@dataclass(slots=True)
class Shown:
    """A view as a session got it."""

    view: GroupView


@dataclass(slots=True)
class Signal:
    group: GroupName


@dataclass(slots=True)
class Got:
    """A message as a session got it."""

    label: bytes
    service: Service
    groups: tuple[GroupName, ...]
    place: tuple[ViewId, Position]
    session: int  # The sender's; no two sessions of this world have the same.


@dataclass(slots=True)
class Out:
    """The session is no member from here on."""

    group: GroupName


Event = Shown | Signal | Got | Out


@dataclass(slots=True)
class Trace:
    """What happened to one session."""

    member: Member
    private: GroupName
    events: list[Event] = field(default_factory=list)
    sent: list[tuple[bytes, tuple[GroupName, ...], bool, Service]] = field(default_factory=list)
    joined: set[GroupName] = field(default_factory=set)  # As it asked.
    asked: dict[bytes, set[GroupName]] = field(default_factory=dict)  # The same at each send.
    ended: bool = False  # It asked for its end, or its daemon crashed.
    gone: bool = False


class Book:
    """All sessions by daemon and number; numbers are not used twice, by whatever daemon."""

    def __init__(self) -> None:
        self.traces: dict[tuple[Process, int], Trace] = {}
        self.refused: list[Refused] = []

    def begin(self, process: Process, connected: Connected, name: str) -> None:
        member = Member(process.daemon, name, process.incarnation, connected.session)
        self.traces[process, connected.session] = Trace(member, connected.private_group)

    def asked(self, process: Process, event: JoinGroup | LeaveGroup | Disconnect) -> None:
        trace = self.traces[process, event.session]
        match event:
            case JoinGroup():
                trace.joined.add(event.group)
            case LeaveGroup():
                trace.joined.discard(event.group)
            case Disconnect():
                trace.ended = True

    def sent(self, process: Process, run: Run, label: bytes) -> None:
        trace = self.traces[process, run.session]
        trace.sent.append((label, run.groups, run.self_discard, run.service))
        trace.asked[label] = set(trace.joined)

    def crashed(self, process: Process) -> None:
        for trace in self.traces.values():
            if trace.member.process == process:
                trace.ended = trace.gone = True

    def record(self, process: Process, outputs: Iterable[Output]) -> None:
        for output in outputs:
            match output:
                case Refused():
                    self.refused.append(output)
                case ShowView(sessions, view):
                    for one in sessions:
                        self.traces[process, one].events.append(Shown(view))
                case ShowSignal(sessions, group, _, _):
                    for one in sessions:
                        self.traces[process, one].events.append(Signal(group))
                case Left(session, group):
                    self.traces[process, session].events.append(Out(group))
                case Gone(session, _):
                    self.traces[process, session].gone = True
                case Deliver():
                    self._got(process, output)
                case _:
                    pass

    def _got(self, process: Process, output: Deliver) -> None:
        run = output.bundle.run
        for label in [bytes(body) for body in output.bundle.messages()]:
            got = Got(label, run.service, run.groups, (output.view, output.position), run.session)
            for one in output.sessions:
                self.traces[process, one].events.append(got)
