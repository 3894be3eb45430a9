"""Opening and reading a spool after torn tails, flipped bits and lost files."""

import shutil
from pathlib import Path

import pytest
from tests.unit.spool.spool_samples import bodies_in, messages

from hopring.spool.encode import AppendMark
from hopring.spool.errors import SpoolDamaged
from hopring.spool.files import bases, index_path, log_path
from hopring.spool.format import ENTRY_BYTES, INDEX_HEAD_BYTES
from hopring.spool.reading import bounds, read
from hopring.spool.verify import verify
from hopring.spool.writer import SpoolOptions, SpoolWriter

GROUP = "trades"


def made(root: Path, *appends: list[bytes]) -> Path:
    with SpoolWriter(root, GROUP) as writer:
        for number, bodies in enumerate(appends):
            writer.append(messages(*bodies, lts=number), AppendMark("app", number))
    return writer.directory


def reopened(root: Path) -> SpoolWriter:
    """Opens and closes a writer, which recovers the spool."""
    with SpoolWriter(root, GROUP) as writer:
        pass
    return writer


def spoil(path: Path, at: int, size: int = 1) -> None:
    whole = bytearray(path.read_bytes())
    for place in range(at, at + size):
        whole[place] ^= 0x10
    path.write_bytes(whole)


def places(directory: Path) -> list[int]:
    """The places at which the blocks of the first segment begin."""
    whole = log_path(directory, 0).read_bytes()
    found = [at for at in range(0, len(whole), 8) if whole[at : at + 4] == b"HBLK"]
    return [*found, len(whole)]


@pytest.mark.slow
def test_of_a_truncated_file_complete_appends_are_kept_and_the_rest_is_cut(
    tmp_path: Path,
) -> None:
    model = made(tmp_path / "model", [b"one", b"two"], [b"three"], [b"four"])
    whole = log_path(model, 0).read_bytes()
    starts = places(model)
    head_bytes = starts[0]

    for size in range(head_bytes, len(whole), 5):  # Blocks begin at multiples of 8.
        root = tmp_path / str(size)
        shutil.copytree(model, root / GROUP)
        log_path(root / GROUP, 0).write_bytes(whole[:size])
        index_path(root / GROUP, 0).unlink()
        writer = reopened(root)
        complete = sum(1 for end in starts[1:] if end <= size)
        assert bodies_in(writer.directory) == [b"one", b"two", b"three", b"four"][: [0, 2, 3][complete]]
        assert writer.recovery.cut_bytes == size - starts[complete]
        assert verify(writer.directory).findings == ()
        with SpoolWriter(root, GROUP) as writer:
            assert writer.last_batch("app") == (complete - 1 if complete else None)
            writer.append(messages(b"new"))
        assert bodies_in(writer.directory)[-1] == b"new"
        shutil.rmtree(root)


def test_complete_appends_behind_the_index_are_read_and_kept(tmp_path: Path) -> None:
    directory = made(tmp_path, [b"one"], [b"two"])
    index = index_path(directory, 0)
    index.write_bytes(index.read_bytes()[:-ENTRY_BYTES])
    assert bodies_in(directory) == [b"one", b"two"]

    writer = reopened(tmp_path)

    assert writer.recovery.kept_records == 1
    assert bodies_in(directory) == [b"one", b"two"]


def test_a_torn_missing_or_foreign_index_is_rebuilt(tmp_path: Path) -> None:
    directory = made(tmp_path, [b"one"], [b"two"], [b"three"])
    index = index_path(directory, 0)
    good = index.read_bytes()

    for bad in (good[:-1], good[: INDEX_HEAD_BYTES + 3], b"", b"noise" * 50, good[:60] + b"?" + good[61:]):
        index.write_bytes(bad)
        reopened(tmp_path)
        assert index.read_bytes() == good
    index.unlink()
    reopened(tmp_path)
    assert index.read_bytes() == good


def test_readers_work_without_the_index_of_a_finished_segment(tmp_path: Path) -> None:
    with SpoolWriter(tmp_path, GROUP, SpoolOptions(segment_bytes=1000)) as writer:
        for number in range(6):
            writer.append(messages(bytes(200), b"%d" % number))
    index = index_path(writer.directory, 0)
    good = index.read_bytes()
    expected = list(read(writer.directory, 1, 12))

    spoil(index, INDEX_HEAD_BYTES + 4)
    assert list(read(writer.directory, 1, 12)) == expected
    index.write_bytes(good)
    spoil(index, 3)
    assert list(read(writer.directory, 1, 12)) == expected
    assert "does not belong to its log" in verify(writer.directory).findings[0].what
    index.unlink()
    assert list(read(writer.directory, 1, 12)) == expected
    assert "it is missing" in verify(writer.directory).findings[0].what


@pytest.mark.slow
def test_damage_in_a_middle_block_is_named_and_the_rest_is_read(tmp_path: Path) -> None:
    model = made(tmp_path / "model", [b"one"], [b"two", b"three"], [b"four"])
    starts = places(model)

    for at in range(starts[1], starts[2]):
        root = tmp_path / "spoiled"
        shutil.copytree(model, root / GROUP)
        log = log_path(root / GROUP, 0)
        spoil(log, at)
        directory = reopened(root).directory  # A writer leaves it unchanged.
        with pytest.raises(SpoolDamaged, match="records from 1 to 2 are damaged") as caught:
            list(read(directory, 0, 4))
        assert (caught.value.start, caught.value.end) == (1, 3)
        assert [one.data for one in read(directory, 0, 4, skip_damaged=True)] == [b"one", b"four"]
        assert [one.data for one in read(directory, 3, 4)] == [b"four"]
        (finding,) = verify(directory).findings
        assert (finding.start, finding.end) == (1, 3)
        shutil.rmtree(root)


def test_damage_behind_the_index_is_not_taken_for_a_torn_tail(tmp_path: Path) -> None:
    directory = made(tmp_path, [b"one"], [b"two"], [b"three"])
    starts = places(directory)
    index_path(directory, 0).unlink()
    spoil(log_path(directory, 0), starts[1] + 5)

    writer = reopened(tmp_path)

    assert (writer.recovery.cut_bytes, writer.recovery.kept_records) == (0, 2)
    (lost,) = writer.recovery.damage
    assert (lost.first, lost.end) == (1, 2)
    assert [one.data for one in read(directory, 0, 3, skip_damaged=True)] == [b"one", b"three"]
    with pytest.raises(SpoolDamaged, match="records from 1 to 1"):
        list(read(directory, 0, 3))


def test_acknowledged_bytes_that_are_gone_are_named_and_their_offsets_are_not_given_again(
    tmp_path: Path,
) -> None:
    directory = made(tmp_path, [b"one"], [b"two"], [b"three"])
    log = log_path(directory, 0)
    log.write_bytes(log.read_bytes()[: places(directory)[1] + 8])

    with SpoolWriter(tmp_path, GROUP) as writer:
        assert writer.append(messages(b"four")).start == 3

    assert bases(directory) == [0, 3]
    with pytest.raises(SpoolDamaged, match="records from 1 to"):
        list(read(directory, 0, 4))
    assert [one.data for one in read(directory, 0, 4, skip_damaged=True)] == [b"one", b"four"]
    assert {(one.start, one.end) for one in verify(directory).findings} >= {(1, 3)}


def test_a_damaged_head_of_a_finished_segment_does_not_affect_the_others(tmp_path: Path) -> None:
    with SpoolWriter(tmp_path, GROUP, SpoolOptions(segment_bytes=1)) as writer:
        for body in (b"one", b"two", b"three"):
            writer.append(messages(body))
    spoil(log_path(writer.directory, 1), 30)

    with pytest.raises(SpoolDamaged, match="the CRC of its head"):
        list(read(writer.directory, 0, 3))

    assert [one.data for one in read(writer.directory, 2, 3)] == [b"three"]
    assert [one.data for one in read(writer.directory, 0, 3, skip_damaged=True)] == [b"one", b"two", b"three"]
    assert (verify(writer.directory).findings[0].start, verify(writer.directory).findings[0].end) == (1, 2)


def test_a_damaged_head_of_the_last_segment_does_not_stop_the_writer(tmp_path: Path) -> None:
    with SpoolWriter(tmp_path, GROUP, SpoolOptions(segment_bytes=1)) as writer:
        writer.append(messages(b"one"), AppendMark("app", 3))
        writer.append(messages(b"two"))
    spoil(log_path(writer.directory, 1), 30)

    with SpoolWriter(tmp_path, GROUP) as writer:
        assert writer.append(messages(b"three")).start == 2

    assert bases(writer.directory) == [0, 1, 2]
    assert [one.data for one in read(writer.directory, 0, 3, skip_damaged=True)] == [b"one", b"two", b"three"]
    with pytest.raises(SpoolDamaged, match="the CRC of its head"):
        list(read(writer.directory, 0, 3))


def test_an_unfinished_long_append_is_cut_as_a_whole(tmp_path: Path) -> None:
    directory = made(tmp_path, [b"one"], [bytes(3_000_000)] * 3)
    log, index = log_path(directory, 0), index_path(directory, 0)
    log.write_bytes(log.read_bytes()[:-8])
    index.write_bytes(index.read_bytes()[: INDEX_HEAD_BYTES + ENTRY_BYTES])

    with SpoolWriter(tmp_path, GROUP) as writer:
        assert writer.end == 1
        assert writer.recovery.cut_bytes > 6_000_000
        assert writer.last_batch("app") == 0
    assert bodies_in(directory) == [b"one"]


def test_files_of_an_incomplete_new_segment_are_removed(tmp_path: Path) -> None:
    directory = made(tmp_path, [b"one"])
    (directory / f"{1:020}.new").write_bytes(b"half a head")
    (directory / f"{1:020}.idx").write_bytes(b"")

    writer = reopened(tmp_path)

    assert writer.recovery.removed == (f"{1:020}.idx", f"{1:020}.new")
    assert bounds(directory).end == 1


def test_a_block_inside_a_message_is_not_mistaken_for_a_block(tmp_path: Path) -> None:
    directory = made(tmp_path, [b"one"])
    inner = log_path(directory, 0).read_bytes()[places(directory)[0] :]
    with SpoolWriter(tmp_path, GROUP) as writer:
        for pad in range(8):
            writer.append(messages(bytes(pad) + inner))
        writer.append(messages(b"last"))
    starts = places(directory)
    spoil(log_path(directory, 0), starts[1] + 80)

    offsets = [one.offset for one in read(directory, 0, 10, skip_damaged=True)]

    assert offsets == [0, *range(2, 10)]
