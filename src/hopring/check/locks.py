"""Judges locks: what their holders were told, as the simulator records it.

These are properties of ours, beyond extended virtual synchrony. A hold lasts from the moment when its session
is told of the grant until the session releases the lock, is told that it is lost, or knows it by its lease.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from hopring.check.block_record import BlockFindings, BlockRecord, block_property, verdicts
from hopring.check.properties.property import Verdict

ONE_HOLDER: Final = "L1 a lock has one holder at a time"
FENCES_RISE: Final = "L2 fences of a lock rise in real order"
IN_PRIMARIES: Final = "L3 locks are granted in primary views only, except for partial claims"
ALL_GRANTED: Final = "L4 nobody waits at the quiet end for a lock that nobody holds"
PLACES: Final = "L5 a lock has one holder at each place of the order"

FREE_US: Final = 800_000
"""A lock that is free for so long though it is awaited will not be granted."""


@dataclass(frozen=True, slots=True)
class LockTaken:
    """A session is told that it holds a lock."""

    at_us: int
    holder: str  # The session's claim.
    lock: str
    epoch: int
    step: int
    partial: bool
    primary: bool  # Whether the view of its daemon was.
    asked_partial: bool  # Whether it accepts a lock without a primary.


@dataclass(frozen=True, slots=True)
class LockGone:
    """A session holds a lock no more: released, lost, or its session has ended."""

    at_us: int
    holder: str
    lock: str


@dataclass(frozen=True, slots=True)
class LockAwaited:
    """At the quiet end, a session has waited for long, in a primary view that may grant locks."""

    at_us: int
    holder: str
    lock: str


LockEvent = LockTaken | LockGone | LockAwaited

Fence = tuple[int, int]
Grant = tuple[str, Fence]
"""A lock and a fence of it, not a partial one."""


@dataclass(slots=True)
class LockJudge:
    """The state of the checks while they go through a record."""

    findings: BlockFindings
    holders: dict[str, LockTaken] = field(default_factory=dict)  # By lock; partial ones are not here.
    highest: dict[str, Fence] = field(default_factory=dict)
    owners: dict[Grant, str] = field(default_factory=dict)
    freed_us: dict[str, int] = field(default_factory=dict)  # When the lock had its last holder.

    def see(self, at: int, event: object) -> None:
        """Judges the event at this position by those before it."""
        if isinstance(event, LockTaken):
            self._taken(at, event)
        elif isinstance(event, LockGone):
            holder = self.holders.get(event.lock)
            if holder is not None and holder.holder == event.holder:
                del self.holders[event.lock]
                self.freed_us[event.lock] = event.at_us
        elif isinstance(event, LockAwaited):
            free_us = event.at_us - self.freed_us.get(event.lock, 0)
            if event.lock not in self.holders and free_us > FREE_US:
                text = f"{event.holder} waits for {event.lock} at {event.at_us} us"
                self.findings.at(ALL_GRANTED, at, text)

    def _taken(self, at: int, event: LockTaken) -> None:
        found = self.findings
        if event.partial != (not event.primary) or (event.partial and not event.asked_partial):
            kind = "a partial grant" if event.partial else "a grant"
            where = "in" if event.primary else "outside of"
            text = f"{kind} of {event.lock} to {event.holder} {where} a primary view"
            found.at(IN_PRIMARIES, at, text)
        if event.partial:
            return
        other, fence = self.holders.get(event.lock), (event.epoch, event.step)
        if other is not None:
            since = f"holds {event.lock} since {other.at_us} us"
            text = f"{event.holder} gets it at {event.at_us} us, and {other.holder} {since}"
            found.at(ONE_HOLDER, at, text)
        if fence <= self.highest.get(event.lock, (0, 0)):
            last = self.highest.get(event.lock, (0, 0))
            found.at(FENCES_RISE, at, f"{event.holder} gets {event.lock} with {fence} after {last}")
        owner = self.owners.setdefault((event.lock, fence), event.holder)
        if owner != event.holder:
            found.at(PLACES, at, f"{owner} and {event.holder} have fence {fence} of {event.lock}")
        self.highest[event.lock] = max(fence, self.highest.get(event.lock, (0, 0)))
        self.holders[event.lock] = event


def judge_locks(record: BlockRecord) -> BlockFindings:
    """All violations in a record of locks."""
    judge = LockJudge(BlockFindings(record.name))
    for at, event in record.numbered:
        judge.see(at, event)
    return judge.findings


def check_locks(history: Iterable[LockEvent]) -> list[Verdict]:
    """A verdict for each property of locks, of a history in the order of its times."""
    return verdicts(LOCK_PROPERTIES, BlockRecord([*history], True))


# Queries over the events of all records, which are the table audit_locks.

_TAKEN: Final = (
    "SELECT *, struct(epoch, step) AS fence FROM audit_locks WHERE kind = 'lock_taken' AND NOT partial"
)

_HOLDS: Final = f"""
SELECT t.run, t.record, t.lock, t.position, t.holder, t.at_us, t.next_at, min(g.position) AS gone_at,
       min_by(g.at_us, g.position) AS gone_us
FROM (SELECT *, lead(position) OVER (PARTITION BY run, record, lock ORDER BY position) AS next_at
      FROM ({_TAKEN})) t
     LEFT JOIN audit_locks g ON g.run = t.run AND g.record = t.record AND g.lock = t.lock
          AND g.kind = 'lock_gone' AND g.holder = t.holder AND g.position > t.position
          AND (t.next_at IS NULL OR g.position < t.next_at)
GROUP BY t.run, t.record, t.lock, t.position, t.holder, t.at_us, t.next_at
"""
"""Each hold that is not partial, with the next one of its lock, and its end if that came before."""

_ONE_HOLDER_QUERY: Final = f"""
SELECT run, record, next_at AS position, lock, holder AS other
FROM ({_HOLDS}) WHERE next_at IS NOT NULL AND gone_at IS NULL
"""

_NONE: Final = "named_struct('epoch', 0L, 'step', 0L)"

_FENCES_QUERY: Final = f"""
SELECT run, record, position, lock, holder
FROM (SELECT *, max(fence) OVER (PARTITION BY run, record, lock ORDER BY position
                                 ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS highest
      FROM ({_TAKEN}))
WHERE fence <= greatest(coalesce(highest, {_NONE}), {_NONE})
"""

_PRIMARIES_QUERY: Final = """
SELECT run, record, position, lock, holder, IF(primary, 'in', 'outside of') AS side FROM audit_locks
WHERE kind = 'lock_taken' AND (partial = primary OR (partial AND NOT asked_partial))
"""

_GRANTED_QUERY: Final = f"""
SELECT a.run, a.record, a.position, a.lock, a.holder
FROM audit_locks a
     LEFT JOIN ({_HOLDS}) h ON h.run = a.run AND h.record = a.record AND h.lock = a.lock
          AND h.position < a.position AND (h.next_at IS NULL OR h.next_at > a.position)
WHERE a.kind = 'lock_awaited' AND (h.position IS NULL OR h.gone_at < a.position)
      AND a.at_us - coalesce(h.gone_us, 0) > {FREE_US}
"""

_PLACES_QUERY: Final = f"""
SELECT run, record, position, lock, holder, owner AS other
FROM (SELECT *, first_value(holder) OVER (PARTITION BY run, record, lock, fence ORDER BY position) AS owner
      FROM ({_TAKEN}))
WHERE holder <> owner
"""

LOCK_PROPERTIES: Final = (
    block_property(judge_locks, ONE_HOLDER, _ONE_HOLDER_QUERY, "{lock} was given away while {other} held it"),
    block_property(
        judge_locks, FENCES_RISE, _FENCES_QUERY, "{holder} got {lock} with a fence that had been passed"
    ),
    block_property(judge_locks, IN_PRIMARIES, _PRIMARIES_QUERY, "{holder} got {lock} {side} a primary view"),
    block_property(judge_locks, ALL_GRANTED, _GRANTED_QUERY, "{holder} waits for {lock}, which nobody holds"),
    block_property(judge_locks, PLACES, _PLACES_QUERY, "{other} and {holder} have one fence of {lock}"),
)
