"""The table of groups: who is in which, as this daemon knows it from the order."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from hopring.groups.names import GroupMember, GroupViewId
from hopring.ids import GroupName, Process, ViewId


@dataclass(slots=True)
class GroupEntry:
    """A group that has members."""

    name: GroupName
    id: GroupViewId  # Of the last view that was made; who is here and in it has been shown it.
    members: set[GroupMember] = field(default_factory=set)
    local: tuple[int, ...] = ()  # The sessions of this daemon among them, sorted.
    # The daemons' views that were left since the group's own is closing, if it is; then another has to come.
    closing_path: tuple[ViewId, ...] = ()

    @property
    def signalled(self) -> bool:
        """Whether its view is closing."""
        return bool(self.closing_path)

    def listed(self) -> tuple[GroupMember, ...]:
        """The members, in the order that is the same everywhere."""
        return tuple(sorted(self.members))

    def breaks(self, together: Collection[Process]) -> bool:
        """Whether it loses members if only these daemons come along."""
        return any(one.process not in together for one in self.members)

    def established(self, together: Collection[Process]) -> tuple[GroupMember, ...]:
        """The members whose daemons come along; the others are what the thesis calls partitioned."""
        return tuple(sorted([one for one in self.members if one.process in together]))


@dataclass(slots=True)
class GroupTable:
    """All groups, and by session the groups it is in."""

    me: Process
    groups: dict[GroupName, GroupEntry] = field(default_factory=dict)
    sessions: dict[tuple[Process, int], dict[GroupName, GroupMember]] = field(default_factory=dict)

    def add(self, group: GroupEntry, member: GroupMember) -> None:
        """One more member."""
        self.groups[group.name] = group
        group.members.add(member)
        if member.process == self.me:
            group.local = tuple(sorted([*group.local, member.session]))
        self.sessions.setdefault((member.process, member.session), {})[group.name] = member

    def remove(self, group: GroupEntry, member: GroupMember) -> bool:
        """One member less; returns whether the group is gone with it."""
        group.members.remove(member)
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
        """The session as a member of this group."""
        return self.sessions.get((process, session), {}).get(group)

    def groups_of(self, process: Process, session: int) -> list[GroupName]:
        """Where the session is a member, sorted."""
        return sorted(self.sessions.get((process, session), {}))

    def keep(self, together: Collection[Process]) -> None:
        """Members whose daemons did not come along are gone."""
        for group in list(self.groups.values()):
            for member in [one for one in group.members if one.process not in together]:
                self.remove(group, member)

    def replace(self, groups: Iterable[tuple[GroupName, GroupViewId, Collection[GroupMember]]]) -> None:
        """Everything anew, as it was agreed on."""
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
        """All groups by name."""
        return [self.groups[name] for name in sorted(self.groups)]
