"""The engine of a simulated run: a virtual clock with a heap of actions, and seeded random generators.

Time is integer microseconds and moves only from one action to the next. Actions of the same moment run in the
order in which they were scheduled, so a run depends on nothing but its inputs. Nothing is ever cancelled: an
action that is no longer wanted finds that out when it runs.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Any, Final

from hopring.errors import HopError

EVENTS_MAX_DEFAULT: Final = 100_000_000


class BudgetSpent(HopError):
    """A run exceeded its budget of events, which nearly always means an endless loop."""

    def __init__(self, events_max: int, now_us: int) -> None:
        super().__init__(f"{events_max} events are spent at {now_us} us of virtual time")
        self.events_max = events_max
        self.now_us = now_us


class SimEngine:
    """The virtual clock and the heap of scheduled actions."""

    __slots__ = ("_heap", "_number", "events", "events_max", "now_us")

    def __init__(self, events_max: int = EVENTS_MAX_DEFAULT) -> None:
        self.now_us = 0
        self.events = 0
        self.events_max = events_max
        self._number = 0
        # The number breaks ties, so actions themselves are never compared.
        self._heap: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []

    def at(self, when_us: int, action: Callable[..., None], *args: Any) -> None:
        """Runs `action(*args)` at that moment, after everything already scheduled for it."""
        assert when_us >= self.now_us, "the past cannot be scheduled"
        self._number += 1
        heappush(self._heap, (when_us, self._number, action, args))

    def after(self, delay_us: int, action: Callable[..., None], *args: Any) -> None:
        """Runs `action(*args)` after this delay."""
        self.at(self.now_us + delay_us, action, *args)

    @property
    def next_us(self) -> int | None:
        """The time of the next action, or None if none is scheduled."""
        return self._heap[0][0] if self._heap else None

    def run_until(self, end_us: int) -> None:
        """Runs everything up to and including that moment, and leaves the clock there."""
        assert end_us >= self.now_us, "the clock never goes back"
        self._run(end_us)
        self.now_us = end_us

    def run_for(self, duration_us: int) -> None:
        """Runs everything within this span of virtual time."""
        self.run_until(self.now_us + duration_us)

    def run_until_idle(self) -> None:
        """Runs until no action is left; a link with a heartbeat never ends, and exhausts the budget."""
        while self._heap:
            self._run(self._heap[0][0])

    def _run(self, end_us: int) -> None:
        heap = self._heap
        left = self.events_max - self.events
        while heap and heap[0][0] <= end_us:
            if left == 0:
                self.events = self.events_max
                raise BudgetSpent(self.events_max, self.now_us)
            self.now_us, _number, action, args = heappop(heap)
            left -= 1
            action(*args)
        self.events = self.events_max - left


def generator(seed: int, purpose: str) -> Random:
    """The random generator for one purpose, such as "path a->b loss".

    Its draws depend on the seed and on the purpose alone: another host or fault in the same world does not
    shift them. `Random` hashes text seeds the same way in every process.
    """
    return Random(f"{seed} {purpose}")
