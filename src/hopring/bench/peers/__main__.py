"""Runs all installed systems under the same workloads, in turn, so that other load affects all of them.

    python -m hopring.bench.peers [NAME ...] [--rounds 3] [--sizes 100,1024,8192,65536]

Three receivers get every message of one sender; each round trip is answered by a client elsewhere. A table with
ratios to hopring goes to stdout, JSON and a picture go to files. Exit code 1 means that a system failed, or
lost or reordered a message.
"""

import argparse
import json
import os
import platform
import sys
from html import escape
from pathlib import Path
from typing import Any, Final

import msgspec

from hopring import compiled
from hopring.bench.harness.daemons import BenchDaemons
from hopring.bench.harness.figures import spread_percent, summary, table
from hopring.bench.harness.processes import BenchSystem
from hopring.bench.harness.workload import BenchWorkload
from hopring.bench.latency import ProbeOptions, measure_latency
from hopring.bench.peers.peer import BUILT
from hopring.bench.peers.worker import PEERS
from hopring.bench.throughput import measure_throughput
from hopring.cli.terminal import Failure

OURS: Final = "hopring"
OTHERS_SHARE_MAX: Final = 0.1
"""A figure is marked with a star if other processes had a larger CPU share in any run."""
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


SIZES: Final = "100,1024,8192,65536"
LATENCY: Final = "latency"

Runs = dict[str, dict[str, list[dict[str, Any]]]]
"""By system and workload."""


def system_of(name: str) -> BenchSystem:
    """The system of this name, not started."""
    return BenchDaemons({"a": 3}) if name == OURS else PEERS[name]()


def present(names: list[str]) -> list[str]:
    """The systems that can run here; prints what the others need."""
    found = []
    for name in names:
        needs = [] if name == OURS else PEERS[name].missing()
        if needs:
            print(f"bench: {name} is left out; {'; '.join(needs)}", file=sys.stderr)
        else:
            found.append(name)
    return found


def measure(name: str, sizes: list[int], wishes: argparse.Namespace, serial: int) -> dict[str, dict[str, Any]]:
    """One round of one system: all workloads on the same servers."""
    seen: dict[str, dict[str, Any]] = {}
    with system_of(name) as system:
        for size in sizes:
            workload = BenchWorkload(size_bytes=size, seconds=wishes.seconds)
            one = msgspec.to_builtins(measure_throughput(system, workload, f"flood{serial}x{size}"))
            seen[str(size)] = one
            print(f"bench: {name}, {size} B: {one['messages_per_second']:,.0f}/s", file=sys.stderr)
        trip = measure_latency(
            system, BenchWorkload(size_bytes=100, receivers=1), ProbeOptions(wishes.probes), f"trip{serial}"
        )
        seen[LATENCY] = msgspec.to_builtins(trip)
        print(f"bench: {name}, round trip: {trip.p50_us:,.0f} us", file=sys.stderr)
    return seen


def rounds(names: list[str], sizes: list[int], wishes: argparse.Namespace) -> tuple[Runs, list[str]]:
    """Measures every system in turn, several times; returns the figures and the errors."""
    runs: Runs = {name: {} for name in names}
    wrong = []
    for serial in range(wishes.rounds):
        for name in names:
            try:
                seen = measure(name, sizes, wishes, serial)
            except Failure as failure:
                wrong.append(f"{name}: {failure.message}")
                print(f"bench: {failure.message}", file=sys.stderr)
                continue
            for key, one in seen.items():
                runs[name].setdefault(key, []).append(one)
    return runs, wrong


def summaries(runs: Runs) -> Systems:
    """Medians and spreads of all runs."""
    systems: Systems = {}
    for name, cells in runs.items():
        promise = "Agreed, views" if name == OURS else PEERS[name].promise
        systems[name] = {"promise": promise, "throughput": {}}
        for key, ones in cells.items():
            if key == LATENCY:
                systems[name][LATENCY] = summary(ones) | {"runs": [one["p50_us"] for one in ones]}
                continue
            rates = [one["messages_per_second"] for one in ones]
            more = {"spread_percent": spread_percent(rates), "runs": rates}
            systems[name]["throughput"][key] = summary(ones) | more
    return systems


def arguments() -> argparse.Namespace:
    """Parses the command line of the bench of peers."""
    known = [OURS, *PEERS]
    parser = argparse.ArgumentParser(prog="python -m hopring.bench.peers", description="Measure us and others.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(known)}; default: all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sizes", default=SIZES, help=f"in bytes; default: {SIZES}")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each flood")
    parser.add_argument("--probes", type=int, default=1000)
    parser.add_argument(
        "--show", action="store_true", help="measure nothing: make table and picture of the last run again"
    )
    parser.add_argument("--json", type=Path, default=BUILT / "bench-peers.json")
    parser.add_argument("--picture", type=Path, default=Path("docs/pictures/peers.svg"))
    wishes = parser.parse_args()
    wishes.names = wishes.names or known
    if unknown := sorted(set(wishes.names) - set(known)):
        parser.error(f"no system {', '.join(unknown)}; there are {', '.join(known)}")
    return wishes


def main() -> int:
    """Measures, and writes table, JSON and picture."""
    wishes = arguments()
    if wishes.show:
        told = json.loads(wishes.json.read_text())
        return show(told["systems"], told["sizes"], told["wrong"], wishes.picture)
    sizes = [int(one) for one in wishes.sizes.split(",")]
    runs, wrong = rounds(present(wishes.names), sizes, wishes)
    systems = summaries(runs)
    for name, seen in systems.items():
        for size, one in seen["throughput"].items():
            if one["lost"] or not one["order_ok"]:
                wrong.append(f"{name}, {size} B: lost {one['lost']}, order {one['order_ok']}")
    machine = {"processors": os.cpu_count(), "machine": platform.machine(), "compiled": compiled.active()}
    wishes.json.parent.mkdir(exist_ok=True)
    told = {"machine": machine, "rounds": wishes.rounds, "sizes": sizes, "systems": systems, "wrong": wrong}
    wishes.json.write_text(json.dumps(told, indent=1) + "\n")
    return show(systems, sizes, wrong, wishes.picture)


def show(systems: Systems, sizes: list[int], wrong: list[str], picture: Path) -> int:
    """Prints the table and writes the picture; returns the exit code."""
    picture.write_text(as_picture(systems, sizes))
    print(as_table(systems, sizes))
    for line in wrong:
        print(f"bench: {line}", file=sys.stderr)
    return int(bool(wrong))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
