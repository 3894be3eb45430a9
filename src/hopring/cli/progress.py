"""Progress on stderr: a line that is redrawn on a terminal; elsewhere plain lines, where these are wanted.

`rich` is slow to import, so commands without progress do not import this module.
"""

import os
import sys
import time
from types import TracebackType
from typing import Final, Self

from rich import progress as rich
from rich.console import Console
from rich.markup import escape

from hopring.printable import printable

BAR_WIDTH: Final = 24
PLAIN_EVERY_SECONDS: Final = 5.0
"""Between two plain lines about one amount."""


class ProgressLine:
    """A context manager, so that the terminal gets its cursor back."""

    def __init__(self, *columns: rich.ProgressColumn, auto_refresh: bool = True) -> None:
        """The columns follow a spinner and the name of the task."""
        self._err = Console(stderr=True, highlight=False, soft_wrap=True)
        self.live = self._err.is_terminal and not self._err.is_dumb_terminal and "NO_COLOR" not in os.environ
        self._line = rich.Progress(
            rich.SpinnerColumn(style="cyan"),
            rich.TextColumn("{task.description}"),
            rich.BarColumn(bar_width=BAR_WIDTH, style="dim", complete_style="cyan", pulse_style="cyan"),
            *columns,
            console=self._err,
            transient=True,
            auto_refresh=auto_refresh,
            refresh_per_second=4,
            # Results that go to a file or a pipe must not be drawn on the terminal instead.
            redirect_stdout=sys.stdout.isatty(),
            disable=not self.live,
        )

    def __enter__(self) -> Self:
        self._line.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self._line.stop()

    def plain(self, text: str) -> None:
        """Prints a line of its own where no line is redrawn."""
        if not self.live:
            self._err.print(printable(f"hop: {text}"), markup=False)


class Steps(ProgressLine):
    """One step after the other, each of unknown duration."""

    def __init__(self, *, plain: bool = False) -> None:
        """With `plain`, each step is a line of its own where no line is redrawn."""
        super().__init__(rich.TimeElapsedColumn())
        self._plain = plain
        self._task: rich.TaskID | None = None

    def say(self, step: str) -> None:
        """Begins the next step and shows its text."""
        if self._task is None:
            self._task = self._line.add_task("", total=None)
        self._line.update(self._task, description=escape(printable(step)), refresh=True)
        if self._plain:
            self.plain(step)


class Amounts(ProgressLine):
    """Bytes and records done of a known total, and the rate."""

    def __init__(self, task: str, total_bytes: int, plain_every_s: float = PLAIN_EVERY_SECONDS) -> None:
        # It is drawn when something is done: a thread of its own would take time from the work.
        super().__init__(rich.TextColumn("[dim]{task.fields[words]}[/dim]"), auto_refresh=False)
        self._name = task
        self._total_bytes = total_bytes
        self._bytes = 0
        self._records = 0
        self._began_s = self._drawn_s = self._said_s = time.monotonic()
        self._plain_every_s = plain_every_s
        self._task = self._line.add_task(task, total=total_bytes, words=self._words(0.0))

    def done(self, some_bytes: int, records: int) -> None:
        """Adds to the bytes and records done."""
        self._bytes += some_bytes
        self._records += records
        now_s = time.monotonic()
        words = self._words(now_s - self._began_s)
        if self.live and (now_s - self._drawn_s > 0.1 or self._bytes >= self._total_bytes):
            self._drawn_s = now_s
            self._line.update(self._task, completed=self._bytes, words=words, refresh=True)
        if now_s - self._said_s >= self._plain_every_s:
            self._said_s = now_s
            self.plain(f"{self._name}: {words}")

    def _words(self, seconds: float) -> str:
        rate = f", {self._bytes / seconds / 1e6:,.0f} MB/s" if seconds > 0 else ""
        amount = f"{self._bytes / 1e6:,.1f} of {self._total_bytes / 1e6:,.1f} MB"
        return f"{amount}, {self._records:,} records{rate}"
