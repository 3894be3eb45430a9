"""The words between the desk and its driver; those towards the membership are its own."""

from dataclasses import dataclass
from typing import Final, final

from hopring.groups.events import FromBelow
from hopring.links.events import Tick
from hopring.membership.events import Resume, Withdraw
from hopring.session.dialect import Dialect
from hopring.value import Value


@dataclass(frozen=True, slots=True)
class Opened:
    """A client connects; the number is new in this life of the daemon."""

    session: int
    dialect: Dialect | None = None  # None is the native one.
    address: str = ""  # Where it comes from, if that is known.


@final
class Received(Value):
    """Bytes of a client."""

    def __init__(self, session: int, chunk: bytes) -> None:
        self.session: Final = session
        self.chunk: Final = chunk


@dataclass(frozen=True, slots=True)
class Lost:
    """The connection is gone; whoever closes it by itself says nothing."""

    session: int


@final
class Ready(Value):
    """There is something to send to a client: `outgoing` gives it."""

    def __init__(self, session: int) -> None:
        self.session: Final = session


@dataclass(frozen=True, slots=True)
class Pause:
    """Reads nothing more of a client until `Listen`; what was read before is kept here."""

    session: int


@dataclass(frozen=True, slots=True)
class Listen:
    """Reads on."""

    session: int


@dataclass(frozen=True, slots=True)
class Close:
    """Sends these last bytes, behind what was fetched before, and ends the connection."""

    session: int
    last: bytes
    reason: str  # For the log; empty if the client wished it.
    name: str = ""  # Of the client, as far as it has said it.
    refused: bool = False  # It was never let in.


Input = Opened | Received | Lost | FromBelow | Tick
Output = Ready | Pause | Listen | Close | Resume | Withdraw
