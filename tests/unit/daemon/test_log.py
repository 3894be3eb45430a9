import json
import os
from collections.abc import Iterator
from contextlib import suppress

import pytest

from hopring.config import LogFormat, LogLevel, LogTuning
from hopring.daemon.log import BURST_LINES, LINE_BYTES_MAX, REFILL_US, DaemonLog


class Paper:
    """A pipe to write on, and a clock."""

    def __init__(self) -> None:
        self.reading, self.writing = os.pipe()
        os.set_blocking(self.reading, False)
        self.now_us = 1_000_000
        self.log = DaemonLog("eu1", self.writing, lambda: self.now_us)

    def lines(self) -> list[str]:
        try:
            return os.read(self.reading, 1 << 20).decode().splitlines()
        except BlockingIOError:
            return []


@pytest.fixture
def paper() -> Iterator[Paper]:
    paper = Paper()
    yield paper
    os.close(paper.reading)
    os.close(paper.writing)


def test_a_line_has_time_name_event_and_fields(paper: Paper) -> None:
    paper.log.say("view", id="3.0.ab", members="eu1,eu2", cause='the "token" was lost')

    (line,) = paper.lines()
    time, rest = line.split(" ", 1)
    assert time.endswith("Z")
    assert rest == 'eu1 view id=3.0.ab members=eu1,eu2 cause="the \\"token\\" was lost"'


def test_a_line_stays_one_line_and_is_not_longer_than_the_limit(paper: Paper) -> None:
    paper.log.say("view", cause="two\nlines", members="x" * 10_000)

    (line,) = paper.lines()
    assert "two\\nlines" in line
    assert len(line) == LINE_BYTES_MAX - 1


def test_json_lines_are_objects_however_long_their_fields_are(paper: Paper) -> None:
    paper.log.tune(LogTuning(LogFormat.JSON))
    paper.log.say("view", size=3, cause='the "token"\nwas lost')
    paper.log.say("dropped", detail="ä" * 10_000, other="x" * 600)

    view, dropped = map(json.loads, paper.lines())
    assert view.pop("time").endswith("Z")
    assert view == {
        "daemon": "eu1",
        "level": "info",
        "event": "view",
        "size": 3,
        "cause": 'the "token"\nwas lost',
    }
    assert dropped["level"] == "warning"
    assert dropped["detail"] == "ä" * 512


def test_a_log_for_warnings_has_nothing_else(paper: Paper) -> None:
    paper.log.tune(LogTuning(level=LogLevel.WARNING))
    paper.log.say("view")
    paper.log.say("warning", text="x")

    assert [line.split()[2] for line in paper.lines()] == ["warning"]


def test_how_much_is_held_back_can_be_tuned(paper: Paper) -> None:
    paper.log.tune(LogTuning(burst_lines=2, every_us=1_000))
    for _ in range(5):
        paper.log.say("view")
    assert len(paper.lines()) == 2

    paper.now_us += 1_000
    paper.log.say("view")
    assert paper.lines()[0].endswith("view held_back=3")


def test_what_comes_again_and_again_is_held_back_and_counted(paper: Paper) -> None:
    for number in range(BURST_LINES + 30):
        paper.log.say("view", number=number)
    assert len(paper.lines()) == BURST_LINES

    paper.log.say("other")
    assert len(paper.lines()) == 1

    paper.now_us += REFILL_US
    paper.log.say("view", number=99)
    (line,) = paper.lines()
    assert line.endswith("view number=99 held_back=30")


def test_lines_that_nobody_takes_are_lost_and_nothing_waits(paper: Paper) -> None:
    os.set_blocking(paper.writing, False)
    with suppress(BlockingIOError):
        while True:
            os.write(paper.writing, bytes(1 << 12))
    os.set_blocking(paper.writing, True)
    paper.log.say("view")

    assert paper.log.lost == 1


@pytest.mark.parametrize("form", list(LogFormat))
def test_whatever_a_terminal_might_obey_is_escaped_and_letters_stay(paper: Paper, form: LogFormat) -> None:
    paper.log.tune(LogTuning(form))
    name = "Jürgen\x9b31m\x7f\u202e\U000e0001\x1b[2J"
    paper.log.say("client", name=name, plain="Jürgen")

    (line,) = paper.lines()
    assert line.isprintable()
    quoted = r"\u009b31m\u007f\u202e\udb40\udc01\u001b[2J"
    assert quoted in line
    if form is LogFormat.JSON:
        assert json.loads(line)["name"] == name
    else:
        assert line.endswith(" plain=Jürgen")
