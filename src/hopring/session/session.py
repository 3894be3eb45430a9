"""A session: one client at its daemon, with what it may still ask for and what it has yet to take.

Invariants  requests on their way never pass the window; what waits for the client is counted, and events leave
            only while the client's own window has room, in their order. One event is always let through when
            no more is left of the last ones than clients may hold back of their credits.
"""

from collections import deque
from dataclasses import dataclass, field
from enum import Enum

from hopring.errors import Drop, PeerError
from hopring.session.backlog import Backlog
from hopring.session.dialect import Conversation, Dialect
from hopring.session.options import CREDIT_PART, HELD_BACK_PART
from hopring.session.words import Credit, Word


class State(Enum):
    """How far a client has come."""

    STRANGER = "stranger"  # Its handshake is not done.
    OPEN = "open"
    ENDING = "ending"  # It has said QUIT, and its end has no place in the order yet.


@dataclass(slots=True)
class Session:
    """One client."""

    number: int
    dialect: Dialect
    conversation: Conversation
    hello_by_us: int
    backlog: Backlog  # Events.
    state: State = State.STRANGER
    name: str = ""
    known: bool = False  # The groups know it, by this name.
    paused: bool = False  # It is not listened to.
    membership: bool = True
    priority: bool = False
    window_bytes: int = 0  # The client's, for events.
    untaken_bytes: int = 0  # Events that were sent and are not credited.
    charged_bytes: int = 0  # Requests that are not credited.
    control: deque[bytes] = field(default_factory=deque)
    control_bytes: int = 0
    credit_bytes: int = 0  # To be told to the client, in one word.

    def __post_init__(self) -> None:
        self.put(self.conversation.greeting)

    # Requests.

    def charge(self, cost_bytes: int, window_bytes: int) -> None:
        """A request comes in; who has no credits to keep to is stopped otherwise."""
        native = self.dialect.native
        if native and self.charged_bytes and self.charged_bytes + cost_bytes > window_bytes:
            raise PeerError(Drop.OUT_OF_WINDOW, f"requests of more than {window_bytes} bytes at once")
        self.charged_bytes += cost_bytes

    def credit(self, queued_bytes: int, window_bytes: int) -> bool:
        """Gives back what has gone out, with whatever goes to the client next; whether that is anything.

        As long as something waits, only if it is much: what is answered or refused passes messages that wait,
        and the client takes credits to be for the oldest of its requests. Its end waits too, uncharged.
        """
        done_bytes = self.charged_bytes - queued_bytes
        if done_bytes <= 0 or (queued_bytes and done_bytes < window_bytes // CREDIT_PART):
            return False
        self.charged_bytes = queued_bytes
        self.credit_bytes += done_bytes if self.dialect.native else 0
        return self.credit_bytes > 0

    # Events.

    def say(self, word: Word) -> None:
        """A word that needs no room in the client's window and no place among events."""
        self.put(self.conversation.tell(word))

    def put(self, frame: bytes) -> None:
        """Bytes that go before all events."""
        if frame:
            self.control.append(frame)
            self.control_bytes += len(frame)

    def taken(self, credit: Credit) -> None:
        """The client has done with so much."""
        if credit.size_bytes > self.untaken_bytes:
            raise PeerError(Drop.OUT_OF_WINDOW, f"a credit of {credit.size_bytes} for {self.untaken_bytes}")
        self.untaken_bytes -= credit.size_bytes

    @property
    def has_output(self) -> bool:
        """Whether something can go out now."""
        return bool(self.control or self.credit_bytes) or self._event_may_go

    @property
    def _event_may_go(self) -> bool:
        size_bytes = None if self.state is State.STRANGER else self.backlog.head_bytes()
        if size_bytes is None:
            return False
        # So much may be taken already: a word for each event would cost more than the event.
        held_back_bytes = self.window_bytes // HELD_BACK_PART
        return self.untaken_bytes <= held_back_bytes or self.untaken_bytes + size_bytes <= self.window_bytes

    def outgoing(self, bytes_max: int) -> list[bytes | memoryview]:
        """What goes out next, about so much, in pieces."""
        out: list[bytes | memoryview] = []
        size = 0
        while size < bytes_max:
            if self.control:
                frame = self.control.popleft()
                self.control_bytes -= len(frame)
            elif self.credit_bytes:
                frame = self.conversation.tell(Credit(self.credit_bytes))
                self.credit_bytes = 0
            elif self._event_may_go:
                parts = self.backlog.pop()
                for part in parts:
                    if part:  # A dialect may have no way to say it.
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
        """All that has not gone out, whatever the window says."""
        return b"".join([self.words(), *self.backlog.rest()])

    def words(self) -> bytes:
        """Of that, what needs no place among events."""
        credit = self.conversation.tell(Credit(self.credit_bytes)) if self.credit_bytes else b""
        return b"".join([*self.control, credit])
