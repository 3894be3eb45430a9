"""The monitor on a terminal: a live table, and below it a command line."""

import os
import select
import sys
import termios
import time
import tty
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from hopring.cli.exits import Failure
from hopring.cli.monitor.actions import in_force, show_sides
from hopring.cli.monitor.admin_client import AdminClient, Fleet
from hopring.cli.monitor.screen_commands import Quit, ScreenCommands
from hopring.cli.monitor.table import HEADS, RIGHT, StatusCounters, counts_of, heads_that_fit, rates, row_of

LOOK_SECONDS: Final = 1.0
KEY_SECONDS: Final = 0.1
SAID_LINES: Final = 12
LINE_CHARACTERS_MAX: Final = 500
_READ_BYTES: Final = 1024


class MonitorScreen:
    """Asks daemons in a thread of its own, so that a silent daemon does not block typing."""

    def __init__(self, admin: AdminClient, console: Console | None = None) -> None:
        self._channels = admin
        self._console = console or Console(highlight=False)
        self._waiter = ThreadPoolExecutor(1)  # For orders that wait for views.
        self._waits: list[Future[list[str]]] = []
        self._orders = ScreenCommands(admin, lambda deed: self._waits.append(self._waiter.submit(deed)))
        self._said: deque[str] = deque(["type help for what can be done here"], maxlen=SAID_LINES)
        self._line = ""
        self._sight: Fleet | None = None
        self._problem = ""
        self._before: dict[str, StatusCounters] = {}
        self._rows: list[list[str]] = []

    def run(self) -> None:
        """Runs until `quit`, Ctrl-C or Ctrl-D."""
        with (
            _keys(sys.stdin.fileno()),
            self._waiter,
            ThreadPoolExecutor(1) as asker,
            Live(console=self._console, screen=True, auto_refresh=False) as live,
        ):
            try:
                self._loop(asker, live)
            finally:
                self._orders.closed = True

    def _loop(self, asker: ThreadPoolExecutor, live: Live) -> None:
        look: Future[Fleet] = asker.submit(self._channels.look)
        look_at = 0.0
        try:
            while True:
                live.update(self._render(), refresh=True)
                self._type(_read_keys(sys.stdin.fileno()))
                for one in [one for one in self._waits if one.done()]:
                    self._waits.remove(one)
                    self._said.extend(one.result())
                if look.done() and not look_at:
                    self._take(look)
                    look_at = time.monotonic() + LOOK_SECONDS
                elif look_at and time.monotonic() >= look_at:
                    look, look_at = asker.submit(self._channels.look), 0.0
        except (Quit, KeyboardInterrupt):
            return

    def _take(self, look: Future[Fleet]) -> None:
        try:
            self._sight, self._problem = look.result(), ""
        except Failure as error:
            self._sight, self._problem = None, error.format_message()
            return
        now, self._rows = time.monotonic(), []
        for one in self._sight.seen:
            counts = counts_of(one.status, now)
            self._rows.append(row_of(one.status, rates(counts, self._before.get(one.name))))
            self._before[one.name] = counts

    def _type(self, keys: str) -> None:
        for key in keys:
            if key in "\r\n":
                line, self._line = self._line, ""
                self._said.append(f"> {line}")
                self._said.extend(self._orders.obey(line))
            elif key in "\x7f\b":
                self._line = self._line[:-1]
            elif key == "\x15":  # Ctrl-U
                self._line = ""
            elif key == "\x04":  # Ctrl-D
                raise Quit
            elif key.isprintable() and len(self._line) < LINE_CHARACTERS_MAX:
                self._line += key

    def _render(self) -> RenderableType:
        table = Table(box=None, pad_edge=False)
        rows = self._rows if self._sight is not None else []
        heads = heads_that_fit(rows, self._console.width)
        for head in heads:
            table.add_column(head, justify="right" if head in RIGHT else "left", no_wrap=True)
        for row in rows:
            cells = dict(zip(HEADS, row, strict=True))
            table.add_row(*[cells[head] for head in heads], style=None if cells["STATE"] == "OP" else "yellow")
        parts: list[RenderableType] = [table, Text()]
        if self._sight is None:
            parts.append(Text(self._problem or "asking ...", style="dim"))
        else:
            parts.extend(self._remarks(self._sight))
        parts += [Text(line, style="dim") for line in self._said]
        parts.append(Text(f"> {self._line}▏", style="bold"))
        return Group(*parts)

    def _remarks(self, fleet: Fleet) -> Iterator[Text]:
        sides = in_force(fleet)
        if len(sides) > 1:
            yield Text(f"partition: {show_sides(sides)}", style="bold red")
        for path, why in fleet.unheard:
            yield Text(f"{path}: {why}", style="yellow")
        if fleet.missing:
            yield Text(f"cannot be asked from here: {', '.join(fleet.missing)}", style="yellow")


@contextmanager
def _keys(fd: int) -> Iterator[None]:
    """Delivers keys as they are pressed; restores the terminal at the end."""
    before = termios.tcgetattr(fd)
    tty.setcbreak(fd)
    try:
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


def _read_keys(fd: int) -> str:
    """The keys typed since the last call; cursor keys are ignored."""
    if not select.select([fd], [], [], KEY_SECONDS)[0]:
        return ""
    typed = os.read(fd, _READ_BYTES)
    if not typed:
        raise Quit
    text = typed.decode(errors="ignore")
    return "" if text.startswith("\x1b") else text
