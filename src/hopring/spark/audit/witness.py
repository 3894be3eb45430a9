"""The result of an audit: broken properties with their witnesses, as text for people and JSON for programs.

A witness is a sentence with the names that the plain checkers use.

A daemon is `a`, in its second start `a.2`, a session at it `a/7`. A message is its sender and a number, `a:12`.
A view of daemons is its counter, `view 5`, a group's view `red 5.2`, or its whole id if another has that name.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec

from hopring.check.block_kinds import BLOCK_PROPERTIES
from hopring.check.client_history import short_view
from hopring.check.properties.property import EVS_C, WITNESSES_MAX
from hopring.check.properties.sql import WORD_BITS
from hopring.check.trace_row import read_group_view, read_message_id, read_process, read_view
from hopring.printable import printable
from hopring.spark.audit.tables import near

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class AuditFinding(msgspec.Struct, frozen=True):
    """One property that is broken in one history."""

    run: str
    property: str
    violations: int
    witness: str


class AuditViolation(msgspec.Struct, frozen=True):
    """One violation of a property; several findings of one property are ranked by their facts."""

    run: str
    property: str
    rank: int  # From 1.
    witness: str
    facts: Mapping[str, str | int]  # The names that identify it, as the trace writes them.


class AuditReport(msgspec.Struct, frozen=True):
    """The findings of an audit, and the judged properties."""

    runs: tuple[str, ...]
    findings: tuple[AuditFinding, ...]  # By run, and in it the nearest to the cause first.
    judged: Mapping[str, tuple[str, ...]]  # By run: the properties.
    violations: tuple[AuditViolation, ...] = ()  # In the same order; of each property the first by their facts.

    @property
    def holds(self) -> bool:
        """Whether no property is broken."""
        return not self.findings

    def broken(self, run: str = "") -> set[str]:
        """The properties that are broken in one history."""
        return {finding.property for finding in self.findings if finding.run == run}


WITNESSES_OF_ALL_MAX: Final = 100_000
WITNESSES_MIN: Final = 10


def witnesses_max(runs: int) -> int:
    """The number of violations that are named of each property: fewer if there are very many histories."""
    return max(WITNESSES_MIN, min(WITNESSES_MAX, WITNESSES_OF_ALL_MAX // max(runs, 1)))


def report_of(
    judged: Mapping[str, tuple[str, ...]],
    violations: Iterable[AuditViolation],
    counts: Mapping[tuple[str, str], int],
) -> AuditReport:
    """The report with these violations, in the order of histories, properties and ranks."""
    order = {run: {name: at for at, name in enumerate(names)} for run, names in judged.items()}
    ranked = sorted(violations, key=lambda one: (one.run, order[one.run][one.property], one.rank))
    findings = [
        AuditFinding(one.run, one.property, counts[one.run, one.property], one.witness)
        for one in ranked
        if one.rank == 1
    ]
    return AuditReport(tuple(sorted(judged)), tuple(findings), judged, tuple(ranked))


def merged(daemons: AuditReport, clients: AuditReport) -> AuditReport:
    """Both reports in one; in a history those of the first come first, being nearer to the cause."""
    runs = tuple(sorted({*daemons.runs, *clients.runs}))
    judged = {run: (*daemons.judged.get(run, ()), *clients.judged.get(run, ())) for run in runs}
    findings = sorted((*daemons.findings, *clients.findings), key=lambda finding: finding.run)
    violations = sorted((*daemons.violations, *clients.violations), key=lambda violation: violation.run)
    return AuditReport(runs, tuple(findings), judged, tuple(violations))


def as_text(report: AuditReport) -> str:
    """The broken properties with their witnesses, and a last line with the sum."""
    lines = []
    for finding in report.findings:
        run = f"{finding.run}: " if finding.run else ""
        more = f" ({finding.violations} violations)" if finding.violations > 1 else ""
        lines.append(printable(f"{run}broken: {finding.property}{more}"))
        lines.append(f"    {printable(finding.witness)}")
    many = "one history" if len(report.runs) == 1 else f"{len(report.runs)} histories"
    if report.holds:
        lines.append(f"{many}: {_all_of(report)} hold")
    else:
        verdicts = sum(len(names) for names in report.judged.values())
        lines.append(f"{many}: {len(report.findings)} of {verdicts} verdicts are broken")
    return "\n".join(lines)


def _all_of(report: AuditReport) -> str:
    """How many properties were judged at most, as in `all 22 properties of daemons and 25 of clients`."""
    of_blocks = {one.name for one in BLOCK_PROPERTIES}
    counts = {"daemons": 0, "clients": 0, "blocks": 0}
    for names in report.judged.values():
        found = Counter(
            "blocks" if name in of_blocks else "clients" if name.startswith(EVS_C) else "daemons"
            for name in names
        )
        counts = {part: max(most, found[part]) for part, most in counts.items()}
    parts = [f"{many} of {part}" for part, many in counts.items() if many]
    if not counts["clients"] and not counts["blocks"]:
        return f"all {counts['daemons']} properties"
    first, *others = parts
    many, _of, part = first.partition(" of ")
    rest = f"{', '.join(['', *others[:-1]])} and {others[-1]}" if others else ""
    return f"all {many} properties of {part}{rest}"


def as_json_text(report: AuditReport) -> str:
    """One JSON object with verdict, runs, findings and judged properties."""
    return json.dumps(
        {
            "holds": report.holds,
            "runs": list(report.runs),
            "broken": [
                {
                    "run": finding.run,
                    "property": finding.property,
                    "violations": finding.violations,
                    "witness": finding.witness,
                }
                for finding in report.findings
            ],
            "judged": {run: list(names) for run, names in report.judged.items()},
        }
    )


Facts = dict[str, Any]


class Witnesses:
    """The names of the histories in which something is broken; daemons and clients have one each."""

    _DID: ClassVar[dict[str, str]]  # By kind of event, what a process did.
    _OTHERWISE: ClassVar[str] = "counted"

    def __init__(self, spark: "SparkSession", facts: list[Facts], more_runs: Iterable[str]) -> None:
        self._events: dict[tuple[str, str, int], Facts] = {}
        runs = sorted({one["run"] for one in facts} | set(more_runs))
        if runs:
            self._look_up_names(spark, runs, facts)
            self._look_up_events(spark, facts)

    def _look_up_names(self, spark: "SparkSession", runs: list[str], _facts: list[Facts]) -> None:
        """Asks for the names in these histories."""
        raise NotImplementedError

    def process(self, run: str, name: str) -> str:
        """A process by its short name."""
        raise NotImplementedError

    def _member(self, facts: Facts, number: int) -> str:
        """The process whose bit this is."""
        raise NotImplementedError

    def _view(self, facts: Facts, name: str) -> str:
        raise NotImplementedError

    def _look_up_events(self, spark: "SparkSession", facts: list[Facts]) -> None:
        """The events that the witnesses point at."""
        places = sorted({(one["run"], one["process"], one["position"]) for one in facts if "position" in one})
        if not places:
            return
        wanted = spark.createDataFrame(places, "run string, process string, position bigint")
        trace = near(spark.table("audit_trace"), [place[1:] for place in places])
        rows = trace.join(wanted.hint("broadcast"), ["run", "process", "position"])
        named = "run", "process", "position", "kind", "time_us", "group_name", "view", "message"
        for row in rows.select(*[name for name in named if name in rows.columns]).collect():
            self._events[row["run"], row["process"], row["position"]] = row.asDict()

    def witness(self, sentence: str, facts: Facts) -> str:
        """The sentence of a property with the names of this history in it."""
        said = {name: self._said(facts, name) for name in facts}
        if "position" in facts:
            said["event"] = self._event(facts)
        return sentence.format_map(_Said(said)).strip()

    def _said(self, facts: Facts, name: str) -> str:
        run, value = facts["run"], facts[name]
        if value is None or value == "":
            return ""
        if name == "lacking" or name.endswith("_set"):
            members = sorted(self._member(facts, number) for number in _numbers(value))
            return " and ".join(members) if name == "lacking" else "{" + " ".join(members) + "}"
        if name in ("process", "other"):
            return self.process(run, value)
        if name.endswith("message"):
            return self.message(run, value)
        return self._view(facts, value) if name.endswith("view") else str(value)

    def _event(self, facts: Facts) -> str:
        run, process, position = facts["run"], facts["process"], facts["position"]
        who = self.process(run, process)
        event = self._events.get((run, process, position))
        if event is None:
            return f"event {position} of {who}"
        names = _Said(
            {name: self._said(event, name) for name in ("message", "view", "group_name") if name in event}
        )
        did = self._DID.get(event["kind"], self._OTHERWISE).format_map(names)
        return f"{who} {did} at {event['time_us']} us (its event {position})"

    def message(self, run: str, name: str) -> str:
        """A message by its sender and its number."""
        return f"{self.process(run, name.rpartition(':')[0])}:{read_message_id(name).number}"


class DaemonWitnesses(Witnesses):
    """Names of daemons, and of their views."""

    _DID: ClassVar = {
        "deliver": "delivered {message}",
        "send": "sent {message}",
        "view": "installed {view}",
        "transitional": "got a signal",
        "recover": "recovered",
        "crash": "crashed",
    }

    def _look_up_names(self, spark: "SparkSession", runs: list[str], _facts: list[Facts]) -> None:
        args = {"runs": runs}
        lives = spark.sql("SELECT run, process, start FROM audit_lives WHERE array_contains(:runs, run)", args)
        self._starts = {(row["run"], row["process"]): row["start"] for row in lives.collect()}
        self._counters: dict[tuple[str, int], set[str]] = {}
        views = (
            "SELECT DISTINCT run, view FROM audit_views WHERE view IS NOT NULL AND array_contains(:runs, run)"
        )
        for row in spark.sql(views, args).collect():
            counter = read_view(row["view"]).counter
            self._counters.setdefault((row["run"], counter), set()).add(row["view"])
        numbers = spark.sql(
            "SELECT run, process, number FROM audit_processes WHERE array_contains(:runs, run)", args
        )
        self._processes = {(row["run"], row["number"]): row["process"] for row in numbers.collect()}

    def process(self, run: str, name: str) -> str:
        """A daemon by its name, and which of its starts this is."""
        process = read_process(name)
        start = self._starts.get((run, name))
        if start is None:
            return f"{process.daemon}.{process.incarnation:x}?"
        return process.daemon if start == 1 else f"{process.daemon}.{start}"

    def _member(self, facts: Facts, number: int) -> str:
        return self.process(facts["run"], self._processes[facts["run"], number])

    def _view(self, facts: Facts, name: str) -> str:
        view = read_view(name)
        if len(self._counters.get((facts["run"], view.counter), ())) > 1:
            return f"view {view.counter} of {view.representative} ({view.nonce:x})"
        return f"view {view.counter}"


class ClientWitnesses(Witnesses):
    """Names of sessions, and of views of groups."""

    _DID: ClassVar = {
        "deliver": "delivered {message}",
        "send": "sent {message}",
        "view": "was shown {view}",
        "transitional": "got a signal of {group_name}",
        "join": "asked to join {group_name}",
        "leave": "asked to leave {group_name}",
        "left": "left {group_name}",
        "connect": "connected",
        "disconnect": "disconnected",
        "gone": "was gone",
    }

    def _look_up_names(self, spark: "SparkSession", runs: list[str], _facts: list[Facts]) -> None:
        args = {"runs": runs}
        self._starts: dict[tuple[str, str], list[str]] = {}
        for row in spark.sql(
            "SELECT run, daemon, process FROM audit_borders"
            " WHERE kind = 'recover' AND array_contains(:runs, run) ORDER BY file, row",
            args,
        ).collect():
            self._starts.setdefault((row["run"], row["daemon"]), []).append(row["process"])
        views = "SELECT DISTINCT run, group_name, view FROM audit_views WHERE array_contains(:runs, run)"
        self._short = Counter(
            (row["run"], row["group_name"], short_view(read_group_view(row["view"])))
            for row in spark.sql(views, args).collect()
        )
        groups = sorted({one["group_name"] for one in _facts if "group_name" in one})
        numbers = spark.sql(
            "SELECT run, group_name, number, process FROM audit_processes"
            " WHERE array_contains(:runs, run) AND array_contains(:groups, group_name)",
            args | {"groups": groups or [""]},
        )
        self._processes = {
            (row["run"], row["group_name"], row["number"]): row["process"] for row in numbers.collect()
        }

    def process(self, run: str, name: str) -> str:
        """A session by its daemon and its number."""
        process = read_process(name)
        starts = self._starts.get((run, process.daemon), [])
        daemon = f"{name.rpartition('/')[0]}/0"
        if daemon in starts:
            start = starts.index(daemon) + 1
            who = process.daemon if start == 1 else f"{process.daemon}.{start}"
        else:
            who = f"{process.daemon}.{process.incarnation:x}?" if starts else process.daemon
        return f"{who}/{process.session}"

    def _member(self, facts: Facts, number: int) -> str:
        return self.process(facts["run"], self._processes[facts["run"], facts["group_name"], number])

    def _view(self, facts: Facts, name: str) -> str:
        run, group = facts["run"], facts["group_name"]
        short = short_view(read_group_view(name))
        return f"{group} {short if self._short[run, group, short] < 2 else name}"


class _Said(dict[str, str]):
    """The names in a sentence; a column that is null has none."""

    def __missing__(self, _name: str) -> str:
        return ""


def _numbers(words: list[int]) -> list[int]:
    """The numbers of the processes in a mask."""
    return [
        word * WORD_BITS + bit for word, bits in enumerate(words) for bit in range(WORD_BITS) if bits >> bit & 1
    ]
