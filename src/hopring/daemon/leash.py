"""A leash: a descriptor whose end is the daemon's end, such as a pipe from the program that started it."""

import os
from collections.abc import Callable
from typing import Final

from hopring.daemon.loop import Loop

STDIN: Final = 0
_READ_BYTES: Final = 4096


def end_with(loop: Loop, fd: int, leave: Callable[[], None]) -> None:
    """Calls `leave` once, when the descriptor comes to its end; what is written there is read and forgotten."""

    def look(_events: int) -> None:
        try:
            said = os.read(fd, _READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            said = b""  # A terminal that was hung up.
        if not said:
            loop.unregister(fd)
            leave()

    try:
        os.set_blocking(fd, False)
        loop.register(fd, look)
    except OSError:
        leave()  # Closed, or a file: it has an end, and that has come.
