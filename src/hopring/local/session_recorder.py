"""Records the events of sessions that also leave groups.

The library tells the application that a leave is complete, but not its place among the events. The recorder
reads that place from inside the library: otherwise a message to two groups, one of which was just left, would
count as a message to the group that was left.
"""

from collections import deque
from typing import Protocol

from hopring.check import trace
from hopring.client.core import ClientCore
from hopring.client.events import Event
from hopring.local import recorder
from hopring.local.recorder import now_us


class Recorded(Protocol):
    """A session of the library, asyncio or blocking."""

    _core: ClientCore

    @property
    def daemon(self) -> str:
        """The name of its daemon."""

    @property
    def name(self) -> str:
        """Its name at that daemon."""

    @property
    def private_group(self) -> str:
        """Both, as others address it."""


class SessionRecorder(recorder.Recorder):
    """Records one session: call it for every event when it happens, and for requests before they are sent."""

    def __init__(self, session: Recorded) -> None:
        """The session has just connected, and no event has been taken from it."""
        super().__init__(session.daemon, session.name, session.private_group)
        self._taken = 0
        self._leaves = _watch_leaves(session)

    def note_event(self, event: Event) -> None:
        """Records an event that the application took, between the leaves before and behind it."""
        self.note_due_leaves()
        self._taken += 1
        super().note_event(event)
        self.note_due_leaves()

    def note_due_leaves(self) -> None:
        """Records the leaves whose place has been reached."""
        while self._leaves and self._leaves[0][0] <= self._taken:
            assert self.process is not None, "a session that leaves has seen a view"
            _, group = self._leaves.popleft()
            self.events.append(trace.GroupLeft(self.process, now_us(), group))

    def note_gone(self) -> None:
        """Records the end of the session, after all leaves."""
        self.note_due_leaves()
        super().note_gone()


def _watch_leaves(session: Recorded) -> deque[tuple[int, str]]:
    """Collects, for each leave, the number of events before it."""
    leaves: deque[tuple[int, str]] = deque()
    session._core.stream.on_close = lambda group, last: leaves.append((last, group))
    return leaves
