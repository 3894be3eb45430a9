"""Throughput: senders flood, and what the slowest receiver gets counts, with nothing lost or swapped."""

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

from hopring.bench.harness import shared_counters as slots
from hopring.bench.harness.daemons import Daemons, sites_of
from hopring.bench.harness.figures import Figures, spread_percent, summary
from hopring.bench.harness.process_stats import Reading, others_share, read
from hopring.bench.harness.processes import READY_SECONDS, Crew, Say, System, of_runs, unsaid
from hopring.bench.harness.shared_counters import Slots
from hopring.bench.harness.workload import Case, Job
from hopring.bench.options import (
    receivers_option,
    runs_option,
    seconds_option,
    size_option,
    topology_options,
)
from hopring.cli.daemon_session import json_option, service_option
from hopring.cli.exits import Exit
from hopring.cli.progress import Steps

DRAIN_SECONDS: Final = 20.0
SETTLE_SECONDS: Final = 0.2
"""After the last message, for one too many."""


class Throughput(msgspec.Struct, frozen=True):
    """What one run has shown."""

    messages_per_second: float
    megabytes_per_second: float
    lost: int
    order_ok: bool
    daemon_cpu_us_per_message: dict[str, float]
    sender_cpu_us_per_message: float  # The mean of all senders; likewise below.
    receiver_cpu_us_per_message: float
    all_cpu_us_per_message: float  # Of all daemons and clients together.
    sent: int
    others_cpu_share: float  # What the machine did besides; above a tenth, do not trust the rate.


def set_board(file: Path, case: Case) -> Slots:
    """A board for this workload."""
    board = slots.make_board(file)
    board[slots.WINDOW], board[slots.BURST] = case.in_flight, case.at_once
    board[slots.SIZE] = case.size_bytes
    board[slots.SENDERS], board[slots.RECEIVERS] = case.senders, case.receivers
    return board


def start_flood(crew: Crew, system: System, board: Slots, job: Job, say: Say = unsaid) -> None:
    """Starts receivers and senders, and says go when all are ready."""
    case = job.case
    say(f"starting receivers ({case.receivers}) and senders ({case.senders})")
    for number in range(case.receivers):
        crew.start(msgspec.structs.replace(job, role="receive", number=number))
    ready = slots.RECEIVER_READY
    crew.wait(lambda: all(board[ready : ready + case.receivers]), READY_SECONDS, "receivers are not ready")
    if not system.members_send:
        for number in range(case.senders):
            crew.start(msgspec.structs.replace(job, role="send", number=number))
        at = slots.SENDER_READY
        crew.wait(lambda: all(board[at : at + case.senders]), READY_SECONDS, "senders are not ready")
    board[slots.GO] = 1


def stop_flood(crew: Crew, board: Slots) -> tuple[int, int]:
    """Stops senders and lets receivers have all; how much was sent, and how much of it is lost."""
    board[slots.STOP] = 1
    end = time.monotonic() + DRAIN_SECONDS
    receivers = slice(slots.RECEIVED, slots.RECEIVED + board[slots.RECEIVERS])
    sent = 0
    while time.monotonic() < end:
        sent_before, sent = sent, sum(board[slots.SENT : slots.SENT + slots.PLACES])
        time.sleep(SETTLE_SECONDS)
        crew.check()
        if sent == sent_before and min(board[receivers]) >= sent:
            break
    return sent, sent - min(board[receivers])


def order_is_ok(board: Slots, sent: int) -> bool:
    """Whether all receivers have seen the same; of one sender, just what it sent."""
    count = board[slots.RECEIVERS]
    orders = set(board[slots.ORDER : slots.ORDER + count])
    received = set(board[slots.RECEIVED : slots.RECEIVED + count])
    if board[slots.SENDERS] == 1:
        return orders == {slots.order_of_one(sent)}
    return len(orders) == 1 and received == {sent}


def measure_throughput(
    system: System,
    case: Case,
    group: str,
    meanwhile: Callable[[float], object] = time.sleep,
    say: Say = unsaid,
) -> Throughput:
    """One run, at servers that are there; `group` has not been used before.

    `meanwhile` is called with the seconds that are measured, and returns when they are over.
    """
    with TemporaryDirectory(prefix="hop-bench-") as name, Crew(system, Path(name)) as crew:
        file = Path(name) / "board"
        board = set_board(file, case)
        start_flood(crew, system, board, Job("", 0, str(file), group, case), say)
        say(f"warming up for {case.warm_seconds:g} s")
        time.sleep(case.warm_seconds)
        crew.check()
        pids = {**crew.pids(), **system.servers()}
        receivers = slice(slots.RECEIVED, slots.RECEIVED + case.receivers)
        before, had = read(pids), list(board[receivers])
        say(f"measuring for {case.seconds:g} s")
        meanwhile(case.seconds)
        after, has = read(pids), list(board[receivers])
        say("waiting for the last messages")
        sent, lost = stop_flood(crew, board)
        got = min([one - other for one, other in zip(has, had, strict=True)])
        return _result(system, case, board, before, after, got, (sent, lost))


def _result(
    system: System, case: Case, board: Slots, before: Reading, after: Reading, got: int, ends: tuple[int, int]
) -> Throughput:
    sent, lost = ends
    rate = got / (after.at_s - before.at_s)

    def each_us(name: str) -> float:
        return round((after.taken_s[name] - before.taken_s[name]) * 1e6 / max(1, got), 3)

    def mean_us(role: str) -> float:
        return round(fmean([each_us(name) for name in after.taken_s if name.startswith(role)] or [0.0]), 3)

    return Throughput(
        messages_per_second=round(rate, 1),
        megabytes_per_second=round(rate * case.size_bytes / 1e6, 2),
        lost=lost,
        order_ok=order_is_ok(board, sent),
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
@json_option
@click.pass_context
def throughput(
    context: click.Context, /, daemons: int, sites: int, runs: int, as_json: bool, **wishes: object
) -> None:
    """Messages per second that reach the slowest receiver.

    Senders send as fast as they can. It is checked that nothing is lost and that all receive in one order.
    Each daemon and client is a process on this machine. Exit code 1 means that a message was lost or swapped.
    """
    case = msgspec.convert(wishes, Case)
    if case.bundle and not case.many:
        raise click.UsageError("many at once go to one group: --bundle is not for --single, --by-one, --groups")
    with Steps(plain=True) as steps, Daemons(sites_of(daemons, min(sites, daemons)), say=steps.say) as system:
        results = []
        for number in range(runs):
            say = of_runs(steps.say, number, runs)
            results.append(msgspec.to_builtins(measure_throughput(system, case, f"flood{number}", say=say)))
    figures: Figures = {"bench": "throughput", "daemons": daemons, "sites": sites, **msgspec.to_builtins(case)}
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
