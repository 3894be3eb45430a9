"""A failing disk: every system call of an append in turn, and a disk that is really full."""

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.spool.spool_samples import FailingDisk, bodies_in, messages

from hopring.spool.encode import AppendMark
from hopring.spool.errors import AppendFailed, SpoolError, SpoolFull, SyncFailed, WriterClosed
from hopring.spool.verify import verify
from hopring.spool.writer import SpoolOptions, SpoolWriter

GROUP = "trades"


def calls_of_an_append(root: Path, options: SpoolOptions) -> list[str]:
    disk = FailingDisk()
    with SpoolWriter(root, GROUP, options, disk=disk) as writer:
        writer.append(messages(b"one"))
        disk.calls.clear()
        writer.append(messages(b"two"))
        return list(disk.calls)


ROLLING = SpoolOptions(segment_bytes=1)


def test_the_system_calls_of_an_append(tmp_path: Path) -> None:
    assert calls_of_an_append(tmp_path / "a", SpoolOptions()) == ["write", "sync", "write"]
    rolling = ["sync", "open", "write", "open", "write", "sync", "rename", "write", "sync", "write"]
    assert calls_of_an_append(tmp_path / "b", ROLLING) == rolling


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("options", [SpoolOptions(), ROLLING], ids=["plain", "rolling"])
def test_an_append_survives_the_failure_of_each_of_its_calls(
    tmp_path: Path, options: SpoolOptions, number: int
) -> None:
    calls = calls_of_an_append(tmp_path / "model", options)
    for nth, call in enumerate(calls):
        root = tmp_path / str(nth)
        disk = FailingDisk()
        writer = SpoolWriter(root, GROUP, options, disk=disk)
        writer.append(messages(b"one"), AppendMark("app", 0))
        disk.number = number
        disk.failing = {call: calls[:nth].count(call)}

        with pytest.raises(SpoolError) as caught:
            writer.append(messages(b"two"), AppendMark("app", 1))

        # Records that are not acknowledged are neither shown nor counted.
        assert bodies_in(writer.directory) == [b"one"], (nth, call)
        assert (writer.end, writer.synced_end, writer.last_batch("app")) == (1, 1, 0)
        disk.failing = {}
        if call == "sync" and isinstance(caught.value, SyncFailed):
            with pytest.raises(WriterClosed, match="a sync has failed"):
                writer.append(messages(b"two"), AppendMark("app", 1))
            writer.close()
            writer = SpoolWriter(root, GROUP, options)
        else:
            assert isinstance(caught.value, SpoolFull if number == errno.ENOSPC else AppendFailed)
        # When the disk is healthy again, the same append is written once.
        assert not writer.append(messages(b"two"), AppendMark("app", 1)).replayed
        writer.close()
        assert bodies_in(writer.directory) == [b"one", b"two"], (nth, call)
        assert verify(writer.directory).findings == ()


def test_a_failed_sync_acknowledges_nothing_since_the_last_one_and_is_never_a_success_later(
    tmp_path: Path,
) -> None:
    disk = FailingDisk()
    writer = SpoolWriter(tmp_path, GROUP, SpoolOptions(sync_seconds=1000), disk=disk)
    writer.append(messages(b"one"))
    writer.sync()
    writer.append(messages(b"two"), AppendMark("app", 1))
    writer.append(messages(b"three"), AppendMark("app", 2))
    disk.failing = {"sync": 0}

    with pytest.raises(SyncFailed, match="records from 1 on are not acknowledged"):
        writer.sync()

    disk.failing = {}
    for call in (writer.sync, writer.tick, writer.roll, lambda: writer.append(messages(b"x"))):
        with pytest.raises(WriterClosed):
            call()
    assert writer.synced_end == 1
    writer.close()
    with SpoolWriter(tmp_path, GROUP) as again:
        assert (again.end, again.last_batch("app")) == (1, None)


def due_to_sync(root: Path, disk: FailingDisk) -> SpoolWriter:
    """A writer with a record, for which an append has started a sync in the background."""
    now_us = [1_000_000]
    writer = SpoolWriter(root, GROUP, SpoolOptions(sync_seconds=1), disk=disk, clock=lambda: now_us[0])
    now_us[0] += 1_000_000
    writer.append(messages(b"one"), AppendMark("app", 1))
    return writer


def test_index_entries_wait_on_a_full_disk_and_only_one_append_fails(tmp_path: Path) -> None:
    disk = FailingDisk()
    writer = due_to_sync(tmp_path, disk)
    disk.failing = {"write": 0}

    with pytest.raises(AppendFailed):
        writer.sync()
    with pytest.raises(AppendFailed):
        writer.append(messages(b"two"), AppendMark("app", 2))

    assert (writer.end, writer.synced_end, writer.last_batch("app")) == (1, 0, 1)
    disk.failing = {}
    writer.append(messages(b"two"), AppendMark("app", 2))
    writer.close()
    assert bodies_in(writer.directory) == [b"one", b"two"]
    assert verify(writer.directory).findings == ()


def test_a_sync_that_fails_in_the_background_is_reported_by_the_next_call(tmp_path: Path) -> None:
    disk = FailingDisk()
    writer = SpoolWriter(tmp_path, GROUP, SpoolOptions(sync_seconds=0.000001), disk=disk)
    disk.failing = {"sync": 0}
    writer.append(messages(b"one"), AppendMark("app", 1))

    with pytest.raises(SyncFailed, match="records from 0 on are not acknowledged"):
        writer.sync()

    disk.failing = {}
    with pytest.raises(WriterClosed):
        writer.append(messages(b"two"))
    writer.close()
    with SpoolWriter(tmp_path, GROUP) as again:
        assert (again.end, again.last_batch("app")) == (0, None)


def test_if_truncation_fails_the_writer_ends_and_the_next_one_recovers(
    tmp_path: Path,
) -> None:
    disk = FailingDisk()
    writer = SpoolWriter(tmp_path, GROUP, disk=disk)
    writer.append(messages(b"one"))
    disk.failing = {"write": 0, "cut": 0}
    with pytest.raises(AppendFailed):
        writer.append(messages(b"two"))
    disk.failing = {}
    with pytest.raises(WriterClosed, match="could not be cut off"):
        writer.append(messages(b"two"))
    writer.close()

    with SpoolWriter(tmp_path, GROUP) as again:
        assert again.recovery.cut_bytes > 0
        again.append(messages(b"two"))
    assert bodies_in(again.directory) == [b"one", b"two"]


def test_after_a_failed_sync_the_kept_records_are_written_again(tmp_path: Path) -> None:
    disk = FailingDisk()
    writer = SpoolWriter(tmp_path, GROUP, disk=disk)
    writer.append(messages(b"one"))
    disk.failing = {"sync": 0, "cut": 0}
    with pytest.raises(SyncFailed):
        writer.append(messages(b"two"))
    writer.close()

    second = FailingDisk()
    with SpoolWriter(tmp_path, GROUP, disk=second) as again:
        assert again.recovery.kept_records == 1
        # The block before the sync, and its entry after it: memory alone is not trusted.
        assert second.calls[:5] == ["open", "open", "write", "sync", "write"]


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 kB."""
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a small file system")
    place = tmp_path / "tiny"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip(f"cannot mount: {mounted.stderr.decode().strip()}")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_refuses_appends_until_there_is_space(tiny: Path) -> None:
    ballast = tiny / "ballast"
    ballast.write_bytes(bytes(100_000))
    acknowledged: list[bytes] = []
    with SpoolWriter(tiny, GROUP) as writer:
        bodies = (b"%d" % number + bytes(10_000) for number in range(100))
        with pytest.raises(SpoolFull, match="free some space or tighten the retention"):
            acknowledged.extend(body for body in bodies if writer.append(messages(body)))
        assert bodies_in(writer.directory) == acknowledged
        with pytest.raises(SpoolFull):
            writer.append(messages(bytes(50_000)))

        ballast.unlink()
        writer.append(messages(b"again"))

    assert bodies_in(writer.directory) == [*acknowledged, b"again"]
    assert verify(writer.directory).findings == ()
