"""The daemon's log: one line per event, `time name event key=value ...` or JSON, on stderr.

Repeated lines of one event are limited in rate and counted. If nobody reads, lines are lost; the daemon never
waits.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from hopring.config import LogFormat, LogLevel, LogTuning
from hopring.printable import printable
from hopring.system.kernel import kernel

BURST_LINES: Final = 20
"""Limit of lines of one event in a burst; then one every REFILL_US."""

REFILL_US: Final = 5_000_000
LINE_BYTES_MAX: Final = 2_048
WARNINGS: Final = frozenset(
    {"warning", "dropped", "unsent", "client", "client_refused", "client_delayed", "refused", "stalled"}
    | {"spooler_ended"}
)
"""Events of the level warning; all others have the level info."""

_PLAIN: Final = re.compile(r"[^\s\"=\\]+")


@dataclass(slots=True)
class _Allowance:
    """How many lines of one event may still be written."""

    lines: int
    since_us: int
    held_back: int = 0

    def use(self, now_us: int, burst_lines: int, every_us: int) -> bool:
        """Uses the allowance for one line; returns whether that line may be written."""
        more = (now_us - self.since_us) // every_us
        if more:
            self.lines = min(burst_lines, self.lines + more)
            self.since_us = now_us
        if not self.lines:
            self.held_back += 1
            return False
        self.lines -= 1
        return True


class DaemonLog:
    """The lines of one daemon."""

    def __init__(self, name: str, fd: int = 2, now_us: Callable[[], int] | None = None) -> None:
        self.lost = 0
        """Lines that could not be written."""
        self._name = name
        self._fd = fd
        self._kernel = system = kernel()
        self._now_us = now_us or (lambda: system.monotonic_ns() // 1_000)
        self._allowances: dict[str, _Allowance] = {}
        self.also: Callable[[str, Mapping[str, object]], None] | None = None
        """Gets every event with its fields, also those that are not written."""
        self.tune(LogTuning())

    def tune(self, tuning: LogTuning) -> None:
        """Applies another format, level and rate from now on."""
        self._tuning = tuning
        self._burst_lines = tuning.burst_lines or BURST_LINES
        self._every_us = tuning.every_us or REFILL_US
        self._allowances.clear()

    def say(self, event: str, **fields: object) -> None:
        """Writes one line about an event, which is named by one word."""
        if self.also is not None:
            self.also(event, fields)
        level = LogLevel.WARNING if event in WARNINGS else LogLevel.INFO
        if self._tuning.level is LogLevel.WARNING and level is LogLevel.INFO:
            return
        now_us = self._now_us()
        allowance = self._allowances.setdefault(event, _Allowance(self._burst_lines, now_us))
        if not allowance.use(now_us, self._burst_lines, self._every_us):
            return
        if allowance.held_back:
            fields["held_back"] = allowance.held_back
            allowance.held_back = 0
        time = datetime.fromtimestamp(self._kernel.wall_ns() / 1e9, UTC)
        now = time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        if self._tuning.format is LogFormat.JSON:
            self._write(_json({"time": now, "daemon": self._name, "level": level, "event": event}, fields))
        else:
            words = [f"{key}={_quoted(str(value))}" for key, value in fields.items()]
            self._write(" ".join([now, _quoted(self._name), event, *words]))

    def _write(self, line: str) -> None:
        text = line.encode("utf-8", "replace")[: LINE_BYTES_MAX - 1] + b"\n"
        try:
            if not self._kernel.write_if_ready(self._fd, text):
                self.lost += 1
        except OSError:
            self.lost += 1


def _json(head: dict[str, object], fields: dict[str, object]) -> str:
    """One JSON object that fits into a line: the longest values are cut first."""
    values = {key: value if isinstance(value, int) else str(value) for key, value in fields.items()}
    for keep in (LINE_BYTES_MAX, 512, 128, 32):
        cut = {key: value[:keep] if isinstance(value, str) else value for key, value in values.items()}
        line = _json_text({**head, **cut})
        if len(line.encode("utf-8", "replace")) < LINE_BYTES_MAX:
            return line
    return _json_text(head)


def _quoted(text: str) -> str:
    return text if _PLAIN.fullmatch(text) and printable(text) == text else _json_text(text)


def _json_text(value: object) -> str:
    return printable(json.dumps(value, ensure_ascii=False))
