"""Judges requests and replies: what callers and servers did, as the simulator records it.

These are properties of ours, beyond extended virtual synchrony. A server is one life of a registered handler,
which may have several sessions, one after the other.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from hopring.check.block_record import BlockFindings, BlockRecord, block_property, verdicts
from hopring.check.properties.property import Verdict

DONE_ONCE: Final = "C1 a server does a request at most once"
ANSWERED_ONCE: Final = "C2 a server answers a call at most once, unless it says again"
OF_ITS_CALL: Final = "C3 a reply belongs to the call that it answers"
DELIVERED_THERE: Final = "C4 a reply is of a server that delivered the request"
ENDS: Final = "C5 a call ends once, and takes no reply after that"
ALL_END: Final = "C6 every call has ended at the quiet end"
BY_HOLDER: Final = "C7 a request for a handler is done by one server each time that it is sent"
IN_TURN: Final = "C8 fences of what a handler does never fall in real order"


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
    sending: int = 1  # Which time it was sent.
    handler: str = ""  # The group of the handler's servers, if it was for a handler.
    fence: int = 0  # With which the server held the handler's lock.


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
    """The state of the checks while they go through a record."""

    findings: BlockFindings
    made: dict[Call, tuple[int, str]] = field(default_factory=dict)  # The position and the content.
    over: set[Call] = field(default_factory=set)
    delivered: set[tuple[str, Call]] = field(default_factory=set)
    done: set[tuple[str, Call]] = field(default_factory=set)
    answered: set[tuple[str, Call]] = field(default_factory=set)
    handled: set[tuple[Call, int]] = field(default_factory=set)  # For handlers, each time that it was sent.
    fences: dict[str, int] = field(default_factory=dict)  # The highest by handler.

    def see(self, at: int, event: CallEvent) -> None:
        """Judges the event at this position by those before it."""
        call = (event.caller, event.serial)
        match event:
            case CallMade(content=content):
                self.made[call] = at, content
            case RequestDelivered(server=server):
                self.delivered.add((server, call))
            case RequestDone(server=server):
                if (server, call) in self.done:
                    self.findings.at(DONE_ONCE, at, f"{server} did {_name(event)} twice")
                self.done.add((server, call))
                if event.handler:
                    self._handled(at, event, call)
            case ReplySent(server=server, again=again):
                if not again:
                    if (server, call) in self.answered:
                        self.findings.at(ANSWERED_ONCE, at, f"{server} answered {_name(event)} twice")
                    self.answered.add((server, call))
            case ReplyTaken():
                self._taken(at, event, call)
            case CallOver():
                if call in self.over:
                    self.findings.at(ENDS, at, f"{_name(event)} ended twice")
                self.over.add(call)

    def _handled(self, at: int, event: RequestDone, call: Call) -> None:
        sent = call, event.sending
        if sent in self.handled:
            self.findings.at(BY_HOLDER, at, f"{event.server} did {_name(event)}, and so did another one")
        self.handled.add(sent)
        highest = self.fences.get(event.handler, event.fence)
        if event.fence < highest:
            text = f"{event.server} did {_name(event)} with fence {event.fence} after {highest}"
            self.findings.at(IN_TURN, at, text)
        self.fences[event.handler] = max(highest, event.fence)

    def _taken(self, at: int, event: ReplyTaken, call: Call) -> None:
        content = self.made[call][1] if call in self.made else None
        if content != event.content:
            text = f"{_name(event)} of {content!r} got a reply to {event.content!r} from {event.server}"
            self.findings.at(OF_ITS_CALL, at, text)
        if (event.server, call) not in self.delivered:
            text = f"{_name(event)} got a reply of {event.server}, which had not got the request"
            self.findings.at(DELIVERED_THERE, at, text)
        if call in self.over:
            self.findings.at(ENDS, at, f"{_name(event)} got a reply of {event.server} after its end")

    def judge_end(self) -> None:
        """No call may wait any more."""
        for (caller, serial), (at, _content) in self.made.items():
            if (caller, serial) not in self.over:
                self.findings.at(ALL_END, at, f"call {serial} of {caller} still waits")


def judge_calls(record: BlockRecord) -> BlockFindings:
    """All violations in a record of calls."""
    judge = CallJudge(BlockFindings(record.name))
    for at, event in record.numbered:
        if isinstance(event, CallEvent):
            judge.see(at, event)
    judge.judge_end()
    return judge.findings


def check_calls(events: Iterable[CallEvent], quiet_end: bool) -> list[Verdict]:
    """A verdict for each property on one history, in the order of its events."""
    return verdicts(CALL_PROPERTIES, BlockRecord([*events], quiet_end))


def _name(event: CallEvent) -> str:
    return f"call {event.serial} of {event.caller} at {event.at_us} us"


# Queries over the events of all records, which are the table audit_calls.

_BEFORE: Final = "ORDER BY position ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
_CALL: Final = "PARTITION BY run, record, caller, serial"


def _again(condition: str) -> str:
    return f"""
    SELECT run, record, position, server, caller, serial
    FROM (SELECT *, row_number() OVER ({_CALL}, server ORDER BY position) AS nth
          FROM audit_calls WHERE {condition})
    WHERE nth > 1
    """


_OF_ITS_CALL_QUERY: Final = f"""
SELECT run, record, position, caller, serial, server
FROM (SELECT *, max_by(IF(kind = 'call_made', content, NULL), IF(kind = 'call_made', position, NULL))
                OVER ({_CALL} {_BEFORE}) AS asked
      FROM audit_calls)
WHERE kind = 'reply_taken' AND NOT content <=> asked
"""

_DELIVERED_QUERY: Final = f"""
SELECT run, record, position, caller, serial, server
FROM (SELECT *, bool_or(kind = 'request_delivered') OVER ({_CALL}, server {_BEFORE}) AS came FROM audit_calls)
WHERE kind = 'reply_taken' AND NOT coalesce(came, false)
"""

_ENDS_QUERY: Final = f"""
SELECT run, record, position, caller, serial, IF(kind = 'call_over', 'ended again', 'took a reply') AS flaw
FROM (SELECT *, bool_or(kind = 'call_over') OVER ({_CALL} {_BEFORE}) AS ended FROM audit_calls)
WHERE kind IN ('call_over', 'reply_taken') AND ended
"""

_ALL_END_QUERY: Final = """
SELECT run, record, max(IF(kind = 'call_made', position, NULL)) AS position, caller, serial
FROM audit_calls GROUP BY run, record, caller, serial
HAVING bool_or(kind = 'call_made') AND NOT bool_or(kind = 'call_over')
"""

_BY_HOLDER_QUERY: Final = f"""
SELECT run, record, position, server, caller, serial
FROM (SELECT *, row_number() OVER ({_CALL}, sending ORDER BY position) AS nth
      FROM audit_calls WHERE kind = 'request_done' AND handler <> '')
WHERE nth > 1
"""

_IN_TURN_QUERY: Final = f"""
SELECT run, record, position, server, caller, serial, fence, highest
FROM (SELECT *, max(fence) OVER (PARTITION BY run, record, handler {_BEFORE}) AS highest
      FROM audit_calls WHERE kind = 'request_done' AND handler <> '')
WHERE fence < highest
"""

_WHICH: Final = "call {serial} of {caller}"

CALL_PROPERTIES: Final = (
    block_property(judge_calls, DONE_ONCE, _again("kind = 'request_done'"), f"{{server}} did {_WHICH} again"),
    block_property(
        judge_calls,
        ANSWERED_ONCE,
        _again("kind = 'reply_sent' AND NOT again"),
        f"{{server}} answered {_WHICH} again",
    ),
    block_property(
        judge_calls, OF_ITS_CALL, _OF_ITS_CALL_QUERY, f"{_WHICH} got a reply to another one from {{server}}"
    ),
    block_property(
        judge_calls,
        DELIVERED_THERE,
        _DELIVERED_QUERY,
        f"{_WHICH} got a reply of {{server}}, which had not got the request",
    ),
    block_property(judge_calls, ENDS, _ENDS_QUERY, f"{_WHICH} {{flaw}} after its end"),
    block_property(judge_calls, ALL_END, _ALL_END_QUERY, f"{_WHICH} still waits", when_quiet=True),
    block_property(
        judge_calls, BY_HOLDER, _BY_HOLDER_QUERY, f"{{server}} did {_WHICH}, and so did another one"
    ),
    block_property(
        judge_calls, IN_TURN, _IN_TURN_QUERY, f"{{server}} did {_WHICH} with fence {{fence}} after {{highest}}"
    ),
)
