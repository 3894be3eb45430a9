"""Waits on a real loop for a condition, never for a fixed time."""

from collections.abc import Callable

from hopring.daemon.loop.event_loop import Loop
from hopring.ids import NEVER

WAIT_US_MAX = 30_000_000


def run_until(loop: Loop, condition: Callable[[], bool], within_us: int = WAIT_US_MAX) -> None:
    """Turns the loop until the condition holds, and fails after a deadline."""

    def give_up() -> None:
        raise AssertionError(f"waited for {within_us // 1_000} ms in vain")

    late = loop.alarm(give_up)
    late.set(loop.now_us() + within_us)
    while not condition():
        loop.turn()
    late.set(NEVER)
