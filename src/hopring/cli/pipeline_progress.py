"""How far a job is: the present step and the time."""

from rich import progress as rich

from hopring.cli.progress_line import ProgressLine


class Steps(ProgressLine):
    """One step after the other, of which nobody knows how long they take."""

    def __init__(self) -> None:
        super().__init__(rich.TimeElapsedColumn())
        self._task: rich.TaskID | None = None

    def say(self, step: str) -> None:
        """What is done next."""
        if self._task is None:
            self._task = self._line.add_task(step, total=None)
        self._line.update(self._task, description=step)
