"""Clusters of real daemons: split, merged, crashed, restarted, and ended with the process that started them."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.support.free_ports import free_base_port
from tests.support.waiting import until

from hopring import ClusterError, Message, NotSettled, View, local_cluster, sync
from hopring.check.judge import first_broken
from hopring.local.ports import all_free
from hopring.spool.reading import bounds

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SECONDS_MAX = 60.0


def runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


def wait_until_gone(pids: list[int]) -> None:
    until(lambda: not any(map(runs, pids)), lambda: f"{[pid for pid in pids if runs(pid)]} still run")


async def view_of(group: object, size: int) -> View:
    async for event in group:  # type: ignore[attr-defined]
        if isinstance(event, View) and len(event.members) == size:
            return event
    raise AssertionError("the group was left")


async def split_and_merge(directory: Path) -> list[int]:
    async with (
        asyncio.timeout(4 * SECONDS_MAX),
        local_cluster({"eu": 2, "us": 1}, {("eu", "us"): "20ms"}, directory=directory) as cluster,
    ):
        pids = [cluster.pid(name) for name in cluster.daemons]
        async with cluster.connect("eu1", name="a") as one, cluster.connect("us1", name="b") as other:
            here, there = await one.join("trades"), await other.join("trades")
            await view_of(here, 2)
            await cluster.partition({"eu"}, {"us"})
            await cluster.settled()
            assert sorted(map(sorted, cluster.components)) == [["eu1", "eu2"], ["us1"]]
            assert [one.name for one in (await view_of(here, 1)).members] == ["a"]
            await here.multicast(b"only here")
            await cluster.heal()
            await cluster.settled()
            await view_of(here, 2)
            await here.multicast(b"everywhere")
            seen = []
            async for event in there:
                if isinstance(event, Message):
                    seen.append(event.data)
                    break
            assert seen == [b"everywhere"]
        await cluster.crash("eu2")
        await cluster.settled()
        assert cluster.living == ["eu1", "us1"]
        assert (await cluster.status("us1"))["members"] == ["eu1", "us1"]
        await cluster.restart("eu2")
        await cluster.settled()
        pids.append(cluster.pid("eu2"))
        assert (await cluster.status("eu2"))["shapes"]["us1"]["delay_us"] == 20_000
        assert first_broken(cluster.traces(), quiet_end=False) is None
    return pids


def test_a_cluster_splits_merges_loses_a_daemon_and_gets_it_back(tmp_path: Path) -> None:
    pids = asyncio.run(split_and_merge(tmp_path))

    assert not any(runs(pid) for pid in pids)
    assert {"hop.toml", "eu1.log", "eu1.jsonl", "us1.jsonl"} <= {file.name for file in tmp_path.iterdir()}


def test_links_are_delayed_and_cut_over_tcp_too() -> None:
    with sync.local_cluster({"eu": 1, "us": 1}, protocol="tcp") as cluster:
        cluster.shape(("eu", "us"), "150ms")
        with cluster.connect("eu1") as here, cluster.connect("us1") as there:
            there.join("g")
            assert isinstance(there.receive(timeout_seconds=SECONDS_MAX), View)
            start = time.monotonic()
            here.multicast("g", b"far")
            while not isinstance(there.receive(timeout_seconds=SECONDS_MAX), Message):
                pass
            assert time.monotonic() - start >= 0.15
        cluster.partition("eu", "us")
        cluster.settled()
        assert cluster.status("eu1")["members"] == ["eu1"]
        cluster.heal()
        cluster.settled()
        directory = cluster.directory
    assert not directory.exists()


def test_a_view_that_does_not_come_is_an_error_with_the_views_that_were_seen() -> None:
    with sync.local_cluster({"eu": 2}, trace=False) as cluster:
        cluster.partition("eu1")
        with pytest.raises(NotSettled, match="eu1: eu1 eu2"):
            cluster.settled(timeout_seconds=0.0)
        with pytest.raises(ValueError, match="trace=True"):
            cluster.traces()
        with pytest.raises(ValueError, match="there is no daemon eu3"):
            cluster.crash("eu3")
        cluster.stop("eu2")
        with pytest.raises(ValueError, match="eu2 does not run"):
            cluster.status("eu2")


def test_a_daemon_that_cannot_start_is_named_with_the_end_of_its_log() -> None:
    port = free_base_port(1)
    with (
        socket.create_server(("127.0.0.1", port)),
        pytest.raises(ClusterError, match=rf"daemon eu1 ended with exit code 1.*(?s:.)*TCP port {port}"),
        sync.local_cluster({"eu": 2}, client_port=port),
    ):
        pass


SCRIPT = """
import signal
from hopring import sync
with sync.local_cluster({"eu": 2, "us": 1}) as cluster:
    print(*[cluster.pid(name) for name in cluster.daemons], flush=True)
    signal.pause()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_daemons_end_with_the_process_that_started_them_however_it_ends(number: signal.Signals) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", SCRIPT],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=ROOT,
    )
    assert parent.stdout is not None
    pids = [int(word) for word in parent.stdout.readline().split()]
    assert len(pids) == 3
    parent.send_signal(number)
    parent.wait(SECONDS_MAX)
    wait_until_gone(pids)
    parent.stdout.close()


def test_ports_that_are_taken_are_not_free() -> None:
    port = free_base_port(2)
    with socket.create_server(("127.0.0.1", port + 1)):
        assert not all_free([port, port + 1])


def test_the_first_daemon_of_each_site_spools_and_a_join_begins_in_the_past(tmp_path: Path) -> None:
    with (
        sync.local_cluster({"eu": 2, "us": 1}, trace=False, spool="trades", directory=tmp_path) as cluster,
        cluster.connect("eu2") as session,
    ):
        until(lambda: [one.daemon for one in session.members("trades").members] == ["eu1", "us1"])
        session.multicast_wait("trades", b"one")
        with session.join("trades", since=0, timeout_seconds=SECONDS_MAX) as group:
            assert next(one.data for one in group if isinstance(one, Message)) == b"one"
        roots = [cluster.spool_directory(name) for name in ("eu1", "us1")]
        with pytest.raises(ValueError, match="eu2 writes no spools"):
            cluster.spool_directory("eu2")
        assert all(cluster.status(name)["spooler"]["starts"] == 1 for name in ("eu1", "us1"))
        assert cluster.status("eu2")["spooler"] is None
    assert all(bounds(root / "trades").end >= 2 for root in roots)
