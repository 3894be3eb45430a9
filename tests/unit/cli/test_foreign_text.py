"""Names, payloads and errors of others reach a terminal as text."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner
from tests.unit.cli.conftest import Hop

from hopring.cli import daemon_session, pubsub, queries, shell
from hopring.cli.completion import group_names, spool_names
from hopring.cli.doctor import _print
from hopring.cli.doctor_checks import DoctorReport
from hopring.cli.monitor.table import plain_table, row_of
from hopring.cli.terminal import Failure
from hopring.client.errors import ConnectError
from hopring.client.events import Member, Message, Transition
from hopring.groups.names import GroupViewId
from hopring.ids import Place
from hopring.printable import printable
from hopring.services import Service
from hopring.spool.files import log_path
from hopring.spool.record import NO_VIEW, RecordHeader, RecordKind, run_of
from hopring.spool.retention import permit
from hopring.spool.writer import SpoolWriter

EVIL = "x\x1b]0;title\x07\x9b31m\x7f\u202e\u2028\r\n-- forged"
SHOWN = printable(EVIL)


def clean(text: str) -> bool:
    """Whether a terminal shows this text as it is."""
    return all(line.isprintable() for line in text.split("\n")) and "\n-- forged" not in text


def message(data: bytes) -> Message:
    return Message(f"#{EVIL}#eu1", (EVIL,), data, Service.SAFE, 0, Place(NO_VIEW, 1, 0))


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[[], str]:
    """Makes stdout a terminal; returns what was printed on it."""
    monkeypatch.setattr("hopring.cli.terminal.is_terminal", lambda: True)
    return lambda: capsys.readouterr().out


def test_sub_prints_payloads_and_names_as_text(terminal: Callable[[], str]) -> None:
    pubsub.show_event(message(EVIL.encode()))
    pubsub.show_event(Transition(EVIL, GroupViewId(NO_VIEW, (), 1), (Member("eu1", EVIL, 1, 1),)))

    payload, transition, rest = terminal().split("\n")
    assert payload == SHOWN
    assert transition.count(SHOWN) == 2
    assert rest == ""
    assert clean(payload + transition)


def test_a_payload_that_goes_to_a_program_is_left_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    text = "a\tb \x1b[31mred\x1b[0m \u202e"
    pubsub.show_event(message(text.encode()))
    shell.show_line(message(text.encode()))

    sub, typed, _ = capsys.readouterr().out.split("\n")
    assert sub == text
    assert typed.endswith(text)
    assert SHOWN in typed, "names are never part of a protocol between programs"


def test_the_shell_prints_messages_as_text(terminal: Callable[[], str]) -> None:
    shell.show_line(message(EVIL.encode()))

    out = terminal()
    assert out.count(SHOWN) == 3
    assert clean(out)


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session whose daemon answers with hostile names."""
    one = SimpleNamespace(name=EVIL, daemon=EVIL, members=1, here=1, private_group=EVIL, session=1)
    one.suspended = True
    view = SimpleNamespace(counter=1, representative=2, nonce=3)
    answers = {
        "groups": lambda **_: [one],
        "members": lambda *_, **__: SimpleNamespace(
            group=EVIL, id=SimpleNamespace(view=view, signed=1), members=[one], suspended=True, minimum=2
        ),
        "view": lambda *_, **__: SimpleNamespace(
            text="1.2",
            members=[EVIL],
            cause=EVIL,
            age_seconds=1.0,
            primary=True,
            primary_by=EVIL,
            suspended=[EVIL],
            reason=None,
        ),
        "link_weights": lambda **_: SimpleNamespace(
            links=[
                SimpleNamespace(sites=[EVIL], protocol=EVIL, configured=1, measured=None, agreed=None, use=EVIL)
            ],
            weights="measured",
            representative=EVIL,
            daemon="eu1",
        ),
        "daemon": EVIL,
    }

    @contextmanager
    def query_session(*_: Any) -> Iterator[Any]:
        yield SimpleNamespace(**answers)

    monkeypatch.setattr(queries, "query_session", query_session)
    monkeypatch.setattr(daemon_session, "query_session", query_session)


@pytest.mark.usefixtures("answering")
@pytest.mark.parametrize("words", [["groups"], ["members", EVIL], ["view"], ["routes", "--at", "hop://eu1:1"]])
def test_queries_print_names_as_text(hop: Hop, words: list[str]) -> None:
    shown = hop(*words)

    assert shown.exit_code == 0, shown.output
    assert SHOWN in shown.output
    assert clean(shown.output)


@pytest.mark.usefixtures("answering")
@pytest.mark.parametrize(("words", "field"), [(["groups"], "group"), (["members", EVIL], "members")])
def test_json_has_the_names_themselves(hop: Hop, words: list[str], field: str) -> None:
    found = json.loads(hop(*words, "--json").output)

    value = found[0][field] if isinstance(found, list) else found[field][0]["name"]
    assert value == EVIL


@pytest.mark.usefixtures("answering")
def test_no_shell_is_offered_such_a_name(tmp_path: Path) -> None:
    with SpoolWriter(tmp_path, EVIL), SpoolWriter(tmp_path, "good"):
        pass
    context = click.Context(click.Command("x"))
    context.params["root"] = tmp_path

    assert group_names(context, click.Argument(["x"]), "") == []
    assert spool_names(context, click.Argument(["x"]), "") == ["good"]


def test_an_error_of_a_daemon_is_text() -> None:
    @click.command()
    def refused() -> None:
        with daemon_session.client_errors():
            raise ConnectError("hop://eu1:1", EVIL, "try again")

    shown = CliRunner().invoke(refused)

    assert shown.output.count("\n") == 1
    assert clean(shown.output)


def test_a_failure_may_have_several_lines_and_no_control_characters() -> None:
    @click.command()
    def failing() -> None:
        raise Failure("one\ntwo \x1b[2J")

    assert CliRunner().invoke(failing).output == "hop: one\ntwo \\u001b[2J\n"


def test_the_table_of_daemons_is_text() -> None:
    status = {
        **{"daemon": EVIL, "site": EVIL, "phase": EVIL, "view": "1.2.3", "members": [], "cut": [EVIL]},
        "window": {"used_bytes": 0, "bytes": 0, "personal_segments": 1, "global_segments": 2},
    }

    shown = plain_table([row_of(status, ["0"] * 5)])

    assert shown.count("\n") == 1
    assert shown.count(SHOWN) == 4
    assert clean(shown)


def test_the_doctor_prints_text(capsys: pytest.CaptureFixture[str]) -> None:
    report = DoctorReport()
    report.finding(EVIL, EVIL, EVIL)
    _print(report, as_json=False, show_all=True)

    out = capsys.readouterr().out
    assert out.count(SHOWN) == 3
    assert clean(out)


def test_spools_print_groups_senders_and_consumers_as_text(
    hop: Hop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = RecordHeader(RecordKind.MESSAGE, 1, EVIL, (EVIL,))
    with SpoolWriter(tmp_path, EVIL) as writer:
        writer.append([run_of(header, [EVIL.encode()])])
    permit(writer.directory, EVIL, 0)

    assert clean(hop("spool", "ls", "--spool", tmp_path).output)
    piped = hop("spool", "replay", EVIL, "--spool", tmp_path)
    assert piped.stdout_bytes == f"{EVIL}\n".encode(), "stdout is no terminal"
    monkeypatch.setattr("hopring.cli.terminal.is_terminal", lambda: True)
    assert hop("spool", "replay", EVIL, "--spool", tmp_path).output == f"{SHOWN}\n"
    log_path(writer.directory, 0).write_bytes(b"")
    assert clean(hop("spool", "verify", EVIL, "--spool", tmp_path).output)
