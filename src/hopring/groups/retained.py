"""Retained values: the last message of each group that its sender asked to keep, for those who join later.

Below       the order: all daemons of a view deliver a retained message, since it is pruned nowhere.
Above       the groups: a session that joins is shown the value behind its view, before any message.
Invariants  at the same place in the order all daemons of a view have the same values; a session that joins gets
            the last value that was ordered before its join, or none if there was none within the limit; the
            values take RETAINED_TOTAL_BYTES at most, and the ones with the lowest places are forgotten first.

Daemons that come together exchange their values with GROUPS. Of each group the one with the highest place
stays: of two that were ordered in one history that is the later one, and otherwise the same one everywhere.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec

from hopring.errors import Drop, PeerError
from hopring.groups.messages import GroupsPart, RetainedEntry
from hopring.groups.private_groups import is_private
from hopring.ids import NUMBER_MAX, SITES_MAX, GroupName, Place, ViewId
from hopring.wire.bundle import Bundle, decode_bundle

RETAINED_TOTAL_BYTES: Final = 256 * 1024
"""The limit of all values together; each counts with its bundle, names and place."""

ENTRY_COST_BYTES: Final = 128


class RetainedValue(NamedTuple):
    """The value of a group."""

    place: Place  # Of the message in the order.
    sender: GroupName
    bundle: bytes  # Encoded, with this one message.

    @property
    def size_bytes(self) -> int:
        """What it counts for the limit."""
        return ENTRY_COST_BYTES + len(self.sender.encode()) + len(self.bundle)


@dataclass(slots=True)
class RetainedValues:
    """The values of all groups."""

    by_group: dict[GroupName, RetainedValue] = field(default_factory=dict)
    size_bytes: int = 0

    def put(self, group: GroupName, value: RetainedValue, bundle: Bundle) -> None:
        """A retained message is delivered; one without a body clears the value."""
        self._remove(group)
        if len(bundle.bodies):
            self.by_group[group] = value
            self.size_bytes += value.size_bytes
            self._shrink()

    def entries(self) -> list[RetainedEntry]:
        """All values, sorted by group, as GROUPS has them."""
        return [
            RetainedEntry(group, one.place.view, one.place.lts, one.place.site, one.sender, one.bundle)
            for group, one in sorted(self.by_group.items())
        ]

    def merge(self, entries: Iterable[RetainedEntry]) -> list[GroupName]:
        """Replaces all values by those of the view that begins; returns the groups with another one, sorted."""
        before, self.by_group, self.size_bytes = self.by_group, {}, 0
        for one in entries:
            value = RetainedValue(Place(one.view, one.lts, one.site), GroupName(one.sender), one.bundle)
            known = self.by_group.get(GroupName(one.group))
            if known is None or known.place < value.place:
                self.by_group[GroupName(one.group)] = value
        self.size_bytes = sum([one.size_bytes for one in self.by_group.values()])
        self._shrink()
        return sorted([group for group, value in self.by_group.items() if before.get(group) != value])

    def _shrink(self) -> None:
        while self.size_bytes > RETAINED_TOTAL_BYTES:
            self._remove(min(self.by_group, key=lambda group: (self.by_group[group].place, group)))

    def _remove(self, group: GroupName) -> None:
        old = self.by_group.pop(group, None)
        if old is not None:
            self.size_bytes -= old.size_bytes


def check_retained(entry: RetainedEntry, view: ViewId) -> None:
    """Checks a value of another daemon: it is shown to clients."""
    bundle = decode_bundle(entry.bundle)
    if (
        not bundle.key.retained
        or bundle.key.groups != (entry.group,)
        or not is_private(GroupName(entry.sender))
    ):
        raise PeerError(Drop.INCONSISTENT, f"GROUPS with a value of {entry.group!r} that is none")
    numbers = (entry.view.counter, entry.lts)
    if (
        not all(0 <= one <= NUMBER_MAX for one in numbers)
        or not 0 <= entry.site < SITES_MAX
        or entry.view == view
    ):
        raise PeerError(Drop.LIMIT, f"GROUPS with a value at {entry.view}, {entry.lts}, {entry.site}")


def with_values(parts: list[GroupsPart], entries: list[RetainedEntry], bytes_max: int) -> list[GroupsPart]:
    """The parts of GROUPS, and behind them parts with these values, of about `bytes_max` each."""
    packed: list[list[RetainedEntry]] = []
    left_bytes = 0
    for entry in entries:
        cost_bytes = ENTRY_COST_BYTES + len(entry.bundle)
        if cost_bytes > left_bytes or not packed:
            packed.append([])
            left_bytes = bytes_max
        left_bytes -= cost_bytes
        packed[-1].append(entry)
    # What all parts of a daemon have in common is what is left of the first one.
    bare = msgspec.structs.replace(parts[0], groups=(), interested=(), locks=(), minimums=())
    values = [msgspec.structs.replace(bare, retained=tuple(some)) for some in packed]
    count = len(parts) + len(values)
    return [msgspec.structs.replace(one, part=at, parts=count) for at, one in enumerate([*parts, *values])]
