"""Bodies and files of a process: items wait for their files, and what the disk refuses is tried again."""

import asyncio
import errno
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from tests.unit.wide.disk_samples import FailingFilesDisk, bodies, file_of, key, opened, with_file

from hopring.blocks.log.messages import Aside, LogMessage
from hopring.haul.ids import ClusterId, ClusterMask, ParcelId, Talk
from hopring.haul.link.frames import ChunkFrame, LinkFrame, ParcelFrame
from hopring.haul.managed_set import LineItem
from hopring.haul.member_events import (
    CheckFile,
    ConnectionId,
    FileChecked,
    GiveBody,
    GivePiece,
    HandOver,
    PlaceFile,
    SendPiece,
    SendStored,
)
from hopring.haul.order.events import CastKind, Parcel
from hopring.haul.states import LineFile
from hopring.haul.stored.bodies import ForgetBodies, StoreBodies
from hopring.haul.stored.keeping import BodyGiven, PieceGiven, decode_store_message
from hopring.haul.stored.shelf import DropFile, StoreFilePiece
from hopring.wide.disk.member_disk import FLUSH_BYTES, MemberDisk
from hopring.wide.process import stored_content
from hopring.wide.process.stored_content import StoredContent

CONTENT = b"segment 17" * 500
BOTH = ClusterMask(3)


class Process:
    """What `StoredContent` tells its process."""

    def __init__(self) -> None:
        self.frames: list[LinkFrame] = []
        self.asides: list[Any] = []
        self.handed: list[tuple[str, int, str]] = []
        self.bodies: list[bytes] = []
        self.checked: list[FileChecked] = []
        self.refusals: list[str] = []
        self.lost: list[str] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.when_refused: Callable[[], None] = lambda: None

    def send_frame(self, _connection: ConnectionId, frame: LinkFrame) -> None:
        self.frames.append(frame)

    def multicast_members(self, message: LogMessage) -> None:
        assert isinstance(message, Aside)
        self.asides.append(decode_store_message(message.data))

    def hand(self, output: HandOver, path: Path | None) -> None:
        self.handed.append((output.set, output.item.number, "" if path is None else path.name))
        self.bodies.append(output.body)

    def file_checked(self, checked: FileChecked) -> None:
        self.checked.append(checked)

    def disk_refuses(self, reason: str) -> None:
        self.refusals.append(reason)
        self.when_refused()

    def disk_lost(self, reason: str) -> None:
        self.lost.append(reason)

    def run_task(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self.tasks.append(asyncio.create_task(coroutine))


def parcel(number: int) -> Parcel:
    return Parcel(ParcelId(ClusterId(1), number), Talk(BOTH), CastKind.CBCAST, BOTH, 0, ())


def item(number: int, name: str = "tickets", *, file: bool = False, stored: bool = False) -> HandOver:
    came = LineFile("a", len(CONTENT), file_of(CONTENT).digest) if file else None
    of = name, "vendors", LineItem(number, parcel(number), None, came), b"" if stored else b"body", 0
    return HandOver(*of, key(number) if stored else None)


PLACE = PlaceFile(file_of(CONTENT), "tickets", "a")


def told(
    root: Path, story: Callable[[StoredContent, MemberDisk], None], disk: FailingFilesDisk | None = None
) -> Process:
    """What the process is told of a story, when all its tasks have ended."""

    async def run() -> Process:
        process, member = Process(), opened(root, disk)
        if disk is not None:
            process.when_refused = disk.heal
        story(StoredContent(member, process), member)
        while any(not one.done() for one in process.tasks):
            await asyncio.gather(*process.tasks)
        member.close()
        return process

    return asyncio.run(run())


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the disk refused is tried again soon."""
    monkeypatch.setattr(stored_content, "RETRY_SECONDS", 0.01)


def test_items_behind_a_file_wait_until_it_is_in_its_place_and_other_sets_do_not(tmp_path: Path) -> None:
    def story(content: StoredContent, member: MemberDisk) -> None:
        with_file(member, CONTENT)
        for output in (item(1), PLACE, item(2, file=True), item(3), item(1, "news")):
            content.carry_out(output)

    process = told(tmp_path, story)

    assert process.handed == [
        *(("tickets", 1, ""), ("news", 1, "")),
        *(("tickets", 2, "a"), ("tickets", 3, "")),
    ]
    assert (tmp_path / "files" / "tickets" / "a").read_bytes() == CONTENT


def test_a_place_that_the_disk_refuses_is_tried_again(tmp_path: Path) -> None:
    disk = FailingFilesDisk()
    disk.number = errno.ENOSPC

    def story(content: StoredContent, member: MemberDisk) -> None:
        with_file(member, CONTENT)
        disk.failing = {"make": 0}
        for output in (PLACE, item(2, file=True)):
            content.carry_out(output)

    process = told(tmp_path, story, disk)

    assert len(process.refusals) == 1
    assert "No space left on device" in process.refusals[0]
    assert (process.handed, process.lost) == ([("tickets", 2, "a")], [])


def test_a_sync_that_fails_ends_the_process_and_nothing_is_handed_over(tmp_path: Path) -> None:
    disk = FailingFilesDisk()

    def story(content: StoredContent, member: MemberDisk) -> None:
        with_file(member, CONTENT)
        disk.failing = {"sync": 0}
        content.carry_out(PLACE)

    process = told(tmp_path, story, disk)

    assert len(process.lost) == 1
    assert "a sync has failed" in process.lost[0]
    assert (process.refusals, process.handed) == ([], [])


def test_what_is_on_its_way_to_a_group_is_dropped_with_the_session(tmp_path: Path) -> None:
    def story(content: StoredContent, member: MemberDisk) -> None:
        with_file(member, CONTENT)
        content.carry_out(PLACE)
        content.carry_out(item(2, file=True))
        content.restart()
        content.carry_out(item(7))

    assert told(tmp_path, story).handed == [("tickets", 7, "")]


def test_stored_bodies_are_handed_over_and_sent(tmp_path: Path) -> None:
    frame = ParcelFrame("tickets", 1, 0, parcel(2), (), b"")

    def story(content: StoredContent, member: MemberDisk) -> None:
        content.carry_out(StoreBodies(bodies(1, 2)))
        member.flush()
        content.carry_out(item(1, stored=True))
        content.carry_out(SendStored(ConnectionId(1), frame, key(2)))
        content.carry_out(GiveBody("round", key(1)))
        content.carry_out(ForgetBodies((key(1), key(2))))

    process = told(tmp_path, story)

    assert process.bodies == [bytes([1]) * 100]
    (sent,) = process.frames
    assert isinstance(sent, ParcelFrame)
    assert sent.body == bytes([2]) * 100
    assert process.asides == [BodyGiven(key(1), bytes([1]) * 100)]


def test_pieces_of_files_are_sent_given_and_compared(tmp_path: Path) -> None:
    file = file_of(CONTENT)

    def story(content: StoredContent, member: MemberDisk) -> None:
        del member
        content.carry_out(StoreFilePiece(file, 0, CONTENT))
        content.carry_out(SendPiece(ConnectionId(1), file, 10, 20))
        content.carry_out(GivePiece("round", file, 10, 20))
        content.carry_out(CheckFile(file))

    process = told(tmp_path, story)

    assert process.frames == [ChunkFrame(file.digest, 10, CONTENT[10:30])]
    assert process.asides == [PieceGiven(file, 10, CONTENT[10:30])]
    assert process.checked == [FileChecked(file, True)]


def test_much_that_is_only_in_memory_is_written_without_records(tmp_path: Path) -> None:
    def story(content: StoredContent, member: MemberDisk) -> None:
        del member
        content.carry_out(DropFile(file_of(b"never there")))
        content.carry_out(StoreBodies(((key(1), bytes(FLUSH_BYTES)),)))

    told(tmp_path, story)

    member = opened(tmp_path)
    assert member.contents.bodies == {key(1)}
    member.close()
