"""Wire encodings of the client protocol: the native one, or Spread's.

The messages are those of protocol.py in every dialect. A dialect belongs to a daemon and renders an event once
for all clients that speak it; a conversation belongs to one connection.
"""

from dataclasses import dataclass
from typing import Protocol

from hopring.groups.events import DeliverBundle, LeftGroup, Send, ShowRetained, ShowSignal, ShowView
from hopring.session.backlog import SharedFrame
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
)


@dataclass(frozen=True, slots=True)
class Admitted:
    """The end of a handshake that continued after the welcome."""

    answer: bytes
    refused: str = ""  # The reason for a refusal; empty if the client is admitted.


@dataclass(frozen=True, slots=True)
class SendWithin:
    """A bundle with a time to live, from its arrival at the daemon on."""

    send: Send
    ttl_us: int


ClientRequest = (
    HelloRequest
    | AuthRequest
    | ProofRequest
    | Credit
    | JoinRequest
    | LeaveRequest
    | LockRequest
    | UnlockRequest
    | QuitRequest
    | QueryRequest
    | Send
    | SendWithin
    | Admitted
)


class Conversation(Protocol):
    """Decodes the bytes of one client, and encodes the messages for it."""

    @property
    def greeting(self) -> bytes:
        """The first bytes from the daemon."""

    @property
    def admitted(self) -> bool:
        """Whether the welcome completes the handshake."""

    @property
    def wants_receipts(self) -> bool:
        """Whether the client has ever asked for a receipt."""

    def feed(self, chunk: bytes) -> None:
        """Takes bytes that the client has sent."""

    def next(self) -> ClientRequest | None:
        """The next message of the client, if it is complete; a PeerError ends the connection."""

    def encode(self, message: ControlMessage) -> bytes:
        """Encodes a message for the client; empty if the dialect cannot express it."""


class Dialect(Protocol):
    """One encoding, as one daemon speaks it."""

    @property
    def native(self) -> bool:
        """Whether its clients follow credits, choose a policy for slow receivers, and see their own joins.

        Clients of other dialects are not read while their window is full, have the daemon's policy, and see no
        membership at all unless they asked for it.
        """

    def converse(self, session: int, address: str) -> Conversation:
        """Starts a conversation with a new client; the address is empty if it is not known."""

    def render_messages(self, deliver: DeliverBundle) -> SharedFrame:
        """Renders a delivered bundle as frames."""

    def render_view(self, show: ShowView) -> SharedFrame:
        """Renders a view of a group."""

    def render_signal(self, show: ShowSignal) -> SharedFrame:
        """Renders a transitional signal as a frame."""

    def render_retained(self, show: ShowRetained) -> SharedFrame:
        """Renders a retained value as a frame; native clients only get one."""

    def render_left(self, event: LeftGroup) -> SharedFrame:
        """Renders the end of a client's own membership."""
