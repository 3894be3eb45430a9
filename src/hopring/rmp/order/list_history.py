"""Lists of one epoch in the order: which was in effect at a timestamp.

Invariants  lists rise in timestamps; the last one is the present list, from which the next token site follows.
"""

from dataclasses import dataclass, field

from hopring.wire.rmp.ids import ListMembership, PeerProcess
from hopring.wire.rmp.lists import PeerList


@dataclass(slots=True)
class ListHistory:
    """The lists from the one that began the stay, or an undelivered or unstable slot, on."""

    lists: list[PeerList] = field(default_factory=list)
    origin: PeerList | None = None  # Of a joiner: the list that its first one replaced.
    lost: set[ListMembership] = field(default_factory=set)  # Their processes joined again, without their state.

    @property
    def present(self) -> PeerList:
        """The last list in the order."""
        return self.lists[-1]

    def add(self, members: PeerList) -> None:
        """A list whose turn has come in the order."""
        assert not self.lists or members.id.timestamp > self.present.id.timestamp, "lists rise"
        for one in self.present.members:
            again = members.member(one.process)
            if again is not None and again.membership != one.membership:
                self.lost.add(one.membership)
        self.lists.append(members)

    def at(self, timestamp: int) -> PeerList:
        """The list in effect at a timestamp; the first one for all before it."""
        for one in reversed(self.lists):
            if one.id.timestamp <= timestamp:
                return one
        return self.lists[0]

    def before(self, timestamp: int) -> PeerList | None:
        """The list that the one of this timestamp replaced, if it is known."""
        return next((one for one in reversed(self.lists) if one.id.timestamp < timestamp), self.origin)

    def membership(self, process: PeerProcess) -> ListMembership | None:
        """The last membership of a process; one that has just left still has one."""
        for one in reversed(self.lists):
            member = one.member(process)
            if member is not None:
                return member.membership
        return None

    def forget_below(self, timestamp: int) -> None:
        """Forgets lists that were replaced at this timestamp or before, except the last two."""
        while len(self.lists) > 2 and self.lists[1].id.timestamp <= timestamp:
            del self.lists[0]
