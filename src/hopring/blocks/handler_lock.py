"""The lock of one handler at one server: who holds it does the requests for this handler, and nobody else.

Implements  the handler locks of RMP (3.3, 4.5) above sessions: the holder answers, the others do not.
Below       locks of groups (client/locks): grants have their place in the order, as requests have.
Above       exchange.py, which asks for each request whether it is for this server.
Invariants  a request is done only while the lock is held, and if it stands behind the grant in the order. What
            a daemon says of a lock passes the events that wait, so a lock that was lost before a request is
            known to be lost when the request is read.
"""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final, Protocol

from hopring.client.locks.claims import ClaimedLock
from hopring.ids import NEVER, GroupName, Place

RETRY_US: Final = 250_000
"""The time after which a lock that was lost or refused is claimed again."""


class LockingSession(Protocol):
    """The part of a session that claims locks."""

    @property
    def groups(self) -> AbstractSet[str]:
        """The groups that it is in, or will be in again."""

    def may_ask(self) -> bool:
        """Whether the daemon takes a claim now."""

    def lock(self, claim: ClaimedLock) -> None:
        """Tells the daemon of a claim."""

    def unlock(self, claim: ClaimedLock) -> None:
        """Gives a claim up again."""


@dataclass(slots=True)
class HandlerLock:
    """Claims the lock of a handler, again and again."""

    core: LockingSession
    group: GroupName  # Of the servers of the handler.
    handler: int
    claim: ClaimedLock | None = None
    retry_at_us: int = 0

    @property
    def wake_at_us(self) -> int:
        """The time of the next claim."""
        return self.retry_at_us if self.claim is None else NEVER

    def fence_at(self, place: Place) -> int | None:
        """The fence with which this server holds the lock at a place in the order; None if it does not."""
        claim = self.claim
        if claim is None or not claim.held or claim.place is None or claim.place > place:
            return None
        return None if claim.fence is None else claim.fence.number

    def advance(self, now_us: int) -> None:
        """Claims the lock if it is not claimed, and may be."""
        claim = self.claim
        if claim is not None and (claim.ended or not claim.serial):
            self.claim, self.retry_at_us = None, now_us + RETRY_US
        if self.claim is None and now_us >= self.retry_at_us:
            if self.group in self.core.groups and self.core.may_ask():
                self.claim = ClaimedLock(self.group, str(self.handler))
                self.core.lock(self.claim)
            else:
                self.retry_at_us = now_us + RETRY_US

    def joined(self) -> None:
        """The session is a member now: the lock may be claimed."""
        self.retry_at_us = 0

    def release(self) -> None:
        """Gives the lock up for good."""
        claim, self.claim, self.retry_at_us = self.claim, None, NEVER
        if claim is not None and claim.serial:
            self.core.unlock(claim)
