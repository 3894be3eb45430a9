"""`hop bench pipeline`: what a small run of the pipeline costs: Spark jobs, processor time, and time.

Runs start their own Java, or use a server that is warm.
"""

import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, Self

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


class ServedFigures(msgspec.Struct, frozen=True):
    """The cost of one run at a warm server, from a process of its own."""

    seconds: float  # By the clock, with the start of the process.
    cpu_seconds: float  # Of that process and of the server.
    server_cpu_seconds: float
    server_peak_mbytes: int  # Of its Java, since its start.
    load: float  # Of the machine, before the run.


WARMING_RUNS: Final = 2
"""Runs before the first that counts: the server compiles its code."""


class WarmServer:
    """`hop pipeline serve` as a process, inside a `with` block."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""

    def __enter__(self) -> Self:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        serve = [*_hop(), "pipeline", "serve", "--port", str(port)]
        self._process = subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert self._process.stdout is not None, "the URL comes through a pipe"
        self.url = self._process.stdout.readline().decode().strip()
        if not self.url:
            raise Failure("hop pipeline serve ended: start it alone to see why")
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None, "it was started"
        self._process.terminate()
        self._process.communicate()

    @property
    def cpu_seconds(self) -> float:
        """Of the server and all that it started."""
        assert self._process is not None, "it was started"
        return tree_cpu_seconds(self._process.pid)

    @property
    def peak_mbytes(self) -> int:
        """The most memory that its Java has had."""
        assert self._process is not None, "it was started"
        return max([_peak_mbytes(pid) for pid in _children(self._process.pid)], default=0)


def measure_served(server: WarmServer, demo: Path) -> ServedFigures:
    """One run at the server, by another process."""
    load, began = os.getloadavg()[0], time.monotonic()
    before, own = server.cpu_seconds, _ended_cpu_seconds()
    _call("bench", "pipeline", "--one", "--data", str(demo), "--remote", server.url)
    served = server.cpu_seconds - before
    return ServedFigures(
        round(time.monotonic() - began, 1),
        round(served + _ended_cpu_seconds() - own, 1),
        round(served, 1),
        server.peak_mbytes,
        round(load, 1),
    )


def _ended_cpu_seconds() -> float:
    """The processor time of processes that this one has started and that have ended."""
    used = os.times()
    return used.children_user + used.children_system


def run_remotely(demo: Path, url: str) -> None:
    """One run at a server."""
    from hopring.spark import session  # noqa: PLC0415  Only the process that measures needs Spark.

    spark = session("hop bench pipeline", remote=url)
    try:
        with TemporaryDirectory(prefix="hop-bench-") as out:
            run_once(lambda: spark, demo, Path(out) / "out")
    finally:
        spark.stop()


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


def tree_mbytes(pid: int) -> int:
    """The memory that a process and all that it started have now; pages that they share count for each."""
    return _mbytes(pid, "VmRSS") + sum([tree_mbytes(child) for child in _children(pid)])


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
    return _mbytes(pid, "VmHWM")


def _mbytes(pid: int, name: str) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) // 1024 for line in lines if line.startswith(name)), 0)


@click.command()
@click.option(
    "--data",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The directory of an earlier `hop demo --out DIR`.  [default: a demonstration runs first]",
)
@runs_option
@json_option
@click.option("--server", is_flag=True, help="Measure runs at a warm server, `hop pipeline serve`, instead.")
@click.option("--one", is_flag=True, hidden=True, help="Measure once, in this process.")
@click.option("--remote", hidden=True, help="With --one: run there, and measure nothing.")
def pipeline(data: Path | None, runs: int, as_json: bool, server: bool, one: bool, remote: str | None) -> None:
    """Measure a run of the pipeline over the data of a demonstration.

    Each run is a process of its own, with its own Java, or with that of the server.
    """
    if one:
        assert data is not None, "the process that measures gets the data"
        if remote is not None:
            run_remotely(data, remote)
        else:
            click.echo(msgspec.json.encode(measure_pipeline(data)))
        return
    with Steps() as steps, TemporaryDirectory(prefix="hop-bench-") as directory:
        if data is None:
            steps.say("a demonstration, for its data")
            data = Path(directory) / "demo"
            _call("demo", "--no-spark", "--json", "--out", str(data))
        found = _served_runs(data, runs, steps) if server else _own_runs(data, runs, steps)
    if as_json:
        click.echo(json.dumps([msgspec.structs.asdict(figures) for figures in found]))
        return
    for name in found[0].__struct_fields__:
        values = [getattr(figures, name) for figures in found]
        say(f"{name:18} {statistics.median(values):8g}   of {', '.join(map(str, values))}")


def _own_runs(data: Path, runs: int, steps: Steps) -> Sequence[PipelineFigures]:
    found = []
    for number in range(1, runs + 1):
        steps.say(f"run {number} of {runs}")
        line = _call("bench", "pipeline", "--one", "--data", str(data))
        found.append(msgspec.json.decode(line, type=PipelineFigures))
    return found


def _served_runs(data: Path, runs: int, steps: Steps) -> Sequence[ServedFigures]:
    steps.say("starting the server")
    with WarmServer() as server:
        for number in range(1, WARMING_RUNS + 1):
            steps.say(f"run {number} of {WARMING_RUNS} that do not count")
            measure_served(server, data)
        found = []
        for number in range(1, runs + 1):
            steps.say(f"run {number} of {runs}")
            found.append(measure_served(server, data))
        return found


def _call(*arguments: str) -> bytes:
    """The output of a command of `hop`; Failure if it fails."""
    done = subprocess.run([*_hop(), *arguments], stdout=subprocess.PIPE, check=False)
    if done.returncode:
        raise Failure(f"hop {' '.join(arguments)} failed: see above")
    return done.stdout


def _hop() -> list[str]:
    hop = shutil.which("hop", path=str(Path(sys.executable).parent))
    return [hop] if hop else [sys.executable, "-m", "hopring.cli.main"]
