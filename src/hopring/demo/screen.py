"""Output while the demonstration runs: a line for each event, and on a terminal a live table below them.

The table needs a terminal without NO_COLOR; elsewhere there are plain lines.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from hopring.cli.progress import Steps
from hopring.demo.scenario import SITES, TRADES, site_of
from hopring.services import AGREED, SAFE, Service

_STYLES = dict(zip(SITES, ("cyan", "magenta", "yellow"), strict=True))


class ShownClient(Protocol):
    """The figures of a client that the table shows."""

    daemon: str
    sent: int

    @property
    def got(self) -> dict[Service, int]:
        """How many messages were received, by service."""

    def members(self, group: str) -> list[str]:
        """The members of its view of a group."""

    def primary(self, group: str) -> bool:
        """Whether its view of a group is primary."""


class DemoScreen:
    """A context manager, so that the terminal gets its cursor back."""

    def __init__(self, quiet: bool, console: Console | None = None) -> None:
        """With `quiet`, only the present step is printed, on stderr."""
        self._quiet = quiet
        self._out = console or Console(highlight=False, soft_wrap=True)
        self._err = Console(highlight=False, soft_wrap=True, stderr=True)
        moves = self._out.is_terminal and not self._out.is_dumb_terminal and "NO_COLOR" not in os.environ
        self._live: Live | None = None
        if moves and not quiet:
            self._live = Live(console=self._out, auto_refresh=False, transient=True)
        self._began: float | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self.still()

    def doing(self, what: str) -> None:
        """Prints the present step, on stderr if there is no live table."""
        if self._live is None:
            self._err.print(f"{what} ...")
        elif not self._live.is_started:
            self._live.start()
            self._live.update(Text(f"{what} ...", style="dim"), refresh=True)

    @contextmanager
    def steps(self) -> Iterator[Callable[[str], None]]:
        """Progress of a job with many steps: a live line, or a line for each step on stderr."""
        self.still()
        if self._live is None:
            yield self.doing
            return
        with Steps() as steps:
            yield steps.say

    def phase(self, name: str, calm: bool) -> None:
        """Marks the beginning of a phase."""
        if self._began is None:
            self._began = time.monotonic()
        if calm:
            self._line(Text(name, style="bold"))

    def say(self, text: str) -> None:
        """Prints an event as a line."""
        self._line(Text(text))

    def cut(self, sides: str) -> None:
        """Prints that the network is cut."""
        self._line(Text(f"the network is cut: {sides}", style="bold red"))

    def heal(self) -> None:
        """Prints that the network is whole again."""
        self._line(Text("the network is whole again", style="bold green"))

    def signal(self, at: str, members: Sequence[str]) -> None:
        """Prints that a view is closing."""
        words = f"  {TRADES} is closing; still together  "
        self._line(Text.assemble("at ", _daemons([at]), words, _daemons(members)))

    def view(self, at: str, members: Sequence[str], together: Sequence[str], primary: bool) -> None:
        """Prints a new view, who came to it together, and whether it is primary."""
        kind = "has a new primary view of   " if primary else "has a new view of           "
        words = Text.assemble("at ", _daemons([at]), f"  {TRADES} {kind}", _daemons(members))
        if set(together) != set(members):
            words.append("; came together  ").append_text(_daemons(together))
        if not primary:
            words.append("; not primary", style="bold")
        self._line(words)

    def show_clients(self, clients: Sequence[ShownClient]) -> None:
        """Redraws the table of clients."""
        if self._live is not None and self._live.is_started:
            self._live.update(_table(clients), refresh=True)

    def still(self) -> None:
        """Stops the live table for good."""
        if self._live is not None and self._live.is_started:
            self._live.stop()

    def show(self, *results: RenderableType) -> None:
        """Prints results below everything else."""
        self.still()
        if not self._quiet:
            for result in results:
                self._out.print(result)

    def _line(self, text: Text) -> None:
        if not self._quiet:
            seconds = 0.0 if self._began is None else time.monotonic() - self._began
            self._out.print(Text.assemble((f"{seconds:6.2f} s  ", "dim"), text))


def yes_or_no(value: bool) -> str:
    """The word for a flag in a table."""
    return "yes" if value else "no"


def _daemons(names: Sequence[str]) -> Text:
    words = Text()
    for at, name in enumerate(names):
        words.append(" " if at else "").append(name, style=_STYLES.get(site_of(name), ""))
    return words


def _table(clients: Sequence[ShownClient]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
    table.add_column("client at")
    table.add_column(f"its view of {TRADES}", min_width=24)
    table.add_column("primary")
    for header in ("sent", "agreed got", "safe got"):
        table.add_column(header, justify="right")
    for one in clients:
        counts = (one.sent, one.got[AGREED], one.got[SAFE])
        view = _daemons(one.members(TRADES)), Text(yes_or_no(one.primary(TRADES)))
        table.add_row(_daemons([one.daemon]), *view, *[str(count) for count in counts])
    return table
