"""The exchange of GROUPS: every daemon of a new view tells what it knows of its own sessions.

Implements  thesis 6.4.6, figures 6.23 and 6.24 (ComputeNotify).
Invariants  a daemon's GROUPS counts when all its parts are here, and not before; what comes out is a function
            of the parts alone, so it is the same at every daemon.
Deviations  GROUPS carries the id of the last view that was shown, not one overwritten for the occasion, and the
            way since a signal in it: two sides that both lost members do not look alike, even if they meet
            again before either was shown anything. A group gets a new view if its members come from different
            ones, or if some of them had a signal. That covers members who are gone: whatever takes one away is
            followed by a view or comes after a signal. Where nobody new came there is nothing to tell; but a
            group that goes on as it was must not do so before all its daemons are known to be in the view: one
            that falls out may still get, in the group's view, what is missing here.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from hopring.errors import Drop, PeerError
from hopring.groups.group_table import GroupEntry
from hopring.groups.messages import GroupsPart, LocalGroup
from hopring.groups.names import GroupMember, GroupViewId
from hopring.ids import GroupName, Process, ViewId

PARTS_MAX: Final = 1 << 16
ENTRY_COST_BYTES: Final = 64  # Of a group: its id and what stands around names.
MEMBER_COST_BYTES: Final = 8


class Origin(NamedTuple):
    """Where members come from: their last view, and the way from its signal to here. Alike means together."""

    last: GroupViewId
    closing_path: tuple[ViewId, ...]


@dataclass(slots=True)
class MergedGroup:
    """A group as all daemons of the view know it now."""

    name: GroupName
    origins: dict[Origin, set[GroupMember]] = field(default_factory=dict)

    @property
    def changed(self) -> bool:
        """Whether there has to be a new view."""
        return len(self.origins) > 1 or any(origin.closing_path for origin in self.origins)

    def is_torn(self, last: GroupViewId) -> bool:
        """Whether members of this view came different ways."""
        return len([origin for origin in self.origins if origin.last == last]) > 1

    def parting_step(self, origin: Origin) -> int:
        """Above all that any of them had, and each origin's own."""
        return max([one.last.step for one in self.origins]) + 1 + sorted(self.origins).index(origin)

    @property
    def members(self) -> set[GroupMember]:
        """All of them."""
        return {one for members in self.origins.values() for one in members}

    @property
    def sets(self) -> tuple[tuple[GroupMember, ...], ...]:
        """The members by where they come from, in the same order everywhere."""
        return tuple([tuple(sorted(self.origins[one])) for one in sorted(self.origins)])

    def together(self, origin: Origin) -> tuple[GroupMember, ...]:
        """Those who come from there."""
        return tuple(sorted(self.origins.get(origin, ())))


@dataclass(slots=True)
class GroupsExchange:
    """The GROUPS of one view, as they come in."""

    view: ViewId
    members: frozenset[Process]
    alike: bool = (
        False  # All come from the same view and know the same: nothing is told but that they are here.
    )
    parts: dict[Process, dict[int, GroupsPart]] = field(default_factory=dict)
    whole: int = 0  # How many daemons have told everything.

    @property
    def complete(self) -> bool:
        """Whether all daemons of the view have told everything."""
        return self.whole == len(self.members)

    def add(self, sender: Process, word: GroupsPart) -> None:
        """A part of somebody's GROUPS; of another view it means nothing."""
        if word.view != self.view:
            return
        parts = self.parts.get(sender, {})
        first = next(iter(parts.values()), word)
        if sender not in self.members or word.part >= word.parts or word.parts > PARTS_MAX:
            raise PeerError(Drop.INCONSISTENT, f"part {word.part} of {word.parts} of GROUPS")
        if (first.parts, first.version) != (word.parts, word.version) or word.part in parts:
            raise PeerError(Drop.INCONSISTENT, "parts of GROUPS that do not agree")
        parts[word.part] = word
        self.parts[sender] = parts
        if len(parts) == word.parts:
            self.whole += 1

    def merge(self) -> list[MergedGroup]:
        """All groups by name: what ComputeNotify goes through."""
        merged: dict[GroupName, MergedGroup] = {}
        for sender, parts in self.parts.items():
            for part in parts.values():
                for entry in part.groups:
                    group = merged.setdefault(GroupName(entry.group), MergedGroup(GroupName(entry.group)))
                    members = group.origins.setdefault(Origin(entry.id, entry.closing_path), set())
                    for session, name in entry.members:
                        members.add(GroupMember(sender.daemon, name, sender.incarnation, session))
        return [merged[name] for name in sorted(merged)]

    def interests(self) -> list[tuple[Process, int, set[GroupName]]]:
        """Of each daemon the version of its interest, and the groups whose messages it wants."""
        out: list[tuple[Process, int, set[GroupName]]] = []
        for sender, parts in sorted(self.parts.items()):
            wanted: set[GroupName] = set()
            for part in parts.values():
                wanted.update([GroupName(entry.group) for entry in part.groups])
                wanted.update([GroupName(name) for name in part.interested])
            out.append((sender, next(iter(parts.values())).version, wanted))
        return out


def groups_parts(
    view: ViewId,
    me: Process,
    groups: Iterable[GroupEntry],
    interested: Collection[GroupName],
    version: int,
    bytes_max: int,
) -> list[GroupsPart]:
    """This daemon's GROUPS, in parts of about this size."""
    packed: list[tuple[list[LocalGroup], list[str]]] = [([], [])]
    room = bytes_max

    def place(cost: int) -> tuple[list[LocalGroup], list[str]]:
        nonlocal room
        if cost > room and (packed[-1][0] or packed[-1][1]):
            packed.append(([], []))
            room = bytes_max
        room -= cost
        return packed[-1]

    known: set[GroupName] = set()
    for group in groups:
        if not group.local:
            continue
        known.add(group.name)
        local = [(one.session, one.name) for one in sorted(group.members) if one.process == me]
        for some in _chunks(local, bytes_max):
            entry = LocalGroup(group.name, group.id, group.closing_path, tuple(some))
            place(_cost(group.name) + sum([MEMBER_COST_BYTES + _cost(name) for _, name in some]))[0].append(
                entry
            )
    for name in sorted(set(interested) - known):
        place(_cost(name))[1].append(name)
    return [
        GroupsPart(view, at, len(packed), version, tuple(entries), tuple(names))
        for at, (entries, names) in enumerate(packed)
    ]


def _cost(name: str) -> int:
    return ENTRY_COST_BYTES + len(name.encode())


def _chunks(local: list[tuple[int, str]], bytes_max: int) -> list[list[tuple[int, str]]]:
    """Even the members of one group may not fit into one part."""
    most = max(1, bytes_max // (2 * (MEMBER_COST_BYTES + ENTRY_COST_BYTES * 2)))
    return [local[at : at + most] for at in range(0, len(local), most)]
