"""Holders: which members are known to have everything up to a timestamp.

Implements  the deliveries of K, majority and totally resilient packets, and stability (paper 3.2, 4.2).
Invariants  a member holds a timestamp if it made an ACK or New List at it or later in this epoch: it accepted
            the token without holes. It counts only for timestamps of lists that it is in (trap 2).
Deviations  the paper counts transfers of the token, or others that have a packet, and contradicts itself by one
            (trap 1): here a packet survives the loss of any k members. A slot is stable when all members
            of its list hold it, leavers included, each of which orders once behind its leave.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

from hopring.ordering.holders import MAJORITY
from hopring.rmp.lists.quorum import majority
from hopring.rmp.order.list_history import ListHistory
from hopring.services import Service
from hopring.wire.rmp.ids import ListMembership
from hopring.wire.rmp.lists import PeerList


@dataclass(slots=True)
class TokenHolders:
    """How far each member has everything, as its orderings show."""

    lines: dict[ListMembership, int] = field(default_factory=dict)

    def learn(self, member: ListMembership, timestamp: int) -> None:
        """A member ordered up to this timestamp."""
        self.lines[member] = max(timestamp, self.lines.get(member, 0))

    def of(self, timestamp: int, members: PeerList) -> frozenset[ListMembership]:
        """The members of a list that hold a timestamp of it."""
        return frozenset([one for one in members.memberships if self.lines.get(one, 0) >= timestamp])

    def stable_line(self, members: PeerList, ignored: Collection[ListMembership]) -> int:
        """The timestamp up to which all of a list hold its slots, but for some that do not count."""
        others = [self.lines.get(one, 0) for one in members.memberships if one not in ignored]
        return min(others, default=2**63)


def are_enough(
    holders: frozenset[ListMembership], members: PeerList, lists: ListHistory, service: Service, resilience: int
) -> bool:
    """Whether these holders suffice for a packet of this list to be delivered.

    A member whose process has joined again has lost its state: nobody waits for it, and it counts for nothing.
    """
    if not service.stable and not resilience:
        return True
    if members.memberships <= holders | lists.lost:
        return True
    if service.stable:
        return False
    if resilience == MAJORITY:
        return len(holders) >= majority(len(members))
    return len(holders & lists.present.memberships) > resilience
