"""Minimum sizes of groups: members state how many have to be left for the group to go on.

Implements  the minimum size of the RMP paper (3.2, 4.4), on the daemons' order. Where the paper says nothing, a
            group below its minimum is suspended: nothing ordered is delivered in it, and what is sent waits.
Below       the table of groups, which has the members; the daemons' views, and whether they are primary.
Above       views of groups, which judge each change; sessions and locks, which wait for suspended groups.
Invariants  whether a group is suspended is a function of the order and the daemons' views: daemons that stay
            together judge alike. The largest minimum counts, of the members and of those that a change of
            network has taken since the group last went on: a split does not take away its own reason.
            MAJORITY is met in primary views only, so it is never met on two sides of a split; ALL is met when
            no lost member is missing.
Deviations  RMP's majority is one of the members, which are the processes that agree there. Here the daemons
            agree, and theirs is the majority.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from hopring.groups.locks import LockTable
from hopring.groups.names import GroupMember
from hopring.groups.sessions import LocalSessions
from hopring.ids import GroupName, Process
from hopring.wire.rmp.lists import MINIMUM_ALL, MINIMUM_MAJORITY

NO_MINIMUM: Final = 0
"""What a member states that leaves the minimum to others; 1 means the same."""


@dataclass(slots=True)
class GroupMinimum:
    """What the members of one group have stated, and who is lost."""

    stated: dict[GroupMember, int] = field(default_factory=dict)  # By members that stated more than 1.
    # Members that a change of network has taken since the group last went on, with what they stated.
    lost: dict[GroupMember, int] = field(default_factory=dict)

    @property
    def in_force(self) -> int:
        """The largest minimum; MAJORITY and ALL are above all numbers."""
        return max([*self.stated.values(), *self.lost.values()], default=NO_MINIMUM)

    def is_met(self, members: int, primary: bool, whole: bool) -> bool:
        """Whether a group with so many members goes on; `whole` says that no member parts just now."""
        minimum = self.in_force
        if minimum == MINIMUM_ALL:
            return whole and not self.lost
        return primary if minimum == MINIMUM_MAJORITY else members >= minimum

    def lose(self, members: Collection[GroupMember]) -> None:
        """A change of network takes these members."""
        every = self.in_force == MINIMUM_ALL
        for one in members:
            stated = self.stated.pop(one, NO_MINIMUM)
            if every or stated > 1:
                self.lost[one] = stated

    def find(self, joiner: GroupMember) -> None:
        """A member joins: a lost one of the same name at the same daemon is not missing any more."""
        for one in [one for one in self.lost if (one.daemon, one.name) == (joiner.daemon, joiner.name)]:
            del self.lost[one]

    def meet(self, processes: Collection[Process], members: Collection[GroupMember]) -> None:
        """Sides merge: members at daemons of the view are back, or their daemons say that they have left."""
        for one in [one for one in self.lost if one.process in processes]:
            del self.lost[one]
        for member in members:
            self.find(member)


@dataclass(slots=True)
class Suspensions:
    """The suspended groups, and what waits for them at this daemon."""

    sessions: LocalSessions
    locks: LockTable
    groups: set[GroupName] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.sessions.suspended = self.locks.suspended = self.groups

    def update(self, group: GroupName, suspended: bool) -> None:
        """A group is suspended from this place in the order on, or goes on."""
        if suspended and group not in self.groups:
            self.groups.add(group)
            self.sessions.block((group,))
        elif not suspended and group in self.groups:
            self.groups.discard(group)
            self.sessions.unblock((group,))
            self.locks.resume(group)
