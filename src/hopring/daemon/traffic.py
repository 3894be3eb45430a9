"""What an endpoint has carried, and what it has not, by reason."""

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum

from hopring.errors import Drop


class Unsent(StrEnum):
    """Why a datagram never left; all of them look like loss to the links."""

    QUEUE_FULL = "queue_full"
    UNREACHABLE = "unreachable"
    TOO_LONG = "too_long"
    REFUSED = "refused"


@dataclass(slots=True)
class Traffic:
    """Counts since the start. A train is what one system call carried, however many datagrams that was."""

    trains_sent: int = 0
    datagrams_sent: int = 0
    bytes_sent: int = 0
    trains_received: int = 0
    datagrams_received: int = 0
    bytes_received: int = 0
    dropped: Counter[Drop] = field(default_factory=Counter)  # Arrived, and refused.
    unsent: Counter[Unsent] = field(default_factory=Counter)

    def add(self, other: "Traffic") -> None:
        """What another endpoint has carried counts here from now on."""
        self.trains_sent += other.trains_sent
        self.datagrams_sent += other.datagrams_sent
        self.bytes_sent += other.bytes_sent
        self.trains_received += other.trains_received
        self.datagrams_received += other.datagrams_received
        self.bytes_received += other.bytes_received
        self.dropped += other.dropped
        self.unsent += other.unsent
