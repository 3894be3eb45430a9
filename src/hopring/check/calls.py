"""Judges requests and replies: what callers and servers did, as the simulator records it.

These are properties of ours, beyond extended virtual synchrony. A server is one life of a registered handler,
which may have several sessions, one after the other.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from hopring.check.properties.property import Verdict, broken, holds

DONE_ONCE: Final = "C1 a server does a request at most once"
ANSWERED_ONCE: Final = "C2 a server answers a call at most once, unless it says again"
OF_ITS_CALL: Final = "C3 a reply belongs to the call that it answers"
DELIVERED_THERE: Final = "C4 a reply is of a server that delivered the request"
ENDS: Final = "C5 a call ends once, and takes no reply after that"
ALL_END: Final = "C6 every call has ended at the quiet end"


@dataclass(frozen=True, slots=True)
class CallMade:
    """An application made a call with this content."""

    at_us: int
    caller: str
    serial: int
    content: str


@dataclass(frozen=True, slots=True)
class RequestDelivered:
    """A server got a request."""

    at_us: int
    server: str
    caller: str
    serial: int


@dataclass(frozen=True, slots=True)
class RequestDone:
    """A handler was given a request."""

    at_us: int
    server: str
    caller: str
    serial: int


@dataclass(frozen=True, slots=True)
class ReplySent:
    """A server sent a reply."""

    at_us: int
    server: str
    caller: str
    serial: int
    again: bool


@dataclass(frozen=True, slots=True)
class ReplyTaken:
    """An application got a reply with this content."""

    at_us: int
    caller: str
    serial: int
    server: str
    content: str


@dataclass(frozen=True, slots=True)
class CallOver:
    """The wait of a call ended."""

    at_us: int
    caller: str
    serial: int


CallEvent = CallMade | RequestDelivered | RequestDone | ReplySent | ReplyTaken | CallOver


Call = tuple[str, int]
"""A caller and its serial."""


@dataclass(slots=True)
class CallJudge:
    """The state of the checks while they go through a history."""

    found: dict[str, str] = field(default_factory=dict)  # The first witness against each property.
    made: dict[Call, str] = field(default_factory=dict)
    over: set[Call] = field(default_factory=set)
    delivered: set[tuple[str, Call]] = field(default_factory=set)
    done: set[tuple[str, Call]] = field(default_factory=set)
    answered: set[tuple[str, Call]] = field(default_factory=set)

    def see(self, event: CallEvent) -> None:
        """Judges one event by those before it."""
        call = (event.caller, event.serial)
        match event:
            case CallMade(content=content):
                self.made[call] = content
            case RequestDelivered(server=server):
                self.delivered.add((server, call))
            case RequestDone(server=server):
                self._once(self.done, server, call, DONE_ONCE, f"{server} did {_name(event)} twice")
            case ReplySent(server=server, again=again):
                if not again:
                    text = f"{server} answered {_name(event)} twice"
                    self._once(self.answered, server, call, ANSWERED_ONCE, text)
            case ReplyTaken():
                self._taken(event, call)
            case CallOver():
                if call in self.over:
                    self._break(ENDS, f"{_name(event)} ended twice")
                self.over.add(call)

    def _once(self, had: set[tuple[str, Call]], server: str, call: Call, name: str, text: str) -> None:
        if (server, call) in had:
            self._break(name, text)
        had.add((server, call))

    def _taken(self, event: ReplyTaken, call: Call) -> None:
        content = self.made.get(call)
        if content != event.content:
            text = f"{_name(event)} of {content!r} got a reply to {event.content!r} from {event.server}"
            self._break(OF_ITS_CALL, text)
        if (event.server, call) not in self.delivered:
            text = f"{_name(event)} got a reply of {event.server}, which had not got the request"
            self._break(DELIVERED_THERE, text)
        if call in self.over:
            self._break(ENDS, f"{_name(event)} got a reply of {event.server} after its end")

    def _break(self, name: str, witness: str) -> None:
        self.found.setdefault(name, witness)

    def judge_end(self) -> None:
        """No call may wait any more."""
        waiting = [call for call in self.made if call not in self.over]
        if waiting:
            caller, serial = waiting[0]
            self._break(ALL_END, f"call {serial} of {caller} still waits, and {len(waiting) - 1} more")


def check_calls(events: Iterable[CallEvent], quiet_end: bool) -> list[Verdict]:
    """A verdict for each property on one history, in the order of its events."""
    judge = CallJudge()
    for event in events:
        judge.see(event)
    names = [DONE_ONCE, ANSWERED_ONCE, OF_ITS_CALL, DELIVERED_THERE, ENDS]
    if quiet_end:
        judge.judge_end()
        names.append(ALL_END)
    return [broken(name, judge.found[name]) if name in judge.found else holds(name) for name in names]


def _name(event: CallEvent) -> str:
    return f"call {event.serial} of {event.caller} at {event.at_us} us"
