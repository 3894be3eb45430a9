"""Spoolers at real daemons: their records, and the gaps that they record."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.hopd.served_cluster import SECONDS_MAX, ServedCluster
from tests.hopd.spooling_cluster import SpoolingCluster, both_are_in
from tests.support.waiting import until

from hopring import SAFE, Event, Message, View, connect, sync
from hopring.spool.record import RecordedGap, RecordedView, RecordKind, decode_body
from hopring.spool.verify import verify

pytestmark = pytest.mark.slow


def test_two_spoolers_of_one_group_record_the_same_in_the_same_order(
    served: ServedCluster, tmp_path: Path
) -> None:
    with (
        SpoolingCluster(tmp_path / "one", served.url("eu1"), "--group", "trades") as one,
        SpoolingCluster(tmp_path / "two", served.url("us1"), "--group", "tr*") as two,
        sync.connect(served.url("eu1")) as anna,
        sync.connect(served.url("us1")) as bert,
    ):
        until(lambda: both_are_in(anna, "trades", 2) and both_are_in(bert, "trades", 2))
        for number in range(200):
            headers = None if number % 2 else {"key": str(number)}
            sender = anna if number % 3 else bert
            sender.multicast("trades", b"%d" % number, service=SAFE, type=number, headers=headers)
        until(lambda: len(one.messages()) == len(two.messages()) == 200)

        assert one.end(signal.SIGTERM) == 0
        assert two.end(signal.SIGINT) == 0

    first, second = (
        [record for record in spool.records() if record.header.kind is RecordKind.MESSAGE]
        for spool in (one, two)
    )
    assert [(a.data, a.type, a.number) for a in first] == [(b.data, b.type, b.number) for b in second]
    for a, b in zip(first, second, strict=True):
        assert a.header[2:] == b.header[2:], "records differ in sender, groups, service, place or view"
    for spooled in (first, second):
        keys = [(int(one.data), one.headers.get("key")) for one in spooled]
        assert keys == [(number, None if number % 2 else str(number)) for number, _ in keys]
    places = [(record.header.place, record.number) for record in first]
    assert places == sorted(places)
    assert len(set(places)) == 200
    assert verify(tmp_path / "one" / "trades").findings == ()
    views = [decode_body(one.data, RecordedView) for one in one.records() if one.header.kind is RecordKind.VIEW]
    assert len(views[-1].members) == 2


def test_a_restarted_spooler_continues_after_a_record_of_its_absence(
    served: ServedCluster, tmp_path: Path
) -> None:
    with sync.connect(served.url("eu1")) as anna:
        with SpoolingCluster(
            tmp_path / "s", served.url("eu1"), "--group", "trades", "--name", "spooler"
        ) as spool:
            until(lambda: len(spool.records()) > 0)
            anna.multicast("trades", b"before")
            until(lambda: spool.messages() == [b"before"])
            spool.end(signal.SIGKILL)
        anna.multicast("trades", b"unheard")
        until(lambda: not anna.groups())
        with SpoolingCluster(
            tmp_path / "s", served.url("eu1"), "--group", "trades", "--name", "spooler"
        ) as spool:
            until(lambda: both_are_in(anna, "trades", 1))
            anna.multicast("trades", b"after")
            until(lambda: spool.messages() == [b"before", b"after"])

            kinds = [record.header.kind for record in spool.records()]
            assert kinds == [
                RecordKind.VIEW,
                RecordKind.MESSAGE,
                RecordKind.GAP,
                RecordKind.VIEW,
                RecordKind.MESSAGE,
            ]
            gap = decode_body(spool.records()[2].data, RecordedGap)
            assert gap.reason == "the spooler was not running"
            assert gap.last == spool.records()[1].header.place
            assert 0 < gap.from_us < gap.to_us
            assert [record.offset for record in spool.records()] == list(range(5))


def test_a_second_spooler_of_the_same_directory_is_refused(served: ServedCluster, tmp_path: Path) -> None:
    with SpoolingCluster(tmp_path / "s", served.url("eu1"), "--group", "trades") as spool:
        until(lambda: len(spool.records()) > 0)
        with SpoolingCluster(tmp_path / "s", served.url("eu1"), "--group", "trades") as other:
            _, said = other.process.communicate(timeout=SECONDS_MAX)

            assert other.process.returncode == 1
            assert f"another process writes to it (process {spool.process.pid})" in said


def test_replay_follows_new_records(served: ServedCluster, tmp_path: Path) -> None:
    with (
        SpoolingCluster(tmp_path / "s", served.url("eu1"), "--group", "trades") as spool,
        sync.connect(served.url("us1")) as bert,
    ):
        until(lambda: len(spool.records()) > 0)
        bert.multicast("trades", b"one")
        until(lambda: len(spool.messages()) == 1)
        command = [sys.executable, "-m", "hopring.cli.main", "spool", "replay", "trades", "--json", "--follow"]
        with subprocess.Popen(
            [*command, "--spool", str(spool.root)], stdout=subprocess.PIPE, text=True
        ) as replay:
            assert replay.stdout is not None, "stdout is a pipe"
            bert.multicast("trades", b"two")
            seen = [json.loads(replay.stdout.readline()) for _ in range(len(spool.records()))]
            while seen[-1].get("data") != "two":
                seen.append(json.loads(replay.stdout.readline()))
            replay.kill()

        assert [row["data"] for row in seen if row["kind"] == "message"] == ["one", "two"]


@pytest.mark.parametrize("shell", ["asyncio", "blocking"])
def test_a_join_since_an_offset_has_neither_gap_nor_duplicate(
    served: ServedCluster, tmp_path: Path, shell: str
) -> None:
    with (
        SpoolingCluster(tmp_path / "s", served.url("eu1"), "--group", "trades") as spool,
        sync.connect(served.url("us1")) as bert,
    ):
        until(lambda: len(spool.records()) > 0)
        stop = threading.Event()
        sent: list[bytes] = []

        def send() -> None:
            while not stop.is_set():
                sent.append(b"%d" % len(sent))
                if len(sent) % 20:
                    bert.multicast("trades", sent[-1])
                else:  # At most this many messages are in flight.
                    bert.multicast_wait("trades", sent[-1], timeout_seconds=SECONDS_MAX)

        sender = threading.Thread(target=send)
        sender.start()
        try:
            until(lambda: len(spool.messages()) > 100)
            wanted = len(sent) + 300
            if shell == "asyncio":
                seen = asyncio.run(since_aio(served, spool.root, wanted))
            else:
                seen = since_blocking(served, spool.root, wanted)
        finally:
            stop.set()
            sender.join()

    numbers = [int(one.data) for one in seen if isinstance(one, Message)]
    # On a busy machine daemons may lose each other for a while before the spooler has received anything.
    assert numbers == list(range(int(spool.messages()[0]), wanted))
    assert sum(isinstance(one, View) and len(one.members) == 2 for one in seen) == 1, (
        "the first event is not the view of the join"
    )


async def since_aio(served: ServedCluster, root: Path, wanted: int) -> list[Event]:
    seen: list[Event] = []
    async with connect(served.url("us1")) as anna, anna.join("trades", since=0, spool=root) as group:
        async for event in group:
            seen.append(event)
            if isinstance(event, Message) and int(event.data) == wanted - 1:
                break
    return seen


def since_blocking(served: ServedCluster, root: Path, wanted: int) -> list[Event]:
    seen: list[Event] = []
    with sync.connect(served.url("us1")) as anna:
        anna.join("trades", since=0, spool=root)
        while not (seen and isinstance(seen[-1], Message) and int(seen[-1].data) == wanted - 1):
            seen += anna.receive_many(max_messages=1)
    return seen


def test_a_lost_connection_of_the_spooler_is_a_record(served: ServedCluster, tmp_path: Path) -> None:
    with (
        SpoolingCluster(tmp_path / "s", served.url("eu1"), "--group", "trades") as spool,
        sync.connect(served.url("us1")) as bert,
    ):
        until(lambda: len(spool.records()) > 0)
        bert.multicast("trades", b"before")
        until(lambda: spool.messages() == [b"before"])
        served.daemons.kill("eu1")
        served.daemons.start("eu1")
        until(lambda: both_are_in(bert, "trades", 1) and spool.records()[-1].header.kind is RecordKind.VIEW)
        bert.multicast("trades", b"after")
        until(lambda: spool.messages() == [b"before", b"after"])

        (gap,) = [one for one in spool.records() if one.header.kind is RecordKind.GAP]
        assert decode_body(gap.data, RecordedGap).reason.startswith("reconnected: ")
        assert decode_body(gap.data, RecordedGap).last == spool.records()[1].header.place


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Path]:
    """A file system of 300 kB."""
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a small file system")
    place = tmp_path / "tiny"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(place)]
    mounted = subprocess.run(mount, check=False, capture_output=True)
    if mounted.returncode:
        pytest.skip(f"cannot mount: {mounted.stderr.decode().strip()}")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_with_a_full_disk_the_spooler_waits_and_continues_when_there_is_space(
    served: ServedCluster, tiny: Path
) -> None:
    ballast = tiny / "ballast"
    ballast.write_bytes(bytes(200_000))
    with (
        SpoolingCluster(tiny, served.url("eu1"), "--group", "trades") as spool,
        sync.connect(served.url("us1")) as bert,
    ):
        until(lambda: len(spool.records()) > 0)
        for number in range(20):
            bert.multicast("trades", b"%d " % number + bytes(10_000))
        assert spool.process.stderr is not None, "stdout is a pipe"
        while "not appended: disk error: No space left" not in spool.process.stderr.readline():
            pass
        assert both_are_in(bert, "trades", 1)

        ballast.unlink()
        until(lambda: len(spool.messages()) == 20)

        assert [int(one.split()[0]) for one in spool.messages()] == list(range(20))
        assert not [one for one in spool.records() if one.header.kind is RecordKind.GAP]
