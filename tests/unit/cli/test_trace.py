from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.unit.check.evs_c_notation import client_history
from tests.unit.check.evs_notation import history
from tests.unit.cli.conftest import Hop

from hopring.check.trace_files import write_json_lines, write_parquet

DAEMONS = "a: view 1 ab | send 1 | deliver a:1 | signal | view 2 a\nb: view 1 ab | deliver a:1 | crash"
SESSIONS = "a: view red 1.1 a | send 1 to red | got a:1"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A trace file with events of daemons and of clients."""
    path = tmp_path / "trace.jsonl"
    with path.open("wb") as lines:
        write_json_lines([*history(DAEMONS), *client_history(SESSIONS.replace("a:", "c:"))], lines)
    return path


def test_the_picture_goes_to_stdout_or_to_a_file(hop: Hop, file: Path, tmp_path: Path) -> None:
    shown = hop("trace", "draw", file)
    written = hop("trace", "draw", file, "-o", tmp_path / "picture.svg")

    assert (shown.exit_code, written.exit_code, written.stdout) == (0, 0, "")
    assert (tmp_path / "picture.svg").read_text() == shown.stdout
    assert ElementTree.fromstring(shown.stdout).tag.endswith("svg")


def test_parquet_gives_the_same_picture(hop: Hop, file: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="needs pyarrow: make arrow")
    events = [*history(DAEMONS), *client_history(SESSIONS.replace("a:", "c:"))]
    write_parquet(events, tmp_path / "trace.parquet")

    assert hop("trace", "draw", tmp_path / "trace.parquet").stdout == hop("trace", "draw", file).stdout


def test_the_files_of_several_daemons_make_one_picture(hop: Hop, file: Path, tmp_path: Path) -> None:
    lines = file.read_bytes().splitlines(keepends=True)
    for name in "ab":
        own = [line for line in lines if f'"daemon":"{name}"'.encode() in line]
        (tmp_path / name).write_bytes(b"".join(own))
    result = hop("trace", "draw", tmp_path / "a", tmp_path / "b")

    assert "Lanes, from top to bottom, are daemons: a, b." in result.stdout


def test_a_group_a_window_a_title_and_a_width(hop: Hop, file: Path) -> None:
    options = ["--group", "red", "--from", "1us", "--to", "2us", "--title", "mine", "--width", "500"]
    result = hop("trace", "draw", file, *options)

    assert result.exit_code == 0
    assert 'width="500"' in result.stdout
    assert ">mine</title>" in result.stdout
    assert "Not shown: " in result.stdout


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "the trace is empty"),
        (b"cluster = 'x'\n", "line 1"),
        (b'{"at": 3}\n', "line 1"),
        (b"PAR1 and nothing else", "not a trace that can be read"),
        (b"\xff\x00", "line 1"),
    ],
)
def test_a_foreign_file_is_exit_code_1_and_named(hop: Hop, tmp_path: Path, content: bytes, told: str) -> None:
    (tmp_path / "foreign").write_bytes(content)
    result = hop("trace", "draw", tmp_path / "foreign", "-o", tmp_path / "picture.svg")

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"hop: {tmp_path / 'foreign'}: ")
    assert told in result.stderr
    assert not (tmp_path / "picture.svg").exists()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--group", "blue"], "there are red"),
        (["--from", "5s"], "nothing happens in this window"),
    ],
)
def test_nothing_to_draw_is_exit_code_1(hop: Hop, file: Path, arguments: list[str], told: str) -> None:
    result = hop("trace", "draw", file, *arguments)

    assert (result.exit_code, result.stdout) == (1, "")
    assert told in result.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--from", "5"], "'5' is not a duration; write one as 200ms"),
        (["--from", "2s", "--to", "1s"], "--to has to be later than --from"),
        (["--width", "5"], "--width"),
    ],
)
def test_contradictory_options_are_exit_code_2(hop: Hop, file: Path, arguments: list[str], told: str) -> None:
    result = hop("trace", "draw", file, *arguments)

    assert (result.exit_code, result.stdout) == (2, "")
    assert told in result.stderr


def test_a_file_that_is_not_there_or_cannot_be_written_is_exit_code_1(
    hop: Hop, file: Path, tmp_path: Path
) -> None:
    missing = hop("trace", "draw", tmp_path / "none")
    unwritable = hop("trace", "draw", file, "-o", tmp_path / "no" / "where.svg")

    assert (missing.exit_code, unwritable.exit_code) == (1, 1)
    assert "cannot be read (No such file or directory)" in missing.stderr
    assert "cannot be written (No such file or directory)" in unwritable.stderr
