"""What a session was to a group when something happened: the rows that sends and deliveries are joined with.

A delivery to a session names groups and no views. So a session's time is cut, for each group, into spans
between the events that concern the group. Spans are looked up by pieces of so many positions; then one look
finds the one or two that may be meant, however often a session came and went.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from hopring.spark.audit.clients.sessions import Mark, Session
from hopring.spark.audit.clients.stays import OF_GROUPS, Group, Presence, Stay

PIECE: Final = 1_024

_PLACE: Final = "xxhash64({0}run, {0}process, {0}group_name, {1})"

SPANS: Final = f"SELECT *, {_PLACE.format('', 'piece')} AS place FROM audit_pieces"
"""With one number to look them up by, which is quicker than four columns are."""

FOUND: Final = f"""
    t.place = {_PLACE.format("e.", f"e.position DIV {PIECE}")} AND e.position > t.begins AND e.position < t.ends
"""
"""The span `t` that the event `e` is in."""


@dataclass(slots=True, eq=False)
class Span:
    """A time in which nothing changed between a session and a group."""

    begins: int
    stay: Stay | None = None
    wish: str = ""  # What the session asked for last: `join`, `leave`, or nothing.
    private: bool = False
    ends: int = 0


@dataclass(slots=True, eq=False)
class Course:
    """All spans of a session and a group."""

    session: Session
    name: str
    group: Group | None
    spans: list[Span]
    last_leave_at: int | None
    last: Stay | None  # Wherever it was last in the group, even if it left.

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
            where = (None, None, None) if stay is None else (stay.id, stay.room, stay.cut)
            for piece in range(max(span.begins, 0) // PIECE, span.ends // PIECE + 1):
                place = self.session.run, self.session.process, self.name, piece, span.begins, span.ends
                yield *place, *wishes, group_id, number, *where


def courses_of(
    sessions: Iterable[Session], groups: dict[tuple[str, str], Group], strays: list[tuple[str, str, int]]
) -> Iterator[Course]:
    """Follows every session through every group; this is what fills the groups. Collects homeless signals."""
    for session in sessions:
        by_group: dict[str, list[Mark]] = {}
        for mark in session.marks:
            if mark.kind in OF_GROUPS and mark.group:
                by_group.setdefault(mark.group, []).append(mark)
        for name, marks in by_group.items():
            yield _follow(session, name, groups.get((session.run, name)), marks, strays)


def _follow(
    session: Session, name: str, group: Group | None, marks: list[Mark], strays: list[tuple[str, str, int]]
) -> Course:
    presence = Presence(session, group)
    spans = [Span(-1)]
    for mark in marks:
        if not presence.take(mark):
            strays.append((session.run, session.process, mark.position))
        if mark.kind == "transitional":
            continue
        last = spans[-1]
        last.ends = mark.position
        wish = mark.kind if mark.kind in ("join", "leave") else last.wish
        spans.append(Span(mark.position, presence.stay, wish, last.private or mark.kind == "connect"))
    spans[-1].ends = session.high + 1
    leaves = [mark.position for mark in marks if mark.kind == "leave"]
    return Course(session, name, group, spans, max(leaves, default=None), presence.last)
