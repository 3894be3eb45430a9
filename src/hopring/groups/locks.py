"""Locks of groups: a queue of claims for each lock in the agreed order, one holder, and a fence for each grant.

Implements  the locks of RMP (sections 3.3 and 4.5), on the daemons' order. RMP's six handler locks are the
            names "1" to "6".
Below       claims and releases, which are Agreed messages; the members of groups; the daemons' views, and for
            each primary one its epoch: its place in the chain of primary views.
Above       `groups.py`, which tells sessions what is granted and what has ended; `leases.py` says when.
Invariants  the table is a function of the order and the daemons' views, so daemons that stay together have the
            same. A lock has one holder at each place of the order: its first claim, if it has a fence. A holder
            is a member of the group. Locks are granted between the begin of a view and its signal only, and in
            primary views only, except for claims that accept a side without a primary (`partial`). Epochs rise
            along the chain, and steps within a view, so each fence is above all earlier ones.
            A lock that a parted daemon may have granted is `lapsing`: it is granted again when the leases of
            that daemon's holders have run out.
Deviations  RMP refuses a lock that is taken; here claims wait, as many as `CLAIMS_MAX`. RMP does not say what
            becomes of locks of the dead and of parted members.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from hopring.errors import Drop, PeerError
from hopring.groups.names import PARTIAL_STEP_BITS, STEP_BITS, Fence, GroupMember
from hopring.ids import DaemonId, GroupName, Incarnation, Place, Process, ViewId

CLAIMS_MAX: Final = 1024
"""Limit of the claims of one lock, the holder's included."""

SESSION_CLAIMS_MAX: Final = 1024
"""Limit of the claims of one session."""

STEPS_MAX: Final = (1 << STEP_BITS) - 1
"""Limit of the grants in one view of daemons."""

PARTIAL_STEPS_MAX: Final = (1 << PARTIAL_STEP_BITS) - 1
"""The same in a view that is not primary."""

SIDE_MAX: Final = (1 << 63 - PARTIAL_STEP_BITS) - 1
"""The highest counter of a view that is not primary in which locks are granted."""


class LockClaim(NamedTuple):
    """One claim of a session; compared by its place, then by its session, then by its number there."""

    place: Place
    member: GroupMember
    serial: int  # Chosen by the session; it may claim a lock more than once.
    partial: bool = False  # It accepts a grant without a primary view.


LockKey = tuple[GroupName, str]
"""A group, and the name of a lock in it."""


class LockState(NamedTuple):
    """A lock that somebody claims, as queries tell of it."""

    name: str
    holder: GroupMember | None  # None: it is not granted, for want of a primary view or while a lease runs out.
    fence: Fence | None
    waiting: int  # Claims behind the holder's.


class LockEnd(StrEnum):
    """The reason why a claim has ended."""

    RELEASED = "released"
    NOT_A_MEMBER = "not a member"
    TOO_MANY = "too many claims"
    NOT_PRIMARY = "not primary"  # The daemons' view is not primary, or not any more.
    VIEW = "view"  # Views merged, and another side may have granted the lock meanwhile.
    LEASE = "lease"  # The daemon could not renew the holder's lease.
    NOT_ALLOWED = "not allowed"
    FULL = "all locks are taken"  # RMP only: a list has 250 besides those of handlers.


class LockGrant(NamedTuple):
    """A claim holds its lock from this place in the order on."""

    key: LockKey
    claim: LockClaim
    fence: Fence
    place: Place


class LockClosed(NamedTuple):
    """A claim has ended at this place in the order."""

    key: LockKey
    claim: LockClaim
    end: LockEnd
    place: Place
    fence: Fence | None = None  # It was the holder's.


LockChange = LockGrant | LockClosed


@dataclass(slots=True)
class LockEntry:
    """One lock: its claims in the agreed order, and the fence of the first one if that holds it."""

    claims: list[LockClaim] = field(default_factory=list)
    fence: Fence | None = None
    lapsing: bool = False  # A daemon that has parted may have a holder whose lease has not run out.

    @property
    def holder(self) -> LockClaim | None:
        """The claim that holds the lock."""
        return None if self.fence is None else self.claims[0]


class ReportedLock(NamedTuple):
    """A lock as one daemon reports it to a view: the claims of its own sessions."""

    key: LockKey
    claims: tuple[LockClaim, ...] = ()
    fence: Fence | None = None  # The first of these claims holds the lock.
    lapsing: bool = False
    free: bool = True  # As far as this daemon knows, nobody holds it.


class LockReport(NamedTuple):
    """The locks of one daemon, and the latest primary view that it has been in."""

    epoch: int
    locks: tuple[ReportedLock, ...] = ()


NO_LOCKS: Final = LockReport(0)


NOWHERE: Final = Place(ViewId(0, DaemonId(0), Incarnation(0)), 0, 0)


@dataclass(slots=True)
class LockTable:
    """All locks of all groups, and the changes that sessions are to be told of."""

    locks: dict[LockKey, LockEntry] = field(default_factory=dict)
    sessions: dict[tuple[Process, int], dict[int, LockKey]] = field(default_factory=dict)  # Locks by serial.
    out: list[LockChange] = field(default_factory=list)
    open: bool = False  # Locks may be granted: in a view, before its signal.
    primary: bool = False
    epoch: int = 0  # Of the primary view; 0 if there is none, or its place in the chain is not known for sure.
    latest: int = 0  # Of the latest primary view that this daemon has been in.
    side: int = 0  # The counter of the view, for partial grants.
    step: int = 0  # The grants in this view.
    place: Place = NOWHERE  # Of what happens now; the first of a view when that begins.
    lapsing: bool = False  # Whether any lock is.
    suspended: Collection[GroupName] = ()  # Groups below their minimum: their locks are not granted.

    # Requests, at their place in the order.

    def claim(self, key: LockKey, claim: LockClaim) -> None:
        """A session claims a lock."""
        claims = self.sessions.get((claim.member.process, claim.member.session), {})
        if claim.serial in claims:
            raise PeerError(Drop.INCONSISTENT, f"claim {claim.serial} of {claim.member.name!r} a second time")
        entry = self.locks.get(key)
        if len(claims) >= SESSION_CLAIMS_MAX or (entry is not None and len(entry.claims) >= CLAIMS_MAX):
            self.out.append(LockClosed(key, claim, LockEnd.TOO_MANY, self.place))
        elif self.open and not self.primary and not claim.partial:
            self.out.append(LockClosed(key, claim, LockEnd.NOT_PRIMARY, self.place))
        else:
            if entry is None:
                entry = self.locks[key] = LockEntry()
            self._add(key, entry, claim)
            self._grant(key, entry)

    def release(self, process: Process, session: int, serial: int, end: LockEnd = LockEnd.RELEASED) -> None:
        """A session gives up a claim, whether it holds the lock or waits."""
        key = self.sessions.get((process, session), {}).get(serial)
        if key is not None:
            entry = self.locks[key]
            self._drop(key, entry, _claim_of(entry, process, session, serial), end)

    def leave(self, group: GroupName, member: GroupMember) -> None:
        """A session is no member any more: its claims in this group end."""
        claims = self.sessions.get((member.process, member.session), {})
        for serial in [serial for serial, key in sorted(claims.items()) if key[0] == group]:
            self.release(member.process, member.session, serial, LockEnd.NOT_A_MEMBER)

    def lapse(self) -> None:
        """The leases of all daemons that had parted have run out."""
        self.lapsing = False
        for key, entry in sorted(self.locks.items(), key=_by_key):
            entry.lapsing = False
            self._grant(key, entry)
            self._forget(key, entry)

    def resume(self, group: GroupName) -> None:
        """A suspended group goes on: its locks may be granted."""
        for key, entry in sorted(self.locks.items(), key=_by_key):
            if key[0] == group:
                self._grant(key, entry)

    # Views of the daemons.

    def close(self) -> None:
        """The view is closing: nothing is granted until the next one."""
        self.open = False

    def part(self, together: Collection[Process]) -> None:
        """All other daemons are gone. A lock that one of their sessions claimed may be held there."""
        for process, session in sorted(self.sessions):
            if process not in together:
                for serial, key in sorted(self.sessions[process, session].items()):
                    # A claim that waits here may hold there: more of the view may have been delivered.
                    self.locks[key].lapsing |= self.primary
                    self.lapsing |= self.primary
                    self.release(process, session, serial, LockEnd.NOT_A_MEMBER)

    def begin(self, primary: bool, epoch: int, side: int) -> None:
        """All daemons of a view know the same: locks may be granted."""
        assert not self.open, "the last view has closed"
        for key, entry in sorted(self.locks.items(), key=_by_key):
            for claim in list(entry.claims):
                held = entry.fence if claim is entry.holder else None
                if primary and held is not None and held.partial:
                    self._drop(key, entry, claim, LockEnd.VIEW)
                elif not primary and not (claim.partial if held is None else held.partial):
                    self._drop(key, entry, claim, LockEnd.NOT_PRIMARY)
        self.open, self.primary, self.epoch, self.side, self.step = True, primary, epoch, side, 0
        self.latest = max(self.latest, epoch)
        for key, entry in sorted(self.locks.items(), key=_by_key):
            self._grant(key, entry)

    def report(self, me: Process) -> LockReport:
        """For GROUPS: the locks with claims of this daemon's sessions, and those that are lapsing."""
        out: list[ReportedLock] = []
        for key, entry in sorted(self.locks.items(), key=_by_key):
            claims = tuple([one for one in entry.claims if one.member.process == me])
            holder = entry.holder
            if claims or entry.lapsing:
                fence = entry.fence if holder is not None and holder.member.process == me else None
                out.append(ReportedLock(key, claims, fence, entry.lapsing, holder is None))
        return LockReport(self.latest, tuple(out))

    def merge(self, reports: Collection[LockReport], primary: bool) -> None:
        """Replaces the table by what all daemons of a view report.

        A holder of the latest primary view keeps its lock, unless another daemon of that view has seen the
        holder's daemon part. All others lose it.
        """
        latest = max([one.epoch for one in reports])
        reported: dict[LockKey, list[tuple[bool, ReportedLock]]] = {}
        for report in reports:
            for lock in report.locks:
                reported.setdefault(lock.key, []).append((report.epoch == latest, lock))
        self.locks.clear()
        self.sessions.clear()
        self.latest = latest
        for key in sorted(reported):
            self._merge_lock(key, reported[key], primary)
        self.lapsing = any(entry.lapsing for entry in self.locks.values())

    def _merge_lock(self, key: LockKey, reported: Collection[tuple[bool, ReportedLock]], primary: bool) -> None:
        """The claims of one lock; each report says whether it is of the latest primary view."""
        entry = self.locks[key] = LockEntry(lapsing=any(lock.lapsing for _, lock in reported))
        for claim in sorted([claim for _, lock in reported for claim in lock.claims]):
            self._add(key, entry, claim)
        held = [(latest, lock.claims[0], lock.fence) for latest, lock in reported if lock.fence is not None]
        current = [(claim, fence) for latest, claim, fence in held if latest and not fence.partial]
        parted = any(latest and lock.lapsing and lock.free for latest, lock in reported)
        kept: LockClaim | None = None
        if primary and len(current) == 1 and not parted:
            kept, entry.fence = current[0]
            entry.claims.remove(kept)
            entry.claims.insert(0, kept)
        # Holders that lose it are told at this place, but not at the same moment.
        entry.lapsing = entry.lapsing or (primary and kept is None and bool(current))
        for _, claim, fence in held:
            if claim is not kept:
                self._drop(key, entry, claim, LockEnd.VIEW, fence)

    def states(self, group: GroupName) -> list[LockState]:
        """The locks of a group that anybody claims, sorted by name."""
        out: list[LockState] = []
        for key, entry in sorted(self.locks.items(), key=_by_key):
            if key[0] == group and entry.claims:
                holder = entry.holder
                waiting = len(entry.claims) - (holder is not None)
                member = None if holder is None else holder.member
                out.append(LockState(key[1], member, entry.fence, waiting))
        return out

    def renumber(self, me: Process) -> None:
        """Gives the daemon, which is alone in its view, another number."""
        for entry in self.locks.values():
            claims = [
                one._replace(member=one.member._replace(daemon=me.daemon, incarnation=me.incarnation))
                for one in entry.claims
            ]
            entry.claims[:] = claims
        self.sessions = {(me, session): claims for (_, session), claims in self.sessions.items()}

    # Within the table.

    def _add(self, key: LockKey, entry: LockEntry, claim: LockClaim) -> None:
        entry.claims.append(claim)
        self.sessions.setdefault((claim.member.process, claim.member.session), {})[claim.serial] = key

    def _drop(
        self, key: LockKey, entry: LockEntry, claim: LockClaim, end: LockEnd, fence: Fence | None = None
    ) -> None:
        if claim is entry.holder:
            fence, entry.fence = entry.fence, None
        entry.claims.remove(claim)
        session = claim.member.process, claim.member.session
        del self.sessions[session][claim.serial]
        if not self.sessions[session]:
            del self.sessions[session]
        self.out.append(LockClosed(key, claim, end, self.place, fence))
        self._grant(key, entry)
        self._forget(key, entry)

    def _forget(self, key: LockKey, entry: LockEntry) -> None:
        if not entry.claims and not entry.lapsing:
            self.locks.pop(key, None)

    def _grant(self, key: LockKey, entry: LockEntry) -> None:
        """Grants a lock to its oldest claim, if it is free and may be granted now."""
        if not self.open or entry.fence is not None or not entry.claims:
            return
        if self.step >= (STEPS_MAX if self.primary else PARTIAL_STEPS_MAX):
            return
        if not self.primary and self.side > SIDE_MAX:
            return
        if (self.primary and (entry.lapsing or not self.epoch)) or key[0] in self.suspended:
            return
        self.step += 1
        number = self.epoch if self.primary else self.side
        entry.fence = Fence(number, self.step, not self.primary)
        self.out.append(LockGrant(key, entry.claims[0], entry.fence, self.place))


def _by_key(item: tuple[LockKey, LockEntry]) -> LockKey:
    return item[0]


def _claim_of(entry: LockEntry, process: Process, session: int, serial: int) -> LockClaim:
    wanted = process, session, serial
    return next(one for one in entry.claims if (one.member.process, one.member.session, one.serial) == wanted)
