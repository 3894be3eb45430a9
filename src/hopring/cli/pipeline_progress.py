"""How far a job is: a line on stderr with the present step and the time, on a terminal; silence elsewhere."""

import os
from types import TracebackType
from typing import Self

from rich import progress as rich
from rich.console import Console


class Steps:
    """Use it as a context manager, so that the terminal gets its cursor back."""

    def __init__(self) -> None:
        err = Console(stderr=True, highlight=False, soft_wrap=True)
        live = err.is_terminal and not err.is_dumb_terminal and "NO_COLOR" not in os.environ
        columns = (
            rich.SpinnerColumn(style="cyan"),
            rich.TextColumn("{task.description}"),
            rich.BarColumn(bar_width=24, style="dim", pulse_style="cyan"),
            rich.TimeElapsedColumn(),
        )
        self._line = rich.Progress(
            *columns, console=err, transient=True, refresh_per_second=4, disable=not live
        )
        self._task: rich.TaskID | None = None

    def __enter__(self) -> Self:
        self._line.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self._line.stop()

    def say(self, step: str) -> None:
        """What is done next."""
        if self._task is None:
            self._task = self._line.add_task(step, total=None)
        self._line.update(self._task, description=step)
