"""The lock of a handler: claimed again and again, and held from the place of its grant on."""

from hopring.blocks.handler_lock import RETRY_US, HandlerLock
from hopring.client.locks.claims import ClaimedLock
from hopring.groups.names import Fence
from hopring.ids import NEVER, DaemonId, GroupName, Incarnation, Place, ViewId

GROUP = GroupName("quotes?handler1")
VIEW = ViewId(3, DaemonId(1), Incarnation(9))


class CoreWithLocks:
    """What a handler's lock asks of the core of a session."""

    def __init__(self) -> None:
        self.groups: set[str] = {GROUP}
        self.open = True
        self.claims: list[ClaimedLock] = []
        self.unlocked: list[ClaimedLock] = []

    def may_ask(self) -> bool:
        return self.open

    def lock(self, claim: ClaimedLock) -> None:
        claim.serial = len(self.claims) + 1
        self.claims.append(claim)

    def unlock(self, claim: ClaimedLock) -> None:
        self.unlocked.append(claim)


def made() -> tuple[CoreWithLocks, HandlerLock]:
    core = CoreWithLocks()
    return core, HandlerLock(core, GROUP, 1)


def granted(claim: ClaimedLock, lts: int) -> None:
    claim.fence, claim.place = Fence(7, 1), Place(VIEW, lts, 0)


def test_it_holds_for_requests_behind_its_grant_only() -> None:
    core, lock = made()
    lock.advance(0)
    assert [(one.group, one.lock) for one in core.claims] == [(GROUP, "1")]
    assert lock.fence_at(Place(VIEW, 9, 0)) is None

    granted(core.claims[0], 5)

    assert lock.fence_at(Place(VIEW, 4, 0)) is None
    assert lock.fence_at(Place(VIEW, 6, 0)) == Fence(7, 1).number
    assert lock.wake_at_us == NEVER


def test_a_lost_lock_does_not_hold_and_is_claimed_again_after_a_while() -> None:
    core, lock = made()
    lock.advance(0)
    granted(core.claims[0], 5)

    core.claims[0].end("not primary")
    assert lock.fence_at(Place(VIEW, 6, 0)) is None
    lock.advance(10)
    lock.advance(RETRY_US + 9)
    assert len(core.claims) == 1
    assert lock.wake_at_us == RETRY_US + 10

    lock.advance(RETRY_US + 10)
    assert len(core.claims) == 2


def test_a_claim_that_went_with_its_connection_is_made_again() -> None:
    core, lock = made()
    lock.advance(0)
    core.claims[0].serial = 0  # As the end of a connection leaves it.

    lock.advance(1)
    lock.advance(RETRY_US + 1)

    assert len(core.claims) == 2


def test_it_is_claimed_by_members_only_and_given_up_at_the_end() -> None:
    core, lock = made()
    core.groups.clear()
    lock.advance(0)
    assert core.claims == []

    core.groups.add(GROUP)
    lock.joined()
    lock.advance(1)
    lock.release()
    assert core.unlocked == core.claims
    lock.advance(10**12)
    assert len(core.claims) == 1
