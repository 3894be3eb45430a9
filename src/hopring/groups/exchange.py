"""The exchange of GROUPS: every daemon of a new view sends the groups of its own sessions.

Implements  thesis 6.4.6, figures 6.23 and 6.24 (ComputeNotify).
Invariants  a daemon's GROUPS counts when all its parts have arrived; the result is a function of the parts
            alone, so it is the same at every daemon.
Deviations  GROUPS carries the id of the last view that was shown, not one overwritten for the exchange, and the
            closing path since a signal in it: two sides that both lost members differ, even if they meet again
            before either was shown anything. A group gets a new view if its members come from different views,
            or if some of them had a signal. That covers lost members: every loss is followed by a view or comes
            after a signal. Without newcomers GROUPS is empty; but a group must not continue before all its
            daemons are known to be in the view: one that drops out may still deliver, in the group's old view,
            messages that are missing here.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from hopring.errors import Drop, PeerError
from hopring.groups.group_table import GroupEntry
from hopring.groups.messages import PARTS_MAX, GroupsPart, LocalGroup
from hopring.groups.names import GroupMember, GroupViewId
from hopring.ids import DAEMONS_MAX, NUMBER_MAX, GroupName, Process, ViewId

NONCES: Final = 1 << 64
"""The number of incarnations that a view id can name."""

ENTRY_COST_BYTES: Final = 64  # Of a group: its id and the encoding around names.
MEMBER_COST_BYTES: Final = 8


class Origin(NamedTuple):
    """The past of members: last view and closing path. Members with equal origins are together."""

    last: GroupViewId
    closing_path: tuple[ViewId, ...]


@dataclass(slots=True)
class MergedGroup:
    """A group merged from the GROUPS of all daemons of the view."""

    name: GroupName
    origins: dict[Origin, set[GroupMember]] = field(default_factory=dict)
    flags: set[bool] = field(default_factory=set)  # Whether its members were last shown a primary view.

    @property
    def changed(self) -> bool:
        """Whether the group's members, or what they know of them, have changed."""
        return len(self.origins) > 1 or any(origin.closing_path for origin in self.origins)

    def needs_view(self, primary: bool) -> bool:
        """Whether the group needs a new view, in a view of daemons that is primary or not."""
        return self.changed or self.flags != {primary}

    def is_torn(self, last: GroupViewId) -> bool:
        """Whether members of this last view have different closing paths."""
        return len([origin for origin in self.origins if origin.last == last]) > 1

    def parting_step(self, origin: Origin) -> int:
        """A step for an origin's parting view: above all last steps, and different for each origin."""
        return max([one.last.step for one in self.origins]) + 1 + sorted(self.origins).index(origin)

    @property
    def members(self) -> set[GroupMember]:
        """All members, of any origin."""
        return {one for members in self.origins.values() for one in members}

    @property
    def sets(self) -> tuple[tuple[GroupMember, ...], ...]:
        """The members by origin, in the same order at all daemons."""
        return tuple([tuple(sorted(self.origins[one])) for one in sorted(self.origins)])

    def together(self, origin: Origin) -> tuple[GroupMember, ...]:
        """The members of one origin."""
        return tuple(sorted(self.origins.get(origin, ())))


@dataclass(slots=True)
class GroupsExchange:
    """The GROUPS messages of one view, as they arrive."""

    view: ViewId
    members: frozenset[Process]
    alike: bool = False  # All come from the same view and know the same: GROUPS are empty.
    parts: dict[Process, dict[int, GroupsPart]] = field(default_factory=dict)
    whole: int = 0  # The number of daemons whose parts have all arrived.

    @property
    def complete(self) -> bool:
        """Whether all parts of all daemons have arrived."""
        return self.whole == len(self.members)

    def add(self, sender: Process, part: GroupsPart) -> None:
        """Adds a part of a daemon's GROUPS; parts for another view are ignored."""
        if part.view != self.view:
            return
        parts = self.parts.get(sender, {})
        first = next(iter(parts.values()), part)
        if sender not in self.members or part.part >= part.parts or part.parts > PARTS_MAX:
            raise PeerError(Drop.INCONSISTENT, f"part {part.part} of {part.parts} of GROUPS")
        same = (first.parts, first.version, first.primary) == (part.parts, part.version, part.primary)
        if not same or part.part in parts:
            raise PeerError(Drop.INCONSISTENT, "parts of GROUPS that do not agree")
        if self.alike and (part.groups or part.interested):
            raise PeerError(Drop.INCONSISTENT, "GROUPS with groups, in a view whose daemons know the same")
        for entry in part.groups:
            _check_id(entry, self.view)
        if len(parts) + 1 == part.parts:
            _check_whole([*parts.values(), part])
        parts[part.part] = part
        self.parts[sender] = parts
        if len(parts) == part.parts:
            self.whole += 1

    def merge(self) -> list[MergedGroup]:
        """All groups, sorted by name: the input of ComputeNotify."""
        merged: dict[GroupName, MergedGroup] = {}
        for sender, parts in self.parts.items():
            for part in parts.values():
                for entry in part.groups:
                    group = merged.setdefault(GroupName(entry.group), MergedGroup(GroupName(entry.group)))
                    members = group.origins.setdefault(Origin(entry.id, entry.closing_path), set())
                    group.flags.add(part.primary)
                    for session, name in entry.members:
                        members.add(GroupMember(sender.daemon, name, sender.incarnation, session))
        return [merged[name] for name in sorted(merged)]

    def interests(self) -> list[tuple[Process, int, set[GroupName]]]:
        """For each daemon, the version of its interest and the groups whose messages it wants."""
        out: list[tuple[Process, int, set[GroupName]]] = []
        for sender, parts in sorted(self.parts.items()):
            wanted: set[GroupName] = set()
            for part in parts.values():
                wanted.update([GroupName(entry.group) for entry in part.groups])
                wanted.update([GroupName(name) for name in part.interested])
            out.append((sender, next(iter(parts.values())).version, wanted))
        return out


def _check_id(entry: LocalGroup, view: ViewId) -> None:
    """Checks the id of a last view and its closing path: clients see them, and ids computed from them."""
    views = (entry.id.view, *entry.id.path, *entry.closing_path)
    if not all(_is_view_id(one) for one in views) or not 0 <= entry.id.step <= NUMBER_MAX:
        raise PeerError(Drop.LIMIT, f"GROUPS with the id {entry.id} of a group view")
    if entry.id.view == view:
        raise PeerError(Drop.INCONSISTENT, "GROUPS with a group view of the view that begins")


def _is_view_id(one: ViewId) -> bool:
    counts = 0 <= one.counter <= NUMBER_MAX and 0 <= one.representative < DAEMONS_MAX
    return counts and 0 <= one.nonce < NONCES


def _check_whole(parts: Iterable[GroupsPart]) -> None:
    """Checks that all parts of one daemon's GROUPS fit together: a group has one past, a session one name."""
    origins: dict[str, Origin] = {}
    names: dict[int, str] = {}
    numbers: dict[str, int] = {}
    members: set[tuple[str, int]] = set()
    for entry in [one for part in parts for one in part.groups]:
        origin = Origin(entry.id, entry.closing_path)
        if origins.setdefault(entry.group, origin) != origin:
            raise PeerError(Drop.INCONSISTENT, f"two last views of {entry.group!r} at one daemon")
        for session, name in entry.members:
            if names.setdefault(session, name) != name or numbers.setdefault(name, session) != session:
                raise PeerError(Drop.INCONSISTENT, f"session {session} and the name {name!r} do not match")
            if (entry.group, session) in members:
                raise PeerError(Drop.INCONSISTENT, f"session {session} is twice in {entry.group!r}")
            members.add((entry.group, session))


def groups_parts(
    view: ViewId,
    me: Process,
    groups: Iterable[GroupEntry],
    interested: Collection[GroupName],
    version: int,
    bytes_max: int,
    primary: bool,
) -> list[GroupsPart]:
    """This daemon's GROUPS, in parts of about `bytes_max`."""
    packed: list[tuple[list[LocalGroup], list[str]]] = [([], [])]
    left_bytes = bytes_max

    def part_for(cost_bytes: int) -> tuple[list[LocalGroup], list[str]]:
        nonlocal left_bytes
        if cost_bytes > left_bytes and (packed[-1][0] or packed[-1][1]):
            packed.append(([], []))
            left_bytes = bytes_max
        left_bytes -= cost_bytes
        return packed[-1]

    known: set[GroupName] = set()
    for group in groups:
        if not group.local:
            continue
        known.add(group.name)
        local = [(one.session, one.name) for one in sorted(group.members) if one.process == me]
        for some in _chunks(local, bytes_max):
            entry = LocalGroup(group.name, group.id, group.closing_path, tuple(some))
            part_for(_cost(group.name) + sum([MEMBER_COST_BYTES + _cost(name) for _, name in some]))[0].append(
                entry
            )
    for name in sorted(set(interested) - known):
        part_for(_cost(name))[1].append(name)
    return [
        GroupsPart(view, at, len(packed), version, tuple(entries), tuple(names), primary)
        for at, (entries, names) in enumerate(packed)
    ]


def _cost(name: str) -> int:
    return ENTRY_COST_BYTES + len(name.encode())


def _chunks(local: list[tuple[int, str]], bytes_max: int) -> list[list[tuple[int, str]]]:
    """Splits the members of one group, which may not fit into one part."""
    most = max(1, bytes_max // (2 * (MEMBER_COST_BYTES + ENTRY_COST_BYTES * 2)))
    return [local[at : at + most] for at in range(0, len(local), most)]
