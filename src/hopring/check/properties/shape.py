"""The shape of every trace: assumptions 2.1 and 2.3 and definition 2.7 of the thesis.

If these do not hold, the trace is wrong or the stamps are, and the verdicts on other properties mean little.
"""

from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import Final

from hopring.check.client_history import ClientHistory, SessionTrace
from hopring.check.history import History, HistoryNames, Life, ProcessSend
from hopring.check.properties.property import Clause, Property, PropertyInstance, Violation, over_all_groups
from hopring.check.properties.sql import RELIABLE, Masks
from hopring.check.trace import (
    KINDS,
    Asked,
    AsksEnd,
    ClientConnected,
    ClientSent,
    Crash,
    Gone,
    GroupLeft,
    MessageDelivered,
    MessageId,
    MessageSent,
    Ord,
    ProcessName,
    Recover,
)
from hopring.check.trace_row import process_text

_EVENT: Final = ("process", "position")

# Assumption 2.1.


def one_life(history: History) -> Iterator[Violation]:
    """Recover first, crash last, and each event in the view that its process is in."""
    names = HistoryNames(history)
    for life in history.lives.values():
        for position, flaw in _flaws_of_life(life, names):
            yield Violation((life.process, position), partial(str, flaw))


def _flaws_of_life(life: Life, names: HistoryNames) -> Iterator[tuple[int, str]]:
    who = names.process(life.process)
    if not isinstance(life.events[0], Recover):
        yield 0, f"{who} has no recover as its first event"
    for place, event in life.borders:
        if isinstance(event, Recover) and place > 0:
            yield place, f"{who} recovered again at {event.at_us} us without a new incarnation"
        if isinstance(event, Crash) and place + 1 < len(life.events):
            more = life.events[place + 1]
            flaw = f"{who} crashed at {event.at_us} us, yet has a {KINDS[type(more)]} at {more.at_us} us"
            yield place + 1, flaw
    for place, misplaced in life.misplaced:
        named = f"its {KINDS[type(misplaced)]} at {misplaced.at_us} us names {names.view(misplaced.view)}"
        yield place, f"{named}, and {who} was in another view"


def _one_life_query(_m: Masks) -> str:
    return """
    SELECT l.run, l.process, 0 AS position, 'is the first and no recover' AS flaw
    FROM audit_lives l LEFT ANTI JOIN audit_small s
         ON s.run = l.run AND s.process = l.process AND s.position = 0 AND s.kind = 'recover'
    UNION ALL
    SELECT run, process, position, 'is a second recover without a new incarnation'
    FROM audit_small WHERE kind = 'recover' AND position > 0
    UNION ALL
    SELECT s.run, s.process, s.position + 1, 'comes after the crash'
    FROM audit_small s JOIN audit_lives l ON l.run = s.run AND l.process = s.process
    WHERE s.kind = 'crash' AND s.position < l.high
    UNION ALL
    SELECT run, process, misplaced_signal, 'names another view than it is in'
    FROM audit_stays WHERE misplaced_signal IS NOT NULL AND stay > 0
    UNION ALL
    SELECT h.run, s.process, d.position, 'names another view than it is in'
    FROM audit_holdings h JOIN audit_wrong_deliveries d ON d.place = h.place AND d.view_id = h.view_id
         JOIN audit_stays s ON s.id = d.stay_id
    WHERE h.misplaced AND h.view IS NOT NULL AND d.misplaced
    """


def one_session(history: ClientHistory) -> Iterator[Violation]:
    """A session connects once and first, asks for nothing after its end, and its signals name its view."""
    names = HistoryNames(history.whole)
    for session in history.sessions.values():
        for position, flaw in _flaws(session, names):
            yield Violation((session.process, position), partial(str, flaw))


def _flaws(session: SessionTrace, names: HistoryNames) -> Iterator[tuple[int, str]]:
    who = names.process(session.process)
    if not isinstance(session.events[0], ClientConnected):
        yield 0, f"{who} has no connect as its first event"
    asked_end = gone = told = False
    for at, event in enumerate(session.events):
        kind = KINDS[type(event)]
        if at and isinstance(event, ClientConnected):
            yield at, f"{who} connected again at {event.at_us} us"
        if gone and not told:
            told = True
            yield at, f"{who} was gone, yet has a {kind} at {event.at_us} us"
        if asked_end and isinstance(event, ClientSent | Asked):
            yield at, f"{who} had disconnected, yet has a {kind} at {event.at_us} us"
        asked_end = asked_end or isinstance(event, AsksEnd)
        gone = gone or isinstance(event, Gone)
    for at, misplaced in session.misplaced:
        yield at, f"{who} was in another view of {misplaced.group} when its signal came at {misplaced.at_us} us"
    for at, stray in session.outside:
        if isinstance(stray, GroupLeft):
            yield at, f"{who} left {stray.group} at {stray.at_us} us and was not in it"


def _one_session_query(_m: Masks) -> str:
    return """
    SELECT run, process, 0 AS position, 'is its first and no connect' AS flaw
    FROM audit_sessions WHERE NOT connected
    UNION ALL
    SELECT run, process, position, 'comes a second time'
    FROM audit_small WHERE kind = 'connect' AND position > 0
    UNION ALL
    SELECT run, process, gone_at + 1, 'comes after its end' FROM audit_sessions WHERE gone_at < high
    UNION ALL
    SELECT s.run, s.process, e.position, 'comes after it had disconnected'
    FROM audit_small e JOIN audit_sessions s ON s.run = e.run AND s.process = e.process
    WHERE e.position > s.asked_end AND e.kind IN ('join', 'leave', 'disconnect')
    UNION ALL
    SELECT s.run, s.process, e.position, 'comes after it had disconnected'
    FROM audit_sends e JOIN audit_sessions s ON s.id = e.session_id WHERE e.position > s.asked_end
    UNION ALL
    SELECT run, process, misplaced_signal, 'names another view than it is in'
    FROM audit_stays WHERE misplaced_signal IS NOT NULL
    UNION ALL
    SELECT run, process, position, 'is of a group that it was not in'
    FROM (SELECT *, lag(kind) OVER (PARTITION BY run, process, group_name ORDER BY position) AS before
          FROM audit_small WHERE kind IN ('view', 'left'))
    WHERE kind = 'left' AND NOT (before <=> 'view')
    """


ONE_LIFE: Final = Property(
    "assumption 2.1 the events of a process make one life",
    (
        Clause(
            "",
            "A process lives once.",
            "The first event is `recover`, and no other is; nothing follows `crash`; deliveries and signals"
            " name the view they are in.",
            "`connect` comes first, nothing after `gone`, no request after `disconnect`; a signal names the"
            " view it is in; only members leave.",
        ),
    ),
    PropertyInstance(one_life, _one_life_query, "{event} {flaw}", _EVENT),
    PropertyInstance(one_session, _one_session_query, "{event}: this {flaw}", _EVENT),
)

# Assumption 2.3.


def sent_once(history: History) -> Iterator[Violation]:
    """No message is sent twice, none in another's name, and the stamp is of the view that the send names."""
    names = HistoryNames(history)
    seen: dict[MessageId, ProcessSend] = {}
    for life in history.lives.values():
        for sending in life.sends:
            event, place = sending.event, (life.process, sending.position)
            first = seen.get(event.message)
            if first is not None:
                later = max((life.process, sending.position), _place_of(first), key=_by_name)
                yield Violation(later, partial(_sent_twice, event, first.event, names))
                continue
            seen[event.message] = sending
            if event.message.sender != life.process:
                yield Violation(place, partial(_not_its_own, event, names))
            if event.view != event.ord.view and event.service.reliable:
                yield Violation(place, partial(_other_view, event, names))


def _place_of(sending: ProcessSend) -> tuple[ProcessName, int]:
    return sending.event.process, sending.position


def _by_name(place: tuple[ProcessName, int]) -> tuple[str, int]:
    return process_text(place[0]), place[1]


def _sent_twice(event: MessageSent, first: MessageSent, names: HistoryNames) -> str:
    return f"{names.send(event)}, and {names.send(first)}"


def _not_its_own(event: MessageSent, names: HistoryNames) -> str:
    return f"{names.send(event)}, which is not its own"


def _other_view(event: MessageSent, names: HistoryNames) -> str:
    views = f"in {names.view(event.view)} with a stamp of {names.view(event.ord.view)}"
    return f"{names.send(event)} {views}"


def _sent_once_query(_m: Masks) -> str:
    return """
    SELECT run, last.process AS process, last.position AS position, 'is sent twice' AS flaw
    FROM (SELECT l.run, max(struct(l.process, s.position)) AS last
          FROM audit_sends s JOIN audit_twice t ON t.key = s.key JOIN audit_stays l ON l.id = s.stay_id
          GROUP BY l.run, s.key)
    UNION ALL
    SELECT run, process, position, 'is sent in the name of another' FROM audit_odd WHERE other_name
    UNION ALL
    SELECT run, process, position, 'has a stamp of another view than it was sent in'
    FROM audit_odd WHERE other_stamp
    """


def sent_once_by_session(history: ClientHistory) -> Iterator[Violation]:
    """No message is sent twice, and none in another's name."""
    names = HistoryNames(history.whole)
    seen: dict[MessageId, ClientSent] = {}
    for session in history.sessions.values():
        for posted in session.posted:
            event, place = posted.event, (session.process, posted.position)
            if event.message in seen:
                yield Violation(place, partial(_posted_twice, event, seen[event.message], names))
                continue
            seen[event.message] = event
            if event.message.sender != event.process:
                yield Violation(place, partial(_posted_for_another, event, names))


def _posted(event: ClientSent, names: HistoryNames) -> str:
    return f"{names.process(event.process)} sent {names.message(event.message)} at {event.at_us} us"


def _posted_twice(event: ClientSent, first: ClientSent, names: HistoryNames) -> str:
    return f"{_posted(event, names)}, and {names.process(first.process)} did at {first.at_us} us"


def _posted_for_another(event: ClientSent, names: HistoryNames) -> str:
    return f"{_posted(event, names)}, which is not its own"


def _sent_once_by_session_query(_m: Masks) -> str:
    return """
    SELECT s.run, s.process, s.position, 'is sent twice' AS flaw
    FROM audit_sends s
         JOIN (SELECT key, max(seen) AS seen FROM audit_sends GROUP BY key HAVING count(*) > 1) k
         ON k.key = s.key AND k.seen = s.seen
    UNION ALL
    SELECT run, process, position, 'is sent in the name of another' FROM audit_sends WHERE process <> sender
    """


_SENT_ONCE_SENTENCE: Final = "the message of {event} {flaw}"
SENT_ONCE: Final = Property(
    "assumption 2.3 a message is sent once, by its sender",
    (
        Clause(
            "",
            "A message is sent once.",
            "One send per message, at the process that its id names; the stamp is of the view that the send"
            " names.",
            "The same, without stamps: a session does not know them when it sends.",
        ),
    ),
    PropertyInstance(sent_once, _sent_once_query, _SENT_ONCE_SENTENCE, _EVENT),
    PropertyInstance(sent_once_by_session, _sent_once_by_session_query, _SENT_ONCE_SENTENCE, _EVENT),
)

# Definition 2.7.


def one_stamp(history: History) -> Iterator[Violation]:
    """Every receiver knows a message by the stamp it was sent with, and no two messages share one."""
    messages, names = history.messages, HistoryNames(history)
    reliable = [n for n, service in enumerate(messages.service) if service.reliable]
    for low, high in pairwise(reliable):
        if messages.ord[low] == messages.ord[high]:
            facts = (messages.ids[low], messages.ids[high])
            yield Violation(facts, partial(_same_stamp, low, high, history))
    for life in history.lives.values():
        for event, number in zip(life.deliveries, life.numbers, strict=True):
            ord_sent = messages.ord[number]
            if event.ord != ord_sent and messages.service[number].reliable:
                facts = (event.message, event.message)
                yield Violation(facts, partial(_other_stamp, event, ord_sent, names))


def _same_stamp(low: int, high: int, history: History) -> str:
    names = HistoryNames(history)
    stamp = names.ord(history.messages.ord[low])
    return f"{names.number(low)} and {names.number(high)} have the same stamp, {stamp}"


def _other_stamp(event: MessageDelivered, ord_sent: Ord, names: HistoryNames) -> str:
    stamps = f"with stamp {names.ord(event.ord)}, others with {names.ord(ord_sent)}"
    return f"{names.delivery(event)} {stamps}"


_OTHER_STAMP: Final = "'was delivered with another stamp than the first of'"


def _one_stamp_query(_m: Masks) -> str:
    return f"""
    SELECT m.run, m.message, o.message AS other_message, 'has the same stamp as' AS flaw
    FROM audit_alike a JOIN audit_named m ON m.place = a.place
         JOIN audit_named o ON o.place = a.other_place
    UNION ALL
    SELECT run, message, message, {_OTHER_STAMP}
    FROM audit_holdings WHERE service IN {RELIABLE} AND other_stamp
    """


def _one_stamp_at_sessions_query(_m: Masks) -> str:
    return f"""
    SELECT one.run, one.message, other.message AS other_message, 'has the same stamp as' AS flaw
    FROM (SELECT min(place) AS low, max(place) AS high FROM audit_messages
          WHERE service IN {RELIABLE} GROUP BY stamp, xxhash64(run) HAVING count(*) > 1) k
         JOIN audit_messages one ON one.place = k.low JOIN audit_messages other ON other.place = k.high
    UNION ALL
    SELECT run, message, message, {_OTHER_STAMP}
    FROM audit_messages WHERE low_stamp <> high_stamp AND service IN {RELIABLE}
    """


_TWO_MESSAGES: Final = ("message", "other_message")
_ONE_STAMP_SENTENCE: Final = "{message} {flaw} {other_message}"
ONE_STAMP: Final = Property(
    "definition 2.7 a message has one place in the order, and no other message has it",
    (
        Clause(
            "",
            "A message has one place in the order.",
            "All deliveries carry the stamp of the send, and no two reliable messages have the same. That"
            " stamps follow causes is checked with 2.12.",
        ),
    ),
    PropertyInstance(one_stamp, _one_stamp_query, _ONE_STAMP_SENTENCE, _TWO_MESSAGES),
    PropertyInstance(
        over_all_groups(one_stamp), _one_stamp_at_sessions_query, _ONE_STAMP_SENTENCE, _TWO_MESSAGES
    ),
)

PROPERTIES: Final[tuple[Property, ...]] = (ONE_LIFE, SENT_ONCE, ONE_STAMP)
