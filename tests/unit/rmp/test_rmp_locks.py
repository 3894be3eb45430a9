"""Locks of RMP lists: numbers, waiters, fences, handlers, losses, limits, and what members are told."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest

from hopring.errors import Drop, PeerError
from hopring.groups.locks import LockEnd
from hopring.rmp.events import RingLockEnded, RingLockGranted
from hopring.rmp.lists.changes import changed, founded, recovered
from hopring.rmp.lists.locks import (
    claimed,
    first_fence,
    handler_holder,
    lock_news,
    refusal,
    settled_locks,
)
from hopring.rmp.lists.quorum import is_quorate
from hopring.wire.rmp.codec import PACKET_ENCODED_BYTES_MAX, decode_packet, encode_packet
from hopring.wire.rmp.ids import Ballot, DataId, PeerProcess
from hopring.wire.rmp.lists import (
    MEMBERS_MAX,
    MINIMUM_MAJORITY,
    STRANGERS_MAX,
    ListId,
    ListMember,
    ListStranger,
    PeerList,
    bare,
)
from hopring.wire.rmp.locks import (
    FENCE_MAX,
    LOCK_CLAIMS_MAX,
    LOCKS_BYTES_MAX,
    ListLock,
    ListLocks,
    MemberClaim,
    fence_number,
    partial_fence,
)
from hopring.wire.rmp.packets import (
    EARLY_MAX,
    ListChange,
    ListChangeRequest,
    NewListKind,
    NewListPacket,
    RecoveryVote,
    SyncPoint,
)

A, B, C, D = [PeerProcess(number, 1, number) for number in range(1, 5)]
START = 1_000


def ring(*processes: PeerProcess, minimum: int = MINIMUM_MAJORITY) -> PeerList:
    """A list of these, whose fences start at START."""
    members = founded(Ballot(1, processes[0]), join(processes[0], 1, minimum), START)
    for timestamp, one in enumerate(processes[1:], start=2):
        members = changed(members, join(one, 1, minimum), processes[timestamp - 2], timestamp, {})
    return members


def join(source: PeerProcess, number: int, minimum: int, fence: int = 0) -> ListChangeRequest:
    return ListChangeRequest(source, ListChange.JOIN, number, "red", minimum, fence=fence)


def step(members: PeerList, source: PeerProcess, change: ListChange, **fields: object) -> PeerList:
    """The next list, after a request of a member."""
    member = members.member(source)
    number = 1 if member is None else member.request + 1
    request = replace(ListChangeRequest(source, change, number, "red"), **fields)  # type: ignore[arg-type]
    return changed(members, request, members.processes[0], members.id.timestamp + 1, {})


def claim(members: PeerList, source: PeerProcess, lock: str, serial: int, partial: bool = False) -> PeerList:
    return step(members, source, ListChange.LOCK, lock=lock, serial=serial, partial=partial)


def release(members: PeerList, source: PeerProcess, serial: int) -> PeerList:
    return step(members, source, ListChange.RELEASE, serial=serial)


def held(members: PeerList) -> dict[str, tuple[PeerProcess, int]]:
    """The holders, with their fences, by the names of the locks."""
    return {
        one.name: (one.holder.member.process, one.fence)
        for one in members.locks.locks
        if one.holder is not None
    }


def test_the_first_claim_holds_the_lock_and_others_wait_in_their_order() -> None:
    one = claim(claim(claim(ring(A, B, C), B, "row", 1), C, "row", 1), A, "row", 9)

    assert held(one) == {"row": (B, START + 1)}
    assert held(release(one, B, 1)) == {"row": (C, START + 2)}
    assert held(release(release(one, C, 1), B, 1)) == {"row": (A, START + 2)}


def test_a_list_that_drops_the_holder_releases_its_locks() -> None:
    one = claim(claim(ring(A, B, C), B, "row", 1), C, "row", 2)

    left = step(one, B, ListChange.LEAVE)
    lost = recovered(one, Ballot(2, A), 40, {A, C}, {})

    assert held(left) == {"row": (C, START + 2)}
    assert held(lost) == {"row": (C, START + 2)}


def test_who_comes_back_is_another_member_and_holds_nothing() -> None:
    one = claim(ring(A, B, C), B, "row", 1)

    back = changed(one, join(B, 5, MINIMUM_MAJORITY), A, 9, {})

    assert B in back
    assert back.locks == ListLocks((), START + 1)


def test_handlers_are_the_first_six_numbers_and_other_names_take_the_first_free_one() -> None:
    one = ring(A, B)
    for serial, name in enumerate(["rows", "3", "7", "1"]):
        one = claim(one, A, name, serial)

    assert [(lock.number, lock.name) for lock in one.locks.locks] == [(1, "1"), (3, "3"), (7, "rows"), (8, "7")]

    freed = claim(release(one, A, 0), B, "others", 1)

    assert [(lock.number, lock.name) for lock in freed.locks.locks] == [
        (1, "1"),
        (3, "3"),
        (7, "others"),
        (8, "7"),
    ]


def test_the_251st_name_is_refused_until_another_is_released() -> None:
    one = ring(A, B)
    for serial in range(250):
        one = claim(one, A, f"row-{serial}", serial)
    full = claim(one, B, "one more", 1)

    assert len(full.locks.locks) == 250
    assert full.locks == one.locks
    claimed_by_b = MemberClaim(one.members[1].membership, 1)
    assert refusal(one, "one more", claimed_by_b) is LockEnd.FULL
    assert refusal(one, "6", claimed_by_b) is None
    assert refusal(one, "row-3", claimed_by_b) is None
    assert held(claim(release(full, A, 77), B, "one more", 2))["one more"] == (B, START + 251)


def test_names_that_are_too_long_together_are_refused() -> None:
    one = ring(A)
    for serial in range(250):
        one = claim(one, A, f"{serial:0128}", serial)

    assert len(one.locks.locks) == (LOCKS_BYTES_MAX - 10) // (12 + 128 + 11)
    assert one.locks.encoded_bytes <= LOCKS_BYTES_MAX


def test_a_lock_has_a_limit_of_claims() -> None:
    one = ring(A, B)
    for serial in range(LOCK_CLAIMS_MAX + 3):
        one = claim(one, A, "row", serial)

    (lock,) = one.locks.locks
    assert len(lock.claims) == LOCK_CLAIMS_MAX
    assert refusal(one, "row", MemberClaim(one.members[1].membership, 1)) is LockEnd.TOO_MANY


def test_a_claim_that_is_repeated_is_there_once() -> None:
    one = claim(claim(ring(A, B), A, "row", 1), A, "other", 1)

    assert held(one) == {"row": (A, START + 1)}
    assert claimed(one, "row", MemberClaim(one.members[0].membership, 1)) == one.locks


def test_a_list_that_is_not_primary_grants_to_partial_claims_only_and_below_all_other_fences() -> None:
    one = claim(claim(ring(A, B, minimum=1), A, "row", 1), B, "row", 1, partial=True)

    assert held(one) == {"row": (B, partial_fence(START + 1))}
    assert refusal(one, "row", MemberClaim(one.members[0].membership, 2)) is LockEnd.NOT_PRIMARY
    assert partial_fence(FENCE_MAX) < 0
    assert -(2**63) < partial_fence(1) < partial_fence(2)


def test_a_partial_holder_loses_its_lock_in_the_first_primary_list() -> None:
    one = claim(claim(ring(A, B, minimum=1), A, "row", 1, partial=True), B, "row", 1, partial=True)
    primary = changed(one, join(C, 1, MINIMUM_MAJORITY), A, 9, {})

    assert is_quorate(primary)
    assert held(primary) == {"row": (B, START + 2)}
    assert lock_news(one, primary, one.members[0].membership) == [RingLockEnded("row", 1, LockEnd.VIEW.value)]
    assert lock_news(one, primary, one.members[1].membership) == [RingLockGranted("row", 1, START + 2, 9)]


def test_claims_end_when_the_list_is_not_primary_any_more() -> None:
    one = changed(ring(A, B, minimum=1), join(C, 1, MINIMUM_MAJORITY), A, 9, {})
    one = claim(claim(one, A, "row", 1), B, "row", 1)
    other = step(one, C, ListChange.LEAVE)

    assert other.locks == ListLocks((), START + 1)
    for member in one.members[0], one.members[2]:
        assert lock_news(one, other, member.membership) == [RingLockEnded("row", 1, LockEnd.NOT_PRIMARY.value)]


def test_a_founded_ring_starts_above_the_clock_and_above_what_it_heard() -> None:
    now_ms = 1_763_532_000_000

    assert first_fence(now_ms) == now_ms * 2**20
    assert first_fence(now_ms, heard=2**62) == 2**62
    assert first_fence(-1) == 0
    assert first_fence(2**70) < FENCE_MAX
    assert founded(Ballot(1, A), join(A, 1, 1, fence=7), 5).locks.fence == 7


def test_fences_rise_above_those_that_a_joiner_or_a_voter_has_heard() -> None:
    one = ring(A, B)
    joined = changed(one, join(C, 1, MINIMUM_MAJORITY, fence=5_000), A, 9, {})
    voted = recovered(one, Ballot(2, A), 9, {A, B}, {}, fence=7_000)

    assert held(claim(joined, A, "row", 1)) == {"row": (A, 5_001)}
    assert held(claim(voted, A, "row", 1)) == {"row": (A, 7_001)}


def test_a_list_that_has_granted_the_highest_fence_grants_no_more() -> None:
    one = changed(ring(A, B), join(C, 1, MINIMUM_MAJORITY, fence=FENCE_MAX - 1), A, 9, {})
    one = claim(claim(one, A, "row", 1), B, "other", 1)

    assert held(one) == {"row": (A, FENCE_MAX)}


def test_the_holder_of_a_handler_lock_answers() -> None:
    one = claim(claim(ring(A, B), B, "2", 1), A, "2", 1)

    assert handler_holder(one, 2) == MemberClaim(one.members[1].membership, 1)
    assert handler_holder(one, 3) is None


def test_members_are_told_of_their_own_claims_only() -> None:
    before = claim(ring(A, B), A, "row", 4)
    after = release(claim(before, B, "row", 8), A, 4)
    a, b = before.members[0].membership, before.members[1].membership

    assert lock_news(None, before, a) == [RingLockGranted("row", 4, START + 1, before.id.timestamp)]
    assert lock_news(None, before, b) == []
    assert lock_news(before, after, a) == [RingLockEnded("row", 4, LockEnd.RELEASED.value)]
    assert lock_news(before, after, b) == [RingLockGranted("row", 8, START + 2, after.id.timestamp)]
    assert lock_news(after, step(after, B, ListChange.LEAVE), b) == [
        RingLockEnded("row", 8, LockEnd.NOT_A_MEMBER.value)
    ]
    assert lock_news(after, after, b) == []


def longest() -> PeerList:
    """A list with as much of everything as it may have."""
    members = tuple(
        ListMember(PeerProcess(number, 1, number), 1, 1, 1, True, 1, 0, "x" * 64)
        for number in range(MEMBERS_MAX)
    )
    locks = tuple(
        ListLock(number, f"{number:041}", (MemberClaim(members[number % 256].membership, number),), number - 6)
        for number in range(7, 257)
    )
    strangers = tuple(ListStranger(PeerProcess(7, 2, number), 1) for number in range(STRANGERS_MAX))
    return PeerList(ListId(Ballot(1, A), 5), members, ListLocks(locks, 250), strangers)


def test_the_longest_list_and_vote_fit_a_packet() -> None:
    one = longest()
    assert LOCKS_BYTES_MAX - one.locks.encoded_bytes < 1_000
    seqs = tuple(DataId(PeerProcess(9, 9, number), 1) for number in range(2 * MEMBERS_MAX))

    sync = SyncPoint(5, seqs, tuple(DataId(PeerProcess(9, 9, number), 2) for number in range(EARLY_MAX)))

    packet = NewListPacket(NewListKind.ORDERED, A, B, one, sync)
    vote = RecoveryVote(Ballot(1, A), A, 1, sync, 5, 6, (bare(one),) * 8)

    for each in (packet, vote):
        raw = encode_packet(each)
        assert len(raw) < PACKET_ENCODED_BYTES_MAX
        assert decode_packet(raw) == each


@pytest.mark.parametrize(
    "locks",
    [
        ListLocks((ListLock(7, "3", (MemberClaim((A, 1), 1),)),)),  # type: ignore[arg-type]
        ListLocks((ListLock(7, "", (MemberClaim((A, 1), 1),)),)),  # type: ignore[arg-type]
        ListLocks((ListLock(7, "a", ()),)),
        ListLocks((ListLock(7, "a", (MemberClaim((A, 1), 1),), 9),), 8),  # type: ignore[arg-type]
        ListLocks((ListLock(7, "a", (MemberClaim((A, 1), 1),)), ListLock(8, "a", (MemberClaim((A, 1), 2),)))),  # type: ignore[arg-type]
        ListLocks((ListLock(8, "a", (MemberClaim((A, 1), 1),)), ListLock(7, "b", (MemberClaim((A, 1), 2),)))),  # type: ignore[arg-type]
        ListLocks((ListLock(7, "a", (MemberClaim((A, 1), 1), MemberClaim((A, 1), 1))),)),  # type: ignore[arg-type]
        ListLocks(
            (ListLock(7, "a", (MemberClaim((A, 1), 1),), 5), ListLock(8, "b", (MemberClaim((A, 1), 2),), 5)),  # type: ignore[arg-type]
            8,
        ),
    ],
)
def test_locks_that_contradict_themselves_are_refused(locks: ListLocks) -> None:
    one = replace(ring(A), locks=locks)

    with pytest.raises(PeerError) as refused:
        decode_packet(encode_packet(NewListPacket(NewListKind.INFORMS, A, A, one, SyncPoint(1))))
    assert refused.value.reason is Drop.INCONSISTENT


def test_a_claim_of_nobody_in_the_list_is_refused() -> None:
    one = claim(ring(A, B), B, "row", 1)
    raw = bytearray(encode_packet(NewListPacket(NewListKind.INFORMS, A, A, one, SyncPoint(1))))
    at = raw.index(b"row") + 3 + 8 + 2
    assert raw[at : at + 2] == b"\1\0"
    raw[at] = 2

    with pytest.raises(PeerError, match="member 2 of 2"):
        decode_packet(bytes(raw))


# Random histories. A wrong variant of one step has to be found by the same checks.

Change = Callable[[PeerList, ListChangeRequest, PeerProcess, int], PeerList]


def right(members: PeerList, request: ListChangeRequest, site: PeerProcess, timestamp: int) -> PeerList:
    return changed(members, request, site, timestamp, {})


def keeps_locks_of_the_gone(
    members: PeerList, request: ListChangeRequest, site: PeerProcess, timestamp: int
) -> PeerList:
    after = right(members, request, site, timestamp)
    return replace(after, locks=members.locks) if request.change is ListChange.LEAVE else after


def forgets_to_raise(
    members: PeerList, request: ListChangeRequest, site: PeerProcess, timestamp: int
) -> PeerList:
    after = right(members, request, site, timestamp)
    return replace(after, locks=replace(after.locks, fence=members.locks.fence))


def grants_to_the_latest(
    members: PeerList, request: ListChangeRequest, site: PeerProcess, timestamp: int
) -> PeerList:
    after = right(members, request, site, timestamp)
    locks = tuple(replace(one, claims=one.claims[::-1]) for one in after.locks.locks)
    return replace(after, locks=replace(after.locks, locks=locks))


def grants_without_a_primary(
    members: PeerList, request: ListChangeRequest, site: PeerProcess, timestamp: int
) -> PeerList:
    after = right(members, request, site, timestamp)
    locks = tuple(replace(one, fence=one.fence and fence_number(one.fence)) for one in after.locks.locks)
    return replace(after, locks=replace(after.locks, locks=locks))


def broken(before: PeerList, after: PeerList) -> str:
    """What is wrong with a list behind another one, or nothing."""
    previous = {one.name: one for one in before.locks.locks}
    new = [
        one.fence
        for one in after.locks.locks
        if one.fence and held(before).get(one.name, (0, 0))[1] != one.fence
    ]
    if any(fence_number(one) <= before.locks.fence for one in new) or len(set(new)) != len(new):
        return "a fence that is not above all before"
    if any(fence_number(one) > after.locks.fence for one in new):
        return "the list does not know its own fence"
    for lock in after.locks.locks:
        if any(one.member not in after.memberships for one in lock.claims):
            return "a claim of somebody who is no member"
        was = previous.get(lock.name)
        kept = [] if was is None else [one for one in was.claims if one in lock.claims]
        if list(lock.claims[: len(kept)]) != kept:
            return "the order of the claims has changed"
        if lock.fence and is_quorate(after) != (lock.fence > 0):
            return "a grant of the wrong kind"
        if not lock.fence:
            return "a lock that nobody holds, and somebody claims"
    return ""


def history(seed: int, change: Change) -> str:
    """The first mistake in a random history."""
    dice = Random(seed)
    one = ring(A, B)
    if dice.random() < 0.5:
        one = ring(A, B, minimum=2)
    numbers = dict.fromkeys((A, B, C, D), 1)
    for timestamp in range(10, 70):
        source = dice.choice((A, B, C, D))
        numbers[source] += 1
        kind = dice.choice(
            [ListChange.LOCK] * 5 + [ListChange.RELEASE] * 3 + [ListChange.JOIN, ListChange.LEAVE]
        )
        if kind is ListChange.LEAVE and len(one) == 1:
            continue
        request = ListChangeRequest(
            source,
            kind,
            numbers[source],
            "red",
            dice.choice((1, 2, MINIMUM_MAJORITY)),
            lock=dice.choice(("1", "x", "y")) if kind is ListChange.LOCK else "",
            serial=numbers[source] if kind is ListChange.LOCK else dice.randrange(numbers[source]),
            partial=dice.random() < 0.5,
        )
        after = change(one, request, dice.choice(one.processes), timestamp)
        wrong = broken(one, after)
        if wrong:
            return wrong
        one = after
    return ""


def test_random_histories_have_one_holder_and_rising_fences() -> None:
    assert [history(seed, right) for seed in range(60)] == [""] * 60


@pytest.mark.parametrize(
    ("wrong", "found"),
    [
        (keeps_locks_of_the_gone, "no member"),
        (forgets_to_raise, "fence"),
        (grants_to_the_latest, "order"),
        (grants_without_a_primary, "wrong kind"),
    ],
)
def test_the_same_checks_find_wrong_variants(wrong: Change, found: str) -> None:
    mistakes = [history(seed, wrong) for seed in range(60)]

    assert any(found in one for one in mistakes)
    assert sum(bool(one) for one in mistakes) >= 20


def test_all_members_are_told_of_each_grant_once_and_of_each_end() -> None:
    """What members are told adds up to what the lists say."""
    for seed in range(20):
        dice, one, told = Random(seed), ring(A, B, C), dict[tuple[PeerProcess, int], int]()
        for number in range(2, 60):
            source = dice.choice((A, B, C))
            change = dice.choice((ListChange.LOCK, ListChange.RELEASE))
            lock = dice.choice("xy") if change is ListChange.LOCK else ""
            serial = number if lock else dice.randrange(number)
            after = step(one, source, change, lock=lock, serial=serial)
            for member in one.members:
                for news in lock_news(one, after, member.membership):
                    key = member.process, news.serial
                    if isinstance(news, RingLockGranted):
                        assert key not in told
                        told[key] = news.fence
                    else:
                        told.pop(key, None)
            one = after
            assert sorted(told.values()) == sorted(fence for _, fence in held(one).values())
            assert settled_locks(one) == one
