"""Dialects: how that is written what clients and their daemon say to each other.

What is said is in words.py, whatever the dialect. A dialect belongs to a daemon, and writes once what many of
its clients are shown; a conversation belongs to one connection.
"""

from dataclasses import dataclass
from typing import Protocol

from hopring.groups.events import DeliverBundle, LeftGroup, Send, ShowSignal, ShowView
from hopring.session.held import Held
from hopring.session.words import Ask, Credit, Hello, Join, Leave, Quit, Word


@dataclass(frozen=True, slots=True)
class Admitted:
    """The end of a handshake that went on after the welcome."""

    answer: bytes
    refused: str = ""  # Why there is no session after all.


Said = Hello | Credit | Join | Leave | Quit | Ask | Send | Admitted


class Conversation(Protocol):
    """With one client."""

    @property
    def greeting(self) -> bytes:
        """What the daemon says first."""

    @property
    def admitted(self) -> bool:
        """Whether nothing is missing of the handshake, once the welcome is told."""

    @property
    def wants_receipts(self) -> bool:
        """Whether the client has ever asked for one."""

    def feed(self, chunk: bytes) -> None:
        """Bytes of the client."""

    def next(self) -> Said | None:
        """What it says next, if all of it is here; a PeerError is the end of the connection."""

    def tell(self, word: Word) -> bytes:
        """A word as the client gets it; nothing if its dialect has no way to say that."""


class Dialect(Protocol):
    """Of one daemon."""

    @property
    def native(self) -> bool:
        """Whether its clients keep to credits, choose a policy for when they are slow, and see their own joins.

        Others are not listened to while their window is full, have the policy of the daemon, and see no
        membership at all if they did not ask for it.
        """

    def converse(self, session: int, address: str) -> Conversation:
        """With a client that has just come, from this address if it is known."""

    def messages(self, deliver: DeliverBundle) -> Held:
        """A bundle."""

    def view(self, show: ShowView) -> Held:
        """A view."""

    def signal(self, show: ShowSignal) -> Held:
        """A signal."""

    def left(self, event: LeftGroup) -> Held:
        """The end of a membership."""
