"""`hop bench pipeline`: what a small run of the pipeline costs: Spark jobs, processor time, and time."""

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click
import msgspec

from hopring.bench.options import runs_option
from hopring.cli.daemon_session import json_option
from hopring.cli.progress import Steps
from hopring.cli.terminal import Failure, say
from hopring.spark.audit.reading import Ends

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class PipelineFigures(msgspec.Struct, frozen=True):
    """The cost of one run, in a process of its own."""

    jobs: int
    seconds: float  # By the clock, with the start of Java.
    warm_seconds: float  # Of a second run in the same session.
    cpu_seconds: float  # Of the first run: Java, its Python workers, and this process.
    task_cpu_seconds: float  # The part of Java's threads that run tasks.
    peak_mbytes: int  # Of Java.
    load: float  # Of the machine, before the run.


def measure_pipeline(demo: Path) -> PipelineFigures:
    """Runs the pipeline over the data of a demonstration, twice in one session."""
    from hopring.spark import session  # noqa: PLC0415  Only the process that measures needs Spark.

    load, began = os.getloadavg()[0], time.monotonic()
    made: list[SparkSession] = []

    def start() -> "SparkSession":
        made.append(session("hop bench pipeline"))
        return made[0]

    with TemporaryDirectory(prefix="hop-bench-") as out:
        try:
            run_once(start, demo, Path(out) / "first")
            seconds = time.monotonic() - began
            cpu_seconds = tree_cpu_seconds(os.getpid())
            jobs, task_cpu_seconds = spark_figures(made[0])
            began = time.monotonic()
            run_once(lambda: made[0], demo, Path(out) / "second")
            warm_seconds = time.monotonic() - began
            peak_mbytes = max([_peak_mbytes(pid) for pid in _children(os.getpid())], default=0)
        finally:
            for spark in made:
                spark.stop()
    return PipelineFigures(
        jobs,
        round(seconds, 1),
        round(warm_seconds, 1),
        round(cpu_seconds, 1),
        round(task_cpu_seconds, 1),
        peak_mbytes,
        round(load, 1),
    )


def run_once(start: Any, demo: Path, out: Path) -> None:
    """One run over the data of a demonstration that came to rest."""
    from hopring.demo.summary import DemoRecord  # noqa: PLC0415
    from hopring.spark.pipeline import PipelineOptions, Store, named_spools, run  # noqa: PLC0415

    recorded = msgspec.json.decode((demo / "story.json").read_bytes(), type=DemoRecord)
    ends = Ends(recorded.quiet_end, (frozenset(recorded.daemons),) if recorded.quiet_end else None)
    spools = named_spools([str(path) for path in sorted((demo / "spools").iterdir())])
    store = Store(out)
    store.open()
    report = run(start, PipelineOptions(out, spools, demo / "trace.jsonl", ends=ends), store)
    assert report is not None, "there is a trace"
    assert report.holds, report.findings


def spark_figures(spark: "SparkSession") -> tuple[int, float]:
    """The jobs of a session, and the processor time of their tasks."""
    context = spark.sparkContext
    java = context._jsc.sc()
    gateway = context._gateway
    nothing = gateway.new_array(gateway.jvm.double, 0)
    stages = java.statusStore().stageList(None, False, False, nothing, gateway.jvm.java.util.ArrayList())
    cpu_ns = sum(stages.apply(at).executorCpuTime() for at in range(stages.size()))
    return java.dagScheduler().numTotalJobs(), cpu_ns / 1e9


def tree_cpu_seconds(pid: int) -> float:
    """The processor time of a process and of all that it started."""
    fields = _stat(pid)
    ticks = sum(map(int, fields[11:15])) if fields else 0
    return ticks / os.sysconf("SC_CLK_TCK") + sum(tree_cpu_seconds(child) for child in _children(pid))


def workers_peak_mbytes(pid: int) -> int:
    """The most memory that a Python worker of Spark has had; they are started by a child of Java."""
    workers = [two for java in _children(pid) for one in _children(java) for two in (one, *_children(one))]
    return max([_peak_mbytes(worker) for worker in workers], default=0)


def _stat(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []  # It has ended.


def _children(pid: int) -> Iterator[int]:
    for process in Path("/proc").glob("[0-9]*"):
        fields = _stat(int(process.name))
        if fields and int(fields[1]) == pid:
            yield int(process.name)


def _peak_mbytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM")), 0)


@click.command()
@click.option(
    "--data",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The directory of an earlier `hop demo --out DIR`.  [default: a demonstration runs first]",
)
@runs_option
@json_option
@click.option("--one", is_flag=True, hidden=True, help="Measure once, in this process.")
def pipeline(data: Path | None, runs: int, as_json: bool, one: bool) -> None:
    """Measure a run of the pipeline over the data of a demonstration.

    Each run is a process of its own, with its own Java.
    """
    if one:
        assert data is not None, "the process that measures gets the data"
        click.echo(msgspec.json.encode(measure_pipeline(data)))
        return
    with Steps() as steps, TemporaryDirectory(prefix="hop-bench-") as directory:
        if data is None:
            steps.say("a demonstration, for its data")
            data = Path(directory) / "demo"
            _call("demo", "--no-spark", "--json", "--out", str(data))
        found = []
        for number in range(1, runs + 1):
            steps.say(f"run {number} of {runs}")
            line = _call("bench", "pipeline", "--one", "--data", str(data))
            found.append(msgspec.json.decode(line, type=PipelineFigures))
    if as_json:
        click.echo(json.dumps([msgspec.structs.asdict(figures) for figures in found]))
        return
    for name in PipelineFigures.__struct_fields__:
        values = [getattr(figures, name) for figures in found]
        say(f"{name:18} {statistics.median(values):8g}   of {', '.join(map(str, values))}")


def _call(*arguments: str) -> bytes:
    """The output of a command of `hop`; Failure if it fails."""
    hop = shutil.which("hop", path=str(Path(sys.executable).parent))
    command = [hop] if hop else [sys.executable, "-m", "hopring.cli.main"]
    done = subprocess.run([*command, *arguments], stdout=subprocess.PIPE, check=False)
    if done.returncode:
        raise Failure(f"hop {' '.join(arguments)} failed: see above")
    return done.stdout
