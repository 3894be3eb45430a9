"""The events that a daemon keeps: their numbers, their files, and files that are torn, damaged or full."""

import json
import os
from pathlib import Path

import pytest

from hopring.daemon.process.event_store import BURST, EVENTS_MAX, LINE_BYTES_MAX, EventStore, earlier_file

SECOND_US = 1_000_000


class Clock:
    """A clock that moves on with each look, so that nothing is held back."""

    def __init__(self, step_us: int = SECOND_US) -> None:
        self.us = 0
        self._step_us = step_us

    def __call__(self) -> int:
        self.us += self._step_us
        return self.us


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lab.eu1.events"


def store_at(path: Path, step_us: int = SECOND_US) -> EventStore:
    return EventStore(path, "eu1", Clock(step_us))


def kept(store: EventStore, after: int = 0) -> list[dict[str, object]]:
    return [json.loads(one.line) for one in store.after(after)]


def test_events_have_numbers_and_are_found_behind_one(path: Path) -> None:
    store = store_at(path)
    for name in ("start", "view", "stalled"):
        store.note(name, {"why": name, "size": 2})

    assert (store.first, store.last) == (1, 3)
    assert [one["event"] for one in kept(store, after=1)] == ["view", "stalled"]
    event = kept(store)[1]
    assert (event["seq"], event["daemon"], event["facts"]) == (2, "eu1", {"why": "view", "size": 2})


def test_numbers_go_on_after_a_restart_and_a_process_without_an_end_has_crashed(path: Path) -> None:
    first = store_at(path)
    first.note("start", {})
    first.close()

    second = store_at(path)
    assert second.crashed
    second.note("start", {})
    second.note("end", {})
    assert [(one["seq"], one["event"]) for one in kept(second)] == [(1, "start"), (2, "start"), (3, "end")]
    second.close()
    assert not store_at(path).crashed


def test_the_files_and_the_memory_are_bounded(path: Path) -> None:
    store = store_at(path)
    for number in range(2 * EVENTS_MAX + 7):
        store.note("view", {"number": number})

    assert (store.first, store.last) == (EVENTS_MAX + 8, 2 * EVENTS_MAX + 7)
    assert path.read_bytes().count(b"\n") == 7
    assert earlier_file(path).read_bytes().count(b"\n") == EVENTS_MAX
    assert kept(store_at(path)) == kept(store)


def test_a_line_that_was_torn_by_the_end_of_the_host_is_left_out_and_the_next_is_whole(path: Path) -> None:
    store = store_at(path)
    store.note("start", {})
    store.note("view", {"id": "3.0"})
    store.close()
    path.write_bytes(path.read_bytes()[:-20])

    again = store_at(path)
    again.note("start", {})
    again.close()
    assert [one["event"] for one in kept(store_at(path))] == ["start", "start"]


def test_damaged_lines_and_numbers_that_go_back_are_left_out(path: Path) -> None:
    lines = [
        b"\x00\xff",
        b"[" * 3_000,
        b'{"seq": 4, "event": "view"}',
        b'{"seq": true, "event": "x"}',
        b'{"seq": 3}',
    ]
    path.write_bytes(b"\n".join([*lines, b'{"seq": 2, "event": "view"}', b'"' + b"x" * LINE_BYTES_MAX, b""]))
    store = store_at(path)
    store.note("start", {})

    assert [one["seq"] for one in kept(store)] == [4, 5]


def test_a_flood_of_one_name_is_held_back_and_counted_and_others_pass(path: Path) -> None:
    store = store_at(path, step_us=1)
    for _ in range(3 * BURST):
        store.note("client", {})
    store.note("view", {})

    assert BURST < len(kept(store)) < BURST + 4
    assert kept(store)[-1]["event"] == "view"


def test_what_was_held_back_is_said_by_the_next_one(path: Path) -> None:
    clock = Clock(1)
    store = EventStore(path, "eu1", clock)
    for _ in range(BURST + 50):
        store.note("client", {})
    clock.us += 10 * SECOND_US
    store.note("client", {"name": "anna"})

    *before, last = kept(store)
    assert last["facts"] == {"name": "anna", "held_back": BURST + 50 - len(before)}


def test_values_of_any_bytes_and_any_length_make_one_line(path: Path) -> None:
    store = store_at(path)
    store.note("client", {"name": "\u202e\x1b[31m\n", "why": "\ud800" * 9_000, "more": "é" * 9_000})
    store.note("view", {f"field {number}": "x" * 99 for number in range(900)})

    assert all(len(one.line) < LINE_BYTES_MAX and b"\n" not in one.line for one in store.after(0))
    assert [one["seq"] for one in kept(store_at(path))] == [1, 2]


def test_a_directory_that_is_gone_is_one_warning_and_the_daemon_goes_on(tmp_path: Path) -> None:
    store = store_at(tmp_path / "nowhere" / "lab.eu1.events")
    told: list[str] = []
    store.warn = told.append
    for _ in range(3):
        store.note("view", {})

    assert store.last == 3
    assert told == store.warnings
    assert len(told) == 1
    assert "No such file" in told[0]


def test_a_disk_that_is_full_tears_no_later_line(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, whole = store_at(path), os.write
    store.note("start", {})
    monkeypatch.setattr(os, "write", lambda file, line: whole(file, line[:10]))
    store.note("view", {})
    monkeypatch.undo()
    store.note("stalled", {})

    assert [one["event"] for one in kept(store_at(path))] == ["start", "stalled"]


def test_a_path_that_is_no_file_is_not_written(tmp_path: Path) -> None:
    (tmp_path / "lab.eu1.events").mkdir()
    store = store_at(tmp_path / "lab.eu1.events")
    store.note("view", {})

    assert store.last == 1
    assert store.warnings


def test_watchers_get_each_event_and_none_behind_the_end(path: Path) -> None:
    store = store_at(path)
    seen: list[int] = []
    store.watchers.append(lambda event: seen.append(event.seq))
    store.note("start", {})
    store.note("view", {})
    store.close()
    store.note("view", {})

    assert seen == [1, 2]
