"""`hop bench engines`: the same programs with daemons (`hop://`) and without (`rmp://`), in one run.

Both systems are measured in turn, case by case, so that other load affects both alike. Peers are threads of
the sending and receiving processes; daemons are processes of their own. All traffic is on loopback.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator
from statistics import median
from types import TracebackType
from typing import Final, Self

import click
import msgspec

from hopring.bench.harness.daemons import BenchDaemons, sites_of
from hopring.bench.harness.figures import Figures
from hopring.bench.harness.processes import BenchSystem, ReportStep, with_run_number
from hopring.bench.harness.workload import BenchWorkload, WorkerTask
from hopring.bench.latency import ProbeOptions, measure_latency
from hopring.bench.options import runs_option, seconds_option
from hopring.bench.throughput import measure_throughput
from hopring.cli.daemon_session import json_option
from hopring.cli.progress import Steps
from hopring.cli.terminal import Exit
from hopring.rmp.process.bundles import MESSAGE_BYTES_MAX

DAEMONS, PEERS = "hop", "rmp"
SIZES: Final = (100, 1024, 8192, MESSAGE_BYTES_MAX)
RECEIVERS: Final = (3, 5)
SERVICES: Final = ("reliable", "fifo", "agreed", "safe")
DAEMONS_MAX: Final = 3
PROBE_BYTES: Final = 100


class BenchPeers:
    """Peers as a system under test: there are no servers, each worker has one."""

    name = "peers"
    members_send = False

    def __init__(self, host: str = "thread") -> None:
        """`host` says where the peers run: in a thread of each worker, or in its asyncio loop."""
        self._url = f"rmp:///bench-{os.getpid()}?host={host}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def servers(self) -> dict[str, int]:
        """There are no servers: all is in the workers."""
        return {}

    def command(self, task: WorkerTask) -> list[str]:
        """The command of a worker."""
        module = "hopring.bench.harness.worker"
        return [sys.executable, "-P", "-m", module, self._url, msgspec.json.encode(task).decode()]


class EngineCase(msgspec.Struct, frozen=True):
    """One row: a workload of both systems, and the figure that is compared."""

    name: str
    figure: str
    measure: Callable[[BenchSystem, str], Figures]


def cases(
    sizes: tuple[int, ...],
    receivers: tuple[int, ...],
    services: tuple[str, ...],
    seconds: float,
    probes: int,
    say: ReportStep,
) -> Iterator[EngineCase]:
    """The rows: throughput by size with the first number of receivers, by the others, and round trips."""
    floods = [(size, receivers[0]) for size in sizes] + [(1024, count) for count in receivers[1:]]
    for size, count in floods:
        workload = BenchWorkload(size_bytes=size, receivers=count, seconds=seconds)
        yield EngineCase(f"1 sender, {count} receivers, {size} B", "messages_per_second", _flood(workload, say))
    for service in services:
        workload = BenchWorkload(size_bytes=PROBE_BYTES, service=service, receivers=1)
        yield EngineCase(f"round trip of two, {service}", "p50_us", _ping(workload, probes, say))


def _flood(workload: BenchWorkload, say: ReportStep) -> Callable[[BenchSystem, str], Figures]:
    def measure(system: BenchSystem, group: str) -> Figures:
        figures: Figures = msgspec.to_builtins(measure_throughput(system, workload, group, say=say))
        return figures

    return measure


def _ping(workload: BenchWorkload, probes: int, say: ReportStep) -> Callable[[BenchSystem, str], Figures]:
    def measure(system: BenchSystem, group: str) -> Figures:
        trip = measure_latency(system, workload, ProbeOptions(probes), group, say)
        figures: Figures = msgspec.to_builtins(trip)
        return figures

    return measure


def compared(case: EngineCase, results: dict[str, list[Figures]]) -> Figures:
    """The medians of both systems, how they relate, and whether anything was lost or reordered."""
    row: Figures = {"case": case.name, "figure": case.figure}
    for system, some in results.items():
        row[system] = median([one[case.figure] for one in some])
        if "all_cpu_us_per_message" in some[0]:
            row[f"{system}_cpu_us"] = median([one["all_cpu_us_per_message"] for one in some])
    row["ratio"] = round(row[PEERS] / row[DAEMONS], 2) if row[DAEMONS] else 0.0
    every = [one for some in results.values() for one in some]
    row["lost"] = sum([one.get("lost", 0) for one in every])
    row["order_ok"] = all(one.get("order_ok", True) for one in every)
    row["others_cpu_share"] = max([one.get("others_cpu_share", 0.0) for one in every])
    return row


@click.command()
@click.option(
    "--size",
    "sizes",
    metavar="BYTES",
    type=click.IntRange(4, MESSAGE_BYTES_MAX),
    multiple=True,
    help="Sizes of messages.  [default: 100, 1024, 8192 and the largest]",
)
@click.option(
    "--receivers",
    type=click.IntRange(1, 8),
    multiple=True,
    help="Numbers of receivers; sizes are measured with the first.  [default: 3, 5]",
)
@click.option(
    "--service",
    "services",
    type=click.Choice(SERVICES),
    multiple=True,
    help="Services of round trips.  [default: all]",
)
@click.option("--probes", type=click.IntRange(100), default=1000, show_default=True, help="Probes in each run.")
@click.option(
    "--host",
    type=click.Choice(["thread", "loop"]),
    default="thread",
    show_default=True,
    help="Where peers run: in a thread of their program, or in its loop.",
)
@seconds_option(2.0)
@runs_option
@json_option
@click.pass_context
def engines(
    context: click.Context,
    /,
    sizes: tuple[int, ...],
    receivers: tuple[int, ...],
    services: tuple[str, ...],
    probes: int,
    host: str,
    seconds: float,
    runs: int,
    as_json: bool,
) -> None:
    """Daemons and peers beside each other.

    One sender and three or five receivers, in messages a second that reach the slowest; and round trips of two
    members for each service. Figures are medians of the runs; with --json there is one line for each case. If
    other processes take more than a tenth of the machine, the figures say little. Exit code 1 means that a
    message was lost or reordered.
    """
    wrong = False
    with Steps(plain=True) as steps:
        rows = cases(sizes or SIZES, receivers or RECEIVERS, services or SERVICES, seconds, probes, steps.say)
        with BenchDaemons(sites_of(DAEMONS_MAX, 1), say=steps.say) as daemons, BenchPeers(host) as peers:
            for number, case in enumerate(rows):
                results: dict[str, list[Figures]] = {DAEMONS: [], PEERS: []}
                for run in range(runs):
                    say = with_run_number(steps.say, run, runs)
                    for name, system in ((DAEMONS, daemons), (PEERS, peers)):
                        say(f"{name}: {case.name}")
                        results[name].append(case.measure(system, f"case{number}-{run}"))
                row = compared(case, results)
                wrong = wrong or bool(row["lost"]) or not row["order_ok"]
                click.echo(json.dumps(row) if as_json else _text(row))
    if wrong:
        context.exit(Exit.FAILURE)


def _text(row: Figures) -> str:
    unit = "us" if row["figure"] == "p50_us" else "messages/s"
    cpu = ""
    if f"{PEERS}_cpu_us" in row:
        cpu = f"; CPU us per message {row[f'{DAEMONS}_cpu_us']:.2f} and {row[f'{PEERS}_cpu_us']:.2f}"
    verdict = "" if not row["lost"] and row["order_ok"] else f"; lost {row['lost']}, order {row['order_ok']}"
    both = f"hop {row[DAEMONS]:,.0f}, rmp {row[PEERS]:,.0f} {unit}, ratio {row['ratio']:.2f}"
    return f"{row['case']}: {both}{cpu}; others took {row['others_cpu_share']:.0%}{verdict}"
