"""`hop bench throughput`: messages per second that reach the slowest receiver, none lost or reordered."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Final

import click
import msgspec

from hopring.bench.harness.daemons import (
    BenchDaemons,
    clients_in_clear_and_by_tls,
    in_clear_and_sealed,
    sites_of,
)
from hopring.bench.harness.figures import (
    SEALED,
    TLS,
    Figures,
    both_columns,
    both_columns_text,
    spread_percent,
    summary,
)
from hopring.bench.harness.processes import (
    READY_SECONDS,
    BenchSystem,
    CpuReading,
    ReportStep,
    WorkerProcesses,
    no_progress,
    others_share,
    read_cpu,
    with_run_number,
)
from hopring.bench.harness.workload import (
    BURST,
    CLIENTS_MAX,
    GO,
    ORDER,
    RECEIVED,
    RECEIVER_READY,
    RECEIVERS,
    SENDER_READY,
    SENDERS,
    SENT,
    SIZE,
    STOP,
    WINDOW,
    BenchWorkload,
    Counters,
    WorkerTask,
    create_counters,
    order_checksum,
)
from hopring.bench.options import (
    receivers_option,
    runs_option,
    sealed_option,
    seconds_option,
    size_option,
    tls_option,
    topology_options,
)
from hopring.cli.daemon_session import json_option, service_option
from hopring.cli.progress import Steps
from hopring.cli.terminal import Exit

DRAIN_SECONDS: Final = 20.0
SETTLE_SECONDS: Final = 0.2
"""Wait after the last message, for duplicates."""


class ThroughputResult(msgspec.Struct, frozen=True):
    """The figures of one run."""

    messages_per_second: float
    megabytes_per_second: float
    lost: int
    order_ok: bool
    daemon_cpu_us_per_message: dict[str, float]
    sender_cpu_us_per_message: float  # The mean of all senders; likewise below.
    receiver_cpu_us_per_message: float
    all_cpu_us_per_message: float  # Of all daemons and clients together.
    sent: int
    others_cpu_share: float  # CPU share of other processes; above a tenth, do not trust the rate.


def counters_for(file: Path, workload: BenchWorkload) -> Counters:
    """Shared counters for this workload."""
    counters = create_counters(file)
    counters[WINDOW], counters[BURST] = workload.in_flight, workload.at_once
    counters[SIZE] = workload.size_bytes
    counters[SENDERS], counters[RECEIVERS] = workload.senders, workload.receivers
    return counters


def start_flood(
    workers: WorkerProcesses,
    system: BenchSystem,
    counters: Counters,
    task: WorkerTask,
    say: ReportStep = no_progress,
) -> None:
    """Starts receivers and senders; lets them go when all are ready."""
    workload = task.workload
    say(f"starting receivers ({workload.receivers}) and senders ({workload.senders})")
    for number in range(workload.receivers):
        workers.start(msgspec.structs.replace(task, role="receive", number=number))
    ready = RECEIVER_READY
    workers.wait(
        lambda: all(counters[ready : ready + workload.receivers]), READY_SECONDS, "receivers are not ready"
    )
    if not system.members_send:
        for number in range(workload.senders):
            workers.start(msgspec.structs.replace(task, role="send", number=number))
        at = SENDER_READY
        workers.wait(lambda: all(counters[at : at + workload.senders]), READY_SECONDS, "senders are not ready")
    counters[GO] = 1


def stop_flood(workers: WorkerProcesses, counters: Counters) -> tuple[int, int]:
    """Stops senders and waits for receivers; returns the numbers of messages sent and lost."""
    counters[STOP] = 1
    end = time.monotonic() + DRAIN_SECONDS
    receivers = slice(RECEIVED, RECEIVED + counters[RECEIVERS])
    sent = 0
    while time.monotonic() < end:
        sent_before, sent = sent, sum(counters[SENT : SENT + CLIENTS_MAX])
        time.sleep(SETTLE_SECONDS)
        workers.check()
        if sent == sent_before and min(counters[receivers]) >= sent:
            break
    return sent, sent - min(counters[receivers])


def order_is_ok(counters: Counters, sent: int) -> bool:
    """Whether all receivers saw the same order; of a single sender, exactly its own."""
    count = counters[RECEIVERS]
    orders = set(counters[ORDER : ORDER + count])
    received = set(counters[RECEIVED : RECEIVED + count])
    if counters[SENDERS] == 1:
        return orders == {order_checksum(sent)}
    return len(orders) == 1 and received == {sent}


def measure_throughput(
    system: BenchSystem,
    workload: BenchWorkload,
    group: str,
    meanwhile: Callable[[float], object] = time.sleep,
    say: ReportStep = no_progress,
) -> ThroughputResult:
    """Measures one run on running servers; `group` must be a new name.

    `meanwhile` is called with the seconds to measure, and returns after them.
    """
    with TemporaryDirectory(prefix="hop-bench-") as name, WorkerProcesses(system, Path(name)) as workers:
        file = Path(name) / "counters"
        counters = counters_for(file, workload)
        start_flood(workers, system, counters, WorkerTask("", 0, str(file), group, workload), say)
        say(f"warming up for {workload.warm_seconds:g} s")
        time.sleep(workload.warm_seconds)
        workers.check()
        pids = {**workers.pids(), **system.servers()}
        receivers = slice(RECEIVED, RECEIVED + workload.receivers)
        before, had = read_cpu(pids), list(counters[receivers])
        say(f"measuring for {workload.seconds:g} s")
        meanwhile(workload.seconds)
        after, has = read_cpu(pids), list(counters[receivers])
        say("waiting for the last messages")
        sent, lost = stop_flood(workers, counters)
        got = min([one - other for one, other in zip(has, had, strict=True)])
        return _result(system, workload, counters, before, after, got, (sent, lost))


def _result(
    system: BenchSystem,
    workload: BenchWorkload,
    counters: Counters,
    before: CpuReading,
    after: CpuReading,
    got: int,
    ends: tuple[int, int],
) -> ThroughputResult:
    sent, lost = ends
    rate = got / (after.at_s - before.at_s)

    def each_us(name: str) -> float:
        return round((after.taken_s[name] - before.taken_s[name]) * 1e6 / max(1, got), 3)

    def mean_us(role: str) -> float:
        return round(fmean([each_us(name) for name in after.taken_s if name.startswith(role)] or [0.0]), 3)

    return ThroughputResult(
        messages_per_second=round(rate, 1),
        megabytes_per_second=round(rate * workload.size_bytes / 1e6, 2),
        lost=lost,
        order_ok=order_is_ok(counters, sent),
        daemon_cpu_us_per_message={name: each_us(name) for name in system.servers()},
        sender_cpu_us_per_message=mean_us("send"),
        receiver_cpu_us_per_message=mean_us("receive"),
        all_cpu_us_per_message=round(sum([each_us(name) for name in after.taken_s]), 3),
        sent=sent,
        others_cpu_share=others_share(before, after, os.cpu_count() or 1),
    )


@click.command()
@topology_options
@receivers_option(3)
@size_option(1024)
@service_option
@click.option("--senders", type=click.IntRange(1, 8), default=1, show_default=True, help="Sending processes.")
@click.option(
    "--groups",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="Number of groups; messages go to them in turn.",
)
@click.option("--single", is_flag=True, help="Write each message alone, so that no bundle has two.")
@click.option("--each", is_flag=True, help="Receive one message at a time instead of batches.")
@click.option(
    "--bundle",
    type=click.IntRange(0, 4096),
    default=0,
    help="Messages in one `multicast_many`.  [default: as many as make 62 KB]",
)
@click.option("--by-one", is_flag=True, help="Send each message with a `multicast` of its own.")
@click.option(
    "--window", type=click.IntRange(0), default=0, help="Messages in flight.  [default: 4 MiB, within limits]"
)
@seconds_option(2.0)
@runs_option
@sealed_option
@tls_option
@json_option
@click.pass_context
def throughput(
    context: click.Context,
    /,
    daemons: int,
    sites: int,
    runs: int,
    sealed: bool,
    tls: bool,
    as_json: bool,
    **wishes: object,
) -> None:
    """Messages per second that reach the slowest receiver.

    Senders send as fast as they can. The command checks that nothing is lost and that all receive in one order.
    Each daemon and client is a process on this machine. Exit code 1 means that a message was lost or reordered.
    """
    workload = msgspec.convert(wishes, BenchWorkload)
    if workload.bundle and not workload.many:
        raise click.UsageError("many at once go to one group: --bundle is not for --single, --by-one, --groups")
    if sealed and tls:
        raise click.UsageError(
            "choose one of --sealed and --tls; with --tls datagrams are sealed in both columns"
        )
    shape = sites_of(daemons, min(sites, daemons))

    def measure(system: BenchDaemons, number: int, say: ReportStep) -> Figures:
        result: Figures = msgspec.to_builtins(measure_throughput(system, workload, f"flood{number}", say=say))
        return result

    with Steps(plain=True) as steps:
        if sealed or tls:
            both = (clients_in_clear_and_by_tls if tls else in_clear_and_sealed)(
                shape, runs, steps.say, lambda system, number: measure(system, number, steps.say)
            )
        else:
            with BenchDaemons(shape, say=steps.say) as system:
                results = [measure(system, one, with_run_number(steps.say, one, runs)) for one in range(runs)]
    figures: Figures = {
        "bench": "throughput",
        "daemons": daemons,
        "sites": sites,
        **msgspec.to_builtins(workload),
    }
    if sealed or tls:
        clear, encrypted = [summary(some) for some in both.values()]
        kind = TLS if tls else SEALED
        figures |= both_columns(clear, encrypted, kind=kind)
        click.echo(json.dumps(figures) if as_json else both_columns_text(figures, kind))
        if any(figures[kind]["lost"] or not figures[kind]["order_ok"] for kind in both):
            context.exit(Exit.FAILURE)
        return
    figures |= summary(results)
    rates = [one["messages_per_second"] for one in results]
    figures |= {"spread_percent": spread_percent(rates), "runs": rates}
    click.echo(json.dumps(figures) if as_json else _text(figures))
    if figures["lost"] or not figures["order_ok"]:
        context.exit(Exit.FAILURE)


def _text(figures: Figures) -> str:
    order = "ok" if figures["order_ok"] else "WRONG"
    cpu = " ".join([f"{name} {one:.2f}" for name, one in figures["daemon_cpu_us_per_message"].items()])
    return "\n".join(
        [
            f"{figures['messages_per_second']:,.0f} messages/s of {figures['size_bytes']} B, "
            f"{figures['service']}: {figures['megabytes_per_second']:,.1f} MB/s, "
            f"spread {figures['spread_percent']} %",
            f"lost {figures['lost']} of {figures['sent']:,.0f}, order {order}",
            f"CPU us per message: daemons {cpu}, sender {figures['sender_cpu_us_per_message']:.2f}, "
            f"each receiver {figures['receiver_cpu_us_per_message']:.2f}; "
            f"others took {figures['others_cpu_share']:.0%} of the machine",
        ]
    )
