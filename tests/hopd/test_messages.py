"""Limits and properties of messages at real daemons: sizes, buffers, types, groups, private groups, batches."""

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Iterator

import pytest
from tests.hopd.daemon_processes import DaemonProcesses
from tests.hopd.served_cluster import SECONDS_MAX, ServedCluster, cluster, data, meet, take

from hopring import SAFE, UNRELIABLE, Message, MessageTooLarge, Session, View, connect, sync

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedCluster]:
    config = cluster()
    with DaemonProcesses(config, tmp_path_factory.mktemp("served"), module="hopring.daemon.hopd") as daemons:
        daemons.start()
        daemons.wait(daemons.together)
        yield ServedCluster(daemons, config)


@contextlib.asynccontextmanager
async def pair(served: ServedCluster) -> AsyncIterator[tuple[Session, Session]]:
    async with (
        asyncio.timeout(SECONDS_MAX),
        connect(served.url("eu1"), name="anna") as anna,
        connect(served.url("us1"), name="bert") as bert,
    ):
        yield anna, bert


def test_the_largest_message_arrives_whole_and_one_byte_more_is_refused_with_figures(
    served: ServedCluster,
) -> None:
    async def story() -> None:
        async with pair(served) as (anna, bert):
            group = await anna.join("g")
            limit = bert.message_bytes_max
            largest = bytes(range(256)) * (limit // 256) + bytes(limit % 256)
            with pytest.raises(MessageTooLarge, match="split it") as caught:
                await bert.multicast("g", largest + b"x")
            assert (caught.value.size_bytes, caught.value.limit_bytes) == (limit + 1, limit)
            for service in (SAFE, UNRELIABLE):
                await bert.multicast("g", largest, service=service)
            seen = await take(group, 2)
            assert data(seen) == [largest, largest]

    asyncio.run(story())


def test_several_buffers_are_one_message_and_every_type_is_kept(served: ServedCluster) -> None:
    async def story() -> None:
        async with pair(served) as (anna, bert):
            group = await anna.join("g")
            whole = bytearray(b"scatter, ")
            await bert.multicast("g", [whole, b"", memoryview(b"..gather")[2:]], type=0xFFFF)
            whole[:] = b"too late!"  # The library has made a copy.
            await bert.multicast("g", [], type=0)
            with pytest.raises(ValueError, match="0 to 65535"):
                await bert.multicast("g", b"", type=0x1_0000)
            seen = [one for one in await take(group, 2) if isinstance(one, Message)]
            assert [(one.data, one.type) for one in seen] == [(b"scatter, gather", 0xFFFF), (b"", 0)]

    asyncio.run(story())


def test_a_message_to_several_groups_comes_once_and_self_discard_spares_the_sender(
    served: ServedCluster,
) -> None:
    async def story() -> None:
        async with pair(served) as (anna, bert):
            groups = [await one.join("g") for one in (anna, bert)]
            await meet(*groups)
            await anna.join("h")
            await bert.multicast(["g", "h", anna.private_group], b"one", self_discard=True)
            await bert.multicast(["h", "g"], b"two")
            seen = [one for one in await take(anna, 2) if isinstance(one, Message)]
            assert [one.groups for one in seen] == [("g", "h", "#anna#eu1"), ("h", "g")]
            assert data(await take(groups[1], 1)) == [b"two"]

    asyncio.run(story())


def test_a_private_message_needs_no_join_and_reaches_nobody_else(served: ServedCluster) -> None:
    async def story() -> None:
        async with pair(served) as (anna, bert):
            await bert.multicast(anna.private_group, b"psst", service=SAFE)
            (message,) = await take(anna, 1)
            assert isinstance(message, Message)
            await anna.multicast(message.sender, b"what?")
            (answer,) = await take(bert, 1)
            assert isinstance(answer, Message)
            assert (answer.sender, answer.groups) == ("#anna#eu1", ("#bert#us1",))

    asyncio.run(story())


def test_messages_sent_inside_a_join_block_are_delivered_before_its_leave(served: ServedCluster) -> None:
    async def story() -> None:
        async with pair(served) as (anna, bert):
            group = await anna.join("g")
            async with bert.join("g") as other:
                await meet(group)  # It saw a view of itself alone.
                for number in range(50):
                    await other.multicast(b"%d" % number, service=SAFE)
            seen = await take(group, 50)
            left = await group.receive()
            assert [one.cause for one in seen if isinstance(one, View)] == ["join"]
            assert isinstance(left, View)
            assert (left.cause, [one.name for one in left.members]) == ("leave", ["anna"])

    asyncio.run(story())


def test_tcp_keepalive_is_on_so_that_a_vanished_host_is_noticed(served: ServedCluster) -> None:
    with sync.connect(served.url("eu1")) as anna, socket.socket(fileno=os.dup(anna.fileno())) as same:
        wanted = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1), (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 10)]
        wanted += [(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 19_000)]
        assert [same.getsockopt(level, option) for level, option, _ in wanted] == [one[2] for one in wanted]


def test_batches_have_everything_in_the_order_of_the_session(served: ServedCluster) -> None:
    with (
        sync.connect(served.url("eu1"), name="anna") as anna,
        sync.connect(served.url("us1"), name="bert") as bert,
    ):
        group = anna.join("g")
        for number in range(500):
            bert.multicast("g", [b"%d" % number])
        bert.join("g")
        got: list[bytes] = []
        causes: list[str] = []
        tables = 0
        while len(got) < 500 or len(causes) < 2:
            batch = group.receive_many(max_messages=64, max_wait_seconds=0.2)
            got += [one.data for one in batch.messages]
            causes += [one.cause for one in batch if isinstance(one, View)]
            assert len(batch.messages) <= 64
            tables += batch.to_arrow().num_rows
        assert got == [b"%d" % number for number in range(500)]
        assert (causes, tables) == (["join", "join"], 502)

    async def story() -> None:
        async with pair(served) as (anna, bert):
            await anna.join("g")
            await asyncio.gather(*[bert.multicast("g", b"%d" % at) for at in range(20)])
            got: list[bytes] = []
            while len(got) < 20:
                with contextlib.suppress(TimeoutError):  # A cancelled call for a batch takes no message.
                    await asyncio.wait_for(anna.receive_many(max_messages=100, max_wait_seconds=5.0), 0.001)
                got += [one.data for one in (await anna.receive_many()).messages]
            assert got == [b"%d" % at for at in range(20)]

    asyncio.run(story())
