"""Judges times to live and retained values: what members of a group got, as the simulator records it.

These are properties of ours. A member is one membership of one session; the value that it saw last is that of
the last retained message that it got, live, behind its join, or behind a merge; empty if there was none.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from hopring.check.block_record import BlockFindings, BlockRecord, block_property, verdicts
from hopring.check.properties.property import Verdict

EXPIRED: Final = "X1 a message that has expired is delivered to nobody"
IN_TIME: Final = "X2 no message expires before its time"
AT_JOIN: Final = "X3 who joins gets the value that the members of its view saw last"
NOT_OLDER: Final = "X5 a member is not shown a value that is older than one it has seen"
AT_END: Final = "X4 at the quiet end all members of a view have seen the same value"


@dataclass(frozen=True, slots=True)
class TimeEnded:
    """A sender is told that its message has expired."""

    at_us: int
    message: str
    deadline_us: int


@dataclass(frozen=True, slots=True)
class TimedShown:
    """A member is given a message that had a time to live."""

    at_us: int
    member: str
    message: str


@dataclass(frozen=True, slots=True)
class ValueSeen:
    """A member is given a retained message, live, behind its join, or behind a merge."""

    at_us: int
    member: str
    value: str
    place: tuple[int, ...]  # In the order; later ones are above earlier ones.


@dataclass(frozen=True, slots=True)
class ValueAtView:
    """A member is shown a view, and has seen this value last."""

    at_us: int
    member: str
    view: str
    value: str


@dataclass(frozen=True, slots=True)
class ValueAtJoin:
    """A session has joined with this view, and got this value behind it."""

    at_us: int
    member: str
    view: str
    value: str


@dataclass(frozen=True, slots=True)
class ValueAtEnd:
    """A member is in this view at the end, and has seen this value last."""

    at_us: int
    member: str
    view: str
    value: str


KeptValueEvent = TimeEnded | TimedShown | ValueSeen | ValueAtView | ValueAtJoin | ValueAtEnd


@dataclass(slots=True)
class KeptValueJudge:
    """The state of the checks while they go through a record; what depends on later events comes at the end."""

    findings: BlockFindings
    expired: set[str] = field(default_factory=set)
    shown: list[tuple[int, TimedShown]] = field(default_factory=list)
    places: dict[str, tuple[int, ...]] = field(default_factory=dict)  # The highest by member.
    seen: dict[str, str] = field(default_factory=dict)  # By view: a value that a member had seen.
    joined: list[tuple[int, ValueAtJoin]] = field(default_factory=list)
    ends: dict[str, str] = field(default_factory=dict)  # By view: the value that the first member saw.

    def see(self, at: int, event: object) -> None:
        """Takes the event at this position."""
        if isinstance(event, TimeEnded):
            self.expired.add(event.message)
            if event.at_us < event.deadline_us:
                self.findings.at(IN_TIME, at, f"{event.message} expired before {event.deadline_us} us")
        elif isinstance(event, TimedShown):
            self.shown.append((at, event))
        elif isinstance(event, ValueSeen):
            highest = self.places.get(event.member, event.place)
            if event.place < highest:
                text = f"{event.member} is shown {event.value} of {event.place} after {highest}"
                self.findings.at(NOT_OLDER, at, text)
            self.places[event.member] = max(highest, event.place)
        elif isinstance(event, ValueAtView):
            if event.value:
                self.seen[event.view] = max(event.value, self.seen.get(event.view, ""))
        elif isinstance(event, ValueAtJoin):
            self.joined.append((at, event))
        elif isinstance(event, ValueAtEnd) and self.ends.setdefault(event.view, event.value) != event.value:
            text = f"{event.member} saw {event.value!r} last, others {self.ends[event.view]!r}"
            self.findings.at(AT_END, at, text)

    def judge_all(self) -> None:
        """Judges what the whole record shows."""
        for at, shown in self.shown:
            if shown.message in self.expired:
                self.findings.at(EXPIRED, at, f"{shown.member} got {shown.message}, which has expired")
        for at, joined in self.joined:
            value = self.seen.get(joined.view, joined.value)
            if value != joined.value:
                text = f"{joined.member} got {joined.value!r} in {joined.view}, whose members saw {value!r}"
                self.findings.at(AT_JOIN, at, text)


def judge_kept_values(record: BlockRecord) -> BlockFindings:
    """All violations in a record of messages with a time to live and of retained values."""
    judge = KeptValueJudge(BlockFindings(record.name))
    for at, event in record.numbered:
        judge.see(at, event)
    judge.judge_all()
    return judge.findings


def check_kept_values(events: Iterable[KeptValueEvent], quiet_end: bool) -> list[Verdict]:
    """A verdict for each property on one history, in the order of its events."""
    return verdicts(KEPT_VALUE_PROPERTIES, BlockRecord([*events], quiet_end))


# Queries over the events of all records, which are the table audit_values.

_EXPIRED_QUERY: Final = """
SELECT run, record, position, member, message
FROM (SELECT *, bool_or(kind = 'time_ended') OVER (PARTITION BY run, record, message) AS ended
      FROM audit_values WHERE message IS NOT NULL)
WHERE kind = 'timed_shown' AND ended
"""

_IN_TIME_QUERY: Final = """
SELECT run, record, position, message, deadline_us
FROM audit_values WHERE kind = 'time_ended' AND at_us < deadline_us
"""

_AT_JOIN_QUERY: Final = """
SELECT run, record, position, member, view, value, seen
FROM (SELECT *, max(IF(kind = 'value_at_view' AND value <> '', value, NULL))
                OVER (PARTITION BY run, record, view) AS seen
      FROM audit_values WHERE view IS NOT NULL)
WHERE kind = 'value_at_join' AND seen IS NOT NULL AND seen <> value
"""

_AT_END_QUERY: Final = """
SELECT run, record, position, member, view, value, others
FROM (SELECT *, first(value) OVER (PARTITION BY run, record, view ORDER BY position) AS others
      FROM audit_values WHERE kind = 'value_at_end')
WHERE value <> others
"""

_NOT_OLDER_QUERY: Final = """
SELECT run, record, position, member, value
FROM (SELECT *, max(place) OVER (PARTITION BY run, record, member ORDER BY position
                                 ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS highest
      FROM audit_values WHERE kind = 'value_seen')
WHERE place < highest
"""

KEPT_VALUE_PROPERTIES: Final = (
    block_property(judge_kept_values, EXPIRED, _EXPIRED_QUERY, "{member} got {message}, which has expired"),
    block_property(judge_kept_values, IN_TIME, _IN_TIME_QUERY, "{message} expired before {deadline_us} us"),
    block_property(
        judge_kept_values,
        AT_JOIN,
        _AT_JOIN_QUERY,
        "{member} got '{value}' in {view}, whose members saw '{seen}'",
    ),
    block_property(
        judge_kept_values, NOT_OLDER, _NOT_OLDER_QUERY, "{member} is shown '{value}' after a later one"
    ),
    block_property(
        judge_kept_values,
        AT_END,
        _AT_END_QUERY,
        "{member} saw '{value}' last, others '{others}'",
        when_quiet=True,
    ),
)
