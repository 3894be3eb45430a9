"""Judges view synchrony: what members of groups sent and were shown, as the simulator records it.

These are properties of the layer above groups (blocks/flushing.py), by the rules of docs/view_synchrony.md. A
*stay* is one membership of one session; it ends with a leave, the end of the connection, or when others went on
without it. Only messages of members are judged, and none that are Unreliable.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from hopring.check.block_record import BlockFindings, BlockRecord, block_property, verdicts
from hopring.check.properties.property import Verdict

SENDING_VIEW: Final = "V1 sending view delivery: a message is delivered in the view in which it was sent"
SAME_VIEW: Final = "V2 same view delivery: all members that deliver a message do so in the same view"
ALL_AGREED: Final = "V3 no view before all its members have agreed to end the last one"
QUIET_BEFORE: Final = "V4 a member sends nothing between its agreement and its next view"
COMPLETE: Final = "V5 what a member sent in a view precedes the next view at all that come with it"
SYNCHRONY: Final = "V6 virtual synchrony: members that come together have delivered the same messages"
AGREEMENT: Final = "V7 members that install a view agree on its members, and on who comes together"
ALL_ARRIVE: Final = "V8 at the quiet end all members that can reach each other have one open view"


@dataclass(frozen=True, slots=True)
class StayBegan:
    """A session is in the group; it has no view yet."""

    at_us: int
    stay: str
    name: str  # As views name it.


@dataclass(frozen=True, slots=True)
class StayEnded:
    """The membership of this session is over."""

    at_us: int
    stay: str


@dataclass(frozen=True, slots=True)
class SynchronousView:
    """The application was shown a view."""

    at_us: int
    stay: str
    view: str
    members: tuple[str, ...]
    together: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FlushAsked:
    """The application was asked to flush its view."""

    at_us: int
    stay: str


@dataclass(frozen=True, slots=True)
class FlushAgreed:
    """The application agreed to end its view."""

    at_us: int
    stay: str


@dataclass(frozen=True, slots=True)
class AgreementSent:
    """The member told the group that it agrees to this view, for its application or because it has no view."""

    at_us: int
    stay: str
    view: str


@dataclass(frozen=True, slots=True)
class SentInView:
    """The application sent a message."""

    at_us: int
    stay: str
    message: str


@dataclass(frozen=True, slots=True)
class ShownInView:
    """The application got a message of a member."""

    at_us: int
    stay: str
    message: str


@dataclass(frozen=True, slots=True)
class MembersAtEnd:
    """The names of members that can reach each other at a quiet end."""

    at_us: int
    names: tuple[str, ...]


FlushEvent = (
    StayBegan
    | MembersAtEnd
    | StayEnded
    | SynchronousView
    | FlushAsked
    | FlushAgreed
    | AgreementSent
    | SentInView
    | ShownInView
)


@dataclass(slots=True)
class JudgedStay:
    """What is known of one stay."""

    name: str
    view: str = ""
    together: tuple[str, ...] = ()
    asked: bool = False
    agreed: bool = False
    ended: bool = False
    sent: dict[str, list[str]] = field(default_factory=dict)  # By view.
    shown: dict[str, set[str]] = field(default_factory=dict)
    path: dict[str, tuple[str, frozenset[str]]] = field(default_factory=dict)
    """By view: the one before it, and who came along."""


@dataclass(slots=True)
class FlushJudge:
    """The state of the checks while they go through a record."""

    findings: BlockFindings
    names: dict[str, str]  # By stay: as views name it.
    stays: dict[str, JudgedStay] = field(default_factory=dict)
    latest: dict[str, JudgedStay] = field(default_factory=dict)  # By the name in views.
    sent_in: dict[str, str] = field(default_factory=dict)  # The view of each message.
    shown_in: dict[str, str] = field(default_factory=dict)
    members: dict[str, tuple[str, ...]] = field(default_factory=dict)  # Of each view.
    agreed: dict[str, set[str]] = field(default_factory=dict)  # By view: the names of those who agreed to it.

    def see(self, at: int, event: FlushEvent) -> None:
        """Judges the event at this position by those before it."""
        if isinstance(event, MembersAtEnd):
            self._judge_component(event.names)
            return
        if event.stay not in self.stays:
            self.stays[event.stay] = JudgedStay(self.names.get(event.stay, ""))
        stay = self.stays[event.stay]
        match event:
            case StayBegan():
                self.latest[event.name] = stay
            case ShownInView():
                self._shown(at, event, stay)
            case SentInView():
                self._sent(at, event, stay)
            case SynchronousView():
                self._installed(at, event, stay)
            case FlushAsked():
                stay.asked = True
            case FlushAgreed():
                stay.agreed = True
            case AgreementSent():
                if stay.view and not stay.agreed:
                    text = f"{event.stay} agreed to {event.view} without its application"
                    self.findings.at(ALL_AGREED, at, text)
                self.agreed.setdefault(event.view, set()).add(stay.name)
            case StayEnded():
                stay.ended = True

    def _sent(self, at: int, event: SentInView, stay: JudgedStay) -> None:
        if stay.agreed or not stay.view:
            text = f"{event.stay} sent {event.message} at {event.at_us} us, and had agreed"
            self.findings.at(QUIET_BEFORE, at, text)
        self.sent_in[event.message] = stay.view
        stay.sent.setdefault(stay.view, []).append(event.message)

    def _shown(self, at: int, event: ShownInView, stay: JudgedStay) -> None:
        sent_in = self.sent_in.get(event.message)
        where = f"{event.stay} was shown {event.message} at {event.at_us} us in {stay.view or 'no view'}"
        if sent_in != stay.view or not stay.view:
            self.findings.at(SENDING_VIEW, at, f"{where}; it was sent in {sent_in}")
        if self.shown_in.setdefault(event.message, stay.view) != stay.view:
            self.findings.at(SAME_VIEW, at, f"{where}; others in {self.shown_in[event.message]}")
        stay.shown.setdefault(stay.view, set()).add(event.message)

    def _installed(self, at: int, event: SynchronousView, stay: JudgedStay) -> None:
        where = f"{event.stay} installed {event.view} at {event.at_us} us"
        if self.members.setdefault(event.view, event.members) != event.members:
            text = f"{where} with {event.members}, others with {self.members[event.view]}"
            self._disagree(event.view, event.stay, text)
        if stay.name not in event.members or stay.name not in event.together:
            text = f"{where}, and is not in it, or did not come with itself"
            self._disagree(event.view, event.stay, text)
        for name in event.members:
            if name not in self.agreed.get(event.view, ()):
                self.findings.at(ALL_AGREED, at, f"{where}; {name} had not agreed to it")
        for name in event.together:
            self._complete(at, where, stay, name)
        stay.path[event.view] = (stay.view, frozenset(event.together))
        stay.view, stay.together, stay.asked, stay.agreed = event.view, event.together, False, False

    def _complete(self, at: int, where: str, stay: JudgedStay, name: str) -> None:
        other = self.latest.get(name)
        if other is None or not stay.view:
            return
        shown = stay.shown.get(stay.view, set())
        missing = [one for one in other.sent.get(stay.view, ()) if one not in shown]
        if missing:
            self.findings.at(COMPLETE, at, f"{where} without {missing[0]}, which {name} sent in {stay.view}")

    def _disagree(self, view: str, stay: str, text: str, other: str = "") -> None:
        self.findings.add(AGREEMENT, (self.findings.record, view, stay, other), text)

    def judge_pairs(self) -> None:
        """Compares the members that installed the same view."""
        by_view: dict[str, list[tuple[str, JudgedStay]]] = {}
        for key, stay in sorted(self.stays.items()):
            for view in stay.path:
                by_view.setdefault(view, []).append((key, stay))
        for view, stays in by_view.items():
            for at, one in enumerate(stays):
                for other in stays[at + 1 :]:
                    self._pair(view, one, other)

    def _pair(self, view: str, one: tuple[str, JudgedStay], other: tuple[str, JudgedStay]) -> None:
        (key, stay), (other_key, other_stay) = one, other
        (before, together), (other_before, other_together) = stay.path[view], other_stay.path[view]
        with_other, with_one = other_stay.name in together, stay.name in other_together
        pair = f"{key} and {other_key} installed {view}"
        if with_other != with_one or (with_other and (before != other_before or not before)):
            text = f"{pair} from {before or 'none'} and {other_before or 'none'}, disagreeing"
            self._disagree(view, key, text, other_key)
        elif with_other:
            differing = stay.shown.get(before, set()) ^ other_stay.shown.get(before, set())
            if differing:
                text = f"{pair} together; only one was shown {min(differing)} in {before}"
                self.findings.add(SYNCHRONY, (self.findings.record, view, key, other_key), text)

    def _judge_component(self, names: Iterable[str]) -> None:
        """Judges that all living stays of a component, by their names in views, have one open view."""
        known = set(names)
        living = {key: one for key, one in self.stays.items() if not one.ended and one.name in known}
        expected = {one.name for one in living.values()}
        for key, stay in living.items():
            members = set(self.members.get(stay.view, ()))
            if members != expected or stay.asked:
                state = "is asked to flush" if stay.asked else f"has {sorted(members)}"
                text = f"{key} {state}; there are {sorted(expected)}"
                self.findings.add(ALL_ARRIVE, (self.findings.record, key), text)


def judge_view_synchrony(record: BlockRecord) -> BlockFindings:
    """All violations in a record of one group with view synchrony; the components come last."""
    events = [(at, event) for at, event in record.numbered if isinstance(event, FlushEvent)]
    names: dict[str, str] = {}
    for _at, event in events:
        if isinstance(event, StayBegan):
            names.setdefault(event.stay, event.name)
    judge = FlushJudge(BlockFindings(record.name), names)
    for at, event in sorted(events, key=lambda one: isinstance(one[1], MembersAtEnd)):
        judge.see(at, event)
    judge.judge_pairs()
    return judge.findings


def check_view_synchrony(
    events: Iterable[FlushEvent], components: Iterable[Iterable[str]] | None = None
) -> list[Verdict]:
    """A verdict for each property on the history of one group, in the order of its events.

    `components` are the names of members that can reach each other at a quiet end; without them V8 is not
    judged.
    """
    ends = [MembersAtEnd(0, tuple(names)) for names in components or ()]
    return verdicts(FLUSH_PROPERTIES, BlockRecord([*events, *ends], components is not None))


# Queries over the events of all records, which are the table audit_flush.

_EVENTS: Final = """
SELECT e.*, coalesce(n.name, '') AS who,
       coalesce(last(IF(kind = 'view_shown', view, NULL), true) OVER earlier, '') AS inside,
       coalesce(max(IF(kind = 'view_shown', position, NULL)) OVER earlier, -1) AS since,
       max(IF(kind = 'flush_agreed', position, NULL)) OVER earlier AS agreed_at,
       max(IF(kind = 'flush_asked', position, NULL)) OVER whole AS asked_at,
       max(IF(kind = 'view_shown', position, NULL)) OVER whole AS last_view_at,
       bool_or(kind = 'stay_ended') OVER whole AS is_over
FROM audit_flush e LEFT JOIN (
     SELECT run, record, stay, min_by(name, position) AS name
     FROM audit_flush WHERE kind = 'stay_began' GROUP BY run, record, stay) n
     ON n.run = e.run AND n.record = e.record AND n.stay = e.stay
WHERE e.kind <> 'members_at_end'
WINDOW earlier AS (PARTITION BY e.run, e.record, e.stay ORDER BY e.position
                   ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
       whole AS (PARTITION BY e.run, e.record, e.stay)
"""
"""Events with the view that their stay is in, and the last agreement of its application."""

_SENDING_VIEW_QUERY: Final = """
SELECT run, record, position, stay, message
FROM (SELECT *, last(IF(kind = 'sent_in_view', inside, NULL), true) OVER (
                  PARTITION BY run, record, message ORDER BY position
                  ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS sent_in
      FROM audit_flush_events WHERE kind IN ('sent_in_view', 'shown_in_view'))
WHERE kind = 'shown_in_view' AND (inside = '' OR NOT inside <=> sent_in)
"""

_SAME_VIEW_QUERY: Final = """
SELECT run, record, position, stay, message
FROM (SELECT *, first_value(inside) OVER (PARTITION BY run, record, message ORDER BY position) AS first_view
      FROM audit_flush_events WHERE kind = 'shown_in_view')
WHERE inside <> first_view
"""

_AGREED: Final = "coalesce(agreed_at > since, false)"

_ALL_AGREED_QUERY: Final = f"""
SELECT run, record, position, stay FROM audit_flush_events
WHERE kind = 'agreement_sent' AND inside <> '' AND NOT {_AGREED}
UNION ALL
SELECT e.run, e.record, e.position, e.stay
FROM (SELECT *, explode(members) AS member FROM audit_flush_events WHERE kind = 'view_shown') e
     LEFT ANTI JOIN audit_flush_events a
     ON a.run = e.run AND a.record = e.record AND a.kind = 'agreement_sent' AND a.view = e.view
        AND a.who = e.member AND a.position < e.position
"""

_QUIET_QUERY: Final = f"""
SELECT run, record, position, stay, message FROM audit_flush_events
WHERE kind = 'sent_in_view' AND (inside = '' OR {_AGREED})
"""

_COMPLETE_QUERY: Final = """
SELECT e.run, e.record, e.position, e.stay, s.message
FROM (SELECT v.run, v.record, v.position, v.stay, v.inside, max_by(b.stay, b.position) AS other
      FROM (SELECT *, explode(together) AS companion FROM audit_flush_events WHERE kind = 'view_shown') v
           JOIN audit_flush b ON b.run = v.run AND b.record = v.record AND b.kind = 'stay_began'
                AND b.name = v.companion AND b.position < v.position
      WHERE v.inside <> ''
      GROUP BY v.run, v.record, v.position, v.stay, v.inside, v.companion) e
     JOIN audit_flush_events s ON s.run = e.run AND s.record = e.record AND s.kind = 'sent_in_view'
          AND s.stay = e.other AND s.inside = e.inside AND s.position < e.position
     LEFT ANTI JOIN audit_flush_events h
          ON h.run = e.run AND h.record = e.record AND h.kind = 'shown_in_view' AND h.stay = e.stay
             AND h.inside = e.inside AND h.message = s.message AND h.position < e.position
"""

_PATHS: Final = """
SELECT run, record, view, stay, who, inside AS before, together
FROM (SELECT *, row_number() OVER (PARTITION BY run, record, view, stay ORDER BY position DESC) AS nth
      FROM audit_flush_events WHERE kind = 'view_shown')
WHERE nth = 1
"""

_PAIRS: Final = f"""
SELECT a.run, a.record, a.view, a.stay, b.stay AS other, a.before, b.before AS other_before,
       array_contains(a.together, b.who) AS with_other, array_contains(b.together, a.who) AS with_one
FROM ({_PATHS}) a JOIN ({_PATHS}) b
     ON b.run = a.run AND b.record = a.record AND b.view = a.view AND a.stay < b.stay
"""

_SHOWN: Final = """
SELECT run, record, stay, inside, array_sort(collect_set(message)) AS shown
FROM audit_flush_events WHERE kind = 'shown_in_view' GROUP BY run, record, stay, inside
"""

_SYNCHRONY_QUERY: Final = f"""
SELECT p.run, p.record, p.view, p.stay, p.other
FROM ({_PAIRS}) p
     LEFT JOIN ({_SHOWN}) x
          ON x.run = p.run AND x.record = p.record AND x.stay = p.stay AND x.inside = p.before
     LEFT JOIN ({_SHOWN}) y
          ON y.run = p.run AND y.record = p.record AND y.stay = p.other AND y.inside = p.before
WHERE p.with_other AND p.with_one AND p.before = p.other_before AND p.before <> '' AND NOT x.shown <=> y.shown
"""

_AGREEMENT_QUERY: Final = f"""
SELECT run, record, view, stay, '' AS other
FROM (SELECT *, first_value(members) OVER (PARTITION BY run, record, view ORDER BY position) AS first_members
      FROM audit_flush_events WHERE kind = 'view_shown')
WHERE members <> first_members OR NOT array_contains(members, who) OR NOT array_contains(together, who)
UNION ALL
SELECT run, record, view, stay, other FROM ({_PAIRS})
WHERE with_other <> with_one OR (with_other AND (before <> other_before OR before = ''))
"""

_ALL_ARRIVE_QUERY: Final = """
WITH ends AS (
  SELECT run, record, stay, any_value(who) AS who, any_value(is_over) AS is_over,
         coalesce(max_by(IF(kind = 'view_shown', view, NULL), IF(kind = 'view_shown', position, NULL)), '')
         AS view,
         coalesce(any_value(asked_at) > coalesce(any_value(last_view_at), -1), false) AS asked
  FROM audit_flush_events GROUP BY run, record, stay),
living AS (
  SELECT s.*, collect_set(s.who) OVER (PARTITION BY c.run, c.record, c.position) AS expected
  FROM audit_flush c JOIN ends s ON s.run = c.run AND s.record = c.record AND array_contains(c.names, s.who)
  WHERE c.kind = 'members_at_end' AND NOT s.is_over),
sets AS (
  SELECT run, record, view, min_by(members, position) AS members
  FROM audit_flush_events WHERE kind = 'view_shown' GROUP BY run, record, view)
SELECT l.run, l.record, l.stay
FROM living l LEFT JOIN sets m ON m.run = l.run AND m.record = l.record AND m.view = l.view
WHERE l.asked OR m.members IS NULL OR array_sort(array_distinct(m.members)) <> array_sort(l.expected)
"""

_PAIR: Final = ("record", "view", "stay", "other")

FLUSH_TABLES: Final = {"flush_events": _EVENTS}
"""Tables that these queries share."""

FLUSH_PROPERTIES: Final = (
    block_property(
        judge_view_synchrony,
        SENDING_VIEW,
        _SENDING_VIEW_QUERY,
        "{stay} was shown {message} in another view than that in which it was sent",
    ),
    block_property(
        judge_view_synchrony,
        SAME_VIEW,
        _SAME_VIEW_QUERY,
        "{stay} was shown {message} in another view than others",
    ),
    block_property(
        judge_view_synchrony, ALL_AGREED, _ALL_AGREED_QUERY, "{stay} went on before all members had agreed"
    ),
    block_property(
        judge_view_synchrony,
        QUIET_BEFORE,
        _QUIET_QUERY,
        "{stay} sent {message} after it had agreed, or in no view",
    ),
    block_property(
        judge_view_synchrony, COMPLETE, _COMPLETE_QUERY, "{stay} went on without {message} of a companion"
    ),
    block_property(
        judge_view_synchrony,
        SYNCHRONY,
        _SYNCHRONY_QUERY,
        "{stay} and {other} came to {view} together, and were not shown the same messages before",
        names=_PAIR,
    ),
    block_property(
        judge_view_synchrony,
        AGREEMENT,
        _AGREEMENT_QUERY,
        "{stay} disagrees on who is in {view}, and who came along: {other}",
        names=_PAIR,
    ),
    block_property(
        judge_view_synchrony,
        ALL_ARRIVE,
        _ALL_ARRIVE_QUERY,
        "{stay} has not one open view with all that it can reach",
        names=("record", "stay"),
        when_quiet=True,
    ),
)
