"""Resilient messages, which survive the loss of daemons: R5, R6(3) and R6(4) of the RMP paper's guarantees.

A message with resilience k survives the loss of k daemons, a majority message that of a minority. They are
judged where no body was left out, or over the messages that all members of a view wanted.
"""

from collections.abc import Iterator
from functools import partial
from typing import Final

from hopring.check.client_history import ClientHistory
from hopring.check.history import History, HistoryNames, Stay
from hopring.check.properties.property import IN_GROUP, Clause, Property, PropertyInstance, Violation
from hopring.check.properties.safe import ends_by
from hopring.check.properties.sql import RELIABLE, Masks
from hopring.ordering.holders import MAJORITY

COUNTED: Final = ("first", "majority", "weighted")
"""Reasons for which a primary view has a majority of the one before."""


def resilience_levels(history: History) -> list[int]:
    """By number of the message: the resilience that it was sent with; empty if no message has one."""
    levels = [0 if sent is None else sent.resilience for sent in history.messages.sent]
    return levels if any(levels) else []


# R5 and R6(4).


def survives(history: History) -> Iterator[Violation]:
    """Messages with a number that some delivered, and that one who went on with enough others lacks."""
    return _lost(history, majority=False)


def survives_in_primaries(history: History) -> Iterator[Violation]:
    """The same for majority messages."""
    return _lost(history, majority=True)


def _lost(history: History, *, majority: bool) -> Iterator[Violation]:
    levels = resilience_levels(history)
    for view, stays in history.views.items() if levels else ():
        told: dict[int, Stay] = {}
        for stay in stays.values():
            for number in stay.regular:
                level = levels[number]
                if level and (level == MAJORITY) is majority and number not in stay.withheld:
                    told.setdefault(number, stay)
        for stay in stays.values() if told else ():
            if history.crashed_in(stay):
                continue
            got = history.lives[stay.process].got - stay.withheld
            for number, teller in told.items():
                if number not in got and is_promised(stay, levels[number]):
                    facts = (history.messages.ids[number], history.view_id(view))
                    yield Violation(facts, partial(_went_on, history, teller, stay, number))


def is_promised(stay: Stay, level: int) -> bool:
    """Whether the process goes on with so many of the view that the message must have survived."""
    after = stay.after
    if after is None:
        return True
    if level == MAJORITY:
        return after.installed.primary in COUNTED and 2 * len(after.together) > len(stay.members)
    return len(stay.members - after.together) <= level


def _went_on(history: History, teller: Stay, stay: Stay, number: int) -> str:
    names = HistoryNames(history)
    what = f"{names.delivered(teller.process, number)} in {names.view(teller.view)}"
    went = "stayed in it" if stay.after is None else f"installed {names.view(stay.after.view)}"
    return f"{what}, and {names.process(stay.process)} {went} without it"


def _survives_query(m: Masks, which: str) -> str:
    lacking = "o.owed# & ~(k.got# & ~k.held#)"
    return f"""
    SELECT x.run, x.message, r.view, v.lacking
    FROM (SELECT /*+ BROADCAST(o) */ k.place, k.view_id, array({m.each(lacking)}) AS lacking
          FROM audit_kept k JOIN audit_survivors o ON o.view_id = k.view_id AND o.resilience = k.resilience
          WHERE k.resilience {which} AND {m.some("k.early")} AND ({m.each(f"({lacking}) <> 0", " OR ")})) v
         JOIN audit_views r ON r.view_id = v.view_id AND r.nth = 1
         JOIN audit_named x ON x.place = v.place
    """


def survives_in_groups(history: ClientHistory) -> Iterator[Violation]:
    """A member at a daemon that goes on with enough others gets the message, unless it ends or leaves."""
    return _lost_in_groups(history, majority=False)


def survives_in_groups_of_primaries(history: ClientHistory) -> Iterator[Violation]:
    """The same for majority messages."""
    return _lost_in_groups(history, majority=True)


def _lost_in_groups(history: ClientHistory, *, majority: bool) -> Iterator[Violation]:
    daemons = history.daemons
    for name, group in sorted(history.groups.items()) if daemons is not None else ():
        levels = resilience_levels(group)
        for stay in group.stays if levels else ():
            for number in stay.regular:
                if not levels[number] or (levels[number] == MAJORITY) is not majority:
                    continue
                view = daemons.views.get(group.messages.ord[number].view, {}) if daemons is not None else {}
                for session in sorted(stay.members):
                    at = view.get(session._replace(session=0))
                    if daemons is None or at is None or daemons.crashed_in(at):
                        continue
                    life = group.lives.get(session)
                    lacks = life is None or number not in life.got
                    if lacks and is_promised(at, levels[number]) and not ends_by(history, name, session, stay):
                        facts = (name, group.messages.ids[number], group.view_id(stay.view))
                        names = HistoryNames(group)
                        yield Violation(
                            facts, partial(_member_went_on, names, stay, number, names.process(session))
                        )


def _member_went_on(names: HistoryNames, stay: Stay, number: int, who: str) -> str:
    what = f"{names.delivered(stay.process, number)} in {names.view(stay.view)}"
    return f"{what}, and {who} went on without it"


def _survives_in_groups_query(m: Masks, which: str) -> str:
    lacking = "o.owed# & d.steady# & ~(h.got# | o.gone#)"
    return f"""
    SELECT h.run, h.group_name, h.message, h.view, array({m.each(lacking)}) AS lacking
    FROM audit_holdings h
         JOIN audit_messages x ON x.key = h.key AND x.resilience > 0 AND x.resilience {which}
         JOIN audit_owed o ON o.view_id = h.view_id AND o.kind = 'members'
         JOIN audit_steady d ON d.group_id = h.group_id AND d.ord_view = x.ord_view
                             AND d.resilience = x.resilience
    WHERE h.service IN {RELIABLE} AND {m.overlap("h.early", "o.said_by")}
          AND ({m.each(f"({lacking}) <> 0", " OR ")})
    """


_LOST: Final = "{message} was delivered before the signal in {view}, and {lacking} went on without it"

SURVIVES: Final = Property(
    "R5 a message with resilience k survives the loss of k daemons",
    (
        Clause(
            "",
            "What k lost daemons knew, the others know.",
            "p delivers a message with resilience k in v before the signal; q installed v and stays in it, or"
            " goes on from it without at most k of its members: q delivers it.",
            "The same for the members of the group's view in which it was delivered, by the daemon that each"
            " has; exempt is who leaves or ends.",
        ),
    ),
    PropertyInstance(survives, lambda m: _survives_query(m, f"< {MAJORITY}"), _LOST, ("message", "view")),
    PropertyInstance(
        survives_in_groups,
        lambda m: _survives_in_groups_query(m, f"< {MAJORITY}"),
        _LOST,
        (IN_GROUP, "message", "view"),
    ),
)

SURVIVES_IN_PRIMARIES: Final = Property(
    "R6(4) what a majority message promised before the signal, the next primary has",
    (
        Clause(
            "",
            "The next primary has the majority messages of the last one.",
            "p delivers a majority message in v before the signal; q installed v and stays in it, or goes on to"
            " a primary view that was voted for, with more than half of the members of v: q delivers it.",
            "The same for the members of the group's view in which it was delivered, by the daemon that each"
            " has; exempt is who leaves or ends.",
        ),
    ),
    PropertyInstance(
        survives_in_primaries, lambda m: _survives_query(m, f"= {MAJORITY}"), _LOST, ("message", "view")
    ),
    PropertyInstance(
        survives_in_groups_of_primaries,
        lambda m: _survives_in_groups_query(m, f"= {MAJORITY}"),
        _LOST,
        (IN_GROUP, "message", "view"),
    ),
)

# R6(3).


def in_primaries(history: History) -> Iterator[Violation]:
    """Majority messages that were delivered where they may not be."""
    levels = resilience_levels(history)
    for stay in history.stays if levels else ():
        late = set(stay.transitional)
        for number in stay.delivered:
            if levels[number] == MAJORITY and number not in stay.withheld:
                primary = stay.installed.primary
                if primary and number in late and stay.after is not None:
                    primary = stay.after.installed.primary
                if not primary:
                    facts = (history.messages.ids[number], history.view_id(stay.view))
                    yield Violation(facts, partial(_outside, history, stay, number))


def _outside(history: History, stay: Stay, number: int) -> str:
    return f"{HistoryNames(history).delivered(stay.process, number)} outside of primary views"


def _in_primaries_query(m: Masks) -> str:
    outside = "(k.early# & ~k.late# & o.early#) | (k.late# & o.late#)"
    return f"""
    SELECT x.run, x.message, r.view, v.lacking
    FROM (SELECT /*+ BROADCAST(o) */ k.place, k.view_id, array({m.each(outside)}) AS lacking
          FROM audit_kept k JOIN audit_outside o ON o.view_id = k.view_id
          WHERE k.resilience = {MAJORITY} AND ({m.each(f"({outside}) <> 0", " OR ")})) v
         JOIN audit_views r ON r.view_id = v.view_id AND r.view IS NOT NULL
         JOIN audit_named x ON x.place = v.place
    """


IN_PRIMARIES: Final = Property(
    "R6(3) majority messages are delivered in primary views only",
    (
        Clause(
            "",
            "Majority messages are delivered in primary views only.",
            "p delivers a majority message in v: v is primary, and behind the signal the view that follows too."
            " What is passed over for want of a primary view is marked, and not delivered.",
            "Not judged: daemons decide it.",
        ),
    ),
    PropertyInstance(
        in_primaries,
        _in_primaries_query,
        "{message} was delivered in {view} outside of primary views, by {lacking}",
        ("message", "view"),
    ),
)

PROPERTIES: Final[tuple[Property, ...]] = (IN_PRIMARIES, SURVIVES, SURVIVES_IN_PRIMARIES)
