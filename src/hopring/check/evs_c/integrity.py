"""Each delivery for itself: 2.5, 2.6, and the view it belongs to, 2.18 and 2.19 (with 2.9)."""

from hopring.check.evs.history import History, Stay
from hopring.check.evs.integrity import (
    DELIVERY_INTEGRITY,
    SAME_VIEW,
    SANE_VIEW,
    no_duplication,
    out_of_nothing,
)
from hopring.check.evs.words import Words
from hopring.check.evs_c.history import ClientHistory, Posted, Session
from hopring.check.evs_c.words import first_of, of_clients
from hopring.check.trace import AsksLeave, ClientDelivered, MessageId, Process
from hopring.check.verdict import Verdict


def nothing_twice(history: ClientHistory) -> Verdict:
    """2.5: a session gets a message at most once, through however many groups."""
    return of_clients(no_duplication(history.whole))


def delivery_integrity(history: ClientHistory) -> Verdict:
    """2.6: what is delivered was sent, as what it is and to these groups. Anybody may send to a group."""
    for life in history.whole.lives.values():
        for witness in out_of_nothing(history.whole, life):
            return first_of(DELIVERY_INTEGRITY, witness)
    words = Words(history.whole)
    groups: dict[MessageId, tuple[str, ...]] = {
        posted.event.message: posted.event.groups
        for session in history.sessions.values()
        for posted in session.posted
    }
    for session in history.sessions.values():
        for event in session.events:
            if isinstance(event, ClientDelivered) and groups[event.message] != event.groups:
                what = f"{words.process(event.process)} delivered {words.message(event.message)}"
                sets = f"for {' '.join(event.groups)}, but it was sent to {' '.join(groups[event.message])}"
                return first_of(DELIVERY_INTEGRITY, f"{what} at {event.at_us} us {sets}")
    return first_of(DELIVERY_INTEGRITY, None)


def same_view_delivery(history: ClientHistory) -> Verdict:
    """2.18: agreed messages that are delivered before the signal are so in one view.

    Weaker than among daemons: after the signal two sides may be in views of their own, and Reliable and FIFO
    messages may come in the view before a join or a leave here, and behind it there.
    """
    for _, group in sorted(history.groups.items()):
        witness = _in_two_views(group)
        if witness:
            return first_of(SAME_VIEW, witness)
    return first_of(SAME_VIEW, None)


def _in_two_views(group: History) -> str:
    words, service = Words(group), group.messages.service
    first_stay: dict[int, Stay] = {}
    for stay in group.stays:
        for number in stay.regular:
            if not service[number].total:
                continue
            first = first_stay.setdefault(number, stay)
            if first.view != stay.view:
                here = f"{words.delivered(first.process, number)} in {words.view(first.view)}"
                return f"{here}, {words.process(stay.process)} in {words.view(stay.view)}"
    return ""


def _is_member(session: Session, posted: Posted, name: str) -> bool:
    if name not in posted.stays or name in posted.wanted:
        return name in posted.stays
    before = session.asked[: posted.asked]
    return not any(isinstance(one, AsksLeave) and one.group == name for one in before)


def _is_parted(stay: Stay, at: int, sender: Process) -> bool:
    """Whether the delivery comes behind a signal that parts it from the sender."""
    return stay.cut is not None and at >= stay.cut and sender not in stay.signals[0].together


def sane_view_delivery(history: ClientHistory) -> Verdict:
    """2.19: an agreed message of a member comes in no earlier view than its sender was in when it sent it.

    Who has asked to leave sends as one from outside: the leave stands before the message in the order. Behind
    the signal it holds for senders in its set: what made the view of another one may be lost here.
    """
    sent_in: dict[str, dict[int, Stay]] = {group: {} for group in history.groups}
    number = history.whole.messages.number
    for session in history.sessions.values():
        for posted in session.posted:
            for name in posted.event.groups:
                if posted.event.message in number and _is_member(session, posted, name):
                    sent_in[name][number[posted.event.message]] = posted.stays[name]
    for name, group in sorted(history.groups.items()):
        words, service = Words(group), group.messages.service
        for stay in group.stays:
            for at, one in enumerate(stay.delivered):
                origin = sent_in[name].get(one)
                if origin is None or not service[one].total or _is_parted(stay, at, origin.process):
                    continue
                if stay.view < origin.view:
                    what = f"{words.delivered(stay.process, one)} in {words.view(stay.view)}"
                    return first_of(SANE_VIEW, f"{what}, but it was sent in {words.view(origin.view)}")
    return first_of(SANE_VIEW, None)
