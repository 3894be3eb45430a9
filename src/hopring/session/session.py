"""Connected sessions: the clients of a daemon from connection to end, with windows in both directions.

A client has two halves at its daemon. `ConnectedSession` is the connection; `LocalSession` (groups/sessions.py)
is the client as the groups know it, by name, until its end has a place in the order.

Invariants  requests in progress never exceed the daemon's window; events leave in their order, and only while
            the client's window has room. One event may always leave when the bytes without credit are no more
            than clients may hold back.
"""

from collections import Counter, deque
from dataclasses import dataclass, field
from enum import Enum
from heapq import heappop, heappush

from hopring.config.access import ANONYMOUS
from hopring.errors import Drop, PeerError
from hopring.groups.events import Send
from hopring.ids import NEVER
from hopring.session.backlog import Backlog
from hopring.session.dialect import Admitted, ClientRequest, Conversation, Dialect, SendWithin
from hopring.session.events import Close, ConnectionOpened, Output, OutputReady
from hopring.session.options import CREDENTIALS_EXPIRED, CREDIT_PART, HELD_BACK_PART, REQUEST_COST_BYTES, Slow
from hopring.session.protocol import (
    AuthRequest,
    ControlMessage,
    Credit,
    HelloRequest,
    JoinRequest,
    LeaveRequest,
    LockRequest,
    ProofRequest,
    QueryRequest,
    QuitRequest,
    UnlockRequest,
    kind_of_control,
)


class SessionPhase(Enum):
    """The phase of a session."""

    STRANGER = "stranger"  # Its handshake is not done.
    OPEN = "open"
    ENDING = "ending"  # After QUIT, until the end has its place in the order.


@dataclass(slots=True)
class ConnectedSession:
    """The half of a client that belongs to its connection: handshake, windows, and output that waits."""

    number: int
    dialect: Dialect
    conversation: Conversation
    hello_by_us: int
    backlog: Backlog  # Events.
    phase: SessionPhase = SessionPhase.STRANGER
    name: str = ""
    known: bool = False  # The groups have its other half, a `LocalSession`.
    paused: bool = False  # Its input is not read.
    membership: bool = True
    priority: bool = False
    window_bytes: int = 0  # The client's, for events.
    untaken_bytes: int = 0  # Events sent and not credited.
    charged_bytes: int = 0  # Requests received and not credited.
    control_queue: deque[bytes] = field(default_factory=deque)  # Frames that pass all events.
    control_bytes: int = 0  # The size of `control_queue`.
    credit_bytes: int = 0  # To be sent to the client in one CREDIT.
    identity: str = ANONYMOUS
    binding: bytes = b""
    certificate: bytes = b""  # The digest of the one that it has shown.
    user: str = ""  # Whose proof is awaited.
    nonce: bytes = b""  # That the proof has to sign; empty when none is awaited.
    key: bytes | None = None  # The public key that its user proved to have.
    authenticated: bool = False  # AUTH was answered, and may not come again.
    expires_at_us: int = NEVER  # When its token or certificate expires, and the session with it.

    def __post_init__(self) -> None:
        self.put(self.conversation.greeting)

    def identify(self, opened: ConnectionOpened) -> None:
        """Takes the identity that the connection itself tells."""
        self.identity, self.binding = opened.identity, opened.binding
        self.expires_at_us, self.certificate = opened.expires_at_us, opened.certificate

    def introduce(self, hello: HelloRequest) -> None:
        """Takes what the client says of itself."""
        self.backlog.policy = Slow(hello.slow)
        self.name, self.membership, self.window_bytes = hello.name, hello.membership, hello.window_bytes

    # Requests.

    def charge(self, cost_bytes: int, window_bytes: int) -> None:
        """Charges a request to the window; clients of dialects without credits are paused instead."""
        native = self.dialect.native
        if native and self.charged_bytes and self.charged_bytes + cost_bytes > window_bytes:
            raise PeerError(Drop.OUT_OF_WINDOW, f"requests of more than {window_bytes} bytes at once")
        self.charged_bytes += cost_bytes

    def credit(self, queued_bytes: int, window_bytes: int) -> bool:
        """Credits requests that have gone out; returns whether there is credit to send.

        While requests wait, only a large credit is given: answers and refusals pass waiting messages, and the
        client applies credits to its oldest requests. The end of the session waits too, uncharged.
        """
        done_bytes = self.charged_bytes - queued_bytes
        if done_bytes <= 0 or (queued_bytes and done_bytes < window_bytes // CREDIT_PART):
            return False
        self.charged_bytes = queued_bytes
        self.credit_bytes += done_bytes if self.dialect.native else 0
        return self.credit_bytes > 0

    # Events.

    def send_control(self, message: ControlMessage) -> None:
        """Queues a control message, which needs no room in the client's window and passes all events."""
        self.put(self.conversation.encode(message))

    def put(self, frame: bytes) -> None:
        """Queues bytes that pass all events."""
        if frame:
            self.control_queue.append(frame)
            self.control_bytes += len(frame)

    def apply_credit(self, credit: Credit) -> None:
        """Counts a credit of the client: events that it has taken."""
        if credit.size_bytes > self.untaken_bytes:
            raise PeerError(Drop.OUT_OF_WINDOW, f"a credit of {credit.size_bytes} for {self.untaken_bytes}")
        self.untaken_bytes -= credit.size_bytes

    @property
    def has_output(self) -> bool:
        """Whether anything can be sent now."""
        return bool(self.control_queue or self.credit_bytes) or self._event_may_go

    @property
    def _event_may_go(self) -> bool:
        size_bytes = None if self.phase is SessionPhase.STRANGER else self.backlog.head_bytes()
        if size_bytes is None:
            return False
        # The client may have taken this much already: a CREDIT for each event would cost more than the event.
        held_back_bytes = self.window_bytes // HELD_BACK_PART
        return self.untaken_bytes <= held_back_bytes or self.untaken_bytes + size_bytes <= self.window_bytes

    def outgoing(self, bytes_max: int) -> list[bytes | memoryview]:
        """The next output in pieces, about this many bytes."""
        out: list[bytes | memoryview] = []
        size = 0
        while size < bytes_max:
            if self.control_queue:
                frame = self.control_queue.popleft()
                self.control_bytes -= len(frame)
            elif self.credit_bytes:
                frame = self.conversation.encode(Credit(self.credit_bytes))
                self.credit_bytes = 0
            elif self._event_may_go:
                parts = self.backlog.pop()
                for part in parts:
                    if part:  # A dialect may not be able to express it.
                        self.untaken_bytes += len(part)
                        size += len(part)
                        out.append(part)
                continue
            else:
                break
            if frame:
                out.append(frame)
                size += len(frame)
        return out

    def rest(self) -> bytes:
        """All output that is left, regardless of the window."""
        return b"".join([self.control_frames(), *self.backlog.rest()])

    def control_frames(self) -> bytes:
        """The control messages and the credit that are left."""
        credit = self.conversation.encode(Credit(self.credit_bytes)) if self.credit_bytes else b""
        return b"".join([*self.control_queue, credit])


def check_and_charge(session: ConnectedSession, request: ClientRequest, window_bytes: int) -> None:
    """Checks that a client may make this request now, and charges its window; a PeerError changes nothing."""
    match session.phase, request:
        case SessionPhase.OPEN, Send():
            session.charge(REQUEST_COST_BYTES + len(request.bundle), window_bytes)
        case SessionPhase.OPEN, SendWithin():
            session.charge(REQUEST_COST_BYTES + len(request.send.bundle), window_bytes)
        case SessionPhase.OPEN, (
            JoinRequest() | LeaveRequest() | LockRequest() | UnlockRequest() | QueryRequest()
        ):
            session.charge(REQUEST_COST_BYTES, window_bytes)
        case ((SessionPhase.OPEN | SessionPhase.ENDING), Credit()):
            session.apply_credit(request)
        case SessionPhase.STRANGER, AuthRequest() if not session.authenticated and not session.nonce:
            pass
        case SessionPhase.STRANGER, ProofRequest() if session.nonce:
            pass
        case SessionPhase.STRANGER, HelloRequest() if session.nonce:
            raise PeerError(Drop.INCONSISTENT, "HELLO before the proof that AUTH promised")
        case (SessionPhase.STRANGER, HelloRequest() | Admitted()) | (SessionPhase.OPEN, QuitRequest()):
            pass
        case _:
            what = (
                kind_of_control(request).name
                if isinstance(request, ControlMessage)
                else type(request).__name__.upper()
            )
            raise PeerError(Drop.INCONSISTENT, f"{what} of a client that is {session.phase.value}")


class SessionRegistry:
    """The sessions of one daemon, from their connections to their ends, and the outputs for their driver.

    Strangers, sessions whose handshake is not done, have a deadline and a limit. Sessions of tokens and
    certificates end with these.
    """

    def __init__(self) -> None:
        self.sessions: dict[int, ConnectedSession] = {}
        self.ended: Counter[str] = Counter()
        """How often the daemon ended a session, by reason."""
        self.out: list[Output] = []
        self._strangers: dict[int, ConnectedSession] = {}  # The oldest first.
        self._expiring: list[tuple[int, int]] = []  # A heap of times and sessions, which may have ended.

    @property
    def wake_at_us(self) -> int:
        """The earliest deadline of a handshake, or of credentials."""
        while self._expiring and self._expiring[0][1] not in self.sessions:
            heappop(self._expiring)
        expires_at_us = self._expiring[0][0] if self._expiring else NEVER
        for oldest in self._strangers.values():
            return min(oldest.hello_by_us, expires_at_us)
        return expires_at_us

    def flush(self) -> list[Output]:
        """Returns all outputs so far, and forgets them."""
        out, self.out = self.out, []
        return out

    def add(self, session: ConnectedSession) -> None:
        """Adds a new connection as a stranger."""
        self.sessions[session.number] = self._strangers[session.number] = session

    def one_too_many(self, strangers_max: int) -> ConnectedSession | None:
        """The oldest stranger, if there are more than the limit."""
        return next(iter(self._strangers.values())) if len(self._strangers) > strangers_max else None

    def late(self, now_us: int) -> list[tuple[ConnectedSession, str, str]]:
        """Sessions whose handshake is late or whose credentials have expired, with reasons and remedies."""
        hello = "no HELLO in time", "say HELLO at once"
        late = [(one, hello[0], hello[1]) for one in self._strangers.values() if one.hello_by_us <= now_us]
        remedy = "put a new token, or a renewed certificate, into its file and connect again"
        while self._expiring and self._expiring[0][0] <= now_us:
            number = heappop(self._expiring)[1]
            if number in self.sessions:
                late.append((self.sessions[number], CREDENTIALS_EXPIRED, remedy))
        return late

    def admit(self, session: ConnectedSession) -> None:
        """Opens a session whose handshake is done."""
        session.phase = SessionPhase.OPEN
        self._strangers.pop(session.number, None)
        if session.expires_at_us < NEVER:
            heappush(self._expiring, (session.expires_at_us, session.number))

    def ready(self, session: ConnectedSession) -> None:
        """Tells the driver that a session has output, if it has."""
        if session.has_output:
            self.out.append(OutputReady(session.number))

    def close(self, session: ConnectedSession, last: bytes, reason: str) -> None:
        """Removes a session that the daemon ends, and sends its last bytes."""
        self.remove(session)
        if reason:
            self.ended[reason.partition(":")[0]] += 1
        refused = session.phase is SessionPhase.STRANGER
        self.out.append(Close(session.number, last, reason, session.name, refused))

    def remove(self, session: ConnectedSession) -> None:
        """Removes a session that has ended."""
        del self.sessions[session.number]
        self._strangers.pop(session.number, None)
