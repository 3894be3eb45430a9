"""Leases: when the sessions of this daemon are told of their locks, and until when they hold them.

A lock that the order gives to a session here may be given to another one elsewhere, as soon as the daemons
there are in a view without this daemon. So a holder has a lease, which its daemon renews by RENEW, a Safe
message: delivered before the signal of its view, it proves that all daemons of the view were in it after RENEW
was sent.

Below       the order: `due` asks for a RENEW, `renewed` takes it.
Above       sessions: they are told of a grant when a RENEW behind it is delivered, and of its end.
Invariants  a session is told that it holds a lock only if all daemons of the view have received what gave it
            the lock. Its lease ends `held_us` after its last RENEW was sent; daemons that formed a view without
            this one had acknowledged that RENEW before, and grant the lock `lease_us` after their view began.
"""

from dataclasses import dataclass, field
from typing import Final

from hopring.groups.events import LeaseRenewed, LockEnded, LockGranted
from hopring.groups.locks import LockChange, LockEnd, LockGrant
from hopring.groups.messages import LeaseRenew
from hopring.ids import NEVER, ViewId

HELD_PART: Final = 4
"""This part of a lease is kept for clocks that differ and for the way to the holder: it does not get it."""

RENEWALS: Final = 4
"""Renewals in the time of one lease."""

LeaseOutput = LockGranted | LockEnded | LeaseRenewed


@dataclass(slots=True)
class Leases:
    """The locks of this daemon's sessions."""

    lease_us: int
    held: dict[tuple[int, int], LockGrant] = field(default_factory=dict)  # By session and serial, told.
    untold: dict[tuple[int, int], LockGrant] = field(
        default_factory=dict
    )  # Granted, without a RENEW behind it.
    asked: dict[tuple[int, int], LockGrant] = field(
        default_factory=dict
    )  # Those that the RENEW under way is for.
    lost: set[tuple[int, int]] = field(
        default_factory=set
    )  # Told that their lease is over, and not released yet.
    number: int = 0  # Of the last RENEW.
    sent_at_us: int = NEVER  # If one is under way.
    renew_at_us: int = NEVER
    until_us: int = NEVER  # When the leases of the held ones end.

    @property
    def wake_at_us(self) -> int:
        """When the next renewal is due, or the leases end."""
        until_us = self.until_us if self.held else NEVER
        if self.sent_at_us < NEVER or not (self.held or self.untold):
            return until_us  # A RENEW is under way, or none is needed.
        return min(self.renew_at_us, until_us)

    def change(self, change: LockChange, now_us: int) -> list[LeaseOutput]:
        """The order has given a lock to a session of this daemon, or has ended its claim."""
        key = change.claim.member.session, change.claim.serial
        if isinstance(change, LockGrant):
            self.untold[key] = change
            self.renew_at_us = min(self.renew_at_us, now_us)
            return []
        for some in (self.held, self.untold, self.asked):
            some.pop(key, None)
        if key in self.lost:
            self.lost.discard(key)
            return []
        return [LockEnded(*key, *change.key, change.end)]

    def due(self, view: ViewId, now_us: int) -> LeaseRenew | None:
        """The RENEW to send now, if one is due."""
        if self.sent_at_us < NEVER or not (self.untold or (self.held and now_us >= self.renew_at_us)):
            return None
        self.number += 1
        self.sent_at_us = now_us
        self.renew_at_us = now_us + self.lease_us // RENEWALS
        self.asked, self.untold = self.untold, {}
        return LeaseRenew(view, self.number)

    def renewed(self, number: int, now_us: int) -> list[LeaseOutput]:
        """A RENEW is delivered in its view."""
        if number != self.number or self.sent_at_us == NEVER:
            return []
        until_us = self.sent_at_us + self.lease_us - self.lease_us // HELD_PART
        self.sent_at_us = NEVER
        left_us = until_us - now_us
        if left_us <= 0:
            # It took too long to prove anything.
            self.untold.update(self.asked)
            self.asked = {}
            return self.expire(now_us)
        self.until_us = until_us
        out: list[LeaseOutput] = [LeaseRenewed(one, left_us) for one in sorted({one for one, _ in self.held})]
        for (session, serial), grant in sorted(self.asked.items()):
            out.append(LockGranted(session, serial, *grant.key, grant.fence, grant.place, left_us))
        self.held.update(self.asked)
        self.asked = {}
        return out

    def expire(self, now_us: int) -> list[LeaseOutput]:
        """Ends the leases whose time is over; the caller releases these claims in the order."""
        if now_us < self.until_us or not self.held:
            return []
        out: list[LeaseOutput] = []
        for key, grant in sorted(self.held.items()):
            out.append(LockEnded(*key, *grant.key, LockEnd.LEASE))
            self.lost.add(key)
        self.held.clear()
        self.until_us = NEVER
        return out

    def begin(self) -> None:
        """A view of the daemons begins: what is under way proves nothing any more."""
        self.untold.update(self.asked)
        self.asked = {}
        self.sent_at_us = NEVER
        self.renew_at_us = 0

    def forget(self, session: int) -> None:
        """Forgets the locks of a session that has ended."""
        for some in (self.held, self.untold, self.asked):
            for key in [one for one in some if one[0] == session]:
                del some[key]
        self.lost = {one for one in self.lost if one[0] != session}
