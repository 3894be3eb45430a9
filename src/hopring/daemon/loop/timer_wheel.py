"""A hierarchical timer wheel: arming is O(1), and nothing is ever cancelled.

Implements  Varghese, Lauck (SOSP 1987), scheme 7: hierarchical timing wheels.
Below       nothing; the time is handed in.
Above       the loop, which sleeps until `next_us` and then calls `advance`.
Invariants  an item comes out exactly once, never before its deadline, and less than SLOT_US after it if the
            loop looks then; items of different slots come out in the order of their deadlines.
Deviation   occupied slots are bits of an integer, so an empty stretch of any length is skipped in one step.
"""

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from hopring.ids import NEVER

SLOT_US: Final = 64
"""The granularity: deadlines are rounded up to a multiple of this."""

_SLOT_SHIFT: Final = 6
_LEVEL_SHIFT: Final = 6
_LEVEL_SLOTS: Final = 1 << _LEVEL_SHIFT
_LOOKED_AT_MAX: Final = 16
_LEVELS: Final = 10  # Enough for every deadline below NEVER: 6 bits of time to a slot, 6 to a level.

Item = TypeVar("Item")


class TimerWheel(Generic[Item]):
    """Items by deadline. A tick is a slot's number since time 0; level n has slots of 64**n ticks."""

    __slots__ = ("_due", "_occupied", "_slots", "_tick", "next_us")

    def __init__(self, now_us: int) -> None:
        self._tick = now_us >> _SLOT_SHIFT  # Everything up to here has come out.
        self._due: list[Item] = []
        self._slots: list[dict[int, list[tuple[int, Item]]]] = [{} for _ in range(_LEVELS)]
        self._occupied = [0] * _LEVELS  # For each level a bit for each slot that holds items.
        self.next_us = NEVER
        """When to call `advance`: when the first item is due, or earlier, to sort a far and crowded slot."""

    def arm(self, deadline_us: int, item: Item) -> None:
        """Takes an item in; NEVER is a deadline like any other that does not come."""
        tick = (deadline_us + SLOT_US - 1) >> _SLOT_SHIFT
        if tick <= self._tick:
            self._due.append(item)
            self.next_us = self._tick << _SLOT_SHIFT
        else:
            self._place(tick, item)
            self.next_us = min(self.next_us, tick << _SLOT_SHIFT)

    def advance(self, now_us: int) -> list[Item]:
        """All items whose slots are over, the earlier slots first."""
        target = now_us >> _SLOT_SHIFT
        out, self._due = self._due, []
        level, start = self._first()
        while start <= target:
            self._tick = start
            for tick, item in self._take(level, start):
                if tick == start:
                    out.append(item)
                else:
                    self._place(tick, item)
            level, start = self._first()
        self._tick = max(self._tick, target)
        self._plan(level, start)
        return out

    def take_put_off(self, wanted_us: Callable[[Item], int]) -> list[Item]:
        """Takes out the next items if they are wanted later than they were armed for."""
        level, start = self._first()
        items = self._slots[level].get(_slot(level, start), [])
        if self._due or len(items) > _LOOKED_AT_MAX:
            return []
        out = [item for tick, item in items if wanted_us(item) > tick << _SLOT_SHIFT]
        if out:
            self._take(level, start)
            for tick, item in items:
                if wanted_us(item) <= tick << _SLOT_SHIFT:
                    self._place(tick, item)
            self._plan(*self._first())
        return out

    def _plan(self, level: int, start: int) -> None:
        """Asks for the first item of the first slot; if that is crowded, for the slot.

        Waking up costs far more than looking at a few items.
        """
        items = self._slots[level].get(_slot(level, start), ())
        first = min([tick for tick, _ in items]) if 0 < len(items) <= _LOOKED_AT_MAX else start
        self.next_us = min(first << _SLOT_SHIFT, NEVER)

    def _place(self, tick: int, item: Item) -> None:
        """Files an item under the highest bits in which its tick differs from now."""
        level = ((tick ^ self._tick).bit_length() - 1) // _LEVEL_SHIFT
        shift = level * _LEVEL_SHIFT
        slot = (tick >> shift) % _LEVEL_SLOTS
        self._slots[level].setdefault(slot, []).append((tick, item))
        self._occupied[level] |= 1 << slot

    def _first(self) -> tuple[int, int]:
        """The level and the first tick of the earliest occupied slot."""
        for level, occupied in enumerate(self._occupied):
            if occupied:
                # Of one level, all occupied slots lie in the same round and ahead of the current one.
                slot = (occupied & -occupied).bit_length() - 1
                shift = level * _LEVEL_SHIFT
                round_start = self._tick >> shift + _LEVEL_SHIFT << _LEVEL_SHIFT
                return level, (round_start | slot) << shift
        return 0, NEVER

    def _take(self, level: int, start: int) -> list[tuple[int, Item]]:
        slot = _slot(level, start)
        self._occupied[level] &= ~(1 << slot)
        return self._slots[level].pop(slot)


def _slot(level: int, tick: int) -> int:
    return (tick >> level * _LEVEL_SHIFT) % _LEVEL_SLOTS
