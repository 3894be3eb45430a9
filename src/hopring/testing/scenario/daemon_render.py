"""Renders the events and states of a scenario's daemons; equal lines of several daemons become one."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from hopring.check.judge import check_evs
from hopring.check.trace import (
    Event,
    MessageDelivered,
    MessageId,
    MessageSent,
    ProcessName,
    Signalled,
    ViewInstalled,
)
from hopring.sim.cluster import SimCluster, SimDaemon
from hopring.testing.scenario.render import time, words

_NAMES_MAX: Final = 8


@dataclass(frozen=True, slots=True)
class MessageNames:
    """Names of messages whose payload is a word."""

    messages: Mapping[MessageId, str]

    def message(self, message: MessageId) -> str:
        """A message, by its word or by its sender and number."""
        return self.messages.get(message) or f"{message.daemon}:{message.number}"


@dataclass(slots=True)
class DaemonLine:
    """One line: an equal event at several daemons, with the times of the first and the last."""

    what: str
    daemons: list[str]
    first_us: int
    last_us: int
    messages: list[str] = field(default_factory=list)  # Of deliveries, before they are rendered.


def render_events(events: Iterable[Event], called: MessageNames) -> list[str]:
    """The events in aligned columns. A line moves only past lines of other daemons."""
    rows: list[DaemonLine] = []
    for one in _runs(events, called):
        same = _same(rows, one)
        if same is None:
            rows.append(one)
        else:
            same.daemons.extend(one.daemons)
            same.last_us = max(same.last_us, one.last_us)
    times = [_span(row) for row in rows]
    where = [_who(row.daemons) for row in rows]
    wide, far = max(map(len, times), default=0), max(map(len, where), default=0)
    return [f"{at:>{wide}}  {who:<{far}}  {row.what}" for at, who, row in zip(times, where, rows, strict=True)]


def _span(row: DaemonLine) -> str:
    first, last = time(row.first_us), time(row.last_us)
    return first if first == last else f"{first.removesuffix('ms')}..{last}"


def _same(rows: list[DaemonLine], one: DaemonLine) -> DaemonLine | None:
    """An equal line of other daemons, unless this daemon has a line in between."""
    for row in reversed(rows):
        if one.daemons[0] in row.daemons:
            return None
        if row.what == one.what:
            return row
    return None


def _runs(events: Iterable[Event], called: MessageNames) -> list[DaemonLine]:
    """One line for each view and signal, and for the deliveries between them, by the time of the first."""
    rows: list[DaemonLine] = []
    open_runs: dict[str, DaemonLine] = {}
    for event in events:
        name = event.process.daemon
        match event:
            case MessageDelivered():
                row = open_runs.get(name)
                if row is None:
                    row = open_runs[name] = DaemonLine("", [name], event.at_us, event.at_us)
                    rows.append(row)
                row.messages.append(called.message(event.message))
                row.last_us = event.at_us
            case ViewInstalled() | Signalled():
                open_runs.pop(name, None)
                rows.append(DaemonLine(_view(event), [name], event.at_us, event.at_us))
            case _:
                pass
    for row in rows:
        if row.messages:
            row.what = f"deliver {_messages(row.messages)}"
    return rows


def _messages(messages: list[str]) -> str:
    listed = words(messages)
    return listed if not listed.endswith("objects") else f"{len(messages)}, {messages[0]} to {messages[-1]}"


def _view(event: ViewInstalled | Signalled) -> str:
    together = "alone" if event.together == (event.process,) else f"together {_names(event.together)}"
    if isinstance(event, Signalled):
        return f"signal: view {event.view.counter} ends, {together}"
    along = "" if event.together == event.members else f", came {together}"
    members = "alone" if event.members == (event.process,) else _names(event.members)
    return f"view {event.view.counter}: {members}{along} ({event.cause})"


def _names(processes: Sequence[ProcessName]) -> str:
    return _who([process.daemon for process in processes])


def count(events: Iterable[Event]) -> list[str]:
    """Counts of deliveries and views; daemons with equal counts share a line."""
    totals: dict[str, Counter[type]] = {}
    for event in events:
        totals.setdefault(event.process.daemon, Counter())[type(event)] += 1
    alike: dict[tuple[str, str], list[str]] = {}
    for name, counts in sorted(totals.items()):
        key = (f"{counts[MessageDelivered]} delivered", _views(counts[ViewInstalled]))
        alike.setdefault(key, []).append(name)
    return table([(_who(names), *key) for key, names in alike.items()])


def _who(names: list[str]) -> str:
    """Daemons by name, or their number with the first and the last."""
    ordered = sorted(names)
    if len(ordered) <= _NAMES_MAX:
        return " ".join(ordered)
    return f"{len(ordered)} from {ordered[0]} to {ordered[-1]}"


def _views(number: int) -> str:
    return "1 view" if number == 1 else f"{number} views"


def table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Renders rows as aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def phase_of(host: SimDaemon) -> str:
    """The state of a daemon, by its name in the thesis."""
    return host.snapshot().phase_detail


def who_is_where(cluster: SimCluster) -> list[str]:
    """A table: every daemon with its phase, and its last view with its members."""
    rows = [("daemon", "phase", "view", "members")]
    for name in sorted(cluster.numbers):
        host = cluster.hosts.get(name)
        if host is None:
            rows.append((name, "down", "", ""))
            continue
        seen = host.snapshot()
        members = " ".join(cluster.names[one.daemon] for one in seen.members)
        rows.append((name, seen.phase_detail, str(seen.view.counter), members))
    return table(rows)


def verdict_on(
    cluster: SimCluster, components: Sequence[Collection[str]] | None, *, counters_survive: bool
) -> str:
    """That all properties hold, or the first that does not."""
    quiet = _quiet(cluster)
    verdicts = check_evs(cluster.history, quiet, components, counters_survive=counters_survive)
    broken = [f"broken: {one.property}: {one.witness}" for one in verdicts if not one]
    if not broken and not quiet:
        broken = ["broken: not all daemons are in a view that is whole"]
    return [*broken, *_unsent(cluster), "all properties hold"][0]


def _quiet(cluster: SimCluster) -> bool:
    """Whether every daemon is in a view whose members are all in it."""
    seen = [host.snapshot() for host in cluster.hosts.values()]
    views = {one.me: one.view for one in seen if one.settled}
    return all(one.me in views and all(views.get(other) == one.view for other in one.members) for one in seen)


def _unsent(cluster: SimCluster) -> list[str]:
    """Messages that a living daemon accepted and never stamped: no property of the order covers them."""
    sent = Counter(event.process for event in cluster.history if isinstance(event, MessageSent))
    return [
        f"broken: {name} took {host.sent} messages and sent {sent[host.process]}"
        for name, host in sorted(cluster.hosts.items())
        if sent[host.process] != host.sent
    ]
