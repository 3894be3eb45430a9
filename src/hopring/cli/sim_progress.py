"""How far a campaign is: a line on stderr that moves on a terminal, and silence elsewhere."""

import os
from types import TracebackType
from typing import Self

from rich import progress as rich
from rich.console import Console

from hopring.sim.campaign.many import Report


class Progress:
    """Use it as a context manager, so that the terminal gets its cursor back."""

    def __init__(self, total: int | None) -> None:
        self._err = Console(stderr=True, highlight=False, soft_wrap=True)
        live = self._err.is_terminal and not self._err.is_dumb_terminal and "NO_COLOR" not in os.environ
        # It is drawn only when a world is done: a thread of its own would take time from the worlds.
        columns = (
            rich.SpinnerColumn(style="cyan"),
            rich.TextColumn("{task.description}"),
            rich.BarColumn(bar_width=24, style="dim", complete_style="cyan", pulse_style="cyan"),
            rich.TextColumn("[dim]{task.fields[words]}[/dim]"),
        )
        self._line = rich.Progress(
            *columns, console=self._err, transient=True, auto_refresh=False, disable=not live
        )
        self._task = self._line.add_task("worlds", total=total, words="")
        self._failed = 0

    def __enter__(self) -> Self:
        self._line.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self._line.stop()

    def done(self, report: Report) -> None:
        """A world is done; one that failed is named at once."""
        self._failed += report.failed
        if report.failed:
            self._err.print(f"seed {report.seed}: {report.broken[0].property}", style="red", markup=False)
        words = f"seed {report.seed}, {self._failed} failed"
        self._line.update(self._task, advance=1, words=words, refresh=True)

    def shrinking(self, runs: int, faults: int) -> None:
        """A smaller world is tried."""
        self._line.update(self._task, advance=1, words=f"run {runs}, {faults} faults left", refresh=True)

    def note(self, text: str) -> None:
        """Says something, below the line."""
        self._line.stop()
        self._err.print(f"hop: {text}", markup=False)
