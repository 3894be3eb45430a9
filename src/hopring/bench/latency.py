"""`hop bench latency`: round-trip times of single messages."""

import json
import time
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import Final

import click
import msgspec

from hopring.bench.harness.daemons import BenchDaemons, in_clear_and_sealed, sites_of
from hopring.bench.harness.figures import Figures, both_columns, both_columns_text, spread_percent, summary
from hopring.bench.harness.processes import (
    READY_SECONDS,
    BenchSystem,
    ReportStep,
    WorkerProcesses,
    no_progress,
    with_prefix,
    with_run_number,
)
from hopring.bench.harness.workload import RECEIVER_READY, BenchWorkload, WorkerTask
from hopring.bench.options import receivers_option, runs_option, sealed_option, size_option, topology_options
from hopring.bench.throughput import counters_for, measure_throughput, start_flood, stop_flood
from hopring.cli.daemon_session import json_option, service_option
from hopring.cli.progress import Steps
from hopring.cli.terminal import Failure

PROBE_SECONDS_MAX: Final = 0.2
"""The mean time of a probe after which the bench gives up."""


class BenchRoundTrip(msgspec.Struct, frozen=True):
    """Percentiles of the round-trip times of one run."""

    p50_us: float
    p99_us: float
    max_us: float
    probes: int


class ProbeOptions(msgspec.Struct, frozen=True):
    """How probes are sent, and the load beside them."""

    probes: int = 2000
    pause_us: int = 0
    to_itself: bool = False
    load: BenchWorkload | None = None  # Load meanwhile, in another group.


def measure_latency(
    system: BenchSystem,
    workload: BenchWorkload,
    probing: ProbeOptions,
    group: str,
    say: ReportStep = no_progress,
) -> BenchRoundTrip:
    """Measures one run on running servers; `group` must be a new name."""
    with TemporaryDirectory(prefix="hop-bench-") as name, WorkerProcesses(system, Path(name)) as workers:
        if probing.load is None:
            return _probe(workers, Path(name), workload, probing, group, say)
        file = Path(name) / "load"
        counters = counters_for(file, probing.load)
        start_flood(workers, system, counters, WorkerTask("", 0, str(file), f"{group}-load", probing.load), say)
        time.sleep(probing.load.warm_seconds)
        trip = _probe(workers, Path(name), workload, probing, group, say)
        sent, lost = stop_flood(workers, counters)
        if lost:
            raise Failure(f"{system.name}: {lost} of {sent} messages of the load are lost")
        return trip


def _probe(
    workers: WorkerProcesses,
    directory: Path,
    workload: BenchWorkload,
    probing: ProbeOptions,
    group: str,
    say: ReportStep,
) -> BenchRoundTrip:
    answering = 0 if probing.to_itself else workload.receivers
    file = directory / "counters"
    counters = counters_for(file, msgspec.structs.replace(workload, receivers=answering))
    task = WorkerTask(
        "answer", 0, str(file), group, workload, probing.probes, probing.pause_us, probing.to_itself
    )
    for number in range(answering):
        workers.start(msgspec.structs.replace(task, number=number))
    ready = RECEIVER_READY
    workers.wait(
        lambda: all(counters[ready : ready + answering]), READY_SECONDS, "the answering client is not ready"
    )
    say(f"sending {probing.probes} probes, one at a time")
    name = workers.start(msgspec.structs.replace(task, role="ping"))
    seconds = READY_SECONDS + (PROBE_SECONDS_MAX + probing.pause_us / 1e6) * probing.probes
    taken_us: list[float] = json.loads(workers.result(name, seconds))
    return BenchRoundTrip(
        p50_us=round(median(taken_us), 1),
        p99_us=round(quantiles(taken_us, n=100)[-1], 1),
        max_us=round(max(taken_us), 1),
        probes=len(taken_us),
    )


LOAD = BenchWorkload(size_bytes=1024, seconds=1.0, warm_seconds=0.5)


@click.command()
@topology_options
@receivers_option(1)
@size_option(100)
@service_option
@click.option("--probes", type=click.IntRange(100), default=2000, show_default=True, help="Probes in each run.")
@click.option(
    "--every-ms", type=click.FloatRange(0), default=0.0, show_default=True, help="Pause between two probes."
)
@click.option("--half-load", is_flag=True, help="Meanwhile send 1 KB messages at half of the highest rate.")
@click.option(
    "--load",
    "load_per_second",
    type=click.IntRange(0),
    default=0,
    help="Meanwhile send this many 1 KB messages a second.",
)
@runs_option
@sealed_option
@json_option
def latency(
    daemons: int,
    sites: int,
    receivers: int,
    size_bytes: int,
    service: str,
    probes: int,
    every_ms: float,
    half_load: bool,
    load_per_second: int,
    runs: int,
    sealed: bool,
    as_json: bool,
) -> None:
    """Round-trip times, one message at a time.

    pong: to a client of another daemon, which answers. own: until a member receives its own message. p50_us and
    p99_us are those of pong.
    """
    workload = BenchWorkload(size_bytes=size_bytes, service=service, receivers=receivers)
    shape, pause_us = sites_of(daemons, min(sites, daemons)), int(every_ms * 1000)

    def measure(system: BenchDaemons, number: int, say: ReportStep) -> Figures:
        nonlocal load_per_second
        if half_load and not load_per_second:
            most = measure_throughput(system, LOAD, "most", say=with_prefix(say, "full load"))
            load_per_second = int(most.messages_per_second / 2)
        # The same bundles as in the flood, at a lower rate: smaller bundles would be another kind of load.
        load = (
            msgspec.structs.replace(LOAD, pace_per_second=load_per_second, bundle=LOAD.at_once)
            if load_per_second
            else None
        )
        trips: Figures = {}
        for kind in ("pong", "own"):
            probing = ProbeOptions(probes, pause_us, kind == "own", load)
            trips[kind] = msgspec.to_builtins(
                measure_latency(system, workload, probing, f"{kind}{number}", say)
            )
        return trips

    with Steps(plain=True) as steps:
        if sealed:
            both = in_clear_and_sealed(
                shape, runs, steps.say, lambda system, number: measure(system, number, steps.say)
            )
        else:
            with BenchDaemons(shape, say=steps.say) as system:
                results = [measure(system, one, with_run_number(steps.say, one, runs)) for one in range(runs)]
    about = {"daemons": daemons, "sites": sites, "size_bytes": size_bytes, "service": service}
    figures: Figures = {"bench": "latency", **about, "load_per_second": load_per_second}
    if sealed:
        figures |= both_columns(*[summary(some) for some in both.values()])
        click.echo(json.dumps(figures) if as_json else both_columns_text(figures))
        return
    figures |= {
        **summary([one["pong"] for one in results]),
        "spread_percent": spread_percent([one["pong"]["p50_us"] for one in results]),
        **summary(results),
    }
    click.echo(json.dumps(figures) if as_json else _text(figures))


def _text(figures: Figures) -> str:
    lines = []
    for kind, words in (("pong", "answered at another daemon"), ("own", "own messages")):
        trip = figures[kind]
        lines.append(
            f"{words}: p50 {trip['p50_us']:,.0f} us, p99 {trip['p99_us']:,.0f} us, max {trip['max_us']:,.0f} us"
        )
    lines.append(
        f"{figures['service']}, {figures['size_bytes']} B, beside {figures['load_per_second']:,} messages/s"
    )
    return "\n".join(lines)
