"""Failover: a daemon is killed under load; when do the others' clients have a new view, and messages again?"""

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from hopring.cli.bench import board as slots
from hopring.cli.bench.crew import READY_SECONDS, Crew, Say, unsaid
from hopring.cli.bench.daemons import Daemons
from hopring.cli.bench.job import Case, Job
from hopring.cli.bench.throughput import order_is_ok, set_board, start_flood, stop_flood
from hopring.value import Value

VIEW_SECONDS_MAX: Final = 30.0


class Failover(Value, frozen=True):
    """What one crash has shown, at the slowest of the clients at daemons that live on."""

    view_ms: float  # From the kill to the group's new view.
    resumed_ms: float  # From the kill to the first message in it.
    rejoined_ms: float  # From the start of the daemon's next life to a view of all.
    lost: int
    order_ok: bool
    sent: int


def measure_failover(daemons: Daemons, case: Case, group: str, say: Say = unsaid) -> Failover:
    """Kills the last daemon, at which a member is, and starts it again in the end."""
    victim = daemons.names[-1]
    case = case.but(receivers=len(daemons.names) - 1)
    with TemporaryDirectory(prefix="hop-bench-") as name, Crew(daemons, Path(name)) as crew:
        file = Path(name) / "board"
        board = set_board(file, case)
        job = Job("receive", case.receivers, str(file), group, case, watch=True)
        crew.start(job)  # Of the victim; nobody counts what it gets.
        ready = slots.RECEIVER_READY + case.receivers
        crew.wait(lambda: bool(board[ready]), READY_SECONDS, "the receiver at the victim is not ready")
        start_flood(crew, daemons, board, job, say)
        time.sleep(case.warm_seconds)
        say(f"killing {victim}; waiting for the new view and messages in it")
        board[slots.FAULT_AT] = time.monotonic_ns()
        daemons.kill(victim)
        resumed = slice(slots.RESUMED_AT, slots.RESUMED_AT + case.receivers)
        crew.wait(lambda: all(board[resumed]), VIEW_SECONDS_MAX, "no messages in a new view")
        time.sleep(case.seconds)
        sent, lost = stop_flood(crew, board)
        order_ok = order_is_ok(board, sent)
        views = slice(slots.VIEW_AT, slots.VIEW_AT + case.receivers)
        view_ns, resumed_ns = max(board[views]), max(board[resumed])
        fault_ns = board[slots.FAULT_AT]
    say(f"starting {victim} again")
    begin = time.monotonic()
    daemons.start(victim)
    daemons.wait()
    rejoined_s = time.monotonic() - begin
    return Failover(
        view_ms=round((view_ns - fault_ns) / 1e6, 1),
        resumed_ms=round((resumed_ns - fault_ns) / 1e6, 1),
        rejoined_ms=round(rejoined_s * 1000, 1),
        lost=lost,
        order_ok=order_ok,
        sent=sent,
    )
