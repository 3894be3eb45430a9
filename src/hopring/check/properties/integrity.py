"""Each delivery for itself: nothing comes twice (2.5), nothing comes from nowhere (2.6)."""

from collections.abc import Iterator
from functools import partial
from typing import Final

from hopring.check.client_history import ClientHistory
from hopring.check.history import History, HistoryNames, Life, Stay
from hopring.check.properties.property import Clause, Property, PropertyInstance, Violation, over_all_groups
from hopring.check.properties.sql import Masks
from hopring.check.trace import ClientDelivered, MessageDelivered, MessageId, MessageSent

# 2.5.


def no_duplication(history: History) -> Iterator[Violation]:
    """A process delivers a message at most once, whatever its service."""
    names = HistoryNames(history)
    for life in history.lives.values():
        if len(life.numbers) == len(set(life.numbers)):
            continue
        seen: dict[int, MessageDelivered] = {}
        for event, number in zip(life.deliveries, life.numbers, strict=True):
            if number in seen:
                facts = (life.process, event.message)
                yield Violation(facts, partial(_again, event, seen[number], names))
            seen.setdefault(number, event)


def _again(event: MessageDelivered, before: MessageDelivered, names: HistoryNames) -> str:
    return f"{names.delivery(event)}, and before that at {before.at_us} us"


def _no_duplication_query(_m: Masks) -> str:
    """More deliveries of a message than processes that have it mean that one has it twice."""
    return """
    SELECT /*+ BROADCAST(h) */ h.run, s.process, h.message, max(d.position) AS position,
           min(d.position) AS before
    FROM (SELECT DISTINCT run, place, message FROM audit_holdings WHERE twice) h
         JOIN audit_wrong_deliveries d ON d.place = h.place JOIN audit_stays s ON s.id = d.stay_id
    GROUP BY h.run, s.process, h.place, h.message HAVING count(*) > 1
    """


def _no_duplication_at_sessions_query(_m: Masks) -> str:
    """The same in each group; a session that has nothing to do with a group is looked at by itself."""
    return """
    SELECT s.run, s.process, x.message, d.position, d.before
    FROM (SELECT /*+ BROADCAST(k) */ d.session_id, d.key, max(d.position) AS position, min(d.position) AS before
          FROM audit_deliveries d JOIN (
               SELECT DISTINCT key FROM audit_holdings WHERE doubled
               UNION SELECT key FROM audit_deliveries WHERE head AND number IS NULL
                     GROUP BY session_id, key HAVING count(*) > 1) k ON k.key = d.key
          WHERE d.head GROUP BY d.session_id, d.key HAVING count(*) > 1) d
         JOIN audit_sessions s ON s.id = d.session_id JOIN audit_messages x ON x.key = d.key
    """


_DELIVERY: Final = ("process", "message")
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
    PropertyInstance(no_duplication, _no_duplication_query, _TWICE, _DELIVERY),
    PropertyInstance(over_all_groups(no_duplication), _no_duplication_at_sessions_query, _TWICE, _DELIVERY),
)

# 2.6.


# Of several flaws the first is the nearest to the cause.
_NOBODY, _OTHER_SERVICE, _TOO_EARLY, _STRANGE = 1, 2, 3, 4


def delivery_integrity(history: History) -> Iterator[Violation]:
    """Every delivered message was sent, with that service, by a member of the view; one's own before."""
    for life in history.lives.values():
        yield from _out_of_nothing(history, life)
        yield from _from_strangers(history, life)


def _out_of_nothing(history: History, life: Life) -> Iterator[Violation]:
    """Deliveries of messages that nobody sent, or sent otherwise, or of one's own before it was sent."""
    messages, names = history.messages, HistoryNames(history)
    for event, number in zip(life.deliveries, life.numbers, strict=True):
        sent = messages.sent[number]
        if sent is None:
            yield Violation((_NOBODY, event.message), partial(_never_sent, event, names))
        elif event.service is not sent.service:
            yield Violation((_OTHER_SERVICE, event.message), partial(_other_service, event, sent, names))
    own = {sending.number: sending for sending in reversed(life.sends)}
    for place, number in enumerate(life.numbers):
        if number in own and place < own[number].heard:
            event = life.deliveries[place]
            yield Violation((_TOO_EARLY, event.message), partial(_too_early, event, own[number].event, names))


def _never_sent(event: MessageDelivered, names: HistoryNames) -> str:
    return f"{names.delivery(event)}, which nobody sent"


def _other_service(event: MessageDelivered, sent: MessageSent, names: HistoryNames) -> str:
    return f"{names.delivery(event)} as {event.service.name}, but it was sent as {sent.service.name}"


def _too_early(event: MessageDelivered, sent: MessageSent, names: HistoryNames) -> str:
    return f"{names.delivery(event)}, but sent it only later, at {sent.at_us} us"


def _from_strangers(history: History, life: Life) -> Iterator[Violation]:
    """The daemons are a closed group (the thesis' footnote to 2.6)."""
    messages = history.messages
    for stay in life.stays:
        for number in stay.everything:
            if messages.sender[number] not in stay.members:
                facts = (_STRANGE, messages.ids[number])
                yield Violation(facts, partial(_not_a_member, history, stay, number))


def _not_a_member(history: History, stay: Stay, number: int) -> str:
    names = HistoryNames(history)
    sender = names.process(history.messages.sender[number])
    return f"{names.delivered(stay.process, number)}, but {sender} is not in its {names.view(stay.view)}"


def _delivery_integrity_query(m: Masks) -> str:
    return f"""
    SELECT run, {_NOBODY} AS severity, message, view, 'nobody sent it' AS flaw
    FROM audit_holdings WHERE not_sent
    UNION ALL
    SELECT run, {_OTHER_SERVICE}, message, view, 'it was sent with another service'
    FROM audit_holdings WHERE other_service AND NOT not_sent
    UNION ALL
    SELECT run, {_TOO_EARLY}, message, view, 'its sender had not sent it yet, and delivered it'
    FROM audit_holdings WHERE too_early
    UNION ALL
    SELECT /*+ BROADCAST(o) */ h.run, {_STRANGE}, h.message, h.view, 'its sender is not in that view'
    FROM audit_holdings h JOIN audit_owed o ON o.view_id = h.view_id AND o.kind = 'members'
    WHERE h.view IS NOT NULL AND NOT {m.overlap("h.sender", "o.owed")} AND {m.overlap("h.here", "o.said_by")}
    """


def integrity_at_sessions(history: ClientHistory) -> Iterator[Violation]:
    """Every delivered message was sent, with that service and to these groups; anybody may send to a group."""
    for life in history.whole.lives.values():
        yield from _out_of_nothing(history.whole, life)
    names = HistoryNames(history.whole)
    groups: dict[MessageId, tuple[str, ...]] = {
        posted.event.message: posted.event.groups
        for session in history.sessions.values()
        for posted in session.posted
    }
    for session in history.sessions.values():
        for event in session.events:
            # If nobody sent it, that was said before.
            if isinstance(event, ClientDelivered) and groups.get(event.message, event.groups) != event.groups:
                facts = (_STRANGE, event.message)
                yield Violation(facts, partial(_other_groups, event, groups[event.message], names))


def _other_groups(event: ClientDelivered, sent_to: tuple[str, ...], names: HistoryNames) -> str:
    what = f"{names.process(event.process)} delivered {names.message(event.message)}"
    sets = f"for {' '.join(event.groups)}, but it was sent to {' '.join(sent_to)}"
    return f"{what} at {event.at_us} us {sets}"


def _integrity_at_sessions_query(_m: Masks) -> str:
    return f"""
    SELECT run, {_NOBODY} AS severity, message, 'nobody sent it' AS flaw FROM audit_messages WHERE NOT sent
    UNION ALL
    SELECT run, {_OTHER_SERVICE}, message, 'it was sent with another service'
    FROM audit_messages WHERE sent AND (low_service <> service OR high_service <> service)
    UNION ALL
    SELECT run, {_STRANGE}, message, 'it was sent to other groups'
    FROM audit_messages WHERE sent AND (low_groups <> groups_hash OR high_groups <> groups_hash)
    UNION ALL
    SELECT x.run, {_TOO_EARLY}, x.message, 'its sender had not sent it yet, and delivered it'
    FROM audit_own o JOIN audit_messages x ON x.key = o.key WHERE o.position < o.sent_at
    """


_INTEGRITY: Final = ("severity", "message")
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
        delivery_integrity,
        _delivery_integrity_query,
        "{message} was delivered in {view}, but {flaw}",
        _INTEGRITY,
    ),
    PropertyInstance(
        integrity_at_sessions, _integrity_at_sessions_query, "{message} was delivered, but {flaw}", _INTEGRITY
    ),
)

PROPERTIES: Final[tuple[Property, ...]] = (NO_DUPLICATION, DELIVERY_INTEGRITY)
