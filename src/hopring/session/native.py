"""The native dialect: frames of words and bundles, the client protocol of this library."""

from dataclasses import dataclass, field
from typing import Final

from hopring.errors import Drop, PeerError
from hopring.groups.events import DeliverBundle, LeftGroup, Send, ShowSignal, ShowView
from hopring.groups.groups import Groups
from hopring.ids import DaemonId
from hopring.session import showing
from hopring.session.dialect import Said
from hopring.session.frames import PREAMBLE, Kind, Reader
from hopring.session.held import Held, held
from hopring.session.options import WINDOW_BYTES_MAX, WINDOW_BYTES_MIN
from hopring.session.words import Ask, Credit, Hello, Join, Leave, Quit, Welcome, Word, decode_word, encode_word
from hopring.wire.bundle import decode_bundle, with_daemon

NOBODY: Final = DaemonId(-1)


@dataclass(frozen=True, slots=True, eq=False)
class Native:
    """As one daemon speaks it."""

    groups: Groups  # They know the daemons' numbers and names.
    bundle_bytes_max: int
    message_bytes_max: int

    @property
    def native(self) -> bool:
        """It is."""
        return True

    def converse(self, session: int, _address: str = "") -> "NativeConversation":
        """With a new client."""
        return NativeConversation(self, session, Reader(self.bundle_bytes_max))

    def messages(self, deliver: DeliverBundle) -> Held:
        """A bundle, as it is."""
        return showing.messages(deliver)

    def view(self, show: ShowView) -> Held:
        """A view."""
        return held(showing.view(show, self.groups.names))

    def signal(self, show: ShowSignal) -> Held:
        """A signal."""
        return held(showing.signal(show, self.groups.names))

    def left(self, event: LeftGroup) -> Held:
        """The end of a membership."""
        return held(showing.left(event))


@dataclass(slots=True)
class NativeConversation:
    """With one client."""

    dialect: Native
    session: int
    reader: Reader
    wants_receipts: bool = False
    daemon: DaemonId = NOBODY  # The number that the client was told; it may have changed since.
    greeting: bytes = field(default=PREAMBLE)
    admitted: bool = True

    def feed(self, chunk: bytes) -> None:
        """More bytes."""
        self.reader.feed(chunk)

    def next(self) -> Said | None:
        """The next frame, read and checked."""
        frame = self.reader.next()
        if frame is None:
            return None
        if frame.kind is Kind.SEND:
            return self._send(frame.body)
        word = decode_word(frame)
        if isinstance(word, Hello) and not WINDOW_BYTES_MIN <= word.window_bytes <= WINDOW_BYTES_MAX:
            raise PeerError(Drop.LIMIT, f"a window of {word.window_bytes} bytes")
        if not isinstance(word, Hello | Credit | Join | Leave | Quit | Ask):
            raise PeerError(Drop.INCONSISTENT, f"{frame.kind.name} is for the daemon to say")
        return word

    def tell(self, word: Word) -> bytes:
        """A word as a frame."""
        if isinstance(word, Welcome):
            self.daemon = DaemonId(word.daemon_number)
        return encode_word(word)

    def _send(self, body: bytes | memoryview) -> Send:
        bundle = decode_bundle(body)
        run = bundle.run
        if (run.daemon, run.session) != (self.daemon, self.session):
            raise PeerError(Drop.FOREIGN_SENDER, "a bundle that names another session as its sender")
        if run.channel:
            raise PeerError(Drop.INCONSISTENT, "a bundle with a channel, which is the daemon's")
        if run.spread_bits or run.spread_groups:
            raise PeerError(Drop.INCONSISTENT, "a bundle with what only Spread clients say")
        limit = self.dialect.message_bytes_max
        if len(bundle.bodies) > limit:
            raise PeerError(Drop.LIMIT, f"{len(bundle.bodies)} bytes, of {limit} at most")
        self.wants_receipts = self.wants_receipts or any(bundle.hints)
        now = self.dialect.groups.me.daemon
        if now != self.daemon:
            run, body = run.replace(daemon=now), with_daemon(body, now)
        return Send(self.session, run, body)
