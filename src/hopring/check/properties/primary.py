"""Primary views of daemons: one meaning for all members, and a chain of majorities. R6 of RMP, for daemons."""

from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import Final

from hopring.check.history import History, HistoryNames, Stay
from hopring.check.properties.property import Clause, Property, PropertyInstance, Violation
from hopring.check.properties.sql import Masks
from hopring.check.trace_row import process_text

COUNTED: Final = ("first", "majority")
"""The reasons that promise a majority of the primary before, one vote for each process."""

VOTED: Final = (*COUNTED, "weighted")
"""The reasons that promise at least one process of the primary before."""

# Whether a view is primary.


def primary_agreement(history: History) -> Iterator[Violation]:
    """All that install a view say the same of it."""
    names = HistoryNames(history)
    for view, stays in history.views.items():
        one, *others = sorted(stays.values(), key=lambda stay: process_text(stay.process))
        unlike = [stay for stay in others if stay.installed.primary != one.installed.primary]
        if unlike:
            facts = (history.view_id(view), one.process, unlike[0].process)
            yield Violation(facts, partial(_unlike, one, unlike[0], names))


def _unlike(one: Stay, other: Stay, names: HistoryNames) -> str:
    said = [f"{names.install(stay)} as {stay.installed.primary or 'not primary'}" for stay in (one, other)]
    return ", ".join(said)


def _primary_agreement_query(_m: Masks) -> str:
    return """
    SELECT s.run, s.view, first(f.one.process) AS process, min(s.process) AS other
    FROM audit_stays s JOIN (SELECT run, view, min(struct(process, primary)) AS one
                             FROM audit_stays WHERE stay > 0 AND nth = 1 GROUP BY run, view) f
         ON s.run = f.run AND s.view = f.view
    WHERE s.stay > 0 AND s.nth = 1 AND s.primary <> f.one.primary
    GROUP BY s.run, s.view
    """


PRIMARY_AGREEMENT: Final = Property(
    "R6(1) primary agreement",
    (
        Clause(
            "",
            "A view is primary for all its members or for none.",
            "Equal reasons of all that install v.",
            "Not judged: the trace of clients has no primary views.",
        ),
    ),
    PropertyInstance(
        primary_agreement,
        _primary_agreement_query,
        "{process} and {other} installed {view} and differ in whether it is primary",
        ("view", "process", "other"),
    ),
)

# The chain.


def primary_chain(history: History) -> Iterator[Violation]:
    """Each primary view has a majority of the one before, unless it has all daemons or is an operator's."""
    names = HistoryNames(history)
    first = {view: next(iter(stays.values())) for view, stays in history.views.items()}
    primaries = [first[view] for view in sorted(first) if first[view].installed.primary]
    for before, stay in pairwise(primaries):
        if _breaks(before, stay):
            facts = (history.view_id(stay.view), history.view_id(before.view))
            yield Violation(facts, partial(_no_majority, before, stay, names))


def _breaks(before: Stay, stay: Stay) -> bool:
    common = len(before.members & stay.members)
    reasons = {before.installed.primary, stay.installed.primary}
    if stay.installed.primary not in VOTED:
        return False
    return not common if "weighted" in reasons else 2 * common <= len(before.members)


def _no_majority(before: Stay, stay: Stay, names: HistoryNames) -> str:
    common = names.processes(before.members & stay.members) or "nobody"
    views = f"{names.view(stay.view)} is primary, and so was {names.view(before.view)}"
    return f"{views} of {names.processes(before.members)}, of whom it has {common}"


def _primary_chain_query(m: Masks) -> str:
    earlier = m.each("lag(members#) OVER (PARTITION BY run ORDER BY view) AS earlier#")
    common = f"({m.each('bit_count(members# & earlier#)', ' + ')})"
    voted = ", ".join([f"'{one}'" for one in VOTED])
    return f"""
    SELECT run, view, earlier_view FROM (
        SELECT run, view, basis, lag(view) OVER (PARTITION BY run ORDER BY view) AS earlier_view,
               lag(basis) OVER (PARTITION BY run ORDER BY view) AS earlier_basis,
               {m.columns("members")}, {earlier}
        FROM (SELECT run, view, first(primary) AS basis, {m.each("first(members#) AS members#")}
              FROM audit_stays WHERE stay > 0 AND nth = 1 AND primary <> '' GROUP BY run, view))
    WHERE earlier_view IS NOT NULL AND basis IN ({voted})
      AND IF('weighted' IN (basis, earlier_basis), {common} = 0, 2 * {common} <= {m.count("earlier")})
    """


PRIMARY_CHAIN: Final = Property(
    "R6(2) primary chain",
    (
        Clause(
            "",
            "There is one primary after the other, and never two.",
            "Of two primary views that follow each other by id, the later has more than half of the processes"
            " of the earlier one; at least one of them where daemons have weights. Exempt are views of all"
            " configured daemons, and those that an operator made primary.",
            "Not judged: the trace of clients has no primary views.",
        ),
    ),
    PropertyInstance(
        primary_chain,
        _primary_chain_query,
        "{view} is primary, and has no majority of {earlier_view}, which was",
        ("view", "earlier_view"),
    ),
)

PROPERTIES: Final[tuple[Property, ...]] = (PRIMARY_AGREEMENT, PRIMARY_CHAIN)
