"""Views and their transitional sets: 2.1 to 2.4, and 2.20."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Final

from hopring.check.client_history import ClientHistory
from hopring.check.history import History, HistoryNames, Stay
from hopring.check.properties.property import (
    IN_GROUP,
    Clause,
    Property,
    PropertyInstance,
    Violation,
    in_each_group,
)
from hopring.check.properties.sql import Masks
from hopring.check.trace import (
    ClientDelivered,
    GroupLeft,
    GroupSignal,
    MessageDelivered,
    ProcessName,
    Signalled,
    ViewName,
)
from hopring.check.trace_row import process_text

_EVENT: Final = ("process", "position")
_INSTALLED: Final = ("process", "view")

# 2.1.


def initial_view(history: History) -> Iterator[Violation]:
    """Nothing is delivered and nothing signalled before the first view."""
    names = HistoryNames(history)
    for life in history.lives.values():
        for position, event in life.outside:
            yield Violation((life.process, position), partial(_too_soon, event, names))


def _too_soon(event: MessageDelivered | Signalled, names: HistoryNames) -> str:
    if isinstance(event, MessageDelivered):
        what = names.delivery(event)
    else:
        what = f"{names.process(event.process)} got a transitional signal at {event.at_us} us"
    return f"{what} before it had installed a view"


def _initial_view_query(_m: Masks) -> str:
    return """
    SELECT h.run, s.process, d.position
    FROM audit_holdings h JOIN audit_wrong_deliveries d ON d.place = h.place AND d.view_id = h.view_id
         JOIN audit_stays s ON s.id = d.stay_id
    WHERE h.view IS NULL AND h.misplaced AND d.misplaced
    UNION ALL
    SELECT run, process, cut FROM audit_stays WHERE stay = 0 AND signals > 0
    """


def through_a_group(history: ClientHistory) -> Iterator[Violation]:
    """A message comes through a group that the session is in, or is for it alone; so does a signal."""
    names = HistoryNames(history.whole)
    for session in history.sessions.values():
        for position, event in session.outside:
            if not isinstance(event, GroupLeft):
                yield Violation((session.process, position), partial(_not_through_it, event, names))


def _not_through_it(event: ClientDelivered | GroupSignal, names: HistoryNames) -> str:
    who = names.process(event.process)
    if isinstance(event, GroupSignal):
        return f"{who} got a transitional signal of {event.group} at {event.at_us} us and was not in it"
    what = f"{who} delivered {names.message(event.message)} at {event.at_us} us"
    return f"{what}, which was for {' '.join(event.groups)}, and was in none of these"


def _through_a_group_query(_m: Masks) -> str:
    return """
    SELECT s.run, s.process, d.position
    FROM (SELECT session_id, position FROM audit_deliveries WHERE NOT addressed
          GROUP BY session_id, position HAVING count(*) >= max(group_count)) d
         JOIN audit_sessions s ON s.id = d.session_id
    UNION ALL
    SELECT run, process, position FROM audit_strays
    """


INITIAL_VIEW: Final = Property(
    "2.1 initial view event",
    (
        Clause(
            "",
            "Everything happens in a view.",
            "No delivery and no signal before the process's first view.",
            "A message comes through a group that the session is in, or is for its private group; a signal is"
            " of a group it is in.",
        ),
    ),
    PropertyInstance(initial_view, _initial_view_query, "{event} comes before its first view", _EVENT),
    PropertyInstance(through_a_group, _through_a_group_query, "{event}, and was in no group of that", _EVENT),
)

# 2.2.


def self_inclusion(history: History) -> Iterator[Violation]:
    """A process is a member of each view that it installs."""
    names = HistoryNames(history)
    for stay in history.stays:
        if stay.process not in stay.members:
            yield Violation(_installed(history, stay), partial(_not_in_it, stay, names))


def _installed(history: History, stay: Stay) -> tuple[ProcessName, str]:
    return stay.process, history.view_id(stay.view)


def _not_in_it(stay: Stay, names: HistoryNames) -> str:
    return f"{names.install(stay)}, which has only {names.processes(stay.members)}"


def _self_inclusion_query(m: Masks) -> str:
    return f"""
    SELECT run, group_name, process, view, begins AS position
    FROM audit_stays WHERE stay > 0 AND {m.beyond("self", "members")}
    """


_NOT_IN_IT: Final = "{event}, which it is not in"
SELF_INCLUSION: Final = Property(
    "2.2 self inclusion",
    (Clause("", "You are in your own view.", "p is among the members of each view it installs."),),
    PropertyInstance(self_inclusion, _self_inclusion_query, _NOT_IN_IT, _INSTALLED),
    PropertyInstance(in_each_group(self_inclusion), _self_inclusion_query, _NOT_IN_IT, (IN_GROUP, *_INSTALLED)),
)

# 2.3.


def local_monotonicity(history: History) -> Iterator[Violation]:
    """A process installs views with rising ids, also from one stay in a group to the next."""
    names = HistoryNames(history)
    for life in history.lives.values():
        for before, stay in pairwise(life.stays):
            if stay.view <= before.view:
                yield Violation(_installed(history, stay), partial(_falls, before, stay, names))


def _falls(before: Stay, stay: Stay, names: HistoryNames) -> str:
    then = f"{names.view(before.view)} at {before.installed.at_us} us"
    return f"{names.install(stay)} after {then}"


def _local_monotonicity_query(_m: Masks) -> str:
    return """
    SELECT run, group_name, process, view, begins AS position, earlier_view
    FROM audit_stays WHERE view <= earlier_view
    """


_FALLS: Final = "{event} after {earlier_view}"
LOCAL_MONOTONICITY: Final = Property(
    "2.3 local monotonicity",
    (
        Clause(
            "",
            "Views move forward.",
            "The ids of the views of a process rise strictly.",
            "The same over all stays in a group: a session that comes back sees higher ids.",
        ),
    ),
    PropertyInstance(local_monotonicity, _local_monotonicity_query, _FALLS, _INSTALLED),
    PropertyInstance(
        in_each_group(local_monotonicity), _local_monotonicity_query, _FALLS, (IN_GROUP, *_INSTALLED)
    ),
)

# 2.20.


def membership_agreement(history: History) -> Iterator[Violation]:
    """One id, one set of members."""
    names = HistoryNames(history)
    by_view: dict[ViewName, list[Stay]] = {}
    for stay in history.stays:
        by_view.setdefault(stay.view, []).append(stay)
    for view, stays in by_view.items():
        if any(stay.members != stays[0].members for stay in stays):
            one, other = _first_two([(stay, stay.members) for stay in stays])
            facts = (history.view_id(view), one.process, other.process)
            yield Violation(facts, partial(_unlike_members, one, other, names))


Sets = list[tuple[Stay, frozenset[ProcessName]]]


def _first_two(sets: Sets) -> tuple[Stay, Stay]:
    """The first process by name, and the first whose set differs from its."""
    (one, its), *others = sorted(sets, key=lambda stay: process_text(stay[0].process))
    return one, next(stay for stay, other in others if other != its)


def _unlike_members(one: Stay, other: Stay, names: HistoryNames) -> str:
    first = f"{names.install(one)} of {names.processes(one.members)}"
    return f"{first}, {names.install(other)} of {names.processes(other.members)}"


def _membership_agreement_query(m: Masks) -> str:
    return f"""
    SELECT run, group_name, view, process, other, process_set, other_set
    FROM ({_unlike_sets_query(m, "members", "view", "stay > 0")})
    """


def _unlike_sets_query(m: Masks, which: str, by: str, among: str) -> str:
    """Of stays that should have the same set: the first by name, and the first whose set differs from its."""
    same = " AND ".join([f"s.{name} = f.{name}" for name in ("run", "group_name", *by.split(", "))])
    first = f"struct(process, stay, {m.columns(which)})"
    second = f"struct(s.process, {m.each(f's.{which}#')})"
    unlike = m.each(f"s.{which}# <> f.one.{which}#", " OR ")
    return f"""
    SELECT run, group_name, view, one.process AS process, two.process AS other,
           array({m.each(f"one.{which}#")}) AS process_set, array({m.each(f"two.{which}#")}) AS other_set
    FROM (SELECT s.run, s.group_name, s.view, first(f.one) AS one, min({second}) AS two
          FROM audit_stays s
               JOIN (SELECT run, group_name, {by}, min({first}) AS one
                     FROM audit_stays WHERE {among} GROUP BY run, group_name, {by}) f ON {same}
          WHERE {among} AND ({unlike})
          GROUP BY s.run, s.group_name, {", ".join([f"s.{name}" for name in by.split(", ")])})
    """


_UNLIKE_MEMBERS: Final = "{process} installed {view} of {process_set}, {other} installed it of {other_set}"
_AGREEMENT: Final = ("view", "process", "other")
MEMBERSHIP_AGREEMENT: Final = Property(
    "2.20 membership agreement",
    (
        Clause(
            "",
            "A view id means one membership.",
            "All that install an id install the same members.",
            "The same, in the transitional part too: the ids of groups' views name the side of a split.",
            "the thesis promises it strictly to daemons only",
        ),
    ),
    PropertyInstance(membership_agreement, _membership_agreement_query, _UNLIKE_MEMBERS, _AGREEMENT),
    PropertyInstance(
        in_each_group(membership_agreement),
        _membership_agreement_query,
        _UNLIKE_MEMBERS,
        (IN_GROUP, *_AGREEMENT),
    ),
)

# 2.4.


def transitional_set(history: History) -> Iterator[Violation]:
    """The transitional set is those who came from the same view, and the same for all of them."""
    names = HistoryNames(history)
    for stay in history.stays:
        for clause, say in _flaws_alone(stay, names):
            yield Violation((clause, *_installed(history, stay)), partial(_with_clause, clause, say))
    for stays in history.views.values():
        for clause, stay, say in _flaws_together(stays, names):
            yield Violation((clause, *_installed(history, stay)), partial(_with_clause, clause, say))


Say = Callable[[], str]


def _with_clause(clause: str, say: Say) -> str:
    return f"{clause} {say()}"


def _flaws_alone(stay: Stay, names: HistoryNames) -> Iterator[tuple[str, Say]]:
    """(1), with {self} in place of the thesis' empty set; (2); and (3) where both processes are the same."""
    if stay.before is None:
        if stay.together != {stay.process}:
            yield "(1)", partial(_with_set, stay, names, "but it is its first view")
        return
    strangers = stay.together - (stay.members & stay.before.members)
    if strangers:
        yield "(2)", partial(_with_strangers, stay, strangers, names)
    if stay.process not in stay.together:
        yield "(3)", partial(_with_set, stay, names, "which leaves itself out")


def _with_set(stay: Stay, names: HistoryNames, flaw: str) -> str:
    return f"{names.install(stay)} with the transitional set {names.processes(stay.together)}, {flaw}"


def _with_strangers(stay: Stay, strangers: frozenset[ProcessName], names: HistoryNames) -> str:
    assert stay.before is not None, "of a first view there is no (2)"
    views = f"{names.view(stay.before.view)}, which it came from, and {names.view(stay.view)}"
    return _with_set(stay, names, f"but {names.processes(strangers)} is not in both {views}")


def _flaws_together(stays: dict[ProcessName, Stay], names: HistoryNames) -> Iterator[tuple[str, Stay, Say]]:
    """(3) and (4), for those that did install the view; about others only (2) says something."""
    from_view: dict[ViewName, list[Stay]] = {}
    for stay in stays.values():
        if stay.before is not None:
            from_view.setdefault(stay.before.view, []).append(stay)
    came = {view: frozenset([stay.process for stay in companions]) for view, companions in from_view.items()}
    for stay in stays.values():
        companions = came[stay.before.view] if stay.before is not None else frozenset([stay.process])
        wrong = stay.together.intersection(stays) ^ companions
        if wrong:
            yield "(3)", stay, partial(_not_companions, stay, stays[min(wrong)], names)
    for same in from_view.values():
        if any(stay.together != same[0].together for stay in same):
            one, other = _first_two([(stay, stay.together) for stay in same])
            yield "(4)", one, partial(_unlike_sets, one, other, names)


def _not_companions(stay: Stay, other: Stay, names: HistoryNames) -> str:
    counts = "counts" if other.process in stay.together else "does not count"
    moves = f"{_move(stay, names)}, {_move(other, names)}"
    return f"{moves}, and {names.process(stay.process)} {counts} {names.process(other.process)} as coming along"


def _move(stay: Stay, names: HistoryNames) -> str:
    origin = "nowhere" if stay.before is None else names.view(stay.before.view)
    return f"{names.process(stay.process)} came to {names.view(stay.view)} from {origin}"


def _unlike_sets(stay: Stay, other: Stay, names: HistoryNames) -> str:
    theirs = f"{_move(other, names)} with {names.processes(other.together)}"
    return f"{_move(stay, names)} with {names.processes(stay.together)}, {theirs}"


def _transitional_set_query(m: Masks) -> str:
    own = f"array({m.columns('together')}) AS process_set"
    nobody = "CAST(NULL AS STRING) AS other, CAST(NULL AS ARRAY<BIGINT>) AS other_set"
    return f"""
    SELECT run, group_name, '(1)' AS clause, process, view, {own}, 'but it is its first view' AS flaw, {nobody}
    FROM audit_stays WHERE stay = 1 AND {m.differ("together", "self")}
    UNION ALL
    SELECT run, group_name, '(2)', process, view, {own}, 'but somebody in it is not in both views', {nobody}
    FROM audit_stays
    WHERE stay > 1 AND ({m.beyond("together", "members")} OR {m.beyond("together", "before_members")})
    UNION ALL
    SELECT run, group_name, '(3)', process, view, {own}, 'which leaves itself out', {nobody}
    FROM audit_stays WHERE stay > 1 AND {m.beyond("self", "together")}
    UNION ALL
    SELECT run, group_name, '(3)', process, view, {own},
           'which is not that of those who came from the same view', {nobody}
    FROM ({_with_companions(m)}) WHERE {m.each("(together# & installed#) <> companions#", " OR ")}
    UNION ALL
    SELECT run, group_name, '(4)', process, view, process_set, 'and from the same view came with another:',
           other, other_set
    FROM ({_unlike_sets_query(m, "together", "view, before_view", "stay > 1 AND nth = 1")})
    """


def _with_companions(m: Masks) -> str:
    """Stays with those who installed the view, and those of them who came from the same one."""
    from_here = "bit_or(self#) OVER (PARTITION BY view_id, before_view)"
    return f"""
    SELECT run, process, begins, view, group_name, {m.columns("together")},
           {m.each("bit_or(self#) OVER (PARTITION BY view_id) AS installed#")},
           {m.each(f"IF(stay = 1, self#, {from_here}) AS companions#")}
    FROM audit_stays WHERE stay > 0 AND nth = 1
    """


_OTHER_SET: Final = (
    "{clause} {process} installed {view} with the transitional set {process_set}, {flaw} {other} {other_set}"
)
TRANSITIONAL_SET: Final = Property(
    "2.4 transitional set",
    (
        Clause(
            "(1)",
            "Nobody comes along to a first view.",
            "T of a first view is {p}. The thesis' text says empty, its theorems and (3) say {p}.",
        ),
        Clause("(2)", "Who comes along was there and is there.", "T is within the members of both views."),
        Clause(
            "(3)",
            "Coming along is coming from the same view.",
            "For p and q that both installed v: q is in T of p if and only if both came from a view, and from"
            " the same. With p = q: p is in its T. About members that never installed v only (2) speaks.",
        ),
        Clause("(4)", "Companions agree on who came along.", "Both installed v from u: equal T."),
    ),
    PropertyInstance(transitional_set, _transitional_set_query, _OTHER_SET, ("clause", *_INSTALLED)),
    PropertyInstance(
        in_each_group(transitional_set),
        _transitional_set_query,
        _OTHER_SET,
        (IN_GROUP, "clause", *_INSTALLED),
    ),
    "Coming along is coming from the same view.",
)

PROPERTIES: Final[tuple[Property, ...]] = (
    INITIAL_VIEW,
    SELF_INCLUSION,
    LOCAL_MONOTONICITY,
    MEMBERSHIP_AGREEMENT,
    TRANSITIONAL_SET,
)
