"""The results of the demonstration: the verdicts on its recorded history, and all figures as text and tables.

The history is checked three times: clients by EVS-C, daemons by EVS, and both again by the pipeline on Spark.
The check of daemons assumes that every daemon delivers every bundle, so it needs traces without pruning: here
every group has members in every site. Without Spark the demonstration is complete except for its report.
"""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from hopring.check import trace
from hopring.check.judge import check_evs, check_evs_c
from hopring.check.trace_files import TraceError, read_json_lines, write_json_lines
from hopring.demo.figures import (
    ClientSummary,
    DeliveryReach,
    DemoFlow,
    DemoLatency,
    DemoResult,
    JudgedHistory,
    ViewChangeTimes,
)
from hopring.demo.scenario import DELAYS, GROUPS, SITES
from hopring.demo.screen import yes_or_no
from hopring.errors import HopError
from hopring.spark import session
from hopring.spark.audit.reading import Ends
from hopring.spark.errors import NoJava
from hopring.spark.java import decide, look

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TRACE_FILE = "trace.jsonl"
STORY_FILE = "story.json"


DIRECTORY: Final = "pipeline"
REPORT_FILE: Final = "report.html"
INSTALL: Final = "no report: it is made with Spark, which is not installed; pip install 'hopring[spark,jdk]'"
LEFT_OUT: Final = "no report: left out by --no-spark"


class PipelineOutcome(msgspec.Struct, frozen=True):
    """The result of the pipeline."""

    report: Path
    holds: bool  # The audit found nothing broken.


class DemoRecord(msgspec.Struct, frozen=True):
    """The facts that a later check needs besides the trace."""

    daemons: list[str]
    quiet_end: bool  # Whether everything had come to rest.
    marks: list[tuple[str, int]]  # The phases, each with the moment when it began.


def judge(history: Sequence[trace.Event], quiet_end: bool, names: Collection[str]) -> list[JudgedHistory]:
    """Checks both histories; with a quiet end also that all messages arrived, in one view of all."""
    components = [names] if quiet_end else None
    clients = [event for event in history if isinstance(event, trace.ClientEvent)]
    daemons = [event for event in history if not isinstance(event, trace.ClientEvent)]
    return [
        JudgedHistory("clients, EVS-C", len(clients), check_evs_c(history, quiet_end, components)),
        JudgedHistory("daemons, EVS", len(daemons), check_evs(daemons, quiet_end, components)),
    ]


def write_down(directory: Path, history: Sequence[trace.Event], recorded: DemoRecord) -> Path:
    """Writes the trace of daemons and clients, and the record beside it."""
    with (directory / TRACE_FILE).open("wb") as file:
        write_json_lines(history, file)
    (directory / STORY_FILE).write_bytes(msgspec.json.encode(recorded) + b"\n")
    return directory / TRACE_FILE


def judge_again(directory: Path) -> list[JudgedHistory]:
    """Checks the trace of an earlier run; TraceError if the directory has none."""
    try:
        recorded = msgspec.json.decode((directory / STORY_FILE).read_bytes(), type=DemoRecord)
        with (directory / TRACE_FILE).open("rb") as file:
            history = read_json_lines(file)
    except (OSError, msgspec.DecodeError) as error:
        raise TraceError(
            f"{directory} has no trace of a demonstration ({error}); give the directory of `hop demo --out`"
        ) from None
    return judge(history, recorded.quiet_end, recorded.daemons)


def lacking(find: Callable[[str], object] = find_spec) -> str | None:
    """What has to be installed first, in one line; None if nothing."""
    if find("pyspark") is None or find("pyarrow") is None:
        return INSTALL
    try:
        decide(look(os.environ))
    except NoJava as error:
        return f"no report: {error}"
    return None


class StartingSession:
    """A Spark session that starts in the background; `stop` ends it, started or not."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1)
        self._made = self._pool.submit(session, "hop demo")

    def wait(self) -> "SparkSession":
        """The session, once it has started; SparkError if it cannot."""
        return self._made.result()

    def stop(self) -> None:
        """Ends the session and its Java."""
        with suppress(HopError):
            self.wait().stop()
        self._pool.shutdown()


def run_pipeline(
    spools: Mapping[str, Path],
    trace: Path,
    directory: Path,
    ends: Ends,
    say: Callable[[str], None],
    starting: StartingSession,
) -> PipelineOutcome:
    """Makes tables, audit and report; SparkError if that fails."""
    # Loaded here: it takes Spark with it, and a demonstration without it should not wait.
    pipeline = import_module("hopring.spark.pipeline")
    out = directory / DIRECTORY
    store = pipeline.Store(out)
    store.open()
    stock = tuple([pipeline.SpoolRoot(name, str(path)) for name, path in sorted(spools.items())])
    found = pipeline.run(starting.wait, pipeline.PipelineOptions(out, stock, trace, ends=ends), store, say)
    assert found is not None, "there is a trace, so there is an audit"
    return PipelineOutcome(out / REPORT_FILE, found.holds)


_BLANK = Text()


def opening() -> RenderableType:
    """Describes the cluster before the run."""
    delays = ", ".join(f"{one}–{other} {delay}" for (one, other), delay in DELAYS.items())
    return Group(
        Text("Three sites, a partition and a merge", style="bold"),
        Text(
            f"daemons  {sum(SITES.values())} processes in {', '.join(SITES)}, on sockets of this machine",
            style="dim",
        ),
        Text(f"one way  {delays}, made in front of the sockets", style="dim"),
        Text(f"clients  one at each daemon, in {' and '.join(GROUPS)}: Agreed and Safe messages", style="dim"),
        _BLANK,
    )


def closing(facts: DemoResult) -> RenderableType:
    """All results of the run."""
    spools = [f"spools {', '.join(facts.spools.values())}"] if facts.spools else []
    lines = [f"trace  {facts.trace}", *spools, f"took   {facts.seconds:.0f} s"]
    end = [Text(line, style="dim") for line in lines]
    problems = [Text.assemble(_sign(False), problem) for problem in facts.problems]
    return Group(
        _BLANK,
        _part("How long views took", _changes(facts.changes)),
        _part("Messages a second", _flows(facts.flows)),
        _part("From multicast to delivery, in ms", _latencies(facts.latencies)),
        _part(
            "Deliveries by site: messages that all of its clients got, + those that only some got",
            _reached(facts.reached),
        ),
        _part("Clients", _clients(facts.clients)),
        _part("Verdict", *[line for one in facts.judged for line in judged(one)], *problems),
        *end,
    )


def last_line(facts: DemoResult) -> RenderableType:
    """The path of the report, or the reason why there is none."""
    if facts.report is None:
        return Text(facts.pipeline, style="dim")
    return Group(Text(facts.pipeline), Text.assemble(("report ", "bold"), facts.report))


def judged(facts: JudgedHistory) -> list[Text]:
    """One line for a history, and one more for each broken property."""
    words = f"{facts.name}: {sum(map(bool, facts.verdicts))} of {len(facts.verdicts)} properties hold"
    lines = [Text.assemble(_sign(facts.good), f"{words} over {facts.events} events")]
    broken = [verdict for verdict in facts.verdicts if not verdict]
    return lines + [
        Text.assemble("    ", (verdict.property, "bold"), f": {verdict.witness}") for verdict in broken
    ]


def _part(title: str, *parts: RenderableType) -> RenderableType:
    return Group(Text(title, style="bold cyan"), *[_indented(part) for part in parts], _BLANK)


def _indented(part: RenderableType) -> RenderableType:
    if isinstance(part, Text):
        return Text.assemble("  ", part)  # Never cropped, however long a reason is.
    return Padding(part, (0, 0, 0, 2), expand=False)


def _table(*left: str, right: tuple[str, ...]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
    for header in left:
        table.add_column(header)
    for header in right:
        table.add_column(header, justify="right")
    return table


def _changes(changes: list[ViewChangeTimes]) -> Table:
    table = _table("", "side", right=("all have their views",))
    table.add_column("primary")
    for change in changes:
        for side, seconds in change.seconds.items():
            primary = yes_or_no(change.primary.get(side, False))
            table.add_row(change.phase, side, f"after {seconds:.2f} s", primary)
    return table


def _flows(flows: list[DemoFlow]) -> Table:
    table = _table("", "side", right=("sent", "delivered"))
    for flow in flows:
        cells = (f"{flow.sent_per_second:.0f}", f"{flow.delivered_per_second:.0f}")
        table.add_row(flow.phase, _side(flow.sites), *cells)
    return table


def _latencies(latencies: list[DemoLatency]) -> Table:
    table = _table("", "", "side", right=("delivered", "mean", "half", "p99"))
    for one in sorted(latencies, key=lambda latency: latency.service):
        figures = [f"{value:.1f}" for value in (one.mean_ms, one.p50_ms, one.p99_ms)]
        table.add_row(one.service, one.phase, _side(one.sites), str(one.delivered), *figures)
    return table


def _reached(reached: list[DeliveryReach]) -> Table:
    table = _table("sent while", "in", right=("messages", *[f"got in {site}" for site in SITES]))
    for one in reached:
        cells = []
        for site in SITES:
            some = f" +{one.some_got[site]}" if one.some_got[site] else ""
            cells.append(f"{one.all_got[site]}{some}")
        table.add_row(one.phase, _side(one.sites), str(one.sent), *cells)
    return table


def _clients(clients: list[ClientSummary]) -> Table:
    table = _table("at", right=("sent", "agreed got", "safe got", "views", "signals"))
    table.add_column("last view")
    for one in clients:
        counts = (one.sent, one.agreed, one.safe, one.views, one.signals)
        table.add_row(one.daemon, *[str(count) for count in counts], " ".join(one.last_view))
    return table


def _side(sites: tuple[str, ...]) -> str:
    return " ".join(sites)


def _sign(good: bool) -> tuple[str, str]:
    return ("✓ ", "green") if good else ("✗ ", "bold red")
