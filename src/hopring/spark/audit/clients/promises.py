"""Promises in views: to whom the messages of a view are owed, so that a query needs one join.

A promise is a view_id, a kind, the set of those who are owed something, and the set of those on whose account:
what one of these delivered there. Whoever say the same in a view are one row.

`members`   the members of the view
`behind`    those who come along to the next view
`lasting`   the members of a view, on account of who is in it at the end
`companions`   those who move along to the same next view
`early`     those who come along up to the next change of network, and are there at the end without a leave
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from hopring.check.properties.synchrony import NETWORK
from hopring.spark.audit.clients.stays import SessionStay, TracedGroup

Companions = dict[SessionStay, int]

BEFORE_ALL: Final = ""
"""Text that sorts before every view."""


def owed_rows(groups: Iterable[TracedGroup], alive: set[tuple[str, str]]) -> Iterator[tuple[Any, ...]]:
    """In the order of the columns of `OWED`."""
    for group in groups:
        said: dict[tuple[int, str, int], int] = {}
        for stay, kind, owed in _promises(group):
            key = stay.view_id, kind, owed
            said[key] = said.get(key, 0) | stay.self
        gone = gone_by(group, alive)
        views = {view_id: view for (view, _nth), view_id in group.view_ids.items()}
        for (view_id, kind, owed), said_by in said.items():
            yield view_id, kind, owed, said_by, gone[views[view_id]]


def _promises(group: TracedGroup) -> Iterator[tuple[SessionStay, str, int]]:
    companions = companions_of(group)
    for stay in group.stays:
        yield stay, "members", stay.members
        if stay.after is not None:
            yield stay, "behind", stay.after.together
        elif not stay.ended:
            yield stay, "lasting", stay.members
        if stay in companions:
            yield stay, "companions", companions[stay]
    for stay, owed in early_of(group, companions):
        yield stay, "early", owed


def companions_of(group: TracedGroup) -> Companions:
    """Those who left one view for the same next one, each with whom it moves together with.

    Where all have the same transitional set, that is soon said; only elsewhere are pairs looked at.
    """
    moves: dict[tuple[int, str], list[SessionStay]] = {}
    for stay in group.stays:
        if stay.nth == 1 and stay.after is not None:
            moves.setdefault((stay.view_id, stay.after.view), []).append(stay)
    return {stay: companions for stays in moves.values() for stay, companions in _companions(stays)}


def _companions(stays: list[SessionStay]) -> Iterator[tuple[SessionStay, int]]:
    way = sum(stay.self for stay in stays)
    sets = {_along(stay) for stay in stays}
    for stay in stays:
        if len(sets) == 1:
            yield stay, way if stay.self & _along(stay) else way & _along(stay)
        else:
            yield (
                stay,
                way & _along(stay) | sum(other.self for other in stays if _along(other) & stay.self) & way,
            )


def _along(stay: SessionStay) -> int:
    return stay.after.together if stay.after is not None else 0


def early_of(group: TracedGroup, companions: Companions) -> Iterator[tuple[SessionStay, int]]:
    """By stay: who is a companion at a change of network that comes after it, and came along all the way.

    Who ever leaves is owed nothing, nor who is not there at the end.
    """
    steady = 0
    for stay in group.stays:
        steady |= stay.self if stay.session.alive else 0
    for stay in group.stays:
        steady &= ~stay.self if stay.leaves else ~0
    reached: dict[SessionStay, int] = {}
    for stay in reversed(group.stays):  # A session's later stays come before its earlier ones.
        after = stay.after
        if after is None:
            reached[stay] = 0
            continue
        here = companions.get(stay, 0) if after.shown.cause == NETWORK else 0
        reached[stay] = here | (after.together & reached[after])
        if reached[stay] & steady:
            yield stay, reached[stay] & steady


def gone_by(group: TracedGroup, alive: set[tuple[str, str]]) -> dict[str, int]:
    """By view: who had ended, or left the group, no later than in it or in what closed behind it.

    Of a session counts its last stay in a view up to this one, and its first if there is none. Stays for which
    it is so switch their session's bit on where they begin to count, and off where they no longer do.
    """
    switches: dict[str, int] = {BEFORE_ALL: _never_there(group, alive)}
    by_session: dict[int, list[SessionStay]] = {}
    for stay in group.stays:
        switches.setdefault(stay.view, 0)
        by_session.setdefault(stay.session.id, []).append(stay)
    for stays in by_session.values():
        for view, bit in _switches(stays):
            switches[view] ^= bit
    gone, found = 0, {}
    for view in sorted(switches):
        gone ^= switches[view]
        found[view] = gone
    return found


def _never_there(group: TracedGroup, alive: set[tuple[str, str]]) -> int:
    """The sessions that a view names, that were never shown one, and are not there at the end."""
    shown = {stay.session.process for stay in group.stays}
    return sum(
        1 << number
        for process, number in group.numbers.items()
        if process not in shown and (group.run, process) not in alive
    )


def _switches(stays: list[SessionStay]) -> Iterator[tuple[str, int]]:
    """Of one session, whose stays these are in their order."""
    until = ""  # The lowest view of those that follow; nothing if none do.
    for stay in reversed(stays):
        if _over(stay):
            if not until or stay.view < until:
                yield stay.view, stay.self
                if until:
                    yield until, stay.self
            if stay is stays[0]:
                yield BEFORE_ALL, stay.self
                yield min(stay.view, until or stay.view), stay.self
        until = min(stay.view, until or stay.view)


def _over(stay: SessionStay) -> bool:
    """Whether the session ended in this stay, or in one of those that only closed behind it."""
    at: SessionStay | None = stay
    while at is not None:
        if at.ended:
            return True
        at = at.after if at.after is not None and at.after.closing else None
    return False
