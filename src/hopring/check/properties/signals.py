"""Transitional signals: one at most, and at the same point for companions (2.8)."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from hopring.check.client_history import ClientHistory
from hopring.check.history import History, HistoryNames, Stay
from hopring.check.properties.property import IN_GROUP, Clause, Property, PropertyInstance, Violation
from hopring.check.properties.sql import TOTAL, Masks
from hopring.check.properties.synchrony import agreed_of, companions, differences, moved, only_one, without
from hopring.check.trace import MessageId


def transitional_signals(history: History) -> Iterator[Violation]:
    """At most one signal in a view, and the same agreed messages on either side of it."""
    names = HistoryNames(history)
    for stay in history.stays:
        witness = _second_signal(stay, names) or _other_set(stay, names)
        if witness:
            facts = ("(1)", history.view_id(stay.view), stay.process, "")
            yield Violation(facts, partial(str, f"(1) {witness}"))
    for pair in differences(history, lambda stay: _sides(history, stay)):
        yield from _unlike_sides(history, pair)


def _second_signal(stay: Stay, names: HistoryNames) -> str:
    if len(stay.signals) < 2:
        return ""
    first, second, *_rest = stay.signals
    return f"{_whose(stay, names)} got a signal at {first.at_us} us and another at {second.at_us} us"


def _whose(stay: Stay, names: HistoryNames) -> str:
    return f"{names.process(stay.process)} in {names.view(stay.view)}"


def _other_set(stay: Stay, names: HistoryNames) -> str:
    """A signal that names another set than the view it announces."""
    if not stay.signals or stay.after is None or frozenset(stay.signals[0].together) == stay.after.together:
        return ""
    said, came = names.processes(stay.signals[0].together), names.processes(stay.after.together)
    return f"{_whose(stay, names)} got a signal for {said}, but {names.view(stay.after.view)} came with {came}"


def _sides(history: History, stay: Stay) -> tuple[frozenset[int], frozenset[int]] | None:
    """The agreed messages before and after the signal; None without one, and then 2.7 covers all."""
    if stay.cut is None:
        return None
    service = history.messages.service
    before, after = (
        frozenset([number for number in side if service[number].total])
        for side in (stay.regular, stay.transitional)
    )
    return before, after


def _unlike_sides(history: History, pair: tuple[Stay, Stay]) -> Iterator[Violation]:
    one, other = (_sides(history, stay) for stay in pair)
    view = history.view_id(pair[0].view)
    if one is None or other is None:
        yield Violation(("(2)", view, "", ""), partial(_with_clause, partial(_one_signal, pair, history)))
        return
    for ours, theirs, side in (
        (one[0], other[0], " before the signal"),
        (one[1], other[1], " after the signal"),
    ):
        for number in sorted(ours ^ theirs):
            say = partial(only_one, history, pair, number, number in ours, side)
            facts = ("(2)", view, "", history.messages.ids[number])
            yield Violation(facts, partial(_with_clause, say))


def _with_clause(say: Callable[[], str]) -> str:
    return f"(2) {say()}"


def _one_signal(pair: tuple[Stay, Stay], history: History) -> str:
    names = HistoryNames(history)
    got, not_got = pair if pair[1].cut is None else pair[::-1]
    signals = f"{names.process(got.process)} got a signal and {names.process(not_got.process)} none"
    return f"{moved(pair, names)}; {signals}"


def _transitional_signals_query(m: Masks) -> str:
    return f"""
    SELECT run, '(1)' AS clause, view, process AS alone, '' AS message, process, 'got two signals' AS flaw,
           CAST(NULL AS ARRAY<BIGINT>) AS lacking
    FROM audit_stays WHERE stay > 0 AND signals > 1
    UNION ALL
    SELECT run, '(1)', view, process, '', process,
           'got a signal for others than those that its next view came with', NULL
    FROM audit_stays
    WHERE stay > 0 AND signals > 0 AND after_view IS NOT NULL
          AND {m.differ("signal_together", "after_together")}
    UNION ALL
    SELECT w.run, '(2)', w.view, '', '', w.process, 'got a signal, and not so, though moving with it,',
           array({m.each("w.companions# & ~r.signalled#")})
    FROM audit_moves w JOIN audit_views r ON r.view_id = w.view_id
    WHERE {m.overlap("w.self", "r.signalled")} AND {m.beyond("w.companions", "r.signalled")}
    UNION ALL {_side(m, "early", "before")} UNION ALL {_side(m, "late", "after")}
    """


def _side(m: Masks, side: str, word: str) -> str:
    """Of two that both had a signal, one has it on this side and the other has not."""
    lacking = m.each(f"(w.companions# & h.signalled# & ~h.{side}#) <> 0", " OR ")
    return f"""
    SELECT /*+ BROADCAST(w) */ h.run, '(2)', w.view, '', h.message, w.process,
           'delivered it {word} the signal, and not so, though moving with it,' AS flaw,
           array({m.each(f"w.companions# & h.signalled# & ~h.{side}#")}) AS lacking
    FROM audit_holdings h JOIN audit_moves w ON w.view_id = h.view_id
    WHERE h.service IN {TOTAL} AND {m.beyond("h.installed", f"h.{side}")} AND {m.some(f"h.{side}")}
          AND {m.overlap("w.self", "h.signalled")} AND {m.overlap("w.self", f"h.{side}")} AND ({lacking})
    """


def signals_of_groups(history: ClientHistory) -> Iterator[Violation]:
    """At most one signal in a view, for all who come along; the same agreed messages before it."""
    for name, group in sorted(history.groups.items()):
        names = HistoryNames(group)
        for stay in group.stays:
            witness = _second_signal(stay, names) or _left_out(stay, names)
            if witness:
                of_one = (name, "(1)", group.view_id(stay.view), stay.process, "")
                yield Violation(of_one, partial(str, f"(1) {witness}"))
        for pair in companions(group):
            for message, say in _unlike_signals(history, group, pair):
                facts = (name, "(2)", group.view_id(pair[0].view), "", message)
                yield Violation(facts, partial(_with_clause, say))


def _left_out(stay: Stay, names: HistoryNames) -> str:
    """A signal that leaves out somebody who came along to the view that followed."""
    if not stay.signals or stay.after is None:
        return ""
    said = frozenset(stay.signals[0].together)
    if stay.after.together <= said:
        return ""
    came = f"{names.view(stay.after.view)} came with {names.processes(stay.after.together)}"
    return f"{_whose(stay, names)} got a signal for {names.processes(said)}, but {came}"


def _unlike_signals(
    history: ClientHistory, group: History, pair: tuple[Stay, Stay]
) -> Iterator[tuple[MessageId | str, Callable[[], str]]]:
    one, other = pair
    if (one.cut is None) is not (other.cut is None):
        yield "", partial(_one_signal, pair, group)
        return
    if one.cut is None:
        return
    for number in sorted(agreed_of(group, one.regular) - agreed_of(group, other.regular)):
        if not history.discards(other.process, number):
            yield group.messages.ids[number], partial(without, group, pair, number, " before the signal")


def _signals_of_groups_query(m: Masks) -> str:
    return f"""
    SELECT run, group_name, '(1)' AS clause, view, process AS alone, '' AS message, process,
           'got two signals' AS flaw, group_id, CAST(NULL AS ARRAY<BIGINT>) AS lacking
    FROM audit_stays WHERE signals > 1
    UNION ALL
    SELECT run, group_name, '(1)', view, process, '', process,
           'got a signal that leaves out who came to its next view', group_id,
           array({m.each("after_together# & ~signal_together#")})
    FROM audit_stays
    WHERE signals > 0 AND after_view IS NOT NULL AND {m.beyond("after_together", "signal_together")}
    UNION ALL
    SELECT r.run, r.group_name, '(2)', r.view, '', '', NULL, 'there was a signal, and none for', r.group_id,
           array({m.each("o.owed# & ~r.signalled#")})
    FROM audit_owed o JOIN audit_views r ON r.view_id = o.view_id
    WHERE o.kind = 'companions' AND r.nth = 1 AND {m.overlap("o.said_by", "r.signalled")}
          AND {m.beyond("o.owed", "r.signalled")}
    UNION ALL
    SELECT /*+ BROADCAST(o) */ h.run, h.group_name, '(2)', h.view, '', h.message, NULL,
           'was delivered before the signal, and not so, though moving along, by', h.group_id,
           array({m.each("o.owed# & h.signalled# & ~(h.early# | h.unwanted#)")})
    FROM audit_holdings h JOIN audit_owed o ON o.view_id = h.view_id AND o.kind = 'companions'
    WHERE h.service IN {TOTAL} AND h.nth = 1 AND {m.some("h.early")} AND {m.beyond("h.installed", "h.early")}
          AND ({m.each("(o.said_by# & h.early# & h.signalled#) <> 0", " OR ")})
          AND ({m.each("(o.owed# & h.signalled# & ~(h.early# | h.unwanted#)) <> 0", " OR ")})
    """


_SIGNALS: Final = ("clause", "view", "alone", "message")
TRANSITIONAL_SIGNALS: Final = Property(
    "2.8 transitional signals",
    (
        Clause(
            "(1)",
            "One signal at most.",
            "At most one signal between two views; its set is the T of the view that follows.",
            "Weaker: one signal at most; the T of the next view is within its set: members may leave after"
            " it, and daemons be lost.",
            "that its set is that T",
        ),
        Clause(
            "(2)",
            "Companions see the signal at the same point.",
            "p and q move together from u: both had a signal in u or neither; the agreed messages before it are"
            " equal, and those after it.",
            "The same before the signal; after it, by 2.7.",
        ),
    ),
    PropertyInstance(
        transitional_signals,
        _transitional_signals_query,
        "{clause} {message} in {view}: {process} {flaw} {lacking}",
        _SIGNALS,
    ),
    PropertyInstance(
        signals_of_groups,
        _signals_of_groups_query,
        "{clause} in {view}: {process}{message} {flaw} {lacking}",
        (IN_GROUP, *_SIGNALS),
    ),
    "Companions see the signal at the same point.",
)

PROPERTIES: Final[tuple[Property, ...]] = (TRANSITIONAL_SIGNALS,)
