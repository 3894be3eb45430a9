"""Lines with events: those of a daemon's file, of its log in both formats, and lines that have none."""

import json
from pathlib import Path

import pytest

from hopring.cli.monitor.event_lines import LoggedEvent, event_text, read_event, read_events, seconds_of
from hopring.config import LogFormat, LogTuning
from hopring.daemon.log import DaemonLog

FACTS = {
    "size": 2,
    "members": "eu1,us1",
    "cause": 'link with "us1": a=b \\ nothing\n',
    "noticed": 0.25,
    "empty": "",
}


@pytest.mark.parametrize("form", list(LogFormat))
def test_a_line_of_the_log_is_read_as_it_was_written(tmp_path: Path, form: LogFormat) -> None:
    with (tmp_path / "log").open("wb") as file:
        log = DaemonLog("eu1", file.fileno())
        log.tune(LogTuning(format=form))
        log.say("view", **FACTS)
    event = read_event(b"Mar 02 09:14:07 host hopd[77]: " + (tmp_path / "log").read_bytes())

    assert event is not None
    assert (event.daemon, event.name, event.seq) == ("eu1", "view", 0)
    assert (event.list_of("members"), event.number("noticed")) == (("eu1", "us1"), 0.25)
    assert event.facts["cause"] == FACTS["cause"]
    assert event.list_of("empty") == ()


def test_a_stored_event_has_its_number() -> None:
    line = {"seq": 7, "time": "2026-03-02T09:14:07.250Z", "daemon": "eu1", "event": "refused"}
    event = read_event(json.dumps({**line, "facts": {"daemon": "us1", "count": 3}}).encode())

    assert event is not None
    assert event == LoggedEvent("eu1", event.at_s, "refused", {"daemon": "us1", "count": "3"}, 7)
    assert event.at_s % 60 == 7.25
    assert event_text(event) == "2026-03-02T09:14:07.250Z eu1 refused daemon=us1 count=3"


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"Traceback (most recent call last):",
        b"\xff\x00\x80" * 50,
        b'{"time": 7, "event": "view"}',
        b'{"time": "2026-03-02T09:14:07.250Z", "event": ["view"]}',
        b'{"time": "yesterday", "daemon": "eu1", "event": "view"}',
        b'{"seq": 7, "time": "2026-03-02T09:14:07.250Z", "daemon": "eu1", "event": "vi',
        b"[" * 100_000,
        b"2026-99-99T09:14:07.250Z eu1 view id=7",
        b"2026-03-02T09:14:07.250Z eu1",
    ],
)
def test_other_lines_have_no_event(line: bytes) -> None:
    assert read_event(line) is None


def test_a_log_that_is_cut_in_the_middle_gives_what_is_whole() -> None:
    whole = b"2026-03-02T09:14:07.250Z eu1 view id=7 size=1"
    events, others = read_events([b"14:07.2 view id=3", whole, b"", b"2026-03-02T09:14:0"])

    assert ([one.facts["id"] for one in events], others) == (["7"], 2)


def test_a_number_that_is_none_counts_as_nothing() -> None:
    event = LoggedEvent("eu1", 0.0, "view", {"silence": "nan", "noticed": "-3", "size": "two", "more": "inf"})

    assert [event.number(one) for one in ("silence", "noticed", "size", "more", "missing")] == [0.0] * 5


def test_a_time_beyond_the_calendar_is_none() -> None:
    assert seconds_of("2026-03-02T09:14:07Z") is not None
    assert seconds_of("9999999-03-02") is None
