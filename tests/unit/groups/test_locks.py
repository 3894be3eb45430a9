"""Locks at one daemon: the queue in the agreed order, fences, leases, and what becomes of holders that part."""

import pytest
from tests.unit.groups.one_daemon import ALL, FAR, ME, NEAR, OPTIONS, RED, FedGroups, member, view_id

from hopring.engine import Installed, PrimaryBasis
from hopring.errors import Drop, PeerError
from hopring.groups.events import (
    ClaimLock,
    Disconnect,
    LeaseRenewed,
    LockEnded,
    LockGranted,
    Output,
    ReleaseLock,
)
from hopring.groups.locks import (
    PARTIAL_STEPS_MAX,
    SIDE_MAX,
    LockClaim,
    LockClosed,
    LockEnd,
    LockGrant,
    LockReport,
    LockTable,
    ReportedLock,
)
from hopring.groups.messages import (
    GroupJoin,
    GroupLock,
    GroupsPart,
    GroupUnlock,
    LeaseRenew,
    LeasesLapsed,
    LocalClaim,
    LocalGroup,
    LocalLock,
)
from hopring.groups.names import Fence
from hopring.ids import NUMBER_MAX, GroupName, Place, Process
from hopring.links.events import Tick
from hopring.ordering.entry import DAEMON_SESSION

LEASE_US = OPTIONS.lease_us
HELD_US = LEASE_US - LEASE_US // 4


def primary(
    fed: FedGroups, together: tuple[Process, ...], counter: int, epoch: int, now_us: int = 0
) -> list[Output]:
    """Moves to a view of the same daemons, or fewer, that is primary if it has an epoch."""
    basis = PrimaryBasis.MAJORITY if epoch else PrimaryBasis.NONE
    out = fed.signal(together, counter)
    fed.view = view_id(counter)
    out += fed.step(Installed(fed.view, together, together, "test", False, basis, epoch), now_us)
    return out + fed.exchange(*together)


def three_daemons(epoch: int = 7) -> FedGroups:
    """Three daemons in a primary view; session 1 here and session 5 at each of the others are in group red."""
    fed = FedGroups(*ALL)
    fed.join(1, "anna", RED)
    for other in (NEAR, FAR):
        fed.deliver(other, 5, GroupJoin(f"at{other.daemon}", "red"))
    primary(fed, ALL, 5, epoch)
    return fed


def locks(outputs: list[Output]) -> list[LockGranted | LockEnded | LeaseRenewed]:
    return [one for one in outputs if isinstance(one, LockGranted | LockEnded | LeaseRenewed)]


def claim_here(fed: FedGroups, serial: int = 1, lock: str = "row", partial: bool = False) -> list[Output]:
    """Session 1 claims a lock; its LOCK, and a RENEW if there is one, are delivered."""
    out = fed.step(ClaimLock(1, RED, lock, serial, partial))
    while submits := fed.taken():
        out += fed.delivered(ME, submits)
    return out


def holder(fed: FedGroups, lock: str = "row") -> str | None:
    entry = fed.groups.locks.locks.get((RED, lock))
    return None if entry is None or entry.holder is None else entry.holder.member.name


def test_a_lock_goes_to_its_claims_in_the_agreed_order() -> None:
    fed = three_daemons()
    fed.deliver(FAR, 5, GroupLock("red", "row", 1))
    assert holder(fed) == "at2"

    assert locks(claim_here(fed)) == []
    (granted,) = locks([*fed.deliver(FAR, 5, GroupUnlock(1)), *fed.delivered(ME, fed.taken())])

    assert isinstance(granted, LockGranted)
    assert (granted.session, granted.serial, granted.lock) == (1, 1, "row")
    assert granted.fence == Fence(7, 2)
    assert granted.lease_us == HELD_US
    assert granted.place.view == view_id(5)


def test_a_session_is_told_when_all_daemons_have_what_gave_it_the_lock() -> None:
    fed = three_daemons()
    fed.step(ClaimLock(1, RED, "row", 1))

    assert locks(fed.delivered(ME, fed.taken())) == [], "the order gives it, but others may not have that yet"
    renew = fed.taken()
    assert len(renew) == 1
    fed.signal((ME, NEAR), 6)
    assert locks(fed.delivered(ME, renew)) == [], "after the signal a RENEW proves nothing"


def test_a_holder_that_leaves_or_ends_is_followed_by_the_next() -> None:
    fed = three_daemons()
    claim_here(fed)
    fed.deliver(NEAR, 5, GroupLock("red", "row", 3))
    fed.step(Disconnect(1))
    fed.delivered(ME, fed.taken())
    assert holder(fed) == "at1"


def test_a_claim_that_is_released_before_its_grant_leaves_the_queue() -> None:
    fed = three_daemons()
    fed.deliver(FAR, 5, GroupLock("red", "row", 1))
    claim_here(fed)
    fed.step(ReleaseLock(1, 1))
    assert locks(fed.delivered(ME, fed.taken())) == [LockEnded(1, 1, RED, "row", LockEnd.RELEASED)]
    fed.deliver(FAR, 5, GroupUnlock(1))
    assert (RED, "row") not in fed.groups.locks.locks


def test_only_members_claim() -> None:
    fed = three_daemons()
    (ended,) = locks(fed.step(ClaimLock(1, GroupName("blue"), "row", 1)))
    assert isinstance(ended, LockEnded)
    assert ended.end is LockEnd.NOT_A_MEMBER
    fed.deliver(FAR, 6, GroupLock("red", "row", 1))
    assert holder(fed) is None


def test_without_a_primary_view_only_partial_claims_are_granted_and_their_fences_are_negative() -> None:
    fed = three_daemons(epoch=0)
    (ended,) = locks(claim_here(fed))
    assert isinstance(ended, LockEnded)
    assert ended.end is LockEnd.NOT_PRIMARY

    (granted,) = locks(claim_here(fed, 2, partial=True))
    assert isinstance(granted, LockGranted)
    assert granted.fence == Fence(5, 1, partial=True)
    assert -(2**63) <= granted.fence.number < 0 < Fence(1, 1).number


def test_partial_fences_rise_with_views_and_grants_within_64_bits() -> None:
    highest = Fence(SIDE_MAX, PARTIAL_STEPS_MAX, partial=True)
    rising = [Fence(1, 1, True), Fence(1, 2, True), Fence(2, 1, True), highest]

    numbers = [one.number for one in rising]

    assert numbers == sorted(set(numbers))
    assert numbers[0] >= -(2**63)
    assert numbers[-1] == -1


def test_a_primary_view_of_unknown_place_in_the_chain_grants_nothing_and_keeps_claims() -> None:
    fed = three_daemons()
    fed.signal(ALL, 6)
    fed.view = view_id(6)
    fed.step(Installed(fed.view, ALL, ALL, "test", False, PrimaryBasis.ALL, 0))
    fed.exchange(*ALL)
    assert locks(claim_here(fed)) == []
    assert locks(primary(fed, ALL, 7, 9) + fed.delivered(ME, fed.taken())) != []
    assert fed.groups.locks.locks[RED, "row"].fence == Fence(9, 1)


def test_a_holder_keeps_its_lock_and_fence_from_one_primary_view_to_the_next() -> None:
    fed = three_daemons()
    claim_here(fed)
    primary(fed, (ME, NEAR), 6, 8)
    assert fed.groups.locks.locks[RED, "row"].fence == Fence(7, 1)
    claim_here(fed, 2, "other")
    assert fed.groups.locks.locks[RED, "other"].fence == Fence(8, 1)


def test_the_end_of_the_primary_takes_all_locks_and_tells_their_holders() -> None:
    fed = three_daemons()
    claim_here(fed)
    out = locks(primary(fed, (ME, NEAR), 6, 0))
    assert out == [LockEnded(1, 1, RED, "row", LockEnd.NOT_PRIMARY)]


def test_between_signal_and_view_nothing_is_granted() -> None:
    fed = three_daemons()
    fed.signal(ALL, 6)
    fed.deliver(NEAR, 5, GroupLock("red", "row", 1))
    assert holder(fed) is None


def test_a_lock_of_a_parted_holder_waits_until_its_lease_has_run_out() -> None:
    fed = three_daemons()
    fed.deliver(FAR, 5, GroupLock("red", "row", 1))
    claim_here(fed)
    out = primary(fed, (ME, NEAR), 6, 8, now_us=1_000)
    assert locks(out + fed.delivered(ME, fed.taken())) == []
    assert fed.groups.wake_at_us == 1_000 + LEASE_US

    fed.step(Tick(), 999 + LEASE_US)
    assert fed.taken() == []
    fed.step(Tick(), 1_000 + LEASE_US)
    lapsed = fed.taken()
    assert len(lapsed) == 1
    fed.delivered(ME, lapsed)
    assert fed.groups.locks.locks[RED, "row"].fence == Fence(8, 1)
    assert holder(fed) == "anna"


def test_a_lock_that_a_parted_daemon_may_have_granted_to_a_waiter_waits_too() -> None:
    fed = three_daemons()
    claim_here(fed)
    fed.deliver(FAR, 5, GroupLock("red", "row", 1))
    fed.deliver(NEAR, 5, GroupLock("red", "row", 1))
    fed.step(ReleaseLock(1, 1))
    primary(fed, (ME, NEAR), 6, 8)
    fed.delivered(ME, fed.taken())
    assert holder(fed) is None


def test_lapsed_is_believed_of_the_lowest_daemon_in_its_view_only() -> None:
    fed = three_daemons()
    fed.deliver(FAR, 5, GroupLock("red", "row", 1))
    fed.deliver(NEAR, 5, GroupLock("red", "row", 2))
    primary(fed, (ME, NEAR), 6, 8)
    fed.deliver(NEAR, DAEMON_SESSION, LeasesLapsed(fed.view))
    assert fed.groups.drops[Drop.FOREIGN_SENDER] == 1
    fed.deliver(ME, DAEMON_SESSION, LeasesLapsed(view_id(5)))
    assert holder(fed) is None
    fed.deliver(ME, DAEMON_SESSION, LeasesLapsed(fed.view))
    assert holder(fed) == "at1"


def test_a_lease_that_is_not_renewed_ends_and_the_lock_is_released_in_the_order() -> None:
    fed = three_daemons()
    claim_here(fed)
    fed.step(Tick(), LEASE_US // 4)
    assert len(fed.taken()) == 1, "a RENEW, which is not delivered"

    assert locks(fed.step(Tick(), HELD_US - 1)) == []
    assert locks(fed.step(Tick(), HELD_US)) == [LockEnded(1, 1, RED, "row", LockEnd.LEASE)]
    (unlock,) = fed.taken()
    assert locks(fed.delivered(ME, [unlock])) == [], "it was told already"
    assert holder(fed) is None


def test_a_renewed_lease_counts_from_the_time_when_renew_was_sent() -> None:
    fed = three_daemons()
    claim_here(fed)
    fed.step(Tick(), 600_000)
    (renew,) = fed.taken()
    fed.at += 1
    out = fed.deliver(ME, DAEMON_SESSION, LeaseRenew(fed.view, 2), now_us=700_000)
    assert renew.session == DAEMON_SESSION
    assert locks(out) == [LeaseRenewed(1, HELD_US - 100_000)]


KEY = (RED, "row")
PLACE = Place(view_id(5), 3, 0)


def claim_of(process: Process, serial: int = 1, lts: int = 3) -> LockClaim:
    return LockClaim(Place(view_id(5), lts, 0), member(process, f"at{process.daemon}", 5), serial)


def merged(*reports: LockReport, is_primary: bool = True) -> LockTable:
    table = LockTable()
    table.merge(reports, is_primary)
    table.begin(is_primary, 9 if is_primary else 0, 6)
    return table


def test_after_a_merge_the_holder_of_the_latest_primary_keeps_its_lock_and_an_old_holder_is_told() -> None:
    old = ReportedLock(KEY, (claim_of(FAR),), Fence(7, 5), free=False)
    new = ReportedLock(KEY, (claim_of(NEAR),), Fence(8, 1), free=False)
    table = merged(LockReport(7, (old,)), LockReport(8, (new,)))
    assert table.locks[KEY].fence == Fence(8, 1)
    assert [type(one) for one in table.out] == [LockClosed]
    assert table.out[0].claim.member.process == FAR


def test_an_old_holder_loses_its_lock_also_if_the_latest_primary_does_not_know_that_lock() -> None:
    old = ReportedLock(KEY, (claim_of(FAR),), Fence(7, 5), free=False)
    table = merged(LockReport(7, (old,)), LockReport(8))
    assert [one.end for one in table.out if isinstance(one, LockClosed)] == [LockEnd.VIEW]
    assert KEY not in table.locks


def test_a_holder_whose_daemon_was_parted_loses_its_lock_to_nobody_until_leases_have_run_out() -> None:
    holds = ReportedLock(KEY, (claim_of(FAR),), Fence(8, 1), free=False)
    saw_it_part = ReportedLock(KEY, (claim_of(NEAR, lts=4),), None, lapsing=True)
    table = merged(LockReport(8, (holds,)), LockReport(8, (saw_it_part,)))
    assert table.locks[KEY].fence is None
    assert table.lapsing
    table.lapse()
    assert table.locks[KEY].fence == Fence(9, 1)


def test_a_holder_stays_though_a_daemon_of_a_waiter_has_parted() -> None:
    holds = ReportedLock(KEY, (claim_of(FAR),), Fence(8, 1), lapsing=True, free=False)
    sees_it = ReportedLock(KEY, (), None, lapsing=True, free=False)
    table = merged(LockReport(8, (holds,)), LockReport(8, (sees_it,)))
    assert table.locks[KEY].fence == Fence(8, 1)


def test_claims_of_both_sides_wait_in_the_order_of_their_places() -> None:
    table = merged(
        LockReport(8, (ReportedLock(KEY, (claim_of(FAR, lts=9),)),)),
        LockReport(8, (ReportedLock(KEY, (claim_of(NEAR, lts=4),)),)),
    )
    (granted,) = table.out
    assert isinstance(granted, LockGrant)
    assert granted.claim.member.process == NEAR
    assert granted.fence == Fence(9, 1)


def test_partial_holders_lose_their_locks_when_sides_merge() -> None:
    held = ReportedLock(KEY, (claim_of(FAR)._replace(partial=True),), Fence(5, 1, partial=True), free=False)
    for is_primary in (True, False):
        table = merged(LockReport(0, (held,)), LockReport(0), is_primary=is_primary)
        assert [one.end for one in table.out if isinstance(one, LockClosed)] == [LockEnd.VIEW]


def test_locks_travel_in_groups_and_come_out_as_they_went_in() -> None:
    fed = three_daemons()
    claim_here(fed)
    fed.signal((ME,), 6)
    fed.view = view_id(6)
    fed.step(Installed(fed.view, ALL, (ME,), "test", False, PrimaryBasis.MAJORITY, 8))
    (part,) = fed.groups._parts
    assert part.epoch == 7
    (lock,) = part.locks
    assert (lock.lock, lock.held, lock.lapsing, lock.free) == ("row", Fence(7, 1), False, False)
    theirs = LocalLock("red", "row", (LocalClaim(7, 4, False, PLACE),), None, False, False)
    far = GroupsPart(
        fed.view,
        0,
        1,
        0,
        (LocalGroup("red", part.groups[0].id, (), ((7, "far"),)),),
        (),
        False,
        epoch=7,
        locks=(theirs,),
    )
    fed.exchange(*ALL, said={FAR: far, NEAR: GroupsPart(fed.view, 0, 1, 0, epoch=7)})
    assert [one.member.name for one in fed.groups.locks.locks[RED, "row"].claims] == ["anna", "far"]
    assert fed.groups.locks.locks[RED, "row"].fence == Fence(7, 1)


@pytest.mark.parametrize(
    "wrong",
    [
        LocalLock("red", "row", (), Fence(7, 1), False, False),
        LocalLock("red", "row", (LocalClaim(8, 4, False, PLACE),), None, False, False),
        LocalLock("red", "row", (LocalClaim(7, 4, False, PLACE),), Fence(8, 1), False, False),
        LocalLock("red", "row", (LocalClaim(7, 4, False, PLACE),), Fence(7, 0), False, False),
        LocalLock("red", "row", (LocalClaim(7, 4, False, PLACE),) * 2, None, False, False),
        LocalLock(
            "red", "row", (LocalClaim(7, 4, False, Place(view_id(5), NUMBER_MAX + 1, 0)),), None, False, False
        ),
    ],
)
def test_wrong_locks_in_groups_are_refused(wrong: LocalLock) -> None:
    fed = three_daemons()
    fed.move(ALL, ALL, 6)
    fed.signal((ME,), 7)
    fed.installed((ME,), ALL, 7)
    entry = LocalGroup("red", fed.groups.table.groups[RED].id, (), ((7, "far"),))
    part = GroupsPart(fed.view, 0, 1, 0, (entry,), (), False, epoch=7, locks=(wrong,))
    assert fed.groups._exchange is not None
    with pytest.raises(PeerError):
        fed.groups._exchange.add(FAR, part)
