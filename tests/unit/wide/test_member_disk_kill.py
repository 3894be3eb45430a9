"""A process that is killed at each system call of a write: what was acknowledged is there, nothing is half."""

import signal
from pathlib import Path

import pytest
from tests.unit.wide.disk_samples import RECORDS, bodies, calls_of, file_of, key, killed_at, opened, with_file

from hopring.blocks.log.records import PromiseRecord
from hopring.wide.disk.member_disk import MemberDisk

CONTENT = bytes(range(256)) * 10


def begin(member: MemberDisk) -> None:
    """What was acknowledged: two bodies that are needed, one that is not, and a half of a file."""
    member.store_bodies(bodies(1, 2, 3, 4, 5))
    with_file(member, CONTENT[:1000])
    member.write(RECORDS)
    member.forget_bodies((key(1), key(2), key(3), key(4)))


def go_on(member: MemberDisk) -> None:
    """Further bodies, with which the old ones are merged, a file, records; then the file is placed."""
    member.store_bodies(bodies(6, 7))
    with_file(member, CONTENT)
    member.write([PromiseRecord(2)])
    member.forget_bodies((key(6),))
    member.flush()
    member.place(file_of(CONTENT), "tickets", "a")


CALLS = [
    *("open", "write", "sync", "rename"),
    *("open", "write", "write", "write", "sync"),
    *("write", "sync", "write"),
    "remove",
    *("make", "write", "sync", "put"),
]
PLACED = len(CALLS)


def test_the_calls_at_which_it_is_killed(tmp_path: Path) -> None:
    assert calls_of(tmp_path, go_on, begin) == CALLS


@pytest.mark.parametrize("at", range(len(CALLS)), ids=[f"{at}-{call}" for at, call in enumerate(CALLS)])
def test_nothing_acknowledged_is_lost_by_a_kill_at_each_call(tmp_path: Path, at: int) -> None:
    assert killed_at(tmp_path, at, CALLS, go_on, begin) == -signal.SIGKILL

    member = opened(tmp_path)

    assert member.body(key(5)) == bytes([5]) * 100
    assert member.piece(file_of(CONTENT[:1000]), 0, 1000) == CONTENT[:1000]
    assert member.damaged == []
    written = member.image.promised == 2
    assert written or at <= 10, "they were synced before"
    if written:
        # What was stored before the records is there with them.
        assert member.body(key(7)) == bytes([7]) * 100
        assert member.check(file_of(CONTENT))
    placed = tmp_path / "files" / "tickets" / "a"
    assert not placed.exists()
    # It goes on: what is stored again is stored once, and half a copy does not matter.
    member.store_bodies(tuple([one for one in bodies(6, 7) if one[0] not in member.contents.bodies]))
    with_file(member, CONTENT)
    member.write([PromiseRecord(2)])
    assert member.place(file_of(CONTENT), "tickets", "a") == placed
    assert placed.read_bytes() == CONTENT
    assert [one.name for one in placed.parent.iterdir()] == ["a"]
    member.close()
    again = opened(tmp_path)
    assert {key(5), key(6), key(7)} <= again.contents.bodies
    again.close()
