"""Both shells against a session server behind a socket in this process.

Waiting, cancelling, iterating, ending.
"""

import asyncio
import socket
from tempfile import TemporaryDirectory
from typing import cast

import pytest
from tests.support.waiting import comes
from tests.unit.client.fake_server import FakeServer

from hopring import (
    AlreadyMember,
    ConnectError,
    Message,
    NotMember,
    Reconnect,
    Reconnected,
    SessionClosed,
    TimedOut,
    View,
    connect,
    sync,
)
from hopring.client.receiving.replay import Replay

SOON = Reconnect(delay_seconds_min=0.01, delay_seconds_max=0.05)


def test_a_group_ends_with_the_block_that_joined_it(server: FakeServer) -> None:
    async def story() -> list[str]:
        async with asyncio.timeout(60), connect(server.url, name="anna") as anna:
            async with anna.join("g") as group:
                await group.multicast(b"one")
                await anna.multicast([anna.private_group, "g"], b"two", type=3)
            seen = [type(event).__name__ async for event in group]
            with pytest.raises(NotMember):
                await group.leave()
            return seen

    assert asyncio.run(story()) == ["View", "Message", "Message"]


def test_errors_of_requests_reach_their_caller(server: FakeServer) -> None:
    async def story() -> None:
        async with asyncio.timeout(60), connect(server.url) as anna:
            await anna.join("g")
            with pytest.raises(AlreadyMember, match="leave it first"):
                await anna.join("g")

    asyncio.run(story())


def test_cancelling_a_receive_loses_nothing(server: FakeServer) -> None:
    async def story() -> bytes:
        async with asyncio.timeout(60), connect(server.url, membership=False) as anna:
            await anna.join("g")
            for _ in range(3):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(anna.receive(), 0.01)
            await anna.multicast("g", b"one")
            event = await anna.receive()
            assert isinstance(event, Message)
            return event.data

    assert asyncio.run(story()) == b"one"


def test_cancelled_receives_leave_nothing_behind(server: FakeServer) -> None:
    async def story() -> None:
        async with connect(server.url, membership=False) as session:
            for _ in range(20):
                for call in (session.receive(), session.receive_many()):
                    with pytest.raises(asyncio.TimeoutError):
                        await asyncio.wait_for(call, 0.001)
            assert session._waiters == []

    asyncio.run(story())


def test_the_fast_path_does_not_overtake_a_replay(server: FakeServer) -> None:
    async def story() -> None:
        async with connect(server.url) as session:
            session._core.replays["g"] = cast("Replay", None)  # Any replay will do here.
            assert await asyncio.wait_for(session._next(None), 5) is None
            session._core.replays.clear()

    asyncio.run(story())


def test_more_than_the_window_is_sent_without_a_reader(server: FakeServer) -> None:
    async def story() -> int:
        async with asyncio.timeout(60), connect(server.url, window_bytes=100_000) as anna:
            await anna.join("g")
            for _ in range(40):
                await anna.multicast("g", bytes(100_000))
            got = 0
            async for event in anna:
                got += isinstance(event, Message)
                if got == 40:
                    break
            return got

    assert asyncio.run(story()) == 40


def test_a_connection_that_breaks_is_an_error_for_everybody_who_waits(server: FakeServer) -> None:
    async def story() -> None:
        async with asyncio.timeout(60):
            anna = await connect(server.url, reconnect=False)
            waiting = asyncio.ensure_future(anna.receive())
            await asyncio.sleep(0)
            server.cut()
            with pytest.raises(SessionClosed, match="the daemon is gone; connect again"):
                await waiting
            with pytest.raises(SessionClosed):
                await anna.multicast("g", b"")
            with pytest.raises(SessionClosed):
                await anna.join("g")

    asyncio.run(story())


def test_a_session_reconnects_by_itself_and_continues(server: FakeServer) -> None:
    async def story() -> list[str]:
        async with asyncio.timeout(60), connect(server.url, name="anna", reconnect=SOON) as anna:
            group = await anna.join("g")
            assert isinstance(await group.receive(), View)
            waiting = asyncio.ensure_future(group.receive())
            await asyncio.sleep(0)
            server.cut()
            back = await waiting
            assert isinstance(back, Reconnected)
            assert back.gap.reason == "the daemon is gone"
            assert anna.joined == ("g",)
            await group.multicast(b"again")
            return [type(back).__name__, *[type(await group.receive()).__name__ for _ in range(2)]]

    assert asyncio.run(story()) == ["Reconnected", "View", "Message"]


def test_the_blocking_session_reconnects_by_itself_and_continues(server: FakeServer) -> None:
    with sync.connect(server.url, name="anna", reconnect=SOON) as anna, anna.join("g") as group:
        assert isinstance(group.receive(timeout_seconds=60), View)
        before = anna.fileno()
        server.cut()
        assert isinstance(group.receive(timeout_seconds=60), Reconnected)
        group.multicast(b"again")
        assert isinstance(group.receive(timeout_seconds=60), View)
        assert next(group.messages()).data == b"again"
        assert anna.fileno() != before or anna.connected


def test_calls_wait_while_there_is_no_connection_and_can_be_cancelled(server: FakeServer) -> None:
    async def story() -> bytes:
        late = Reconnect(delay_seconds_min=0.1, delay_seconds_max=0.1)
        async with asyncio.timeout(60), connect(server.url, name="anna", reconnect=late) as anna:
            group = await anna.join("g")
            await group.receive()
            server.cut()
            await comes(lambda: not anna.connected, look_seconds=0.001)
            for call in (anna.join("h").__aenter__(), group.leave(), group.multicast(b"x"), group.receive()):
                task = asyncio.ensure_future(call)
                await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            await group.multicast(b"after")
            async for message in group.messages():
                return message.data
        raise AssertionError("the loop ends with a message")

    assert asyncio.run(story()) == b"after"


def test_a_call_of_the_blocking_session_ends_in_time_without_a_connection(server: FakeServer) -> None:
    slowly = Reconnect(delay_seconds_min=30.0, delay_seconds_max=30.0)
    anna = sync.connect(server.url, name="anna", reconnect=slowly)
    server.cut()
    with pytest.raises(TimedOut, match="receive"):
        anna.receive(timeout_seconds=0.05)
    with pytest.raises(TimedOut, match="multicast"):
        anna.multicast("g", b"x", timeout_seconds=0.05)
    assert (anna.connected, anna.fileno(), anna.poll()) == (False, -1, False)
    anna.close()
    with pytest.raises(SessionClosed):
        anna.receive()


def test_closing_and_aborting_end_a_session_that_is_reconnecting(server: FakeServer) -> None:
    async def story() -> None:
        slowly = Reconnect(delay_seconds_min=30.0, delay_seconds_max=30.0)
        async with asyncio.timeout(60):
            for end in ("close", "abort"):
                anna = await connect(server.url, reconnect=slowly)
                server.cut()
                await comes(lambda: not anna.connected, look_seconds=0.001)  # noqa: B023
                waiting = asyncio.ensure_future(anna.receive())
                await asyncio.sleep(0)
                if end == "close":
                    await anna.close()
                else:
                    anna.abort()
                with pytest.raises(SessionClosed):
                    await waiting

    asyncio.run(story())


def test_the_second_daemon_is_used_if_the_first_is_unreachable(server: FakeServer) -> None:
    urls = ["hop+unix:///nowhere/s", server.url]
    with sync.connect(urls) as anna:
        assert anna.daemon == "eu1"

    async def story() -> None:
        async with connect(",".join(urls)) as bert:
            assert bert.daemon == "eu1"

    asyncio.run(story())
    with pytest.raises(ValueError, match="no daemon is named"):
        sync.connect([])


def test_the_blocking_shell_does_the_same(server: FakeServer) -> None:
    with sync.connect(server.url, name="anna") as anna, anna.join("g") as group:
        assert isinstance(group.receive(timeout_seconds=60), View)
        for number in range(20):
            group.multicast(b"%d" % number * 10_000)
        assert [event.data[:1] for event, _ in zip(group.messages(), range(3), strict=False)] == [
            b"0",
            b"1",
            b"2",
        ]
        while not anna.poll():
            pass
        assert anna.fileno() > 0
    with pytest.raises(SessionClosed):
        anna.join("h")
    with sync.connect(server.url, name="anna") as again, pytest.raises(TimedOut, match="receive"):
        again.receive(timeout_seconds=0.01)


def test_an_unreachable_daemon_is_a_connect_error_in_both() -> None:
    with pytest.raises(ConnectError, match="start hopd there"):
        sync.connect("hop+unix:///nowhere/s")

    async def story() -> None:
        with pytest.raises(ConnectError, match="start hopd there"):
            await connect("hop+unix:///nowhere/s")

    asyncio.run(story())


def test_an_invalid_host_name_is_a_connect_error_in_both() -> None:
    url = f"hop://{'a' * 64}:1"
    with pytest.raises(ConnectError, match="label"):
        sync.connect(url)

    async def story() -> None:
        with pytest.raises(ConnectError, match="label"):
            await connect(url)

    asyncio.run(story())


def test_closing_is_an_error_if_messages_are_in_doubt(server: FakeServer) -> None:
    slowly = Reconnect(delay_seconds_min=30.0, delay_seconds_max=30.0)
    anna = sync.connect(server.url, reconnect=slowly)
    with server.lock:
        server.fake.stopped = True
    anna.multicast("g", b"?")
    server.cut()
    with pytest.raises(SessionClosed, match="messages in doubt: 1") as caught:
        anna.close()
    assert caught.value.in_doubt == 1

    async def story() -> None:
        async with asyncio.timeout(60):
            bert = await connect(server.url, name="bert")
            await bert.multicast("g", b"?")
            closing = asyncio.ensure_future(bert.close())
            await comes(server.is_ending)
            server.cut()
            with pytest.raises(SessionClosed, match="messages in doubt: 1"):
                await closing

    asyncio.run(story())


def test_a_silent_server_is_a_connect_error_in_both() -> None:
    with TemporaryDirectory(dir="/tmp") as directory, socket.socket(socket.AF_UNIX) as mute:
        mute.bind(f"{directory}/s")
        mute.listen()
        url = f"hop+unix://{directory}/s"
        with pytest.raises(ConnectError, match=r"no answer for 0\.05 s"):
            sync.connect(url, timeout_seconds=0.05)

        async def story() -> None:
            with pytest.raises(ConnectError, match=r"no answer for 0\.05 s"):
                await connect(url, timeout_seconds=0.05)

        asyncio.run(story())
