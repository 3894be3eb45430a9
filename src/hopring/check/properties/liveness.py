"""Liveness, judged at a quiet end: everything has arrived (2.17), and views are true (2.16)."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from hopring.check.client_history import ClientHistory
from hopring.check.history import History, HistoryNames, Stay
from hopring.check.properties.property import IN_GROUP, Clause, Property, PropertyInstance, Violation
from hopring.check.properties.sql import LOOSE, RELIABLE, Masks
from hopring.check.trace import ClientSent, MessageId, MessageSent, ProcessName, ViewName

# 2.17.


def termination(history: History) -> Iterator[Violation]:
    """Every member of a view delivers the messages of senders that never leave it."""
    for life in history.lives.values():
        if not life.stays or not history.alive_at_quiet_end(life.process):
            continue
        last = life.stays[-1]
        for sending in life.sends:
            sent = sending.event
            if sent.view != last.view or sent.service.loose:
                continue
            lacking = [member for member in last.members if not history.has(member, sending.number)]
            if lacking:
                facts = (life.process, sending.position)
                yield Violation(facts, partial(_did_not_arrive, history, sent, last.view, min(lacking)))


def _did_not_arrive(history: History, sent: MessageSent, view: ViewName, member: ProcessName) -> str:
    names = HistoryNames(history)
    what = f"{names.send(sent)} in {names.view(view)} and stayed there"
    return f"{what}, but {names.process(member)} never delivered it"


def _termination_query(m: Masks) -> str:
    return f"""
    SELECT l.run, l.process, s.position, l.view,
           array({m.each("l.members# & ~coalesce(r.got#, 0)")}) AS lacking
    FROM audit_posts s JOIN audit_stay_keys h ON h.id = s.stay_id
         JOIN audit_stay_keys l ON l.life = h.life AND l.view_key = s.view_key
         LEFT JOIN audit_reach r ON r.place = s.place
    WHERE l.stay > 0 AND l.after_view IS NULL AND l.alive AND s.service IN {RELIABLE}
          AND {m.some("l.members")}
          AND (r.place IS NULL OR r.service IN {LOOSE} OR {m.beyond("l.members", "r.got")})
    """


def termination_in_groups(history: ClientHistory) -> Iterator[Violation]:
    """All members of a last view get what one of them sent or got in it."""
    for group_name, group in sorted(history.groups.items()):
        for stay in group.stays:
            if stay.after is None and not history.ends_in(stay):
                view = group.view_id(stay.view)
                for message, say in _not_arrived(history, group, stay, _sent_in(history, group_name, stay)):
                    yield Violation((group_name, message, view), say)


def _not_arrived(
    history: ClientHistory, group: History, stay: Stay, own: list[ClientSent]
) -> Iterator[tuple[MessageId, Callable[[], str]]]:
    number, ids = history.whole.messages.number, group.messages.ids
    for sent in own:
        if sent.message not in number and (not sent.self_discard or len(stay.members) > 1):
            yield sent.message, partial(_nobody_delivered, group, stay, sent)
    owed = {*stay.delivered, *[number[one.message] for one in own if one.message in number]}
    for member in sorted(stay.members):
        missing = owed - group.lives[member].got if member in group.lives else owed
        for one in sorted(missing):
            yield ids[one], partial(_member_lacks, group, stay, member, one)


def _nobody_delivered(group: History, stay: Stay, sent: ClientSent) -> str:
    names = HistoryNames(group)
    what = f"{names.process(stay.process)} sent {names.message(sent.message)}"
    where = f"at {sent.at_us} us in {names.view(stay.view)} and stayed there"
    return f"{what} {where}, but nobody ever delivered it"


def _member_lacks(group: History, stay: Stay, member: ProcessName, number: int) -> str:
    names = HistoryNames(group)
    what = f"{names.number(number)} is of {names.view(stay.view)}"
    return f"{what}, {names.process(stay.process)} stayed there; {names.process(member)} never delivered it"


def _sent_in(history: ClientHistory, group: str, stay: Stay) -> list[ClientSent]:
    """The session's messages to the group in this view."""
    return [
        posted.event
        for posted in history.sessions[stay.process].posted
        if group in posted.event.groups and posted.stays.get(group) is stay and posted.event.service.reliable
    ]


def _termination_in_groups_query(m: Masks) -> str:
    return f"""
    SELECT /*+ BROADCAST(o) */ h.run, h.message, h.group_name, h.view, h.group_id,
           array({m.each("o.owed# & ~h.got#")}) AS lacking
    FROM audit_holdings h JOIN audit_owed o ON o.view_id = h.view_id AND o.kind = 'lasting'
    WHERE h.service IN {RELIABLE} AND {m.overlap("o.said_by", "h.here")} AND {m.beyond("o.owed", "h.got")}
    UNION ALL
    SELECT p.run, p.message, s.group_name, s.view, p.group_id,
           array({m.each("s.members# & ~coalesce(h.got#, 0)")})
    FROM audit_posts p JOIN audit_stays s ON s.id = p.stay_id AND s.after_view IS NULL AND NOT s.ended
         LEFT JOIN audit_holdings h ON h.key = p.key AND h.group_id = p.group_id
         LEFT JOIN audit_reach r ON r.key = p.key
    WHERE p.service IN {RELIABLE} AND IF(r.key IS NULL, NOT p.discard OR {m.count("s.members")} > 1,
                                         {m.each("(s.members# & ~coalesce(h.got#, 0)) <> 0", " OR ")})
    """


TERMINATION: Final = Property(
    "2.17 termination of delivery",
    (
        Clause(
            "",
            "In a lasting view everything arrives.",
            "p sent a reliable m in v and is in v in the end: every member of v delivers m.",
            "What a member sends or delivers in the view that it is in at the end, all members of that view"
            " deliver.",
        ),
    ),
    PropertyInstance(
        termination,
        _termination_query,
        "{event} in {view} and stayed there, but {lacking} of its members never delivered that",
        ("process", "position"),
        when_quiet=True,
    ),
    PropertyInstance(
        termination_in_groups,
        _termination_in_groups_query,
        "{message} is of {view}, which somebody stayed in, and {lacking} of its members never delivered it",
        (IN_GROUP, "message", "view"),
        when_quiet=True,
    ),
)

# 2.16.


def membership_precision(history: History) -> Iterator[Violation]:
    """After the heal, the daemons of each component end in one view of exactly these daemons."""
    for component in history.components or ():
        for daemon, flaw in _imprecise(history, sorted(component)):
            yield Violation((daemon,), partial(str, flaw))


def _imprecise(history: History, daemons: list[str]) -> Iterator[tuple[str, str]]:
    names = HistoryNames(history)
    processes = [history.starts[daemon][-1] for daemon in daemons if daemon in history.starts]
    ended = [history.lives[process].stays[-1] for process in processes if history.lives[process].stays]
    meeting = min(ended, key=lambda stay: stay.view, default=None)
    together = names.processes(processes)
    for daemon in daemons:
        if daemon not in history.starts:
            yield daemon, f"{daemon} should be in a view with {{{' '.join(daemons)}}} and did nothing at all"
            continue
        life = history.lives[history.starts[daemon][-1]]
        who = names.process(life.process)
        if life.crashed:
            yield daemon, f"{who} should be in a view with {together} and has crashed"
        elif not life.stays or meeting is None:
            yield daemon, f"{who} should be in a view with {together} and never installed one"
        elif life.stays[-1].members != frozenset(processes):
            last = life.stays[-1]
            members = names.processes(last.members)
            yield daemon, f"{who} ended in {names.view(last.view)} of {members}, not of {together}"
        elif life.stays[-1].view != meeting.view:
            first = f"{names.process(meeting.process)} ended in {names.view(meeting.view)}"
            yield daemon, f"{first}, {who} in {names.view(life.stays[-1].view)}"


def _membership_precision_query(m: Masks) -> str:
    return f"""
    WITH last AS (
      SELECT c.run, c.component, c.daemon, l.process, l.crashed, s.stay, s.view,
             {m.each("coalesce(s.members#, 0) AS members#")},
             {m.each("bit_or(coalesce(l.self#, 0)) OVER (PARTITION BY c.run, c.component) AS daemons#")},
             min(s.view) OVER (PARTITION BY c.run, c.component) AS meeting
      FROM audit_components c
           LEFT JOIN audit_lives l ON l.run = c.run AND l.daemon = c.daemon AND l.start = l.starts
           LEFT JOIN audit_stays s ON s.run = l.run AND s.process = l.process AND s.after_view IS NULL)
    SELECT run, daemon, CASE
             WHEN process IS NULL THEN 'did nothing at all'
             WHEN crashed THEN 'had crashed'
             WHEN stay = 0 THEN 'never installed one'
             WHEN view <> meeting THEN 'was in another one'
             ELSE 'was in one with other members' END AS flaw
    FROM last
    WHERE process IS NULL OR crashed OR stay = 0 OR view <> meeting OR {m.differ("members", "daemons")}
    """


def precision_of_groups(history: ClientHistory) -> Iterator[Violation]:
    """In each component all end in one view of a group, with exactly the sessions that want to be in it."""
    for component in history.components or ():
        for group_name, group in sorted(history.groups.items()):
            wanting = frozenset(
                process
                for process, session in history.sessions.items()
                if process.daemon in component and not session.ends and group_name in session.wants
            )
            for process, flaw in _imprecise_group(history, group, group_name, wanting):
                yield Violation((group_name, process), partial(str, flaw))


def _imprecise_group(
    history: ClientHistory, group: History, name: str, wanting: frozenset[ProcessName]
) -> Iterator[tuple[ProcessName, str]]:
    names = HistoryNames(group)
    ended = [group.lives[process].stays[-1] for process in sorted(wanting) if process in group.lives]
    meeting = min(ended, key=lambda stay: stay.view, default=None)
    for process in sorted(wanting):
        life, who = group.lives.get(process), names.process(process)
        if life is None or meeting is None or life.stays[-1] in history.left:
            yield process, f"{who} should be in {name} with {names.processes(wanting)} and is not"
            continue
        last = life.stays[-1]
        if last.members != wanting:
            members = f"of {names.processes(last.members)}, not of {names.processes(wanting)}"
            yield process, f"{who} ended in {names.view(last.view)} {members}"
        elif last.view != meeting.view:
            first = f"{names.process(meeting.process)} ended in {names.view(meeting.view)}"
            yield process, f"{first}, {who} in {names.view(last.view)}"


def _precision_of_groups_query(m: Masks) -> str:
    return f"""
    WITH ended AS (
      SELECT w.*, {m.each("bit_or(w.self#) OVER wanting AS wanting#")}, min(w.view) OVER wanting AS meeting
      FROM audit_wishes w JOIN audit_components c ON c.run = w.run AND c.daemon = w.daemon
      WINDOW wanting AS (PARTITION BY c.run, c.component, w.group_id))
    SELECT run, group_name, process, CASE
             WHEN view IS NULL THEN 'was never shown one'
             WHEN leaves THEN 'had left'
             WHEN view <> meeting THEN 'was in another one'
             ELSE 'was in one with other members' END AS flaw
    FROM ended WHERE view IS NULL OR leaves OR view <> meeting OR {m.differ("members", "wanting")}
    """


MEMBERSHIP_PRECISION: Final = Property(
    "2.16 membership precision",
    (
        Clause(
            "",
            "Views become true.",
            "The last views of the daemons of a component are one view, with exactly these daemons as they"
            " live now. Needs `components`.",
            "In each component, who asked to be in a group and is there ends in one view of exactly these.",
        ),
    ),
    PropertyInstance(
        membership_precision,
        _membership_precision_query,
        "at the end {daemon} should have been in a view with all that it could reach, and it {flaw}",
        ("daemon",),
        with_components=True,
    ),
    PropertyInstance(
        precision_of_groups,
        _precision_of_groups_query,
        "at the end {process} should have been in a view of {group_name} with all who want to, and it {flaw}",
        (IN_GROUP, "process"),
        when_quiet=True,
        with_components=True,
    ),
)

PROPERTIES: Final[tuple[Property, ...]] = (TERMINATION, MEMBERSHIP_PRECISION)
