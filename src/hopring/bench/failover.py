"""`hop bench failover`: how long a killed daemon holds up the clients of the others."""

import json
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import click
import msgspec

from hopring.bench.harness.daemons import BenchDaemons, sites_of
from hopring.bench.harness.figures import Figures, summary
from hopring.bench.harness.processes import (
    READY_SECONDS,
    ReportStep,
    WorkerProcesses,
    no_progress,
    with_run_number,
)
from hopring.bench.harness.workload import (
    FAULT_AT,
    RECEIVER_READY,
    RESUMED_AT,
    VIEW_AT,
    BenchWorkload,
    WorkerTask,
)
from hopring.bench.options import runs_option, seconds_option, size_option
from hopring.bench.throughput import counters_for, order_is_ok, start_flood, stop_flood
from hopring.cli.daemon_session import json_option, service_option
from hopring.cli.progress import Steps
from hopring.cli.terminal import Exit

VIEW_SECONDS_MAX: Final = 30.0


class FailoverResult(msgspec.Struct, frozen=True):
    """The result of one crash, at the slowest client of the surviving daemons."""

    view_ms: float  # From the kill to the group's new view.
    resumed_ms: float  # From the kill to the first message in it.
    rejoined_ms: float  # From the restart of the daemon to a view of all.
    lost: int
    order_ok: bool
    sent: int


def measure_failover(
    daemons: BenchDaemons, workload: BenchWorkload, group: str, say: ReportStep = no_progress
) -> FailoverResult:
    """Kills the last daemon, which has a member, and restarts it at the end."""
    victim = daemons.names[-1]
    workload = msgspec.structs.replace(workload, receivers=len(daemons.names) - 1)
    with TemporaryDirectory(prefix="hop-bench-") as name, WorkerProcesses(daemons, Path(name)) as workers:
        file = Path(name) / "counters"
        counters = counters_for(file, workload)
        task = WorkerTask("receive", workload.receivers, str(file), group, workload, watch_views=True)
        workers.start(task)  # A member at the victim; its messages are not counted.
        ready = RECEIVER_READY + workload.receivers
        workers.wait(lambda: bool(counters[ready]), READY_SECONDS, "the receiver at the victim is not ready")
        start_flood(workers, daemons, counters, task, say)
        time.sleep(workload.warm_seconds)
        say(f"killing {victim}; waiting for the new view and messages in it")
        counters[FAULT_AT] = time.monotonic_ns()
        daemons.kill(victim)
        resumed = slice(RESUMED_AT, RESUMED_AT + workload.receivers)
        workers.wait(lambda: all(counters[resumed]), VIEW_SECONDS_MAX, "no messages in a new view")
        time.sleep(workload.seconds)
        sent, lost = stop_flood(workers, counters)
        order_ok = order_is_ok(counters, sent)
        views = slice(VIEW_AT, VIEW_AT + workload.receivers)
        view_ns, resumed_ns = max(counters[views]), max(counters[resumed])
        fault_ns = counters[FAULT_AT]
    say(f"starting {victim} again")
    begin = time.monotonic()
    daemons.start(victim)
    daemons.wait()
    rejoined_s = time.monotonic() - begin
    return FailoverResult(
        view_ms=round((view_ns - fault_ns) / 1e6, 1),
        resumed_ms=round((resumed_ns - fault_ns) / 1e6, 1),
        rejoined_ms=round(rejoined_s * 1000, 1),
        lost=lost,
        order_ok=order_ok,
        sent=sent,
    )


@click.command()
@click.option("--daemons", type=click.IntRange(2, 8), default=3, show_default=True, help="Number of daemons.")
@click.option("--sites", type=click.IntRange(1, 8), default=1, show_default=True, help="Number of sites.")
@size_option(1024)
@service_option
@click.option(
    "--load",
    "pace_per_second",
    type=click.IntRange(0),
    default=2000,
    show_default=True,
    help="Messages a second; 0 is as fast as possible.",
)
@seconds_option(0.5)
@runs_option
@json_option
@click.pass_context
def failover(
    context: click.Context, /, daemons: int, sites: int, runs: int, as_json: bool, **wishes: object
) -> None:
    """Time to a new view after a daemon is killed under load.

    The daemon is killed with SIGKILL; no message of the other daemons' clients may be lost. All figures are
    those of the slowest client at a surviving daemon. Then the daemon is restarted, and the time from the start
    of its process to a view of all is measured. Exit code 1 means that a message was lost or reordered.
    """
    workload = msgspec.convert(wishes, BenchWorkload)
    with (
        Steps(plain=True) as steps,
        BenchDaemons(sites_of(daemons, min(sites, daemons)), say=steps.say) as system,
    ):
        results = []
        for number in range(runs):
            say = with_run_number(steps.say, number, runs)
            results.append(msgspec.to_builtins(measure_failover(system, workload, f"fault{number}", say)))
    figures: Figures = {
        "bench": "failover",
        "daemons": daemons,
        "sites": sites,
        **msgspec.to_builtins(workload),
    }
    figures |= summary(results) | {"runs": results}
    click.echo(json.dumps(figures) if as_json else _text(figures))
    if figures["lost"] or not figures["order_ok"]:
        context.exit(Exit.FAILURE)


def _text(figures: Figures) -> str:
    order = "ok" if figures["order_ok"] else "WRONG"
    return "\n".join(
        [
            f"new view at all clients after {figures['view_ms']:,.0f} ms, "
            f"messages again after {figures['resumed_ms']:,.0f} ms",
            f"lost {figures['lost']} of {figures['sent']:,.0f}, order {order}",
            f"the daemon started again: in a view of all after {figures['rejoined_ms']:,.0f} ms",
        ]
    )
