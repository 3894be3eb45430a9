"""Log, bodies and files of a member on a real disk: what is read, removed, merged, refused and damaged."""

import errno
from pathlib import Path

import pytest
from tests.unit.wide.disk_samples import (
    RECORDS,
    FailingFilesDisk,
    bodies,
    calls_of,
    file_of,
    key,
    opened,
    with_file,
)

from hopring.blocks.log.records import PromiseRecord
from hopring.haul.stored.shelf import FileKey
from hopring.spool.errors import SpoolError, SpoolFull, SpoolOwned, WriterClosed
from hopring.wide.disk.body_batches import DAMAGED, SMALL_MAX, SUFFIX
from hopring.wide.disk.errors import ContentDamaged, StoreUnsure
from hopring.wide.disk.member_disk import BEHIND_BYTES, FLUSH_BYTES, MemberDisk

CONTENT = bytes(range(256)) * 10


def batches(root: Path) -> list[str]:
    return sorted([one.name for one in (root / "state" / "bodies").iterdir()])


def test_bodies_are_read_at_once_and_are_there_after_a_restart(tmp_path: Path) -> None:
    member = opened(tmp_path)
    member.store_bodies(bodies(1, 2, 3))
    assert member.body(key(2)) == bytes([2]) * 100

    member.write(RECORDS)
    assert member.body(key(2)) == bytes([2]) * 100
    member.close()

    with_bodies = opened(tmp_path)
    assert with_bodies.contents.bodies == {key(1), key(2), key(3)}
    assert with_bodies.body(key(3)) == bytes([3]) * 100
    assert with_bodies.image.promised == 1
    with_bodies.close()


def test_an_empty_body_and_a_large_one_are_kept(tmp_path: Path) -> None:
    member = opened(tmp_path)
    member.store_bodies(((key(1), b""), (key(2), bytes(160 * 1024))))
    member.flush()

    assert (member.body(key(1)), member.body(key(2))) == (b"", bytes(160 * 1024))
    member.close()


def test_a_file_goes_when_all_its_bodies_are_forgotten(tmp_path: Path) -> None:
    member = opened(tmp_path)
    member.store_bodies(bodies(1, 2))
    member.flush()
    member.store_bodies(bodies(3))
    member.forget_bodies((key(1), key(3)))
    member.flush()
    assert len(batches(tmp_path)) == 1, "the third was forgotten before it was written"

    member.forget_bodies((key(2),))
    member.flush()
    assert batches(tmp_path) == []
    member.close()


def test_a_file_of_which_little_is_needed_is_merged_into_the_next_one(tmp_path: Path) -> None:
    member = opened(tmp_path)
    member.store_bodies(bodies(*range(1, 11)))
    member.flush()
    member.forget_bodies(tuple([key(one) for one in range(1, 10)]))
    member.store_bodies(bodies(11))
    member.flush()
    member.flush()

    assert batches(tmp_path) == [f"{2:020}{SUFFIX}"]
    assert (member.body(key(10)), member.body(key(11))) == (bytes([10]) * 100, bytes([11]) * 100)
    member.close()
    again = opened(tmp_path)
    assert again.contents.bodies == {key(10), key(11)}
    again.close()


def test_many_small_files_become_one(tmp_path: Path) -> None:
    member = opened(tmp_path)
    for one in range(1, SMALL_MAX + 2):
        member.store_bodies(bodies(one))
        member.flush()
    member.flush()

    assert len(batches(tmp_path)) == 1
    assert all(member.body(key(one)) == bytes([one]) * 100 for one in range(1, SMALL_MAX + 2))
    member.close()


def test_a_body_that_is_in_two_files_is_read_from_the_later_one(tmp_path: Path) -> None:
    member = opened(tmp_path)
    member.store_bodies(bodies(1, 2))
    member.flush()
    first = tmp_path / "state" / "bodies" / batches(tmp_path)[0]
    kept = first.read_bytes()
    member.forget_bodies((key(1),))
    member.store_bodies(bodies(2, 3))
    member.flush()
    member.close()
    first.write_bytes(kept)  # As if the process had ended before it was removed.

    again = opened(tmp_path)
    again.forget_bodies((key(1),))
    again.flush()
    assert batches(tmp_path) == [f"{2:020}{SUFFIX}"]
    assert again.body(key(2)) == bytes([2]) * 100
    again.close()


def test_what_is_not_complete_is_removed_and_what_is_damaged_is_put_aside(tmp_path: Path) -> None:
    member = opened(tmp_path)
    for one in (1, 2, 3):
        member.store_bodies(bodies(one))
        member.flush()
    member.close()
    place = tmp_path / "state" / "bodies"
    first, second, third = [place / name for name in batches(tmp_path)]
    first.write_bytes(first.read_bytes()[:-1])
    second.write_bytes(second.read_bytes()[:20] + b"x" + second.read_bytes()[21:])
    (place / f"{third.name}.new").write_bytes(b"half")

    again = opened(tmp_path)

    assert again.contents.bodies == {key(3)}
    assert again.damaged == [first, second]
    assert batches(tmp_path) == [f"{first.name}{DAMAGED}", f"{second.name}{DAMAGED}", third.name]
    again.close()


def test_a_body_that_has_changed_is_not_read_and_its_file_is_put_aside(tmp_path: Path) -> None:
    member = opened(tmp_path)
    member.store_bodies(bodies(1, 2))
    member.flush()
    path = tmp_path / "state" / "bodies" / batches(tmp_path)[0]
    path.write_bytes(path.read_bytes()[:-1] + b"x")

    with pytest.raises(
        ContentDamaged, match=r"the body of tickets 1\.2 has changed; .*gets it from the others"
    ):
        member.body(key(2))

    member.close()
    again = opened(tmp_path)
    assert again.contents.bodies == frozenset()
    again.close()


def test_a_file_is_read_while_it_comes_and_after_a_restart(tmp_path: Path) -> None:
    member = opened(tmp_path)
    file = with_file(member, CONTENT)
    assert member.piece(file, 900, 200) == CONTENT[900:1100]
    member.flush()
    assert member.piece(file, 0, 2000) == CONTENT[:2000]
    with pytest.raises(ContentDamaged, match="cut off"):
        member.piece(file, 2000, 10_000)
    member.close()

    again = opened(tmp_path)
    assert again.contents.files == {file: len(CONTENT)}
    assert again.check(file)
    again.drop_file(file)
    again.flush()
    assert not again.check(file)
    again.close()
    assert list((tmp_path / "state" / "contents").iterdir()) == []


def test_a_piece_that_is_on_the_disk_and_one_that_is_not_yet_are_one(tmp_path: Path) -> None:
    member = opened(tmp_path)
    file = with_file(member, CONTENT[:1000])
    other = FileKey(file_of(CONTENT).digest, 1)
    with_file(member, CONTENT)
    member.flush()
    assert member.check(file)

    assert member.piece(other, 500, 1000) == CONTENT[500:1500]
    member.close()


def test_a_file_that_is_not_what_its_digest_says_does_not_fit(tmp_path: Path) -> None:
    member = opened(tmp_path)
    file = with_file(member, CONTENT)
    member.flush()
    path = tmp_path / "state" / "contents" / f"{file.digest.hex()}.1"
    path.write_bytes(b"x" + CONTENT[1:])

    assert not member.check(file)
    with pytest.raises(ContentDamaged, match="has not the digest"):
        member.place(file, "tickets", "a")

    assert list((tmp_path / "files" / "tickets").iterdir()) == []
    member.close()
    again = opened(tmp_path)
    assert again.contents.files == {}, "it is asked for again"
    again.close()


def test_a_file_is_placed_below_the_directory_of_its_set(tmp_path: Path) -> None:
    member = opened(tmp_path)
    file = with_file(member, CONTENT)

    placed = member.place(file, "tickets", "north/a.dat")

    assert placed == tmp_path / "files" / "tickets" / "north" / "a.dat"
    assert placed.read_bytes() == CONTENT
    before = placed.stat().st_ino
    assert member.place(file, "tickets", "north/a.dat") == placed
    assert placed.stat().st_ino == before, "it was there"
    other = with_file(member, CONTENT[1:])
    assert member.place(other, "tickets", "north/a.dat") == placed
    assert placed.read_bytes() == CONTENT[1:]
    assert sorted([one.name for one in placed.parent.iterdir()]) == ["a.dat"]
    member.close()


def test_an_empty_file_is_placed_as_well(tmp_path: Path) -> None:
    member = opened(tmp_path)

    placed = member.place(file_of(b""), "tickets", "empty")

    assert placed is not None
    assert placed.read_bytes() == b""
    assert member.check(file_of(b""))
    member.close()


def test_a_link_on_the_way_leads_nowhere(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_bytes(b"kept")
    place = tmp_path / "files" / "tickets"
    place.mkdir(parents=True)
    (place / "north").symlink_to(outside)
    (place / "kept").symlink_to(outside / "kept")
    member = opened(tmp_path)
    file = with_file(member, CONTENT)

    elsewhere = member.place(file, "tickets", "north/kept")
    replaced = member.place(file, "tickets", "kept")

    assert elsewhere == place / "incoming" / file.digest.hex()
    assert (elsewhere.read_bytes(), (place / "kept").read_bytes()) == (CONTENT, CONTENT)
    assert replaced == place / "kept"
    assert not replaced.is_symlink()
    assert (outside / "kept").read_bytes() == b"kept"
    member.close()


def test_a_directory_in_the_way_stays_and_the_place_is_another_one(tmp_path: Path) -> None:
    place = tmp_path / "files" / "tickets"
    (place / "a").mkdir(parents=True)
    (place / "b").write_bytes(b"a file")
    member = opened(tmp_path)
    file = with_file(member, CONTENT)

    assert member.place(file, "tickets", "a") == place / "incoming" / file.digest.hex()
    assert member.place(file, "tickets", "b/c") == place / "incoming" / file.digest.hex()
    assert (place / "b").read_bytes() == b"a file"
    member.close()


def test_a_file_that_was_dropped_is_not_placed(tmp_path: Path) -> None:
    member = opened(tmp_path)
    file = with_file(member, CONTENT)
    member.drop_file(file)

    assert member.place(file, "tickets", "a") is None
    member.close()


def store(member: MemberDisk) -> None:
    member.store_bodies(bodies(3, 4))
    with_file(member, CONTENT)
    member.drop_file(file_of(b"old"))
    member.write([PromiseRecord(2)])


def before(member: MemberDisk) -> None:
    member.store_bodies(bodies(1, 2))
    with_file(member, b"old")
    member.write(RECORDS)
    member.forget_bodies((key(1), key(2)))


def test_the_system_calls_of_a_write(tmp_path: Path) -> None:
    bodies_and_files = ["remove", "open", "write", "sync", "rename", "open", *["write"] * 3, "sync", "remove"]
    assert calls_of(tmp_path, store, before) == [*bodies_and_files, "write", "sync", "write"]


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_a_write_survives_the_failure_of_each_of_its_calls(tmp_path: Path, number: int) -> None:
    calls = calls_of(tmp_path / "model", store, before)
    for nth, call in enumerate(calls):
        root = tmp_path / str(nth)
        disk = FailingFilesDisk()
        member = opened(root, disk)
        before(member)
        disk.number = number
        disk.failing = {call: calls[:nth].count(call)}

        with pytest.raises(SpoolError) as caught:
            store(member)

        # It is read from memory meanwhile.
        assert member.body(key(3)) == bytes([3]) * 100
        disk.failing = {}
        if call == "sync":
            with pytest.raises(WriterClosed):
                member.write([PromiseRecord(2)])
            member.close()
            member = opened(root)
            store(member)
        else:
            assert isinstance(caught.value, SpoolFull) == (number == errno.ENOSPC), (nth, call)
            member.write([PromiseRecord(2)])
        member.close()
        again = opened(root)
        assert again.image.promised == 2
        assert {key(3), key(4)} <= again.contents.bodies
        assert again.check(file_of(CONTENT))
        again.close()


def test_a_failed_sync_is_one_line_with_its_remedy(tmp_path: Path) -> None:
    disk = FailingFilesDisk()
    member = opened(tmp_path, disk)
    member.store_bodies(bodies(1))
    disk.failing = {"sync": 0}

    with pytest.raises(StoreUnsure, match="a sync has failed: Input/output error; check the disk"):
        member.flush()

    member.close()


def test_placing_survives_the_failure_of_each_of_its_calls(tmp_path: Path) -> None:
    def place(member: MemberDisk) -> None:
        assert member.place(file_of(CONTENT), "tickets", "a") is not None

    def brought(member: MemberDisk) -> None:
        with_file(member, CONTENT)
        member.write(RECORDS)

    calls = calls_of(tmp_path / "model", place, brought)
    assert calls == ["make", "write", "sync", "put"]
    for nth, call in enumerate(calls):
        disk = FailingFilesDisk()
        member = opened(tmp_path / call, disk)
        brought(member)
        disk.number, disk.failing = errno.ENOSPC, {call: 0}

        with pytest.raises(SpoolError, match="No space left"):
            place(member)

        assert not (tmp_path / call / "files" / "tickets" / "a").exists(), nth
        disk.failing = {}
        if call == "sync":
            member.close()
            member = opened(tmp_path / call)
        place(member)
        assert (tmp_path / call / "files" / "tickets" / "a").read_bytes() == CONTENT
        member.close()


def test_what_is_only_in_memory_is_counted(tmp_path: Path) -> None:
    member = opened(tmp_path)
    for number in range(1, 1 + FLUSH_BYTES // 160_000):
        member.store_bodies(((key(number), bytes(160_000)),))
    assert not member.wants_flush
    member.store_bodies(((key(100), bytes(160_000)),))
    assert member.wants_flush
    assert not member.is_behind
    with_file(member, bytes(BEHIND_BYTES), 64 * 1024)
    assert member.is_behind

    member.flush()

    assert not member.wants_flush
    assert not member.is_behind
    member.close()


def test_a_directory_has_one_process(tmp_path: Path) -> None:
    member = opened(tmp_path)
    with pytest.raises(SpoolOwned, match="another process"):
        opened(tmp_path)
    member.close()
