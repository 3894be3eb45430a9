"""Sessions in views of groups: stays, which a view begins and the next one or a `left` ends.

A stay that follows a join has none before it. A view that a session is shown a second time is another view_id,
for which `nth` is above 1, as among daemons. Sets of sessions are bits of a number, one for each session that a
group has anything to do with.

The order of events is checked by one pass over each session in its order, over all its groups.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from hopring.check.properties.sql import FIFO, RELIABLE, TOTAL
from hopring.spark.audit.clients.sessions import SessionEvent, TracedSession

STAY_SHIFT: Final = 40
"""A session has no two events at one position, and fewer than 2**40."""

OF_GROUPS: Final = ("view", "left", "transitional", "join", "leave", "connect")


@dataclass(slots=True, eq=False)
class TracedGroup:
    """A group of which somebody was shown a view."""

    id: int
    run: str
    name: str
    numbers: dict[str, int] = field(default_factory=dict)  # By session: its bit.
    stays: list["SessionStay"] = field(default_factory=list)
    view_ids: dict[tuple[str, int], int] = field(default_factory=dict)  # By view and nth: the view_id's number.
    _sets: dict[tuple[str, ...], int] = field(default_factory=dict)

    def bit(self, process: str) -> int:
        """The set of this session alone."""
        return 1 << self.numbers.setdefault(process, len(self.numbers))

    def set_of(self, processes: tuple[str, ...]) -> int:
        """The set of these sessions; cached, because the same list comes once for each member."""
        if processes not in self._sets:
            self._sets[processes] = sum(self.bit(process) for process in set(processes))
        return self._sets[processes]


@dataclass(slots=True, eq=False)
class SessionStay:
    """One session's time in one view of a group."""

    session: TracedSession
    group: TracedGroup
    view_id: int
    nth: int
    shown: SessionEvent
    self: int
    members: int
    together: int
    before: "SessionStay | None"
    earlier: "SessionStay | None"  # The one before in this group, even if it left in between.
    after: "SessionStay | None" = None
    leaves: bool = False
    cut: int | None = None
    signals: int = 0
    signal_together: int = 0
    misplaced_signal: int | None = None

    @property
    def id(self) -> int:
        """A number that no other stay has."""
        return (self.session.id << STAY_SHIFT) + self.shown.position

    @property
    def stay(self) -> int:
        """1 for the first view after a join."""
        return 1 if self.before is None else 2

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

    def hear(self, mark: SessionEvent) -> None:
        """Takes a signal: the first one cuts the stay."""
        if self.cut is None:
            self.cut = mark.position
            self.signal_together = self.group.set_of(mark.together)
        self.signals += 1
        if mark.view != self.view and self.misplaced_signal is None:
            self.misplaced_signal = mark.position

    def row(self) -> tuple[Any, ...]:
        """In the order of the columns of `STAYS`."""
        group, before, after = self.group, self.before, self.after
        where = self.view_id, group.id, group.run, group.name, self.view, self.nth
        who = self.id, self.session.id, self.session.process, self.stay
        when = self.shown.position, self.leaves, self.ended
        views = (one.view if one is not None else None for one in (self.earlier, before, after))
        sets = self.self, self.members, self.together, before.members if before is not None else 0
        later = after.together if after is not None else 0
        return (
            *where,
            *who,
            *when,
            *views,
            self.signals,
            self.misplaced_signal,
            *sets,
            later,
            self.signal_together,
        )


class SessionPresence:
    """The presence of a session in a group, as its events pass by."""

    def __init__(self, session: TracedSession, group: TracedGroup | None) -> None:
        self._session, self._group = session, group
        self.stay: SessionStay | None = None
        self.last: SessionStay | None = None
        self._times: Counter[str] = Counter()

    def take(self, mark: SessionEvent) -> bool:
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

    def _install(self, mark: SessionEvent) -> None:
        group, session = self._group, self._session
        assert group is not None, "a group with a view"
        self._times[mark.view] += 1
        nth = self._times[mark.view]
        view_id = group.view_ids.setdefault((mark.view, nth), (group.id << STAY_SHIFT) + len(group.view_ids))
        sets = group.bit(session.process), group.set_of(mark.members), group.set_of(mark.together)
        stay = SessionStay(session, group, view_id, nth, mark, *sets, self.stay, self.last)
        if self.stay is not None:
            self.stay.after = stay
        self.stay = self.last = stay
        group.stays.append(stay)


def groups_of(sessions: Iterable[TracedSession]) -> dict[tuple[str, str], TracedGroup]:
    """The groups of all histories, by history and name."""
    names = sorted({(one.run, mark.group) for one in sessions for mark in one.marks if mark.kind == "view"})
    return {(run, name): TracedGroup(number, run, name) for number, (run, name) in enumerate(names, start=1)}


def process_rows(groups: Iterable[TracedGroup], sessions: Iterable[TracedSession]) -> Iterator[tuple[Any, ...]]:
    """In the order of the columns of `SESSION_PROCESSES`."""
    known = {(one.run, one.process): one.id for one in sessions}
    for group in groups:
        shown = {stay.session.process for stay in group.stays}
        for process, number in group.numbers.items():
            where = group.run, process, group.id, group.name
            yield *where, known.get((group.run, process)), number, process in shown, 1 << number


def view_rows(groups: Iterable[TracedGroup]) -> Iterator[tuple[Any, ...]]:
    """In the order of the columns of `SESSION_VIEWS`."""
    for group in groups:
        installed: Counter[int] = Counter()
        signalled: Counter[int] = Counter()
        for stay in group.stays:
            installed[stay.view_id] |= stay.self
            signalled[stay.view_id] |= stay.self if stay.signals else 0
        for (view, nth), view_id in group.view_ids.items():
            yield view_id, group.id, group.run, group.name, view, nth, installed[view_id], signalled[view_id]


PIECE: Final = 1_024

_PLACE: Final = "xxhash64({0}run, {0}process, {0}group_name, {1})"

SPANS: Final = f"SELECT *, {_PLACE.format('', 'piece')} AS place FROM audit_pieces"
"""With one number to look them up by, which is quicker than four columns are."""

FOUND: Final = f"""
    t.place = {_PLACE.format("e.", f"e.position DIV {PIECE}")} AND e.position > t.begins AND e.position < t.ends
"""
"""The span `t` that the event `e` is in."""


@dataclass(slots=True, eq=False)
class GroupSpan:
    """A time in which nothing changed between a session and a group."""

    begins: int
    stay: SessionStay | None = None
    wish: str = ""  # Its last request: `join`, `leave`, or nothing.
    private: bool = False
    ends: int = 0


@dataclass(slots=True, eq=False)
class GroupCourse:
    """All spans of a session and a group."""

    session: TracedSession
    name: str
    group: TracedGroup | None
    spans: list[GroupSpan]
    last_leave_at: int | None
    last: SessionStay | None  # Wherever it was last in the group, even if it left.

    def wish(self) -> Iterator[tuple[Any, ...]]:
        """In the order of the columns of `WISHES`, if the session is there and wants to be in the group."""
        session, group, last = self.session, self.group, self.last
        if self.spans[-1].wish == "join" and group is not None and not session.ends:
            who = session.run, session.process, session.daemon, group.id, group.name
            where = (None, False) if last is None else (last.view, last.leaves)
            yield *who, *where, group.bit(session.process), 0 if last is None else last.members

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """In the order of the columns of `SPANS`, one for each piece that a span reaches into."""
        shown = any(span.stay is not None for span in self.spans)
        number = self.group.numbers[self.session.process] if shown and self.group is not None else None
        group_id = self.group.id if self.group is not None else None
        for span in self.spans:
            wishes = span.private, span.wish == "join", span.wish == "leave", self.last_leave_at
            stay = span.stay
            where = (None, None, None) if stay is None else (stay.id, stay.view_id, stay.cut)
            for piece in range(max(span.begins, 0) // PIECE, span.ends // PIECE + 1):
                place = self.session.run, self.session.process, self.name, piece, span.begins, span.ends
                yield *place, *wishes, group_id, number, *where


def courses_of(
    sessions: Iterable[TracedSession],
    groups: dict[tuple[str, str], TracedGroup],
    strays: list[tuple[str, str, int]],
) -> Iterator[GroupCourse]:
    """Follows every session through every group, which fills the groups; collects signals outside of stays."""
    for session in sessions:
        by_group: dict[str, list[SessionEvent]] = {}
        for mark in session.marks:
            if mark.kind in OF_GROUPS and mark.group:
                by_group.setdefault(mark.group, []).append(mark)
        for name, marks in by_group.items():
            yield _follow(session, name, groups.get((session.run, name)), marks, strays)


def _follow(
    session: TracedSession,
    name: str,
    group: TracedGroup | None,
    marks: list[SessionEvent],
    strays: list[tuple[str, str, int]],
) -> GroupCourse:
    presence = SessionPresence(session, group)
    spans = [GroupSpan(-1)]
    for mark in marks:
        if not presence.take(mark):
            strays.append((session.run, session.process, mark.position))
        if mark.kind == "transitional":
            continue
        last = spans[-1]
        last.ends = mark.position
        wish = mark.kind if mark.kind in ("join", "leave") else last.wish
        spans.append(GroupSpan(mark.position, presence.stay, wish, last.private or mark.kind == "connect"))
    spans[-1].ends = session.high + 1
    leaves = [mark.position for mark in marks if mark.kind == "leave"]
    return GroupCourse(session, name, group, spans, max(leaves, default=None), presence.last)


def paces(hint: str) -> str:
    """By session and sender: the events that came too late, found in one pass over each session in its order.

    A running maximum is enough: as long as nothing is wrong, the last event is the highest. `passed` says that
    something came behind a FIFO message (or better) of any sender that has a higher stamp.
    """
    return f"""
    WITH steps AS (
      SELECT {hint} d.session_id, m.session, d.position, false AS sending, m.place, m.service
      FROM audit_deliveries d JOIN audit_order m ON m.key = d.key WHERE d.head AND m.service IN {RELIABLE}
      UNION ALL
      SELECT {hint} s.session_id, m.session, s.position, true, m.place, s.service
      FROM audit_sends s JOIN audit_order m ON m.key = s.key WHERE s.service IN {RELIABLE}),
    passed AS (
      SELECT *, max(place) OVER earlier AS top,
             max(IF(NOT sending AND service IN {TOTAL}, place, NULL)) OVER earlier AS top_agreed,
             max(IF(NOT sending AND service IN {FIFO}, place, NULL)) OVER earlier AS top_fifo
      FROM steps
      WINDOW earlier AS (PARTITION BY session_id ORDER BY position
                         ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING))
    SELECT session_id, session, min(IF(sending AND place <= top, position, NULL)) AS sent_below,
           min(IF(NOT sending AND place < top_agreed, position, NULL)) AS came_late,
           coalesce(bool_or(NOT sending AND service IN {TOTAL} AND place < top_agreed), false) AS unsorted,
           coalesce(bool_or(NOT sending AND place < top_fifo), false) AS passed
    FROM passed GROUP BY session_id, session
    """


SUSPECTS = f"""
SELECT p.session_id, p.session FROM audit_paces p
WHERE p.passed OR p.session IN (
  SELECT session
  FROM (SELECT session, place, max(place) OVER (PARTITION BY session ORDER BY turn
               ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS top
        FROM audit_messages WHERE sent AND service IN {RELIABLE})
  WHERE place <= top)
"""
"""Sessions where a FIFO message may have been overtaken, by stamps or because stamps do not rise with sends.

Elsewhere the stamps of a sender are in the order of its sends, so one check covers both orders.
"""


def missteps(hint: str, suspects: bool) -> str:
    """Events that came too late; only suspects are gone through for 2.11."""
    return f"""
    WITH found AS (
      SELECT session_id, sent_below AS position, 'causal' AS order, false AS agreed
      FROM audit_paces WHERE sent_below IS NOT NULL
      UNION ALL
      SELECT session_id, came_late, 'agreed', unsorted FROM audit_paces WHERE came_late IS NOT NULL
      {_overtaken(hint) if suspects else ""})
    SELECT s.run, s.process, f.* FROM found f JOIN audit_sessions s ON s.id = f.session_id
    """


def _overtaken(hint: str) -> str:
    return f"""
      UNION ALL
      SELECT session_id, position, 'fifo', false
      FROM (SELECT {hint} d.session_id, d.position, m.turn,
                   max(IF(m.service IN {FIFO}, m.turn, NULL)) OVER (
                     PARTITION BY d.session_id, m.session ORDER BY d.position
                     ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS latest
            FROM audit_deliveries d JOIN audit_order m ON m.key = d.key
                 LEFT SEMI JOIN audit_suspects u ON u.session_id = d.session_id AND u.session = m.session
            WHERE d.head AND m.service IN {RELIABLE} AND m.sent)
      WHERE turn < latest
    """


UNSORTED = "SELECT DISTINCT run FROM audit_missteps WHERE agreed"
"""Histories in which some session does not get agreed messages in the order of their places."""


def tops(hint: str) -> str:
    """By stay: the highest agreed message before the signal, and behind it."""
    return f"""
    SELECT {hint} d.stay_id, d.view_id, max(IF(d.late, NULL, m.place)) AS early_top,
           max(IF(d.late, m.place, NULL)) AS late_top
    FROM audit_deliveries d JOIN audit_order m ON m.key = d.key
    WHERE d.stay_id IS NOT NULL AND m.service IN {TOTAL} GROUP BY d.stay_id, d.view_id
    """
