"""The results of all systems as a table, with ratios to ours, and as a picture."""

from html import escape
from typing import Any, Final

from hopring.bench.harness.figures import table

OURS: Final = "hopring"
OTHERS_SHARE_MAX: Final = 0.1
"""If the machine did more than that besides, in any run, a star says so."""
BAR_PX: Final = 18
GAP_PX: Final = 6
LEFT_PX: Final = 120
WIDE_PX: Final = 460
RIGHT_PX: Final = 180
PANEL_PX: Final = 44

_STYLE: Final = """\
text { font: 13px system-ui, sans-serif; fill: #222; }
.title { font-weight: 600; }
.bar { fill: #9db4c8; }
.ours { fill: #2f6f9f; }
@media (prefers-color-scheme: dark) { text { fill: #ddd; } .bar { fill: #56687a; } .ours { fill: #6fb1e0; } }"""

Systems = dict[str, dict[str, Any]]


def as_table(systems: Systems, sizes: list[int]) -> str:
    """Messages per second with spread and ratio to ours; round trips; CPU of all processes."""
    head = [
        "SYSTEM",
        *[f"{size:,} B" for size in sizes],
        "P50 us",
        "P99 us",
        f"CPU us, {sizes[0]} B",
        "PROMISE",
    ]
    rows = []
    for name, seen in systems.items():
        cells = [_rate(systems, name, str(size)) for size in sizes]
        trip = seen.get("latency")
        cells += [f"{trip[key]:,.0f}" if trip else "-" for key in ("p50_us", "p99_us")]
        first = seen["throughput"].get(str(sizes[0]))
        cells.append(f"{first['all_cpu_us_per_message']:.1f}" if first else "-")
        rows.append([name, *cells, seen["promise"]])
    return table(head, rows)


def _rate(systems: Systems, name: str, size: str) -> str:
    seen = systems[name]["throughput"].get(size)
    if seen is None:
        return "-"
    wrong = "" if not seen["lost"] and seen["order_ok"] else " LOST" if seen["lost"] else " ORDER"
    busy = "*" if seen["others_cpu_share"] > OTHERS_SHARE_MAX else ""
    spread = f" ±{seen['spread_percent'] / 2:.0f} %" if len(seen["runs"]) > 1 else ""
    ratio = ratio_to_ours(systems, name, size)
    shown = "" if ratio is None else f" ({ratio:.2f})"
    return f"{seen['messages_per_second']:,.0f}{busy}{spread}{shown}{wrong}"


def ratio_to_ours(systems: Systems, name: str, size: str) -> float | None:
    """Its rate, divided by ours."""
    ours = systems.get(OURS, {}).get("throughput", {}).get(size)
    theirs = systems[name]["throughput"].get(size)
    if not ours or not theirs or not ours["messages_per_second"]:
        return None
    return round(float(theirs["messages_per_second"] / ours["messages_per_second"]), 2)


def as_picture(systems: Systems, sizes: list[int]) -> str:
    """One panel for each size, one bar for each system, scaled to the fastest."""
    out, at_px = [], 20
    for size in sizes:
        seen = {name: one["throughput"].get(str(size)) for name, one in systems.items()}
        rates = {name: one["messages_per_second"] for name, one in seen.items() if one}
        if not rates:
            continue
        out.append(f'<text class="title" x="{LEFT_PX}" y="{at_px}">{size:,} B, messages per second</text>')
        at_px += GAP_PX
        for name, rate in sorted(rates.items(), key=lambda one: -one[1]):
            out += _bar(name, rate, rate / max(rates.values()), at_px, ratio_to_ours(systems, name, str(size)))
            at_px += BAR_PX + GAP_PX
        at_px += PANEL_PX - GAP_PX
    width_px = LEFT_PX + WIDE_PX + RIGHT_PX
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width_px} {max(at_px, 1)}" role="img">'
    title = "<title>Messages per second of all systems, by size</title>"
    return "\n".join([head, title, f"<style>{_STYLE}</style>", *out, "</svg>"]) + "\n"


def _bar(name: str, rate: float, part: float, at_px: int, ratio: float | None) -> list[str]:
    kind = "ours" if name == OURS else "bar"
    long_px, text_px = round(part * WIDE_PX, 1), at_px + BAR_PX - 5
    told = f"{rate:,.0f}" + ("" if ratio is None or name == OURS else f" ({ratio:.2f} of ours)")
    return [
        f'<text x="{LEFT_PX - 8}" y="{text_px}" text-anchor="end">{escape(name)}</text>',
        f'<rect class="{kind}" x="{LEFT_PX}" y="{at_px}" width="{long_px}" height="{BAR_PX}"/>',
        f'<text x="{LEFT_PX + long_px + 6}" y="{text_px}">{told}</text>',
    ]
