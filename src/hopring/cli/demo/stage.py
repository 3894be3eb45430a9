"""The stage: results on stdout as they come, and on stderr one line that says what is going on.

The line moves only on a terminal, and not with NO_COLOR; elsewhere each step is announced once. It is gone
before anything is printed, so the two never get in each other's way.
"""

import os
from types import TracebackType
from typing import Self

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn


class Stage:
    """Use it as a context manager, so that the terminal gets its cursor back."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet  # Results are somebody else's business.
        self._out = Console(highlight=False, soft_wrap=True)
        self._err = Console(highlight=False, soft_wrap=True, stderr=True)
        self._live = self._err.is_terminal and not self._err.is_dumb_terminal and "NO_COLOR" not in os.environ
        self._line: Progress | None = None
        self._doing = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self._clear()

    def progress(self, doing: str, done: int = 0, total: int = 0) -> None:
        """Moves the line."""
        if not self._live:
            if doing != self._doing:
                self._err.print(f"{doing} ...")
            self._doing = doing
            return
        if self._line is None or doing != self._doing:
            self._begin(doing)
        assert self._line is not None, "just begun"
        count = f"{done} of {total} received" if total else ""
        self._line.update(self._line.task_ids[0], completed=done, total=total or None, count=count)
        self._line.refresh()

    def note(self, text: str) -> None:
        """Says something out of the ordinary."""
        self._clear()
        self._err.print(f"hop: {text}", style="yellow")

    def show(self, *results: RenderableType) -> None:
        """Prints results."""
        self._clear()
        if not self._quiet:
            for result in results:
                self._out.print(result)

    def _begin(self, doing: str) -> None:
        self._clear()
        self._doing = doing
        columns = (
            SpinnerColumn(style="cyan"),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24, style="dim", complete_style="cyan", pulse_style="cyan"),
            TextColumn("[dim]{task.fields[count]}[/dim]"),
        )
        self._line = Progress(*columns, console=self._err, transient=True, auto_refresh=False)
        self._line.start()
        self._line.add_task(doing, total=None, count="")

    def _clear(self) -> None:
        self._doing = ""
        if self._line is not None:
            self._line.stop()
            self._line = None
