"""Planted bugs of locks: fences, leases, and holders that are gone."""

from collections.abc import Callable
from typing import Any, Final

from hopring.groups.leases import LeaseOutput, Leases
from hopring.groups.locks import (
    LockChange,
    LockClaim,
    LockClosed,
    LockEnd,
    LockEntry,
    LockKey,
    LockTable,
)
from hopring.groups.names import Fence
from hopring.sim.campaign.bugs.planting import Bug, block_bug

TABLE: Final = "hopring.groups.locks:LockTable"


def _fence_restarts(highest: Callable[..., int]) -> Any:
    del highest
    return lambda _votes: 0


def _not_told(change: Callable[..., list[LeaseOutput]]) -> Any:
    def keeps_it(self: Leases, one: LockChange, now_us: int) -> list[LeaseOutput]:
        key = one.claim.member.session, one.claim.serial
        if isinstance(one, LockClosed) and one.end.value in ("view", "not primary") and key in self.held:
            return []
        return change(self, one, now_us)

    return keeps_it


def _dead_kept(drop: Callable[..., None]) -> Any:
    def stays(
        self: LockTable,
        key: LockKey,
        entry: LockEntry,
        claim: LockClaim,
        end: LockEnd,
        fence: Fence | None = None,
    ) -> None:
        held, was_open = entry.fence, self.open
        if end is not LockEnd.NOT_A_MEMBER or claim is not entry.holder:
            drop(self, key, entry, claim, end, fence)
            return
        self.open = False
        drop(self, key, entry, claim, end, fence)
        self.open = was_open
        entry.fence = held if entry.claims else None

    return stays


def _always_primary(begin: Callable[..., None]) -> Any:
    def grants_anywhere(self: LockTable, primary: bool, epoch: int, side: int) -> None:
        del primary
        begin(self, True, epoch or self.latest + 1, side)

    return grants_anywhere


BUGS: Final[tuple[Bug, ...]] = (
    block_bug(
        "locks",
        "fence-restarts",
        "RMP R12, trap 24",
        "after a change of view or a merge fences begin anew",
        ("hopring.membership.primary:_highest_epoch", _fence_restarts),
    ),
    block_bug(
        "locks",
        "old-holder-not-told",
        "RMP trap 24: a suspended holder is told",
        "a holder whose side is not primary any more keeps its lock",
        ("hopring.groups.leases:Leases.change", _not_told),
    ),
    block_bug(
        "locks",
        "lock-of-dead-kept",
        "RMP trap 24",
        "the lock of a session that has ended is not released",
        (f"{TABLE}._drop", _dead_kept),
    ),
    block_bug(
        "locks",
        "two-holders-after-a-split",
        "RMP R12: none outside primaries",
        "each side of a split grants locks",
        (f"{TABLE}.begin", _always_primary),
    ),
)
