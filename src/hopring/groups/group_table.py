"""The table of groups and their members; it follows from the order and the daemons' views."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from hopring.groups.minimum import NO_MINIMUM, GroupMinimum
from hopring.groups.names import GroupMember, GroupViewId
from hopring.ids import GroupName, Process, ViewId


@dataclass(slots=True)
class GroupEntry:
    """A group with its members and the id of its view."""

    name: GroupName
    id: GroupViewId  # Of its last view, which the members at this daemon have been shown.
    members: set[GroupMember] = field(default_factory=set)
    local: tuple[int, ...] = ()  # The sessions of this daemon among them, sorted.
    # If its view is closing, the daemons' views left since then; another group view follows.
    closing_path: tuple[ViewId, ...] = ()
    minimum: GroupMinimum | None = None  # If members stated one.
    suspended: bool = False  # It is below its minimum, as its members were last shown.

    @property
    def signalled(self) -> bool:
        """Whether its view is closing: the members had a signal."""
        return bool(self.closing_path)

    @property
    def minimum_in_force(self) -> int:
        """The minimum that counts now; 0 if there is none."""
        return NO_MINIMUM if self.minimum is None else self.minimum.in_force

    def listed(self) -> tuple[GroupMember, ...]:
        """The members, sorted in the same order at all daemons."""
        return tuple(sorted(self.members))

    def breaks(self, together: Collection[Process]) -> bool:
        """Whether it loses members if only these daemons stay together."""
        return any(one.process not in together for one in self.members)

    def established(self, together: Collection[Process]) -> tuple[GroupMember, ...]:
        """The members at these daemons; the thesis calls the others partitioned."""
        return tuple(sorted([one for one in self.members if one.process in together]))


@dataclass(slots=True)
class GroupTable:
    """All groups, and an index of the groups of each session."""

    me: Process
    groups: dict[GroupName, GroupEntry] = field(default_factory=dict)
    sessions: dict[tuple[Process, int], dict[GroupName, GroupMember]] = field(default_factory=dict)

    def add(self, group: GroupEntry, member: GroupMember) -> None:
        """Adds a member, and the group if it is new."""
        self.groups[group.name] = group
        group.members.add(member)
        if member.process == self.me:
            group.local = tuple(sorted([*group.local, member.session]))
        self.sessions.setdefault((member.process, member.session), {})[group.name] = member

    def remove(self, group: GroupEntry, member: GroupMember) -> bool:
        """Removes a member; returns whether the group is empty and gone."""
        group.members.remove(member)
        if group.minimum is not None:
            group.minimum.stated.pop(member, None)
        if member.process == self.me:
            group.local = tuple([one for one in group.local if one != member.session])
        key = (member.process, member.session)
        del self.sessions[key][group.name]
        if not self.sessions[key]:
            del self.sessions[key]
        if not group.members:
            del self.groups[group.name]
        return not group.members

    def member(self, process: Process, session: int, group: GroupName) -> GroupMember | None:
        """The session as a member of this group, if it is one."""
        return self.sessions.get((process, session), {}).get(group)

    def name_of(self, process: Process, session: int) -> str | None:
        """The name of a session, if it is in a group."""
        for member in self.sessions.get((process, session), {}).values():
            return member.name
        return None

    def groups_of(self, process: Process, session: int) -> list[GroupName]:
        """The groups of a session, sorted by name."""
        return sorted(self.sessions.get((process, session), {}))

    def keep(self, together: Collection[Process]) -> None:
        """Removes the members at all other daemons."""
        for group in list(self.groups.values()):
            for member in [one for one in group.members if one.process not in together]:
                self.remove(group, member)

    def replace(self, groups: Iterable[tuple[GroupName, GroupViewId, Collection[GroupMember]]]) -> None:
        """Replaces the whole table by an agreed one."""
        self.groups.clear()
        self.sessions.clear()
        for name, view_id, members in groups:
            local = sorted([one.session for one in members if one.process == self.me])
            self.groups[name] = GroupEntry(name, view_id, set(members), tuple(local))
            for member in members:
                self.sessions.setdefault((member.process, member.session), {})[name] = member

    def local(self, group: GroupName) -> tuple[int, ...]:
        """The sessions of this daemon in a group."""
        found = self.groups.get(group)
        return () if found is None else found.local

    def in_order(self) -> list[GroupEntry]:
        """All groups, sorted by name."""
        return [self.groups[name] for name in sorted(self.groups)]
