"""What must be delivered along with an agreed message: 2.13(3) and 2.13(4)."""

from bisect import bisect_left
from collections.abc import Callable, Iterator

from hopring.check.evs.history import History, Stay
from hopring.check.evs.words import Words
from hopring.check.verdict import Verdict, broken, holds

AGREED_REGULAR = "2.13(3) before the signal, all with a lower stamp"
AGREED_TRANSITIONAL = "2.13(4) after the signal, all with a lower stamp from those that come along"


def agreed_before_signal(history: History) -> Verdict:
    """2.13(3): who delivers an agreed message before the signal delivers all that anyone did below it there."""
    for stay, below in _below_last_agreed(history, lambda stay: stay.regular):
        missing = set(below) - history.lives[stay.process].got
        if missing:
            return broken(AGREED_REGULAR, _skipped(history, stay, min(missing), stay.regular))
    return holds(AGREED_REGULAR)


def agreed_after_signal(history: History) -> Verdict:
    """2.13(4): after the signal the same, for messages of those that come along to the next view."""
    sender = history.messages.sender
    for stay, below in _below_last_agreed(history, lambda stay: stay.transitional):
        if stay.after is None:
            continue
        missing = set(below) - history.lives[stay.process].got
        owed = [number for number in missing if sender[number] in stay.after.together]
        if owed:
            return broken(AGREED_TRANSITIONAL, _skipped(history, stay, min(owed), stay.transitional))
    return holds(AGREED_TRANSITIONAL)


def _below_last_agreed(history: History, side: Callable[[Stay], list[int]]) -> Iterator[tuple[Stay, list[int]]]:
    """Each stay with what anyone delivered in its view, up to the highest agreed message on this side of it."""
    service = history.messages.service
    for stays in history.views.values():
        anyone = sorted(set().union(*(stay.delivered for stay in stays.values())))
        for stay in stays.values():
            top = max((number for number in side(stay) if service[number].total), default=-1)
            yield stay, anyone[: bisect_left(anyone, top)]


def _skipped(history: History, stay: Stay, missing: int, side: list[int]) -> str:
    """Names the first agreed message that should not have come without the missing one, and who has that."""
    words, service = Words(history), history.messages.service
    agreed = next(number for number in side if number > missing and service[number].total)
    stays = history.views[stay.view].values()
    other = next(other for other in stays if missing in other.delivered)
    lower = (
        f"{words.number(missing)}, which has a lower stamp and which {words.process(other.process)} delivered"
    )
    return f"{words.delivered(stay.process, agreed)} in {words.view(stay.view)} and never {lower} there"
