"""The view counter: how far a daemon follows the counters that other daemons claim.

A new view has a counter above all that its members know, so daemons tell each other the highest one. A number
out of nowhere must neither use the counters up nor part the daemons that believed it from those that did not.
So a claim raises the counter in bounded steps, and ALIVE and JOIN are not refused because of their claims.

Invariants  in `COUNTER_SPAN_US` the claims of daemons that have not heard this one raise the counter by
            `COUNTER_NEAR` at most, and those of daemons that have by `step`; so do NEWMEMBs with this daemon.
"""

from dataclasses import dataclass
from typing import Final

from hopring.errors import Drop, PeerError
from hopring.ids import NUMBER_MAX

COUNTER_NEAR: Final = 1 << 16
"""Counters of daemons that meet differ by the views formed without one of them, rarely by more than this."""

COUNTER_SPAN_US: Final = 100_000
"""The time of one step. With steps of 2^32, all counters would be used up in 13 years of wrong claims."""


@dataclass(slots=True)
class ViewCounter:
    """The highest view counter that one daemon knows or believes."""

    value: int
    step: int  # The most that a claim is believed to be ahead.
    _base: int = 0  # The counter when the span began.
    _until_us: int = -1  # When the span ends.

    def reach(self, met: bool, now_us: int) -> int:
        """The highest counter that is believed now; `met`: its sender has heard this daemon."""
        if now_us >= self._until_us:
            self._base, self._until_us = self.value, now_us + COUNTER_SPAN_US
        return min(self._base + (self.step if met else COUNTER_NEAR), NUMBER_MAX)

    def check(self, counter: int, now_us: int) -> None:
        """Refuses a NEWMEMB far ahead; one step later it may be in reach."""
        if counter > self.reach(True, now_us):
            self.heard(counter, True, now_us)
            raise PeerError(Drop.OUT_OF_WINDOW, f"NEWMEMB with view counter {counter}")

    def heard(self, claimed: int, met: bool, now_us: int) -> None:
        """Raises the counter to this claim, as far as it is believed."""
        if claimed > self.value:
            self.value = max(self.value, min(claimed, self.reach(met, now_us)))
