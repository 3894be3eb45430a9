"""What can be tuned of sessions, and what their limits are."""

from dataclasses import dataclass
from typing import Final

REQUEST_COST_BYTES: Final = 256
"""What a request takes of the window beside its bundle."""

SLOW_RECEIVER: Final = "slow receiver"
"""The reason that a client is told when too much waited for it."""

NAME_IN_USE: Final = "name in use"
ALREADY_MEMBER: Final = "already a member"
NOT_A_MEMBER: Final = "not a member"
"""Reasons of REFUSED that a client tells apart, as groups word them; a client need not load groups for that."""

TICKETS_MAX: Final = 255
"""Receipts that one session may wait for at a time: a ticket is a byte, and none is 0."""

WINDOW_BYTES_MIN: Final = 4 * 1024
WINDOW_BYTES_MAX: Final = 64 * 1024 * 1024
"""What a client may ask for as its own window."""


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """Limits and times."""

    sessions_max: int = 4096
    strangers_max: int = 256  # Connections that have not said HELLO.
    hello_us: int = 3_000_000  # So long they have for it.
    groups_max: int = 4096  # That one session may be in.
    window_bytes: int = 1024 * 1024  # Of requests of one session that have not gone out.
    backlog_bytes_max: int = (
        16 * 1024 * 1024
    )  # Of what one client was not ready to take; more, and it has to go.
