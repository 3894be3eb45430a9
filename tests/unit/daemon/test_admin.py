"""The admin channel: its protocol, its socket, and callers that violate the protocol."""

import json
import socket
import stat
from collections.abc import Collection, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.unit.daemon.waiting import run_until

from hopring.config import AdminVerb
from hopring.daemon.admin import admin_socket
from hopring.daemon.admin.admin_socket import CALLERS_MAX, WATCHERS_MAX, AdminSocket
from hopring.daemon.admin.protocol import LINE_BYTES_MAX, AdminRefusal, NotJson, SetWindow, answer
from hopring.daemon.log import DaemonLog
from hopring.daemon.loop.event_loop import Loop
from hopring.daemon.net.bind_errors import BindError
from hopring.daemon.net.shaper import Shape
from hopring.daemon.process.event_store import EventStore


class RecordingControls:
    """Controls that record their calls."""

    def __init__(self) -> None:
        self.told: list[object] = []

    def shape(self, daemons: Collection[str], shape: Shape) -> None:
        self.told.append((list(daemons), shape))

    def cut(self, daemons: Collection[str], for_us: int | None = None) -> None:
        if "nobody" in daemons:
            raise AdminRefusal("there is no daemon nobody", "choose of us1")
        self.told.append((list(daemons), for_us))

    def window(self, request: SetWindow) -> dict[str, object]:
        self.told.append(request)
        return {"bytes": 7}

    def reload(self) -> dict[str, object]:
        self.told.append("reload")
        return {"changed": ["log.level"]}

    def make_primary(self) -> None:
        self.told.append("primary")

    def terminate(self) -> None:
        self.told.append("terminate")

    def events(self) -> dict[str, object]:
        return {"daemon": "eu1", "first": 1, "last": 0}

    def status(self) -> dict[str, object]:
        return {"daemon": "eu1"}


def said(line: bytes, levers: RecordingControls | None = None) -> dict[str, object]:
    reply: dict[str, object] = json.loads(answer(line, levers or RecordingControls(), list(AdminVerb)))
    return reply


def test_verbs_call_their_controls() -> None:
    levers = RecordingControls()
    shape = b'{"verb": "shape", "to": ["us1", "us2"], "delay_us": 40000, "loss": 0.05, "jitter_us": 7}'

    assert said(shape, levers) == {"ok": True}
    assert said(b'{"verb": "cut", "daemons": ["us1"]}', levers) == {"ok": True}
    assert said(b'{"verb": "cut", "daemons": ["us2"], "for_us": 7}', levers) == {"ok": True}
    assert said(b'{"verb": "heal"}', levers) == {"ok": True}
    assert said(b'{"verb": "window", "bundles": 9}', levers) == {"ok": True, "result": {"bytes": 7}}
    assert said(b'{"verb": "reload"}', levers) == {"ok": True, "result": {"changed": ["log.level"]}}
    assert said(b'{"verb": "terminate"}', levers) == {"ok": True}
    assert said(b'{"verb": "status"}', levers) == {"ok": True, "status": {"admin": 3, "daemon": "eu1"}}
    assert levers.told == [
        (["us1", "us2"], Shape(40_000, 7, 0.05)),
        (["us1"], None),
        (["us2"], 7),
        ([], None),
        SetWindow(bundles=9),
        "reload",
        "terminate",
    ]


@pytest.mark.parametrize(
    ("line", "needed"),
    [
        (b'{"verb": "shape", "to": ["us1"]}', AdminVerb.SHAPE),
        (b'{"verb": "cut", "daemons": ["us1"]}', AdminVerb.CUT),
        (b'{"verb": "heal"}', AdminVerb.CUT),
        (b'{"verb": "window", "bundles": 9}', AdminVerb.WINDOW),
        (b'{"verb": "reload"}', AdminVerb.RELOAD),
        (b'{"verb": "terminate"}', AdminVerb.TERMINATE),
        (b'{"verb": "primary"}', AdminVerb.PRIMARY),
    ],
)
def test_a_verb_that_changes_something_is_refused_unless_it_is_allowed(line: bytes, needed: AdminVerb) -> None:
    levers = RecordingControls()
    others = [verb for verb in AdminVerb if verb is not needed]
    reply = json.loads(answer(line, levers, others))

    assert (reply["ok"], reply["denied"]) == (False, True)
    assert f'add "{needed}" to allow of [admin]' in reply["remedy"]
    assert "--dangerous" in reply["remedy"]
    assert levers.told == []
    assert json.loads(answer(line, levers, [needed]))["ok"] is True
    assert len(levers.told) == 1


def test_read_only_verbs_are_always_allowed() -> None:
    assert json.loads(answer(b'{"verb": "status"}', RecordingControls(), ()))["ok"] is True


@pytest.mark.parametrize(
    "line",
    [
        b'{"verb": "explode"}',
        b'{"verb": "terminate", "now": true}',
        b'{"verb": "window", "bundles": 0}',
        b'{"verb": "window", "bytes": "1MiB"}',
        b'{"verb": "cut"}',
        b'{"verb": "cut", "daemons": "us1"}',
        b'{"verb": "cut", "daemons": ["us1"], "force": true}',
        b'{"verb": "cut", "daemons": ["us1"], "for_us": 0}',
        b'{"verb": "cut", "daemons": ["us1"], "for_us": "30s"}',
        b'{"verb": "shape", "to": ["us1"], "loss": 1.5}',
        b'{"verb": "shape", "to": ["us1"], "delay_us": -1}',
        b'{"verb": "shape", "to": ["us1"], "delay_us": 60000001}',
        b"{}",
        b"[1, 2]",
        b"7",
    ],
)
def test_an_invalid_request_is_answered_with_a_remedy_and_has_no_effect(line: bytes) -> None:
    levers = RecordingControls()
    reply = said(line, levers)

    assert reply["ok"] is False
    assert reply["error"]
    assert "status" in str(reply["remedy"])
    assert levers.told == []


def test_an_impossible_request_is_an_error() -> None:
    reply = said(b'{"verb": "cut", "daemons": ["nobody"]}')

    assert reply == {"ok": False, "error": "there is no daemon nobody", "remedy": "choose of us1"}


@pytest.mark.parametrize("line", [b"hello", b"\xff\xfe", b'{"verb": "cut"', b'{"x":' * 9_000])
def test_a_line_that_is_not_json_is_an_error(line: bytes) -> None:
    with pytest.raises(NotJson):
        answer(line, RecordingControls(), list(AdminVerb))


# On its socket.


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "eu1.admin"


@pytest.fixture
def channel(loop: Loop, path: Path) -> Iterator[AdminSocket]:
    with path.with_suffix(".log").open("wb") as log:
        channel = AdminSocket(loop, DaemonLog("eu1", log.fileno()), path, RecordingControls(), list(AdminVerb))
        yield channel
        channel.close()


def call(path: Path) -> socket.socket:
    caller = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    caller.connect(str(path))
    caller.setblocking(False)
    return caller


def hear(loop: Loop, caller: socket.socket, lines: int) -> tuple[list[dict[str, object]], bool]:
    """The replies to a caller, and whether the connection was closed."""
    heard, ended = b"", False

    def enough() -> bool:
        nonlocal heard, ended
        loop.call_soon(lambda: None)  # So that the loop turns and does not sleep.
        try:
            chunk = caller.recv(1 << 16)
        except BlockingIOError:
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

    assert [reply["ok"] for reply in [*first, *others]] == [True, False, True]
    assert not ended


@pytest.mark.parametrize(
    "garbage", [b"GET / HTTP/1.1\r\n", b"x" * (LINE_BYTES_MAX + 1), b" " * (LINE_BYTES_MAX + 1) + b"\n"]
)
def test_invalid_input_costs_only_its_own_connection(
    loop: Loop, channel: AdminSocket, path: Path, garbage: bytes
) -> None:
    with call(path) as other, call(path) as caller:
        caller.send(garbage)
        reply, ended = hear(loop, caller, 2)
        other.send(b'{"verb": "status"}\n')
        answers, _ = hear(loop, other, 1)

    assert [one["ok"] for one in reply] == [False]
    assert ended
    assert answers[0]["ok"]


def test_another_user_is_refused(
    loop: Loop, channel: AdminSocket, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin_socket, "caller_uid", lambda _sock: 4711)
    with call(path) as caller:
        reply, ended = hear(loop, caller, 2)

    assert [one["error"] for one in reply] == ["user 4711 is no admin of this daemon"]
    assert ended
    assert 'refused admin="user 4711"' in path.with_suffix(".log").read_text()


def test_silent_callers_do_not_block_others(loop: Loop, channel: AdminSocket, path: Path) -> None:
    silent = [call(path) for _ in range(CALLERS_MAX)]
    silent[0].send(b'{"verb": "status"}\n')
    assert hear(loop, silent[0], 1)[0][0]["ok"]
    with call(path) as late:
        late.send(b'{"verb": "status"}\n')
        assert hear(loop, late, 1)[0][0]["ok"]
    assert hear(loop, silent[1], 1) == ([], True)  # It was silent for longest.
    for caller in silent:
        caller.close()


def test_a_line_in_small_pieces_is_answered_when_it_is_complete(
    loop: Loop, channel: AdminSocket, path: Path
) -> None:
    with call(path) as slow, call(path) as other:
        for byte in b'{"verb": "sta':
            slow.send(bytes([byte]))
            other.send(b'{"verb": "status"}\n')
            assert hear(loop, other, 1)[0][0]["ok"]
        slow.send(b'tus"}\n')
        assert hear(loop, slow, 1)[0][0]["ok"]


def test_a_caller_that_disconnects_inside_a_line_leaves_nothing_behind(
    loop: Loop, channel: AdminSocket, path: Path
) -> None:
    caller = call(path)
    caller.send(b'{"verb": "cut", "daemons": ["us1"]')
    caller.close()
    with call(path) as other:
        other.send(b'{"verb": "status"}\n')
        assert hear(loop, other, 1)[0][0]["ok"]
    assert "cut" not in path.with_suffix(".log").read_text()


def test_changes_are_logged_and_queries_are_not(loop: Loop, channel: AdminSocket, path: Path) -> None:
    with call(path) as caller:
        caller.send(b'{"verb": "status"}\n{"verb": "cut", "daemons": ["us1"]}\n')
        hear(loop, caller, 2)
    (line,) = path.with_suffix(".log").read_text().splitlines()

    assert "cut" in line


@pytest.fixture
def events(loop: Loop, channel: AdminSocket, path: Path) -> EventStore:
    store = EventStore(path.with_suffix(".events"), "eu1", loop.now_us)
    channel.offer(store)
    return store


def test_a_watcher_gets_what_is_kept_and_then_what_comes(
    loop: Loop, channel: AdminSocket, path: Path, events: EventStore
) -> None:
    for name in ("start", "view"):
        events.note(name, {})
    with call(path) as caller:
        caller.send(b'{"verb": "watch", "after": 1}\n')
        (told, view), ended = hear(loop, caller, 2)
        events.note("stalled", {"seconds": "3.2"})
        (stall,), _ = hear(loop, caller, 1)

    assert (told["ok"], told["result"], ended) == (True, {"daemon": "eu1", "first": 1, "last": 0}, False)
    assert (view["seq"], view["event"]) == (2, "view")
    assert (stall["seq"], stall["facts"]) == (3, {"seconds": "3.2"})
    assert path.with_suffix(".log").read_text() == "", "reading is not logged"


def test_watchers_keep_their_places_when_others_call_and_there_are_not_too_many(
    loop: Loop, channel: AdminSocket, path: Path, events: EventStore
) -> None:
    with ExitStack() as stack:
        watchers = [stack.enter_context(call(path)) for _ in range(WATCHERS_MAX + 1)]
        for watcher in watchers:
            watcher.send(b'{"verb": "watch"}\n')
        replies = [hear(loop, watcher, 1)[0][0] for watcher in watchers]
        assert [reply["ok"] for reply in replies] == [True] * WATCHERS_MAX + [False]
        for _ in range(2 * CALLERS_MAX):
            caller = stack.enter_context(call(path))
            caller.send(b'{"verb": "status"}\n')
            hear(loop, caller, 1)
        events.note("view", {})
        assert [hear(loop, watcher, 1)[0][0]["event"] for watcher in watchers[:-1]] == ["view"] * WATCHERS_MAX


def test_a_watcher_that_does_not_read_is_disconnected_and_holds_nothing_up(
    loop: Loop, channel: AdminSocket, path: Path, events: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin_socket, "UNREAD_EVENTS_BYTES_MAX", 100_000)
    with call(path) as watcher, call(path) as caller:
        watcher.send(b'{"verb": "watch"}\n')
        caller.send(b'{"verb": "status"}\n')
        hear(loop, caller, 1)
        published = 0
        while events.watchers and published < 900:
            events.note(f"e{published}", {"text": "x" * 1_000})
            loop.call_soon(lambda: None)
            loop.turn()
            published += 1
        caller.send(b'{"verb": "status"}\n')
        assert hear(loop, caller, 1)[0][0]["ok"] is True
        _, ended = hear(loop, watcher, 10_000)

    assert ended


@pytest.mark.parametrize("after", [b"-1", b'"all"', b"9007199254740993", b"null"])
def test_a_watch_that_is_not_well_formed_is_refused(
    loop: Loop, channel: AdminSocket, path: Path, events: EventStore, after: bytes
) -> None:
    with call(path) as caller:
        caller.send(b'{"verb": "watch", "after": ' + after + b"}\n")
        (reply,), _ = hear(loop, caller, 1)

    assert reply["ok"] is False


def test_the_socket_is_gone_in_the_end(loop: Loop, path: Path) -> None:
    AdminSocket(loop, DaemonLog("eu1"), path, RecordingControls()).close()

    assert not path.exists()


def test_an_invalid_path_is_refused(loop: Loop, tmp_path: Path) -> None:
    with pytest.raises(BindError, match="--admin"):
        AdminSocket(loop, DaemonLog("eu1"), tmp_path / ("x" * 120), RecordingControls())
