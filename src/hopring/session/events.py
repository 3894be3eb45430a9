"""Events between the session server and its driver; those of the engine are in `hopring.engine`."""

from dataclasses import dataclass
from typing import Final, final

from hopring.config.access import ANONYMOUS
from hopring.engine import Resume, Withdraw
from hopring.groups.events import FromBelow
from hopring.ids import NEVER
from hopring.links.events import Tick
from hopring.session.dialect import Dialect
from hopring.value import Value


@dataclass(frozen=True, slots=True)
class ConnectionOpened:
    """A client connects; its number is not used twice in this incarnation of the daemon."""

    session: int
    dialect: Dialect | None = None  # None is the native one.
    address: str = ""  # The client's address, if it is known.
    identity: str = ANONYMOUS  # As far as the connection tells it.
    binding: bytes = b""  # Identifies the encrypted channel, for signatures; empty if there is none.
    expires_at_us: int = NEVER  # When the identity ends, if it is that of a certificate.
    certificate: bytes = b""  # The SHA-256 digest of the certificate that the client has shown, if any.


@final
class BytesReceived(Value):
    """Bytes that arrived from a client."""

    def __init__(self, session: int, chunk: bytes) -> None:
        self.session: Final = session
        self.chunk: Final = chunk


@dataclass(frozen=True, slots=True)
class ConnectionLost:
    """The connection was lost; one that the server closed is not reported."""

    session: int


@final
class OutputReady(Value):
    """There is output for a client: `outgoing` returns it."""

    def __init__(self, session: int) -> None:
        self.session: Final = session


@dataclass(frozen=True, slots=True)
class Pause:
    """Stops reading from a client until `Listen`; the server keeps the bytes that it has."""

    session: int


@dataclass(frozen=True, slots=True)
class Listen:
    """Resumes reading from a client."""

    session: int


@dataclass(frozen=True, slots=True)
class Close:
    """Sends the last bytes, behind all output fetched before, and ends the connection."""

    session: int
    last: bytes
    reason: str  # For the log; empty if the client asked for the end.
    name: str = ""  # The client's name, if it is known.
    refused: bool = False  # The session was never admitted.


@dataclass(frozen=True, slots=True)
class AccessNote:
    """For the audit: a session was admitted, or a request was refused."""

    session: int
    event: str  # connect or refused.
    identity: str
    name: str  # Of the session.
    request: str = ""  # hello, auth, join, send, app, or the subject of a query.
    subject: str = ""  # The group, the application or the right.
    reason: str = ""


Input = ConnectionOpened | BytesReceived | ConnectionLost | FromBelow | Tick
Output = OutputReady | Pause | Listen | Close | AccessNote | Resume | Withdraw
