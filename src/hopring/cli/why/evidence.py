"""Collects the events of daemons: from those that answer on their admin channels, or from files."""

from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from hopring.cli.monitor.admin_client import SUFFIX, AdminReply, NoAdminReply, ask, find_sockets
from hopring.cli.monitor.event_lines import LoggedEvent, read_events
from hopring.cli.monitor.watching import kept_events
from hopring.cli.why.clocks import ClockEstimate
from hopring.printable import printable

FILE_BYTES_MAX: Final = 64 << 20
"""Of a longer log the end is read."""

EVENT_FILES: Final = ("*.events.1", "*.events")
_ASKED_AT_ONCE: Final = 16


@dataclass(slots=True)
class Evidence:
    """What is known of the daemons of a cluster."""

    histories: dict[str, list[LoggedEvent]] = field(default_factory=dict)  # By daemon, in their order.
    asked: dict[str, ClockEstimate] = field(default_factory=dict)
    sites: dict[str, list[str]] = field(default_factory=dict)
    silent: dict[str, str] = field(default_factory=dict)  # Daemons that gave no answer, and why.
    problems: list[str] = field(default_factory=list)  # One line each.
    denied: bool = False

    def site_of(self, daemon: str) -> str:
        """The site of a daemon; empty if it is not known."""
        return next((site for site, daemons in self.sites.items() if daemon in daemons), "")

    @property
    def daemons(self) -> set[str]:
        """All daemons that are known by name."""
        return {*self.histories, *self.silent, *[one for daemons in self.sites.values() for one in daemons]}

    def add(self, name: str, events: Iterable[LoggedEvent]) -> None:
        """Adds events of a daemon; those of its file may be in its log too."""
        known = self.histories.setdefault(name, [])
        seen = {_mark(one) for one in known}
        known += [one for one in events if _mark(one) not in seen]


def _mark(event: LoggedEvent) -> tuple[str, str]:
    """Equal for an event of a file of events and the same one of a log, a millisecond later."""
    return event.name, event.facts.get("id") or f"{event.at_s:.1f}"


@dataclass(frozen=True, slots=True)
class _Answer:
    path: Path
    status: AdminReply | None
    clock: ClockEstimate
    lines: list[bytes]
    name: str
    problem: str = ""


def ask_daemons(places: Sequence[Path], seconds: float) -> Evidence:
    """Asks all daemons with sockets in these places; raises Unreachable if there are none."""
    evidence = Evidence()
    paths = find_sockets(places)
    with ThreadPoolExecutor(_ASKED_AT_ONCE) as pool:
        for answer in pool.map(lambda path: _ask(path, seconds), paths):
            _take(evidence, answer)
    return evidence


def _ask(path: Path, seconds: float) -> _Answer:
    nobody = path.name.removesuffix(SUFFIX)
    status: AdminReply | None = None
    try:
        status = ask(path, seconds, "status")
        if not status.ok:
            raise NoAdminReply(status.why)
        watched, lines = kept_events(path, seconds)
    except NoAdminReply as unheard:
        return _Answer(path, status, ClockEstimate(0.0, 0.0, known=False), [], nobody, str(unheard))
    clock = ClockEstimate(watched.clock_s, watched.clock_error_s)
    return _Answer(path, status, clock, lines, watched.name)


def _take(evidence: Evidence, answer: _Answer) -> None:
    if answer.status is not None and answer.status.denied:
        evidence.denied = True
    if answer.status is not None and answer.status.ok:
        _take_sites(evidence, answer.status.words.get("status"))
    if answer.problem:
        evidence.silent[answer.name] = answer.problem
        evidence.problems.append(printable(f"{answer.path}: {answer.problem}"))
        return
    events, others = read_events(answer.lines)
    if others:
        evidence.problems.append(printable(f"{answer.path}: {others} lines of the answer are no events"))
    evidence.add(answer.name, events)
    evidence.asked[answer.name] = answer.clock


def _take_sites(evidence: Evidence, status: Any) -> None:
    sites = status.get("sites") if isinstance(status, dict) else None
    for site, daemons in (sites if isinstance(sites, dict) else {}).items():
        if isinstance(daemons, list):
            known = evidence.sites.setdefault(str(site), [])
            known += [str(one) for one in daemons if str(one) not in known]


def read_files(paths: Iterable[Path]) -> Evidence:
    """Reads logs, files of events, and directories of these; what cannot be read is a problem, not an error."""
    evidence = Evidence()
    for path in paths:
        for file in _files_of(path):
            _read_file(evidence, file)
    for name, events in evidence.histories.items():
        events.sort(key=lambda event: event.at_s)
        site = next((one.facts["site"] for one in events if one.name == "start" and "site" in one.facts), "")
        if site:
            evidence.sites.setdefault(site, []).append(name)
    return evidence


def _files_of(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    return [file for pattern in EVENT_FILES for file in sorted(path.glob(pattern))]


def _read_file(evidence: Evidence, path: Path) -> None:
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - FILE_BYTES_MAX))
            *lines, torn = file.read(FILE_BYTES_MAX).split(b"\n")
    except OSError as error:
        evidence.problems.append(printable(f"{path}: {error.strerror or error}"))
        return
    events, others = read_events(lines)
    others += bool(torn.strip())  # It may have half of a name.
    if not events:
        evidence.problems.append(printable(f"{path}: no line of it is an event of a daemon"))
        return
    if others:
        evidence.problems.append(
            printable(f"{path}: {others} of {others + len(events)} lines are no events, or cut")
        )
    by_name: dict[str, list[LoggedEvent]] = {}
    # A JSON log has the name of another daemon in a line about it.
    names = Counter([event.daemon for event in events if event.name in ("view", "start")])
    for event in events:
        name = event.daemon if event.daemon in names or not names else names.most_common(1)[0][0]
        by_name.setdefault(name, []).append(event)
    for name, some in by_name.items():
        evidence.add(name, some)
