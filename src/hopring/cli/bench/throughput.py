"""Throughput: senders flood, and what the slowest receiver gets counts, with nothing lost or swapped."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Final

from hopring.cli.bench import board as slots
from hopring.cli.bench.board import Slots
from hopring.cli.bench.clock import Reading, others_share, read
from hopring.cli.bench.crew import READY_SECONDS, Crew, Say, System, unsaid
from hopring.cli.bench.job import Case, Job
from hopring.value import Value

DRAIN_SECONDS: Final = 20.0
SETTLE_SECONDS: Final = 0.2
"""After the last message, for one too many."""


class Throughput(Value, frozen=True):
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
        crew.start(job.but(role="receive", number=number))
    ready = slots.RECEIVER_READY
    crew.wait(lambda: all(board[ready : ready + case.receivers]), READY_SECONDS, "receivers are not ready")
    if not system.members_send:
        for number in range(case.senders):
            crew.start(job.but(role="send", number=number))
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
