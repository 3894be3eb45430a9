import json
import os
from collections.abc import Iterator
from contextlib import suppress

import pytest

from hopring.config import LogFormat, LogLevel, LogTuning
from hopring.daemon.log import BURST_LINES, LINE_BYTES_MAX, REFILL_US, DaemonLog


class LogPipe:
    """A pipe as the output of a log, and a clock."""

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
def log_pipe() -> Iterator[LogPipe]:
    log_pipe = LogPipe()
    yield log_pipe
    os.close(log_pipe.reading)
    os.close(log_pipe.writing)


def test_a_line_has_time_name_event_and_fields(log_pipe: LogPipe) -> None:
    log_pipe.log.say("view", id="3.0.ab", members="eu1,eu2", cause='the "token" was lost')

    (line,) = log_pipe.lines()
    time, rest = line.split(" ", 1)
    assert time.endswith("Z")
    assert rest == 'eu1 view id=3.0.ab members=eu1,eu2 cause="the \\"token\\" was lost"'


def test_a_line_stays_one_line_and_is_not_longer_than_the_limit(log_pipe: LogPipe) -> None:
    log_pipe.log.say("view", cause="two\nlines", members="x" * 10_000)

    (line,) = log_pipe.lines()
    assert "two\\nlines" in line
    assert len(line) == LINE_BYTES_MAX - 1


def test_json_lines_are_objects_however_long_their_fields_are(log_pipe: LogPipe) -> None:
    log_pipe.log.tune(LogTuning(LogFormat.JSON))
    log_pipe.log.say("view", size=3, cause='the "token"\nwas lost')
    log_pipe.log.say("dropped", detail="ä" * 10_000, other="x" * 600)

    view, dropped = map(json.loads, log_pipe.lines())
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


def test_a_log_for_warnings_has_nothing_else(log_pipe: LogPipe) -> None:
    log_pipe.log.tune(LogTuning(level=LogLevel.WARNING))
    log_pipe.log.say("view")
    log_pipe.log.say("warning", text="x")

    assert [line.split()[2] for line in log_pipe.lines()] == ["warning"]


def test_the_rate_limit_can_be_configured(log_pipe: LogPipe) -> None:
    log_pipe.log.tune(LogTuning(burst_lines=2, every_us=1_000))
    for _ in range(5):
        log_pipe.log.say("view")
    assert len(log_pipe.lines()) == 2

    log_pipe.now_us += 1_000
    log_pipe.log.say("view")
    assert log_pipe.lines()[0].endswith("view held_back=3")


def test_repeated_lines_are_suppressed_and_counted(log_pipe: LogPipe) -> None:
    for number in range(BURST_LINES + 30):
        log_pipe.log.say("view", number=number)
    assert len(log_pipe.lines()) == BURST_LINES

    log_pipe.log.say("other")
    assert len(log_pipe.lines()) == 1

    log_pipe.now_us += REFILL_US
    log_pipe.log.say("view", number=99)
    (line,) = log_pipe.lines()
    assert line.endswith("view number=99 held_back=30")


def test_lines_that_nobody_reads_are_dropped_without_blocking(log_pipe: LogPipe) -> None:
    os.set_blocking(log_pipe.writing, False)
    with suppress(BlockingIOError):
        while True:
            os.write(log_pipe.writing, bytes(1 << 12))
    os.set_blocking(log_pipe.writing, True)
    log_pipe.log.say("view")

    assert log_pipe.log.lost == 1


@pytest.mark.parametrize("form", list(LogFormat))
def test_control_characters_are_escaped_and_letters_are_kept(log_pipe: LogPipe, form: LogFormat) -> None:
    log_pipe.log.tune(LogTuning(form))
    name = "Jürgen\x9b31m\x7f\u202e\U000e0001\x1b[2J"
    log_pipe.log.say("client", name=name, plain="Jürgen")

    (line,) = log_pipe.lines()
    assert line.isprintable()
    quoted = r"\u009b31m\u007f\u202e\udb40\udc01\u001b[2J"
    assert quoted in line
    if form is LogFormat.JSON:
        assert json.loads(line)["name"] == name
    else:
        assert line.endswith(" plain=Jürgen")
