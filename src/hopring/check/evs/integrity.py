"""Each delivery for itself: 2.5, 2.6, and the view it belongs to, 2.18 and 2.19 (with 2.9)."""

from collections.abc import Iterator

from hopring.check.evs.history import History, Life, Stay
from hopring.check.evs.words import Words
from hopring.check.trace import Delivered, Process, ViewName
from hopring.check.verdict import Verdict, broken, holds

NO_DUPLICATION = "2.5 no duplication"
DELIVERY_INTEGRITY = "2.6 delivery integrity"
SAME_VIEW = "2.18 same view delivery"
SANE_VIEW = "2.19 sane view delivery"


def no_duplication(history: History) -> Verdict:
    """2.5: a process delivers a message at most once, whatever its service."""
    words = Words(history)
    for life in history.lives.values():
        seen: dict[int, Delivered] = {}
        for event, number in zip(life.deliveries, life.numbers, strict=True):
            if number in seen:
                first = seen[number].at_us
                return broken(NO_DUPLICATION, f"{words.delivery(event)}, and before that at {first} us")
            seen[number] = event
    return holds(NO_DUPLICATION)


def delivery_integrity(history: History) -> Verdict:
    """2.6: what is delivered was sent, by a member of the view, as what it is, and by oneself before."""
    for life in history.lives.values():
        for witness in (*out_of_nothing(history, life), *_from_strangers(history, life)):
            return broken(DELIVERY_INTEGRITY, witness)
    return holds(DELIVERY_INTEGRITY)


def out_of_nothing(history: History, life: Life) -> Iterator[str]:
    """Deliveries of what nobody sent, or sent as something else, or of one's own before it was sent."""
    messages, words = history.messages, Words(history)
    for event, number in zip(life.deliveries, life.numbers, strict=True):
        sent = messages.sent[number]
        if sent is None:
            yield f"{words.delivery(event)}, which nobody sent"
        elif event.service is not sent.service:
            yield f"{words.delivery(event)} as {event.service.name}, but it was sent as {sent.service.name}"
    own = {sending.number: sending for sending in reversed(life.sends)}
    for place, number in enumerate(life.numbers):
        if number in own and place < own[number].heard:
            later = f"but sent it only later, at {own[number].event.at_us} us"
            yield f"{words.delivery(life.deliveries[place])}, {later}"


def _from_strangers(history: History, life: Life) -> Iterator[str]:
    """The daemons are a closed group (the thesis' footnote to 2.6)."""
    messages, words = history.messages, Words(history)
    for stay in life.stays:
        for number in stay.everything:
            sender = messages.sender[number]
            if sender not in stay.members:
                what = words.delivered(life.process, number)
                yield f"{what}, but {words.process(sender)} is not in its {words.view(stay.view)}"


def same_view_delivery(history: History) -> Verdict:
    """2.18: all who deliver a message do so in the same view."""
    words = Words(history)
    first_stay: dict[int, Stay] = {}
    for stay in history.stays:
        for number in stay.everything:
            first = first_stay.setdefault(number, stay)
            if first.view != stay.view:
                here = f"{words.delivered(first.process, number)} in {words.view(first.view)}"
                there = f"{words.process(stay.process)} in {words.view(stay.view)}"
                return broken(SAME_VIEW, f"{here}, {there}")
    return holds(SAME_VIEW)


def sane_view_delivery(history: History, counters_survive: bool = True) -> Verdict:
    """2.19: a message is delivered in the view it was stamped in, which is not earlier than that of its send.

    The thesis only wants no earlier view than that of the send; daemons promise the very view, to messages of
    all services (2.2.5), Unreliable ones too. Its clause on restarts compares view ids over lives of a daemon,
    which holds only where the counter of views survives.
    """
    for life in history.lives.values():
        for witness in _elsewhere(history, life):
            return broken(SANE_VIEW, f"(1) {witness}")
    return _before_the_restart(history) if counters_survive else holds(SANE_VIEW)


def _elsewhere(history: History, life: Life) -> Iterator[str]:
    sent, words = history.messages.sent, Words(history)
    for sending in life.sends:
        event, stay = sending.event, sending.stay
        if stay is not None and event.view < stay.view:
            yield f"{words.send(event)} in {words.view(stay.view)} with a stamp of {words.view(event.view)}"
    for stay in life.stays:
        for number in stay.everything:
            send = sent[number]
            if send is not None and send.view != stay.view:
                what = f"{words.delivered(stay.process, number)} in {words.view(stay.view)}"
                yield f"{what}, but it was stamped in {words.view(send.view)}"


def _before_the_restart(history: History) -> Verdict:
    """(2): messages of an earlier life are delivered only in views before the first one of the next."""
    words = Words(history)
    bounds = _first_views_after(history)
    if not bounds:
        return holds(SANE_VIEW)
    for stay in history.stays:
        for number in stay.everything:
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
