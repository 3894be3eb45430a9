"""One connection of a session to a daemon, without the socket: frames in and out, and the reason of its end.

`SessionState` outlives the connection: it belongs to the session.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from msgspec.structs import replace

from hopring.client.errors import (
    AlreadyMember,
    ConnectError,
    GroupSuspended,
    InDoubt,
    NameInUse,
    NotAllowed,
    NotMember,
    NotOffered,
    NotPrimary,
    RequestRefused,
    SessionClosed,
    SlowConsumer,
)
from hopring.client.events import (
    NO_HEADERS,
    Member,
    Message,
    SlowWarning,
    Transition,
    View,
    gap_of,
    messages_of,
    transition_of,
    view_of,
)
from hopring.client.fast_path import HeadCache, number_at
from hopring.client.locks.claims import LockClaims
from hopring.client.outgoing import OutgoingRequests
from hopring.client.receiving.dedup import BatchDedup
from hopring.client.receiving.stream import EventStream
from hopring.errors import Drop, HopError, PeerError
from hopring.ids import Place
from hopring.session.frames import (
    FRAME_HEAD_BYTES,
    MESSAGES_HEAD_BYTES,
    PREAMBLE,
    SENDER_BYTES_MAX,
    DeliveredBundle,
    Frame,
    FrameKind,
    FrameReader,
    decode_delivered,
)
from hopring.session.options import (
    ALREADY_MEMBER,
    CREDENTIALS_EXPIRED,
    DENIALS,
    DOUBTS,
    HELD_BACK_PART,
    NAME_IN_USE,
    NOT_A_MEMBER,
    NOT_OFFERED,
    NOT_PRIMARY,
    SLOW_RECEIVER,
    SUSPENDED,
    TOO_RESILIENT,
)
from hopring.session.protocol import (
    Answer,
    AuthRequest,
    ChallengeReply,
    ControlMessage,
    Credit,
    DeniedNotice,
    ErrorNotice,
    ExpiredNotice,
    GapNotice,
    GoodbyeReply,
    HelloRequest,
    LeaseNotice,
    LeftNotice,
    LockedNotice,
    ProofRequest,
    QueryReply,
    ReceiptNotice,
    RefusedReply,
    SignalNotice,
    UnlockedNotice,
    ViewNotice,
    WarningNotice,
    WelcomeReply,
    decode_answer,
    decode_control,
    encode_control,
)
from hopring.wire.bundle import BUNDLE_BYTES_MAX
from hopring.wire.envelope import RESERVED


class ClientIdentity(Protocol):
    """Credentials of a session, used at each connection; see credentials/client_identity.py."""

    @property
    def proves(self) -> bool:
        """Whether a challenge of the daemon is awaited before HELLO."""

    def introduce(self) -> AuthRequest:
        """The first message; a HopError ends the session."""

    def prove(self, challenge: ChallengeReply, binding: bytes) -> ProofRequest:
        """The signature of a challenge, bound to the channel below."""


class EncryptedChannel(Protocol):
    """TLS of one connection, between the socket and the frames; see credentials/client_tls.py."""

    established: bool
    daemon: str
    binding: bytes

    @property
    def ended(self) -> bool:
        """Whether the daemon has said that nothing more follows."""

    def begin(self) -> bytes:
        """The first bytes to send."""

    def receive(self, chunk: bytes | memoryview) -> bytes:
        """Takes bytes of the daemon and returns its frames; a ChannelRefused ends the connection."""

    def take(self) -> bytes:
        """Bytes of TLS itself that have to be sent."""

    def encrypt(self, data: bytes | memoryview) -> bytes:
        """The bytes to send for this output."""


class ChannelMaker(Protocol):
    """Makes an encrypted channel for each connection to a `hops://` address."""

    @property
    def user(self) -> str | None:
        """The user that the client's certificate names; None without one."""

    def open(self) -> EncryptedChannel:
        """A new channel; a HopError ends the session."""


Request = tuple[str, str]
"""A request, join or leave, and its group."""


MessageSink = Callable[[Message], bool]
"""Is given each message with headers when it arrives; returns whether the message is used up."""

ViewSink = Callable[[View | Transition, bool], None]
"""Is given views and signals of a group; the flag says that the session is in the group since this view."""


@dataclass(slots=True)
class SessionState:
    """The state of a session that outlives its connections: events, memberships, and pending answers."""

    stream: EventStream = field(default_factory=EventStream)
    groups: set[str] = field(default_factory=set)  # Joined and not yet left.
    minimums: dict[str, int] = field(default_factory=dict)  # Stated for groups, joined or not yet.
    answers: dict[Request, HopError | None] = field(default_factory=dict)
    pending: list[Request] = field(default_factory=list)  # Not answered, the oldest first.
    last: Place | None = None  # Of the last message received.
    denied: HopError | None = None  # The first refusal of messages that no call has raised.
    expired: int = 0  # Messages that were not sent because their time to live had ended.
    dedup: BatchDedup = field(default_factory=BatchDedup)
    sink: MessageSink | None = None  # Takes messages with headers out of the stream.
    locks: LockClaims = field(default_factory=LockClaims)
    hidden: set[str] = field(default_factory=set)  # Groups of the library, whose views are no events.
    view_sinks: dict[str, ViewSink] = field(default_factory=dict)  # By group: its views are no events.
    muted: set[str] = field(default_factory=set)  # Groups whose messages are dropped, if the sink leaves them.
    guarded: set[str] = field(default_factory=set)  # Groups to which messages are sent by a block only.
    only: dict[str, frozenset[str]] = field(default_factory=dict)  # By group: the domains that are wanted.
    query_answers: dict[int, Answer | None] = field(default_factory=dict)  # By serial; None until it comes.

    def add_sink(self, sink: MessageSink) -> None:
        """Adds a sink: it is asked before those that are there."""
        before = self.sink
        self.sink = sink if before is None else lambda message: sink(message) or before(message)

    def answer(self, request: Request, answer: HopError | None) -> None:
        """Records the answer to a request; an automatic repetition of a join has no call that waits for it."""
        if request in self.pending:
            self.pending.remove(request)
            self.answers[request] = answer

    def put_single(self, message: Message, body: bytes, credit_bytes: int) -> None:
        """Adds a message that arrived alone and has no mark; taking it gives the credit back."""
        self.last = message.place
        self.stream.put_single(message, body, credit_bytes)

    def drops(self, groups: Sequence[str]) -> bool:
        """Whether messages to these groups are dropped."""
        return self.muted.issuperset(groups)

    def unwanted(self, message: Message) -> bool:
        """Whether a message is of no domain that the session wants, in all of its groups that it is in."""
        mine = [group for group in message.groups if group in self.groups]
        domain = message.headers.get(DOMAIN_HEADER)
        return bool(mine) and all(group in self.only and domain not in self.only[group] for group in mine)

    def put_messages(self, messages: DeliveredBundle, credit_bytes: int) -> int:
        """Adds the new messages of a bundle; returns the credit that is due at once, because some are not."""
        self.last = messages.place
        bundle = messages.bundle
        if bundle.key.enveloped and self.sink is not None:
            return self._sift(messages, self.sink, credit_bytes)
        if (self.muted or self.only) and not {*self.muted, *self.only}.isdisjoint(bundle.key.groups):
            return self._sift(messages, _nothing, credit_bytes)
        mark = bundle.key.mark
        if mark is None:
            self.stream.put_messages(messages, 0, len(bundle), credit_bytes)
            return 0
        pieces = self.dedup.new(bundle.key.groups[0], messages.sender, mark, len(bundle))
        for start, end in pieces:
            is_last = end == pieces[-1][1]
            self.stream.put_messages(messages, start, end, credit_bytes if is_last else 0)
        return 0 if pieces else credit_bytes

    def _sift(self, messages: DeliveredBundle, sink: MessageSink, credit_bytes: int) -> int:
        """Adds the messages of a bundle that the sink does not use up; it may add events between them."""
        bundle = messages.bundle
        every = messages_of(messages, 0, len(bundle))
        start = 0  # Of the messages that are kept and not added.
        for at, one in enumerate(every):
            used = self.muted.issuperset(one.groups) or (bool(self.only) and self.unwanted(one))
            if any(name.startswith(RESERVED) for name in one.headers):
                credit_bytes -= self._keep(messages, start, at, credit_bytes)
                start = at
                used = sink(one) or used
            if used:
                credit_bytes -= self._keep(messages, start, at, credit_bytes)
                start = at + 1
        return credit_bytes - self._keep(messages, start, len(every), credit_bytes)

    def _keep(self, messages: DeliveredBundle, start: int, end: int, credit_bytes: int) -> int:
        """Adds some messages of a bundle; returns the credit that they give back when they are taken."""
        if start == end:
            return 0
        count = len(messages.bundle)
        offsets = messages.bundle.offsets
        own_bytes = credit_bytes if end - start == count else min(credit_bytes, offsets[end] - offsets[start])
        self.stream.put_messages(messages, start, end, own_bytes)
        return own_bytes


def _nothing(message: Message) -> bool:  # noqa: ARG001  A sink.
    """The sink of messages without headers."""
    return False


DOMAIN_HEADER: Final = "domain"
"""The header that `join(only=...)` asks for."""

VIEW_BYTES_MAX: Final = 16 * 1024 * 1024
_FRAME_BYTES_MAX: Final = MESSAGES_HEAD_BYTES + BUNDLE_BYTES_MAX + SENDER_BYTES_MAX

SHORT_BYTES: Final = 4 * 1024
"""Longer chunks contain mostly bundles of many messages, or large messages."""

_MESSAGES: Final = int(FrameKind.MESSAGES)

RETRY_REASONS: Final = frozenset(
    {"the daemon ends", "too many clients", "no HELLO in time", CREDENTIALS_EXPIRED}
)
"""Reasons of ERROR after which another daemon, or a later try, may accept the session."""


@dataclass(slots=True)
class DaemonConnection:
    """The connection of a session to one daemon."""

    url: str  # For errors.
    hello: HelloRequest
    state: SessionState
    welcome: WelcomeReply | None = None
    ended: HopError | None = None
    may_retry: bool = False
    """Whether another connection may succeed after this end."""
    quit_done: bool = False
    outgoing: OutgoingRequests | None = None
    identity: ClientIdentity | None = None
    binding: bytes = b""  # Identifies the encrypted channel below; empty without one.
    certified: str = ""  # The daemon that the certificate of the channel below names; empty without one.
    _reader: FrameReader = field(default_factory=lambda: FrameReader(_FRAME_BYTES_MAX, VIEW_BYTES_MAX))
    _handshake: list[bytes] = field(default_factory=list)
    _credit_bytes: int = 0
    _head_cache: HeadCache = field(default_factory=HeadCache)

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent."""
        return self.ended is None and self.outgoing is not None

    def begin(self) -> None:
        """Starts the handshake with HELLO, or with AUTH before it."""
        self._handshake = [PREAMBLE]
        identity = self.identity
        if identity is not None:
            try:
                self._handshake.append(encode_control(identity.introduce()))
            except HopError as error:  # A file that cannot be used any more.
                self.ended = error
                return
        if identity is None or not identity.proves:
            self._handshake.append(encode_control(self.hello))

    def _prove(self, challenge: ChallengeReply) -> None:
        if self.identity is None or not self.identity.proves or self.outgoing is not None:
            raise PeerError(Drop.INCONSISTENT, "CHALLENGE that was not asked for")
        self._check_certified(challenge.daemon)
        proof = self.identity.prove(challenge, self.binding)
        self._handshake += [encode_control(proof), encode_control(self.hello)]

    def encrypted(self, channel: EncryptedChannel) -> None:
        """Records the channel below, whose handshake is complete."""
        self.binding, self.certified = channel.binding, channel.daemon

    def _check_certified(self, daemon: str) -> None:
        """A daemon speaks for itself only, as its certificate names it."""
        if self.certified and daemon != self.certified:
            raise PeerError(
                Drop.CERTIFICATE, f"it says that it is {daemon}, and its certificate is for {self.certified}"
            )

    @property
    def has_output(self) -> bool:
        """Whether there are bytes to send."""
        outgoing = self.outgoing
        if outgoing is None:
            return bool(self._handshake)
        return bool(outgoing.out) or outgoing.is_open or bool(self._handshake)

    def output(self) -> bytes:
        """Returns all bytes to send now, and forgets them."""
        if self.ended is not None:
            return b""
        out, self._handshake = self._handshake, []
        if self.outgoing is not None:
            self.outgoing.close_bundle()
            out += self.outgoing.out
            self.outgoing.out = []
        return out[0] if len(out) == 1 else b"".join(out)

    def credit(self, size_bytes: int) -> None:
        """Counts bytes that the application has taken; a large credit is sent to the daemon."""
        self._credit_bytes += size_bytes
        if self.outgoing is None or self.ended is not None:
            return
        if self._credit_bytes > self.hello.window_bytes // HELD_BACK_PART:
            # It does not close the open bundle, which it may pass.
            self.outgoing.out.append(encode_control(Credit(self._credit_bytes)))
            self._credit_bytes = 0

    def lost(self, reason: str, remedy: str = "connect again") -> None:
        """Ends the connection because it was lost."""
        if self.ended is None:
            self._end(SessionClosed(reason, remedy), may_retry=True)

    def _end(self, error: SessionClosed, *, may_retry: bool) -> None:
        if self.welcome is None:
            self.ended = ConnectError(self.url, error.reason, error.remedy)
        else:
            self.ended = error
        self.may_retry = may_retry

    # Frames of the daemon.

    def feed(self, chunk: bytes | memoryview) -> bool:
        """Adds bytes and handles the commonest frames; whether `handle_frame` is needed for the rest."""
        if type(chunk) is bytes and len(chunk) <= SHORT_BYTES and self.ended is None and self._reader.idle:
            at = self._handle_common(chunk)
            if at == len(chunk):
                return False
            chunk = chunk[at:]
        self._reader.feed(chunk)
        return True

    def _handle_common(self, chunk: bytes) -> int:
        """Handles credits and single messages; returns the position of the first other frame."""
        at = 0
        while len(chunk) - at >= FRAME_HEAD_BYTES:
            start = at + FRAME_HEAD_BYTES
            end = start + number_at(chunk, at)
            kind = number_at(chunk, at + 4)  # The kind and three zero bytes.
            if end > len(chunk):
                break
            if kind == _MESSAGES:
                body = chunk[start:end]
                message = self._head_cache.message(body)
                if message is None:
                    break
                sink = self.state.sink
                if sink is not None and message.headers is not NO_HEADERS and sink(message):
                    self.state.last = message.place
                    self.credit(end - at)
                elif (self.state.muted and self.state.drops(message.groups)) or (
                    self.state.only and self.state.unwanted(message)
                ):
                    self.credit(end - at)
                else:
                    self.state.put_single(message, body, end - at)
            elif self.outgoing is None or not self.outgoing.try_frame(kind, chunk, start, end):
                break
            at = end
        return at

    def handle_frame(self) -> bool:
        """Handles the next frame, if there is one; an invalid frame ends the connection."""
        if self.ended is not None:
            return False
        try:
            frame = self._reader.next()
            if frame is not None:
                self._frame(frame)
        except PeerError as error:
            reason = f"the daemon sent an invalid frame ({error})"
            self._end(SessionClosed(reason, "check the address"), may_retry=False)
            return True
        return frame is not None

    def _frame(self, frame: Frame) -> None:
        cost = FRAME_HEAD_BYTES + len(frame.body)
        if frame.kind is FrameKind.MESSAGES:
            self._messages(frame.body, cost)
            return
        if frame.kind is FrameKind.RETAINED:
            self._retained(frame.body, cost)
            return
        message = decode_control(frame)
        if isinstance(message, WelcomeReply) and self.welcome is None:
            self._check_certified(message.daemon)
            self.welcome = message
            self.outgoing = OutgoingRequests(message, self.state.guarded)
        elif isinstance(message, ViewNotice):
            self._view(message, cost)
        elif isinstance(message, (SignalNotice, GapNotice, WarningNotice)):
            self._put(message, cost)
        elif isinstance(message, LeftNotice):
            self.state.groups.discard(message.group)
            self.state.stream.close(message.group)
            self.state.answer(("leave", message.group), None)
            self.credit(cost)
        elif isinstance(message, Credit):
            self._credited(message.size_bytes)
        elif isinstance(message, RefusedReply):
            self._refused(message)
        elif isinstance(message, QueryReply):
            self._query_answered(message.serial, message.body)
        elif isinstance(message, ReceiptNotice) and self.outgoing is not None:
            self.outgoing.fill_tickets(message)
        elif isinstance(message, (LeaseNotice, LockedNotice, UnlockedNotice)):
            self.state.locks.handle(message)
        else:
            self._rare(message, frame.kind)

    def _rare(self, message: ControlMessage, kind: FrameKind) -> None:
        """Handles frames that come at most a few times in a connection."""
        if isinstance(message, DeniedNotice) and self.outgoing is not None:
            self._denied(message, self.outgoing)
        elif isinstance(message, ExpiredNotice) and self.outgoing is not None:
            self.outgoing.expire(message.tickets)
            self.state.expired += message.messages
        elif isinstance(message, ChallengeReply):
            self._prove(message)
        elif isinstance(message, ErrorNotice):
            ended = SlowConsumer if message.reason == SLOW_RECEIVER else SessionClosed
            error = ended(
                f"{message.reason} ({message.detail})" if message.detail else message.reason, message.remedy
            )
            self._end(error, may_retry=message.reason in RETRY_REASONS)
        elif isinstance(message, GoodbyeReply):
            self.quit_done = True
            self._end(SessionClosed("it was closed here"), may_retry=False)
        else:
            raise PeerError(Drop.INCONSISTENT, f"{kind.name} of a daemon")

    def _messages(self, body: bytes | memoryview, cost: int) -> None:
        messages = decode_delivered(body)
        if type(body) is bytes:
            self._head_cache.learn(body, messages)
        due_bytes = self.state.put_messages(messages, cost)
        if due_bytes:
            self.credit(due_bytes)

    def _retained(self, body: bytes | memoryview, cost: int) -> None:
        """The value of a group that the session has joined; no message of the order."""
        delivered = decode_delivered(body)
        (message,) = messages_of(delivered, 0, 1)
        # In a group with view synchrony it would be of no view.
        if self.state.hidden.isdisjoint(message.groups) and self.state.guarded.isdisjoint(message.groups):
            self.state.stream.put(replace(message, retained=True), cost)
        else:
            self.credit(cost)

    def _query_answered(self, serial: int, body: bytes) -> None:
        answer = decode_answer(body)
        if serial in self.state.query_answers:
            self.state.query_answers[serial] = answer

    def _view(self, message: ViewNotice, cost: int) -> None:
        view = view_of(message)
        own = view.who is not None and self._is_me(view.who)
        if own and message.cause == "join":
            self.state.groups.add(message.group)
            if message.group not in self.state.hidden:
                self.state.stream.open(message.group)
            self.state.answer(("join", message.group), None)
        if message.group in self.state.view_sinks:
            self.credit(cost)
            self.state.view_sinks[message.group](view, own and message.cause == "join")
        elif self.hello.membership and message.group not in self.state.hidden:
            self.state.stream.put_membership(view, cost, message)
        else:
            self.credit(cost)

    def _put(self, message: SignalNotice | GapNotice | WarningNotice, cost: int) -> None:
        if isinstance(message, SignalNotice):
            if message.group in self.state.view_sinks:
                self.credit(cost)
                self.state.view_sinks[message.group](transition_of(message), False)
            elif message.group in self.state.hidden:
                self.credit(cost)
            else:
                self.state.stream.put_membership(transition_of(message), cost, message)
        elif isinstance(message, GapNotice):
            self.state.stream.put(gap_of(message), cost)
        else:
            # It passed the events that wait, so it needs no room in the window.
            groups = tuple(sorted(self.state.groups - self.state.hidden))
            self.state.stream.put(
                SlowWarning(groups, message.waiting_bytes, message.limit_bytes, message.policy), 0
            )

    def _is_me(self, member: Member) -> bool:
        welcome = self.welcome
        assert welcome is not None, "views come after WELCOME"
        # A restarted daemon has other connections, so its incarnation need not be compared.
        return (member.daemon, member.session) == (welcome.daemon, welcome.session)

    def _credited(self, size_bytes: int) -> None:
        if self.outgoing is None or size_bytes > self.outgoing.charged_bytes:
            raise PeerError(Drop.OUT_OF_WINDOW, f"a credit of {size_bytes} bytes")
        self.outgoing.credited(size_bytes)

    def _denied(self, message: DeniedNotice, outgoing: OutgoingRequests) -> None:
        denied: HopError
        if message.reason == NOT_PRIMARY:
            denied = NotPrimary(message.reason, message.remedy)
        elif message.reason == SUSPENDED:
            denied = GroupSuspended(message.name, message.reason, message.remedy)
        elif message.reason.startswith(NOT_OFFERED):
            denied = NotOffered(message.reason, message.remedy)
        elif message.reason in DOUBTS:
            denied = InDoubt((message.name,), DOUBTS[message.reason])
        elif message.reason == TOO_RESILIENT:
            denied = RequestRefused(message.name, message.reason, message.remedy)
        else:
            denied = NotAllowed(self.url, message.reason, message.remedy, "send", message.name)
        outgoing.deny(message.tickets, denied)
        if not message.tickets and self.state.denied is None:
            self.state.denied = denied

    def _refused(self, message: RefusedReply) -> None:
        if message.request == "hello":
            if message.reason == NOT_PRIMARY:
                self.ended, self.may_retry = NotPrimary(message.reason, message.remedy), True
                return
            if message.reason in DENIALS:
                self.ended = NotAllowed(self.url, message.reason, message.remedy, "hello", message.name)
                return
            error = NameInUse if message.reason == NAME_IN_USE else ConnectError
            self.ended = error(self.url, f"{message.reason}: {message.name!r}", message.remedy)
            self.may_retry = message.reason == NAME_IN_USE
            return
        kinds: dict[str, type[RequestRefused]] = {
            NOT_A_MEMBER: NotMember,
            ALREADY_MEMBER: AlreadyMember,
        }
        request = (message.request, message.name)
        refused: HopError = kinds.get(message.reason, RequestRefused)(
            message.name, message.reason, message.remedy
        )
        if message.reason in DENIALS:
            refused = NotAllowed(self.url, message.reason, message.remedy, message.request, message.name)
        if message.request == "join" and request not in self.state.pending:
            # It was repeated automatically: no call waits for the answer.
            reason = f"{message.name} could not be joined again: {message.reason}"
            self._end(SessionClosed(reason, message.remedy), may_retry=False)
            return
        self.state.answer(request, refused)
