"""The sessions of a trace with all their events but sends and deliveries, in the driver.

These are few beside messages: they grow with sessions and with views. Plain Python takes less time for them
than Spark needs to plan a query.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from hopring.spark.audit.reading import Ends

MARKS_MAX: Final = 5_000_000
"""The most events of all histories of a trace; more would not fit into the driver."""

SMALL: Final = """
SELECT run, process, position, kind, view, members, transitional_set, cause, file, row,
       IF(kind = 'connect', try_element_at(groups, 1), group_name) AS group_name
FROM audit_trace WHERE kind NOT IN ('send', 'deliver') OR position = 0
"""
"""All events but sends and deliveries; of those only one that is, wrongly, the first event of its session."""

BORDERS: Final = "SELECT run, process, daemon, kind, file, row FROM audit_daemons ORDER BY run, file, row"

Row = Mapping[str, Any]


class SessionEvent(NamedTuple):
    """An event that is no message."""

    position: int
    kind: str
    group: str
    view: str
    members: tuple[str, ...]
    together: tuple[str, ...]
    cause: str


@dataclass(slots=True, eq=False)
class TracedSession:
    """One session; ids rise in the order in which the sessions of a history appear in it."""

    id: int
    run: str
    process: str
    daemon: str
    high: int  # Its last position.
    crashed: bool  # Its daemon ended.
    quiet: bool
    marks: list[SessionEvent] = field(default_factory=list)

    def first(self, kind: str) -> int | None:
        """The position of its first event of this kind."""
        return next((mark.position for mark in self.marks if mark.kind == kind), None)

    @property
    def connected(self) -> bool:
        """Whether its first event is `connect`, as it should be."""
        return self.marks[0].kind == "connect"

    @property
    def private_group(self) -> str | None:
        """Its private group, by its last `connect`."""
        return next((mark.group for mark in reversed(self.marks) if mark.kind == "connect"), None)

    @property
    def ends(self) -> bool:
        """Whether it asked to disconnect, or has ended."""
        return self.crashed or any(mark.kind in ("disconnect", "gone") for mark in self.marks)

    @property
    def alive(self) -> bool:
        """Whether it was there when everything had settled, and meant to stay."""
        return self.quiet and not self.ends

    def row(self) -> tuple[Any, ...]:
        """In the order of the columns of `SESSIONS`."""
        who = self.run, self.process, self.id, self.daemon, self.high, self.connected, self.private_group
        return *who, self.first("disconnect"), self.first("gone"), self.crashed, self.ends, self.alive


def sessions_of(
    extent: Iterable[Row],
    small: Iterable[Row],
    borders: Iterable[Row],
    ends: Mapping[str, Ends],
    otherwise: Ends,
) -> list[TracedSession]:
    """All sessions of a trace, in their order."""
    ended = ended_daemons(borders)
    facts = {(row["run"], row["process"]): row for row in extent}
    marks: dict[tuple[str, str], list[SessionEvent]] = {}
    seen: dict[tuple[str, str], tuple[str, int]] = {}
    for row in small:
        who = row["run"], row["process"]
        marks.setdefault(who, []).append(_mark(row))
        if not row["position"]:
            seen[who] = row["file"], row["row"]
    sessions = []
    for number, (run, process) in enumerate(
        sorted(facts, key=lambda who: (who[0], seen[who], who[1])), start=1
    ):
        fact = facts[run, process]
        crashed = (run, f"{process.rpartition('/')[0]}/0") in ended
        quiet = ends.get(run, otherwise).quiet
        found = sorted(marks[run, process])
        sessions.append(
            TracedSession(number, run, process, fact["daemon"], fact["high"], crashed, quiet, found)
        )
    return sessions


def ended_daemons(borders: Iterable[Row]) -> set[tuple[str, str]]:
    """The daemons that crashed, or started again: those had ended, even if in silence."""
    ended: set[tuple[str, str]] = set()
    starts: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for row in borders:
        who = row["run"], row["process"]
        if row["kind"] == "crash":
            ended.add(who)
        else:
            lives = starts.setdefault((row["run"], row["daemon"]), [])
            ended.update(lives)
            lives.append(who)
    return ended


def _mark(row: Row) -> SessionEvent:
    return SessionEvent(
        row["position"],
        row["kind"],
        row["group_name"] or "",
        row["view"] or "",
        tuple(row["members"] or ()),
        tuple(row["transitional_set"] or ()),
        row["cause"] or "",
    )


def small_rows(sessions: Iterable[TracedSession]) -> Iterator[tuple[Any, ...]]:
    """In the order of the columns of `SMALL`."""
    for session in sessions:
        for mark in session.marks:
            yield session.run, session.process, mark.position, mark.kind, mark.group
