"""Binds the two halves of request and reply to a session: its messages, receipts, queries and connections.

Below       the core of a session (client/core.py).
Above       the shells (aio_calls.py, blocking_calls.py): they call `advance` whenever bytes have arrived and at
            `wake_at_us`, send the session's output afterwards, and run handlers.
Invariants  replies, fences, and requests to a group that is served here are no events of the session, except
            for a reply to a group that the session is in.

Servers of a group are in a group of their own, its name with SERVERS_SUFFIX, and those of each handler in
another one. So requests cost other members nothing, the receipt of a request lists exactly the servers, and the
order of requests and messages to the group is the one order of all groups.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, final

from hopring.blocks import caller as calling
from hopring.blocks.call_header import (
    CALL_HEADER,
    SERIAL_MAX,
    CallMark,
    FenceMark,
    ReplyMark,
    ReplyResult,
    RequestMark,
    decode_call,
    encode_call,
)
from hopring.blocks.caller import Caller, CallOutcome
from hopring.blocks.handler_lock import HandlerLock
from hopring.blocks.serving import CallerKey, HandlerEnded, RequestArrived, RunHandler, SendReply, Server
from hopring.client import queries
from hopring.client.core import ClientCore
from hopring.client.errors import (
    MessageTooLarge,
    MissingReplies,
    NoResponders,
    RepliesTimedOut,
    RequestFailed,
    RequestRefused,
)
from hopring.client.events import Headers, Member, Message, Quorum, Reply, Request
from hopring.client.features.requests import RequestArguments
from hopring.client.outgoing import OutgoingMessage, Ticket, checked_plain_group
from hopring.client.peer_url import is_peer_url
from hopring.client.queries import GroupMembers, Query
from hopring.client.receiving.dedup import sender_name
from hopring.errors import HopError
from hopring.groups.names import HANDLER_SUFFIX, SERVERS_SUFFIX
from hopring.ids import NEVER, GroupName
from hopring.links.events import Tick
from hopring.session.protocol import MemberEntry
from hopring.value import Mutable, Value
from hopring.wire.bundle import GROUP_NAME_BYTES_MAX
from hopring.wire.envelope import ENVELOPE_BYTES_MAX, encode_envelope

OPEN_CALLS_MAX: Final = 65_536
REPLIES_QUEUED_MAX: Final = 16_384
NAMES_KEPT_MAX: Final = 1_024
BUNDLE_REQUESTS_MAX: Final = 1_024
ERROR_BYTES_MAX: Final = 1_024
"""The longest text of an error that a server sends to a caller."""

REPLY_ENVELOPE_BYTES_MAX: Final = 64
"""The header of a reply, with its largest serial."""

_TEXTS: Final = {
    ReplyResult.TOO_OLD: "the request was sent again after its reply was forgotten; it may have been done",
    ReplyResult.BUSY: "too many requests wait at the server; it was not done: try again later",
}


def servers_group(group: str, handler: int = 0) -> GroupName:
    """The group of the servers of a group, or of one of its handlers."""
    checked_plain_group(group)
    suffix = f"{HANDLER_SUFFIX}{handler}" if handler else SERVERS_SUFFIX
    name = group + suffix
    if len(name.encode()) > GROUP_NAME_BYTES_MAX:
        most = GROUP_NAME_BYTES_MAX - len(suffix)
        raise RequestRefused(group, "its name is too long for requests", f"choose one of {most} bytes at most")
    return GroupName(name)


@final
class ActiveCall(Mutable):
    """A call of an application: its request, and what has come of it."""

    def __init__(self, serial: int, asked: RequestArguments, servers: tuple[GroupName, ...]) -> None:
        self.serial = serial
        self.asked = asked
        self.servers = servers  # The group of the servers, alone.
        self.replies: list[Reply] = []
        self.ended: calling.CallEnded | None = None
        self.error: HopError | None = None  # Why it ended outside of its protocol.
        self.notify: Callable[[], None] | None = None  # Called after a reply, and at its end.

    @property
    def over(self) -> bool:
        """Whether nothing more will come."""
        return self.ended is not None or self.error is not None

    @property
    def wanted(self) -> str:
        """How many replies it waits for, as text."""
        wait = self.asked.wait
        return wait.value if isinstance(wait, Quorum) else str(wait)


@final
class WaitingRequest(Value):
    """A request that the handler has not been given yet, or is working on."""

    def __init__(self, key: CallerKey, serial: int, request: Request) -> None:
        self.key: Final = key
        self.serial: Final = serial
        self.request: Final = request


@dataclass(slots=True)
class ServedGroup:
    """A group that is served here."""

    group: str
    name: GroupName  # Of its servers.
    lock: HandlerLock | None = None  # Without one, it answers all requests.
    core: Server = field(default_factory=Server)
    ready: deque[WaitingRequest] = field(default_factory=deque)  # For the handler, in their order.


class CallExchange:
    """All calls and all served groups of one session."""

    def __init__(self, core: ClientCore, caller: str) -> None:
        self.core = core
        self.caller = caller
        self.calls: dict[int, ActiveCall] = {}
        self.served: dict[str, ServedGroup] = {}  # By the group of the servers.
        self.has_requests = False  # Whether a handler has something to do.
        self._open = Caller()
        self._serial = 0
        self._names: dict[
            tuple[str, int], tuple[GroupName, ...]
        ] = {}  # Groups of servers, by group and handler.
        self._to_send: deque[tuple[int, int]] = deque()  # Serials, each with the number of its sending.
        self._replies: deque[OutgoingMessage] = deque()
        self._fences: deque[int] = deque()
        self._tickets: list[tuple[Ticket, tuple[int, ...]]] = []
        self._to_ask: deque[str] = deque()
        self._queries: dict[str, tuple[int, Query[GroupMembers]]] = {}  # By group: serial, and the rest.
        self._connection = core.connection
        self._connected = core.connected
        self._others = core.state.sink  # Of another block.
        core.state.sink = self.take

    # Calls.

    def start(self, asked: RequestArguments, *, patient: bool, now_us: int) -> ActiveCall:
        """Makes a call; its arguments are checked. `advance` sends the request."""
        core = self.core
        if core.ended is not None:
            raise core.ended
        group, data, seconds = asked.group, asked.data, asked.timeout_seconds
        servers = self._servers_of(group, asked.handler)
        if len(self.calls) >= OPEN_CALLS_MAX:
            raise RequestRefused(
                group, f"{OPEN_CALLS_MAX} requests are open", "wait for replies to some of them"
            )
        serial = self._serial + 1
        call = ActiveCall(serial, asked, servers)
        limit_bytes = core.welcomed.message_bytes_max
        if len(data) > limit_bytes - ENVELOPE_BYTES_MAX:
            room_bytes = limit_bytes - len(self._body(call, SERIAL_MAX)) + len(data)
            if len(data) > room_bytes:
                raise MessageTooLarge(len(data), room_bytes)
        self._serial = serial
        self.calls[serial] = call
        deadline_us = NEVER if seconds is None else now_us + int(seconds * 1_000_000)
        start = calling.StartCall(serial, servers[0], asked.wait, deadline_us, patient, bool(asked.handler))
        self._carry_out(self._open.step(start, now_us))
        return call

    def _servers_of(self, group: str, handler: int) -> tuple[GroupName, ...]:
        """The group of the servers; the same object for the same group, by which bundles know it."""
        key = group, handler
        known = self._names.get(key)
        if known is None:
            if len(self._names) >= NAMES_KEPT_MAX:
                self._names.clear()
            known = self._names[key] = (servers_group(group, handler),)
        return known

    def abandon(self, call: ActiveCall, now_us: int) -> None:
        """The application does not wait for a call any more."""
        self.calls.pop(call.serial, None)
        self._open.step(calling.AbandonCall(call.serial), now_us)

    # Serving.

    def serve(self, group: str, handler: int = 0) -> ServedGroup:
        """Begins to take requests to a group; the shell joins the group of its servers."""
        name = servers_group(group, handler)
        if name in self.served:
            raise RequestRefused(group, "this session serves it already", "leave the group first")
        lock = HandlerLock(self.core, name, handler) if handler else None
        served = self.served[name] = ServedGroup(group, name, lock)
        self.core.state.hidden.add(name)
        return served

    def unserve(self, served: ServedGroup) -> None:
        """Takes no more requests; those that wait are not done."""
        if self.served.pop(served.name, None) is not None and served.lock is not None:
            served.lock.release()

    def finish(self, served: ServedGroup, waiting: WaitingRequest, result: ReplyResult, data: bytes) -> None:
        """The handler is done with a request."""
        if len(data) > self.core.welcomed.message_bytes_max - REPLY_ENVELOPE_BYTES_MAX:
            result, data = ReplyResult.FAILED, f"its reply of {len(data)} bytes is too long to be sent".encode()
        self._serve(served, served.core.step(HandlerEnded(waiting.key, waiting.serial, result, data)))

    def _serve(self, served: ServedGroup, outputs: list[RunHandler | SendReply]) -> None:
        for output in outputs:
            if isinstance(output, SendReply):
                self._queue_reply(served, output)

    def _queue_reply(self, served: ServedGroup, reply: SendReply) -> None:
        first = not reply.mark.again and reply.mark.result in (ReplyResult.DONE, ReplyResult.FAILED)
        if len(self._replies) >= REPLIES_QUEUED_MAX and not first:
            return  # A caller that repeats its requests without reading.
        names = [GroupName(reply.to), GroupName(served.group)][: 2 if reply.to_group else 1]
        body = self._enveloped(reply.mark, reply.data)
        # Rings of peers take no message to several groups; the caller knows a reply that it gets twice.
        apart = is_peer_url(self.core.tries.url)
        for some in [(one,) for one in names] if apart else [tuple(names)]:
            self._replies.append(OutgoingMessage(some, body, enveloped=True))

    # Messages of the session.

    def take(self, message: Message) -> bool:
        """Uses up a message that belongs to a call; False if it is one of the application."""
        text = message.headers.get(CALL_HEADER)
        if text is None and self._others is not None:
            return self._others(message)
        mark = None if text is None else decode_call(text)
        if isinstance(mark, ReplyMark):
            return self._take_reply(message, mark)
        if isinstance(mark, RequestMark):
            return self._take_request(message, mark)
        if mark is None or mark.caller != self.caller or message.sender != self.core.welcomed.private_group:
            return False
        self._carry_out(self._open.step(calling.FenceReturned(mark.number), 0))
        return True

    def _take_reply(self, message: Message, mark: ReplyMark) -> bool:
        if mark.caller != self.caller:
            return False
        error = ""
        if mark.result is ReplyResult.FAILED:
            error = message.data.decode(errors="replace") or "an error without a text"
        elif mark.result is not ReplyResult.DONE:
            error = _TEXTS[mark.result]
        reply = Reply(message.sender, b"" if error else message.data, message.place, mark.again, error)
        self._carry_out(self._open.step(calling.ReplyArrived(mark.serial, reply), 0))
        return not any(group in self.core.groups for group in message.groups)

    def _take_request(self, message: Message, mark: RequestMark) -> bool:
        served = next((self.served[one] for one in message.groups if one in self.served), None)
        if served is None:
            return False
        key = (sender_name(message.sender), mark.caller)
        fence = None if served.lock is None else served.lock.fence_at(message.place)
        mine = served.lock is None or fence is not None
        for output in served.core.step(RequestArrived(key, mark, message.sender, mine)):
            if isinstance(output, SendReply):
                self._queue_reply(served, output)
            else:
                request = _request_of(served, message, output, fence)
                served.ready.append(WaitingRequest(key, mark.serial, request))
                self.has_requests = True
        return True

    # Time, connections and output.

    @property
    def wake_at_us(self) -> int:
        """The next time at which `advance` is due, whatever arrives."""
        least_us = self._open.wake_at_us
        for served in self.served.values():
            if served.lock is not None:
                least_us = min(least_us, served.lock.wake_at_us)
        return least_us

    @property
    def idle(self) -> bool:
        """Whether nothing waits to be sent."""
        return not (self._to_send or self._replies or self._fences or self._to_ask)

    def advance(self, now_us: int) -> None:
        """Handles everything that has happened since the last time; queues requests and replies as output."""
        core = self.core
        if core.ended is not None:
            self._fail_all(core.ended)
            return
        self._follow_connection(now_us)
        if self._tickets:
            self._take_receipts(now_us)
        if self._queries:
            self._take_answers(now_us)
        if now_us >= self._open.wake_at_us:
            self._carry_out(self._open.step(Tick(), now_us))
        for served in self.served.values():
            if served.lock is not None:
                served.lock.advance(now_us)
        if core.connected and not self.idle:
            self._send()

    def _fail_all(self, error: HopError) -> None:
        for call in list(self.calls.values()):
            call.error = error
            self._over(call)
        self._open = Caller()

    def _follow_connection(self, now_us: int) -> None:
        core = self.core
        if self._connected and (core.connection is not self._connection or not core.connected):
            self._connected = False
            self._tickets.clear()
            self._queries.clear()
            self._to_ask.clear()
            self._fences.clear()
            self._to_send.clear()
            self._carry_out(self._open.step(calling.CallsInterrupted(), now_us))
        if not self._connected and core.connected:
            self._connected, self._connection = True, core.connection
            self._carry_out(self._open.step(calling.CallsResumed(), now_us))

    def _take_receipts(self, now_us: int) -> None:
        tickets, self._tickets = self._tickets, []
        for one in tickets:
            ticket, serials = one
            if ticket.denied is not None:
                self._deny(serials, ticket.denied, now_us)
            elif ticket.receipt is not None:
                receipt = ticket.receipt
                servers = None if ticket.listed is None else tuple([_member(entry) for entry in ticket.listed])
                placed = calling.CallPlaced(serials, servers, receipt.members or 0, receipt.place.view.counter)
                self._carry_out(self._open.step(placed, now_us))
            elif not ticket.lost:
                self._tickets.append(one)

    def _deny(self, serials: tuple[int, ...], error: HopError, now_us: int) -> None:
        for serial in serials:
            call = self.calls.get(serial)
            if call is not None:
                self._open.step(calling.AbandonCall(serial), now_us)
                call.error = error
                self._over(call)

    def _take_answers(self, now_us: int) -> None:
        for group, (serial, query) in list(self._queries.items()):
            answer = self.core.query_answers.get(serial)
            if answer is None:
                continue
            del self.core.query_answers[serial], self._queries[group]
            try:
                question = query.send(answer)
            except StopIteration as end:
                found: GroupMembers = end.value
                counter = 0 if found.id is None else found.id.view.counter
                known = calling.ServersKnown(group, frozenset(found.members), counter)
                self._carry_out(self._open.step(known, now_us))
            except HopError:
                # Grants may forbid the question: then only timeouts end a wait for servers that are gone.
                continue
            else:
                self._queries[group] = (self.core.ask(*question), query)

    def _carry_out(self, outputs: list[calling.Output]) -> None:
        for output in outputs:
            if isinstance(output, calling.SendCall):
                self._to_send.append((output.serial, output.sending))
            elif isinstance(output, calling.AcceptReply):
                call = self.calls.get(output.serial)
                if call is not None:
                    call.replies.append(output.reply)
                    if call.notify is not None:
                        call.notify()
            elif isinstance(output, calling.CallEnded):
                call = self.calls.get(output.serial)
                if call is not None:
                    call.ended = output
                    self._over(call)
            elif isinstance(output, calling.AskServers):
                self._to_ask.append(output.group)
            else:
                self._fences.append(output.number)

    def _over(self, call: ActiveCall) -> None:
        self.calls.pop(call.serial, None)
        if call.notify is not None:
            call.notify()

    # Output.

    def _send(self) -> None:
        core = self.core
        outgoing = core.outgoing
        while self._replies:
            reply = self._replies[0]
            quick = len(reply.groups) == 1 and outgoing.try_append(
                reply.groups[0], reply.data, reply.service, 0, False, True
            )
            if not quick:
                if not outgoing.has_room(reply):
                    break
                core.send(reply)
            self._replies.popleft()
        while self._fences:
            mark = FenceMark(self.caller, self._fences[0])
            name = GroupName(core.welcomed.private_group)
            fence = OutgoingMessage((name,), self._enveloped(mark, b""), enveloped=True)
            if not outgoing.has_room(fence):
                break
            core.send(fence)
            self._fences.popleft()
        while self._to_ask and core.may_ask():
            group = self._to_ask.popleft()
            query = queries.members(group)
            self._queries[group] = (core.ask(*next(query)), query)
        while self._to_send and self._send_some():
            pass

    def _send_some(self) -> bool:
        """Sends the next requests that can share a bundle, if there is room; returns whether."""
        bodies: list[bytes] = []
        serials: list[int] = []
        first: ActiveCall | None = None
        size_bytes, aim_bytes = 0, self.core.outgoing.bundle_bytes_aim
        for serial, sending in self._to_send:
            call = self.calls.get(serial)
            if call is None:
                continue  # It was abandoned.
            first = first or call
            body = self._body(call, sending)
            other = call.servers is not first.servers or call.asked.service is not first.asked.service
            full = size_bytes + len(body) > aim_bytes or len(bodies) >= BUNDLE_REQUESTS_MAX
            if bodies and (other or full):
                break
            bodies.append(body)
            serials.append(serial)
            size_bytes += len(body)
        if first is None:
            self._to_send.clear()
            return False
        outgoing = self.core.outgoing
        if not outgoing.has_room_for_bundle(first.servers[0], len(bodies), size_bytes):
            return False
        sent = set(serials)
        while self._to_send and (self._to_send[0][0] in sent or self._to_send[0][0] not in self.calls):
            self._to_send.popleft()
        requests = OutgoingMessage(first.servers, b"", first.asked.service, enveloped=True)
        self._tickets.append((outgoing.append_requests(requests, bodies), tuple(serials)))
        return True

    def _body(self, call: ActiveCall, sending: int) -> bytes:
        low = min(self._open.low, call.serial)
        mark = RequestMark(self.caller, call.serial, low, sending, call.asked.to_group)
        return self._enveloped(mark, call.asked.data, call.asked.headers)

    def _enveloped(self, mark: CallMark, data: bytes, headers: Mapping[str, str] | None = None) -> bytes:
        return encode_envelope({CALL_HEADER: encode_call(mark), **(headers or {})}) + data


assert SERIAL_MAX > OPEN_CALLS_MAX, "serials do not run out"


def _request_of(served: ServedGroup, message: Message, run: RunHandler, fence: int | None) -> Request:
    headers = Headers({name: value for name, value in message.headers.items() if name != CALL_HEADER})
    parts = served.group, message.data, headers, message.sender, message.service, message.place
    return Request(*parts, run.again, fence)


def _member(entry: MemberEntry) -> Member:
    return Member(entry.daemon, entry.name, entry.incarnation, entry.session)


def outcome_error(call: ActiveCall) -> HopError | None:
    """The error that a call ended with, if it did not get what it waited for."""
    if call.error is not None:
        return call.error
    ended = call.ended
    assert ended is not None, "it is over"
    replies = tuple(call.replies)
    if ended.outcome is CallOutcome.NO_SERVERS:
        return NoResponders(call.asked.group)
    if ended.outcome is CallOutcome.FAILED:
        first = next(one for one in replies if one.failed)
        return RequestFailed(call.asked.group, first.server, first.error, replies, ended.missing)
    if ended.outcome is CallOutcome.MISSING:
        return MissingReplies(call.asked.group, replies, ended.missing, ended.servers, call.wanted)
    if ended.outcome is CallOutcome.TIMED_OUT:
        parts = replies, ended.missing, ended.servers, call.wanted
        return RepliesTimedOut(call.asked.group, *parts, call.asked.timeout_seconds or 0.0)
    return None


def error_text(error: Exception) -> bytes:
    """The text of a handler's error for the caller, without a traceback."""
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return text.encode(errors="replace")[:ERROR_BYTES_MAX].decode(errors="ignore").encode()
