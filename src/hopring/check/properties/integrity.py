"""Each delivery for itself: nothing comes twice (2.5), nothing comes from nowhere (2.6)."""

from collections.abc import Iterator
from typing import Final

from hopring.check.client_history import ClientHistory
from hopring.check.history import History, HistoryNames, Life
from hopring.check.properties.property import Clause, Property, PropertyInstance, over_all_groups
from hopring.check.properties.sql import Masks
from hopring.check.trace import ClientDelivered, MessageDelivered, MessageId

# 2.5.


def no_duplication(history: History) -> str:
    """A process delivers a message at most once, whatever its service."""
    names = HistoryNames(history)
    for life in history.lives.values():
        seen: dict[int, MessageDelivered] = {}
        for event, number in zip(life.deliveries, life.numbers, strict=True):
            if number in seen:
                return f"{names.delivery(event)}, and before that at {seen[number].at_us} us"
            seen[number] = event
    return ""


def _no_duplication_query(_m: Masks) -> str:
    """More deliveries of a message than processes that have it mean that one has it twice."""
    return """
    SELECT /*+ BROADCAST(h) */ h.run, s.process, max(d.position) AS position, min(d.position) AS before
    FROM (SELECT DISTINCT run, place FROM audit_holdings WHERE twice) h
         JOIN audit_deliveries d ON d.place = h.place JOIN audit_stays s ON s.id = d.stay_id
    GROUP BY h.run, s.process, h.place HAVING count(*) > 1
    """


def _no_duplication_at_sessions_query(_m: Masks) -> str:
    """The same in each group; a session that has nothing to do with a group is looked at by itself."""
    return """
    SELECT s.run, s.process, d.position, d.before
    FROM (SELECT /*+ BROADCAST(k) */ d.session_id, d.key, max(d.position) AS position, min(d.position) AS before
          FROM audit_deliveries d JOIN (
               SELECT DISTINCT key FROM audit_holdings WHERE doubled
               UNION SELECT key FROM audit_deliveries WHERE head AND number IS NULL
                     GROUP BY session_id, key HAVING count(*) > 1) k ON k.key = d.key
          WHERE d.head GROUP BY d.session_id, d.key HAVING count(*) > 1) d
         JOIN audit_sessions s ON s.id = d.session_id
    """


_TWICE: Final = "{event}, which it had delivered before (its event {before})"
NO_DUPLICATION: Final = Property(
    "2.5 no duplication",
    (
        Clause(
            "",
            "Nothing comes twice.",
            "A process delivers a message at most once.",
            "The same: once, through however many groups.",
        ),
    ),
    PropertyInstance(no_duplication, _no_duplication_query, _TWICE),
    PropertyInstance(over_all_groups(no_duplication), _no_duplication_at_sessions_query, _TWICE),
)

# 2.6.


def delivery_integrity(history: History) -> str:
    """Every delivered message was sent, with that service, by a member of the view; one's own before."""
    for life in history.lives.values():
        for witness in (*_out_of_nothing(history, life), *_from_strangers(history, life)):
            return witness
    return ""


def _out_of_nothing(history: History, life: Life) -> Iterator[str]:
    """Deliveries of messages that nobody sent, or sent otherwise, or of one's own before it was sent."""
    messages, names = history.messages, HistoryNames(history)
    for event, number in zip(life.deliveries, life.numbers, strict=True):
        sent = messages.sent[number]
        if sent is None:
            yield f"{names.delivery(event)}, which nobody sent"
        elif event.service is not sent.service:
            yield f"{names.delivery(event)} as {event.service.name}, but it was sent as {sent.service.name}"
    own = {sending.number: sending for sending in reversed(life.sends)}
    for place, number in enumerate(life.numbers):
        if number in own and place < own[number].heard:
            later = f"but sent it only later, at {own[number].event.at_us} us"
            yield f"{names.delivery(life.deliveries[place])}, {later}"


def _from_strangers(history: History, life: Life) -> Iterator[str]:
    """The daemons are a closed group (the thesis' footnote to 2.6)."""
    messages, names = history.messages, HistoryNames(history)
    for stay in life.stays:
        for number in stay.everything:
            sender = messages.sender[number]
            if sender not in stay.members:
                what = names.delivered(life.process, number)
                yield f"{what}, but {names.process(sender)} is not in its {names.view(stay.view)}"


def _delivery_integrity_query(m: Masks) -> str:
    return f"""
    SELECT run, message, view, 'nobody sent it' AS flaw FROM audit_holdings WHERE not_sent
    UNION ALL
    SELECT run, message, view, 'it was sent with another service'
    FROM audit_holdings WHERE other_service AND NOT not_sent
    UNION ALL
    SELECT run, message, view, 'its sender had not sent it yet, and delivered it'
    FROM audit_holdings WHERE too_early
    UNION ALL
    SELECT /*+ BROADCAST(o) */ h.run, h.message, h.view, 'its sender is not in that view'
    FROM audit_holdings h JOIN audit_owed o ON o.view_id = h.view_id AND o.kind = 'members'
    WHERE h.view IS NOT NULL AND NOT {m.overlap("h.sender", "o.owed")} AND {m.overlap("h.here", "o.said_by")}
    """


def integrity_at_sessions(history: ClientHistory) -> str:
    """Every delivered message was sent, with that service and to these groups; anybody may send to a group."""
    for life in history.whole.lives.values():
        for witness in _out_of_nothing(history.whole, life):
            return witness
    names = HistoryNames(history.whole)
    groups: dict[MessageId, tuple[str, ...]] = {
        posted.event.message: posted.event.groups
        for session in history.sessions.values()
        for posted in session.posted
    }
    for session in history.sessions.values():
        for event in session.events:
            if isinstance(event, ClientDelivered) and groups[event.message] != event.groups:
                what = f"{names.process(event.process)} delivered {names.message(event.message)}"
                sets = f"for {' '.join(event.groups)}, but it was sent to {' '.join(groups[event.message])}"
                return f"{what} at {event.at_us} us {sets}"
    return ""


def _integrity_at_sessions_query(_m: Masks) -> str:
    return """
    SELECT run, message, 'nobody sent it' AS flaw FROM audit_messages WHERE NOT sent
    UNION ALL
    SELECT run, message, 'it was sent with another service'
    FROM audit_messages WHERE sent AND (low_service <> service OR high_service <> service)
    UNION ALL
    SELECT run, message, 'it was sent to other groups'
    FROM audit_messages WHERE sent AND (low_groups <> groups_hash OR high_groups <> groups_hash)
    UNION ALL
    SELECT x.run, x.message, 'its sender had not sent it yet, and delivered it'
    FROM audit_own o JOIN audit_messages x ON x.key = o.key WHERE o.position < o.sent_at
    """


DELIVERY_INTEGRITY: Final = Property(
    "2.6 delivery integrity",
    (
        Clause(
            "",
            "Nothing comes from nowhere.",
            "The message was sent, with that service; one's own was sent earlier; by a member of the receiver's"
            " view.",
            "The message was sent, with that service, to these groups; one's own earlier. Groups are open:"
            " anybody may send.",
            "membership of the sender: daemons are a closed group",
        ),
    ),
    PropertyInstance(
        delivery_integrity, _delivery_integrity_query, "{message} was delivered in {view}, but {flaw}"
    ),
    PropertyInstance(
        integrity_at_sessions, _integrity_at_sessions_query, "{message} was delivered, but {flaw}"
    ),
)

PROPERTIES: Final = (NO_DUPLICATION, DELIVERY_INTEGRITY)
