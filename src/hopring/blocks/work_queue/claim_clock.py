"""Says which claims of a work queue have lasted too long, by the clock of one member.

Below       job_table.py, which has the claims; the replicated log, which names the member whose clock counts.
Above       work_queue.py, which appends a `ReturnJob` for each; agents of the simulator.
Invariants  a claim ends no earlier than its time after this member has seen it, or its last extension. A member
            whose clock did not count until now begins anew with all claims: they may last longer, never
            shorter.
"""

from collections.abc import Mapping
from typing import Final

from hopring.blocks.work_queue.job_table import QueuedJob
from hopring.blocks.work_queue.operations import ReturnJob
from hopring.ids import NEVER

AGAIN_US: Final = 1_000_000
"""The end of a claim that is not in the log after this time is appended again."""


class ClaimClock:
    """The times of all claims at one member."""

    def __init__(self) -> None:
        self._ends: dict[tuple[int, int], int] = {}  # By claim and number of extensions.

    @property
    def wake_at_us(self) -> int:
        """The next moment at which a claim may be over."""
        return min(self._ends.values(), default=NEVER)

    def due(self, claimed: Mapping[int, QueuedJob], keeps_time: bool, now_us: int) -> list[ReturnJob]:
        """The claims that are over now; call it when the table has changed, and at `wake_at_us`."""
        if not keeps_time:
            self._ends.clear()
            return []
        present = {(one.claim, one.extended): one for one in claimed.values()}
        self._ends = {key: end for key, end in self._ends.items() if key in present}
        over: list[ReturnJob] = []
        for key, one in present.items():
            end_us = self._ends.setdefault(key, now_us + one.visibility_us)
            if now_us >= end_us:
                self._ends[key] = now_us + AGAIN_US
                over.append(ReturnJob(one.job, one.claim))
        return over
