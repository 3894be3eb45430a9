"""Sessions in views of groups: stays, which a view begins and the next one or a `left` ends.

A stay that follows a join has none before it. A view that a session is shown a second time is another room,
for which `nth` is above 1, as among daemons. Sets of sessions are bits of a number, one for each session that a
group has anything to do with.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from hopring.spark.audit.clients.sessions import Mark, Session

STAY_SHIFT: Final = 40
"""A session has no two events at one position, and fewer than 2**40."""

OF_GROUPS: Final = ("view", "left", "transitional", "join", "leave", "connect")


@dataclass(slots=True, eq=False)
class Group:
    """A group of which somebody was shown a view."""

    id: int
    run: str
    name: str
    numbers: dict[str, int] = field(default_factory=dict)  # By session: its bit.
    stays: list["Stay"] = field(default_factory=list)
    rooms: dict[tuple[str, int], int] = field(default_factory=dict)  # By view and nth: the room's number.
    _sets: dict[tuple[str, ...], int] = field(default_factory=dict)

    def bit(self, process: str) -> int:
        """The set of this session alone."""
        return 1 << self.numbers.setdefault(process, len(self.numbers))

    def set_of(self, processes: tuple[str, ...]) -> int:
        """The same lists come again and again, once for each member."""
        if processes not in self._sets:
            self._sets[processes] = sum(self.bit(process) for process in set(processes))
        return self._sets[processes]


@dataclass(slots=True, eq=False)
class Stay:
    """One session's time in one view of a group."""

    session: Session
    group: Group
    room: int
    nth: int
    shown: Mark
    self: int
    members: int
    together: int
    before: "Stay | None"
    earlier: "Stay | None"  # The one before in this group, even if it left in between.
    after: "Stay | None" = None
    leaves: bool = False
    cut: int | None = None
    signals: int = 0
    signal_together: int = 0
    misplaced_signal: int | None = None

    @property
    def id(self) -> int:
        """Of all stays."""
        return (self.session.id << STAY_SHIFT) + self.shown.position

    @property
    def view(self) -> str:
        """Its id, as text that sorts as ids do."""
        return self.shown.view

    @property
    def closing(self) -> bool:
        """Whether the view was made after the daemons' signal."""
        return "/" in self.view

    @property
    def ended(self) -> bool:
        """Whether the session left the group from here, or ended here."""
        return self.after is None and (self.leaves or not self.session.alive)

    def hear(self, mark: Mark) -> None:
        """A signal."""
        if self.cut is None:
            self.cut = mark.position
            self.signal_together = self.group.set_of(mark.together)
        self.signals += 1
        if mark.view != self.view and self.misplaced_signal is None:
            self.misplaced_signal = mark.position

    def row(self) -> tuple[Any, ...]:
        """In the order of the columns of `STAYS`."""
        group, before, after = self.group, self.before, self.after
        where = self.room, group.id, group.run, group.name, self.view, self.nth
        who = self.id, self.session.id, self.session.process, self.shown.position, self.leaves, self.ended
        views = (one.view if one is not None else None for one in (self.earlier, before, after))
        sets = self.self, self.members, self.together, before.members if before is not None else 0
        later = after.together if after is not None else 0
        return *where, *who, *views, self.signals, self.misplaced_signal, *sets, later, self.signal_together


class Presence:
    """What a session is to a group as its events pass by."""

    def __init__(self, session: Session, group: Group | None) -> None:
        self._session, self._group = session, group
        self.stay: Stay | None = None
        self.last: Stay | None = None
        self._times: Counter[str] = Counter()

    def take(self, mark: Mark) -> bool:
        """Whether the event has a place; a signal has none if the session is in no view."""
        if mark.kind == "view":
            self._install(mark)
        elif mark.kind == "left" and self.stay is not None:
            self.stay.leaves, self.stay = True, None
        elif mark.kind == "transitional":
            if self.stay is None:
                return False
            self.stay.hear(mark)
        elif mark.kind == "join" and self._group is not None:
            self._group.bit(self._session.process)
        return True

    def _install(self, mark: Mark) -> None:
        group, session = self._group, self._session
        assert group is not None, "a group with a view"
        self._times[mark.view] += 1
        nth = self._times[mark.view]
        room = group.rooms.setdefault((mark.view, nth), (group.id << STAY_SHIFT) + len(group.rooms))
        sets = group.bit(session.process), group.set_of(mark.members), group.set_of(mark.together)
        stay = Stay(session, group, room, nth, mark, *sets, self.stay, self.last)
        if self.stay is not None:
            self.stay.after = stay
        self.stay = self.last = stay
        group.stays.append(stay)


def groups_of(sessions: Iterable[Session]) -> dict[tuple[str, str], Group]:
    """By history and name."""
    names = sorted({(one.run, mark.group) for one in sessions for mark in one.marks if mark.kind == "view"})
    return {(run, name): Group(number, run, name) for number, (run, name) in enumerate(names, start=1)}


def people_rows(groups: Iterable[Group], sessions: Iterable[Session]) -> Iterator[tuple[Any, ...]]:
    """In the order of the columns of `PEOPLE`."""
    known = {(one.run, one.process): one.id for one in sessions}
    for group in groups:
        shown = {stay.session.process for stay in group.stays}
        for process, number in group.numbers.items():
            where = group.run, process, group.id, group.name
            yield *where, known.get((group.run, process)), number, process in shown, 1 << number


def room_rows(groups: Iterable[Group]) -> Iterator[tuple[Any, ...]]:
    """In the order of the columns of `ROOMS`."""
    for group in groups:
        installed: Counter[int] = Counter()
        signalled: Counter[int] = Counter()
        for stay in group.stays:
            installed[stay.room] |= stay.self
            signalled[stay.room] |= stay.self if stay.signals else 0
        for (view, nth), room in group.rooms.items():
            yield room, group.id, group.run, group.name, view, nth, installed[room], signalled[room]
