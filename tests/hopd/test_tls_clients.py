"""Clients by TLS at a real daemon: both shells, wrong certificates on either side, ports mixed up, floods."""

import asyncio
import resource
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from tests.hopd.one_daemon import OneDaemon, alone
from tests.hopd.served_cluster import SECONDS_MAX, data, run, take
from tests.hopd.tls_daemon import Impostor, TlsDaemon, make_certificate, tls_config, tls_daemon

from hopring import ConnectError, Reconnected, WrongValue, connect, sync
from hopring.config import SecurityTuning, dump_toml, load_config
from hopring.credentials.directory import KeyDirectory
from hopring.credentials.files import CredentialError
from hopring.daemon.clients.tls_handshakes import HANDSHAKES_MAX

pytestmark = pytest.mark.slow

LONG = b"x" * 100_000


@pytest.fixture
def served(tmp_path: Path) -> Iterator[TlsDaemon]:
    with tls_daemon(tmp_path) as one:
        yield one


def refusal(url: str, ca: Path, shell: str = "blocking", **more: Any) -> ConnectError:
    """The error of a connection that must not come about, in one of the two shells."""

    async def attempt() -> None:
        await connect(url, ca=ca, timeout_seconds=SECONDS_MAX, **more)

    try:
        if shell == "blocking":
            sync.connect(url, ca=ca, timeout_seconds=SECONDS_MAX, **more).close()
        else:
            asyncio.run(attempt())
    except ConnectError as error:
        return error
    pytest.fail("it was accepted")


SHELLS = pytest.mark.parametrize("shell", ["asyncio", "blocking"])


def test_both_shells_send_and_receive_by_tls(served: TlsDaemon) -> None:
    async def story() -> None:
        async with asyncio.timeout(SECONDS_MAX), connect(served.url, name="anna", ca=served.ca) as anna:
            group = await anna.join("trades")
            await anna.multicast("trades", b"short")
            for _ in range(20):
                await anna.multicast("trades", LONG)
            assert data(await take(group, 21)) == [b"short", *[LONG] * 20]
            assert [one.name for one in await anna.groups()] == ["trades"]

    asyncio.run(story())
    with sync.connect(served.url, name="bert", ca=str(served.ca)) as bert, bert.join("trades") as group:
        bert.multicast("trades", b"short")
        bert.multicast_many("trades", [LONG] * 20)
        got = [event.data for event in islice(group.messages(), 21)]
        assert got == [b"short", *[LONG] * 20]
    assert f'tls="127.0.0.1 port {served.port}"' in served.daemon.log()


def test_clients_by_tls_and_in_the_clear_are_in_one_group(served: TlsDaemon) -> None:
    with (
        sync.connect(served.url, ca=served.ca) as encrypted,
        sync.connect(served.clear_url) as clear,
        sync.connect(served.unix_url) as local,
    ):
        groups = [one.join("all") for one in (encrypted, clear, local)]
        encrypted.multicast("all", b"to all")
        assert [next(group.messages()).data for group in groups] == [b"to all"] * 3


@SHELLS
def test_the_authority_of_another_cluster_is_not_accepted(
    served: TlsDaemon, tmp_path: Path, shell: str
) -> None:
    other = KeyDirectory(tmp_path / "other")
    other.create("local", [], datetime.now(UTC), 30, 30)

    error = refusal(served.url, other.authority_path, shell)

    assert "is not signed by the authority in" in error.reason
    assert "--ca, HOP_CA" in error.remedy
    served.daemon.wait_for_log("TLS: the other end refuses the connection: tlsv1 alert unknown ca")


def test_a_missing_or_wrong_file_of_the_authority_is_named(served: TlsDaemon, tmp_path: Path) -> None:
    with pytest.raises(WrongValue, match="ca: missing for hops://; give ca="):
        sync.connect(served.url)
    with pytest.raises(CredentialError, match="does not exist"):
        sync.connect(served.url, ca=tmp_path / "nowhere.crt")
    with pytest.raises(CredentialError, match="is not the certificate of a cluster's authority"):
        sync.connect(served.url, ca=served.keys.certificate_path("eu1"))
    with pytest.raises(WrongValue, match="certificate: given without TLS"):
        sync.connect(served.clear_url, certificate=tmp_path / "some.pem")


@SHELLS
def test_an_expired_certificate_is_refused_and_nothing_is_sent(
    served: TlsDaemon, tmp_path: Path, shell: str
) -> None:
    before = datetime.now(UTC) - timedelta(days=9)
    old = make_certificate(served.keys, tmp_path / "old.pem", "eu1", at=before)
    with Impostor(old) as impostor:
        error = refusal(impostor.url, served.ca, shell)

        assert "certificate has expired" in error.reason
        assert "hop keys daemon NAME --renew" in error.remedy
        assert not impostor.passed


@SHELLS
def test_the_certificate_of_a_user_does_not_pass_for_that_of_a_daemon(
    served: TlsDaemon, tmp_path: Path, shell: str
) -> None:
    with Impostor(make_certificate(served.keys, tmp_path / "u.pem", "eu1", user=True)) as impostor:
        error = refusal(impostor.url, served.ca, shell)

        assert error.reason == "its certificate is that of a user, not of a daemon"
        assert not impostor.passed


@SHELLS
def test_a_daemon_cannot_speak_as_another_one(served: TlsDaemon, tmp_path: Path, shell: str) -> None:
    other = make_certificate(served.keys, tmp_path / "eu2.pem", "eu2")
    with Impostor(other, served.port) as impostor:
        error = refusal(impostor.url, served.ca, shell)

        assert "it says that it is eu1, and its certificate is for eu2" in error.reason


@SHELLS
def test_clear_text_at_the_port_for_tls_is_told_what_to_do(served: TlsDaemon, shell: str) -> None:
    error = refusal(f"hop://127.0.0.1:{served.port}", served.ca, shell)

    assert error.reason == "this port is for TLS"
    assert "write hops://" in error.remedy
    served.daemon.wait_for_log('reason="TLS: the other end does not speak TLS"')


@SHELLS
def test_tls_at_the_port_for_clear_text_is_told_what_to_do(served: TlsDaemon, shell: str) -> None:
    error = refusal(f"hops://127.0.0.1:{served.clear_port}", served.ca, shell)

    assert error.reason == "this port does not speak TLS"
    assert "tls_port" in error.remedy
    served.daemon.wait_for_log("client_refused")


def test_older_versions_of_tls_are_refused_and_counted(served: TlsDaemon) -> None:
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with socket.create_connection(("127.0.0.1", served.port)) as sock, pytest.raises(ssl.SSLError):
        old.wrap_socket(sock)
    served.daemon.wait_for_log('reason="TLS: wrong TLS: unsupported protocol"')
    served.daemon.wait_for_log("client_refused address=")


@SHELLS
def test_a_client_reconnects_by_tls(tmp_path: Path, shell: str) -> None:
    with ExitStack() as first:
        served = first.enter_context(tls_daemon(tmp_path))

        def restart() -> None:
            first.close()
            stack.enter_context(again(served))

        async def story() -> None:
            async with asyncio.timeout(2 * SECONDS_MAX), connect(served.url, name="anna", ca=served.ca) as anna:
                await anna.join("g")
                await asyncio.to_thread(restart)
                while not isinstance(await anna.receive(), Reconnected):
                    pass
                await anna.multicast("g", b"again")
                assert data(await take(anna, 1)) == [b"again"]

        with ExitStack() as stack:
            if shell == "asyncio":
                asyncio.run(story())
                return
            with sync.connect(served.url, name="anna", ca=served.ca) as anna, anna.join("g") as group:
                restart()
                while not isinstance(group.receive(timeout_seconds=SECONDS_MAX), Reconnected):
                    pass
                group.multicast(b"again")
                assert next(group.messages()).data == b"again"


def again(served: TlsDaemon) -> AbstractContextManager[OneDaemon]:
    file = served.directory / "hop.toml"
    return alone(load_config(file), served.directory, "eu1")


def shown_to(served: TlsDaemon) -> bytes:
    """The certificate that the daemon shows now."""
    context = ssl.create_default_context(cafile=served.ca)
    context.check_hostname = False
    with (
        socket.create_connection(("127.0.0.1", served.port)) as sock,
        context.wrap_socket(sock) as encrypted,
    ):
        return encrypted.getpeercert(binary_form=True) or b""


def test_a_reload_reads_the_certificate_again_and_sessions_go_on(served: TlsDaemon) -> None:
    before = shown_to(served)
    with sync.connect(served.url, ca=served.ca) as session:
        served.keys.renew_daemon("eu1", datetime.now(UTC), 30)
        assert shown_to(served) == before
        served.daemon.process.send_signal(signal.SIGHUP)
        served.daemon.wait_for_log(" reload ")

        assert shown_to(served) != before
        assert session.groups() == ()
        sync.connect(served.url, ca=served.ca).close()


@pytest.mark.parametrize(
    ("options", "security", "problem"),
    [
        (("--listen", "0.0.0.0"), True, "clients are served without encryption beyond this host"),
        ((), False, "eu1 has a tls_port, and no certificate; make keys with"),
    ],
)
def test_what_is_refused_at_the_start(
    tmp_path: Path, options: tuple[str, ...], security: bool, problem: str
) -> None:
    config = tls_config(tmp_path)
    config = config if security else replace(config, security=SecurityTuning())
    file = tmp_path / "hop.toml"
    file.write_text(dump_toml(config))
    words = [sys.executable, "-m", "hopring.daemon.hopd", str(file), "--name", "eu1", *options]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)

    assert ended.returncode == 7
    assert problem in ended.stderr
    assert "tls_port" in ended.stderr


def test_tls_is_served_beyond_loopback_without_further_ado(tmp_path: Path) -> None:
    with tls_daemon(tmp_path, "--listen-tls", "0.0.0.0") as served:
        assert f'tls="0.0.0.0 port {served.port}"' in served.daemon.log()
        sync.connect(served.url, ca=served.ca).close()


def test_commands_take_the_authority_by_option_or_environment(
    served: TlsDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("groups", "--at", served.url, "--ca", str(served.ca))[0] == 0
    code, _, text = run("groups", "--at", served.url)
    assert (code != 0, "--ca, HOP_CA" in text) == (True, True)
    monkeypatch.setenv("HOP_CA", str(served.ca))
    monkeypatch.setenv("HOP_URL", served.url)
    assert run("pub", "trades", "x")[0] == 0
    assert run("groups", "--at", served.unix_url)[0] == 0
    assert run("groups", "--ca", "/nowhere/ca.crt")[0] == 7


FLOOD = 10_000
NEW_CLIENT_SECONDS = 10.0  # Far more than it takes; on a busy machine it may take long.


def memory_kib(pid: int) -> int:
    line = next(one for one in Path(f"/proc/{pid}/status").read_text().splitlines() if "VmRSS" in one)
    return int(line.split()[1])


@pytest.mark.parametrize(
    "greeting",
    [
        pytest.param(b"", id="silent", marks=pytest.mark.long),
        pytest.param(b"\x16\x03\x01\x02\x00\x01", id="partial"),
    ],
)
def test_ten_thousand_half_open_handshakes_cost_little_and_do_no_harm(
    served: TlsDaemon, greeting: bytes
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < FLOOD + 100:
        pytest.skip(f"at most {hard} open files are allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, FLOOD + 100), hard))
    pid = served.daemon.process.pid
    with ExitStack() as stack, sync.connect(served.url, ca=served.ca) as early, early.join("g") as group:
        before, refused = memory_kib(pid), served.daemon.log().count("client_refused")
        for at in range(FLOOD):
            sock = stack.enter_context(socket.create_connection(("127.0.0.1", served.port)))
            if greeting:
                sock.sendall(greeting)
            if at % 1_000 == 0:
                early.multicast("g", b"%d" % at)
                assert next(group.messages()).data == b"%d" % at
        began = time.monotonic()
        sync.connect(served.url, ca=served.ca, timeout_seconds=NEW_CLIENT_SECONDS).close()
        took = time.monotonic() - began
        print(f"a new client in {took:.2f} s, memory {memory_kib(pid) - before} KiB more, {refused} before")
        assert memory_kib(pid) - before < 30_000
        served.daemon.wait_for_log(f"more than {HANDSHAKES_MAX} handshakes at a time")
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
