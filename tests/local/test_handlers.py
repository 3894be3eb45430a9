"""Requests to a handler at real daemons: one server answers, and another one when it is gone or parted."""

import asyncio
import subprocess
import sys
import threading

import pytest
from tests.support.waiting import until

from hopring import (
    NoResponders,
    RepliesTimedOut,
    Request,
    RequestFailed,
    Session,
    WrongValue,
    local_cluster,
    sync,
)

pytestmark = pytest.mark.slow

SECONDS_MAX = 60.0


def run(story: object) -> None:
    async def limited() -> None:
        async with asyncio.timeout(2 * SECONDS_MAX):
            await story  # type: ignore[misc]

    asyncio.run(limited())


async def serve(session: Session, answer: bytes) -> list[Request]:
    """Serves handler 1 with one answer; returns the requests that it gets."""
    seen: list[Request] = []

    def handler(request: Request) -> bytes:
        seen.append(request)
        if request.data == b"raise":
            raise KeyError("nothing")
        return answer

    await session.serve("g", handler, handler=1)
    return seen


def fence_of(seen: list[Request]) -> int:
    """The fence of the last request."""
    fence = seen[-1].fence
    assert fence is not None
    return fence


def test_one_server_answers_until_it_is_gone_or_on_the_other_side_of_a_split() -> None:
    async def story() -> None:
        async with (
            local_cluster({"eu": 2, "us": 1}, trace=False) as cluster,
            cluster.connect("eu1", name="caller") as caller,
            cluster.connect("us1", name="cut-off") as cut_off,
            cluster.connect("us1", name="far") as far,
            cluster.connect("eu2", name="near") as near,
        ):
            with pytest.raises(NoResponders):
                await caller.request("g", b"", handler=1)
            with pytest.raises(WrongValue, match="one server answers"):
                await caller.request("g", b"", handler=1, wait=2)
            async with cluster.connect("eu1", name="first") as first:
                seen_first = await serve(first, b"first")
                assert (await caller.request("g", b"1", handler=1)).data == b"first"
                seen_far = await serve(far, b"far")
                for _ in range(5):
                    assert (await caller.request("g", b"2", handler=1)).data == b"first"
                with pytest.raises(RequestFailed, match="KeyError: 'nothing'"):
                    await caller.request("g", b"raise", handler=1)
                with pytest.raises(NoResponders):
                    await caller.request("g", b"", handler=2)
                with pytest.raises(NoResponders):
                    await caller.request("g", b"")
                assert seen_far == []
                first.abort()
            assert (await caller.request("g", b"3", handler=1)).data == b"far"
            assert fence_of(seen_far) > fence_of(seen_first)

            seen_near = await serve(near, b"near")
            await cluster.partition({"eu"}, {"us"})
            assert (await caller.request("g", b"4", handler=1)).data == b"near"
            assert fence_of(seen_near) > fence_of(seen_far)
            with pytest.raises(RepliesTimedOut):
                await cut_off.request("g", b"5", handler=1, timeout_seconds=3.0)
            assert [one.data for one in seen_far] == [b"3"]
            await cluster.heal()
            await cluster.settled()
            assert (await cut_off.request("g", b"6", handler=1)).data == b"near"
            await near.serve("g", lambda request: request.data)  # All requests that are for no handler.
            assert (await caller.request("g", b"7")).data == b"7"

    run(story())


def test_blocking_servers_and_the_commands() -> None:
    hop = [sys.executable, "-m", "hopring.cli.main"]
    with (
        sync.local_cluster({"eu": 1}, trace=False) as cluster,
        cluster.connect("eu1", name="one") as one,
        cluster.connect("eu1", name="caller") as caller,
    ):
        at = ["--at", cluster.url("eu1")]
        one.serve("g", lambda request: str(request.fence).encode(), handler=1)
        ended = threading.Event()

        def work() -> None:
            while not ended.is_set():
                one.handle_requests(timeout_seconds=0.05)

        thread = threading.Thread(target=work)
        thread.start()
        try:
            asked = [*hop, "request", "g", "", "--handler", "1", *at]
            first = subprocess.run(asked, capture_output=True, text=True, timeout=SECONDS_MAX, check=True)
            assert int(first.stdout) > 0
            command = [
                "reply",
                "g",
                *at,
                "--name",
                "two",
                "--handler",
                "1",
                "--",
                "sh",
                "-c",
                "echo $HOP_FENCE",
            ]
            with subprocess.Popen([*hop, *command], stderr=subprocess.PIPE, text=True) as two:
                assert two.stderr is not None
                assert "serves g" in two.stderr.readline()
                until(lambda: len(caller.members("g?handler1").members) == 2, lambda: "two does not serve")
                ended.set()
                thread.join(SECONDS_MAX)
                one.close()
                second = subprocess.run(asked, capture_output=True, text=True, timeout=SECONDS_MAX, check=True)
                assert int(second.stdout) > int(first.stdout)
                two.terminate()
            both = subprocess.run(
                [*asked, "--wait", "2"], capture_output=True, timeout=SECONDS_MAX, check=False
            )
            assert both.returncode == 2
        finally:
            ended.set()
            thread.join(SECONDS_MAX)
