"""The caller's half of request and reply: which calls are open, who owes a reply, and when a wait is over.

Implements  RMP 3.3 and 4.5 (multi-RPC) above sessions, after the rules of docs/requests.md.
Below       a binding (exchange.py), or the simulator: it sends requests, and reports receipts, replies, members
            and its connections.
Above       calls of applications, which get each reply and the end of the call.
Invariants  a call takes at most one reply of each server, and only of servers that were in the group at a place
            of its request in the order; it ends once. A server counts as gone only if it is no longer in the
            group and everything that it sent before has been received.
Deviations  the paper's members are asked directly. Here the daemon's receipt lists the servers at the place of
            the request, so a caller need not be a member. While calls are open the members are asked for every
            POLL_US: a caller that is no member gets no views.

A call to the holder of a handler lock (`handler`) takes the one answer that there is, also if that is a
failure. The holder may change while it waits, and only a holder answers: so its request is sent again when a
server is gone, and after every HANDLER_POLLS answers to the question for the members.

A request is sent again, with a mark, after a new connection, and after a change of the network which parted the
group: the reply may have been lost then. Servers answer a repeated request from their cache (serving.py).
"""

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from heapq import heappop, heappush
from typing import Final, assert_never, final

from hopring.blocks.call_header import SERIAL_MAX
from hopring.client.events import Member, Quorum, Reply
from hopring.ids import NEVER
from hopring.links.events import Tick
from hopring.value import Mutable, Value

POLL_US: Final = 250_000
"""The time between two questions for the members of a group with open calls."""

HANDLER_POLLS: Final = 4
"""Answers to this question after which a request to a handler is sent again."""


@final
class StartCall(Value):
    """The application makes a call."""

    def __init__(
        self,
        serial: int,
        group: str,
        wait: int | Quorum,
        deadline_us: int = NEVER,
        patient: bool = False,
        handler: bool = False,
    ) -> None:
        self.serial: Final = serial
        self.group: Final = group
        self.wait: Final = wait
        self.deadline_us: Final = deadline_us
        self.patient: Final = (
            patient  # It ends when all servers have replied, failed or gone; failures count as replies.
        )
        self.handler: Final = handler  # Only the holder of a handler lock answers.


@final
class CallPlaced(Value):
    """Requests of these calls, sent together, have their place in the order."""

    def __init__(
        self, serials: tuple[int, ...], servers: tuple[Member, ...] | None, count: int, view_counter: int
    ) -> None:
        self.serials: Final = serials
        self.servers: Final = servers  # Members of the group there; None if they are too many to list.
        self.count: Final = count
        self.view_counter: Final = view_counter  # Of the daemons' view.


@final
class ReplyArrived(Value):
    """A reply to a call; the sender is its server."""

    def __init__(self, serial: int, reply: Reply) -> None:
        self.serial: Final = serial
        self.reply: Final = reply


@dataclass(frozen=True, slots=True)
class ServersKnown:
    """The members of a group, as the daemon has them now, and the counter of the view they were made in."""

    group: str
    members: frozenset[Member]
    view_counter: int


@dataclass(frozen=True, slots=True)
class FenceReturned:
    """A fence has come back."""

    number: int


@dataclass(frozen=True, slots=True)
class CallsInterrupted:
    """The connection is lost: receipts, answers and fences of it will not come."""


@dataclass(frozen=True, slots=True)
class CallsResumed:
    """There is another connection to a daemon."""


@dataclass(frozen=True, slots=True)
class AbandonCall:
    """The application does not wait any more."""

    serial: int


Input = (
    StartCall
    | CallPlaced
    | ReplyArrived
    | ServersKnown
    | FenceReturned
    | CallsInterrupted
    | CallsResumed
    | AbandonCall
    | Tick
)


@final
class SendCall(Value):
    """Send the request of this call."""

    def __init__(self, serial: int, sending: int) -> None:
        self.serial: Final = serial
        self.sending: Final = sending  # From 1; servers reply to where the highest one came from.


@dataclass(frozen=True, slots=True)
class AskServers:
    """Ask the daemon for the members of a group."""

    group: str


@dataclass(frozen=True, slots=True)
class SendFence:
    """Send a message to oneself, in the order."""

    number: int


@final
class AcceptReply(Value):
    """Give this reply to the application."""

    def __init__(self, serial: int, reply: Reply) -> None:
        self.serial: Final = serial
        self.reply: Final = reply


class CallOutcome(Enum):
    """How the wait of a call ended."""

    ENOUGH = "enough"
    NO_SERVERS = "no servers"
    FAILED = "failed"  # Too few are left that may still succeed, and at least one said that it failed.
    MISSING = "missing"  # Too few are left, because others are gone.
    TIMED_OUT = "timed out"


@final
class CallEnded(Value):
    """The wait of a call is over."""

    def __init__(
        self, serial: int, outcome: CallOutcome, missing: tuple[str, ...] = (), servers: int = 0
    ) -> None:
        self.serial: Final = serial
        self.outcome: Final = outcome
        self.missing: Final = missing  # Servers that owe a reply, by private group, sorted.
        self.servers: Final = servers  # How many there were.


Output = SendCall | AskServers | SendFence | AcceptReply | CallEnded


@final
class OpenCall(Mutable):
    """A call that waits for replies."""

    def __init__(
        self,
        serial: int,
        group: str,
        wait: int | Quorum,
        deadline_us: int,
        patient: bool,
        handler: bool = False,
    ) -> None:
        self.serial = serial
        self.group = group
        self.wait = wait
        self.deadline_us = deadline_us
        self.patient = patient
        self.handler = handler
        self.polls = 0  # Answers to the question for the members since it was sent.
        self.sendings = 0  # How often its request was sent, by this connection and earlier ones.
        self.placed = False  # Its last request has its place, and the receipt has come.
        self.servers: dict[str, Member] | None = None  # At the places of its requests, by private group.
        self.count = 0  # Of servers, where they are not listed.
        self.view_counter = 0  # The daemons' view in which its request was sent last.
        self.early: list[Reply] = []  # Replies before the first receipt.
        self.succeeded: set[str] = set()
        self.failed: set[str] = set()
        self.gone: set[str] = set()

    @property
    def total(self) -> int:
        """The number of servers so far."""
        return self.count if self.servers is None else len(self.servers)

    @property
    def needed(self) -> int:
        """The number of replies that end the wait."""
        if self.wait is Quorum.ALL:
            return self.total
        return self.total // 2 + 1 if self.wait is Quorum.MAJORITY else int(self.wait)

    def owes(self, server: str) -> bool:
        """Whether this server has neither replied nor gone."""
        return not (server in self.succeeded or server in self.failed or server in self.gone)

    def owing(self) -> list[str]:
        """The servers that owe a reply, the gone ones included."""
        return sorted(set(self.servers or ()) - self.succeeded - self.failed)


@dataclass(slots=True)
class Caller:
    """The open calls of one session."""

    calls: dict[int, OpenCall] = field(default_factory=dict)  # Serials rise.
    _open: Counter[str] = field(default_factory=Counter)  # Calls by group.
    _deadlines: list[tuple[int, int]] = field(default_factory=list)  # A heap; ended calls may be left in it.
    _poll_at_us: dict[str, int] = field(default_factory=dict)  # By group; NEVER while an answer is due.
    _asked_about: dict[str, tuple[int, ...]] = field(default_factory=dict)  # Calls placed before a question.
    _fences: dict[int, dict[int, set[str]]] = field(default_factory=dict)  # The suspects of each, by call.
    _fence: int = 0
    _connected: bool = True

    @property
    def low(self) -> int:
        """The least serial of an open call; a higher one than any so far if there is none."""
        return next(iter(self.calls), SERIAL_MAX)

    @property
    def wake_at_us(self) -> int:
        """The next deadline or question."""
        deadlines = self._deadlines
        while deadlines and deadlines[0][1] not in self.calls:
            heappop(deadlines)
        least_us = deadlines[0][0] if deadlines else NEVER
        if self._connected:
            for poll_us in self._poll_at_us.values():
                least_us = min(least_us, poll_us)
        return least_us

    def step(self, event: Input, now_us: int) -> list[Output]:
        """Handles one event; returns the actions for the driver."""
        if isinstance(event, ReplyArrived):
            return self._reply(event.serial, event.reply)
        if isinstance(event, CallPlaced):
            return self._placed(event, now_us)
        if isinstance(event, StartCall):
            return self._start(event)
        if isinstance(event, Tick):
            return [*self._expire(now_us), *self._ask(now_us)]
        if isinstance(event, ServersKnown):
            return self._known(event, now_us)
        if isinstance(event, FenceReturned):
            return self._fence_returned(event.number)
        if isinstance(event, CallsInterrupted):
            return self._interrupt()
        if isinstance(event, CallsResumed):
            return self._resume()
        if isinstance(event, AbandonCall):
            self._end(event.serial)
            return []
        assert_never(event)

    def _start(self, event: StartCall) -> list[Output]:
        assert event.serial not in self.calls, "serials are not used again"
        wanted = event.wait, event.deadline_us, event.patient, event.handler
        call = OpenCall(event.serial, event.group, *wanted)
        self.calls[event.serial] = call
        self._open[event.group] += 1
        if event.deadline_us != NEVER:
            heappush(self._deadlines, (event.deadline_us, event.serial))
        return [self._send(call)] if self._connected else []

    def _send(self, call: OpenCall) -> SendCall:
        call.sendings += 1
        call.polls = 0
        return SendCall(call.serial, call.sendings)

    def _placed(self, event: CallPlaced, now_us: int) -> list[Output]:
        out: list[Output] = []
        suspects: dict[int, set[str]] = {}
        listed = None if event.servers is None else {one.private_group: one for one in event.servers}
        for serial in event.serials:
            call = self.calls.get(serial)
            if call is None:
                continue
            call.placed, call.view_counter = True, event.view_counter
            call.count = max(call.count, event.count)
            if listed is not None:
                absent = {one for one in call.servers or () if one not in listed and call.owes(one)}
                call.gone -= listed.keys()
                call.servers = {**(call.servers or {}), **listed}
                if absent:
                    suspects[serial] = absent
            early, call.early = call.early, []
            for reply in early:
                out += self._take(call, reply)
            out += self._judge(call)
            if serial in self.calls:
                self._poll_at_us.setdefault(call.group, now_us + POLL_US)
        return out + self._suspect(suspects)

    def _reply(self, serial: int, reply: Reply) -> list[Output]:
        call = self.calls.get(serial)
        if call is None:
            return []
        if not call.placed and call.servers is None:
            # By the order a receipt precedes the replies; a server may use another service, though.
            if all(one.server != reply.server for one in call.early):
                call.early.append(reply)
            return []
        return [*self._take(call, reply), *self._judge(call)]

    def _take(self, call: OpenCall, reply: Reply) -> list[Output]:
        if call.servers is not None and reply.server not in call.servers:
            return []  # It was not in the group where the request was.
        if reply.server in call.succeeded or reply.server in call.failed:
            return []
        call.gone.discard(reply.server)
        (call.failed if reply.failed else call.succeeded).add(reply.server)
        return [AcceptReply(call.serial, reply)]

    def _judge(self, call: OpenCall) -> list[Output]:
        """Ends a call whose wait is over."""
        if call.serial not in self.calls:
            return []
        if not call.total:
            return self._finish(call, CallOutcome.NO_SERVERS)
        if call.patient:
            replied = len(call.succeeded) + len(call.failed)
            if replied + len(call.gone) < call.total:
                return []
            return self._finish(call, CallOutcome.MISSING if call.gone else CallOutcome.ENOUGH)
        if len(call.succeeded) >= call.needed:
            return self._finish(call, CallOutcome.ENOUGH)
        if call.handler and call.failed:
            return self._finish(call, CallOutcome.FAILED)
        if call.total - len(call.failed) - len(call.gone) < call.needed:
            return self._finish(call, CallOutcome.FAILED if call.failed else CallOutcome.MISSING)
        return []

    def _finish(self, call: OpenCall, outcome: CallOutcome) -> list[Output]:
        self._end(call.serial)
        missing = () if outcome is CallOutcome.ENOUGH else tuple(call.owing())
        return [CallEnded(call.serial, outcome, missing, call.total)]

    def _end(self, serial: int) -> None:
        call = self.calls.pop(serial, None)
        if call is None:
            return
        self._open[call.group] -= 1
        if not self._open[call.group]:
            del self._open[call.group]
            self._poll_at_us.pop(call.group, None)
            self._asked_about.pop(call.group, None)

    # Servers that are gone.

    def _expire(self, now_us: int) -> list[Output]:
        out: list[Output] = []
        while self._deadlines and self._deadlines[0][0] <= now_us:
            call = self.calls.get(heappop(self._deadlines)[1])
            if call is not None:
                out += self._finish(call, CallOutcome.TIMED_OUT)
        return out

    def _ask(self, now_us: int) -> list[Output]:
        if not self._connected:
            return []
        due = sorted([group for group, at_us in self._poll_at_us.items() if at_us <= now_us])
        for group in due:
            self._poll_at_us[group] = NEVER
            # A call that is placed later may have servers that the answer lacks.
            self._asked_about[group] = tuple(
                [call.serial for call in self.calls.values() if call.group == group and call.placed]
            )
        return [AskServers(group) for group in due]

    def _known(self, event: ServersKnown, now_us: int) -> list[Output]:
        if self._poll_at_us.get(event.group) != NEVER:
            return []  # No call is open any more, or the question was of an earlier connection.
        self._poll_at_us[event.group] = now_us + POLL_US
        out: list[Output] = []
        suspects: dict[int, set[str]] = {}
        for serial in self._asked_about.pop(event.group, ()):
            call = self.calls.get(serial)
            if call is None or not call.placed or call.servers is None:
                continue
            owing = [one for one in call.servers if call.owes(one)]
            absent = {one for one in owing if call.servers[one] not in event.members}
            if absent:
                suspects[serial] = absent
            call.polls += 1
            # The network parted the group since: request or reply may have been lost.
            again = event.view_counter > call.view_counter
            if call.handler:
                again = again or bool(absent) or call.polls >= HANDLER_POLLS
            if again and len(absent) < len(owing):
                call.placed, call.view_counter = False, event.view_counter
                out.append(self._send(call))
        return out + self._suspect(suspects)

    def _suspect(self, suspects: dict[int, set[str]]) -> list[Output]:
        """Servers have left: replies that they sent before arrive before a fence."""
        if not suspects:
            return []
        self._fence += 1
        self._fences[self._fence] = suspects
        return [SendFence(self._fence)]

    def _fence_returned(self, number: int) -> list[Output]:
        out: list[Output] = []
        for serial, servers in self._fences.pop(number, {}).items():
            call = self.calls.get(serial)
            if call is not None:
                call.gone |= {one for one in servers if call.owes(one)}
                out += self._judge(call)
        return out

    # Connections.

    def _interrupt(self) -> list[Output]:
        self._connected = False
        self._fences.clear()
        self._poll_at_us.clear()
        self._asked_about.clear()
        for call in self.calls.values():
            call.placed = False
        return []

    def _resume(self) -> list[Output]:
        self._connected = True
        return [self._send(call) for call in self.calls.values()]
