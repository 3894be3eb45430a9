"""`hop why` on files, and at admin sockets that answer nothing, rubbish, or that one has no rights."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.unit.cli.why.told_logs import ToldLog, split

from hopring.cli.main import cli


def why(*words: str) -> Result:
    return CliRunner().invoke(cli, ["why", "--timeout", "0.3", *words])


@pytest.fixture
def logs(tmp_path: Path) -> list[str]:
    paths = []
    for log in split():
        path = tmp_path / f"{log.daemon}.log"
        path.write_bytes(log.text)
        paths.append(str(path))
    return paths


def test_logs_tell_the_story(logs: list[str]) -> None:
    result = why(*logs)

    assert result.exit_code == 0
    assert "where   link eu-us\n" in result.stdout
    assert result.stderr == ""
    assert why(*logs, "3.2").stdout == result.stdout


def test_the_story_as_json_has_the_same_facts(logs: list[str]) -> None:
    story = json.loads(why(*logs, "--json").stdout)

    assert [one["fault"] for one in story["incidents"]] == ["network"]
    assert story["incidents"][0]["sides"] == [["eu1", "eu2"], ["us1", "us2"]]
    assert story["problems"] == []


def test_a_log_that_is_cut_in_the_middle_is_one_line_and_the_rest_is_told(logs: list[str]) -> None:
    path = Path(logs[0])
    path.write_bytes(path.read_bytes()[30:-40])
    result = why(*logs)

    assert "where   link eu-us\n" in result.stdout
    assert result.stderr == f"hop: {path}: 2 of 4 lines are no events, or cut\n"


def test_a_directory_with_files_of_events_is_read_the_earlier_file_first(tmp_path: Path) -> None:
    for log in split():
        events = [line.split(" ", 3) for line in log.lines]
        lines = [
            json.dumps({"seq": at, "time": time, "daemon": name, "event": event, "facts": _facts(words)})
            for at, (time, name, event, words) in enumerate(events, start=1)
        ]
        (tmp_path / f"lab.{log.daemon}.events.1").write_text("\n".join([*lines[:2], ""]))
        (tmp_path / f"lab.{log.daemon}.events").write_text("\n".join([*lines[2:], ""]))
    result = why(str(tmp_path))

    assert "where   link eu-us\n" in result.stdout


def _facts(words: str) -> dict[str, str]:
    return dict(word.split("=", 1) for word in words.split())


def test_a_file_that_is_missing_or_no_log_is_one_line_and_the_rest_is_told(
    logs: list[str], tmp_path: Path
) -> None:
    (tmp_path / "noise.log").write_bytes(bytes(range(256)) * 50)
    result = why(*logs, str(tmp_path / "gone.log"), str(tmp_path / "noise.log"))

    assert "where   link eu-us\n" in result.stdout
    assert result.stderr.splitlines() == [
        f"hop: {tmp_path}/gone.log: No such file or directory",
        f"hop: {tmp_path}/noise.log: no line of it is an event of a daemon",
    ]


def test_files_without_any_event_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "empty.log").touch()
    result = why(str(tmp_path / "empty.log"))

    assert result.exit_code == 1
    assert "no event of a daemon in these files" in result.stderr


def test_an_unknown_view_is_an_error_that_names_known_ones(logs: list[str]) -> None:
    result = why(*logs, "77.0")

    assert result.exit_code == 1
    assert result.stderr.startswith("hop: no daemon knows view 77.0; the last that are known: 2.0.")


def test_views_without_a_loss_are_said_to_be_whole(tmp_path: Path) -> None:
    log = ToldLog("eu1", "eu")
    log.view(10.0, "2.0", "eu1", "cause=start kind=start")
    (tmp_path / "eu1.log").write_bytes(log.text)

    assert "no view was lost; the present one is 2.0" in why(str(tmp_path / "eu1.log")).stdout
    assert "view 2.0 followed no loss" in why(str(tmp_path / "eu1.log"), "2.0").stdout


def test_only_what_began_lately_is_told_on_demand(logs: list[str]) -> None:
    assert "no view was lost in the last 3600 s" in why(*logs, "--since", "1h").stdout
    assert why(*logs, "--since", "soon").exit_code == 2
    assert why("7.0", "8.0").exit_code == 2


def test_without_any_socket_it_says_so(tmp_path: Path) -> None:
    result = why("--admin", str(tmp_path))

    assert result.exit_code == 3
    assert "there is no admin socket" in result.stderr


@contextmanager
def answering(path: Path, answer: bytes) -> Iterator[None]:
    """Something that listens where a daemon should, and answers each request with this."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    listener.listen()

    def serve() -> None:
        while True:
            try:
                caller, _ = listener.accept()
            except OSError:
                return
            with caller:
                caller.settimeout(5)
                try:
                    while caller.recv(4096):
                        caller.sendall(answer)
                except OSError:
                    pass

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(10)


RUBBISH = {
    b"": "no answer within 0.3 s",
    b"hello\n": "what answers is no daemon",
    b"[1, 2]\n": "what answers is no daemon",
    b'{"ok": true}\n': "what answers is no daemon",
    b'{"ok": true, "status": 7, "result": {"daemon": "eu1", "time": "?", "last": 3}}\n': "what answers",
    b'{"ok": true, "result": {"daemon": "eu1", "time": "2026-03-02", "last": 3}}\n': "",
}


@pytest.mark.parametrize("answer", RUBBISH, ids=range(len(RUBBISH)))
def test_what_answers_nothing_or_rubbish_is_one_line(tmp_path: Path, answer: bytes) -> None:
    with answering(tmp_path / "eu1.admin", answer):
        result = why("--admin", str(tmp_path))

    assert result.exit_code == 3
    assert "Traceback" not in result.output
    assert RUBBISH[answer] in result.stderr
    assert "no daemon answers" in result.stderr


def test_without_rights_it_says_so_once(tmp_path: Path) -> None:
    denied = (
        b'{"ok": false, "error": "user 7 is no admin of this daemon", "remedy": "be root", "denied": true}\n'
    )
    with answering(tmp_path / "eu1.admin", denied):
        result = why("--admin", str(tmp_path))

    assert result.exit_code == 6
    assert result.stderr.splitlines() == [
        f"hop: {tmp_path}/eu1.admin: user 7 is no admin of this daemon; be root",
        "hop: no daemon lets us ask; call as the daemons' own user, or as root",
    ]
