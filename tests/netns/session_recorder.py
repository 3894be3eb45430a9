"""Records the events of sessions that also leave groups.

The library tells the application that a leave is complete, but not its place among the events. The recorder
looks into the library for it: otherwise a message to two groups, one of which was just left, would count as one
in the group that was left.
"""

from collections import deque
from typing import Protocol

from hopring import Event
from hopring.check import trace
from hopring.client.core import ClientCore
from hopring.client.stream import EventStream
from hopring.local import recorder
from hopring.local.recorder import now_us


class Recorded(Protocol):
    """A session of the library, of whichever shell."""

    _core: ClientCore

    @property
    def daemon(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def private_group(self) -> str: ...


class Recorder(recorder.Recorder):
    """One session. Tell it of everything when it happens; requests and sends before they go out."""

    def __init__(self, session: Recorded) -> None:
        """The session has just been connected, and nothing has been taken from it."""
        super().__init__(session.daemon, session.name, session.private_group)
        self._taken = 0
        self._leaves = _watch_leaves(session)

    def takes(self, event: Event) -> None:
        """The application got an event; leaves before it have their place."""
        self.settles()
        self._taken += 1
        super().takes(event)

    def settles(self) -> None:
        """Leaves whose place has come are written down."""
        while self._leaves and self._leaves[0][0] <= self._taken:
            assert self.process is not None, "who leaves has been shown a view"
            _, group = self._leaves.popleft()
            self.events.append(trace.GroupLeft(self.process, now_us(), group))

    def gone(self) -> None:
        """Its end has its place here, behind all leaves."""
        self.settles()
        super().gone()


class _Watched(EventStream):
    """The stream of a session, which the library closes for a group when its leave has come."""

    leaves: deque[tuple[int, str]]

    def close(self, group: str) -> None:
        self.leaves.append((self.last, group))
        super().close(group)


def _watch_leaves(session: Recorded) -> deque[tuple[int, str]]:
    """For each leave, how many events lie before it."""
    core = session._core
    watched = _Watched(core.stream.entries, core.stream.by_group, core.stream.last)
    watched.leaves = deque()
    core.state.stream = watched
    return watched.leaves
