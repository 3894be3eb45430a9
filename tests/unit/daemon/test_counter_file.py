import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from time import monotonic

import pytest

from hopring.daemon.process.counter_file import BLOCK, COUNTER_MAX, RETRY, START_WAIT_S, CounterFile


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "views"


NOBODY = 65534


@pytest.fixture
def without_rights(tmp_path: Path) -> Iterator[Path]:
    """A directory where file modes apply: root, who may write everywhere, becomes nobody for the test."""
    if os.geteuid() != 0:
        yield tmp_path / "views"
        return
    with TemporaryDirectory() as directory:
        os.chown(directory, NOBODY, NOBODY)
        os.seteuid(NOBODY)
        try:
            yield Path(directory) / "views"
        finally:
            os.seteuid(0)


def reserved(path: Path, *counters: int) -> CounterFile:
    """Simulates a start that used these counters and ended in an orderly way."""
    file = CounterFile(path)
    for counter in counters:
        file.reserve(counter)
        file.wait_until_written()
    return file


def mark(path: Path) -> int:
    """The reserved counter in the file on disk."""
    return int(path.read_bytes().split()[0])


def no_space(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)


# The good case.


def test_without_a_file_counters_start_at_0_without_a_warning(path: Path) -> None:
    file = CounterFile(path)

    assert (file.start, file.warnings) == (0, [])


def test_a_restart_begins_above_everything_that_was_reserved(path: Path) -> None:
    reserved(path, *range(0, 3 * BLOCK, 70))

    assert 3 * BLOCK - 70 < CounterFile(path).start <= 4 * BLOCK


def test_the_first_block_is_reserved_before_anything_is_used(path: Path) -> None:
    CounterFile(path)

    assert mark(path) == 1 + BLOCK


def version(path: Path) -> tuple[int, int]:
    # Two writes within one tick of the kernel have the same time, but they are two files.
    found = path.stat()
    return found.st_ino, found.st_mtime_ns


def test_the_file_is_written_once_for_half_a_block(path: Path) -> None:
    file = CounterFile(path)
    written = version(path)
    for counter in range(1, 1 + BLOCK // 2):
        file.reserve(counter)
    file.wait_until_written()
    assert version(path) == written

    file.reserve(1 + BLOCK // 2)
    file.wait_until_written()
    assert version(path) != written
    assert mark(path) == 1 + BLOCK // 2 + BLOCK
    assert file.warnings == []


def test_each_start_reserves_a_new_block(path: Path) -> None:
    starts = [CounterFile(path).start for _ in range(3)]

    assert starts == [0, BLOCK + 1, 2 * BLOCK + 2]


def test_a_counter_that_leaps_takes_the_mark_with_it(path: Path) -> None:
    reserved(path, 3, 2**40)

    assert CounterFile(path).start == 2**40 + BLOCK


def test_a_slow_disk_does_not_block_the_daemon(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = Event()
    file = CounterFile(path)
    monkeypatch.setattr(os, "fsync", lambda _handle: go_on.wait(60))
    began_s = monotonic()

    for counter in range(3 * BLOCK):
        file.reserve(counter)

    assert monotonic() - began_s < 30
    assert mark(path) == 1 + BLOCK
    go_on.set()
    file.wait_until_written()
    assert mark(path) > 3 * BLOCK


@pytest.mark.slow
def test_a_disk_that_hangs_does_not_keep_the_daemon_from_starting(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = Event()
    monkeypatch.setattr(os, "fsync", lambda _handle: go_on.wait(60))
    began_s = monotonic()

    file = CounterFile(path)

    assert monotonic() - began_s < START_WAIT_S + 30
    go_on.set()
    file.wait_until_written()


# Files that may be found on disk.


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"12",
        b"12\n",
        b"x\n",
        b"-5 00000000\n",
        b"9" * 40 + b"\n",
        b"9" * 10_000,
        b"\xff\xfe\x00\n",
        b"1 2\n",
        b"4611686018427387904 00000000\n",
        b"\x00" * 64,
    ],
)
def test_a_damaged_file_is_reported_and_ignored(path: Path, text: bytes) -> None:
    path.write_bytes(text)

    file = CounterFile(path)

    assert file.start == 0
    assert file.warnings == [f"{path} holds no view counter, or a damaged one: view counters start at 0"]
    assert mark(path) == 1 + BLOCK


def test_every_shortened_file_and_every_flipped_bit_is_found(path: Path) -> None:
    reserved(path, 123_456)
    whole = path.read_bytes()
    damaged = [whole[:length] for length in range(len(whole))]
    damaged += [
        whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :]
        for at in range(len(whole))
        for bit in range(8)
    ]

    for text in damaged:
        path.write_bytes(text)
        assert CounterFile(path).start == 0, text


def test_a_directory_in_its_place_is_reported_and_ignored(path: Path) -> None:
    path.mkdir()

    file = CounterFile(path)

    assert file.start == 0
    assert [text.split("(")[0] for text in file.warnings] == [f"cannot read {path} ", f"cannot write {path} "]


def test_a_pipe_in_its_place_does_not_keep_the_daemon_from_starting(path: Path) -> None:
    os.mkfifo(path)

    file = CounterFile(path)

    assert (file.start, len(file.warnings)) == (0, 1)
    assert mark(path) == 1 + BLOCK, "the rename puts a file in its place"


def test_an_unreadable_file_is_reported(without_rights: Path) -> None:
    reserved(without_rights, 1)
    without_rights.chmod(0)

    file = CounterFile(without_rights)

    assert file.start == 0
    assert "cannot read" in file.warnings[0]


# Failures of writing.


def test_a_missing_directory_is_reported_once_and_the_daemon_continues(tmp_path: Path) -> None:
    file = reserved(tmp_path / "missing" / "views", 1, 2 + BLOCK, 3 + 2 * BLOCK)

    assert len(file.warnings) == 1
    assert "cannot write" in file.warnings[0]
    assert not list(tmp_path.iterdir())


def test_a_read_only_directory_is_reported_and_the_old_mark_stays(without_rights: Path) -> None:
    path = without_rights
    CounterFile(path)
    path.parent.chmod(0o500)
    try:
        file = reserved(path, 5 * BLOCK)
    finally:
        path.parent.chmod(0o700)

    assert "cannot write" in file.warnings[0]
    assert (file.start, mark(path)) == (1 + BLOCK, 1 + BLOCK)


def test_a_full_disk_is_reported_and_retried_before_the_block_is_used(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = CounterFile(path)
    with monkeypatch.context() as full:
        no_space(full)
        file.reserve(5_000)
        file.wait_until_written()
    assert "No space left on device" in file.warnings[0]
    assert mark(path) == 1 + BLOCK

    file.reserve(5_000 + RETRY - 1)
    file.wait_until_written()
    assert mark(path) == 1 + BLOCK

    file.reserve(5_000 + RETRY)
    file.wait_until_written()
    assert mark(path) == 5_000 + RETRY + BLOCK
    assert len(file.warnings) == 1


def test_a_thread_that_cannot_be_started_is_reported(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = CounterFile(path)
    with monkeypatch.context() as full:
        full.setattr(
            Thread, "start", lambda _self: (_ for _ in ()).throw(RuntimeError("can't start new thread"))
        )
        file.reserve(5 * BLOCK)
    assert "can't start new thread" in file.warnings[0]

    file.reserve(6 * BLOCK)
    file.wait_until_written()
    assert mark(path) == 7 * BLOCK


def test_a_crash_between_write_and_rename_leaves_the_old_mark(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    CounterFile(path)
    with monkeypatch.context() as crash:
        crash.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(5, "crash")))
        reserved(path, 5 * BLOCK)
    assert sorted(one.name for one in path.parent.iterdir()) == ["views", "views.new"]

    file = CounterFile(path)
    assert (file.start, file.warnings) == (1 + BLOCK, [])
    assert [one.name for one in path.parent.iterdir()] == ["views"]


def test_the_highest_counters_are_kept_and_nothing_above_them_is_written(path: Path) -> None:
    file = reserved(path, COUNTER_MAX - 3, COUNTER_MAX)

    assert file.warnings == []
    assert CounterFile(path).start == COUNTER_MAX


# A process that is killed.

CHILD = """
import sys
from pathlib import Path
from hopring.daemon.process.counter_file import CounterFile

file = CounterFile(Path(sys.argv[1]))
counter = file.start
assert file.warnings == [], file.warnings
while True:
    counter += 1
    file.reserve(counter)
    if counter % 100 == 0:
        file.wait_until_written()
    print(counter, flush=True)
"""


def used(child: subprocess.Popen[str], enough: int) -> Iterator[int]:
    """The counters that the child used, including those used after the signal to kill it was sent."""
    assert child.stdout is not None
    for number, line in enumerate(child.stdout):
        if number == enough:
            child.kill()
        if line.endswith("\n"):
            yield int(line)


@pytest.mark.slow
def test_no_counter_comes_twice_however_often_the_daemon_is_killed(path: Path) -> None:
    highest = 0
    for enough in (1, 40, 499, 520, 1_003, 2_777, 100, 3_501):
        command = [sys.executable, "-c", CHILD, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            counters = list(used(child, enough))
        assert min(counters) > highest, "a restart begins above all that was used"
        highest = max(counters)
    assert CounterFile(path).start >= highest
    assert {one.name for one in path.parent.iterdir()} <= {"views", "views.new"}
