"""Views and their transitional sets: 2.1 to 2.4, and 2.20."""

from collections.abc import Iterator
from typing import Final

from hopring.check.client_history import ClientHistory
from hopring.check.history import History, HistoryNames, Life, Stay
from hopring.check.properties.property import Clause, Property, PropertyInstance, in_each_group
from hopring.check.properties.sql import Masks
from hopring.check.trace import ClientDelivered, GroupSignal, MessageDelivered, ProcessName, ViewName

# 2.1.


def initial_view(history: History) -> str:
    """Nothing is delivered and nothing signalled before the first view."""
    names = HistoryNames(history)
    for life in history.lives.values():
        for event in life.outside:
            if isinstance(event, MessageDelivered):
                what = names.delivery(event)
            else:
                what = f"{names.process(life.process)} got a transitional signal at {event.at_us} us"
            return f"{what} before it had installed a view"
    return ""


def _initial_view_query(_m: Masks) -> str:
    return """
    SELECT h.run, s.process, d.position
    FROM audit_holdings h JOIN audit_deliveries d ON d.place = h.place AND d.view_id = h.view_id
         JOIN audit_stays s ON s.id = d.stay_id
    WHERE h.view IS NULL AND h.misplaced AND d.misplaced
    UNION ALL
    SELECT run, process, cut FROM audit_stays WHERE stay = 0 AND signals > 0
    """


def through_a_group(history: ClientHistory) -> str:
    """A message comes through a group that the session is in, or is for it alone; so does a signal."""
    names = HistoryNames(history.whole)
    for session in history.sessions.values():
        who = names.process(session.process)
        for event in session.outside:
            if isinstance(event, ClientDelivered):
                to = " ".join(event.groups)
                what = f"{who} delivered {names.message(event.message)} at {event.at_us} us"
                return f"{what}, which was for {to}, and was in none of these"
            if isinstance(event, GroupSignal):
                return f"{who} got a transitional signal of {event.group} at {event.at_us} us and was not in it"
    return ""


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
    PropertyInstance(initial_view, _initial_view_query, "{event} comes before its first view"),
    PropertyInstance(through_a_group, _through_a_group_query, "{event}, and was in no group of that"),
)

# 2.2.


def self_inclusion(history: History) -> str:
    """A process is a member of each view that it installs."""
    names = HistoryNames(history)
    for stay in history.stays:
        if stay.process not in stay.members:
            return f"{names.install(stay)}, which has only {names.processes(stay.members)}"
    return ""


def _self_inclusion_query(m: Masks) -> str:
    return f"""
    SELECT run, process, begins AS position
    FROM audit_stays WHERE stay > 0 AND {m.beyond("self", "members")}
    """


_NOT_IN_IT: Final = "{event}, which it is not in"
SELF_INCLUSION: Final = Property(
    "2.2 self inclusion",
    (Clause("", "You are in your own view.", "p is among the members of each view it installs."),),
    PropertyInstance(self_inclusion, _self_inclusion_query, _NOT_IN_IT),
    PropertyInstance(in_each_group(self_inclusion), _self_inclusion_query, _NOT_IN_IT),
)

# 2.3.


def local_monotonicity(history: History) -> str:
    """A process installs views with rising ids, also from one stay in a group to the next."""
    names = HistoryNames(history)
    for life in history.lives.values():
        witness = _first_fall(life, names)
        if witness:
            return witness
    return ""


def _first_fall(life: Life, names: HistoryNames) -> str:
    before: Stay | None = None
    for stay in life.stays:
        if before is not None and stay.view <= before.view:
            then = f"{names.view(before.view)} at {before.installed.at_us} us"
            return f"{names.install(stay)} after {then}"
        before = stay
    return ""


def _local_monotonicity_query(_m: Masks) -> str:
    return """
    SELECT run, process, begins AS position, group_name, earlier_view
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
    PropertyInstance(local_monotonicity, _local_monotonicity_query, _FALLS),
    PropertyInstance(in_each_group(local_monotonicity), _local_monotonicity_query, _FALLS),
)

# 2.20.


def membership_agreement(history: History) -> str:
    """One id, one set of members."""
    names = HistoryNames(history)
    first: dict[ViewName, Stay] = {}
    for stay in history.stays:
        other = first.setdefault(stay.view, stay)
        if stay.members != other.members:
            ours, theirs = names.processes(stay.members), names.processes(other.members)
            return f"{names.install(other)} of {theirs}, {names.install(stay)} of {ours}"
    return ""


def _membership_agreement_query(m: Masks) -> str:
    return f"""
    SELECT run, group_name, view, min(process) AS process, max(process) AS other
    FROM audit_stays WHERE stay > 0 GROUP BY run, group_name, view HAVING {m.unlike("members")}
    """


_UNLIKE_MEMBERS: Final = (
    "those who installed {view}, as {process} and {other}, do not all have the same members in it"
)
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
    PropertyInstance(membership_agreement, _membership_agreement_query, _UNLIKE_MEMBERS),
    PropertyInstance(in_each_group(membership_agreement), _membership_agreement_query, _UNLIKE_MEMBERS),
)

# 2.4.


def transitional_set(history: History) -> str:
    """The transitional set is those who came from the same view, and the same for all of them."""
    names = HistoryNames(history)
    for stay in history.stays:
        for witness in _flaws_alone(stay, names):
            return witness
    for stays in history.views.values():
        for witness in _flaws_together(stays, names):
            return witness
    return ""


def _flaws_alone(stay: Stay, names: HistoryNames) -> Iterator[str]:
    """(1), with {self} in place of the thesis' empty set; (2); and (3) where both processes are the same."""
    if stay.before is None:
        if stay.together != {stay.process}:
            yield f"(1) {_with_set(stay, names)}, but it is its first view"
        return
    strangers = stay.together - (stay.members & stay.before.members)
    if strangers:
        views = f"{names.view(stay.before.view)}, which it came from, and {names.view(stay.view)}"
        yield f"(2) {_with_set(stay, names)}, but {names.processes(strangers)} is not in both {views}"
    if stay.process not in stay.together:
        yield f"(3) {_with_set(stay, names)}, which leaves itself out"


def _with_set(stay: Stay, names: HistoryNames) -> str:
    return f"{names.install(stay)} with the transitional set {names.processes(stay.together)}"


def _flaws_together(stays: dict[ProcessName, Stay], names: HistoryNames) -> Iterator[str]:
    """(3) and (4), for those that did install the view; about others only (2) says something."""
    from_view: dict[ViewName, set[ProcessName]] = {}
    for stay in stays.values():
        if stay.before is not None:
            from_view.setdefault(stay.before.view, set()).add(stay.process)
    first_from: dict[ViewName, Stay] = {}
    for stay in stays.values():
        companions = from_view[stay.before.view] if stay.before is not None else {stay.process}
        wrong = stay.together.intersection(stays) ^ companions
        if wrong:
            yield f"(3) {_not_companions(stay, stays[min(wrong)], names)}"
        if stay.before is not None:
            first = first_from.setdefault(stay.before.view, stay)
            if first.together != stay.together:
                yield f"(4) {_unlike_sets(first, stay, names)}"


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
    return f"""
    SELECT run, process, begins AS position, view, group_name, '(1) and it is its first view' AS flaw
    FROM audit_stays WHERE stay = 1 AND {m.differ("together", "self")}
    UNION ALL
    SELECT run, process, begins, view, group_name,
           '(2) and somebody in its transitional set is not in both views'
    FROM audit_stays
    WHERE stay > 1 AND ({m.beyond("together", "members")} OR {m.beyond("together", "before_members")})
    UNION ALL
    SELECT run, process, begins, view, group_name, '(3) and its transitional set leaves itself out'
    FROM audit_stays WHERE stay > 1 AND {m.beyond("self", "together")}
    UNION ALL
    SELECT run, process, begins, view, group_name,
           '(3) and its transitional set is not that of those who came from the same view'
    FROM ({_with_companions(m)}) WHERE {m.each("(together# & installed#) <> companions#", " OR ")}
    UNION ALL
    SELECT run, min(process), min_by(begins, process), view, group_name,
           '(4) and another that came from the same view has another transitional set'
    FROM audit_stays WHERE stay > 1 AND nth = 1
    GROUP BY run, view, group_name, before_view HAVING {m.unlike("together")}
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
    PropertyInstance(transitional_set, _transitional_set_query, "{event}, {flaw}"),
    PropertyInstance(in_each_group(transitional_set), _transitional_set_query, "{event}, {flaw}"),
    "Coming along is coming from the same view.",
)

PROPERTIES: Final = (INITIAL_VIEW, SELF_INCLUSION, LOCAL_MONOTONICITY, MEMBERSHIP_AGREEMENT, TRANSITIONAL_SET)
