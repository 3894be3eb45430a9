"""The others that must deliver a safe message: 2.14(2) and 2.14(3)."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from hopring.check.client_history import ClientHistory
from hopring.check.history import History, HistoryNames, Stay
from hopring.check.properties.property import IN_GROUP, Clause, Property, PropertyInstance, Violation
from hopring.check.properties.sql import STABLE, Masks
from hopring.check.trace import ProcessName, ViewName

Side = Callable[[Stay], tuple[frozenset[ProcessName], list[int]]]
"""Of a stay, those to whom its messages on one side of the signal are promised, and these messages."""


def _before_signal(stay: Stay) -> tuple[frozenset[ProcessName], list[int]]:
    return stay.members, stay.regular


def _after_signal(stay: Stay) -> tuple[frozenset[ProcessName], list[int]]:
    return stay.after.together if stay.after else frozenset(), stay.transitional


# Among daemons.


@dataclass(slots=True)
class _Debt:
    """Every process here delivers these messages in this view or ends in it; with the first to deliver each."""

    view: ViewName
    owed_to: frozenset[ProcessName]
    said_by: dict[int, ProcessName] = field(default_factory=dict)


def safe_before_signal(history: History) -> Iterator[Violation]:
    """A safe message that one delivers before the signal, all members deliver, or they crash in the view."""
    return _unpaid(history, _debts(history, _before_signal))


def safe_after_signal(history: History) -> Iterator[Violation]:
    """After the signal, all in the next view's transitional set do, even if they never got there."""
    return _unpaid(history, _debts(history, _after_signal))


def _debts(history: History, side: Side) -> Iterator[_Debt]:
    """Promises in one view to the same processes are one: that keeps the judgement linear."""
    service = history.messages.service
    for view, stays in history.views.items():
        by_set: dict[frozenset[ProcessName], _Debt] = {}
        for stay in stays.values():
            owed_to, delivered = side(stay)
            debt = by_set.setdefault(owed_to, _Debt(view, owed_to))
            for number in delivered:
                if service[number].stable:
                    debt.said_by.setdefault(number, stay.process)
        yield from by_set.values()


def _unpaid(history: History, debts: Iterable[_Debt]) -> Iterator[Violation]:
    for debt in debts:
        if not debt.said_by:
            continue
        for process in sorted(debt.owed_to):
            stay = history.views[debt.view].get(process)
            missing = set(debt.said_by)
            if stay is not None:
                missing -= history.lives[process].got
                if not missing or history.crashed_in(stay):
                    continue
            for number in sorted(missing):
                facts = (history.messages.ids[number], history.view_id(debt.view))
                yield Violation(facts, partial(_witness, history, debt, process, number, stay))


def _fate(history: History, stay: Stay | None) -> str:
    if stay is None:
        return "never installed it"
    if stay.after is None:
        return "stayed in it without that message"
    return f"went on to {HistoryNames(history).view(stay.after.view)} without that message"


def _witness(history: History, debt: _Debt, process: ProcessName, number: int, stay: Stay | None) -> str:
    names = HistoryNames(history)
    what = f"{names.delivered(debt.said_by[number], number)} in {names.view(debt.view)}"
    return f"{what}, but {names.process(process)} {_fate(history, stay)}"


# Among clients.


def safe_in_groups_before_signal(history: ClientHistory) -> Iterator[Violation]:
    """Every member of the view gets it or ends; not necessarily in that view.

    The view may have come from a join, which is Agreed: a daemon that had its signal before the join shows it
    in a closing view.
    """
    return _unpaid_in_groups(history, _before_signal)


def safe_in_groups_after_signal(history: ClientHistory) -> Iterator[Violation]:
    """After the signal, all in the next view's transitional set do, even if they never got there."""
    return _unpaid_in_groups(history, _after_signal)


def _unpaid_in_groups(history: ClientHistory, side: Side) -> Iterator[Violation]:
    for group_name, group in sorted(history.groups.items()):
        service, ids = group.messages.service, group.messages.ids
        for stay in group.stays:
            owed_to, numbers = side(stay)
            safe = {number for number in numbers if service[number].stable}
            for process in sorted(owed_to) if safe else ():
                life = group.lives.get(process)
                missing = safe - life.got if life is not None else safe
                if missing and not ends_by(history, group_name, process, stay):
                    for number in sorted(missing):
                        facts = (group_name, ids[number], group.view_id(stay.view))
                        yield Violation(facts, partial(_went_on, group, stay, number, process))


def _went_on(group: History, stay: Stay, number: int, process: ProcessName) -> str:
    names = HistoryNames(group)
    what = f"{names.delivered(stay.process, number)} in {names.view(stay.view)}"
    return f"{what}, but {names.process(process)} went on without that message"


def ends_by(history: ClientHistory, group: str, process: ProcessName, at: Stay) -> bool:
    """Whether the session ended, or left the group, no later than in this view or what closed behind it."""
    life = history.groups[group].lives.get(process)
    if life is None:
        return not history.alive(process)
    until = [stay for stay in life.stays if stay.view <= at.view]
    if not until:
        # Its daemon had its signal before the join that made it a member.
        until = [stay for stay in life.stays if stay.before is None][:1]
    last: Stay | None = until[-1]
    while last is not None:
        if history.ends_in(last):
            return True
        closing = last.after is not None and last.after.view in history.closing[group]
        last = last.after if closing else None
    return False


# Queries: a promise in a view to the same processes is one promise, whoever made it.


def _unpaid_query(m: Masks, side: str, kind: str) -> str:
    return f"""
    SELECT /*+ BROADCAST(o) */ h.run, h.message, h.view,
           array({m.each("o.owed# & ~(h.installed# & (h.got# | h.ended#))")}) AS lacking
    FROM audit_holdings h JOIN audit_owed o ON o.view_id = h.view_id AND o.kind = '{kind}'
    WHERE h.nth = 1 AND h.service IN {STABLE} AND h.view IS NOT NULL AND {m.overlap(f"h.{side}", "o.said_by")}
          AND ({m.beyond("o.owed", "h.installed")} OR {m.beyond("o.owed", "h.got", "h.ended")})
    """


def _unpaid_in_groups_query(m: Masks, side: str, kind: str) -> str:
    return f"""
    SELECT /*+ BROADCAST(o) */ h.run, h.message, h.group_name, h.view, h.group_id,
           array({m.each("o.owed# & ~(h.got# | o.gone#)")}) AS lacking
    FROM audit_holdings h JOIN audit_owed o ON o.view_id = h.view_id AND o.kind = '{kind}'
    WHERE h.service IN {STABLE} AND {m.overlap(f"h.{side}", "o.said_by")}
          AND {m.beyond("o.owed", "h.got", "o.gone")}
    """


_OWED: Final = ("message", "view")
_SAFE: Final = "{message} was delivered as safe in {view}, and {lacking} of its members"
_SAFE_AFTER: Final = (
    "{message} was delivered as safe after the signal in {view}, and {lacking} of those to come along"
)

SAFE_BEFORE_SIGNAL: Final = Property(
    "2.14(2) before the signal, safe for all members",
    (
        Clause(
            "",
            "Before the signal, safe is safe for all.",
            "p delivers a Safe m in v before the signal: every member of v installed v, and delivers m or"
            " ends in v.",
            "Weaker: every member of v delivers m, or ends no later than in v or in a view that closed behind"
            " it. Not necessarily in v: see [groups](protocols/groups.md#what-is-promised-and-what-is-not).",
        ),
    ),
    PropertyInstance(
        safe_before_signal,
        lambda m: _unpaid_query(m, "early", "members"),
        f"{_SAFE} neither delivered it nor ended there",
        _OWED,
    ),
    PropertyInstance(
        safe_in_groups_before_signal,
        lambda m: _unpaid_in_groups_query(m, "early", "members"),
        f"{_SAFE} went on without it",
        (IN_GROUP, *_OWED),
    ),
)

SAFE_AFTER_SIGNAL: Final = Property(
    "2.14(3) after the signal, safe for all that come along",
    (
        Clause(
            "",
            "After the signal, safe is safe for companions.",
            "The same after the signal, if p installs a next view, for everyone in its T, whether or not they"
            " came there too.",
            "Weaker, as 2.14(2), for the T of p's next view.",
        ),
    ),
    PropertyInstance(
        safe_after_signal,
        lambda m: _unpaid_query(m, "late", "behind"),
        f"{_SAFE_AFTER} neither delivered it nor ended there",
        _OWED,
    ),
    PropertyInstance(
        safe_in_groups_after_signal,
        lambda m: _unpaid_in_groups_query(m, "late", "behind"),
        f"{_SAFE_AFTER} went on without it",
        (IN_GROUP, *_OWED),
    ),
)

PROPERTIES: Final[tuple[Property, ...]] = (SAFE_BEFORE_SIGNAL, SAFE_AFTER_SIGNAL)
