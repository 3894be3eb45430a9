"""The closed part of a trace that still grows: the views to which no daemon can add an event any more.

A view is *closed* if each of its members has left it, and if all earlier views of each member are closed too.
A member has left a view if it has installed a later one, or crashed, or started again. A member that is silent
has left it as well, once a companion went on before the watermark: it may have been killed.

The closed part has the events of each daemon up to the installation of its first view that is not closed. In it
every message has its send and, of those who moved together, all deliveries: an audit of it that takes the end
for a crash of all daemons finds what an audit of the whole trace finds there. No pyspark.

Invariant   with more rows the closed part of a daemon never gets shorter, unless some come after the watermark.
Limit       a member without a trace is silent.
"""

from collections.abc import Iterable, Mapping

import msgspec

_LONG_AGO_US = -(2**62)


class StayInView(msgspec.Struct, frozen=True):
    """The installation of a view by a daemon: its position in the trace, and the processes in the view."""

    position: int
    view: str
    members: tuple[str, ...]
    at_us: int


class TracedLife(msgspec.Struct, frozen=True):
    """One life of a daemon, as far as it is in the trace."""

    run: str
    process: str
    stays: tuple[StayInView, ...]  # In their order.
    crashed: bool
    first_us: int
    last_us: int
    last_position: int

    @property
    def daemon(self) -> str:
        """The name of the daemon, without its incarnation."""
        return self.process.partition("#")[0]


class ClosedPart(msgspec.Struct, frozen=True):
    """The closed part of one history: the last position of each process, and the number of views."""

    upto: Mapping[str, int]
    closed: int
    views: int


def closed_part(lives: Iterable[TracedLife], watermark_us: int) -> ClosedPart:
    """The closed part of the history of these daemons."""
    found = _History(lives, watermark_us)
    still_open = {view for view in found.members if not found.is_left_by_all(view)}
    grew = True
    while grew:
        # What a member did after a view that is open may have to do with events that are not there yet.
        before = len(still_open)
        for life in found.lives.values():
            after = False
            for stay in life.stays:
                after |= stay.view in still_open
                if after:
                    still_open.add(stay.view)
        grew = len(still_open) > before
    upto = {
        process: next((one.position for one in life.stays if one.view in still_open), life.last_position)
        for process, life in found.lives.items()
    }
    return ClosedPart(upto, len(found.members) - len(still_open), len(found.members))


class _History:
    """The lives of all daemons of one run, by process, and the members of each view."""

    def __init__(self, lives: Iterable[TracedLife], watermark_us: int) -> None:
        self.lives = {life.process: life for life in lives}
        self.watermark_us = watermark_us
        self.members: dict[str, tuple[str, ...]] = {}
        self._left_us: dict[str, int] = {}  # By view: when the first of its members went on.
        self._starts: dict[str, int] = {}  # By daemon: when it was started last.
        for life in self.lives.values():
            self._starts[life.daemon] = max(life.first_us, self._starts.get(life.daemon, life.first_us))
            for stay in life.stays:
                self.members.setdefault(stay.view, stay.members)
            for stay, following in zip(life.stays, life.stays[1:], strict=False):
                first_us = self._left_us.get(stay.view, following.at_us)
                self._left_us[stay.view] = min(first_us, following.at_us)

    def is_left_by_all(self, view: str) -> bool:
        return all(self._has_left(process, view) for process in self.members[view])

    def _has_left(self, process: str, view: str) -> bool:
        life = self.lives.get(process)
        if life is not None:
            # Names of views sort in the order in which they are installed.
            has_ended = life.crashed or self._starts[life.daemon] > life.last_us
            if has_ended or any(stay.view > view for stay in life.stays):
                return True
        last_us = _LONG_AGO_US if life is None else life.last_us
        left_us = self._left_us.get(view)
        return left_us is not None and max(left_us, last_us) < self.watermark_us
