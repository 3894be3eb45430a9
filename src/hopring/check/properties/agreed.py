"""No gaps below an agreed message: 2.13(3) and 2.13(4)."""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from hopring.check.history import History, HistoryNames, Stay
from hopring.check.properties.property import (
    IN_GROUP,
    Clause,
    Property,
    PropertyInstance,
    Violation,
    in_each_group,
)
from hopring.check.properties.sql import RELIABLE, Masks


def agreed_before_signal(history: History) -> Iterator[Violation]:
    """A process that delivers an agreed message before the signal has all below it that anyone has there."""
    for stay, below in _below_last_agreed(history, _regular):
        for number in sorted(set(below) - history.lives[stay.process].got):
            yield _skipping(history, stay, number, _regular)


def agreed_after_signal(history: History) -> Iterator[Violation]:
    """After the signal the same, for messages of those that come along to the next view."""
    sender = history.messages.sender
    for stay, below in _below_last_agreed(history, _transitional):
        if stay.after is None:
            continue
        for number in sorted(set(below) - history.lives[stay.process].got):
            if sender[number] in stay.after.together:
                yield _skipping(history, stay, number, _transitional)


def _regular(stay: Stay) -> list[int]:
    return stay.regular


def _transitional(stay: Stay) -> list[int]:
    return stay.transitional


def _skipping(history: History, stay: Stay, number: int, side: Callable[[Stay], list[int]]) -> Violation:
    facts = (stay.process, history.messages.ids[number], history.view_id(stay.view))
    return Violation(facts, partial(_skipped, history, stay, number, side))


def _below_last_agreed(history: History, side: Callable[[Stay], list[int]]) -> Iterator[tuple[Stay, list[int]]]:
    """Each stay with what anyone delivered in its view, up to the highest agreed message on this side of it."""
    service = history.messages.service
    for stays in history.views.values():
        anyone = sorted(set().union(*(stay.delivered for stay in stays.values())))
        for stay in stays.values():
            top = max((number for number in side(stay) if service[number].total), default=-1)
            yield stay, anyone[: bisect_left(anyone, top)]


def _skipped(history: History, stay: Stay, missing: int, side: Callable[[Stay], list[int]]) -> str:
    """Names the first agreed message that requires the missing one, and a process that delivered the latter."""
    names, service = HistoryNames(history), history.messages.service
    agreed = next(number for number in side(stay) if number > missing and service[number].total)
    stays = history.views[stay.view].values()
    other = next(other for other in stays if missing in other.delivered)
    lower = (
        f"{names.number(missing)}, which has a lower stamp and which {names.process(other.process)} delivered"
    )
    return f"{names.delivered(stay.process, agreed)} in {names.view(stay.view)} and never {lower} there"


def _skipped_query(m: Masks, top: str) -> str:
    """Messages below the highest agreed one of a stay, which somebody delivered in the view and it did not."""
    return f"""
    SELECT /*+ BROADCAST(t), BROADCAST(s) */ h.run, s.process, h.message, h.group_name, h.view
    FROM audit_holdings h JOIN audit_tops t ON t.view_id = h.view_id JOIN audit_stays s ON s.id = t.stay_id
    WHERE h.nth = 1 AND h.service IN {RELIABLE} AND {m.some("h.here")} AND {m.beyond("h.installed", "h.got")}
          AND h.place < t.{top} AND {m.beyond("s.self", "h.got")}
    """


def _before_signal_query(m: Masks) -> str:
    return _skipped_query(m, "early_top")


def _after_signal_query(m: Masks) -> str:
    along = f"s.after_view IS NOT NULL AND {m.overlap('h.sender', 's.after_together')}"
    return f"{_skipped_query(m, 'late_top')} AND {along}"


_LACKS: Final = ("process", "message", "view")
_SKIPPED: Final = "{process} delivered an agreed message in {view} and never {message}, which has a lower stamp"

AGREED_BEFORE_SIGNAL: Final = Property(
    "2.13(3) before the signal, all with a lower stamp",
    (
        Clause(
            "",
            "Before the signal there are no gaps.",
            "p delivers an agreed m' in v before the signal: p delivers every reliable m below m' that anyone"
            " delivered in v.",
            "The same, in each group.",
        ),
    ),
    PropertyInstance(agreed_before_signal, _before_signal_query, _SKIPPED, _LACKS),
    PropertyInstance(in_each_group(agreed_before_signal), _before_signal_query, _SKIPPED, (IN_GROUP, *_LACKS)),
)

AGREED_AFTER_SIGNAL: Final = Property(
    "2.13(4) after the signal, all with a lower stamp from those that come along",
    (
        Clause(
            "",
            "After the signal there are none among companions.",
            "The same after the signal, if p installs a next view: every such m whose sender is in its T.",
            "The same, in each group.",
        ),
    ),
    PropertyInstance(agreed_after_signal, _after_signal_query, f"after the signal {_SKIPPED}", _LACKS),
    PropertyInstance(
        in_each_group(agreed_after_signal),
        _after_signal_query,
        f"after the signal {_SKIPPED}",
        (IN_GROUP, *_LACKS),
    ),
)

PROPERTIES: Final[tuple[Property, ...]] = (AGREED_BEFORE_SIGNAL, AGREED_AFTER_SIGNAL)
