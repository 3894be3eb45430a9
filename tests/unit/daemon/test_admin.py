"""The admin channel: its words, its socket, and what becomes of callers who speak something else."""

import json
import socket
import stat
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest
from tests.unit.daemon.waiting import run_until

from hopring.daemon import admin_socket
from hopring.daemon.admin import LINE_BYTES_MAX, Garbage, Refusal, answer
from hopring.daemon.admin_socket import CALLERS_MAX, AdminSocket
from hopring.daemon.log import Log
from hopring.daemon.loop import Loop
from hopring.daemon.shaper import Shape
from hopring.daemon.unusable import Unusable


class Levers:
    """Controls that write down what they were told."""

    def __init__(self) -> None:
        self.told: list[object] = []

    def shape(self, daemons: Collection[str], shape: Shape) -> None:
        self.told.append((list(daemons), shape))

    def cut(self, daemons: Collection[str]) -> None:
        if "nobody" in daemons:
            raise Refusal("there is no daemon nobody", "choose of us1")
        self.told.append(list(daemons))

    def status(self) -> dict[str, object]:
        return {"daemon": "eu1"}


def said(line: bytes, levers: Levers | None = None) -> dict[str, object]:
    words: dict[str, object] = json.loads(answer(line, levers or Levers()))
    return words


def test_verbs_reach_their_levers() -> None:
    levers = Levers()
    shape = b'{"verb": "shape", "to": ["us1", "us2"], "delay_us": 40000, "loss": 0.05, "jitter_us": 7}'

    assert said(shape, levers) == {"ok": True}
    assert said(b'{"verb": "cut", "daemons": ["us1"]}', levers) == {"ok": True}
    assert said(b'{"verb": "heal"}', levers) == {"ok": True}
    assert said(b'{"verb": "status"}', levers) == {"ok": True, "status": {"admin": 1, "daemon": "eu1"}}
    assert levers.told == [(["us1", "us2"], Shape(40_000, 7, 0.05)), ["us1"], []]


@pytest.mark.parametrize(
    "line",
    [
        b'{"verb": "terminate"}',
        b'{"verb": "cut"}',
        b'{"verb": "cut", "daemons": "us1"}',
        b'{"verb": "cut", "daemons": ["us1"], "force": true}',
        b'{"verb": "shape", "to": ["us1"], "loss": 1.5}',
        b'{"verb": "shape", "to": ["us1"], "delay_us": -1}',
        b'{"verb": "shape", "to": ["us1"], "delay_us": 60000001}',
        b"{}",
        b"[1, 2]",
        b"7",
    ],
)
def test_a_request_that_is_none_is_answered_with_a_remedy_and_does_nothing(line: bytes) -> None:
    levers = Levers()
    words = said(line, levers)

    assert words["ok"] is False
    assert words["error"]
    assert "status" in str(words["remedy"])
    assert levers.told == []


def test_what_cannot_be_done_is_said() -> None:
    words = said(b'{"verb": "cut", "daemons": ["nobody"]}')

    assert words == {"ok": False, "error": "there is no daemon nobody", "remedy": "choose of us1"}


@pytest.mark.parametrize("line", [b"hello", b"\xff\xfe", b'{"verb": "cut"', b'{"x":' * 9_000])
def test_no_json_is_garbage(line: bytes) -> None:
    with pytest.raises(Garbage):
        answer(line, Levers())


# On its socket.


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "eu1.admin"


@pytest.fixture
def channel(loop: Loop, path: Path) -> Iterator[AdminSocket]:
    with path.with_suffix(".log").open("wb") as log:
        channel = AdminSocket(loop, Log("eu1", log.fileno()), path, Levers())
        yield channel
        channel.close()


def call(path: Path) -> socket.socket:
    caller = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    caller.connect(str(path))
    caller.setblocking(False)
    return caller


def hear(loop: Loop, caller: socket.socket, lines: int) -> tuple[list[dict[str, object]], bool]:
    """What a caller is told, and whether that was the end."""
    heard, ended = b"", False

    def enough() -> bool:
        nonlocal heard, ended
        try:
            chunk = caller.recv(1 << 16)
        except BlockingIOError:
            loop.call_soon(lambda: None)  # So that the loop turns and does not sleep.
            return False
        except ConnectionResetError:
            chunk = b""
        heard, ended = heard + chunk, not chunk
        return ended or heard.count(b"\n") >= lines

    run_until(loop, enough)
    return [json.loads(line) for line in heard.splitlines()], ended


def test_only_its_owner_may_open_the_socket(channel: AdminSocket, path: Path) -> None:
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_lines_are_answered_in_their_order_however_they_come(
    loop: Loop, channel: AdminSocket, path: Path
) -> None:
    with call(path) as caller:
        caller.send(b'{"verb": "status"}\n\n{"verb": "cut", "dae')
        first, _ = hear(loop, caller, 1)
        caller.send(b'mons": ["nobody"]}\n{"verb": "heal"}\n')
        others, ended = hear(loop, caller, 2)

    assert [words["ok"] for words in [*first, *others]] == [True, False, True]
    assert not ended


@pytest.mark.parametrize(
    "garbage", [b"GET / HTTP/1.1\r\n", b"x" * (LINE_BYTES_MAX + 1), b" " * (LINE_BYTES_MAX + 1) + b"\n"]
)
def test_garbage_costs_its_own_connection_only(
    loop: Loop, channel: AdminSocket, path: Path, garbage: bytes
) -> None:
    with call(path) as other, call(path) as caller:
        caller.send(garbage)
        words, ended = hear(loop, caller, 2)
        other.send(b'{"verb": "status"}\n')
        answers, _ = hear(loop, other, 1)

    assert [one["ok"] for one in words] == [False]
    assert ended
    assert answers[0]["ok"]


def test_another_user_is_sent_away(
    loop: Loop, channel: AdminSocket, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin_socket, "caller_uid", lambda _sock: 4711)
    with call(path) as caller:
        caller.send(b'{"verb": "status"}\n')

        assert hear(loop, caller, 1) == ([], True)
    assert 'admin refused="user 4711"' in path.with_suffix(".log").read_text()


def test_so_many_callers_and_no_more(loop: Loop, channel: AdminSocket, path: Path) -> None:
    callers = [call(path) for _ in range(CALLERS_MAX + 1)]
    for caller in callers:
        caller.send(b'{"verb": "status"}\n')
    heard = [hear(loop, caller, 1) for caller in callers]
    for caller in callers:
        caller.close()

    assert [bool(words) for words, _ in heard] == [True] * CALLERS_MAX + [False]


def test_what_was_done_is_in_the_log_and_looking_is_not(loop: Loop, channel: AdminSocket, path: Path) -> None:
    with call(path) as caller:
        caller.send(b'{"verb": "status"}\n{"verb": "cut", "daemons": ["us1"]}\n')
        hear(loop, caller, 2)
    (line,) = path.with_suffix(".log").read_text().splitlines()

    assert "cut" in line


def test_the_socket_is_gone_in_the_end(loop: Loop, path: Path) -> None:
    AdminSocket(loop, Log("eu1"), path, Levers()).close()

    assert not path.exists()


def test_a_path_that_cannot_be_is_refused(loop: Loop, tmp_path: Path) -> None:
    with pytest.raises(Unusable, match="--admin"):
        AdminSocket(loop, Log("eu1"), tmp_path / ("x" * 120), Levers())
