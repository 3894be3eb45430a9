"""Requests that a daemon's admin channel refuses: verbs that are not allowed, other users, and junk."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from tests.monitor.fleet import SECONDS_MAX, Fleet, wait

from hopring.daemon.admin.admin_socket import CALLERS_MAX
from hopring.daemon.admin.protocol import LINE_BYTES_MAX

pytestmark = pytest.mark.slow

NOBODY_UID = 65534
ONE = {"eu": ["eu1"]}


@pytest.fixture(scope="module")
def timid() -> Iterator[Fleet]:
    """A daemon that was started without --dangerous."""
    with Fleet(arguments=()) as fleet:
        fleet.write(ONE)
        fleet.start("eu1")
        fleet.meet("eu1")
        yield fleet


def call(fleet: Fleet) -> socket.socket:
    caller = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    caller.settimeout(SECONDS_MAX)
    caller.connect(str(fleet.directory / "eu1.admin"))
    return caller


def hear(caller: socket.socket) -> bytes:
    """Everything up to a complete reply, or to the end of the connection."""
    heard = b""
    while not heard.endswith(b"\n"):
        chunk = caller.recv(1 << 16)
        if not chunk:
            break
        heard += chunk
    return heard


@pytest.mark.parametrize(
    "arguments",
    [
        ["heal"],
        ["window", "--bundles", "100"],
        ["reload"],
        ["terminate", "eu1"],
        ["terminate", "--all"],
    ],
)
def test_without_dangerous_only_the_status_is_allowed(timid: Fleet, arguments: list[str]) -> None:
    result = timid.hop(*arguments)

    assert result.exit_code == 6
    assert "to allow of [admin] in its configuration, or start it with --dangerous" in result.stderr
    assert timid.processes["eu1"].poll() is None
    assert timid.hop("status").exit_code == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_another_user_is_refused(timid: Fleet) -> None:
    # Directory and socket are open to him, so that the peer's user id refuses him.
    timid.directory.chmod(0o755)
    path = timid.directory / "eu1.admin"
    path.chmod(0o666)
    script = (
        f"import os, socket; os.setgid({NOBODY_UID}); os.setuid({NOBODY_UID})\n"
        f"s = socket.socket(socket.AF_UNIX); s.connect({str(path)!r})\n"
        "print(s.makefile().read(), end='')"
    )
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout

    assert json.loads(told)["error"] == f"user {NOBODY_UID} is no admin of this daemon"
    assert json.loads(told)["denied"] is True
    wait(lambda: f'refused admin="user {NOBODY_UID}"' in timid.log("eu1"))
    path.chmod(0o600)


@pytest.mark.parametrize(
    "junk",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\0" * 100 + b"\n",
        b"{" * 10_000 + b"\n",
        b"x" * (LINE_BYTES_MAX + 1),
        b'{"verb": "status"' + b" " * LINE_BYTES_MAX + b"}\n",
    ],
)
def test_junk_is_answered_once_and_the_connection_is_closed(timid: Fleet, junk: bytes) -> None:
    with call(timid) as caller:
        caller.sendall(junk)
        assert json.loads(hear(caller))["ok"] is False
        assert hear(caller) == b""
    assert timid.hop("status").exit_code == 0


def test_silent_callers_and_partial_lines_do_not_block_others(timid: Fleet) -> None:
    silent = [call(timid) for _ in range(2 * CALLERS_MAX)]
    for caller in silent[CALLERS_MAX:]:
        caller.send(b'{"verb": "sta')
    began = time.monotonic()
    assert timid.hop("status").exit_code == 0
    assert time.monotonic() - began < SECONDS_MAX / 2
    for caller in silent:
        caller.close()


def test_a_caller_that_does_not_read_replies_does_no_harm(timid: Fleet) -> None:
    with call(timid) as caller:
        caller.settimeout(2)
        try:
            for _ in range(2_000):
                caller.sendall(b'{"verb": "status"}\n' * 50)
        except OSError:
            pass  # The daemon closed the connection, or reads no further.
        assert timid.hop("status").exit_code == 0


def test_a_missing_socket_is_an_error_with_a_remedy(timid: Fleet) -> None:
    nowhere = timid.directory / "nowhere"
    nowhere.mkdir(exist_ok=True)
    result = timid.hop("--admin", str(nowhere), "status")
    assert result.exit_code == 0  # The other directory is good.

    left = timid.directory / "left.admin"
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(str(left))
    result = timid.hop("status")
    assert (result.exit_code, "Connection refused" in result.stderr) == (0, True)
    left.unlink()
