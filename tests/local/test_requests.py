"""Requests and replies at real daemons: servers that die, part, fail and are slow; callers that move."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.waiting import until

from hopring import (
    ALL,
    MAJORITY,
    Message,
    MessageTooLarge,
    MissingReplies,
    NoResponders,
    RepliesTimedOut,
    Request,
    RequestFailed,
    RequestRefused,
    Session,
    SessionClosed,
    connect,
    local_cluster,
    sync,
)
from hopring.spool.writer import SpoolOptions
from hopring.spooler import Spooler

pytestmark = pytest.mark.slow

SECONDS_MAX = 60.0
SITES = {"eu": 2, "us": 1}


def echo(request: Request) -> bytes:
    return request.data


async def serve(session: Session, answer: bytes) -> list[Request]:
    """Serves the group with one answer; returns the requests that it gets."""
    seen: list[Request] = []

    def handler(request: Request) -> bytes:
        seen.append(request)
        return answer

    await session.serve("g", handler)
    return seen


@contextmanager
def server_process(url: str, name: str, *command: str) -> Iterator[subprocess.Popen[str]]:
    """`hop reply` as a process, ready to serve."""
    hop = [sys.executable, "-m", "hopring.cli.main", "reply", "g", "--at", url, "--name", name, "--", *command]
    process = subprocess.Popen(hop, stderr=subprocess.PIPE, text=True)
    alarm = threading.Timer(SECONDS_MAX, process.kill)
    alarm.start()
    try:
        assert process.stderr is not None
        assert "serves g" in process.stderr.readline()
        yield process
    finally:
        alarm.cancel()
        process.kill()
        process.wait(SECONDS_MAX)
        assert process.stderr is not None
        process.stderr.close()


def run(story: object) -> None:
    async def limited() -> None:
        async with asyncio.timeout(3 * SECONDS_MAX):
            await story  # type: ignore[misc]

    asyncio.run(limited())


def test_quorums_replies_in_the_order_and_many_calls_at_a_time() -> None:
    async def story() -> None:
        async with (
            local_cluster(SITES, trace=False) as cluster,
            cluster.connect("eu1", name="caller") as caller,
            cluster.connect("eu1", name="watcher") as watcher,
            cluster.connect("eu2", name="one") as one,
            cluster.connect("us1", name="two") as two,
        ):
            with pytest.raises(NoResponders):
                await caller.request("g", b"")
            members = await watcher.join("g")  # A member that does not serve is not asked.
            seen = await serve(one, b"1")
            with pytest.raises(MissingReplies) as alone:
                await caller.request("g", b"", wait=2)
            assert alone.value.servers == 1
            await serve(two, b"2")
            assert (await caller.request("g", b"x", headers={"k": "v"})).data in (b"1", b"2")
            for wait in (2, MAJORITY, ALL):
                replies = await caller.request("g", b"x", wait=wait)
                assert sorted((reply.server, reply.data) for reply in replies) == [
                    ("#one#eu2", b"1"),
                    ("#two#us1", b"2"),
                ]
            assert [request.again for request in seen] == [False] * 5
            assert {request.caller for request in seen} == {"#caller#eu1"}
            assert dict(seen[1].headers) == {"k": "v"}
            each = [reply.data async for reply in caller.replies_to("g", b"x")]
            assert sorted(each) == [b"1", b"2"]
            await members.multicast(b"before")
            await caller.request("g", b"x", wait=ALL, reply_to="group")
            await members.multicast(b"after")
            heard = []
            async for message in members.messages():
                heard.append(message.data)
                if message.data == b"after":
                    break
            assert heard[0] == b"before"
            assert sorted(heard[1:3]) == [b"1", b"2"]
            many = await asyncio.gather(*[caller.request("g", b"x") for _ in range(500)])
            assert len(many) == 500
            assert all(len(replies) > 0 for replies in many)
            assert watcher.joined == ("g",)
            assert one.joined == ()
            with pytest.raises(RequestRefused, match="serves it already"):
                one.serve("g", echo)

    run(story())


def test_a_server_that_is_killed_is_named_and_the_partial_answers_are_there() -> None:
    async def story() -> None:
        async with (
            local_cluster(SITES, trace=False) as cluster,
            cluster.connect("eu1", name="caller") as caller,
            cluster.connect("us1", name="good") as good,
        ):
            await serve(good, b"fine")
            with server_process(cluster.url("eu2"), "victim", "sleep", "60") as victim:
                call = asyncio.create_task(caller.request("g", b"x", wait=ALL))
                while not await _children(victim.pid):
                    await asyncio.sleep(0.02)
                os.kill(victim.pid, signal.SIGKILL)
                with pytest.raises(MissingReplies) as missing:
                    await call
            assert missing.value.missing == ("#victim#eu2",)
            assert [reply.data for reply in missing.value.replies] == [b"fine"]
            assert missing.value.servers == 2
            # The only server dies: the caller learns that, too.
            await good.close()
            with server_process(cluster.url("eu2"), "victim", "sleep", "60") as victim:
                call = asyncio.create_task(caller.request("g", b"x"))
                while not await _children(victim.pid):
                    await asyncio.sleep(0.02)
                os.kill(victim.pid, signal.SIGKILL)
                with pytest.raises(MissingReplies, match="#victim#eu2"):
                    await call
            with pytest.raises(NoResponders):
                await caller.request("g", b"x")

    run(story())


async def _children(pid: int) -> list[int]:
    listed = await asyncio.to_thread(
        subprocess.run, ["ps", "--ppid", str(pid), "-o", "pid="], capture_output=True, text=True, check=False
    )
    return [int(one) for one in listed.stdout.split()]


async def _waits(caller: Session, seen: list[Request], count: int) -> None:
    while len(seen) < count:
        await asyncio.sleep(0.01)
    assert caller.connected


def test_a_split_ends_the_wait_for_servers_on_the_other_side_and_a_merge_begins_anew() -> None:
    async def story() -> None:
        async with (
            local_cluster(SITES, trace=False) as cluster,
            cluster.connect("eu1", name="caller") as caller,
            cluster.connect("eu2", name="near") as near,
            cluster.connect("us1", name="far") as far,
        ):
            await serve(near, b"near")
            release = asyncio.Event()
            seen: list[Request] = []

            async def slow(request: Request) -> bytes:
                seen.append(request)
                await release.wait()
                return b"far"

            await far.serve("g", slow)
            call = asyncio.create_task(caller.request("g", b"1", wait=ALL))
            await _waits(caller, seen, 1)
            await cluster.partition({"eu"}, {"us"})
            with pytest.raises(MissingReplies) as missing:
                await call
            assert missing.value.missing == ("#far#us1",)
            assert [reply.data for reply in missing.value.replies] == [b"near"]
            # While it is split, each side has its own servers.
            await cluster.settled()
            assert [reply.data for reply in await caller.request("g", b"2", wait=ALL)] == [b"near"]
            await cluster.heal()
            await cluster.settled()
            release.set()
            while len(replies := await caller.request("g", b"3", wait=ALL)) < 2:
                await asyncio.sleep(0.05)
            assert sorted(reply.data for reply in replies) == [b"far", b"near"]
            assert [request.data for request in seen].count(b"1") == 1
            assert [request.data for request in seen].count(b"2") == 0

    run(story())


def test_the_daemon_of_the_caller_dies_and_nothing_is_done_twice() -> None:
    async def story() -> None:
        async with (
            local_cluster(SITES, trace=False) as cluster,
            connect([cluster.url("eu1"), cluster.url("us1")], name="caller") as caller,
            cluster.connect("eu2", name="one") as one,
        ):
            release = asyncio.Event()
            seen: list[Request] = []

            async def slow(request: Request) -> bytes:
                seen.append(request)
                await release.wait()
                return request.data

            await one.serve("g", slow)
            tasks = [asyncio.create_task(caller.request("g", str(at).encode())) for at in range(20)]
            await _waits(caller, seen, 20)
            await cluster.crash("eu1")
            async for event in caller:
                if type(event).__name__ == "Reconnected":
                    break
            assert caller.daemon == "us1"
            release.set()
            replies = await asyncio.gather(*tasks)
            assert [one.data for one in replies] == [str(at).encode() for at in range(20)]
            assert len(seen) == 20

    run(story())


def test_errors_of_a_handler_and_limits() -> None:
    async def story() -> None:
        async with (
            local_cluster({"eu": 1}, trace=False) as cluster,
            cluster.connect("eu1", name="caller") as caller,
            cluster.connect("eu1", name="one") as one,
        ):
            started = asyncio.Event()

            async def handler(request: Request) -> bytes:
                match request.data:
                    case b"raise":
                        raise ValueError("a secret path is not part of it\n/etc")
                    case b"long":
                        return bytes(caller.message_bytes_max)
                    case b"text":
                        return "text"  # type: ignore[return-value]
                    case b"sleep":
                        started.set()
                        await asyncio.sleep(SECONDS_MAX)
                    case b"none":
                        return None  # type: ignore[return-value]
                return request.data

            async with one.serve("g", handler):
                with pytest.raises(RequestFailed) as failed:
                    await caller.request("g", b"raise")
                assert failed.value.text == "ValueError: a secret path is not part of it\n/etc"
                assert failed.value.server == "#one#eu1"
                assert "Traceback" not in str(failed.value)
                for data, text in ((b"long", "too long to be sent"), (b"text", "WrongType")):
                    with pytest.raises(RequestFailed, match=text):
                        await caller.request("g", data)
                assert (await caller.request("g", b"none")).data == b""
                with pytest.raises(MessageTooLarge):
                    await caller.request("g", bytes(caller.message_bytes_max))
                most = bytes(caller.message_bytes_max - 100)
                assert (await caller.request("g", most)).data == most
                with pytest.raises(RepliesTimedOut) as late:
                    await caller.request("g", b"sleep", timeout_seconds=0.05)
                assert late.value.missing == ("#one#eu1",)
                assert isinstance(late.value, TimeoutError)
                # A reply to nobody: the caller is gone.
                started.clear()
                async with cluster.connect("eu1", name="brief") as brief:
                    task = asyncio.create_task(brief.request("g", b"sleep"))
                    await started.wait()
                    task.cancel()
                # A session that ends while it waits.
                started.clear()
                brief = await cluster.connect("eu1", name="brief")
                task = asyncio.create_task(brief.request("g", b"sleep"))
                await started.wait()
                brief.abort()
                with pytest.raises(SessionClosed):
                    await task
                assert (await caller.request("g", b"still here")).data == b"still here"
            with pytest.raises(NoResponders):
                await caller.request("g", b"after the end of the block")

    run(story())


def test_a_leave_ends_serving() -> None:
    async def story() -> None:
        async with (
            local_cluster({"eu": 1}, trace=False) as cluster,
            cluster.connect("eu1", name="caller") as caller,
            cluster.connect("eu1", name="one") as one,
        ):
            async with one.join("g") as group:
                serving = group.serve(echo)
                await serving
                assert serving(Request("g", b"x", {}, "", None, None, False)) == b"x"  # type: ignore[arg-type]
                assert (await group.request(b"mine")).data == b"mine"
            with pytest.raises(NoResponders):
                await caller.request("g", b"")

    run(story())


def test_blocking_sessions_ask_and_serve(tmp_path: Path) -> None:
    with (
        sync.local_cluster({"eu": 1, "us": 1}, trace=False) as cluster,
        cluster.connect("eu1", name="caller") as caller,
        cluster.connect("eu1", name="spooler") as spooling,
        cluster.connect("us1", name="one") as one,
    ):
        with pytest.raises(NoResponders):
            caller.request("g", b"")
        group = one.join("g")
        handled: list[int] = []

        @group.serve
        def handler(request: Request) -> bytes:
            if request.data == b"raise":
                raise KeyError("nothing")
            return request.data[::-1]

        until(lambda: bool(spooling.members("g?servers").members), lambda: "the server is not there")
        spooler = Spooler(spooling, tmp_path, ["*"], SpoolOptions())
        spooler.step(0.1)
        assert set(spooler.writers) == {"g"}  # In the group of servers it would count as one.
        spooler.close()
        ended = threading.Event()

        def work() -> None:
            while not ended.is_set():
                handled.append(one.handle_requests(timeout_seconds=0.05))

        thread = threading.Thread(target=work)
        thread.start()
        try:
            assert caller.request("g", b"abc", timeout_seconds=SECONDS_MAX).data == b"cba"
            with pytest.raises(RequestFailed, match="KeyError: 'nothing'"):
                caller.request("g", b"raise", timeout_seconds=SECONDS_MAX)
            assert [reply.data for reply in caller.replies_to("g", b"xy")] == [b"yx"]
        finally:
            ended.set()
            thread.join(SECONDS_MAX)
        assert sum(handled) == 3
        assert handler(Request("g", b"ab", {}, "", None, None, False)) == b"ba"  # type: ignore[arg-type]
        with pytest.raises(RepliesTimedOut):
            caller.request("g", b"nobody reads", timeout_seconds=0.1)
        group.leave()
        with pytest.raises(NoResponders):
            caller.request("g", b"")
        caller.multicast(caller.private_group, b"plain messages as ever")
        event = caller.receive(timeout_seconds=SECONDS_MAX)
        assert isinstance(event, Message)


def hop(*words: str, stdin: bytes = b"") -> tuple[int, str, str]:
    ended = subprocess.run(
        [sys.executable, "-m", "hopring.cli.main", *words],
        input=stdin,
        capture_output=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    return ended.returncode, ended.stdout.decode(), ended.stderr.decode()


def test_the_commands() -> None:
    with sync.local_cluster({"eu": 1, "us": 1}, trace=False) as cluster:
        at = cluster.url("eu1")
        code, _, text = hop("request", "g", "hi", "--at", at)
        assert (code, "nobody serves it" in text) == (1, True)
        with (
            server_process(cluster.url("eu1"), "upper", "tr", "a-z", "A-Z"),
            server_process(cluster.url("us1"), "facts", "sh", "-c", 'echo "$HOP_REQUEST_GROUP $(cat)"'),
        ):
            code, out, _ = hop("request", "g", "hi", "--at", at, "--wait", "all")
            assert code == 0
            assert sorted(out.splitlines()) == ["", "#facts#us1: g hi", "#upper#eu1: HI"]
            code, out, _ = hop("request", "g", "-", "--at", at, "--json", "--wait", "2", stdin=b"\xffx")
            assert code == 0
            assert '"data_base64": "/1g="' in out
            assert hop("request", "g", "hi", "--at", at, "--wait", "none")[0] == 2
        with server_process(cluster.url("eu1"), "broken", "sh", "-c", "echo no such price >&2; exit 3"):
            until(lambda: "exit code 3: no such price" in hop("request", "g", "hi", "--at", at)[2], lambda: "")
            code, _, text = hop("request", "g", "hi", "--at", at, "--json")
            assert (code, "CommandFailed: exit code 3: no such price" in text) == (1, True)
