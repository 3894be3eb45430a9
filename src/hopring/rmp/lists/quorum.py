"""Quorum: whether the members that a recovery has brought together may go on (paper 3.2, 4.4).

Above       the initiator of a recovery, before it makes the new list.
Invariants  with a minimum of majority or all, of two lists that went on, one has a majority of the other.
Deviations  the paper compares with the largest list that is not stable (MaxN), by size alone, and forgets lists
            that were acknowledged and never heard of again; two sides can go on then (traps 14 and 15). Here a
            majority is asked of the last settled list, of every later one in the order, and of every
            acknowledged one.
"""

from collections.abc import Collection, Iterable

from hopring.wire.rmp.ids import ListMembership
from hopring.wire.rmp.lists import MINIMUM_ALL, MINIMUM_MAJORITY, PeerList


def majority(members: int) -> int:
    """The smallest number that is more than half (trap 1)."""
    return members // 2 + 1


def needed(members: PeerList) -> int:
    """How many of this list have to go on, by the largest minimum of its members (trap 25)."""
    minimum = members.minimum
    if minimum == MINIMUM_ALL:
        return len(members)
    return majority(len(members)) if minimum == MINIMUM_MAJORITY else minimum


def is_quorate(members: PeerList) -> bool:
    """Whether only one side of a split of this list may go on."""
    return members.minimum in (MINIMUM_MAJORITY, MINIMUM_ALL)


def may_go_on(
    present: Collection[ListMembership],
    settled: PeerList,
    later: Iterable[PeerList],
    acknowledged: Iterable[PeerList],
) -> bool:
    """Whether these members are enough; `later` are the lists in the order behind the last settled one."""
    chain = [settled, *later]
    if len(present) < needed(chain[-1]):
        return False
    if not any(is_quorate(one) for one in chain):
        return True
    return all(has_majority(present, one) for one in (*chain, *acknowledged))


def has_majority(present: Collection[ListMembership], members: PeerList) -> bool:
    """Whether more than half of the list are present, as the members that they were in it."""
    return len(members.memberships & frozenset(present)) >= majority(len(members))
