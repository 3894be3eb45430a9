"""Requests are carried out: a process gets its own messages (2.15), a session its joins, leaves and end (ours).

Only a quiet end can show that one was not.
"""

from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Final

from hopring.check.client_history import ClientHistory, SessionSend, SessionTrace
from hopring.check.history import History, HistoryNames
from hopring.check.properties.property import IN_GROUP, Clause, Property, PropertyInstance, Violation
from hopring.check.properties.sql import LOOSE, RELIABLE, Masks
from hopring.check.trace import AsksEnd, AsksJoin, AsksLeave, ClientSent, GroupLeft, MessageSent, ProcessName

# Joins, leaves and ends of sessions.


def requests(history: ClientHistory) -> Iterator[Violation]:
    """A session whose daemon is there in the end has seen its joins, its leaves and its end carried out."""
    names = HistoryNames(history.whole)
    for session in history.sessions.values():
        if not session.crashed:
            for group, what in _not_done(history, session):
                facts = (session.process, group)
                yield Violation(facts, partial(str, f"{names.process(session.process)} {what}"))


def _not_done(history: ClientHistory, session: SessionTrace) -> Iterator[tuple[str, str]]:
    if any(isinstance(one, AsksEnd) for one in session.asked):
        if not session.gone:
            yield "", "disconnected, and never ended"
        return  # It may give up what it had asked for before.
    if session.gone:
        yield "", "ended, and never disconnected"
    joins, leaves = (
        Counter([one.group for one in session.asked if isinstance(one, kind)]) for kind in (AsksJoin, AsksLeave)
    )
    left = Counter([one.group for one in session.events if isinstance(one, GroupLeft)])
    begun: Counter[str] = Counter()
    for group, of_group in history.groups.items():
        life = of_group.lives.get(session.process)
        begun[group] = 0 if life is None else sum(stay.before is None for stay in life.stays)
    for group in sorted({*joins, *leaves, *left, *begun}):
        if begun[group] != joins[group]:
            came = f"came to be in it {begun[group]} times"
            yield group, f"asked {joins[group]} times to join {group}, and {came}"
        if left[group] != leaves[group]:
            yield group, f"asked {leaves[group]} times to leave {group}, and left it {left[group]} times"


def _requests_query(_m: Masks) -> str:
    return """
    WITH events AS (
      SELECT run, process, group_name, kind FROM audit_small WHERE kind IN ('join', 'leave', 'left')
      UNION ALL
      SELECT run, process, group_name, 'began' FROM audit_stays WHERE before_view IS NULL),
    counts AS (
      SELECT run, process, group_name, count_if(kind = 'join') AS joins, count_if(kind = 'began') AS began,
             count_if(kind = 'leave') AS leaves, count_if(kind = 'left') AS lefts
      FROM events GROUP BY run, process, group_name)
    SELECT run, process, '' AS group_name, 'disconnected, and never ended' AS flaw
    FROM audit_sessions WHERE NOT crashed AND asked_end IS NOT NULL AND gone_at IS NULL
    UNION ALL
    SELECT run, process, '', 'ended, and never disconnected'
    FROM audit_sessions WHERE NOT crashed AND asked_end IS NULL AND gone_at IS NOT NULL
    UNION ALL
    SELECT c.run, c.process, c.group_name, format_string(
           'asked %d times to join %s and came to be in it %d times, to leave it %d times and left it %d times',
           c.joins, c.group_name, c.began, c.leaves, c.lefts)
    FROM counts c JOIN audit_sessions s ON s.run = c.run AND s.process = c.process
    WHERE NOT s.crashed AND s.asked_end IS NULL AND (c.joins <> c.began OR c.leaves <> c.lefts)
    """


REQUESTS: Final = Property(
    "what a session asks for is carried out",
    (
        Clause(
            "",
            "Every request of a session is carried out.",
            "",
            "Ours: as many first views as joins were asked for, as many `left` as leaves; `gone` if and only"
            " if it disconnected. For sessions whose daemon is there in the end.",
        ),
    ),
    None,
    PropertyInstance(requests, _requests_query, "{process} {flaw}", ("process", IN_GROUP), when_quiet=True),
)

# 2.15.


def self_delivery(history: History) -> Iterator[Violation]:
    """A process that is there at the quiet end has delivered all it sent (in the stamped view, by 2.19)."""
    names = HistoryNames(history)
    for life in history.lives.values():
        if not history.alive_at_quiet_end(life.process):
            continue
        for sending in life.sends:
            if sending.event.service.reliable and sending.number not in life.got:
                facts = (life.process, sending.position)
                yield Violation(facts, partial(_never_delivered, sending.event, names))


def _never_delivered(event: MessageSent | ClientSent, names: HistoryNames) -> str:
    what = f"{names.process(event.process)} sent {names.message(event.message)}"
    return f"{what} at {event.at_us} us and never delivered it"


def _self_delivery_query(m: Masks) -> str:
    return f"""
    SELECT h.run, h.process, s.position
    FROM audit_posts s JOIN audit_stays h ON h.id = s.stay_id
         JOIN audit_lives l ON l.run = h.run AND l.process = h.process AND l.alive
         LEFT JOIN audit_reach r ON r.place = s.place
    WHERE s.service IN {RELIABLE}
          AND (r.place IS NULL OR r.service IN {LOOSE} OR {m.beyond("l.self", "r.got")})
    """


def self_delivery_of_sessions(history: ClientHistory) -> Iterator[Violation]:
    """A session that asked to be in a group and never leaves it gets its own messages to it, in any view."""
    names = HistoryNames(history.whole)
    for process, session in history.sessions.items():
        if not history.alive(process):
            continue
        for posted in session.posted:
            if _owed(session, posted) and not _has(history, process, posted):
                yield Violation((process, posted.position), partial(_never_delivered, posted.event, names))


def _owed(session: SessionTrace, posted: SessionSend) -> bool:
    event = posted.event
    if event.self_discard or event.service.loose:
        return False
    later = {one.group for one in session.asked[posted.asked :] if isinstance(one, AsksLeave)}
    throughout = posted.wanted.intersection(event.groups) - later
    return bool(throughout) or session.private_group in event.groups


def _has(history: ClientHistory, process: ProcessName, posted: SessionSend) -> bool:
    number = history.whole.messages.number.get(posted.event.message)
    return number is not None and history.whole.has(process, number)


def _self_delivery_of_sessions_query(_m: Masks) -> str:
    return f"""
    WITH owed AS (
      SELECT key, session_id, position
      FROM audit_posts WHERE staying AND service IN {RELIABLE} AND NOT discard
      UNION ALL
      SELECT e.key, e.session_id, e.position
      FROM audit_sends e JOIN audit_sessions s ON s.id = e.session_id
      WHERE e.service IN {RELIABLE} AND NOT e.discard AND array_contains(e.groups, s.private_group))
    SELECT s.run, s.process, w.position
    FROM owed w JOIN audit_sessions s ON s.id = w.session_id AND s.alive
         LEFT JOIN audit_own o ON o.session_id = w.session_id AND o.key = w.key
    WHERE o.key IS NULL OR o.service IN {LOOSE}
    """


_SEND: Final = ("process", "position")
_NOT_DELIVERED: Final = "{event}, and it never delivered that"
SELF_DELIVERY: Final = Property(
    "2.15 self delivery",
    (
        Clause(
            "",
            "You get your own messages.",
            "p is there in the end: p delivers all reliable messages it sent.",
            "p had asked to be in a group of m when it sent m, has not asked to leave it since, and is there"
            " in the end: p delivers m. So with m to its private group.",
            "in the view of the stamp, by 2.19(1)",
        ),
    ),
    PropertyInstance(self_delivery, _self_delivery_query, _NOT_DELIVERED, _SEND, when_quiet=True),
    PropertyInstance(
        self_delivery_of_sessions, _self_delivery_of_sessions_query, _NOT_DELIVERED, _SEND, when_quiet=True
    ),
)

PROPERTIES: Final[tuple[Property, ...]] = (REQUESTS, SELF_DELIVERY)
