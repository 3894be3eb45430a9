"""The view that a message is delivered in: 2.19, with 2.9, and 2.18."""

from collections.abc import Iterator
from functools import partial
from typing import Final

from hopring.check.client_history import ClientHistory, SessionSend, SessionTrace
from hopring.check.history import History, HistoryNames, Life, Stay
from hopring.check.properties.property import (
    IN_GROUP,
    Clause,
    Property,
    PropertyInstance,
    Violation,
    in_each_group,
)
from hopring.check.properties.sql import TOTAL, Masks
from hopring.check.trace import AsksLeave, MessageSent, ProcessName, ViewName

# 2.19 with 2.9.


def sane_view_delivery(history: History) -> Iterator[Violation]:
    """A message is delivered in the view it was stamped in, which is not earlier than that of its send.

    The thesis only wants no earlier view than that of the send; daemons promise the very view, to messages of
    all services (2.2.5), loose ones too. Its clause on restarts compares view ids over lives of a daemon,
    which holds only where the counter of views survives.
    """
    for life in history.lives.values():
        yield from _elsewhere(history, life)
    if history.counters_survive:
        yield from _before_the_restart(history)


def _elsewhere(history: History, life: Life) -> Iterator[Violation]:
    sent = history.messages.sent
    for sending in life.sends:
        event, stay = sending.event, sending.stay
        if stay is not None and event.view < stay.view:
            yield Violation(("(1)", event.message), partial(_sent_earlier, history, event, stay))
    for stay in life.stays:
        for number in stay.everything:
            send = sent[number]
            if send is not None and send.view != stay.view:
                yield Violation(("(1)", send.message), partial(_stamped_elsewhere, history, stay, number, send))


def _sent_earlier(history: History, event: MessageSent, stay: Stay) -> str:
    names = HistoryNames(history)
    return f"(1) {names.send(event)} in {names.view(stay.view)} with a stamp of {names.view(event.view)}"


def _stamped_elsewhere(history: History, stay: Stay, number: int, send: MessageSent) -> str:
    names = HistoryNames(history)
    what = f"{names.delivered(stay.process, number)} in {names.view(stay.view)}"
    return f"(1) {what}, but it was stamped in {names.view(send.view)}"


def _before_the_restart(history: History) -> Iterator[Violation]:
    """(2): messages of an earlier life are delivered only in views before the first one of the next."""
    bounds = _first_views_after(history)
    if not bounds:
        return
    for stay in history.stays:
        for number in stay.everything:
            bound = bounds.get(history.messages.sender[number])
            if bound is not None and stay.view >= bound:
                facts = ("(2)", history.messages.ids[number])
                yield Violation(facts, partial(_after_the_restart, history, stay, number, bound))


def _after_the_restart(history: History, stay: Stay, number: int, bound: ViewName) -> str:
    names = HistoryNames(history)
    what = f"{names.delivered(stay.process, number)} in {names.view(stay.view)}"
    daemon = history.messages.sender[number].daemon
    return f"(2) {what}, but {daemon} had started again, in {names.view(bound)}"


def _first_views_after(history: History) -> dict[ProcessName, ViewName]:
    """For each life that was followed by another: the lowest view that a later one began with."""
    bounds: dict[ProcessName, ViewName] = {}
    for starts in history.starts.values():
        lowest: ViewName | None = None
        for process in reversed(starts):
            if lowest is not None:
                bounds[process] = lowest
            stays = history.lives[process].stays
            if stays and (lowest is None or stays[0].view < lowest):
                lowest = stays[0].view
    return bounds


def _sane_view_query(_m: Masks) -> str:
    return """
    SELECT run, '(1)' AS clause, message, view, sent_view AS other_view, 'it was stamped in' AS flaw
    FROM audit_holdings WHERE elsewhere
    UNION ALL
    SELECT run, '(1)', message, view, stay_view, 'its sender sent it in' FROM audit_odd WHERE earlier_view
    UNION ALL
    SELECT /*+ BROADCAST(b) */ h.run, '(2)', h.message, h.view, b.bound, 'its daemon had started again in'
    FROM audit_holdings h JOIN (
      SELECT l.run, l.process, min(s.view) OVER (PARTITION BY l.run, l.daemon ORDER BY l.start
             ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS bound
      FROM audit_lives l JOIN audit_ends e ON e.run = l.run AND e.counters_survive
           LEFT JOIN audit_stays s ON s.run = l.run AND s.process = l.process AND s.stay = 1) b
         ON b.run = h.run AND b.process = h.sender
    WHERE h.view >= b.bound
    """


def sane_view_at_sessions(history: ClientHistory) -> Iterator[Violation]:
    """An agreed message of a member comes in no earlier view than its sender was in when it sent it.

    A session that has asked to leave sends as a non-member: the leave is before the message in the order.
    Behind the signal it holds for senders in its set: what made the view of another one may be lost here.
    """
    sent_in = _views_of_sends(history)
    for group_name, group in sorted(history.groups.items()):
        service, ids = group.messages.service, group.messages.ids
        for stay in group.stays:
            for at, number in enumerate(stay.delivered):
                origin = sent_in[group_name].get(number)
                if origin is None or not service[number].total or _is_parted(stay, at, origin.process):
                    continue
                if stay.view < origin.view:
                    facts = (group_name, ids[number])
                    yield Violation(facts, partial(_before_its_send, group, stay, number, origin))


def _before_its_send(group: History, stay: Stay, number: int, origin: Stay) -> str:
    names = HistoryNames(group)
    what = f"{names.delivered(stay.process, number)} in {names.view(stay.view)}"
    return f"{what}, but it was sent in {names.view(origin.view)}"


def _views_of_sends(history: ClientHistory) -> dict[str, dict[int, Stay]]:
    """By group and message of a member: the stay in which it was sent."""
    sent_in: dict[str, dict[int, Stay]] = {group: {} for group in history.groups}
    number = history.whole.messages.number
    for session in history.sessions.values():
        for posted in session.posted:
            for group in posted.event.groups:
                if posted.event.message in number and _is_member(session, posted, group):
                    sent_in[group][number[posted.event.message]] = posted.stays[group]
    return sent_in


def _is_member(session: SessionTrace, posted: SessionSend, group: str) -> bool:
    if group not in posted.stays or group in posted.wanted:
        return group in posted.stays
    before = session.asked[: posted.asked]
    return not any(isinstance(one, AsksLeave) and one.group == group for one in before)


def _is_parted(stay: Stay, at: int, sender: ProcessName) -> bool:
    """Whether the delivery comes behind a signal that parts it from the sender."""
    return stay.cut is not None and at >= stay.cut and sender not in stay.signals[0].together


def _sane_view_at_sessions_query(m: Masks) -> str:
    return f"""
    SELECT h.run, h.message, h.group_name, h.view, o.view AS other_view
    FROM audit_holdings h JOIN audit_origins o ON o.key = h.key AND o.group_id = h.group_id
         LEFT JOIN audit_stays s
              ON s.view_id = h.view_id AND {m.overlap("s.self", "h.late")}
                 AND {m.overlap("o.self", "s.signal_together")}
    WHERE h.service IN {TOTAL} AND h.view < o.view AND ({m.some("h.early")} OR s.id IS NOT NULL)
    """


SANE_VIEW: Final = Property(
    "2.19 sane view delivery",
    (
        Clause(
            "(1)",
            "A message stays in its view.",
            "Of 2.9, too. It is delivered in the view it was stamped in, and that is not earlier than its"
            " sender's view at the send.",
            "Weaker: an agreed message of a member comes in no earlier view than its sender was in at the"
            " send. Who has asked to leave is no member. Behind the signal it holds for senders in its set: of"
            " another one's view, what made it may be lost here.",
            "the very view; plain EVS forbids only an earlier one, and only for agreed messages",
        ),
        Clause(
            "(2)",
            "The past of a daemon stays in the past.",
            "A message of an earlier life of a daemon is delivered only in views below the first view of each"
            " later life.",
            "Judged among daemons only.",
        ),
    ),
    PropertyInstance(
        sane_view_delivery,
        _sane_view_query,
        "{clause} {message} was delivered in {view}, but {flaw} {other_view}",
        ("clause", "message"),
    ),
    PropertyInstance(
        sane_view_at_sessions,
        _sane_view_at_sessions_query,
        "{message} was delivered in {view}, but it was sent in {other_view}",
        (IN_GROUP, "message"),
    ),
)

# 2.18.


def same_view_delivery(history: History) -> Iterator[Violation]:
    """All who deliver a message do so in the same view."""
    return _in_two_views(history, ((stay, stay.everything) for stay in history.stays))


def same_view_before_signal(history: History) -> Iterator[Violation]:
    """Agreed messages that are delivered before the signal are so in one view.

    Weaker than among daemons: after the signal two sides may be in views of their own, and Reliable and FIFO
    messages may come in the view before a join or a leave here, and behind it there.
    """
    service = history.messages.service
    agreed = ((stay, [one for one in stay.regular if service[one].total]) for stay in history.stays)
    return _in_two_views(history, agreed)


def _in_two_views(history: History, deliveries: Iterator[tuple[Stay, list[int]]]) -> Iterator[Violation]:
    first_stay: dict[int, Stay] = {}
    for stay, numbers in deliveries:
        for number in numbers:
            first = first_stay.setdefault(number, stay)
            if first.view != stay.view:
                facts = (history.messages.ids[number],)
                yield Violation(facts, partial(_here_and_there, history, number, first, stay))


def _here_and_there(history: History, number: int, first: Stay, stay: Stay) -> str:
    names = HistoryNames(history)
    here = f"{names.delivered(first.process, number)} in {names.view(first.view)}"
    return f"{here}, {names.process(stay.process)} in {names.view(stay.view)}"


def _same_view_query(_m: Masks) -> str:
    return """
    SELECT m.run, m.message, v.view, v.other_view
    FROM (SELECT a.place, min(r.view) AS view, max(r.view) AS other_view
          FROM audit_apart a JOIN audit_views r ON r.view_id = a.view_id
          GROUP BY a.place HAVING min(r.view) <> max(r.view)) v
         JOIN audit_named m ON m.place = v.place
    """


def _same_view_at_sessions_query(m: Masks) -> str:
    return f"""
    SELECT run, message, group_name, min(view) AS view, max(view) AS other_view
    FROM audit_holdings
    WHERE service IN {TOTAL} AND early_views > 1 AND {m.some("early")}
    GROUP BY run, message, group_id, group_name HAVING min(view) <> max(view)
    """


SAME_VIEW: Final = Property(
    "2.18 same view delivery",
    (
        Clause(
            "",
            "One message, one view.",
            "All who deliver a message do so in the same view.",
            "Weaker: agreed messages that two deliver before their signals, they deliver in the same view.",
            "it is promised to daemons only",
        ),
    ),
    PropertyInstance(
        same_view_delivery,
        _same_view_query,
        "{message} was delivered in {view} and in {other_view}",
        ("message",),
    ),
    PropertyInstance(
        in_each_group(same_view_before_signal),
        _same_view_at_sessions_query,
        "{message} was delivered before the signal in {view} and in {other_view}",
        (IN_GROUP, "message"),
    ),
)

PROPERTIES: Final[tuple[Property, ...]] = (SANE_VIEW, SAME_VIEW)
