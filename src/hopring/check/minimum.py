"""Judges minimum sizes: what members of a group with a minimum were told, as the simulator records it.

These are properties of ours, after R7 of RMP. A member is one membership of one session. A minimum is a number
of members, 0 for none, or the code of MAJORITY or ALL.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from hopring.check.block_record import BlockFindings, BlockRecord, block_property, verdicts
from hopring.check.properties.property import Verdict

NOT_WHILE_SUSPENDED: Final = "M1 nothing ordered is delivered in a suspended group"
ALIKE: Final = "M2 members of a view are told the same of its minimum"
WHEN_MISSED: Final = "M3 a group is suspended if and only if its minimum is not met"
KEPT: Final = "M4 a split does not lower the minimum"
NONE_WAITS: Final = "M5 nobody waits at the quiet end for a group that goes on"

MAJORITY: Final = -1
ALL: Final = -2


@dataclass(frozen=True, slots=True)
class MinimumView:
    """A member is shown a view."""

    at_us: int
    member: str
    view: str
    members: int
    minimum: int  # The one in force.
    suspended: bool
    primary: bool
    split: bool  # A change of network took members, and brought none.
    closing: bool = (
        False  # It follows a signal: some of the members are judged, and the view does not say which.
    )


@dataclass(frozen=True, slots=True)
class MinimumSignal:
    """A member is shown a transitional signal."""

    at_us: int
    member: str
    members: int  # Those that stay together.
    suspended: bool


@dataclass(frozen=True, slots=True)
class OrderedShown:
    """A member is given an ordered message of the group."""

    at_us: int
    member: str
    message: str


@dataclass(frozen=True, slots=True)
class SenderWaits:
    """At the quiet end a message waits for long, though the group goes on."""

    at_us: int
    member: str
    message: str


MinimumEvent = MinimumView | MinimumSignal | OrderedShown | SenderWaits

Told = tuple[int, int, bool, bool]
"""What a view says: the number of members, the minimum, whether it is suspended, and primary."""


def _missed(minimum: int, members: int, primary: bool | None) -> bool | None:
    """Whether a minimum is not met; None if that cannot be told."""
    if minimum == ALL or (minimum == MAJORITY and primary is None):
        return None
    return not primary if minimum == MAJORITY else members < minimum


@dataclass(slots=True)
class MinimumJudge:
    """The state of the checks while they go through a record."""

    findings: BlockFindings
    suspended: dict[str, bool] = field(default_factory=dict)  # By member.
    minimum: dict[str, int] = field(default_factory=dict)  # Of its last view, by member.
    views: dict[str, Told] = field(default_factory=dict)

    def see(self, at: int, event: object) -> None:
        """Judges the event at this position by those before it."""
        if isinstance(event, MinimumView):
            self._view(at, event)
        elif isinstance(event, MinimumSignal):
            self._signal(at, event)
        elif isinstance(event, OrderedShown):
            if self.suspended.get(event.member, False):
                self.findings.at(NOT_WHILE_SUSPENDED, at, f"{event.member} got {event.message} while suspended")
        elif isinstance(event, SenderWaits):
            self.findings.at(NONE_WAITS, at, f"{event.message} of {event.member} waits")

    def _view(self, at: int, event: MinimumView) -> None:
        told = event.members, event.minimum, event.suspended, event.primary
        first = self.views.setdefault(event.view, told)
        if told != first:
            self.findings.at(ALIKE, at, f"{event.member} is told {told} of {event.view}, others {first}")
        missed = _missed(event.minimum, event.members, event.primary)
        if missed is not None and missed is not event.suspended and not event.closing:
            self.findings.at(WHEN_MISSED, at, f"{event.member} in {event.view}: {told}")
        before = self.minimum.get(event.member, 0)
        lower = event.minimum < before if event.suspended else event.members < before
        if event.split and before > 0 and event.minimum >= 0 and lower:
            self.findings.at(KEPT, at, f"{event.member} in {event.view}: {told} after a minimum of {before}")
        self.minimum[event.member] = event.minimum
        self.suspended[event.member] = event.suspended

    def _signal(self, at: int, event: MinimumSignal) -> None:
        minimum = self.minimum.get(event.member, 0)
        missed = _missed(minimum, event.members, None)
        if missed is not None and missed is not event.suspended:
            text = f"{event.member} with {event.members} of {minimum}: suspended {event.suspended}"
            self.findings.at(WHEN_MISSED, at, text)
        self.suspended[event.member] = event.suspended


def judge_minimum(record: BlockRecord) -> BlockFindings:
    """All violations in a record of a group with a minimum."""
    judge = MinimumJudge(BlockFindings(record.name))
    for at, event in record.numbered:
        judge.see(at, event)
    return judge.findings


def check_minimum(events: Iterable[MinimumEvent], quiet_end: bool) -> list[Verdict]:
    """A verdict for each property on one history, in the order of its events."""
    return verdicts(MINIMUM_PROPERTIES, BlockRecord([*events], quiet_end))


# Queries over the events of all records, which are the table audit_minimum.

_OF_MEMBER: Final = "PARTITION BY run, record, member ORDER BY position"
_BEFORE: Final = f"({_OF_MEMBER} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"

_NOT_WHILE_SUSPENDED_QUERY: Final = f"""
SELECT run, record, position, member, message
FROM (SELECT *, last(suspended, true) OVER {_BEFORE} AS was FROM audit_minimum)
WHERE kind = 'ordered_shown' AND coalesce(was, false)
"""

_ALIKE_QUERY: Final = """
SELECT run, record, position, member, view
FROM (SELECT *, first(struct(members, minimum, suspended, primary))
                OVER (PARTITION BY run, record, view ORDER BY position) AS others
      FROM audit_minimum WHERE kind = 'minimum_view')
WHERE others <> struct(members, minimum, suspended, primary)
"""

_WHEN_MISSED_QUERY: Final = f"""
SELECT run, record, position, member, members, suspended
FROM (SELECT *, coalesce(IF(kind = 'minimum_view', minimum, last(minimum, true) OVER {_BEFORE}), 0) AS wanted
      FROM audit_minimum)
WHERE (kind = 'minimum_view' OR (kind = 'minimum_signal' AND wanted >= 0)) AND wanted <> {ALL}
  AND NOT coalesce(closing, false)
  AND suspended <> IF(wanted = {MAJORITY}, NOT primary, members < wanted)
"""

_KEPT_QUERY: Final = f"""
SELECT run, record, position, member, view, before
FROM (SELECT *, lag(minimum) OVER ({_OF_MEMBER}) AS before FROM audit_minimum WHERE kind = 'minimum_view')
WHERE split AND before > 0 AND minimum >= 0 AND IF(suspended, minimum < before, members < before)
"""

_NONE_WAITS_QUERY: Final = """
SELECT run, record, position, member, message FROM audit_minimum WHERE kind = 'sender_waits'
"""

MINIMUM_PROPERTIES: Final = (
    block_property(
        judge_minimum,
        NOT_WHILE_SUSPENDED,
        _NOT_WHILE_SUSPENDED_QUERY,
        "{member} got {message} while suspended",
    ),
    block_property(judge_minimum, ALIKE, _ALIKE_QUERY, "{member} is told something else of {view} than others"),
    block_property(
        judge_minimum, WHEN_MISSED, _WHEN_MISSED_QUERY, "{member} with {members}: suspended {suspended}"
    ),
    block_property(judge_minimum, KEPT, _KEPT_QUERY, "{member} in {view} after a minimum of {before}"),
    block_property(
        judge_minimum, NONE_WAITS, _NONE_WAITS_QUERY, "{message} of {member} waits", when_quiet=True
    ),
)
