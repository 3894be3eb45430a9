"""The results of the demonstration as text and tables."""

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

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
            "What was delivered where: messages that all clients of a site got, + some of them",
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
    for change in changes:
        for side, seconds in change.seconds.items():
            table.add_row(change.phase, side, f"after {seconds:.2f} s")
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
