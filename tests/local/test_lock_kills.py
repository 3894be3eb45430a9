"""SIGKILL for a lock's holder and for its daemon: fences rise, and never do two have the lock."""

from collections.abc import Iterator

import pytest

from hopring import sync
from hopring.bench.blocks.locks import SITES, Killed, LockKills, Takeover

pytestmark = pytest.mark.slow

LEASE_MS = 2_000.0


@pytest.fixture
def kills() -> Iterator[LockKills]:
    with sync.local_cluster(SITES, trace=False) as cluster:
        claims = LockKills(cluster)
        try:
            yield claims
        finally:
            claims.close()


def judge(found: list[Takeover]) -> None:
    fences = [one.fence for one in found]
    assert fences == sorted(set(fences))
    assert all(one.apart_ms > 0 for one in found)
    # Without its daemon, the lease of a holder has to run out, whether it has learned of its loss or not.
    assert all(one.took_ms > LEASE_MS / 2 for one in found if one.killed is Killed.DAEMON)


def test_the_next_one_has_the_lock_after_each_kill_of_its_holder_or_daemon(kills: LockKills) -> None:
    judge([kills.kill(killed) for killed in (Killed.HOLDER, Killed.HOLDER, Killed.DAEMON, Killed.HOLDER)])


@pytest.mark.long
def test_two_hundred_kills(kills: LockKills) -> None:
    judge([kills.kill(Killed.DAEMON if at % 4 == 3 else Killed.HOLDER) for at in range(200)])
