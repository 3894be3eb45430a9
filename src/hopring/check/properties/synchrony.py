"""Virtual synchrony: those who move together have seen the same (2.7)."""

from collections.abc import Callable, Hashable, Iterator
from functools import partial
from itertools import combinations, permutations
from typing import Final

from hopring.check.client_history import ClientHistory
from hopring.check.history import History, HistoryNames, Stay
from hopring.check.properties.property import IN_GROUP, Clause, Property, PropertyInstance, Violation
from hopring.check.properties.sql import EARLY, RELIABLE, TOTAL, Masks
from hopring.check.trace import ProcessName, ViewName

NETWORK: Final = "network"
"""The cause of a group's view that came from a change of the daemons' view."""

# Those who move together.


def same_move(history: History) -> Iterator[list[Stay]]:
    """Stays in one view that were left for the same next view."""
    for stays in history.views.values():
        by_next: dict[ViewName, list[Stay]] = {}
        for stay in stays.values():
            if stay.after is not None:
                by_next.setdefault(stay.after.view, []).append(stay)
        yield from by_next.values()


def together(one: Stay, other: Stay) -> bool:
    """Whether two that left for the same view count each other as coming along."""
    assert one.after is not None
    assert other.after is not None
    return other.process in one.after.together or one.process in other.after.together


def companions(group: History) -> Iterator[tuple[Stay, Stay]]:
    """Stays in one view that were left together, each pair both ways."""
    for stays in same_move(group):
        for one, other in permutations(stays, 2):
            if together(one, other):
                yield one, other


def differences(history: History, look: Callable[[Stay], Hashable]) -> Iterator[tuple[Stay, Stay]]:
    """Pairs of stays that were left together and look different."""
    for group in same_move(history):
        looks = [look(stay) for stay in group]
        if looks.count(looks[0]) == len(looks):
            continue
        for (one, one_look), (other, other_look) in combinations(zip(group, looks, strict=True), 2):
            if one_look != other_look and together(one, other):
                yield one, other


def moved(pair: tuple[Stay, Stay], names: HistoryNames) -> str:
    """The sentence that two came from one view to the next together."""
    one, other = pair
    assert one.after is not None
    where = f"from {names.view(one.view)} to {names.view(one.after.view)}"
    return f"{names.process(one.process)} and {names.process(other.process)} moved together {where}"


def only_one(history: History, pair: tuple[Stay, Stay], number: int, has: bool, side: str) -> str:
    """The sentence that only one of two that moved together delivered a message on this side."""
    names = HistoryNames(history)
    one, other = pair if has else pair[::-1]
    who = f"{names.delivered(one.process, number)}{side}, {names.process(other.process)} did not"
    return f"{moved(pair, names)}; {who}"


def without(group: History, pair: tuple[Stay, Stay], number: int, where: str) -> str:
    """The sentence that the first of two that moved together delivered a message and the second did not."""
    names = HistoryNames(group)
    who = f"{names.delivered(pair[0].process, number)}, {names.process(pair[1].process)} did not{where}"
    return f"{moved(pair, names)}; {who}"


def agreed_of(group: History, numbers: list[int]) -> set[int]:
    """The agreed ones among these messages."""
    service = group.messages.service
    return {number for number in numbers if service[number].total}


# 2.7.


def virtual_synchrony(history: History) -> Iterator[Violation]:
    """Two that move together have delivered the same set in the view they leave."""
    for pair in differences(history, lambda stay: frozenset(stay.delivered)):
        view, its = history.view_id(pair[0].view), frozenset(pair[0].delivered)
        for number in sorted(its.symmetric_difference(pair[1].delivered)):
            facts = (history.messages.ids[number], view)
            yield Violation(facts, partial(only_one, history, pair, number, number in its, ""))


def _virtual_synchrony_query(m: Masks) -> str:
    """The first condition is cheap, and true of few messages where the promise is kept."""
    return f"""
    SELECT /*+ BROADCAST(w) */ h.run, h.message, w.process, w.view, w.after_view,
           array({m.each("w.companions# & ~h.here#")}) AS lacking
    FROM audit_holdings h JOIN audit_moves w ON w.view_id = h.view_id
    WHERE h.service IN {RELIABLE} AND {m.beyond("h.installed", "h.here")}
          AND {m.overlap("w.self", "h.here")} AND {m.beyond("w.companions", "h.here")}
    """


def synchrony_of_sessions(history: ClientHistory) -> Iterator[Violation]:
    """The same agreed messages in the view they leave; the others by the next change of network.

    Weaker than among daemons: a Reliable or FIFO message may come in another view, and one that lies behind a
    join in the order is promised only to those who are together at the next change of network.
    """
    for name, group in sorted(history.groups.items()):
        for pair in companions(group):
            for number, view, where in _differences(history, name, group, pair):
                facts = (name, group.messages.ids[number], group.view_id(view))
                yield Violation(facts, partial(without, group, pair, number, where))


def _differences(
    history: ClientHistory, name: str, group: History, pair: tuple[Stay, Stay]
) -> Iterator[tuple[int, ViewName, str]]:
    one, other = pair
    for number in sorted(agreed_of(group, one.delivered) - agreed_of(group, other.delivered)):
        if not history.discards(other.process, number):
            yield number, one.view, ""
    early = _early(group, one, other.process)
    for number in sorted(early.keys() - group.lives[other.process].got):
        if not history.leaves(name, other.process):
            yield number, early[number], " at all"


def _early(group: History, stay: Stay, other: ProcessName) -> dict[int, ViewName]:
    """The early messages of all views that the two have been through together, up to a change of network."""
    if stay.after is None or stay.after.installed.cause != NETWORK:
        return {}
    service = group.messages.service
    found: dict[int, ViewName] = {}
    at: Stay | None = stay
    while at is not None:
        found.update({number: at.view for number in at.delivered if service[number].early})
        at = at.before if other in at.together else None
    return found


def _synchrony_of_sessions_query(m: Masks) -> str:
    return f"""
    SELECT /*+ BROADCAST(o) */ h.run, h.message, h.group_name, h.view, h.group_id,
           '' AS where, array({m.each("o.owed# & ~(h.here# | h.unwanted#)")}) AS lacking
    FROM audit_holdings h JOIN audit_owed o ON o.view_id = h.view_id AND o.kind = 'companions'
    WHERE h.service IN {TOTAL} AND h.nth = 1 AND {m.beyond("h.installed", "h.here", "h.unwanted")}
          AND {m.overlap("o.said_by", "h.here")} AND {m.beyond("o.owed", "h.here", "h.unwanted")}
    UNION ALL
    SELECT /*+ BROADCAST(o) */ h.run, h.message, h.group_name, h.view, h.group_id, ' at all',
           array({m.each("o.owed# & ~h.got#")})
    FROM audit_holdings h JOIN audit_owed o ON o.view_id = h.view_id AND o.kind = 'early'
    WHERE h.service IN {EARLY} AND {m.overlap("o.said_by", "h.here")} AND {m.beyond("o.owed", "h.got")}
    """


VIRTUAL_SYNCHRONY: Final = Property(
    "2.7 virtual synchrony",
    (
        Clause(
            "",
            "Who moves together has seen the same.",
            "p and q move together from u to v: the sets they delivered in u are equal.",
            "Weaker: p and q move together from u to v: the agreed sets in u are equal. Of Reliable and FIFO"
            " messages: if v came from a change of network, q delivers all that p delivered in the views they"
            " have been through together, or q leaves or ends.",
            "in u itself; clients may have Reliable and FIFO messages elsewhere",
        ),
    ),
    PropertyInstance(
        virtual_synchrony,
        _virtual_synchrony_query,
        "{process} delivered {message} in {view}, and {lacking}, which moved with it to {after_view}, did not",
        ("message", "view"),
    ),
    PropertyInstance(
        synchrony_of_sessions,
        _synchrony_of_sessions_query,
        "{message} was delivered in {view}, and {lacking}, moving along from there, did not{where}",
        (IN_GROUP, "message", "view"),
    ),
)

PROPERTIES: Final[tuple[Property, ...]] = (VIRTUAL_SYNCHRONY,)
