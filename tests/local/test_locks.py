"""Locks of real daemons: a split, the end of a holder and of its daemon, and fences over a restart of all."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.support.waiting import until

from hopring import BlockingLocking, LockLost, LockNotHeld, LockTimedOut, NotPrimary, sync

pytestmark = pytest.mark.slow

SECONDS_MAX = 60.0
LEASE_SECONDS = 2.0

HOLDER = """
import sys, time
from hopring import sync
with sync.connect(sys.argv[1]) as session:
    with session.join("rows").lock("row") as fence:
        print(fence, flush=True)
        while True:
            session.poll()
            time.sleep(0.05)
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[sync.Cluster]:
    with sync.local_cluster({"eu": 3, "us": 2}, trace=False) as cluster:
        cluster.settled()
        yield cluster


def wait_until_lost(locking: BlockingLocking) -> None:
    until(lambda: not locking.held, seconds=SECONDS_MAX)


def test_at_a_split_the_majority_gets_the_lock_after_the_lease_and_with_a_higher_fence(
    cluster: sync.Cluster,
) -> None:
    # A machine that is too busy to renew a lease for two seconds takes it from its holder, but not each time.
    assert any(majority_gets_the_lock_and_keeps_it(cluster) for _ in range(5))


def majority_gets_the_lock_and_keeps_it(cluster: sync.Cluster) -> bool:
    """A split, and its end; whether the holder in the majority had the lock after it."""
    cluster.settled()
    with cluster.connect("eu1") as here, cluster.connect("us1") as there:
        rows, parted = here.join("rows"), there.join("rows")
        held = parted.lock("row", timeout_seconds=SECONDS_MAX)
        free = parted.lock("other", timeout_seconds=SECONDS_MAX)
        old = held.acquire()
        free.acquire()
        cluster.partition("eu", "us")
        began = time.monotonic()
        wait_until_lost(held)
        lost_after = time.monotonic() - began
        with pytest.raises(NotPrimary):
            parted.lock("row").acquire()
        holding = rows.lock("row", timeout_seconds=SECONDS_MAX)
        fence = holding.acquire()
        assert time.monotonic() - began > lost_after, "the holder knew before the next one had it"
        assert fence > old
        cluster.heal()
        # A session that makes no calls loses its lease.
        until(lambda: all(len(one.view().members) == 5 for one in (here, there)), seconds=SECONDS_MAX)
        kept, last = True, parted.lock("row", timeout_seconds=0.5)
        with suppress(LockTimedOut):
            kept = last.acquire() < fence
            assert not kept
            assert not holding.held
        with suppress(LockLost):
            holding.__exit__(None, None, None)
        if kept:
            last = parted.lock("row", timeout_seconds=SECONDS_MAX)
            assert last.acquire() > fence
        with suppress(LockLost):
            last.__exit__(None, None, None)
        return kept


def test_a_side_without_a_primary_grants_partial_locks_with_negative_fences(cluster: sync.Cluster) -> None:
    with cluster.connect("us2") as there:
        group = there.join("rows")
        cluster.partition("eu", "us")
        cluster.settled()
        part = group.lock("part", partial=True, timeout_seconds=SECONDS_MAX)
        assert part.acquire() < 0
        cluster.heal()
        wait_until_lost(part)
        with pytest.raises(LockLost):
            part.__exit__(None, None, None)
        cluster.settled()
        with group.lock("part", timeout_seconds=SECONDS_MAX) as fence:
            assert fence > 0


def test_the_next_session_has_the_lock_at_once_when_the_holder_is_killed(cluster: sync.Cluster) -> None:
    # A busy machine may be slow once; a lease that is awaited is awaited each time.
    assert any(seconds_until_the_next(cluster) < LEASE_SECONDS for _ in range(5))


def seconds_until_the_next(cluster: sync.Cluster) -> float:
    """Kills a process that has a lock, and returns when the next one had it."""
    words = [sys.executable, "-c", HOLDER, cluster.url("eu2")]
    with cluster.connect("eu1") as here, subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        old = int(holder.stdout.readline())
        rows = here.join("rows")
        with pytest.raises(LockTimedOut):
            rows.lock("row", timeout_seconds=0.2).acquire()
        os.kill(holder.pid, signal.SIGKILL)
        began = time.monotonic()
        fence = rows.lock("row", timeout_seconds=SECONDS_MAX).acquire()
        took = time.monotonic() - began
        assert fence > old
        with pytest.raises(LockNotHeld, match="another grant"):
            rows.unlock("row", old)
        with pytest.raises(LockNotHeld, match="does not hold it"):
            rows.unlock("unknown", 5)
        with pytest.raises(LockNotHeld, match=r"that of 'row' of group 'rows'"):
            rows.unlock("unknown", fence)
        rows.unlock("row", fence)
    return took


def test_the_daemon_of_a_holder_dies_and_all_restart_and_fences_still_rise(tmp_path: Path) -> None:
    with sync.local_cluster({"eu": 3}, directory=tmp_path / "cluster", trace=False) as cluster:
        cluster.settled()
        with cluster.connect("eu3", reconnect=False) as there, cluster.connect("eu1") as here:
            old = there.join("rows").lock("row", timeout_seconds=SECONDS_MAX).acquire()
            cluster.crash("eu3")
            began = time.monotonic()
            fence = here.join("rows").lock("row", timeout_seconds=SECONDS_MAX).acquire()
            assert fence > old
            assert time.monotonic() - began > LEASE_SECONDS / 2, "the lease of the lost holder is awaited"
            there.abort()
        cluster.restart("eu3")
        cluster.settled()
        for name in ("eu1", "eu2", "eu3"):
            cluster.crash(name)
        (mark,) = cluster._core._run.glob("*eu2.primary")
        mark.write_bytes(b"spoiled")
        for name in ("eu1", "eu2", "eu3"):
            cluster.restart(name)
        cluster.settled()
        with cluster.connect("eu2") as back:
            after = back.join("rows").lock("row", timeout_seconds=SECONDS_MAX).acquire()
        assert after > fence


def test_queries_tell_who_holds_which_lock(cluster: sync.Cluster) -> None:
    daemons = cluster.daemons
    with (
        cluster.connect(daemons[0], name="holder") as holder,
        cluster.connect(daemons[-1], name="waiting") as waiting,
        cluster.connect(daemons[-1], name="asks") as asks,
    ):
        groups = [one.join("asked-about") for one in (holder, waiting)]
        fence = groups[0].lock("row").acquire()
        with pytest.raises(LockTimedOut):
            groups[1].lock("row", timeout_seconds=0.0).acquire()
        groups[0].lock("another").acquire()
        until(lambda: len(asks.locks("asked-about")) == 2, lambda: "the locks are not there")
        another, row = asks.locks("asked-about")
        assert (another.name, row.name, row.fence, row.waiting) == ("another", "row", fence, 0)
        assert row.holder is not None
        assert row.holder.private_group == holder.private_group
        assert asks.locks("nobody locks here") == groups[0].locks()[2:] == ()
        words = [
            sys.executable,
            "-m",
            "hopring.cli.main",
            "locks",
            "asked-about",
            "--at",
            cluster.url(daemons[0]),
        ]
        shown = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS_MAX, check=True)
        assert shown.stdout.splitlines()[2].split() == ["row", holder.private_group, str(fence), "0"]


def test_a_command_runs_with_its_fence_and_ends_when_the_lock_is_lost(cluster: sync.Cluster) -> None:
    hop = [sys.executable, "-m", "hopring.cli.main", "lock", "rows", "cron"]
    done = subprocess.run(
        [*hop, "--at", cluster.url("us1"), "--", "sh", "-c", "echo $HOP_FENCE; exit 3"],
        capture_output=True,
        check=False,
        text=True,
        timeout=SECONDS_MAX,
    )
    assert done.returncode == 3, done.stderr
    assert int(done.stdout) > 0
    words = [*hop, "--at", cluster.url("us1"), "--", "sh", "-c", "echo begun; exec sleep 1000"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "begun\n"
        cluster.partition("eu", "us")
        _, told = running.communicate(timeout=SECONDS_MAX)
        assert running.returncode == 1
        assert "the command was ended" in told
        words = [*hop, "--at", cluster.url("us1"), "--", "true"]
        late = subprocess.run(words, capture_output=True, check=False, text=True)
        assert late.returncode == 5, late.stderr
        cluster.heal()
        cluster.settled()
