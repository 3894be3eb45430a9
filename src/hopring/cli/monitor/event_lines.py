"""Events of daemons as lines: of the admin channel, of a file of events, or of a log, plain or JSON."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from hopring.printable import printable

LINE_BYTES_MAX: Final = 8_192
TIME_S_MAX: Final = 253_000_000_000  # The last year with four digits.

_PLAIN: Final = re.compile(
    r'(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{1,6}Z) ("(?:[^"\\]|\\.)*"|\S+) ([a-z_]{1,64})((?: [\w.]+=.*)?)$'
)
_BARE: Final = re.compile(r"[^\s\"=\\]+")
_FIELD: Final = re.compile(r' ([\w.]+)=("(?:[^"\\]|\\.)*"|[^\s"=\\]*)')


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """One event of a daemon, with the time of its clock."""

    daemon: str
    at_s: float  # Since 1970.
    name: str
    facts: Mapping[str, str] = field(default_factory=dict)
    seq: int = 0  # 0 for a line of a log.

    def list_of(self, fact: str) -> tuple[str, ...]:
        """A fact that is a list of names."""
        return tuple([one for one in self.facts.get(fact, "").split(",") if one])

    def number(self, fact: str) -> float:
        """A fact that is a number; 0 if it is missing, or is none."""
        try:
            number = float(self.facts.get(fact, ""))
        except ValueError:
            return 0.0
        return number if 0 <= number < TIME_S_MAX else 0.0


def read_event(line: bytes) -> LoggedEvent | None:
    """The event of a line; None if there is none, or if it is torn."""
    text = line[:LINE_BYTES_MAX].decode("utf-8", "replace").rstrip("\r\n")
    start = text.find("{")
    if start >= 0 and (found := _read_json(text[start:])) is not None:
        return found
    match = _PLAIN.search(text)
    if match is None:
        return None
    at_s = seconds_of(match[1])
    if at_s is None:
        return None
    facts = {key: _unquoted(value) for key, value in _FIELD.findall(match[4])}
    return LoggedEvent(_unquoted(match[2]), at_s, match[3], facts)


def _read_json(text: str) -> LoggedEvent | None:
    try:
        read = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(read, dict) or not all(isinstance(read.get(key), str) for key in ("time", "event")):
        return None
    at_s, daemon = seconds_of(read["time"]), read.get("daemon", "")
    if at_s is None or not isinstance(daemon, str):
        return None
    facts: Any = read.get("facts")
    seq = read.get("seq")
    if not isinstance(facts, dict):
        facts = {key: value for key, value in read.items() if key not in ("time", "daemon", "event", "level")}
    words = {str(key): value if isinstance(value, str) else json.dumps(value) for key, value in facts.items()}
    return LoggedEvent(daemon, at_s, read["event"], words, seq if isinstance(seq, int) else 0)


def read_events(lines: Iterable[bytes]) -> tuple[list[LoggedEvent], int]:
    """The events of these lines in their order, and how many lines have none."""
    events, others = list[LoggedEvent](), 0
    for line in lines:
        found = read_event(line)
        if found is not None:
            events.append(found)
        elif line.strip():
            others += 1
    return events, others


def seconds_of(text: str) -> float | None:
    """A time of a log or an event, as seconds since 1970; None if it is none."""
    try:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()
    except (ValueError, OverflowError):
        return None


def event_text(event: LoggedEvent) -> str:
    """An event as a line for people."""
    when = datetime.fromtimestamp(event.at_s, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    words = [f"{key}={_quoted(value)}" for key, value in event.facts.items()]
    return printable(" ".join([when, event.daemon, event.name, *words]))


def _quoted(text: str) -> str:
    return text if _BARE.fullmatch(text) else json.dumps(text, ensure_ascii=False)


def _unquoted(text: str) -> str:
    if not text.startswith('"'):
        return text
    try:
        return str(json.loads(text))
    except ValueError:
        return text
