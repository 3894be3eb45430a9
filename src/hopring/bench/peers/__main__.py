"""Runs all installed systems under the same workloads, in turn, so that other load affects all of them.

    python -m hopring.bench.peers [NAME ...] [--rounds 3] [--sizes 100,1024,8192,65536]

Three receivers get every message of one sender; each round trip is answered by a client elsewhere. A table goes
to stdout, JSON and a picture to files. Exit code 1 means that a system failed, or lost or reordered a message.
"""

import argparse
import json
import os
import platform
import sys
from pathlib import Path
from typing import Any, Final

import msgspec

from hopring import compiled
from hopring.bench.harness.daemons import BenchDaemons
from hopring.bench.harness.figures import spread_percent, summary
from hopring.bench.harness.processes import BenchSystem
from hopring.bench.harness.workload import BenchWorkload
from hopring.bench.latency import ProbeOptions, measure_latency
from hopring.bench.peers.peer import BUILT
from hopring.bench.peers.report import OURS, Systems, as_picture, as_table
from hopring.bench.peers.worker import PEERS
from hopring.bench.throughput import measure_throughput
from hopring.cli.exits import Failure

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
        "--show", action="store_true", help="measure nothing: table and picture of the last time"
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
