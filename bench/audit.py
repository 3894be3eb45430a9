"""Audit: every property of extended virtual synchrony over traces of up to 30 million deliveries, with Spark.

    python -m bench.audit [DELIVERIES ...]

Sixteen daemons in two halves that part and come together again, over and over; Agreed, Safe, FIFO and Reliable
messages. Traces are made beforehand, among temporary files; their making is not measured. Each audit
is a process of its own, so that its time has the start of Java in it. Beside its figures is what else ran on
the machine before it (`load_before`), and from the second on how many times the first trace and the first time
it is.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from bench._audit_trace import write_trace

SIZES: Final = (1_000_000, 10_000_000, 30_000_000)
DAEMONS: Final = 16
FIGURES_FILE: Final = "_figures.json"
"""Beside the trace; Spark passes over names that begin so."""


def measure(deliveries: int) -> dict[str, Any]:
    """Makes a trace and audits it."""
    directory = Path(tempfile.mkdtemp(prefix="hopring-audit-"))
    try:
        made = write_trace(directory, deliveries, DAEMONS)
        load = os.getloadavg()[0]
        began = time.monotonic()
        subprocess.run([sys.executable, "-m", "bench.audit", "--one", str(directory)], check=True)
        seconds = time.monotonic() - began
        return {
            "case": f"{made.deliveries} deliveries",
            "deliveries": made.deliveries,
            "events": made.events,
            "views": made.views,
            "trace_mbytes": round(sum(file.stat().st_size for file in directory.iterdir()) / 1e6, 1),
            "seconds": round(seconds, 1),
            "deliveries_per_s": round(made.deliveries / seconds),
            "load_before": round(load, 1),
            **json.loads((directory / FIGURES_FILE).read_text()),
        }
    finally:
        shutil.rmtree(directory)


def audit_one(directory: str) -> None:
    """The audit itself, with its steps on stderr."""
    from hopring.spark import session  # noqa: PLC0415  Only the process that measures needs Spark.
    from hopring.spark.audit import audit, read_trace  # noqa: PLC0415

    began = time.monotonic()

    def say(words: str) -> None:
        print(f"  {time.monotonic() - began:6.1f} s  {words}", file=sys.stderr, flush=True)

    say("starting Spark")
    spark = session("bench audit")
    report = audit(spark, read_trace(spark, directory), directory, say=say)
    assert report.holds, report.findings
    say("done")
    used = os.times()
    figures = {"java": java_figures(), "python_cpu_seconds": round(used.user + used.system, 1)}
    (Path(directory) / FIGURES_FILE).write_text(json.dumps(figures))
    spark.stop()


def java_figures() -> dict[str, float]:
    """What the Java process of this one has taken."""
    own = str(os.getpid())
    for process in Path("/proc").glob("[0-9]*"):
        facts = (process / "stat").read_text().rpartition(")")[2].split()
        if facts[1] == own:
            ticks = int(facts[11]) + int(facts[12])
            peak = next(line for line in (process / "status").read_text().splitlines() if "VmHWM" in line)
            seconds = ticks / os.sysconf("SC_CLK_TCK")
            return {"cpu_seconds": round(seconds, 1), "peak_mbytes": int(peak.split()[1]) // 1024}
    return {}


def main() -> None:
    """The command line."""
    if sys.argv[1:2] == ["--one"]:
        audit_one(sys.argv[2])
        return
    first: dict[str, Any] = {}
    for deliveries in map(int, sys.argv[1:] or SIZES):
        figures = measure(deliveries)
        if first:
            figures |= {f"times_{name}": times(figures, first, name) for name in ("deliveries", "seconds")}
        first = first or figures
        print(json.dumps(figures), flush=True)


def times(figures: dict[str, Any], first: dict[str, Any], name: str) -> float:
    """How many times the first it is."""
    return round(float(figures[name]) / float(first[name]), 2)


if __name__ == "__main__":
    main()
