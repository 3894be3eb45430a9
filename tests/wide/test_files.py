"""Files between clusters: they arrive whole, at the place that is told, and sources go in the end alone."""

import asyncio
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.wide.worlds import Member, comes, run, serves

from hopring.cli.main import cli
from hopring.client.aio import connect
from hopring.wide import sync
from hopring.wide.errors import FileRefused, NotEverywhere
from hopring.wide.library.events import Completed, WideMessage
from hopring.wide.library.files import ReceivedFile, SentFile
from hopring.wide.library.sets import JoinedSet, link, sender
from hopring.wide.local_clusters.blocking import LocalWide

pytestmark = pytest.mark.slow

CONTENT = os.urandom(2_000_000)


@pytest.fixture(scope="module")
def world() -> Iterator[LocalWide]:
    with LocalWide({"hub": 1, "norway": 1}) as made:
        yield made


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "seg17").write_bytes(CONTENT)
    return tmp_path / "seg17"


async def received(joined: JoinedSet) -> tuple[bytes, ReceivedFile]:
    """The next message of a set, with its file."""
    while True:
        event = await joined.receive()
        if isinstance(event, WideMessage):
            assert event.file is not None
            return event.data, event.file


async def completed(joined: JoinedSet) -> SentFile:
    """The file of the next completion of a set."""
    while True:
        event = await joined.receive()
        if isinstance(event, Completed):
            assert event.file is not None
            return event.file


def test_a_file_arrives_at_its_place_and_its_source_goes_when_all_have_it(world: LocalWide, path: Path) -> None:
    async def story() -> None:
        async with (
            Member(world, "hub", "waves") as hub,
            Member(world, "norway", "waves") as norway,
            connect(world.url("hub")) as operator,
        ):
            await link(operator, "norway").off()
            receipt = await hub.send_file(path, b"segment 17", name="north/17", delete_source=True)
            data, here = await received(hub)
            assert (data, here.path.read_bytes()) == (b"segment 17", CONTENT)
            with pytest.raises(NotEverywhere):
                await receipt.everywhere(timeout_seconds=0.2)
            assert path.exists()
            await link(operator, "norway").on()
            data, there = await received(norway)
            assert (data, there.size_bytes, there.host) == (b"segment 17", len(CONTENT), socket.gethostname())
            assert there.path.read_bytes() == CONTENT
            assert there.path.parts[-3:] == ("waves", "north", "17")
            await receipt.everywhere()
            assert not path.exists()
            assert (await completed(hub)).path == path

    run(story())


def test_the_completion_comes_to_the_group_though_the_sender_is_gone(world: LocalWide, path: Path) -> None:
    async def story() -> None:
        async with (
            Member(world, "norway", "gone") as norway,
            Member(world, "hub", "gone", app="another") as hub,
            connect(world.url("hub")) as operator,
        ):
            await link(operator, "norway").off()
            async with connect(world.url("hub"), name="station") as session, sender(session, "gone") as station:
                await station.send_file(path, b"", to="norway", delete_source=True)
            await link(operator, "norway").on()
            _, there = await received(norway)
            assert there.path.parent.name == "incoming"
            assert there.path.read_bytes() == CONTENT
            done = await completed(hub)
            assert (done.path, done.deletes, done.sha256) == (path, True, there.sha256)
            assert path.exists()
            assert done.delete_source()
            assert not path.exists()

    run(story())


def test_a_file_comes_whole_though_both_members_are_killed_on_the_way(world: LocalWide, tmp_path: Path) -> None:
    content = os.urandom(6_000_000)
    (tmp_path / "large").write_bytes(content)

    async def kill_some() -> None:
        for name in ("norway", "hub", "norway"):
            await asyncio.to_thread(world.crash_cluster, name)
            await asyncio.to_thread(world.restart, name)
            await comes(lambda name=name: serves(world, name))  # type: ignore[misc]

    async def story() -> None:
        async with Member(world, "hub", "killed") as hub, Member(world, "norway", "killed") as norway:
            killing = asyncio.create_task(kill_some())
            receipt = await hub.send_file(tmp_path / "large", b"all of it", to="norway")
            _, there = await received(norway)
            assert there.path.read_bytes() == content
            await killing
            await receipt.everywhere()
        await asyncio.to_thread(world.settled)

    run(story())


def test_a_name_that_leaves_the_directory_is_refused_and_nothing_is_sent(world: LocalWide, path: Path) -> None:
    async def story() -> None:
        async with Member(world, "hub", "names") as hub:
            with pytest.raises(FileRefused, match=r"'\.\./x' is no name for a file.*; give a relative name"):
                await hub.send_file(path, name="../x")
            with pytest.raises(FileRefused, match="No such file or directory; name a file"):
                await hub.send_file(path.with_name("nothing"))
            await hub.send_file(path, b"right", name="x")
            assert (await received(hub))[0] == b"right"

    run(story())


def test_files_without_an_event_loop_and_by_command(world: LocalWide, path: Path, tmp_path: Path) -> None:
    runner = CliRunner()

    def put(*arguments: str) -> dict[str, object]:
        command = ["wide", "put", "put", "--file", str(world.path), "--cluster", "hub", "--json", *arguments]
        result = runner.invoke(cli, command)
        assert result.exit_code == 0, result.output
        found: dict[str, object] = json.loads(result.stdout)
        return found

    with sync.join(world.url("norway"), "put") as norway, sync.join(world.url("hub"), "put") as hub:
        hub.send_file(path, b"by a call", name="call").everywhere()
        assert put(str(path), "--name", "command", "--text", "by a command", "--delete")["everywhere"] is True
        assert not path.exists()
        events = [norway.receive() for _ in range(2)]
        found = [(one.data, one.file) for one in events if isinstance(one, WideMessage)]
        assert [data for data, _ in found] == [b"by a call", b"by a command"]
        for (_, file), name in zip(found, ("call", "command"), strict=True):
            assert file is not None
            assert file.path.name == name
            assert file.save(tmp_path / name).read_bytes() == CONTENT
    wrong = runner.invoke(
        cli, ["wide", "put", "put", str(tmp_path / "call"), "--file", str(world.path), "--name", ".."]
    )
    assert (wrong.exit_code, len(wrong.stderr.splitlines())) == (1, 1)
    assert "'..' is no name for a file" in wrong.stderr
