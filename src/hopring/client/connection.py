"""One connection of a session to a daemon, without the socket: frames in and out, and why it ended.

What outlives it is in `Kept`, which belongs to the session.
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
from hopring.client.events import Member, SlowWarning, gap_of, transition_of, view_of
from hopring.client.kept import Kept
from hopring.client.lone import Familiar, credit_at, number_at
from hopring.client.outgoing import Outgoing
from hopring.errors import Drop, HopError, PeerError
from hopring.session.answers import decode_told
from hopring.session.frames import FRAME_HEAD_BYTES, PREAMBLE, Frame, Kind, Reader
from hopring.session.messages import MESSAGES_HEAD_BYTES, SENDER_BYTES_MAX, decode_messages
from hopring.session.options import ALREADY_MEMBER, HELD_BACK_PART, NAME_IN_USE, NOT_A_MEMBER, SLOW_RECEIVER
from hopring.session.words import (
    Answer,
    Credit,
    Error,
    Gap,
    Goodbye,
    Hello,
    Left,
    Receipt,
    Refused,
    Signal,
    View,
    Warning,
    Welcome,
    decode_word,
    encode_word,
)
from hopring.wire.bundle import BUNDLE_BYTES_MAX

VIEW_BYTES_MAX: Final = 16 * 1024 * 1024
_FRAME_BYTES_MAX: Final = MESSAGES_HEAD_BYTES + BUNDLE_BYTES_MAX + SENDER_BYTES_MAX

SHORT_BYTES: Final = 4 * 1024
"""What comes in more than this at once is mostly bundles of many messages, or large ones."""

_MESSAGES: Final = int(Kind.MESSAGES)
_CREDIT: Final = int(Kind.CREDIT)

PASSING: Final = frozenset({"the daemon ends", "too many clients", "no HELLO in time"})
"""Reasons of ERROR that another daemon, or a later try, does not have."""


@dataclass(slots=True)
class Connection:
    """A session at one daemon."""

    url: str  # For errors.
    hello: Hello
    kept: Kept
    welcome: Welcome | None = None
    ended: HopError | None = None
    passing: bool = False
    """Whether it ended in a way that another connection may mend."""
    quit_done: bool = False
    outgoing: Outgoing | None = None
    _reader: Reader = field(default_factory=lambda: Reader(_FRAME_BYTES_MAX, VIEW_BYTES_MAX))
    _first: list[bytes] = field(default_factory=list)
    _credit_bytes: int = 0
    _familiar: Familiar = field(default_factory=Familiar)

    @property
    def is_open(self) -> bool:
        """Whether requests can go."""
        return self.ended is None and self.outgoing is not None

    def begin(self) -> None:
        """Says HELLO."""
        self._first = [PREAMBLE, encode_word(self.hello)]

    @property
    def has_output(self) -> bool:
        """Whether there is something to be sent."""
        outgoing = self.outgoing
        if outgoing is None:
            return bool(self._first)
        return bool(outgoing.out) or outgoing.is_open or bool(self._first)

    def output(self) -> bytes:
        """What is to be sent now."""
        if self.ended is not None:
            return b""
        out, self._first = self._first, []
        if self.outgoing is not None:
            self.outgoing.seal()
            out += self.outgoing.out
            self.outgoing.out = []
        return out[0] if len(out) == 1 else b"".join(out)

    def credit(self, size_bytes: int) -> None:
        """The application has taken so much; the daemon may send that much more."""
        self._credit_bytes += size_bytes
        if self.outgoing is None or self.ended is not None:
            return
        if self._credit_bytes > self.hello.window_bytes // HELD_BACK_PART:
            # It does not end a bundle: it may go before what is open.
            self.outgoing.out.append(encode_word(Credit(self._credit_bytes)))
            self._credit_bytes = 0

    def lost(self, reason: str, remedy: str = "connect again") -> None:
        """It is gone."""
        if self.ended is None:
            self._end(SessionClosed(reason, remedy), passing=True)

    def _end(self, error: SessionClosed, *, passing: bool) -> None:
        if self.welcome is None:
            self.ended = ConnectError(self.url, error.reason, error.remedy)
        else:
            self.ended = error
        self.passing = passing

    # What the daemon says.

    def feed(self, chunk: bytes | memoryview) -> bool:
        """Bytes; what is of the commonest kinds is taken in at once. Whether `take_frame` has to take more."""
        if type(chunk) is bytes and len(chunk) <= SHORT_BYTES and self.ended is None and self._reader.idle:
            at = self._take_common(chunk)
            if at == len(chunk):
                return False
            chunk = chunk[at:]
        self._reader.feed(chunk)
        return True

    def _take_common(self, chunk: bytes) -> int:
        """Takes credits and messages that came alone; returns where the first frame of another kind begins."""
        at = 0
        while len(chunk) - at >= FRAME_HEAD_BYTES:
            start = at + FRAME_HEAD_BYTES
            end = start + number_at(chunk, at)
            kind = number_at(chunk, at + 4)  # With three zeros behind it.
            if end > len(chunk):
                break
            if kind == _MESSAGES:
                body = chunk[start:end]
                message = self._familiar.message(body)
                if message is None:
                    break
                self.kept.put_lone(message, body, end - at)
            elif kind != _CREDIT or not self._take_credit(credit_at(chunk, start, end)):
                break
            at = end
        return at

    def _take_credit(self, size_bytes: int) -> bool:
        outgoing = self.outgoing
        if outgoing is None or not 0 <= size_bytes <= outgoing.charged_bytes:
            return False
        outgoing.credited(size_bytes)
        return True

    def take_frame(self) -> bool:
        """Takes the next frame in, if there is one; what is wrong with it ends the connection."""
        if self.ended is not None:
            return False
        try:
            frame = self._reader.next()
            if frame is not None:
                self._frame(frame)
        except PeerError as error:
            reason = f"what came is not of the client protocol ({error})"
            self._end(SessionClosed(reason, "check the address"), passing=False)
            return True
        return frame is not None

    def _frame(self, frame: Frame) -> None:
        cost = FRAME_HEAD_BYTES + len(frame.body)
        if frame.kind is Kind.MESSAGES:
            self._messages(frame.body, cost)
            return
        word = decode_word(frame)
        if isinstance(word, Welcome) and self.welcome is None:
            self.welcome = word
            self.outgoing = Outgoing(word)
        elif isinstance(word, View):
            self._view(word, cost)
        elif isinstance(word, (Signal, Gap, Warning)):
            self._put(word, cost)
        elif isinstance(word, Left):
            self.kept.groups.discard(word.group)
            self.kept.stream.close(word.group)
            self.kept.answer(("leave", word.group), None)
            self.credit(cost)
        elif isinstance(word, Credit):
            self._credited(word.size_bytes)
        elif isinstance(word, Refused):
            self._refused(word)
        elif isinstance(word, Answer):
            self._told(word.serial, word.body)
        elif isinstance(word, Receipt) and self.outgoing is not None:
            self.outgoing.settle(word)
        elif isinstance(word, Error):
            kind = SlowConsumer if word.reason == SLOW_RECEIVER else SessionClosed
            error = kind(f"{word.reason} ({word.detail})" if word.detail else word.reason, word.remedy)
            self._end(error, passing=word.reason in PASSING)
        elif isinstance(word, Goodbye):
            self.quit_done = True
            self._end(SessionClosed("it was closed here"), passing=False)
        else:
            raise PeerError(Drop.INCONSISTENT, f"{frame.kind.name} of a daemon")

    def _messages(self, body: bytes | memoryview, cost: int) -> None:
        messages = decode_messages(body)
        if type(body) is bytes:
            self._familiar.learn(body, messages)
        if not self.kept.put_messages(messages, cost):
            self.credit(cost)

    def _told(self, serial: int, body: bytes) -> None:
        told = decode_told(body)
        if serial in self.kept.told:
            self.kept.told[serial] = told

    def _view(self, word: View, cost: int) -> None:
        view = view_of(word)
        own = view.who is not None and self._is_me(view.who)
        if own and word.cause == "join":
            self.kept.groups.add(word.group)
            self.kept.stream.open(word.group)
            self.kept.answer(("join", word.group), None)
        if self.hello.membership:
            self.kept.stream.put(view, cost)
        else:
            self.credit(cost)

    def _put(self, word: Signal | Gap | Warning, cost: int) -> None:
        if isinstance(word, Signal):
            self.kept.stream.put(transition_of(word), cost)
        elif isinstance(word, Gap):
            self.kept.stream.put(gap_of(word), cost)
        else:
            # It passed what waits, so it needs no room in the window.
            groups = tuple(sorted(self.kept.groups))
            self.kept.stream.put(SlowWarning(groups, word.waiting_bytes, word.limit_bytes, word.policy), 0)

    def _is_me(self, member: Member) -> bool:
        welcome = self.welcome
        assert welcome is not None, "views come after WELCOME"
        # A later life of the daemon has other connections, so its incarnation need not be compared.
        return (member.daemon, member.session) == (welcome.daemon, welcome.session)

    def _credited(self, size_bytes: int) -> None:
        if self.outgoing is None or size_bytes > self.outgoing.charged_bytes:
            raise PeerError(Drop.OUT_OF_WINDOW, f"a credit of {size_bytes} bytes")
        self.outgoing.credited(size_bytes)

    def _refused(self, word: Refused) -> None:
        if word.request == "hello":
            error = NameInUse if word.reason == NAME_IN_USE else ConnectError
            self.ended = error(self.url, f"{word.reason}: {word.name!r}", word.remedy)
            self.passing = word.reason == NAME_IN_USE
            return
        kinds: dict[str, type[RequestRefused]] = {
            NOT_A_MEMBER: NotMember,
            ALREADY_MEMBER: AlreadyMember,
        }
        request = (word.request, word.name)
        refused = kinds.get(word.reason, RequestRefused)(word.name, word.reason, word.remedy)
        if word.request == "join" and request not in self.kept.pending:
            # It was made again by itself, so that nobody waits for the answer.
            reason = f"{word.name} could not be joined again: {word.reason}"
            self._end(SessionClosed(reason, word.remedy), passing=False)
            return
        self.kept.answer(request, refused)
