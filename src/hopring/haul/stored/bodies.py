"""Bodies of parcels that wait, in files beside the log of each member: the interLAN spools and wSpools.

Implements  Makpangou and Birman, 4.1.1: what waits for a peer or for the local group is on stable storage, is
            read from there in its order, and is removed when nobody needs it.
Below       the disk of each member, which has bodies by the ids of their parcels.
Above       the member, which has its bodies stored before the records of a snapshot, which has none.
Invariants  each body of a snapshot is on the disk of the member before it, or it asks the others for it.
Deviations  the order of a spool is that of its channel, or of its line, which the state has; a body is there
            once for all of them. Nothing is switched: a body that waits until the next snapshot goes to the
            disk, whatever it waits for, and no other one does.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from hopring.haul.ids import ParcelId
from hopring.ids import NEVER

BodyKey = tuple[str, ParcelId]
"""A parcel of a set."""

ASKED_MAX: Final = 32
"""Bodies for which a member asks another one at a time."""

ASK_OTHER_US: Final = 1_000_000
"""Another member is asked when the one before has not answered for so long."""


@dataclass(frozen=True, slots=True)
class StoreBodies:
    """Writes bodies to files beside the log."""

    bodies: tuple[tuple[BodyKey, bytes], ...]


@dataclass(frozen=True, slots=True)
class ForgetBodies:
    """Nobody needs these bodies any more; it may take effect at any later time."""

    keys: tuple[BodyKey, ...]


class BodyFiles:
    """Which bodies are on the disk of one member, and which it lacks."""

    def __init__(self, there: Iterable[BodyKey]) -> None:
        self.there: set[BodyKey] = set(there)
        self.lacking: dict[BodyKey, None] = {}  # In the order in which they are asked for.
        self._forgotten: list[BodyKey] = []
        self._asked: tuple[BodyKey, ...] = ()
        self._ask_at_us = 0
        self._turn = 0

    def store(self, bodies: dict[BodyKey, bytes]) -> list[StoreBodies]:
        """These bodies go to the disk, unless they are there."""
        new = {key: body for key, body in bodies.items() if key not in self.there}
        self.there.update(new)
        for key in new:
            self.lacking.pop(key, None)
        return [StoreBodies(tuple(new.items()))] if new else []

    def drop(self, key: BodyKey) -> None:
        """Nobody needs a body any more."""
        self.lacking.pop(key, None)
        if key in self.there:
            self.there.discard(key)
            self._forgotten.append(key)

    def look(self, kept: set[BodyKey], in_memory: set[BodyKey]) -> None:
        """The state has changed as a whole: it keeps these bodies, some of them in memory, and no others."""
        for key in sorted(self.there - kept):
            self.drop(key)
        self.lacking = dict.fromkeys(sorted(kept - in_memory - self.there))

    def take(self) -> list[ForgetBodies]:
        """What is to be forgotten since the last call."""
        keys, self._forgotten = tuple(self._forgotten), []
        return [ForgetBodies(keys)] if keys else []

    @property
    def wake_at_us(self) -> int:
        """When another member is asked."""
        return self._ask_at_us if self.lacking else NEVER

    def ask(self, others: list[str], now_us: int) -> tuple[str, tuple[BodyKey, ...]] | None:
        """Which bodies are asked for now, and of whom."""
        if not self.lacking:
            return None
        if not others:
            self._ask_at_us = now_us + ASK_OTHER_US
            return None
        if any(one in self.lacking for one in self._asked):
            if now_us < self._ask_at_us:
                return None
            self._turn += 1  # The one that was asked has not given all of them.
            for key in self._asked:
                if key in self.lacking:  # The others first.
                    del self.lacking[key]
                    self.lacking[key] = None
        self._asked, self._ask_at_us = tuple(self.lacking)[:ASKED_MAX], now_us + ASK_OTHER_US
        return others[self._turn % len(others)], self._asked
