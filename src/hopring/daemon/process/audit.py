"""The audit: JSON lines about connects, refusals, admin requests, keys and reloads, in a file of its own.

Lines of one event are limited in rate; those that were left out are counted in the next one. If the disk is
full, lines are lost and counted, and the daemon goes on. No line has a secret.
"""

import json
import os
import stat
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from hopring.credentials.files import OTHERS, SECRET_MODE, CredentialError
from hopring.links.hop.pacing import Bucket
from hopring.printable import printable

LINES_PER_SECOND: Final = 50
LINES_BURST: Final = 500
"""Limits for the lines of one event."""

VALUE_CHARACTERS_MAX: Final = 256
_FLAGS: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class AuditFile:
    """The audit of one daemon."""

    def __init__(self, path: Path, daemon: str, now_us: Callable[[], int]) -> None:
        """Opens the file, which is made with mode 0600; CredentialError if others have rights to it."""
        self.lost = 0
        """Lines that could not be written."""
        self.failing = False
        """Whether the last line could not be written."""
        self._path = path
        self._daemon = daemon
        self._now_us = now_us
        self._rates: dict[str, Bucket] = {}
        self._held_back: dict[str, int] = {}
        self._torn = False  # The last line was written in part.
        self._file = _open(path)

    def reopen(self) -> None:
        """Opens the path again, after somebody has moved the file away; CredentialError keeps the old one."""
        before, self._file = self._file, _open(self._path)
        os.close(before)

    def close(self) -> None:
        """Closes the file; nothing may be written afterwards."""
        os.close(self._file)

    def write(self, event: str, **fields: object) -> None:
        """Writes one line about an event, unless there are too many of it."""
        rate = self._rates.setdefault(event, Bucket(LINES_PER_SECOND, LINES_BURST))
        now_us = self._now_us()
        rate.fill(now_us)
        if rate.ready_at_us > now_us:
            self._held_back[event] = self._held_back.get(event, 0) + 1
            return
        rate.spend(1)
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line: dict[str, object] = {"time": now, "daemon": self._daemon, "event": event}
        line |= {key: _short(value) for key, value in fields.items()}
        if held_back := self._held_back.pop(event, 0):
            line["held_back"] = held_back
        if self.lost:
            line["lost"] = self.lost
        self._append(printable(json.dumps(line, ensure_ascii=False)).encode("utf-8", "replace") + b"\n")

    def _append(self, line: bytes) -> None:
        line = b"\n" + line if self._torn else line
        try:
            size = os.write(self._file, line)
        except OSError:
            size = 0
        self.failing = size < len(line)
        if self.failing:
            self.lost += 1
            self._torn = self._torn or size > 0
        else:
            self._torn = False


def _short(value: object) -> object:
    if isinstance(value, bool | int):
        return value
    return str(value)[:VALUE_CHARACTERS_MAX]


def _open(path: Path) -> int:
    try:
        file = os.open(path, _FLAGS, SECRET_MODE)
    except OSError as error:
        remedy = "check the path of audit in [security], its permissions, and that it is no link"
        raise CredentialError(path, f"cannot be opened ({error.strerror})", remedy) from None
    its = os.fstat(file)
    problem = ""
    if not stat.S_ISREG(its.st_mode):
        problem = "is no regular file"
    elif its.st_uid not in (0, os.geteuid()):
        problem = "has another owner than root or the daemon's user"
    elif stat.S_IMODE(its.st_mode) & OTHERS:
        problem = f"has mode {stat.S_IMODE(its.st_mode):04o}, others than its owner have rights to it"
    if problem:
        os.close(file)
        raise CredentialError(path, problem, f"chmod {SECRET_MODE:o} {path}, or name another file")
    return file
