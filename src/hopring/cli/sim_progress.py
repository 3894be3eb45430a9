"""How far a campaign is: so many worlds, and how many of them failed."""

from rich import progress as rich

from hopring.cli.progress_line import ProgressLine
from hopring.sim.campaign.parallel import SeedReport


class Progress(ProgressLine):
    """The worlds of a campaign, or the runs that make one smaller."""

    def __init__(self, total: int | None) -> None:
        # It is drawn only when a world is done: a thread of its own would take time from the worlds.
        super().__init__(rich.TextColumn("[dim]{task.fields[words]}[/dim]"), auto_refresh=False)
        self._task = self._line.add_task("worlds", total=total, words="")
        self._failed = 0

    def done(self, report: SeedReport) -> None:
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
