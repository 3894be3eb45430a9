"""A session's claims of locks, at the client's end: what its daemon said of each, and how long it is held.

Invariants  a claim holds its lock from LOCKED on, until UNLOCKED, the end of the connection, or the end of its
            lease, whichever comes first: a daemon that does not answer does not keep locks.
"""

from dataclasses import dataclass, field
from typing import Final

from hopring.groups.names import Fence
from hopring.ids import NEVER, Place
from hopring.session.protocol import LeaseNotice, LockedNotice, UnlockedNotice

LOST_CONNECTION: Final = "the connection was lost"
LOST_LEASE: Final = "its lease was not renewed in time"


@dataclass(slots=True, eq=False)
class ClaimedLock:
    """One claim of the application; after a lost connection it may be made again under another serial."""

    group: str
    lock: str
    partial: bool = False
    serial: int = 0  # 0: it is not made.
    fence: Fence | None = None
    place: Place | None = None
    until_us: int = NEVER  # When its lease ends, while it is held.
    ended: str = ""  # Why it has ended.
    remedy: str = ""

    @property
    def held(self) -> bool:
        """Whether it holds the lock."""
        return self.fence is not None and not self.ended

    @property
    def settled(self) -> bool:
        """Whether it holds the lock, or has ended."""
        return self.fence is not None or bool(self.ended)

    def end(self, reason: str, remedy: str = "lock it again") -> None:
        """It has ended, if it had not."""
        if not self.ended:
            self.ended, self.remedy, self.until_us = reason, remedy, NEVER


@dataclass(slots=True)
class LockClaims:
    """All claims of a session that have not ended."""

    claims: dict[int, ClaimedLock] = field(default_factory=dict)  # By serial.
    now_us: int = 0  # When the frames that are handled came.
    until_us: int = NEVER  # When the first lease ends.
    _serial: int = 0

    def begin(self, claim: ClaimedLock) -> int:
        """A claim is made; returns its serial."""
        self._serial += 1
        claim.serial = self._serial
        self.claims[claim.serial] = claim
        return claim.serial

    def give_up(self, claim: ClaimedLock) -> bool:
        """The application wants a claim no more; returns whether the daemon has to be told."""
        known = self.claims.pop(claim.serial, None) is claim
        claim.end("released", "lock it again")
        self._look()
        return known

    def handle(self, notice: LockedNotice | UnlockedNotice | LeaseNotice) -> None:
        """The daemon's word on a claim. A claim that was given up meanwhile is none of these any more."""
        if isinstance(notice, LeaseNotice):
            for claim in self.claims.values():
                if claim.held:
                    claim.until_us = self.now_us + notice.lease_us
        elif isinstance(notice, LockedNotice):
            claimed = self.claims.get(notice.serial)
            if claimed is not None:
                claimed.fence, claimed.place = notice.fence, notice.place
                claimed.until_us = self.now_us + notice.lease_us
        else:
            gone = self.claims.pop(notice.serial, None)
            if gone is not None:
                gone.end(LOST_LEASE if notice.reason == "lease" else notice.reason, notice.remedy)
        self._look()

    def expire(self, now_us: int) -> list[ClaimedLock]:
        """The claims whose lease has ended; the daemon has to be told of them."""
        if now_us < self.until_us:
            return []
        late = [one for one in self.claims.values() if one.until_us <= now_us]
        for claim in late:
            del self.claims[claim.serial]
            claim.end(LOST_LEASE)
        self._look()
        return late

    def interrupt(self) -> None:
        """The connection is lost, and all claims with it; those that waited may be made again."""
        for claim in self.claims.values():
            if claim.fence is not None:
                claim.end(LOST_CONNECTION)
            claim.serial = 0
        self.claims.clear()
        self._look()

    def _look(self) -> None:
        self.until_us = min([one.until_us for one in self.claims.values()], default=NEVER)
