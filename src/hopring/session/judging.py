"""What a client says, judged: whether it may say that now, in whose name, and within its window.

A PeerError is raised before anything has changed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from hopring.errors import Drop, PeerError
from hopring.groups.events import Send
from hopring.ids import DaemonId
from hopring.session.frames import Frame, Kind
from hopring.session.options import REQUEST_COST_BYTES, WINDOW_BYTES_MAX, WINDOW_BYTES_MIN
from hopring.session.session import Session, State
from hopring.session.words import Ask, Credit, Hello, Join, Leave, Quit, decode_word
from hopring.wire.bundle import decode_bundle, with_daemon

Said = Hello | Credit | Join | Leave | Quit | Ask | Send


@dataclass(frozen=True, slots=True)
class Judge:
    """The limits of one daemon."""

    daemon: DaemonId
    message_bytes_max: int
    window_bytes: int
    # Sessions that were welcomed when the daemon had another number, by which they go on to call it.
    former: Mapping[int, DaemonId] = field(default_factory=dict)

    def said(self, session: Session, frame: Frame) -> Said:
        """What the client says; a request is charged to its window, a credit is booked."""
        if frame.kind is Kind.SEND and session.state is State.OPEN:
            return self._send(session, frame.body)
        word = decode_word(frame)
        match session.state, word:
            case State.STRANGER, Hello():
                if not WINDOW_BYTES_MIN <= word.window_bytes <= WINDOW_BYTES_MAX:
                    raise PeerError(Drop.LIMIT, f"a window of {word.window_bytes} bytes")
                return word
            case ((State.OPEN | State.ENDING), Credit()):
                session.taken(word)
                return word
            case State.OPEN, Join() | Leave() | Ask():
                session.charge(REQUEST_COST_BYTES, self.window_bytes)
                return word
            case State.OPEN, Quit():
                return word
            case _:
                raise PeerError(
                    Drop.INCONSISTENT, f"{frame.kind.name} of a client that is {session.state.value}"
                )

    def _send(self, session: Session, body: bytes) -> Send:
        bundle = decode_bundle(body)
        run = bundle.run
        if (run.daemon, run.session) != (self.former.get(session.number, self.daemon), session.number):
            raise PeerError(Drop.FOREIGN_SENDER, f"bundle of session {run.session} of daemon {run.daemon}")
        if run.channel:
            raise PeerError(Drop.INCONSISTENT, "a bundle with a channel, which is the daemon's")
        if len(bundle.bodies) > self.message_bytes_max:
            raise PeerError(Drop.LIMIT, f"{len(bundle.bodies)} bytes, of {self.message_bytes_max} at most")
        session.charge(REQUEST_COST_BYTES + len(body), self.window_bytes)
        session.wants_receipts = session.wants_receipts or any(bundle.hints)
        if run.daemon != self.daemon:
            run, body = replace(run, daemon=self.daemon), with_daemon(body, self.daemon)
        return Send(session.number, run, body)
