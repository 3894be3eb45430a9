"""A window against replay: every counter of a sender is accepted once, and none that is far behind.

Implements  the sliding window of RFC 4303, section 3.4.3, with a ring of flags instead of a bit mask.
Invariants  a counter is accepted at most once; nothing at or below `floor`, nothing WINDOW or more below the
highest
            accepted counter.
"""

from typing import Final, final

WINDOW: Final = 8192
"""How far a packet may arrive behind a later one of the same sender; a power of two."""

_SLOT: Final = WINDOW - 1


@final
class ReplayWindow:
    """The counters that were accepted from one process."""

    def __init__(self, floor: int) -> None:
        self.floor: Final = floor
        self.top = floor
        self._seen = bytearray(WINDOW)

    def is_new(self, counter: int) -> bool:
        """Whether this counter could still be accepted; changes nothing."""
        if counter > self.top:
            return True
        return counter > self.floor and counter > self.top - WINDOW and not self._seen[counter & _SLOT]

    def accept(self, counter: int) -> None:
        """Records a counter that `is_new`, after the packet was opened."""
        assert self.is_new(counter), "a counter is accepted once"
        top = self.top
        if counter > top:
            if counter - top >= WINDOW:
                self._seen = bytearray(WINDOW)
            else:
                for skipped in range(top + 1, counter):
                    self._seen[skipped & _SLOT] = 0
            self.top = counter
        self._seen[counter & _SLOT] = 1
