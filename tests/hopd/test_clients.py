"""Clients of real daemons on loopback: order, views, ends, and the damage that a bad client can do."""

import asyncio
import contextlib
import json
import signal
import socket
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.hopd.daemon_processes import DaemonProcesses
from tests.hopd.served_cluster import LINK, RING, SECONDS_MAX, ServedCluster, cluster, data, meet, take
from tests.support.free_ports import free_base_port
from tests.support.waiting import until

import hopring
from hopring import (
    AGREED,
    FIFO,
    SAFE,
    Event,
    Group,
    InDoubt,
    Message,
    NameInUse,
    Session,
    SessionClosed,
    Transition,
    View,
    connect,
    sync,
)
from hopring.config import Config, dump_toml, local_config

pytestmark = pytest.mark.slow


@pytest.mark.both
def test_agreed_messages_come_in_one_order_on_both_sides(served: ServedCluster) -> None:
    async def story() -> None:
        async with (
            asyncio.timeout(SECONDS_MAX),
            connect(served.url("eu1"), name="anna") as anna,
            connect(served.url("us1"), name="bert") as bert,
        ):
            groups = [await one.join("trades") for one in (anna, bert)]
            await meet(*groups)

            async def talk(group: Group) -> None:
                for number in range(200):
                    await group.multicast(
                        f"{group.session.name}{number}".encode(),
                        service=(AGREED, SAFE)[number % 2],
                        type=number,
                    )
                    if number % 20 == 0:
                        await asyncio.sleep(0)  # Messages after this go into another bundle.

            talking = asyncio.gather(*map(talk, groups))
            one, other = await asyncio.gather(*[take(each, 400) for each in groups])
            await talking
            assert data(one) == data(other)
            for name in (b"anna", b"bert"):
                assert [d for d in data(one) if d.startswith(name)] == [
                    b"%s%d" % (name, at) for at in range(200)
                ]
            first = next(event for event in one if isinstance(event, Message) and event.data == b"bert7")
            assert (first.sender, first.type, first.service) == ("#bert#us1", 7, SAFE)

    asyncio.run(story())
    served.daemons.come_to_rest()


@pytest.mark.both
def test_when_a_daemon_is_killed_its_clients_fail_and_the_others_see_signal_and_view(
    served: ServedCluster,
) -> None:
    async def story() -> None:
        async with (
            asyncio.timeout(SECONDS_MAX),
            connect(served.url("eu1"), name="anna") as anna,
            connect(served.url("eu1"), name="carl") as carl,
            connect(served.url("us1"), name="bert", reconnect=False) as bert,
        ):
            groups = [await one.join("trades") for one in (anna, carl, bert)]
            await meet(*groups)
            served.daemons.kill("us1")
            with pytest.raises(SessionClosed, match="connect again"):
                await bert.receive()
            await groups[0].multicast(b"after")
            for session in (anna, carl):
                signal, view, message = [await session.receive() for _ in range(3)]
                if isinstance(signal, Message):  # It was ordered before the silence was noticed.
                    signal, view, message = view, message, signal
                assert isinstance(signal, Transition)
                assert isinstance(view, View)
                assert isinstance(message, Message)
                assert [one.name for one in signal.members] == ["anna", "carl"]
                assert view.cause == "network"
                assert [one.name for one in view.members] == ["anna", "carl"]
                assert view.together == view.members

    asyncio.run(story())


def connect_when_free(url: str, name: str) -> sync.Session:
    """Connects once the end of the name's last holder is ordered there, maybe later than at other daemons."""
    sessions: list[sync.Session] = []

    def connected() -> bool:
        with contextlib.suppress(NameInUse):
            sessions.append(sync.connect(url, name=name))
        return bool(sessions)

    until(connected, lambda: "the name does not become free")
    return sessions[0]


def test_a_name_is_refused_while_it_is_taken_and_free_after_a_kill(served: ServedCluster) -> None:
    with sync.connect(served.url("eu1"), name="anna") as anna:
        with pytest.raises(NameInUse, match="choose another name"):
            sync.connect(served.url("eu1"), name="anna")
        sync.connect(served.url("us1"), name="anna").close()
        group = anna.join("g")
        assert isinstance(group.receive(timeout_seconds=SECONDS_MAX), View)
        killed = connect_when_free(served.url("us1"), "anna")
        killed.join("g")
        killed.abort()
        causes = [group.receive(timeout_seconds=SECONDS_MAX) for _ in range(2)]
        assert [one.cause for one in causes if isinstance(one, View)] == ["join", "disconnect"]
        connect_when_free(served.url("us1"), "anna").close()


def test_bad_frames_and_silent_connectors_cost_only_their_client(served: ServedCluster) -> None:
    with sync.connect(served.url("eu1"), name="anna") as anna:
        group = anna.join("g")
        silent = [socket.create_connection(("127.0.0.1", served.ports["eu1"])) for _ in range(40)]
        for said in (
            b"GET / HTTP/1.1\r\n\r\n",
            b"HOPC\x09\0\0\0",
            b"HOPC\x01\0\0\0" + b"\xff" * 64,
            b"HOPC\x01\0\0\0" + struct.pack("<IBBH", 2**31, 4, 0, 0),
            b"HOPC\x01\0\0\0" + struct.pack("<IBBH", 3, 1, 0, 0) + b"\xc1\xc1\xc1",
        ):
            with socket.create_connection(("127.0.0.1", served.ports["eu1"]), SECONDS_MAX) as bad:
                bad.sendall(said)
                answer = b""
                while chunk := bad.recv(4096):
                    answer += chunk
                assert answer.startswith(b"HOPC\x01\0\0\0")
                assert b"use a client" in answer or b"this port is for" in answer or b"keep to" in answer
        group.multicast(b"still here")
        assert next(group.messages()).data == b"still here"
        for one in silent:
            one.settimeout(SECONDS_MAX)
            assert b"say HELLO at once" in b"".join(iter(lambda s=one: s.recv(4096), b""))  # type: ignore[misc]
            one.close()


@pytest.mark.long
def test_two_hundred_sessions_at_one_daemon_get_everything_in_one_order(served: ServedCluster) -> None:
    async def story() -> None:
        async with asyncio.timeout(2 * SECONDS_MAX):
            sessions = await asyncio.gather(
                *[connect(served.url("eu1"), name=f"s{at}", membership=False) for at in range(200)]
            )
            groups = await asyncio.gather(*[one.join("crowd") for one in sessions])
            for at, group in enumerate(groups):
                await group.multicast(b"%d" % at, service=(FIFO, AGREED)[at % 2])
            seen = await asyncio.gather(*[take(one, 200) for one in sessions])
            agreed = [
                [event.data for event in one if isinstance(event, Message) and event.service is AGREED]
                for one in seen
            ]
            assert all(one == agreed[0] for one in agreed)
            assert all(sorted(data(one)) == sorted(data(seen[0])) for one in seen)
            await asyncio.gather(*[one.close() for one in sessions])

    asyncio.run(story())


def test_a_client_that_reads_nothing_is_disconnected_and_the_others_do_not_notice(
    served: ServedCluster,
) -> None:
    async def story() -> None:
        async with (
            asyncio.timeout(2 * SECONDS_MAX),
            connect(served.url("eu1"), name="fast") as fast,
        ):
            slow = await connect(served.url("eu1"), name="slow", window_bytes=8192)
            group = await fast.join("g")
            await slow.join("g")
            sent = 0
            causes: list[str] = []
            while "disconnect" not in causes:
                sent += 1
                await group.multicast(bytes(100_000))
                for event in await take(fast, 1):
                    causes += [event.cause] if isinstance(event, View) else []
            assert 150 < sent < 300
            with pytest.raises(hopring.SlowConsumer, match="bytes wait for slow"):
                async for _ in slow:
                    pass

    asyncio.run(story())


def test_a_daemon_that_shuts_down_notifies_its_clients_and_loses_nothing(served: ServedCluster) -> None:
    with sync.connect(served.url("eu1"), name="anna") as anna:
        group = anna.join("g")
        with sync.connect(served.url("us1"), name="bert", reconnect=False) as bert:
            bert.multicast("g", b"last words")
            served.daemons.stop("us1")
            with pytest.raises(SessionClosed, match="the daemon ends; connect to another"):
                bert.receive(timeout_seconds=SECONDS_MAX)
        assert next(group.messages()).data == b"last words"


def hop(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "hopring.cli.main", *arguments]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.both
def test_hop_pub_and_hop_sub(served: ServedCluster) -> None:
    sub = hop("sub", "g", "--at", served.url("us1"), "--name", "reader", "--json", "--views", "--count", "4")
    assert sub.stderr is not None
    assert sub.stderr.readline() == "hop: #reader#us1 is in g\n"
    one = hop(
        "pub", "g", "hello", "--at", served.url("eu1"), "--name", "writer", "--type", "7", "--service", "safe"
    )
    assert one.communicate(timeout=SECONDS_MAX) == ("", "")
    assert one.returncode == 0
    many = hop("pub", "g", "-", "--at", served.url("eu1"))
    assert many.communicate("a\nb\nc\n", timeout=SECONDS_MAX) == ("", "")
    out, said = sub.communicate(timeout=SECONDS_MAX)

    assert (sub.returncode, said) == (0, "")
    view, first, *more = [json.loads(line) for line in out.splitlines()]
    assert (view["event"], view["members"], view["cause"]) == ("view", ["#reader#us1"], "join")
    assert first == {
        "event": "message",
        "groups": ["g"],
        "sender": "#writer#eu1",
        "service": "safe",
        "type": 7,
        "data": "hello",
    }
    assert [one["data"] for one in more] == ["a", "b", "c"]


def test_hop_pub_reports_that_the_group_is_empty(served: ServedCluster) -> None:
    for group, service in (("nobody", "agreed"), ("#nobody#us1", "safe")):
        pub = hop("pub", group, "-", "--at", served.url("eu1"), "--service", service)
        out, said = pub.communicate("a\nb\n", timeout=SECONDS_MAX)
        assert (pub.returncode, out) == (0, "")
        assert said == f"hop: {group} has no members; is the name right? `hop groups` lists the groups\n"
    nothing = hop("pub", "nobody", "-", "--at", served.url("eu1"))
    assert nothing.communicate("", timeout=SECONDS_MAX) == ("", "")
    unreliable = hop("pub", "nobody", "x", "--at", served.url("eu1"), "--service", "unreliable")
    assert unreliable.communicate(timeout=SECONDS_MAX) == ("", "")


def test_an_unreachable_daemon_is_exit_code_three() -> None:
    lost = hop("pub", "g", "x", "--at", f"hop://127.0.0.1:{free_base_port(1)}")
    _, said = lost.communicate(timeout=SECONDS_MAX)

    assert lost.returncode == 3
    assert "Connection refused; start hopd there" in said


def test_a_unix_socket_serves_too_and_one_left_behind_is_replaced(tmp_path: Path) -> None:
    config, name = cluster(), "eu1"
    with TemporaryDirectory(dir="/tmp") as directory:
        path = Path(directory) / "eu1.sock"
        file = tmp_path / "hop.toml"
        file.write_text(dump_toml(config))
        arguments = [str(file), "--name", name, "--state", str(tmp_path), "--socket", str(path)]
        for _ in range(2):
            daemon = subprocess.Popen(
                [sys.executable, "-m", "hopring.daemon.hopd", *arguments], stderr=subprocess.PIPE, text=True
            )
            assert daemon.stderr is not None
            assert f"socket={path}" in daemon.stderr.readline()
            with sync.connect(f"hop+unix://{path}") as session:
                session.multicast(session.private_group, b"me")
                assert data([session.receive(timeout_seconds=SECONDS_MAX)]) == [b"me"]
            assert path.stat().st_mode & 0o777 == 0o600
            daemon.kill()
            daemon.communicate()
            assert path.exists()


def three_daemons() -> Config:
    config = local_config({"eu": 2, "us": 1}, {("eu", "us"): "5ms"}, base_port=free_base_port(6))
    sites = [replace(site, ring=RING) for site in config.sites]
    return replace(config, sites=tuple(sites), links=tuple(replace(one, tuning=LINK) for one in config.links))


def test_survivors_of_a_crash_see_the_same_messages_in_the_same_views(tmp_path: Path) -> None:
    config = three_daemons()
    with DaemonProcesses(config, tmp_path, module="hopring.daemon.hopd") as daemons:
        daemons.start()
        daemons.wait(daemons.together)
        served = ServedCluster(daemons, config)
        histories = asyncio.run(_crash_under_load(served))

    one, other = [[event for event in seen if isinstance(event, Message | View)] for seen in histories]
    facts = [
        [event.id if isinstance(event, View) else (event.sender, event.data) for event in seen]
        for seen in (one, other)
    ]
    assert facts[0] == facts[1]
    causes = [event.cause for event in one if isinstance(event, View)]
    assert "network" in causes
    for seen in (one, other):
        assert len([event for event in seen if isinstance(event, Message) and event.sender == "#us1#us1"]) > 50
        for name in ("eu1", "eu2", "us1"):
            numbers = [int(event.data) for event in seen if isinstance(event, Message) and name in event.sender]
            assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


async def _crash_under_load(served: ServedCluster) -> list[list[Event]]:
    """Three clients send; one daemon is killed; the two other clients stop when they have enough."""

    async def talk(session: Session) -> None:
        with contextlib.suppress(SessionClosed, InDoubt):
            for number in range(10_000):
                # At most ten messages are in flight.
                await (session.multicast if number % 10 else session.multicast_wait)("g", b"%d" % number)

    async with asyncio.timeout(3 * SECONDS_MAX):
        sessions = [await connect(served.url(name), name=name) for name in ("eu1", "eu2", "us1")]
        groups = [await session.join("g") for session in sessions]
        await meet(*groups)
        talking = [asyncio.ensure_future(talk(session)) for session in sessions]
        histories = await asyncio.gather(*[take(session, 300) for session in sessions[:2]])
        served.daemons.kill("us1")
        for session, seen in zip(sessions[:2], histories, strict=True):
            while not isinstance(seen[-1], View):
                seen.append(await session.receive())
        for one in talking:
            one.cancel()
        await groups[0].multicast(b"-1")
        for session, seen in zip(sessions[:2], histories, strict=True):
            while not isinstance(seen[-1], Message) or seen[-1].data != b"-1":
                seen.append(await session.receive())
            seen.pop()
        for session in sessions:
            session.abort()
    return histories


async def take_until_view(stream: Group, members: int) -> list[Event]:
    seen: list[Event] = []
    while True:
        seen.append(await stream.receive())
        if isinstance(seen[-1], View) and len(seen[-1].members) == members:
            return seen


def test_a_daemon_that_slept_comes_back_and_both_sides_see_the_merge(served: ServedCluster) -> None:
    async def story() -> None:
        async with (
            asyncio.timeout(2 * SECONDS_MAX),
            connect(served.url("eu1"), name="anna") as anna,
            connect(served.url("us1"), name="bert") as bert,
        ):
            groups = [await one.join("trades") for one in (anna, bert)]
            await meet(*groups)
            sleeper = served.daemons.processes["us1"]
            sleeper.send_signal(signal.SIGSTOP)
            apart = await take_until_view(groups[0], 1)
            await groups[0].multicast(b"while apart")
            assert data(await take(groups[0], 1)) == [b"while apart"]
            sleeper.send_signal(signal.SIGCONT)
            here, there = await asyncio.gather(*[take_until_view(one, 2) for one in groups])
            await groups[1].multicast(b"together")
            after = [data(await take(one, 1)) for one in groups]

            assert [type(one) for one in apart] == [Transition, View]
            assert b"while apart" not in data(there)
            for seen, name in ((here, "anna"), (there, "bert")):
                merged = seen[-1]
                assert isinstance(merged, View)
                assert merged.cause == "network"
                assert [one.name for one in merged.members] == ["anna", "bert"]
                assert [one.name for one in merged.together] == [name]
                assert sorted([[one.name for one in some] for some in merged.sets]) == [["anna"], ["bert"]]
            ids = [seen[-1].id for seen in (here, there) if isinstance(seen[-1], View)]
            assert ids[0] == ids[1]
            assert after == [[b"together"], [b"together"]]

    asyncio.run(story())
