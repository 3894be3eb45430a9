"""The core of a client: a session without sockets, one connection after another.

Below       a driver, asyncio (aio.py) or blocking (blocking.py): it connects to the URL that `dial` returns,
            gives received bytes to `receive`, sends the bytes of `output`, reports `lost`, and ticks at
            `wake_at_us`.
Above       calls.py: the calls of applications, which use `may_ask`, `has_room`, `answered` and `take`.
Invariants  no message is sent twice; requests to join or leave that had no answer are made again, in their
            order, before any new request; `Reconnected` stands behind all events of the old connection and
            before all of the new one.

The delay between tries doubles after each round over all daemons up to a limit; half of it is random, so that
the clients of one daemon do not return at the same moment. Time and randomness come in as arguments.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from hopring.client.arguments import Reconnect
from hopring.client.connection import (
    ChannelMaker,
    ClientIdentity,
    DaemonConnection,
    EncryptedChannel,
    Request,
    SessionState,
)
from hopring.client.errors import ConnectError, NotPrimary, SessionClosed
from hopring.client.events import Event, Reconnected, ReconnectGap
from hopring.client.locks.claims import ClaimedLock
from hopring.client.outgoing import TYPE_MAX, OutgoingMessage, OutgoingRequests, OutgoingSeries, Ticket
from hopring.client.receiving.replay import Replay
from hopring.client.receiving.runs import StreamEntry
from hopring.client.receiving.sequence import EventSequence
from hopring.client.receiving.stream import EventStream
from hopring.errors import HopError
from hopring.ids import NEVER, GroupName
from hopring.services import Service
from hopring.session.options import REQUEST_COST_BYTES, SlowPolicy, WhenSuspended
from hopring.session.protocol import (
    Answer,
    HelloRequest,
    JoinRequest,
    LeaveRequest,
    LockRequest,
    QueryRequest,
    QuitRequest,
    UnlockRequest,
    WelcomeReply,
)

WINDOW_BYTES_DEFAULT: Final = 1024 * 1024
CONNECT_SECONDS: Final = 5.0
_DOUBLINGS_MAX: Final = 20


@dataclass(slots=True)
class ReconnectSchedule:
    """When a session tries to connect, and to which daemon."""

    urls: tuple[str, ...]
    options: Reconnect
    chance: Callable[[], float]  # From 0 to 1.
    at: int = 0  # The index of the present URL.
    count: int = 0  # Since the connection was lost.
    up_at_us: int | None = None  # When the present connection was made.
    give_up_at_us: int = 0
    _tried: int = 0  # Tries since the last connection that lasted.

    @property
    def url(self) -> str:
        """The URL of the present try or connection."""
        return self.urls[self.at]

    def up(self, now_us: int) -> None:
        """Records that a connection was made."""
        self.up_at_us = now_us

    def lost(self, now_us: int) -> None:
        """Records the loss of a connection; after a short one the delays continue to rise."""
        assert self.up_at_us is not None, "there was one"
        self.count = 0
        if now_us - self.up_at_us >= _us(self.options.delay_seconds_max):
            self._tried = 0
        self.give_up_at_us = now_us + _us(self.options.give_up_seconds)

    def move_on(self) -> None:
        """Selects the next daemon for the next try."""
        self.at = (self.at + 1) % len(self.urls)

    def next(self, now_us: int) -> int | None:
        """Selects the next daemon; returns the time of the try, or None to give up."""
        if now_us >= self.give_up_at_us:
            return None
        self.move_on()
        doublings = min(self._tried // len(self.urls), _DOUBLINGS_MAX)
        delay_us = _us(min(self.options.delay_seconds_max, self.options.delay_seconds_min * 2**doublings))
        self.count += 1
        self._tried += 1
        return min(now_us + int(delay_us * (0.5 + self.chance() / 2)), self.give_up_at_us)


def _us(seconds: float) -> int:
    return int(seconds * 1_000_000)


@dataclass(slots=True)
class ConnectionLoss:
    """The loss of a connection, until there is another one."""

    at_us: int
    reason: str
    in_doubt: int


@dataclass(slots=True)
class SessionConnections:
    """The connections of a session: when to connect, and which requests to repeat after a loss."""

    url: str | Sequence[str]
    name: str
    window_bytes: int = WINDOW_BYTES_DEFAULT
    membership: bool = True
    slow: SlowPolicy = field(default="kick", kw_only=True)
    priority: bool = field(default=False, kw_only=True)
    require_primary: bool = field(default=False, kw_only=True)
    when_suspended: WhenSuspended = field(default="wait", kw_only=True)
    identity: ClientIdentity | None = field(default=None, kw_only=True)
    tls: ChannelMaker | None = field(default=None, kw_only=True)  # For `hops://` addresses.
    reconnect: Reconnect | None = field(default=None, kw_only=True)
    answer_seconds: float = field(default=CONNECT_SECONDS, kw_only=True)  # For each try to connect.
    epoch_us: int = field(default=0, kw_only=True)  # The wall clock at time zero of the driver's clock.
    chance: Callable[[], float] = field(default=lambda: 1.0, kw_only=True)
    welcome: WelcomeReply | None = None  # Of the last connection that was welcomed.
    ended: HopError | None = None
    """Why the session has ended; after QUIT this is no failure, and `quit_done` is true."""
    quit_done: bool = False
    closed_here: bool = False  # The application aborted it.
    state: SessionState = field(default_factory=SessionState)
    connection: DaemonConnection = field(init=False)  # May have ended.
    dial_at_us: int = NEVER
    answer_by_us: int = NEVER
    tries: ReconnectSchedule = field(init=False)
    _loss: ConnectionLoss | None = None
    _to_repeat: deque[Request] = field(default_factory=deque)  # Requests to repeat.
    _to_unlock: deque[int] = field(default_factory=deque)  # Claims that are given up, by serial.
    _quitting: bool = False

    def __post_init__(self) -> None:
        urls = (self.url,) if isinstance(self.url, str) else tuple(self.url)
        assert urls, "there is somewhere to connect"
        self.tries = ReconnectSchedule(urls, self.reconnect or Reconnect(), self.chance)
        self.connection = self._new_connection()

    @property
    def stream(self) -> EventStream:
        """The events that no reader has taken."""
        return self.state.stream

    @property
    def groups(self) -> set[str]:
        """The groups of the session, also while there is no connection."""
        return self.state.groups

    @property
    def answers(self) -> dict[Request, HopError | None]:
        """Answers to requests that no call has taken."""
        return self.state.answers

    @property
    def welcomed(self) -> WelcomeReply:
        """The daemon's WELCOME; applications get a session only after it."""
        assert self.welcome is not None, "views and requests come after WELCOME"
        return self.welcome

    @property
    def quitting(self) -> bool:
        """Whether the session has asked for its end: nothing may be sent any more."""
        return self._quitting

    @property
    def connected(self) -> bool:
        """Whether there is a connection to a daemon now."""
        return self.ended is None and self.connection.is_open

    # Connections.

    @property
    def wake_at_us(self) -> int:
        """The time of the next tick."""
        return min(self.dial_at_us, self.answer_by_us, self.state.locks.until_us)

    def begin(self, now_us: int) -> None:
        """Schedules the first try to connect."""
        self.dial_at_us = now_us

    def dial(self, now_us: int) -> str | None:
        """The URL to connect to, if a try is due; the driver reports `lost` if nothing listens there."""
        if self.ended is not None or now_us < self.dial_at_us:
            return None
        self.dial_at_us = NEVER
        self.answer_by_us = now_us + int(self.answer_seconds * 1_000_000)
        self.connection = self._new_connection()
        self.connection.begin()
        self._follow_connection(self.connection, now_us)  # Its credentials may be unusable.
        return None if self.ended is not None else self.tries.url

    def open_channel(self, now_us: int) -> EncryptedChannel | None:
        """The channel for a connection to a `hops://` address; None if its files ended the session."""
        assert self.tls is not None, "the arguments were checked"
        try:
            return self.tls.open()
        except HopError as error:  # A file that cannot be used any more.
            self.connection.ended = error
            self._follow_connection(self.connection, now_us)
            return None

    def hello(self) -> None:
        """Starts the handshake on a connection that exists already."""
        self.connection.begin()

    def tick(self, now_us: int) -> None:
        """Gives up a connection that does not answer, and locks not renewed; call `dial` afterwards."""
        for claim in self.state.locks.expire(now_us):
            self._tell_unlocked(claim.serial)
        if now_us >= self.answer_by_us:
            self.lost(f"no answer for {self.answer_seconds:g} s", now_us, NO_DAEMON)

    def output(self) -> bytes:
        """Returns the bytes to send now, and forgets them."""
        return self.connection.output()

    def receive(self, chunk: bytes | memoryview, now_us: int = 0) -> None:
        """Handles bytes of the connection; the chunk may be reused afterwards."""
        connection = self.connection
        self.stream.now_us = self.epoch_us + now_us
        self.state.locks.now_us = now_us
        left = connection.feed(chunk)
        if self._to_repeat:
            self._follow_connection(connection, now_us)  # Credits may have arrived.
        while left and connection.handle_frame():
            self._follow_connection(connection, now_us)
        if self._to_unlock:
            self._flush_unlocks()

    def lost(self, reason: str, now_us: int = 0, remedy: str = "connect again") -> None:
        """Reports that the connection was lost, or could not be made."""
        if self.connection.ended is None:
            self.connection.lost(reason, remedy)
            self._follow_connection(self.connection, now_us)

    def close(self, cause: BaseException | None = None) -> None:
        """Ends the session at once, at the application's request or because of an error in it."""
        if self.ended is None:
            self.closed_here = True
            self.lost("it was closed here")
            self._closed(cause)

    def _closed(self, cause: BaseException | None) -> None:
        # A method of its own: `lost` may have set `ended`, and compiled code in `close` would not reread it.
        self._end(self.ended or SessionClosed("it was closed here"))
        if self.ended is not None:
            self.ended.__cause__ = cause

    def _new_connection(self) -> DaemonConnection:
        return DaemonConnection(self.tries.url, self._hello(), self.state, identity=self.identity)

    def _hello(self) -> HelloRequest:
        wishes = self.slow, self.priority, self.require_primary, self.when_suspended
        return HelloRequest(self.name, self.window_bytes, self.membership, *wishes)

    def _follow_connection(self, connection: DaemonConnection, now_us: int) -> None:
        """Reacts to the connection's end, its WELCOME, or room for requests that are repeated."""
        if self.ended is not None:
            return
        if connection.ended is not None:
            self._connection_ended(connection, connection.ended, now_us)
        elif connection.welcome is not None and connection.welcome is not self.welcome:
            self._welcomed(connection.welcome, now_us)
        elif self._to_repeat:
            self._repeat_requests()

    def _welcomed(self, welcome: WelcomeReply, now_us: int) -> None:
        self.welcome = welcome
        self.answer_by_us = NEVER
        self.tries.up(now_us)
        loss, self._loss = self._loss, None
        if loss is None:
            return
        since, now = (self.epoch_us + loss.at_us) / 1_000_000, (self.epoch_us + now_us) / 1_000_000
        gap = ReconnectGap(since, now, loss.reason, self.state.last, loss.in_doubt, self.tries.count)
        groups = tuple(sorted(self.groups - self.state.hidden))
        self.stream.put(Reconnected(groups, welcome.daemon, welcome.private_group, gap), 0)
        self._to_repeat.extend([("join", group) for group in sorted(self.groups)])
        self._to_repeat.extend(self.state.pending)
        self._repeat_requests()

    def _repeat_requests(self) -> None:
        while self._to_repeat and self._outgoing.has_room_for_request():
            request, group = self._to_repeat.popleft()
            self._outgoing.append_request(
                self._join_of(group) if request == "join" else LeaveRequest(group), REQUEST_COST_BYTES
            )

    def _join_of(self, group: str) -> JoinRequest:
        return JoinRequest(group, self.state.minimums.get(group, 0))

    def _connection_ended(self, connection: DaemonConnection, error: HopError, now_us: int) -> None:
        self.answer_by_us = NEVER
        self.quit_done = connection.quit_done
        if connection.outgoing is not None:
            self._note_loss(connection.outgoing, error, now_us)
        if self.welcome is None:
            self._first_failed(connection, error, now_us)
            return
        wanted = self.reconnect is not None and not self._quitting and connection.may_retry
        at_us = self.tries.next(now_us) if wanted else None
        if at_us is None:
            self._end(error)
        else:
            self.dial_at_us = at_us

    def _note_loss(self, outgoing: OutgoingRequests, error: HopError, now_us: int) -> None:
        reason = error.reason if isinstance(error, SessionClosed) else str(error)
        self._loss = ConnectionLoss(now_us, reason, 0 if self.quit_done else outgoing.in_doubt)
        outgoing.lose_tickets()
        self.state.locks.interrupt()
        self._to_unlock.clear()
        self.stream.suspended.clear()  # The first views after the loss tell it anew.
        for serial in [one for one, answer in self.state.query_answers.items() if answer is None]:
            del self.state.query_answers[serial]
        self.tries.lost(now_us)
        self.stream.forget_credits()
        self._to_repeat.clear()
        for request, group in [one for one in self.state.pending if one[0] == "leave"]:
            if group in self.groups:
                # The membership ended with the connection, and is not renewed.
                self.groups.discard(group)
                self.stream.close(group)
                self.state.answer((request, group), None)

    def _first_failed(self, connection: DaemonConnection, error: HopError, now_us: int) -> None:
        """Tries each daemon once; a name in use is an error for the application."""
        self.tries.count += 1
        elsewhere = connection.may_retry and (type(error) is ConnectError or isinstance(error, NotPrimary))
        if elsewhere and self.tries.count < len(self.tries.urls):
            self.tries.move_on()
            self.dial_at_us = now_us
        else:
            self._end(error)

    def _end(self, error: HopError) -> None:
        self.dial_at_us = self.answer_by_us = NEVER
        loss = self._loss
        if self.welcome is None or loss is None or self.quit_done:
            self.ended = error
        elif isinstance(error, SessionClosed):
            self.ended = type(error)(error.reason, error.remedy, loss.in_doubt)
        else:
            reason = f"{loss.reason}, and no way back: {error}"
            self.ended = SessionClosed(reason, "connect again", loss.in_doubt)

    def _tell_unlocked(self, serial: int) -> None:
        """Gives up a claim, as soon as there is room in the window."""
        self._to_unlock.append(serial)
        self._flush_unlocks()

    def _flush_unlocks(self) -> None:
        while self._to_unlock and self.connection.is_open and self._outgoing.has_room_for_request():
            self._outgoing.append_request(UnlockRequest(self._to_unlock.popleft()), REQUEST_COST_BYTES)

    @property
    def _outgoing(self) -> OutgoingRequests:
        outgoing = self.connection.outgoing
        assert outgoing is not None, "there is a session"
        return outgoing


NO_DAEMON: Final = "start hopd there, or correct the address (its client_port, tls_port or --socket)"
CUT_HANDSHAKE: Final = "the connection was closed during the TLS handshake"
SEE_LOG: Final = "look into the daemon's log, and check that this is its tls_port"


@dataclass(slots=True)
class ClientCore(SessionConnections):
    """One session at the client's end: its requests and events, on top of its connections."""

    named: bool = True  # Whether the application chose the name, so that it has it again after a restart.
    asking: set[Request] = field(default_factory=set)  # Calls that wait for their answers.
    replays: dict[str, Replay] = field(default_factory=dict)  # Groups whose live events wait for a replay.
    _serial: int = 0  # Of queries.

    @property
    def query_answers(self) -> dict[int, Answer | None]:
        """Answers to queries that no call has taken, by serial."""
        return self.state.query_answers

    # Requests.

    @property
    def outgoing(self) -> OutgoingRequests:
        """The requests to the daemon; raises the error with which the session ended, if it has."""
        if self.ended is not None:
            raise self.ended
        return self._outgoing

    @property
    def _ready(self) -> bool:
        """Whether new requests may be made; an error if the session has ended."""
        if self.ended is not None:
            raise self.ended
        return self.connection.is_open and not self._to_repeat

    def raise_denied(self) -> None:
        """Raises the refusal of earlier messages, once."""
        denied, self.state.denied = self.state.denied, None
        if denied is not None:
            raise denied

    def may_ask(self) -> bool:
        """Whether the window has room for another join, leave or query; an error if the session has ended."""
        return self._ready and self._outgoing.has_room_for_request()

    def answered(self, request: Request) -> bool:
        """Whether the answer is in `answers`; an error if the session has ended without it."""
        if request not in self.answers and self.ended is not None:
            raise self.ended
        return request in self.answers

    def join(self, group: str) -> None:
        """Asks for a membership; check `may_ask` first."""
        self.outgoing.append_request(self._join_of(group), REQUEST_COST_BYTES)
        self.state.pending.append(("join", group))

    def leave(self, group: str) -> None:
        """Asks for the end of a membership; check `may_ask` first."""
        self.outgoing.append_request(LeaveRequest(group), REQUEST_COST_BYTES)
        self.state.pending.append(("leave", group))

    def lock(self, claim: ClaimedLock) -> None:
        """Claims a lock; check `may_ask` first."""
        serial = self.state.locks.begin(claim)
        request = LockRequest(claim.group, claim.lock, serial, claim.partial)
        self.outgoing.append_request(request, REQUEST_COST_BYTES)

    def unlock(self, claim: ClaimedLock) -> None:
        """Gives up a claim, whether it holds the lock or waits."""
        if self.state.locks.give_up(claim):
            self._tell_unlocked(claim.serial)

    def ask(self, what: str, name: str = "", after: str = "") -> int:
        """Sends a query; check `may_ask` first. Returns the serial of the answer."""
        self._serial += 1
        self.query_answers[self._serial] = None
        self.outgoing.append_request(QueryRequest(self._serial, what, name, after), REQUEST_COST_BYTES)
        return self._serial

    def has_query_answer(self, serial: int) -> bool:
        """Whether the answer is there, or the query has to be repeated; an error if the session has ended."""
        if self.query_answers.get(serial) is None and self.ended is not None:
            raise self.ended
        return serial not in self.query_answers or self.query_answers[serial] is not None

    def try_send(
        self, groups: object, data: object, service: object, message_type: object, self_discard: object
    ) -> bool:
        """Sends a message if it fits into the open bundle, or none is open; returns whether. The fast path.

        Arguments of other than the commonest types are left to the general path, which checks them
        (arguments.py).
        """
        connection = self.connection
        outgoing = connection.outgoing
        if outgoing is None or connection.ended is not None or self.ended is not None or self._to_repeat:
            return False
        if self.state.denied is not None:
            return False
        if type(groups) is not str or type(data) is not bytes or type(message_type) is not int:
            return False
        if not isinstance(service, Service) or not isinstance(self_discard, bool):
            return False
        if not 0 <= message_type <= TYPE_MAX:
            return False
        return outgoing.try_append(groups, data, service, message_type, self_discard)

    def has_room(self, sending: OutgoingMessage) -> bool:
        """Whether the window has room for a message now; an error if it is too large or others were refused."""
        self.raise_denied()
        return self._ready and self._outgoing.has_room(sending)

    def send(self, sending: OutgoingMessage) -> None:
        """Sends a message; check `has_room` first."""
        self.outgoing.append(sending)

    def has_room_and_ticket(self, sending: OutgoingMessage) -> bool:
        """Whether there is room for a message, and a free ticket for its receipt."""
        return self.has_room(sending) and self._outgoing.has_ticket

    def send_for_receipt(self, sending: OutgoingMessage) -> Ticket:
        """Sends a message and asks for its receipt; check `has_room_and_ticket` first."""
        return self.outgoing.append_with_ticket(sending)

    def has_room_for_some(self, many: OutgoingSeries) -> bool:
        """Whether the window has room for the next message of a series; an error if one is too large."""
        self.raise_denied()
        return self._ready and self._outgoing.has_room_for_next(many)

    def send_some(self, many: OutgoingSeries) -> None:
        """Sends as many messages of a series as there is room for; check `has_room_for_some` first."""
        self.outgoing.append_some(many)

    def has_room_for_bundle(self, group: GroupName, messages: int, bodies_bytes: int) -> bool:
        """Whether there is room for a bundle of a batch, and a free ticket for its receipt."""
        self.raise_denied()
        return self._ready and self._outgoing.has_room_for_bundle(group, messages, bodies_bytes)

    def quit(self) -> None:
        """Asks for the end after all earlier requests; without a connection it is the end."""
        self._quitting = True
        if self.connection.is_open:
            self.outgoing.append_request(QuitRequest())
        else:
            self._end(SessionClosed("it was closed here"))

    # Events.

    def replay(self, group: str | None) -> Replay | None:
        """The replay that precedes the live events of this group, or of any group."""
        return next(iter(self.replays.values()), None) if group is None else self.replays.get(group)

    def end_replay(self, replay: Replay) -> None:
        """Switches a group to live events; drops messages of batches that the replay contained."""
        del self.replays[replay.group]
        replay.close()
        for (sender, app), number in self.state.dedup.remember(replay.group, replay.marks).items():
            messages, credit_bytes = self.stream.drop(replay.group, sender, app, number)
            self.state.dedup.dropped += messages
            self.connection.credit(credit_bytes)

    def is_in(self, group: str | None) -> bool:
        """Whether the session is in this group; always true for None."""
        return group is None or group in self.groups

    def is_over(self, group: str | None) -> bool:
        """Whether no more events can arrive, of this group or at all."""
        return self.ended is not None or not self.is_in(group)

    def has_news(self, group: str | None) -> bool:
        """Whether there is an event, or none can arrive any more."""
        return self.stream.first(group) is not None or self.is_over(group)

    def has_many(self, messages: int, group: str | None) -> bool:
        """Whether this many messages wait, or half a window, which may keep the daemon from sending more."""
        full = self.stream.credit_bytes * 2 >= self.window_bytes
        return (full and self.stream.waits(group)) or self.stream.has(messages, group)

    def take_many(self, messages: int, group: str | None) -> EventSequence:
        """Takes the next events, up to this many messages."""
        taken, credit_bytes = self.stream.take_many(messages, group)
        self.connection.credit(credit_bytes)
        return EventSequence(tuple(taken))

    def entry(self, group: str | None) -> StreamEntry | None:
        """The next messages of one bundle, if messages come next; all but the last may be taken from it."""
        if self.replays and self.replay(group) is not None:
            return None
        entry = self.stream.first(group)
        return None if entry is None or entry.event is not None else entry

    def take(self, group: str | None = None) -> Event | None:
        """Takes the next event, of this group or at all, and credits it to the daemon.

        None while a replay precedes it: the calls wait for that.
        """
        if self.replays and self.replay(group) is not None:
            return None
        taken = self.stream.take(group)
        if taken is None:
            return None
        self.connection.credit(taken[1])
        return taken[0]
