"""A line on stderr that tells how far something is: it moves on a terminal, and is not there elsewhere."""

import os
from types import TracebackType
from typing import Final, Self

from rich import progress as rich
from rich.console import Console

BAR_WIDTH: Final = 24


class ProgressLine:
    """Use it as a context manager, so that the terminal gets its cursor back."""

    def __init__(self, *columns: rich.ProgressColumn, auto_refresh: bool = True) -> None:
        """These columns stand behind a spinner and the name of the task."""
        self._err = Console(stderr=True, highlight=False, soft_wrap=True)
        live = self._err.is_terminal and not self._err.is_dumb_terminal and "NO_COLOR" not in os.environ
        self._line = rich.Progress(
            rich.SpinnerColumn(style="cyan"),
            rich.TextColumn("{task.description}"),
            rich.BarColumn(bar_width=BAR_WIDTH, style="dim", complete_style="cyan", pulse_style="cyan"),
            *columns,
            console=self._err,
            transient=True,
            auto_refresh=auto_refresh,
            refresh_per_second=4,
            disable=not live,
        )

    def __enter__(self) -> Self:
        self._line.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self._line.stop()
