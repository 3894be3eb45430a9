"""Facts as text and tables for people."""

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from hopring.cli.demo.facts import Clean, Demo, Latency, LinkLoss, Lossy, Pruned, Rerouted, Tally
from hopring.cli.demo.world import DAEMONS_PER_SITE, DELAYS_MS, DETOUR, RATE_MBIT, SITES

_BLANK = Text()


def opening() -> RenderableType:
    """Where we are."""
    daemons = ", ".join(f"{site}{at}" for site in SITES for at in range(1, DAEMONS_PER_SITE + 1))
    delays = ", ".join(f"{_ends(between)} {ms} ms" for between, ms in DELAYS_MS.items())
    return Group(
        Text("Reliable multicast across three sites", style="bold"),
        Text(f"daemons  {daemons}: a process each, on UDP sockets of this machine", style="dim"),
        Text(f"one way  {delays}, made in front of the sockets", style="dim"),
        Text(f"links    Hop, at {RATE_MBIT} Mbit/s", style="dim"),
        _BLANK,
    )


def clean(facts: Clean) -> RenderableType:
    """Phase 1."""
    return _phase(
        "1  All multicast to all: 1 KB bundles over clean links",
        _latencies(facts.latencies),
        _BLANK,
        _outcome(facts.tally),
    )


def lossy(facts: Lossy, before: Clean) -> RenderableType:
    """Phase 2, beside phase 1."""
    return _phase(
        f"2  The same, with {facts.loss_percent:g} % of all datagrams between sites lost",
        _latencies(facts.latencies, before.latencies),
        _BLANK,
        _links(facts.links),
        _BLANK,
        _outcome(facts.tally),
    )


def pruned(facts: Pruned) -> RenderableType:
    """Phase 3."""
    table = _table("bytes from " + facts.source, "", right=("sent", "share"))
    table.add_row(f"to {facts.wanted_by}", "the bundles", _size(facts.wanted_bytes), "100 %")
    table.add_row(
        f"to {facts.pruned}",
        "only the fact of them",
        _size(facts.pruned_bytes),
        f"{facts.pruned_percent:.1f} %",
    )
    title = f"3  Bundles from {facts.source} for {facts.wanted_by} only: the branch to {facts.pruned} is pruned"
    return _phase(title, table, _BLANK, _outcome(facts.tally))


def rerouted(facts: Rerouted) -> RenderableType:
    """Phase 4."""
    story = [(ms, f"{name} notices that the other end is silent") for name, ms in facts.noticed_ms.items()]
    story.append(
        (facts.flowing_ms, f"on network {facts.generation}, the first bundle crosses by way of {DETOUR}")
    )
    return _phase(
        f"4  The link {_ends(facts.between)} is cut: the next network does without it",
        *[Text(f"after {ms / 1_000:.2f} s  {what}") for ms, what in sorted(story)],
        _BLANK,
        _latencies(facts.latencies, detour=facts.between),
        _BLANK,
        _outcome(facts.tally),
    )


def closing(facts: Demo) -> RenderableType:
    """The sum and the verdicts."""
    total = facts.total
    table = _table(right=("bundles sent", "receipts expected", "received", "duplicates", "lost"))
    numbers = (total.sent, total.expected, total.received, total.duplicates, total.lost)
    table.add_row(*[str(number) for number in numbers])
    verdicts = [
        Text.assemble(_sign(verdict.holds), verdict.property, "" if verdict.holds else f": {verdict.witness}")
        for verdict in facts.verdicts
    ]
    notes = [Text(f"! {restart}; its phase was repeated", style="yellow") for restart in facts.restarts]
    end = (Text(f"trace  {facts.trace}", style="dim"), Text(f"took   {facts.seconds:.0f} s", style="dim"))
    return _phase("All in all", table, _BLANK, *verdicts, *notes, _BLANK, *end)


def _phase(title: str, *parts: RenderableType) -> RenderableType:
    return Group(Text(title, style="bold cyan"), *[_indented(part) for part in parts], _BLANK)


def _indented(part: RenderableType) -> RenderableType:
    if isinstance(part, Text):
        return Text.assemble("  ", part) if part else part  # Never cropped, however long a path or a reason is.
    return Padding(part, (0, 0, 0, 2), expand=False)


def _table(*left: str, right: tuple[str, ...]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
    for header in left:
        table.add_column(header)
    for header in right:
        table.add_column(header, justify="right")
    return table


def _latencies(
    latencies: list[Latency], before: list[Latency] | None = None, detour: tuple[str, str] | None = None
) -> Table:
    extra = () if before is None else ("mean before",)
    table = _table("latency in ms", right=("wire", "mean", "p99", *extra))
    means = {one.between: one.mean_ms for one in before or []}
    for one in latencies:
        name = "within a site" if one.between is None else _ends(one.between)
        name += f" by {DETOUR}" if one.between is not None and one.between == detour else ""
        cells = [f"{one.wire_ms}", f"{one.mean_ms:.1f}", f"{one.p99_ms:.1f}"]
        if one.between in means:
            cells.append(f"{means[one.between]:.1f}")
        table.add_row(name, *cells)
    return table


def _links(links: list[LinkLoss]) -> Table:
    table = _table("link", right=("datagrams", "lost", "", "NACKs", "sent again"))
    for one in links:
        share = f"{100 * one.lost / one.datagrams:.1f} %" if one.datagrams else ""
        cells = (one.datagrams, one.lost, share, one.nacks, one.retransmissions)
        table.add_row(_ends(one.between), *[str(cell) for cell in cells])
    return table


def _outcome(tally: Tally) -> Text:
    good = tally.received == tally.expected and not tally.duplicates
    words = f"{tally.received} of {tally.expected} received"
    if tally.duplicates:
        words += f", {tally.duplicates} twice"
    return Text.assemble(_sign(good), words)


def _sign(good: bool) -> tuple[str, str]:
    return ("✓ ", "green") if good else ("✗ ", "bold red")


def _ends(between: tuple[str, str]) -> str:
    return f"{between[0]}–{between[1]}"


def _size(count: int) -> str:
    return f"{count / 1_000:.0f} kB"
