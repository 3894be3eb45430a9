"""Waits for a condition with a deadline: tests never wait for a fixed time."""

import asyncio
import time
from collections.abc import Callable
from typing import Final

SECONDS_MAX: Final = 120.0
LOOK_SECONDS: Final = 0.01


def until(
    condition: Callable[[], object],
    what: Callable[[], object] = lambda: "",
    seconds: float = SECONDS_MAX,
    look_seconds: float = LOOK_SECONDS,
) -> None:
    """Waits for a condition; fails at the deadline with the text that `what` returns."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited {seconds:g} s in vain: {what()}"
        time.sleep(look_seconds)


async def comes(
    condition: Callable[[], object],
    what: Callable[[], object] = lambda: "",
    seconds: float = SECONDS_MAX,
    look_seconds: float = LOOK_SECONDS,
) -> None:
    """Waits for a condition, in an event loop."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited {seconds:g} s in vain: {what()}"
        await asyncio.sleep(look_seconds)
