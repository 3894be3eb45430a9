"""The Unreliable service: bundles with a numbering of their own, outside the order.

Implements  report 1998, 3.3: a sequence of their own, to detect duplicates and to join fragments; a bundle that
            is incomplete a given time after its first fragment is discarded. Thesis 5.1, fourth rule: delivered
            as soon as complete.
Below       fragments in any order, any of which may be lost or duplicated.
Above       membership, which gets each bundle at most once.
Invariants  a number of a source is delivered at most once; buffers are bounded in bytes, in time, and in the
            numbers that are remembered. No daemon waits for a lost bundle.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from hopring.errors import Drop, PeerError
from hopring.ids import NEVER, DaemonId, SiteId, SiteMask
from hopring.wire.bundle import BUNDLE_BYTES_DEFAULT
from hopring.wire.fragments import FRAGMENT_COST_BYTES, Reassembly
from hopring.wire.routed import Routed
from hopring.wire.unreliable import Unreliable, cut_unreliable

NUMBERS_KEPT: Final = 4096
"""The range of numbers below a source's highest that is remembered; larger than any sender's window."""

NUMBERS_TRUSTED: Final = 8
"""By how many bundles a second range of a source's numbers has to exceed the first one to replace it."""

_ALL: Final = (1 << NUMBERS_KEPT) - 1


@dataclass(slots=True)
class LooseSender:
    """The numbering of one daemon's Unreliable bundles in one network."""

    site: SiteId
    me: DaemonId
    object_bytes_max: int
    number: int = 0

    def cut(self, mask: SiteMask, bundle: bytes) -> list[Unreliable]:
        """The next bundle, in fragments that fit in a datagram each."""
        self.number += 1
        return cut_unreliable(self.site, self.me, self.number, mask, bundle, self.object_bytes_max)


@dataclass(slots=True)
class Numbers:
    """A range of a source's numbers: the bundles of it that were delivered or given up."""

    highest: int = 0
    count: int = 0  # Delivered or given up, since another range began.
    _done: int = 0  # Bit n: highest - n.

    def near(self, number: int) -> bool:
        """Whether the range, or the next one above it, has this number."""
        return abs(number - self.highest) < NUMBERS_KEPT

    def dealt_with(self, number: int) -> bool:
        """Whether the bundle was delivered or given up; numbers below the range count as dealt with."""
        behind = self.highest - number
        return behind >= 0 and (behind >= NUMBERS_KEPT or bool(self._done >> behind & 1))

    def deal(self, number: int) -> None:
        """Marks the bundle as delivered or given up."""
        ahead = number - self.highest
        if ahead > 0:
            self._done = self._done << ahead & _ALL if ahead < NUMBERS_KEPT else 0
            self.highest = number
        if self.highest - number < NUMBERS_KEPT:
            self._done |= 1 << self.highest - number
            self.count += 1


@dataclass(slots=True)
class SourceNumbers:
    """All numbers of a source that are remembered.

    A number far above the others may be a fault, or the first one to arrive after a long loss. It begins a
    second range, so the bundles of the first one are not too old because of it. The second range replaces the
    first one when more bundles by `NUMBERS_TRUSTED` have arrived in it.
    """

    main: Numbers = field(default_factory=Numbers)
    other: Numbers | None = None

    def dealt_with(self, number: int) -> bool:
        """Whether the bundle was delivered or given up, or is too old to know."""
        other = self.other
        if other is not None and other.near(number) and not self.main.near(number):
            return other.dealt_with(number)
        return self.main.dealt_with(number)

    def deal(self, number: int) -> None:
        """Marks the bundle as delivered or given up."""
        if self.main.near(number):
            self.main.deal(number)
        elif self.other is not None and self.other.near(number):
            self._deal_other(self.other, number)
        elif number > self.main.highest:
            self.main.count = 0
            self._deal_other(Numbers(), number)

    def _deal_other(self, other: Numbers, number: int) -> None:
        other.deal(number)
        self.other = other
        if other.count > self.main.count + NUMBERS_TRUSTED:
            self.main, self.other = other, self.main


@dataclass(slots=True)
class LooseReceiver:
    """Reassembles the Unreliable bundles of other daemons."""

    sources: Mapping[DaemonId, SiteId]  # The daemons whose bundles are accepted, with their sites.
    wait_us: int
    held_bytes_max: int
    bundle_bytes_max: int = BUNDLE_BYTES_DEFAULT
    delivered: int = 0
    duplicates: int = 0  # Fragments of bundles that were dealt with or are below the range.
    incomplete: int = 0  # Bundles given up: incomplete in time, or dropped for space.
    _numbers: dict[DaemonId, SourceNumbers] = field(default_factory=dict)
    _until_us: dict[tuple[DaemonId, int], int] = field(default_factory=dict)  # Oldest first.
    _parts: Reassembly = field(init=False)

    def __post_init__(self) -> None:
        # One bundle always fits, in fragments of any size that a sender would choose.
        self.held_bytes_max = max(self.held_bytes_max, 2 * self.bundle_bytes_max)
        self._parts = Reassembly(self.bundle_bytes_max, self.held_bytes_max)

    @property
    def held_bytes(self) -> int:
        """The bytes held of incomplete bundles."""
        return self._parts.held_bytes

    @property
    def wake_at_us(self) -> int:
        """The time at which the oldest incomplete bundle is given up."""
        for until_us in self._until_us.values():
            return until_us
        return NEVER

    def receive(self, item: Unreliable, now_us: int) -> bytes | None:
        """Returns the bundle if this fragment completes it; raises PeerError for a foreign source."""
        if self.sources.get(item.daemon) != item.source:
            raise PeerError(
                Drop.FOREIGN_SENDER, f"Unreliable bundle of daemon {item.daemon}, site {item.source}"
            )
        self.expire(now_us)
        numbers = self._numbers.setdefault(item.daemon, SourceNumbers())
        if numbers.dealt_with(item.number):
            self.duplicates += 1
            return None
        key = (item.daemon, item.number)
        if item.count > 1:
            self._free_space(len(item.chunk) + FRAGMENT_COST_BYTES, key)
        bundle = self._parts.add(_as_fragment(item))
        if bundle is None:
            self._until_us.setdefault(key, now_us + self.wait_us)
            return None
        self._until_us.pop(key, None)
        numbers.deal(item.number)
        self.delivered += 1
        return bytes(bundle)

    def expire(self, now_us: int) -> None:
        """Gives up bundles that are incomplete in time; later fragments of them are ignored."""
        while self.wake_at_us <= now_us:
            self._give_up(next(iter(self._until_us)))

    def _free_space(self, cost_bytes: int, wanted: tuple[DaemonId, int]) -> None:
        """Gives up the oldest bundles to make space, but not the wanted one."""
        for key in list(self._until_us) if self._crowded(cost_bytes, wanted) else ():
            if key != wanted and self._crowded(cost_bytes, wanted):
                self._give_up(key)

    def _crowded(self, cost_bytes: int, wanted: tuple[DaemonId, int]) -> bool:
        more = 0 if wanted in self._until_us else 1
        parts = self._parts
        return parts.held_bytes + cost_bytes > parts.held_bytes_max or len(parts) + more > parts.bundles_max

    def _give_up(self, key: tuple[DaemonId, int]) -> None:
        del self._until_us[key]
        self._parts.forget(SiteId(key[0]), key[1])
        self._numbers[key[0]].deal(key[1])
        self.incomplete += 1


def _as_fragment(item: Unreliable) -> Routed:
    """A fragment as reassembly expects it; the daemon stands in the field of the site and names the source."""
    return Routed(SiteId(item.daemon), item.number, 0, item.mask, item.index, item.count, item.chunk)
