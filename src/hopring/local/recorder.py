"""Records the actions and events of a client as the trace of its session, for `check.judge`.

A client learns its own process id of the trace, which has the daemon's incarnation, from its first view. So it
joins a group before it sends, and earlier events are kept until then. Messages begin with their names.
"""

from collections.abc import Callable, Sequence
from struct import Struct
from typing import Final

from hopring.check import trace
from hopring.check.block_kinds import noted
from hopring.client.events import Event, Member, Message, Transition, View
from hopring.groups.names import GroupViewId
from hopring.ids import ViewId
from hopring.services import Service
from hopring.system.kernel import kernel

# incarnation, session, number, bytes of the daemon's name
_NAME: Final = Struct("<QIIH")

Make = Callable[[trace.ProcessName], trace.ClientEvent]


class Recorder:
    """The trace of one session. Call it for every event as it happens; for sends before they go out."""

    def __init__(self, daemon: str, name: str, private_group: str) -> None:
        """The session has just connected."""
        self.events: list[trace.ClientEvent] = []
        self.process: trace.ProcessName | None = None
        """The session as a process of the trace; None until the first view."""
        self.daemon, self.name = daemon, name
        self._early: list[Make] = []
        self._sent = 0
        at_us = now_us()
        self._note(lambda me: trace.ClientConnected(me, at_us, name, private_group))

    def note_join(self, group: str) -> None:
        """The client asks to join a group."""
        at_us = now_us()
        self._note(lambda me: trace.AsksJoin(me, at_us, group))

    def note_leave(self, group: str) -> None:
        """The client asks to leave a group."""
        at_us = now_us()
        self._note(lambda me: trace.AsksLeave(me, at_us, group))

    def note_send(
        self,
        groups: Sequence[str],
        service: Service,
        body: bytes = b"",
        self_discard: bool = False,
        resilience: int = 0,
    ) -> bytes:
        """The client sends a message; returns its bytes: the name and the body."""
        assert self.process is not None, "it has seen a view"
        me = self.process
        self._sent += 1
        name = trace.MessageId(me.daemon, me.incarnation, self._sent, me.session)
        daemon = me.daemon.encode()
        data = _NAME.pack(me.incarnation, me.session, self._sent, len(daemon)) + daemon + body
        parts = me, now_us(), tuple(groups), name, service, len(data), self_discard, resilience
        self.events.append(trace.ClientSent(*parts))
        return data

    def note_end(self) -> None:
        """The client asks to disconnect, or dies."""
        at_us = now_us()
        self._note(lambda me: trace.AsksEnd(me, at_us))

    def note_event(self, event: Event) -> None:
        """The client received an event; ValueError for a message without a name."""
        match event:
            case View():
                self._view(event)
            case Transition(group, view, members):
                assert self.process is not None, "a view has come before"
                together = tuple([process_of(one) for one in members])
                self.events.append(
                    trace.GroupSignal(self.process, now_us(), group, group_view_name(view), together)
                )
            case Message():
                self._message(event)

    def note_gone(self) -> None:
        """Records that the session has ended."""
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
        name = message_name(event.data)
        view, lts, site = event.place
        # Of a mixed bundle not everybody gets all messages, so they cannot be counted here; but a bundle has
        # messages of one session, in the order of their numbers.
        ord = trace.Ord(lts, site, _view_name(view), name.number)
        parts = event.groups, name, event.service, ord
        self.events.append(trace.ClientDelivered(self.process, now_us(), *parts))

    def _note(self, make: Make) -> None:
        if self.process is None:
            self._early.append(make)
        else:
            self.events.append(make(self.process))


class BlockLog:
    """The record of one block by this program, for the trace. Note events in the order in which they happen."""

    def __init__(self, block: str) -> None:
        """The name is that of the record: of its block, or any other that no record of the trace has."""
        self.events: list[trace.BlockNoted] = []
        self._process = trace.ProcessName(block, 1)

    def note(self, event: object) -> None:
        """An event of the block, such as `LockTaken`, with the time of `now_us`."""
        self.events.append(noted(self._process, event))


def message_name(data: bytes) -> trace.MessageId:
    """The name at the beginning of a message; ValueError if there is none."""
    if len(data) < _NAME.size:
        raise ValueError(f"a message of {len(data)} bytes has no name")
    incarnation, session, number, size = _NAME.unpack_from(data)
    daemon = data[_NAME.size : _NAME.size + size]
    return trace.MessageId(daemon.decode(), incarnation, number, session)


def message_body(data: bytes) -> bytes:
    """The bytes after the name."""
    return data[_NAME.size + _NAME.unpack_from(data)[3] :]


def now_us() -> int:
    """The monotonic clock, which all processes of this machine share."""
    return kernel().monotonic_ns() // 1_000


def process_of(member: Member) -> trace.ProcessName:
    """A member as a process of the trace."""
    return trace.ProcessName(member.daemon, member.incarnation, member.session)


def _view_name(view: ViewId) -> trace.ViewName:
    return trace.ViewName(*view)


def group_view_name(view: GroupViewId) -> trace.GroupViewName:
    """The id of a group's view in the trace."""
    return trace.GroupViewName(_view_name(view.view), tuple([_view_name(one) for one in view.path]), view.step)
