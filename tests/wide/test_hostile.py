"""Link ports get garbage, members another clusters file, and processes directories of others."""

import asyncio
import random
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.support.waiting import until
from tests.wide.worlds import Member, best, comes, run, texts

from hopring.credentials.daemon_tls import load_daemon_tls
from hopring.haul.ids import ClusterId
from hopring.haul.link.frames import Greeting, LinkGeneration, encode_frame
from hopring.local.ports import ReservedPorts
from hopring.wide.local_clusters.blocking import LocalWide

pytestmark = pytest.mark.slow

SPOILED = 400
"""Connections with damaged frames; `make fuzz` is for more."""


@pytest.fixture(scope="module")
def world() -> Iterator[LocalWide]:
    with LocalWide({"hub": 1, "norway": 1}) as made:
        yield made


def access(world: LocalWide, cluster: str) -> tuple[str, int]:
    (point,) = world._core._known(cluster).access
    return point.host, point.port


def tls(world: LocalWide, cluster: str) -> ssl.SSLContext:
    return load_daemon_tls(world.path.parent / "keys", "local", cluster, datetime.now(UTC)).dialling


def hello(cluster: int, wide: str = "local") -> bytes:
    return encode_frame(Greeting(wide, bytes(32), ClusterId(cluster), 7, LinkGeneration(99, 99)))


def answer_to(world: LocalWide, data: bytes, context: ssl.SSLContext | None = None) -> bytes:
    """What the hub answers to these bytes until it closes."""
    with socket.create_connection(access(world, "hub"), timeout=60.0) as raw:
        try:
            channel = raw if context is None else context.wrap_socket(raw)
            channel.sendall(data)
            heard = b""
            while chunk := channel.recv(4_096):
                heard += chunk
        except (ConnectionError, ssl.SSLError):
            return b""  # It has closed the connection at once.
        return heard


def refused(world: LocalWide) -> dict[str, int]:
    return dict(best(world, "hub")["refused"])


def test_who_has_no_certificate_of_a_cluster_is_not_heard(world: LocalWide) -> None:
    before = sum(refused(world).values())
    anonymous = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    anonymous.check_hostname, anonymous.verify_mode = False, ssl.CERT_NONE

    assert answer_to(world, hello(2)) == b""  # In the clear.
    assert answer_to(world, hello(2), anonymous) == b""
    assert sum(refused(world).values()) == before + 2


def test_a_cluster_that_greets_as_another_one_is_refused(world: LocalWide) -> None:
    before = refused(world).get("certificate", 0)

    assert answer_to(world, hello(1), tls(world, "norway")) == b""
    assert refused(world)["certificate"] == before + 1


def test_a_greeting_of_another_wide_network_gets_the_reason(world: LocalWide) -> None:
    heard = answer_to(world, hello(2, wide="elsewhere"), tls(world, "norway"))

    assert b"the clusters files differ" in heard
    assert b"give both clusters the same file" in heard


def test_spoiled_frames_end_their_connection_and_nothing_else(world: LocalWide) -> None:
    dice = random.Random(24)
    context = tls(world, "norway")
    whole = hello(2)

    def spoiled() -> bytes:
        kind = dice.randrange(4)
        if kind == 0:
            return dice.randbytes(dice.randint(1, 200))
        if kind == 1:
            return dice.randint(2**17, 2**32 - 1).to_bytes(4, "little") + bytes(100)  # Too long.
        at = dice.randrange(len(whole))
        changed = whole[:at] + bytes([whole[at] ^ dice.randint(1, 255)]) + whole[at + 1 :]
        return changed if kind == 2 else whole[4:] + changed

    async def attack() -> None:
        for _ in range(SPOILED // 8):
            await asyncio.gather(*[attack_once(spoiled()) for _ in range(8)])

    async def attack_once(data: bytes) -> None:
        try:
            _, writer = await asyncio.open_connection(*access(world, "hub"), ssl=context, server_hostname="hub")
            writer.write(data)
            await writer.drain()
            writer.close()
            await writer.wait_closed()
        except (OSError, TimeoutError):
            pass  # It was closed before all was written.

    async def story() -> None:
        async with Member(world, "hub", "spoiled") as hub, Member(world, "norway", "spoiled") as norway:
            pid = world.pid("hub-m1")
            await attack()
            await (await hub.cbcast(b"still here")).everywhere()
            assert await texts(norway, 1) == ["still here"]
            assert best(world, "hub")["pid"] == pid

    run(story())


def test_clusters_with_different_files_refuse_each_other_until_these_are_alike(world: LocalWide) -> None:
    original = world.path.read_text()
    changed = original + '\n[[links]]\nbetween = ["hub", "norway"]\nschedule = "every 2s for 1s"\n'

    async def story() -> None:
        async with Member(world, "hub", "differs") as hub:
            world.path.write_text(changed)
            await asyncio.to_thread(world.crash, "norway-m1")
            await asyncio.to_thread(world.restart, "norway")

            async def is_refused() -> bool:
                return "the clusters files differ" in world.log("norway-m1")  # The hub dials.

            await comes(is_refused)
            receipt = await hub.cbcast(b"waits")
            assert not best(world, "hub")["links"][0]["open"]
            world.path.write_text(original)
            await asyncio.to_thread(world.crash, "norway-m1")
            await asyncio.to_thread(world.restart, "norway")
            await receipt.everywhere()

    run(story())


def start(world: LocalWide, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "hopring.cli.main", "wide", "run", "--file", str(world.path), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_a_member_with_the_directory_of_another_one_ends_with_a_remedy(world: LocalWide) -> None:
    state = str(world.path.parent / "state" / "hub-m1")
    world.crash("hub-m1")
    other = start(world, "--cluster", "norway", "--state", state)
    world.restart("hub")
    world.settled()

    assert other.returncode == 7
    assert "the directory is that of member 'hub-m1', not of 'norway-m1'; give each" in other.stderr


def test_two_members_with_one_directory_do_not_run(world: LocalWide) -> None:
    second = start(world, "--cluster", "hub", "--state", str(world.path.parent / "state" / "hub-m1"))

    assert second.returncode == 1
    assert "Traceback" not in second.stderr


def test_a_port_that_is_taken_is_named(world: LocalWide, tmp_path: Path) -> None:
    listen = "{}:{}".format(*access(world, "norway"))
    taken = start(world, "--cluster", "hub", "--state", str(tmp_path / "state"), "--listen", listen)

    assert taken.returncode == 1
    assert f"hop: cannot listen at {listen}: Address already in use; end what has the port" in taken.stderr


def test_a_file_without_keys_is_for_loopback_only(tmp_path: Path) -> None:
    file = tmp_path / "clusters.toml"
    clusters = [
        f'[clusters.{name}]\nid = {number}\nmembers = ["m"]\naccess = ["192.0.2.{number}:4990"]\n'
        for number, name in enumerate(("hub", "norway"), 1)
    ]
    file.write_text('wide = "ims"\n' + "".join(clusters))
    command = [sys.executable, "-m", "hopring.cli.main", "wide", "run", "--file", str(file), "--state", "state"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)

    assert done.returncode == 7
    assert "192.0.2.1:4990 is beyond this host, and there are no keys; make keys with" in done.stderr


def test_pages_are_on_loopback_and_say_whether_a_majority_has_the_log(world: LocalWide) -> None:
    beyond = start(world, "--cluster", "hub", "--state", "x", "--metrics", "0.0.0.0:9464")
    assert beyond.returncode == 7
    assert "use a loopback address" in beyond.stderr
    world.crash("norway-m1")
    ports = ReservedPorts(1)
    port = ports.base
    command = [sys.executable, "-m", "hopring.cli.main", "wide", "run", "--file", str(world.path)]
    command += ["--cluster", "norway", "--state", str(world.path.parent / "state" / "norway-m1")]
    member = subprocess.Popen([*command, "--metrics", str(port)], stderr=subprocess.DEVNULL)
    try:
        until(lambda: page(port, "/readyz").startswith("HTTP/1.1 200 "))
        assert "hopring_wide_serving 1" in page(port, "/metrics")
        assert page(port, "/healthz").endswith("alive\n")
        assert page(port, "/nothing").startswith("HTTP/1.1 404 ")
        assert page(port, " ").startswith("HTTP/1.1 400 ")
    finally:
        member.terminate()
        assert member.wait(60) == 0
    world.restart("norway")
    world.settled()


def page(port: int, path: str) -> str:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=60.0) as channel:
            channel.sendall(f"GET {path} HTTP/1.1\r\nHost: here\r\n\r\n".encode())
            return channel.makefile().read()
    except OSError:
        return ""
