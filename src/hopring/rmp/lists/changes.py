"""Joins, leaves, locks and recoveries as pure functions from list to list (paper 4.3, 4.4).

Below       lists as packets have them (wire.rmp.lists).
Above       the token site, which puts changes into the order, and the initiator of a recovery.
Invariants  a joiner stands directly behind the token site; a request is carried out once (trap 9); the other
            members keep their order. Locks of a list are settled (locks.py). Strangers, which are sources
            that are not members, are dropped by an ordered change only (trap 21).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from hopring.rmp.lists.locks import claimed, released, settled_locks
from hopring.wire.rmp.ids import Ballot, PeerProcess
from hopring.wire.rmp.lists import MEMBERS_MAX, ListId, ListMember, ListStranger, PeerList
from hopring.wire.rmp.locks import ListLocks, MemberClaim
from hopring.wire.rmp.packets import ListChange, ListChangeRequest

Seqs = Mapping[PeerProcess, int]
"""The number of each source's last Data packet in the order."""


def founded(epoch: Ballot, request: ListChangeRequest, fence: int = 0) -> PeerList:
    """The first list of a ring: its founder alone, and fences above this one and those that it has heard of."""
    return PeerList(ListId(epoch, 1), (_joiner(request),), ListLocks(fence=max(fence, request.fence)))


def is_old(members: PeerList, request: ListChangeRequest) -> bool:
    """Whether the list already shows that this request, or a later one, was carried out."""
    member = members.member(request.source)
    if member is None:
        return request.change is not ListChange.JOIN
    return request.number <= member.request


def changed(
    members: PeerList,
    request: ListChangeRequest,
    site: PeerProcess,
    timestamp: int,
    seqs: Seqs,
    strangers: Sequence[ListStranger] | None = None,
) -> PeerList:
    """The list after a request; a change that is not possible gives the same members in a new list.

    `site` is the token site, which makes the list; `strangers` are those of the new list, None: the same ones.
    """
    now, locks = list(_with_seqs(members, seqs)), members.locks
    at = next((place for place, one in enumerate(now) if one.process == request.source), None)
    match request.change:
        case ListChange.JOIN if len(now) < MEMBERS_MAX or at is not None:
            # A member that asks to join has lost its state: it is another member from here on.
            now = [one for one in now if one.process != request.source]
            behind = next((place for place, one in enumerate(now) if one.process == site), -1) + 1
            now.insert(behind, _joiner(request))
            locks = replace(locks, fence=max(locks.fence, request.fence))
        case ListChange.LEAVE if at is not None:
            del now[at]
        case _ if at is not None:
            locks = _locks_after(members, now[at], request)
            now[at] = replace(now[at], request=request.number)
    others = _known(members, seqs) if strangers is None else tuple(strangers)
    return _made(ListId(members.id.epoch, timestamp), now, locks, others)


def recovered(
    members: PeerList,
    ballot: Ballot,
    timestamp: int,
    present: Collection[PeerProcess],
    seqs: Seqs,
    strangers: Sequence[ListStranger] | None = None,
    fence: int = 0,
) -> PeerList:
    """The list of a recovery: the members that are present, in the order they had.

    `fence` is the highest of all lists that the voters have acknowledged: later ones are above it.
    """
    kept = [one for one in _with_seqs(members, seqs) if one.process in present]
    locks = replace(members.locks, fence=max(members.locks.fence, fence))
    others = _known(members, seqs) if strangers is None else tuple(strangers)
    return _made(ListId(ballot, timestamp), kept, locks, others)


def follower(members: PeerList, process: PeerProcess, before: PeerList | None = None) -> PeerProcess:
    """The next token site after a process; one that has left is followed by its follower in the list before."""
    ring = members.processes
    if process in ring:
        return ring[(ring.index(process) + 1) % len(ring)]
    assert before is not None, "who is in no list has no follower"
    old = before.processes
    at = old.index(process)
    return next(one for one in (*old[at + 1 :], *old[:at]) if one in ring)


def _joiner(request: ListChangeRequest) -> ListMember:
    return ListMember(
        request.source,
        request.number,
        request.minimum,
        request.ttl,
        request.capable,
        request.number,
        request.seq,
        request.name,
    )


def _made(
    list_id: ListId, members: Sequence[ListMember], locks: ListLocks, strangers: Sequence[ListStranger]
) -> PeerList:
    present = {one.process for one in members}
    others = tuple([one for one in strangers if one.process not in present])
    return settled_locks(PeerList(list_id, tuple(members), locks, others))


def _locks_after(members: PeerList, member: ListMember, request: ListChangeRequest) -> ListLocks:
    if request.change is ListChange.LOCK:
        claim = MemberClaim(member.membership, request.serial, request.partial)
        return claimed(members, request.lock, claim)
    if request.change is ListChange.RELEASE:
        return released(members.locks, member.membership, request.serial)
    return members.locks


def _known(members: PeerList, seqs: Seqs) -> tuple[ListStranger, ...]:
    return tuple([replace(one, seq=seqs.get(one.process, one.seq)) for one in members.strangers])


def _with_seqs(members: PeerList, seqs: Seqs) -> tuple[ListMember, ...]:
    return tuple([replace(one, seq=seqs.get(one.process, one.seq)) for one in members.members])
