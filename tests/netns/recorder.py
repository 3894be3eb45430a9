"""What a client did and saw, written down as the trace of its session, for `check.evs_c`.

A client learns which process it is, its daemon's life included, from the first view that it is in. So it joins
a group before it sends, and what it did until then is kept. Messages carry their names before their bodies.

Where a leave has its place among the events the library does not tell the application, only that it has one.
The recorder looks into the library for that: a message to two groups, of which one was just left, would
otherwise be taken for one in the group that was left.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from struct import Struct
from typing import Final, Protocol

from hopring import Event, Member, Message, Service, Transition, View
from hopring.check import trace
from hopring.client.core import Core
from hopring.client.stream import Stream
from hopring.groups.names import GroupViewId
from hopring.ids import ViewId
from hopring.session.messages import Place

# incarnation, session, number, bytes of the daemon's name
_NAME: Final = Struct("<QIIH")

Make = Callable[[trace.Process], trace.ClientEvent]


class Recorded(Protocol):
    """A session of the library, of whichever shell."""

    _core: Core

    @property
    def daemon(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def private_group(self) -> str: ...


class Recorder:
    """One session. Tell it of everything when it happens; requests and sends before they go out."""

    def __init__(self, session: Recorded) -> None:
        """The session has just been connected, and nothing has been taken from it."""
        self.events: list[trace.ClientEvent] = []
        self.process: trace.Process | None = None
        """Which session of which life of a daemon this is; None until the first view."""
        self.daemon, self.name = session.daemon, session.name
        self._early: list[Make] = []
        self._sent = 0
        self._taken = 0
        self._last: tuple[Place, int] | None = None  # Of the last message: where, and which of its bundle.
        self._leaves = _watch_leaves(session)
        at_us, private_group = now_us(), session.private_group
        self._note(lambda me: trace.Connected(me, at_us, self.name, private_group))

    # What it asks for.

    def joins(self, group: str) -> None:
        """It asks to be a member."""
        at_us = now_us()
        self._note(lambda me: trace.AsksJoin(me, at_us, group))

    def leaves(self, group: str) -> None:
        """It asks to be a member no longer."""
        at_us = now_us()
        self._note(lambda me: trace.AsksLeave(me, at_us, group))

    def sends(
        self, groups: Sequence[str], service: Service, body: bytes = b"", self_discard: bool = False
    ) -> bytes:
        """It sends a message, of these bytes: its name and the body."""
        assert self.process is not None, "it has seen a view"
        me = self.process
        self._sent += 1
        name = trace.MessageId(me.daemon, me.incarnation, self._sent, me.session)
        daemon = me.daemon.encode()
        data = _NAME.pack(me.incarnation, me.session, self._sent, len(daemon)) + daemon + body
        parts = me, now_us(), tuple(groups), name, service, len(data), self_discard
        self.events.append(trace.ClientSent(*parts))
        return data

    def ends(self) -> None:
        """It asks for its end, or dies."""
        at_us = now_us()
        self._note(lambda me: trace.AsksEnd(me, at_us))

    # What it sees.

    def takes(self, event: Event) -> None:
        """The application got an event; ValueError for a message that has no name."""
        self.settles()
        self._taken += 1
        match event:
            case View():
                self._view(event)
            case Transition(group, view, members):
                assert self.process is not None, "a view has come before"
                together = tuple([process_of(one) for one in members])
                parts = group, group_view_name(view), together
                self.events.append(trace.GroupSignal(self.process, now_us(), *parts))
            case Message():
                self._message(event)

    def settles(self) -> None:
        """Leaves whose place has come are written down."""
        while self._leaves and self._leaves[0][0] <= self._taken:
            assert self.process is not None, "who leaves has been shown a view"
            _, group = self._leaves.popleft()
            self.events.append(trace.Left(self.process, now_us(), group))

    def gone(self) -> None:
        """Its end has its place here."""
        self.settles()
        at_us = now_us()
        self._note(lambda me: trace.Gone(me, at_us))

    def _view(self, view: View) -> None:
        if self.process is None:
            (me,) = [one for one in view.members if (one.daemon, one.name) == (self.daemon, self.name)]
            self.process = process_of(me)
            self.events += [make(self.process) for make in self._early]
            self._early = []
        sets = [tuple([process_of(one) for one in some]) for some in (view.members, view.together)]
        parts = view.group, group_view_name(view.id), sets[0], sets[1], view.cause
        self.events.append(trace.GroupInstalled(self.process, now_us(), *parts))

    def _message(self, event: Message) -> None:
        assert self.process is not None, "a view has come before"
        again = self._last is not None and self._last[0] == event.place
        number = self._last[1] + 1 if again and self._last is not None else 0
        self._last = event.place, number
        view, lts, site = event.place
        ord = trace.Ord(lts, site, trace.ViewName(*view), number)
        parts = event.groups, message_name(event.data), event.service, ord
        self.events.append(trace.ClientDelivered(self.process, now_us(), *parts))

    def _note(self, make: Make) -> None:
        if self.process is None:
            self._early.append(make)
        else:
            self.events.append(make(self.process))


def message_name(data: bytes) -> trace.MessageId:
    """The name in front of a message; ValueError if there is none."""
    if len(data) < _NAME.size:
        raise ValueError(f"a message of {len(data)} bytes has no name")
    incarnation, session, number, size = _NAME.unpack_from(data)
    daemon = data[_NAME.size : _NAME.size + size]
    return trace.MessageId(daemon.decode(), incarnation, number, session)


def message_body(data: bytes) -> bytes:
    """What follows the name."""
    return data[_NAME.size + _NAME.unpack_from(data)[3] :]


def process_of(member: Member) -> trace.Process:
    """A member in the words of the trace."""
    return trace.Process(member.daemon, member.incarnation, member.session)


def group_view_name(view: GroupViewId) -> trace.GroupViewName:
    """A group's view in the words of the trace."""
    path = tuple([_view_name(one) for one in view.path])
    return trace.GroupViewName(_view_name(view.view), path, view.step)


def _view_name(view: ViewId) -> trace.ViewName:
    return trace.ViewName(*view)


def now_us() -> int:
    """The clock of all processes of this machine, daemons included."""
    return time.monotonic_ns() // 1_000


class _Watched(Stream):
    """The stream of a session, which the library closes for a group when its leave has come."""

    leaves: deque[tuple[int, str]]

    def close(self, group: str) -> None:
        self.leaves.append((self.last, group))
        super().close(group)


def _watch_leaves(session: Recorded) -> deque[tuple[int, str]]:
    """For each leave, how many events lie before it."""
    core = session._core
    watched = _Watched(core.stream.events, core.stream.by_group, core.stream.last)
    watched.leaves = deque()
    core.kept.stream = watched
    return watched.leaves
