"""Indexes that repeat, swap or lack entries: each record is read once, and a verification names the fault."""

import fcntl
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.spool.spool_samples import bodies_in, messages

from hopring.spool.errors import SpoolDamaged, SpoolOwned
from hopring.spool.files import LOCK, index_path, log_path
from hopring.spool.format import ENTRY_BYTES, INDEX_HEAD_BYTES, IndexEntry, decode_entry, encode_entry
from hopring.spool.reading import after_place, bounds, entries, marks_before, read, since_time
from hopring.spool.verify import verify
from hopring.spool.writer import SpoolOptions, SpoolWriter

GROUP = "trades"
BODIES = [b"%d" % number for number in range(8)]


def filled(root: Path, *, finished: bool) -> Path:
    """Eight records in four blocks; if finished, an empty segment follows."""
    with SpoolWriter(root, GROUP) as writer:
        for number in range(0, 8, 2):
            writer.append(messages(*BODIES[number : number + 2], lts=number + 1))
    if finished:
        with SpoolWriter(root, GROUP, SpoolOptions(segment_bytes=1)) as writer:
            writer.append(messages(b"last", lts=99))
    return writer.directory


def rearrange(directory: Path, order: list[int]) -> list[bytes]:
    """Writes the entries of the first index in this order."""
    path = index_path(directory, 0)
    whole = path.read_bytes()
    at = range(INDEX_HEAD_BYTES, len(whole), ENTRY_BYTES)
    parts = [whole[place : place + ENTRY_BYTES] for place in at]
    path.write_bytes(whole[:INDEX_HEAD_BYTES] + b"".join([parts[number] for number in order]))
    return parts


WRONG = {
    "twice": [0, 1, 1, 2, 3],
    "all twice": [0, 1, 2, 3, 0, 1, 2, 3],
    "first again": [0, 1, 2, 3, 0],
    "two again": [0, 1, 2, 3, 0, 1],
    "swapped": [0, 2, 1, 3],
    "backwards": [3, 2, 1, 0],
    "first lost": [1, 2, 3],
    "middle lost": [0, 3],
    "last lost": [0, 1],
    "all lost": [],
}


@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.parametrize("order", WRONG.values(), ids=WRONG.keys())
def test_every_record_is_read_once_from_every_start(tmp_path: Path, order: list[int], finished: bool) -> None:
    directory = filled(tmp_path, finished=finished)
    expected = [*BODIES, b"last"] if finished else BODIES
    rearrange(directory, order)

    assert bodies_in(directory) == expected
    for start in range(8):
        for end in range(start, 9):
            found = [record.data for record in read(directory, start, end)] if end <= 8 else []
            assert found == BODIES[start:end], (start, end)


@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.parametrize("order", WRONG.values(), ids=WRONG.keys())
def test_other_readers_see_the_same_entries(tmp_path: Path, order: list[int], finished: bool) -> None:
    directory = filled(tmp_path, finished=finished)
    good = list(entries(directory, 0, 8))
    end, marks = bounds(directory).end, marks_before(directory, 8)
    rearrange(directory, order)

    assert list(entries(directory, 0, 8)) == good
    assert bounds(directory).end == end
    assert marks_before(directory, 8) == marks
    assert since_time(directory, good[2].time_us) == next(
        one.first for one in good if one.time_us >= good[2].time_us
    )
    place = next(iter(read(directory, 4, 5))).header.place
    assert after_place(directory, place) == 6


@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.parametrize("order", WRONG.values(), ids=WRONG.keys())
def test_a_verification_names_the_index(tmp_path: Path, order: list[int], finished: bool) -> None:
    directory = filled(tmp_path, finished=finished)
    assert verify(directory).findings == ()
    rearrange(directory, order)

    verdict = verify(directory)

    (finding,) = verdict.findings
    assert finding.file == index_path(directory, 0).name
    assert finding.start is None, "no record is lost"
    assert verdict.records == (9 if finished else 8)
    if len(order) < 4:
        assert f"{4 - len(order)} blocks of the log are not in it" in finding.what
    else:
        assert "does not follow" in finding.what


@pytest.mark.parametrize("order", WRONG.values(), ids=WRONG.keys())
def test_a_writer_makes_the_last_index_whole_again(tmp_path: Path, order: list[int]) -> None:
    directory = filled(tmp_path, finished=False)
    good = index_path(directory, 0).read_bytes()
    rearrange(directory, order)

    with SpoolWriter(tmp_path, GROUP) as writer:
        assert (writer.end, writer.recovery.cut_bytes) == (8, 0)

    assert index_path(directory, 0).read_bytes() == good
    assert bodies_in(directory) == BODIES


def test_a_damaged_block_behind_a_repeated_entry_is_not_taken_for_a_torn_tail(tmp_path: Path) -> None:
    directory = filled(tmp_path, finished=False)
    rearrange(directory, [0, 1, 1, 2, 3])
    log = log_path(directory, 0)
    log.write_bytes(log.read_bytes()[:-8] + b"changed!")

    with SpoolWriter(tmp_path, GROUP) as writer:
        assert writer.end == 8

    with pytest.raises(SpoolDamaged, match="records from 6 to 7"):
        list(read(directory, 0, 8))


LIES = [
    (lambda entry: entry._replace(records=1), (2, 3)),
    (lambda entry: entry._replace(records=3), (2, 5)),
    (lambda entry: entry._replace(first=3), (3, 5)),
    (lambda entry: entry._replace(size_bytes=8), (2, 4)),
]


@pytest.mark.parametrize(("lie", "lost"), LIES)
def test_an_entry_that_differs_from_its_block_is_damage(
    tmp_path: Path, lie: Callable[[IndexEntry], IndexEntry], lost: tuple[int, int]
) -> None:
    directory = filled(tmp_path, finished=True)
    path = index_path(directory, 0)
    whole = path.read_bytes()
    at = INDEX_HEAD_BYTES + ENTRY_BYTES
    entry = decode_entry(whole, at)
    assert entry is not None
    path.write_bytes(whole[:at] + encode_entry(lie(entry)) + whole[at + ENTRY_BYTES :])

    assert verify(directory).findings
    with pytest.raises(SpoolDamaged, match="another block is in its place") as caught:
        list(read(directory, 0, 8))
    assert (caught.value.start, caught.value.end) == lost
    offsets = [record.offset for record in read(directory, 0, 8, skip_damaged=True)]
    assert offsets == sorted(set(offsets)), "none twice"


def test_records_behind_the_index_are_not_read_while_a_writer_has_the_spool(tmp_path: Path) -> None:
    with SpoolWriter(tmp_path, GROUP, SpoolOptions(sync_seconds=3600)) as writer:
        writer.append(messages(b"one"))
        writer.sync()
        writer.append(messages(b"two"))
        assert bodies_in(writer.directory) == [b"one"], "the second one is not acknowledged yet"
        assert verify(writer.directory).findings == ()
    assert bodies_in(writer.directory) == [b"one", b"two"]


def test_an_unfinished_append_behind_the_index_is_not_read(tmp_path: Path) -> None:
    directory = filled(tmp_path, finished=False)
    log = log_path(directory, 0)
    log.write_bytes(log.read_bytes()[:-8])
    rearrange(directory, [0])

    assert bodies_in(directory) == BODIES[:6]
    with SpoolWriter(tmp_path, GROUP) as writer:
        assert writer.end == 6


def test_without_access_to_the_lock_a_reader_takes_the_index_alone(tmp_path: Path) -> None:
    directory = filled(tmp_path, finished=False)
    rearrange(directory, [0, 1])
    (directory / LOCK).unlink()
    (directory / LOCK).symlink_to(directory / "nowhere" / "lock")

    assert bodies_in(directory) == BODIES, "no lock file: nobody writes"
    (directory / LOCK).unlink()
    (directory / LOCK).mkdir(mode=0o000)
    if os.geteuid():
        assert bodies_in(directory) == BODIES[:4]


def test_the_last_index_gone_while_a_writer_has_the_spool_is_damage(tmp_path: Path) -> None:
    with SpoolWriter(tmp_path, GROUP) as writer:
        writer.append(messages(b"one"))
        index_path(writer.directory, 0).unlink()
        with pytest.raises(SpoolDamaged, match="its index is missing"):
            bounds(writer.directory)
    assert bodies_in(writer.directory) == [b"one"]


def test_a_writer_waits_for_a_reader_of_the_log_and_not_for_another_writer(tmp_path: Path) -> None:
    directory = filled(tmp_path, finished=False)
    file = os.open(directory / LOCK, os.O_RDONLY)
    fcntl.flock(file, fcntl.LOCK_SH)
    threading.Timer(0.05, os.close, [file]).start()

    with SpoolWriter(tmp_path, GROUP) as writer:
        assert writer.end == 8
        with pytest.raises(SpoolOwned):
            SpoolWriter(tmp_path, GROUP)
