"""The last events of a daemon, with sequence numbers that go on over restarts.

An event is what the log says, and beside it signals and links: events of control, none for a message. Each is
one JSON line, `seq`, `time`, `daemon`, `event` and `facts`, in memory and in a file of the state directory. The
file is appended to and never synced, so a kill of the process loses nothing and the daemon waits for no disk; a
line that the end of the host has torn is left out by readers. After `EVENTS_MAX` lines or `FILE_BYTES_MAX`
bytes it takes the place of the earlier file. If nothing can be written, the daemon goes on, and says so once.
"""

import json
import os
import stat
from collections import deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from hopring.daemon.process.durable_file import read_file
from hopring.links.hop.pacing import Bucket
from hopring.system.kernel import Files, kernel

EVENTS_MAX: Final = 1_000
FILE_BYTES_MAX: Final = 2 << 20
LINE_BYTES_MAX: Final = 4_096
VALUE_CHARACTERS_MAX: Final = 1_024

PER_SECOND: Final = 1
BURST: Final = 100
"""Limits for the events of one name, so that those of clients do not drive out the views."""

_MODE: Final = 0o600
_WRITE: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class StoredEvent(NamedTuple):
    """An event: its number, and its line without the newline."""

    seq: int
    line: bytes


class EventStore:
    """The events of one daemon; `warnings` has what is wrong with its files."""

    def __init__(self, path: Path, daemon: str, now_us: Callable[[], int]) -> None:
        """Reads the events of earlier processes; writes nothing yet."""
        self.warnings: list[str] = []
        self.warn: Callable[[str], None] | None = None
        """Gets a warning that comes later."""
        self.watchers: list[Callable[[StoredEvent], None]] = []
        self._kernel = kernel()
        self._path = path
        self._daemon = daemon
        self._now_us = now_us
        self._events: deque[StoredEvent] = deque(maxlen=EVENTS_MAX)
        self._rates: dict[str, Bucket] = {}
        self._held_back: dict[str, int] = {}
        self._file: int | None = None
        self._lines = self._bytes = 0  # Of the file that is written.
        self._torn = self._closed = False
        last = self._load()
        self.crashed = bool(self._events) and last != "end"
        """Whether the process before this one has not ended by itself."""

    @property
    def first(self) -> int:
        """The number of the oldest event that is kept; of the next one, if there is none."""
        return self._events[0].seq if self._events else 1

    @property
    def last(self) -> int:
        """The number of the newest event; 0 before the first."""
        return self._events[-1].seq if self._events else 0

    def after(self, seq: int) -> list[StoredEvent]:
        """The events behind this number, as far as they are kept."""
        return [one for one in self._events if one.seq > seq]

    def note(self, event: str, facts: Mapping[str, object]) -> None:
        """Adds an event, unless there are too many of its name; the next one says how many were left out."""
        if self._closed:
            return
        rate = self._rates.setdefault(event, Bucket(PER_SECOND, BURST))
        now_us = self._now_us()
        rate.fill(now_us)
        if rate.ready_at_us > now_us:
            self._held_back[event] = self._held_back.get(event, 0) + 1
            return
        rate.spend(1)
        values = {key: _short(value) for key, value in facts.items()}
        if held_back := self._held_back.pop(event, 0):
            values["held_back"] = held_back
        now = (
            datetime.fromtimestamp(self._kernel.wall_ns() / 1e9, UTC)
            .isoformat(timespec="milliseconds")
            .replace("+00:00", "Z")
        )
        head = {"seq": self.last + 1, "time": now, "daemon": self._daemon, "event": event}
        stored = StoredEvent(self.last + 1, _line(head, values))
        self._events.append(stored)
        self._write(stored.line + b"\n")
        for watcher in list(self.watchers):
            watcher(stored)

    def close(self) -> None:
        """Closes the file; later events are dropped."""
        self._closed = True
        if self._file is not None:
            self._kernel.files.close(self._file)
            self._file = None

    # Files.

    @property
    def _earlier(self) -> Path:
        return earlier_file(self._path)

    def _load(self) -> str:
        """Reads both files; returns the name of the last event."""
        last = ""
        for path in (self._earlier, self._path):
            content = self._read(path)
            self._lines, self._bytes = content.count(b"\n"), len(content)
            self._torn = bool(content) and not content.endswith(b"\n")
            for line in content.splitlines():
                read = read_stored(line)
                if read is not None and read[0] > self.last:
                    self._events.append(StoredEvent(read[0], line))
                    last = read[1]
        return last

    def _read(self, path: Path) -> bytes:
        try:
            return read_file(path, FILE_BYTES_MAX + LINE_BYTES_MAX)
        except FileNotFoundError:
            return b""
        except OSError as error:
            self._warn(path, "read", error)
            return b""

    def _write(self, line: bytes) -> None:
        try:
            if self._lines >= EVENTS_MAX or self._bytes >= FILE_BYTES_MAX:
                self._turn()
            if self._file is None:
                self._file = _open(self._kernel.files, self._path)
            whole = b"\n" + line if self._torn else line
            size = self._kernel.files.write(self._file, whole)
        except OSError as error:
            self._warn(self._path, "write", error)
            return
        self._torn = size < len(whole)
        self._lines += 1
        self._bytes += size

    def _turn(self) -> None:
        """The file becomes the earlier one."""
        if self._file is not None:
            self._kernel.files.close(self._file)
            self._file = None
        self._kernel.files.replace(self._path, self._earlier)
        self._lines = self._bytes = 0
        self._torn = False

    def _warn(self, path: Path, what: str, error: OSError) -> None:
        text = f"cannot {what} {path} ({error.strerror or error}): a restart will forget its events"
        if text in self.warnings:
            return
        self.warnings.append(text)
        if self.warn is not None:
            self.warn(text)


def earlier_file(path: Path) -> Path:
    """The file with the events before those of this one."""
    return path.with_name(f"{path.name}.1")


def read_stored(line: bytes) -> tuple[int, str] | None:
    """The number and the name of the event in a line; None for a torn or damaged one."""
    if len(line) > LINE_BYTES_MAX:
        return None
    try:
        read = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(read, dict):
        return None
    seq, event = read.get("seq"), read.get("event")
    if type(seq) is not int or not 0 < seq < 1 << 53 or not isinstance(event, str):
        return None
    return seq, event


def _line(head: Mapping[str, object], facts: Mapping[str, object]) -> bytes:
    """The line of an event; one that is too long keeps less of its values."""
    for keep in (VALUE_CHARACTERS_MAX, 128, 16):
        cut = {key: value[:keep] if isinstance(value, str) else value for key, value in facts.items()}
        line = json.dumps({**head, "facts": cut}).encode()
        if len(line) < LINE_BYTES_MAX:
            return line
    return json.dumps({**head, "facts": {}}).encode()


def _short(value: object) -> object:
    return value if isinstance(value, bool | int | float) else str(value)[:VALUE_CHARACTERS_MAX]


def _open(files: Files, path: Path) -> int:
    file = files.open(path, _WRITE, _MODE)
    if not stat.S_ISREG(files.fstat(file).st_mode):
        files.close(file)
        raise OSError(0, "it is no regular file")
    return file
