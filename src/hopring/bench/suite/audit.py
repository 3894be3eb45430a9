"""The audit on Spark: every property of extended virtual synchrony over long traces, of daemons and of clients.

    python -m hopring.bench.suite.audit [--clients] [DELIVERIES ...]

Daemons: up to 30 million deliveries at sixteen daemons, in two halves that split and merge over and over;
Agreed, Safe, FIFO and Reliable messages. Clients: a million deliveries to 64 sessions at eight daemons, each in
four of forty groups, with joins, leaves and changes of network. Without arguments both are audited.

Traces are written to temporary files beforehand; that time is not measured. Each audit is a process of its own,
so its time includes the start of Java. `load_before` is the machine's load before it; `times_deliveries` and
`times_seconds` compare each trace with the first one.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from hopring.bench.suite.audit_traces import ClientTrace, write_trace

SIZES: Final = (1_000_000, 10_000_000, 30_000_000)
DAEMONS: Final = 16
CLIENT_SIZES: Final = (1_000_000,)
CLIENT_DAEMONS, SESSIONS, GROUPS, GROUPS_EACH = 8, 64, 40, 4
FIGURES_FILE: Final = "_figures.json"
"""Written beside the trace; Spark ignores names that begin with an underscore."""

Figures = dict[str, Any]


def write_daemons(directory: Path, deliveries: int) -> Figures:
    """Writes a trace of daemons; returns its size."""
    made = write_trace(directory, deliveries, DAEMONS)
    return {
        "case": f"{made.deliveries} deliveries",
        "deliveries": made.deliveries,
        "events": made.events,
        "views": made.views,
        "trace_mbytes": round(sum(file.stat().st_size for file in directory.iterdir()) / 1e6, 1),
    }


def write_clients(directory: Path, deliveries: int) -> Figures:
    """Writes a trace of clients; returns its size."""
    from hopring.check.trace_files import write_parquet  # noqa: PLC0415  The audit process does not need it.

    events = list(ClientTrace(CLIENT_DAEMONS, SESSIONS, GROUPS, GROUPS_EACH).events(deliveries))
    write_parquet(events, directory / "trace.parquet")
    return {
        "case": f"{deliveries} deliveries to sessions",
        "deliveries": deliveries,
        "events": len(events),
    }


def measure(deliveries: int, write: Callable[[Path, int], Figures]) -> Figures:
    """Writes a trace and audits it in another process."""
    directory = Path(tempfile.mkdtemp(prefix="hopring-audit-"))
    try:
        size = write(directory, deliveries)
        load = os.getloadavg()[0]
        began = time.monotonic()
        command = [sys.executable, "-m", "hopring.bench.suite.audit", "--one", str(directory)]
        subprocess.run(command, check=True)
        seconds = time.monotonic() - began
        return {
            **size,
            "seconds": round(seconds, 1),
            "deliveries_per_s": round(size["deliveries"] / seconds),
            "load_before": round(load, 1),
            **json.loads((directory / FIGURES_FILE).read_text()),
        }
    finally:
        shutil.rmtree(directory)


def audit_one(directory: str) -> None:
    """Audits the trace in a directory, with progress on stderr."""
    from hopring.spark import session  # noqa: PLC0415  Only the process that measures needs Spark.
    from hopring.spark.audit import audit, read_trace  # noqa: PLC0415

    began = time.monotonic()

    def report_step(step: str) -> None:
        print(f"  {time.monotonic() - began:6.1f} s  {step}", file=sys.stderr, flush=True)

    report_step("starting Spark")
    spark = session("bench audit")
    report = audit(spark, read_trace(spark, directory), directory, say=report_step)
    assert report.holds, report.findings
    report_step("done")
    used = os.times()
    figures = {"java": java_figures(), "python_cpu_seconds": round(used.user + used.system, 1)}
    (Path(directory) / FIGURES_FILE).write_text(json.dumps(figures))
    spark.stop()


def java_figures() -> dict[str, float]:
    """CPU time and peak memory of the Java process that this process started."""
    own = str(os.getpid())
    for process in Path("/proc").glob("[0-9]*"):
        fields = (process / "stat").read_text().rpartition(")")[2].split()
        if fields[1] == own:
            ticks = int(fields[11]) + int(fields[12])
            peak = next(line for line in (process / "status").read_text().splitlines() if "VmHWM" in line)
            seconds = ticks / os.sysconf("SC_CLK_TCK")
            return {"cpu_seconds": round(seconds, 1), "peak_mbytes": int(peak.split()[1]) // 1024}
    return {}


def measure_all(sizes: list[int], write: Callable[[Path, int], Figures]) -> None:
    """Prints the figures of each trace, and from the second on its ratio to the first."""
    first: Figures = {}
    for deliveries in sizes:
        figures = measure(deliveries, write)
        if first:
            figures |= {
                f"times_{name}": round(float(figures[name]) / float(first[name]), 2)
                for name in ("deliveries", "seconds")
            }
        first = first or figures
        print(json.dumps(figures), flush=True)


def main() -> None:
    """Reads the command line and measures."""
    parser = argparse.ArgumentParser(prog="python -m hopring.bench.suite.audit", description="Time the audit.")
    parser.add_argument("sizes", nargs="*", type=int, metavar="DELIVERIES")
    parser.add_argument("--clients", action="store_true", help="traces of clients instead of daemons")
    parser.add_argument("--one", metavar="DIR", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        audit_one(arguments.one)
        return
    if not arguments.clients:
        measure_all(arguments.sizes or list(SIZES), write_daemons)
    if arguments.clients or not arguments.sizes:
        measure_all(arguments.sizes or list(CLIENT_SIZES), write_clients)


if __name__ == "__main__":
    main()
