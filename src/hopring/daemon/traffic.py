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
