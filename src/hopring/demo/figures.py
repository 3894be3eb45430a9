"""Figures of a run, computed from the recorded trace alone."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil
from statistics import fmean

from hopring.check import trace
from hopring.check.properties.property import Verdict
from hopring.demo.scenario import CALM, GROUPS, PHASES, SITES, sides_in, site_of
from hopring.services import AGREED, SAFE

Marks = Sequence[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class DemoFlow:
    """Messages sent and delivered in a calm phase, on one side."""

    phase: str
    sites: tuple[str, ...]
    seconds: float
    sent: int
    delivered: int  # Copies: one for each client that got it.
    sent_per_second: float
    delivered_per_second: float


@dataclass(frozen=True, slots=True)
class DemoLatency:
    """Time from multicast to delivery of the messages sent in a calm phase on one side."""

    service: str
    phase: str
    sites: tuple[str, ...]
    delivered: int
    mean_ms: float
    p50_ms: float
    p99_ms: float


@dataclass(frozen=True, slots=True)
class DeliveryReach:
    """By site: how many messages of a phase and side all clients received, and how many only some."""

    phase: str
    sites: tuple[str, ...]
    sent: int
    all_got: dict[str, int]
    some_got: dict[str, int]


@dataclass(frozen=True, slots=True)
class ClientSummary:
    """Counters of the client at one daemon."""

    daemon: str
    sent: int
    agreed: int
    safe: int
    views: int
    signals: int
    last_view: list[str]  # Of the first group, by daemon.


@dataclass(frozen=True, slots=True)
class ViewChangeTimes:
    """Time until all clients of a side had the expected view."""

    phase: str
    seconds: dict[str, float]  # By side.
    primary: dict[str, bool]  # By side: whether its views were primary.


@dataclass(frozen=True, slots=True)
class JudgedHistory:
    """A history and the verdicts on it."""

    name: str
    events: int
    verdicts: list[Verdict]

    @property
    def good(self) -> bool:
        """Whether the history is not empty and every property holds."""
        return bool(self.events) and bool(self.verdicts) and all(self.verdicts)


@dataclass(frozen=True, slots=True)
class DemoResult:
    """All results of a run, as `hop demo --json` prints them."""

    ok: bool
    version: str
    seconds: float
    flows: list[DemoFlow]
    latencies: list[DemoLatency]
    changes: list[ViewChangeTimes]
    reached: list[DeliveryReach]
    clients: list[ClientSummary]
    judged: list[JudgedHistory]
    trace: str  # The file.
    spools: dict[str, str] = field(default_factory=dict)  # By site: the directory.
    problems: list[str] = field(default_factory=list)
    report: str | None = None  # The file, if there was a pipeline.
    pipeline: str = ""  # Its result, or the reason why there was none.


class DemoFigures:
    """The messages of a run by phase and side, with their deliveries."""

    def __init__(self, events: Iterable[trace.Event], marks: Marks) -> None:
        self._marks = list(marks)
        self._events = list(events)
        self.sent: dict[trace.MessageId, trace.ClientSent] = {}
        self.got: dict[trace.MessageId, list[trace.ClientDelivered]] = defaultdict(list)
        for event in self._events:
            if isinstance(event, trace.ClientSent):
                self.sent[event.message] = event
            elif isinstance(event, trace.ClientDelivered):
                self.got[event.message].append(event)
        self._clients: dict[str, set[trace.ProcessName]] = {site: set() for site in SITES}
        for event in self._events:
            if isinstance(event, trace.ClientConnected):
                self._clients[site_of(event.process.daemon)].add(event.process)

    def flows(self) -> list[DemoFlow]:
        """Rates in the calm phases."""
        found = []
        for phase, sites, sent in self._parts(CALM):
            seconds = self._seconds(phase)
            copies = sum(len(self.got[one.message]) for one in sent)
            if seconds > 0:
                rates = round(len(sent) / seconds, 1), round(copies / seconds, 1)
                found.append(DemoFlow(phase, sites, round(seconds, 2), len(sent), copies, *rates))
        return found

    def latencies(self) -> list[DemoLatency]:
        """Latencies in the calm phases, by service."""
        found = []
        for phase, sites, sent in self._parts(CALM):
            for service in sorted({one.service for one in sent}):
                waits = sorted(
                    (delivery.at_us - one.at_us) / 1_000
                    for one in sent
                    if one.service is service
                    for delivery in self.got[one.message]
                )
                if waits:
                    shown = [
                        round(value, 1) for value in (fmean(waits), *(_share(waits, at) for at in (50, 99)))
                    ]
                    found.append(DemoLatency(service.name.lower(), phase, sites, len(waits), *shown))
        return found

    def reached(self) -> list[DeliveryReach]:
        """Where the messages of each phase were delivered."""
        found = []
        for phase, sites, sent in self._parts(PHASES):
            all_got, some_got = dict.fromkeys(SITES, 0), dict.fromkeys(SITES, 0)
            for one in sent:
                receivers = {delivery.process for delivery in self.got[one.message]}
                for site, clients in self._clients.items():
                    all_got[site] += bool(clients) and clients <= receivers
                    some_got[site] += bool(clients & receivers) and not clients <= receivers
            found.append(DeliveryReach(phase, sites, len(sent), all_got, some_got))
        return found

    def clients(self) -> list[ClientSummary]:
        """Counters of each client, by its daemon."""
        lines: dict[trace.ProcessName, list[trace.Event]] = defaultdict(list)
        for event in self._events:
            if event.process.session:
                lines[event.process].append(event)
        return [_client(process, of_one) for process, of_one in sorted(lines.items())]

    def _parts(self, phases: Iterable[str]) -> Iterator[tuple[str, tuple[str, ...], list[trace.ClientSent]]]:
        """Messages by phase and by the side that sent them."""
        for phase in phases:
            if not any(name == phase for name, _ in self._marks):
                continue
            for sites in sides_in(phase):
                mine = [one for one in self.sent.values() if site_of(one.process.daemon) in sites]
                yield phase, sites, [one for one in mine if self._phase(one.at_us) == phase]

    def _phase(self, at_us: int) -> str:
        return next((name for name, began_us in reversed(self._marks) if began_us <= at_us), "")

    def _seconds(self, phase: str) -> float:
        for (name, began_us), (_, ended_us) in zip(self._marks, self._marks[1:], strict=False):
            if name == phase:
                return (ended_us - began_us) / 1e6
        return 0.0


def changes(arrivals: dict[str, dict[str, int]], primary: dict[str, dict[str, bool]]) -> list[ViewChangeTimes]:
    """The times of view changes, in seconds, and which sides had primary views after them."""
    return [
        ViewChangeTimes(
            phase, {side: round(wait_us / 1e6, 2) for side, wait_us in sides.items()}, primary[phase]
        )
        for phase, sides in arrivals.items()
        if sides
    ]


def _client(process: trace.ProcessName, events: list[trace.Event]) -> ClientSummary:
    views = [event for event in events if isinstance(event, trace.GroupInstalled)]
    got = [event.service for event in events if isinstance(event, trace.ClientDelivered)]
    last = [event for event in views if event.group == GROUPS[0]][-1:]
    return ClientSummary(
        process.daemon,
        sum(isinstance(event, trace.ClientSent) for event in events),
        got.count(AGREED),
        got.count(SAFE),
        len(views),
        sum(isinstance(event, trace.GroupSignal) for event in events),
        list(dict.fromkeys([member.daemon for view in last for member in view.members])),
    )


def _share(values: Sequence[float], percent: int) -> float:
    """The given percentile of sorted values."""
    return values[max(0, ceil(len(values) * percent / 100) - 1)]
