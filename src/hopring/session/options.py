"""Options and limits of sessions."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal

from hopring.config.access import ANONYMOUS

REQUEST_COST_BYTES: Final = 256
"""The cost of a request in the window, beside its bundle; the same as in groups/sessions.py."""

SLOW_RECEIVER: Final = "slow receiver"
"""The reason in ERROR for a client whose backlog was too long."""

NAME_IN_USE: Final = "name in use"
ALREADY_MEMBER: Final = "already a member"
NOT_A_MEMBER: Final = "not a member"
"""Reasons of REFUSED that clients distinguish; the same as in groups, which clients need not load."""

TICKETS_MAX: Final = 255
"""Receipts that one session may await at a time: a ticket is a byte, and 0 means none."""

STALLED_US: Final = 1_000_000
"""A Spread client with too many waiting messages is ended if it takes none for this time."""

TOO_MANY_CLIENTS: Final = "too many clients"
"""The reason in ERROR for a client above the limit of sessions."""

HELD_BACK_PART: Final = 4
"""A client may hold back credits for this part of its window (a divisor).

The daemon counts that much as nothing. Otherwise an event that is longer than the rest of the window, and so
waits until all events before it are credited, would wait for ever."""

CREDIT_PART: Final = 4
"""Credit for this part of the daemon's window (a divisor) is sent at once."""

CREDIT_DELAY_US: Final = 10_000
"""Smaller credits go with the next frame, or after this delay: alone they would wake the client for nothing."""

WINDOW_BYTES_MIN: Final = 4 * 1024
WINDOW_BYTES_MAX: Final = 64 * 1024 * 1024
"""The range of windows that a client may ask for."""


BLOCK_RIGHT: Final = "block"
PRIORITY_RIGHT: Final = "priority"
"""Rights in `allow` of `[clients]`: a receiver that lets senders wait, and sessions that precede others."""

NOT_ALLOWED: Final = "not allowed at this daemon"
"""The reason in REFUSED for a HELLO that asks for a right that clients do not have."""


NOT_AUTHENTICATED: Final = "not authenticated"
"""The reason in REFUSED for a client whose key, signature or token is not accepted."""

NOT_PRIMARY: Final = "the daemons' view is not primary"

WITHHELD: Final = "the view ceased to be primary before it was delivered here"
"""Of messages that were under way then: the side that stays primary may have got and delivered them."""

"""The reason for which a message with resilience MAJORITY, or a session that requires it, is refused."""

NOT_OFFERED: Final = "not offered by rings of peers"
"""The start of reasons in DENIED for what needs daemons; the same as in rmp/process, which is above."""

IN_DOUBT: Final = "in doubt"
"""The reason in DENIED for messages that may be delivered or not: the ring went on without their sender."""

TOO_RESILIENT: Final = "more resilient than the daemons can be"
"""The reason in DENIED for a message that would need more holders than there are daemons."""

DOUBTS: Final = {IN_DOUBT: "the others went on without this member", WITHHELD: WITHHELD}
"""What a client is told about messages with these reasons in DENIED: they may be delivered or not."""

SUSPENDED: Final = "the group is suspended"
"""The reason in DENIED for a message to a group that is below its minimum."""

WhenSuspended = Literal["wait", "fail"]
"""What becomes of messages to suspended groups: they wait at the daemon, or are refused."""

TTL_US_MAX: Final = 2**52
"""The longest time to live of a message, in microseconds."""

CREDENTIALS_EXPIRED: Final = "credentials expired"
"""The reason in ERROR for a client whose token or certificate has expired; it may return with another."""

DENIALS: Final = frozenset({NOT_ALLOWED, NOT_AUTHENTICATED})
"""Reasons that are errors of the kind NotAllowed at the client."""

RATE_CHECK_US: Final = 20_000
"""How often credit is looked at that waits because an identity sends more than its rate."""


class Slow(StrEnum):
    """The policy for a slow receiver, chosen by the client."""

    KICK = "kick"  # Its session ends with an ERROR.
    BLOCK = "block"  # Senders to its groups wait, at all daemons, as long as it takes events.
    SPILL = "spill"  # The backlog goes to disk.
    DROP = "drop"  # Messages are dropped, and a GAP counts them.


SlowPolicy = Literal["kick", "block", "spill", "drop"]
"""The policies as clients and configurations spell them."""


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """Limits and times of sessions."""

    sessions_max: int = 4096
    strangers_max: int = 256  # Connections that have not said HELLO.
    hello_us: int = 3_000_000  # The time for the handshake.
    groups_max: int = 4096  # Groups of one session.
    joins_max: int = 131_072  # Groups of all sessions of the daemon, each counted by session.
    known_groups_max: int = 262_144  # Groups of all daemons; a group takes about 1 KB at each of them.
    window_bytes: int = 1024 * 1024  # Requests of one session that have not gone out.
    slow_allowed: frozenset[Slow] = frozenset(Slow)  # Policies that clients may choose.
    allow: tuple[str, ...] = ()  # BLOCK_RIGHT and PRIORITY_RIGHT, as far as clients have them.
    backlog_bytes_max: int = 16 * 1024 * 1024  # The backlog of one client at which its policy acts.
    backlogs_bytes_max: int = (
        256 * 1024 * 1024
    )  # All backlogs; a frame that waits for many clients counts once.
    spill_memory_bytes: int = 4 * 1024 * 1024  # The memory of a backlog with policy SPILL; the rest is on disk.
    spill_bytes_max: int = 16 * 1024 * 1024 * 1024  # On disk for one client: minutes at full load.
    block_us: int = 30_000_000  # The time for which a client may take nothing while senders wait for it.
    spread_messages_max: int = 1000  # The backlog of a Spread client that takes nothing for STALLED_US.
    spread_slow: SlowPolicy = "kick"  # The policy for Spread clients, which cannot choose.
    spread_access: tuple[str, ...] = ()  # Networks from which Spread clients may connect; all if empty.
    spread_identity: str = ANONYMOUS  # Of Spread clients by TCP.

    def limit_bytes(self, policy: Slow) -> int:
        """The backlog in memory at which a policy acts."""
        return self.spill_memory_bytes if policy is Slow.SPILL else self.backlog_bytes_max
