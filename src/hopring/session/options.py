"""What can be tuned of sessions, and what their limits are."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal

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

STALLED_US: Final = 1_000_000
"""A Spread client with too many messages waiting has to have taken something within this time."""

TOO_MANY_CLIENTS: Final = "too many clients"
"""The reason that a client is told when there is no room for it."""

HELD_BACK_PART: Final = 4
"""The part of its window, as a divisor, for which a client may owe the daemon credits that are due.

The daemon counts so much as nothing. Otherwise an event that is longer than the rest of the window, and waits
for all before it to be taken, would wait for ever."""

CREDIT_PART: Final = 4
"""The part of the daemon's window, as a divisor, for which a client is told at once what has gone out."""

CREDIT_DELAY_US: Final = 10_000
"""Less than that is told with whatever goes to the client next, or so long afterwards: by itself it would wake
the client for nothing."""

WINDOW_BYTES_MIN: Final = 4 * 1024
WINDOW_BYTES_MAX: Final = 64 * 1024 * 1024
"""What a client may ask for as its own window."""


class Slow(StrEnum):
    """What a daemon does when too much waits for a client; the client chooses."""

    KICK = "kick"  # Its session ends, and it is told why.
    BLOCK = "block"  # Senders at the same daemon wait; others cannot be held back, so there is a limit.
    SPILL = "spill"  # What waits goes to disk.
    DROP = "drop"  # Messages are dropped, and counted where they are missing.


SlowPolicy = Literal["kick", "block", "spill", "drop"]
"""The same as clients and configurations spell it."""


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """Limits and times."""

    sessions_max: int = 4096
    strangers_max: int = 256  # Connections that have not said HELLO.
    hello_us: int = 3_000_000  # So long they have for it.
    groups_max: int = 4096  # That one session may be in.
    window_bytes: int = 1024 * 1024  # Of requests of one session that have not gone out.
    slow_allowed: frozenset[Slow] = frozenset(Slow)  # Policies that clients may choose.
    backlog_bytes_max: int = 16 * 1024 * 1024  # Of what one client was not ready to take: then its policy acts.
    backlogs_bytes_max: int = 256 * 1024 * 1024  # Of all clients; a frame that many wait for counts once.
    spill_memory_bytes: int = 4 * 1024 * 1024  # Of what waits for a client that spills; the rest is on disk.
    spill_bytes_max: int = 16 * 1024 * 1024 * 1024  # On disk for one client: minutes at full load.
    block_us: int = 30_000_000  # So long a client may take nothing while others wait for it.
    spread_messages_max: int = 1000  # Of what waits for a Spread client that takes nothing for a while.
    spread_slow: SlowPolicy = "kick"  # The policy for Spread clients, which cannot choose.
    spread_access: tuple[str, ...] = ()  # Networks that Spread clients may come from; without any, all.

    def limit_bytes(self, policy: Slow) -> int:
        """Where a policy begins to act."""
        return self.spill_memory_bytes if policy is Slow.SPILL else self.backlog_bytes_max
