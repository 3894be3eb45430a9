"""The core of a client: the protocol without a socket. Two shells drive it, one of asyncio and one that blocks.

Bytes from the daemon go into `receive`; `output` gives the bytes for it. Answers to requests are in `answers`
until somebody takes them, events in `stream`. After `ended` there is nothing more to send.
"""

from dataclasses import dataclass, field
from typing import Final

from hopring.client.errors import (
    AlreadyMember,
    ConnectError,
    NameInUse,
    NotMember,
    RequestRefused,
    SessionClosed,
    SlowConsumer,
)
from hopring.client.events import Event, Member, SlowWarning, gap_of, messages_of, transition_of, view_of
from hopring.client.outgoing import Outgoing
from hopring.client.stream import Stream
from hopring.errors import Drop, HopError, PeerError
from hopring.session.frames import FRAME_HEAD_BYTES, PREAMBLE, Frame, Kind, Reader
from hopring.session.messages import MESSAGES_HEAD_BYTES, SENDER_BYTES_MAX, decode_messages
from hopring.session.options import (
    ALREADY_MEMBER,
    NAME_IN_USE,
    NOT_A_MEMBER,
    REQUEST_COST_BYTES,
    SLOW_RECEIVER,
    Slow,
)
from hopring.session.words import (
    Credit,
    Error,
    Gap,
    Goodbye,
    Hello,
    Join,
    Leave,
    Left,
    Quit,
    Refused,
    Signal,
    View,
    Warning,
    Welcome,
    decode_word,
    encode_word,
)
from hopring.wire.bundle import BUNDLE_BYTES_MAX

WINDOW_BYTES_DEFAULT: Final = 1024 * 1024
VIEW_BYTES_MAX: Final = 16 * 1024 * 1024
_FRAME_BYTES_MAX: Final = MESSAGES_HEAD_BYTES + BUNDLE_BYTES_MAX + SENDER_BYTES_MAX

Request = tuple[str, str]
"""What was asked for, hello, join, leave or quit, and the group."""


@dataclass(slots=True)
class Core:
    """One session, seen from the client."""

    url: str  # For errors.
    name: str
    window_bytes: int = WINDOW_BYTES_DEFAULT
    membership: bool = True
    slow: str = "kick"
    priority: bool = False
    welcome: Welcome | None = None
    ended: HopError | None = None
    """Why there is no more to come; after QUIT that is no failure, and `quit_done` is true."""
    quit_done: bool = False
    answers: dict[Request, HopError | None] = field(default_factory=dict)
    groups: set[str] = field(default_factory=set)  # Joined, and the leave is not through.
    stream: Stream = field(default_factory=Stream)
    _reader: Reader = field(default_factory=lambda: Reader(_FRAME_BYTES_MAX, VIEW_BYTES_MAX))
    _outgoing: Outgoing | None = None
    _first: list[bytes] = field(default_factory=list)
    _credit_bytes: int = 0

    @property
    def welcomed(self) -> Welcome:
        """What the daemon said at the beginning; a shell hands a session out only after it."""
        assert self.welcome is not None, "views and requests come after WELCOME"
        return self.welcome

    def hello(self) -> None:
        """Begins."""
        hello = Hello(self.name, self.window_bytes, self.membership, Slow(self.slow).value, self.priority)
        self._first = [PREAMBLE, encode_word(hello)]

    def output(self) -> bytes:
        """What is to be sent now."""
        out, self._first = self._first, []
        if self._outgoing is not None:
            self._outgoing.seal()
            out += self._outgoing.out
            self._outgoing.out = []
        return b"".join(out)

    @property
    def outgoing(self) -> Outgoing:
        """The way to the daemon; an error says that there is none any more."""
        if self.ended is not None:
            raise self.ended
        assert self._outgoing is not None, "there is a session"
        return self._outgoing

    # Requests.

    def may_ask(self) -> bool:
        """Whether the daemon takes another join or leave now; an error if the session has ended."""
        return self.outgoing.has_room_for_word()

    def answered(self, request: Request) -> bool:
        """Whether the answer is in `answers`; an error if it cannot come any more."""
        if request not in self.answers and self.ended is not None:
            raise self.ended
        return request in self.answers

    def join(self, group: str) -> None:
        """Asks for a membership; look at `may_ask` first."""
        self.outgoing.ask(Join(group), REQUEST_COST_BYTES)

    def leave(self, group: str) -> None:
        """Asks for the end of a membership; look at `may_ask` first."""
        self.outgoing.ask(Leave(group), REQUEST_COST_BYTES)

    def quit(self) -> None:
        """Asks for the end, when all that was asked for is done."""
        self.outgoing.ask(Quit())

    def take(self, group: str | None = None) -> Event | None:
        """The next event, of this group or at all; the daemon may then send that much more."""
        taken = self.stream.take(group)
        if taken is None:
            return None
        self._credit(taken[1])
        return taken[0]

    def _credit(self, size_bytes: int) -> None:
        self._credit_bytes += size_bytes
        nothing_left = not self.stream.events
        if self._outgoing is None or self.ended is not None or not self._credit_bytes:
            return
        if nothing_left or self._credit_bytes >= self.window_bytes // 4:
            # It does not end a bundle: it may go before what is open.
            self._outgoing.out.append(encode_word(Credit(self._credit_bytes)))
            self._credit_bytes = 0

    # What the daemon says.

    def receive(self, chunk: bytes) -> None:
        """Takes bytes; what is wrong with them ends the session."""
        if self.ended is not None:
            return
        self._reader.feed(chunk)
        try:
            while self.ended is None and (frame := self._reader.next()) is not None:
                self._frame(frame)
        except PeerError as error:
            self.end(SessionClosed(f"what came is not of the client protocol ({error})", "check the address"))

    def lost(self, reason: str) -> None:
        """The connection is gone."""
        if self.ended is None:
            self.end(SessionClosed(reason))

    def end(self, error: HopError) -> None:
        """Nothing more comes or goes."""
        if self.welcome is None and isinstance(error, SessionClosed):
            error = ConnectError(self.url, error.reason, error.remedy)
        self.ended = error

    def _frame(self, frame: Frame) -> None:
        cost = FRAME_HEAD_BYTES + len(frame.body)
        if frame.kind is Kind.MESSAGES:
            *others, last = messages_of(decode_messages(frame.body))
            for message in others:
                self.stream.put(message, 0)
            self.stream.put(last, cost)
            return
        word = decode_word(frame)
        match word:
            case Welcome() if self.welcome is None:
                self.welcome = word
                self._outgoing = Outgoing(word)
            case View():
                self._view(word, cost)
            case Signal():
                self.stream.put(transition_of(word), cost)
            case Gap() | Warning():
                self._slow(word, cost)
            case Left(group):
                self.groups.discard(group)
                self.stream.close(group)
                self.answers["leave", group] = None
                self._credit(cost)
            case Credit(size_bytes):
                self._credited(size_bytes)
            case Refused():
                self._refused(word)
            case Error(reason, detail, remedy):
                kind = SlowConsumer if reason == SLOW_RECEIVER else SessionClosed
                self.end(kind(f"{reason} ({detail})" if detail else reason, remedy))
            case Goodbye():
                self.quit_done = True
                self.end(SessionClosed("it was closed here"))
            case _:
                raise PeerError(Drop.INCONSISTENT, f"{frame.kind.name} of a daemon")

    def _view(self, word: View, cost: int) -> None:
        view = view_of(word)
        own = view.who is not None and self._is_me(view.who)
        if own and word.cause == "join":
            self.groups.add(word.group)
            self.stream.open(word.group)
            self.answers["join", word.group] = None
        if self.membership:
            self.stream.put(view, cost)
        else:
            self._credit(cost)

    def _slow(self, word: Gap | Warning, cost: int) -> None:
        if isinstance(word, Gap):
            self.stream.put(gap_of(word), cost)
        else:
            # It passed what waits, so it needs no room in the window.
            groups = tuple(sorted(self.groups))
            self.stream.put(SlowWarning(groups, word.waiting_bytes, word.limit_bytes, word.policy), 0)

    def _is_me(self, member: Member) -> bool:
        welcome = self.welcomed
        # A later life of the daemon has other connections, so its incarnation need not be compared.
        return (member.daemon, member.session) == (welcome.daemon, welcome.session)

    def _credited(self, size_bytes: int) -> None:
        if self._outgoing is None or size_bytes > self._outgoing.charged_bytes:
            raise PeerError(Drop.OUT_OF_WINDOW, f"a credit of {size_bytes} bytes")
        self._outgoing.charged_bytes -= size_bytes

    def _refused(self, word: Refused) -> None:
        if word.request == "hello":
            error = NameInUse if word.reason == NAME_IN_USE else ConnectError
            self.ended = error(self.url, f"{word.reason}: {word.name!r}", word.remedy)
            return
        kinds: dict[str, type[RequestRefused]] = {
            NOT_A_MEMBER: NotMember,
            ALREADY_MEMBER: AlreadyMember,
        }
        refused = kinds.get(word.reason, RequestRefused)(word.name, word.reason, word.remedy)
        self.answers[word.request, word.name] = refused
