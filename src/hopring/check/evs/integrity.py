"""Each delivery for itself: 2.5, 2.6, and the view it belongs to, 2.18 and 2.19 (with 2.9)."""

from hopring.check.evs.history import History, Life
from hopring.check.evs.words import Words
from hopring.check.trace import Delivered, Installed, MessageId, Process, Sent, ViewName
from hopring.check.verdict import Verdict, broken, holds
from hopring.services import Service

NO_DUPLICATION = "2.5 no duplication"
DELIVERY_INTEGRITY = "2.6 delivery integrity"
SAME_VIEW = "2.18 same view delivery"
SANE_VIEW = "2.19 sane view delivery"


def no_duplication(history: History) -> Verdict:
    """2.5: a process delivers a message at most once, whatever its service."""
    words = Words(history)
    for life in history.lives.values():
        seen: dict[MessageId, Delivered] = {}
        for event in life.deliveries:
            first = seen.setdefault(event.message, event)
            if first is not event:
                return broken(NO_DUPLICATION, f"{words.delivery(event)}, and before that at {first.at_us} us")
    return holds(NO_DUPLICATION)


def delivery_integrity(history: History) -> Verdict:
    """2.6: what is delivered was sent, by a member of the view, as what it is, and by oneself before."""
    words = Words(history)
    for life in history.lives.values():
        members: frozenset[Process] = frozenset()
        own: set[MessageId] = set()
        for event in life.events:
            if isinstance(event, Delivered):
                flaw = _flaw(history, event, members, own)
                if flaw:
                    return broken(DELIVERY_INTEGRITY, f"{words.delivery(event)}, {flaw}")
            elif isinstance(event, Sent):
                own.add(event.message)
            elif isinstance(event, Installed):
                members = frozenset(event.members)
    return holds(DELIVERY_INTEGRITY)


def _flaw(history: History, event: Delivered, members: frozenset[Process], own: set[MessageId]) -> str:
    number = history.messages.number[event.message]
    sent, sender = history.messages.sent[number], history.messages.sender[number]
    if sent is None:
        return "which nobody sent"
    if sender == event.process and event.message not in own:
        return f"but sent it only later, at {sent.at_us} us"
    if event.service is not sent.service:
        return f"as {event.service.name}, but it was sent as {sent.service.name}"
    # The daemons are a closed group (the thesis' footnote to 2.6). An unreliable straggler may outlive a view.
    if members and sender not in members and sent.service is not Service.UNRELIABLE:
        return f"but {Words(history).process(sender)} is not in its {Words(history).view(event.view)}"
    return ""


def same_view_delivery(history: History) -> Verdict:
    """2.18: all who deliver a message do so in the same view."""
    words = Words(history)
    where: dict[int, tuple[ViewName, Process]] = {}
    for stay in history.stays:
        here = (stay.view, stay.process)
        for number in stay.delivered:
            view, process = where.setdefault(number, here)
            if view != stay.view:
                first = f"{words.delivered(process, number)} in {words.view(view)}"
                second = f"{words.process(stay.process)} in {words.view(stay.view)}"
                return broken(SAME_VIEW, f"{first}, {second}")
    return holds(SAME_VIEW)


def sane_view_delivery(history: History, counters_survive: bool = True) -> Verdict:
    """2.19: a message is delivered in the view it was stamped in, which is not earlier than that of its send.

    The thesis only wants no earlier view than that of the send; daemons promise the very view. Its clause on
    restarts compares view ids over lives of a daemon, which holds only where the counter of views survives.
    """
    words = Words(history)
    for life in history.lives.values():
        witness = _stamped_too_early(life, words)
        if witness:
            return broken(SANE_VIEW, f"(1) {witness}")
    sent = history.messages.sent
    for stay in history.stays:
        for number in stay.delivered:
            send = sent[number]
            if send is not None and send.view != stay.view:
                stamp = f"it was stamped in {words.view(send.view)}"
                what = f"{words.delivered(stay.process, number)} in {words.view(stay.view)}"
                return broken(SANE_VIEW, f"(1) {what}, but {stamp}")
    return _before_the_restart(history) if counters_survive else holds(SANE_VIEW)


def _stamped_too_early(life: Life, words: Words) -> str:
    view: ViewName | None = None
    for event in life.events:
        if isinstance(event, Installed):
            view = event.view
        elif isinstance(event, Sent) and event.service is not Service.UNRELIABLE and view and event.view < view:
            return f"{words.send(event)} in {words.view(view)} with a stamp of {words.view(event.view)}"
    return ""


def _before_the_restart(history: History) -> Verdict:
    """(2): messages of an earlier life are delivered only in views before the first one of the next."""
    words = Words(history)
    bounds = _first_views_after(history)
    if not bounds:
        return holds(SANE_VIEW)
    for stay in history.stays:
        for number in stay.delivered:
            sender = history.messages.sender[number]
            bound = bounds.get(sender)
            if bound is not None and stay.view >= bound:
                what = f"{words.delivered(stay.process, number)} in {words.view(stay.view)}"
                again = f"{sender.daemon} had started again, in {words.view(bound)}"
                return broken(SANE_VIEW, f"(2) {what}, but {again}")
    return holds(SANE_VIEW)


def _first_views_after(history: History) -> dict[Process, ViewName]:
    """For each life that was followed by another: the lowest view that a later one began with."""
    bounds: dict[Process, ViewName] = {}
    for starts in history.starts.values():
        lowest: ViewName | None = None
        for process in reversed(starts):
            if lowest is not None:
                bounds[process] = lowest
            stays = history.lives[process].stays
            if stays and (lowest is None or stays[0].view < lowest):
                lowest = stays[0].view
    return bounds
