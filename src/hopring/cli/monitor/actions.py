"""Actions of the monitor: partitions, windows, reload, terminate, an operator's primary view, watching."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import combinations
from typing import Final

from hopring.cli.daemon_session import Late
from hopring.cli.monitor.admin_client import (
    AdminClient,
    AdminReply,
    Fleet,
    NoAdminReply,
    ReachedDaemon,
    choose,
)
from hopring.cli.monitor.watching import NEW_ONLY, WatchedDaemon, begin_watch, coming_events, kept_events
from hopring.cli.terminal import Exit, Failure, say

Sides = list[frozenset[str]]
LOOK_SECONDS: Final = 0.1
_OPERATIONAL: Final = ("OP", "GOP")


class Denied(Failure):
    """A daemon refused because of permissions."""

    exit_code = int(Exit.AUTH)


def send_partition(
    admin: AdminClient, fleet: Fleet, sides: Sides, for_us: int | None = None
) -> dict[str, AdminReply]:
    """Has every daemon that answers cut off the other sides, for a time or until `heal`.

    Failure if that would not separate the sides.
    """
    try:
        cuts = cuts_of(sides, fleet)
    except ValueError as error:
        raise Failure(str(error)) from None
    limit = {} if for_us is None else {"for_us": for_us}
    return admin.tell(fleet.seen, "cut", lambda one: {"daemons": cuts[one.name], **limit})


def heal(admin: AdminClient, fleet: Fleet) -> dict[str, AdminReply]:
    """Removes all cuts between daemons, at every daemon."""
    return admin.tell(fleet.seen, "heal", lambda _: {})


def set_windows(
    admin: AdminClient, fleet: Fleet, names: Sequence[str], given: Mapping[str, int]
) -> dict[str, AdminReply]:
    """Sets the windows of these daemons, or of all."""
    return admin.tell(choose(fleet, names), "window", lambda _: given)


def reload(admin: AdminClient, fleet: Fleet, names: Sequence[str]) -> dict[str, AdminReply]:
    """Has these daemons, or all, read their configuration again."""
    return admin.tell(choose(fleet, names), "reload", lambda _: {})


def terminate(admin: AdminClient, fleet: Fleet, names: Sequence[str]) -> dict[str, AdminReply]:
    """Has these daemons end in an orderly way."""
    return admin.tell(choose(fleet, names), "terminate", lambda _: {})


def make_primary(admin: AdminClient, fleet: Fleet, name: str, seconds: float) -> Mapping[str, object]:
    """Makes the view of this daemon primary, and waits until it is; returns the daemon's status then."""
    answers = admin.tell(choose(fleet, [name]), "primary", lambda _: {})
    answer = answers[name]
    if answer.denied:
        raise Denied(f"{name}: {answer.why}")
    if not answer.ok:
        raise Failure(f"{name}: {answer.why}")
    began = time.monotonic()
    while time.monotonic() < began + seconds:
        status = next((one.status for one in admin.look().seen if one.name == name), {})
        if status.get("primary"):
            return status
        time.sleep(LOOK_SECONDS)
    raise Late(f"the view of {name} is not primary after {seconds:g} s; see `hop monitor status`")


def one_side(fleet: Fleet) -> Sides:
    """All daemons on one side, as after `heal`."""
    return [frozenset([daemon for daemons in fleet.sites.values() for daemon in daemons])]


def wait_for_sides(
    admin: AdminClient,
    sides: Sides,
    names: Iterable[str],
    seconds: float,
    unwanted: Callable[[], bool] = lambda: False,
) -> float:
    """Waits until the views of these daemons are as the sides say; returns the seconds that took.

    Each has to be in one view with all of its side that were asked, and with nobody of another side. Late if
    that takes too long, or if the cuts end before; it names daemons that are in other views. With `unwanted`
    the caller gives up before.
    """
    wanted, began = set(names), time.monotonic()
    while True:
        those = [one for one in _look_or_nothing(admin) if one.name in wanted]
        late = [one for one in those if not _on_its_side(one, those, sides)]
        silent = sorted(wanted - {one.name for one in those})
        taken = time.monotonic() - began
        if not late and not silent:
            return taken
        if len(sides) > 1 and those and not any(one.status["cut"] for one in those):
            raise Late(f"the cuts ended before the views followed; {_unlike(late, silent, sides)}")
        if taken > seconds or unwanted():
            raise Late(f"the views are not as expected after {taken:.0f} s; {_unlike(late, silent, sides)}")
        time.sleep(LOOK_SECONDS)


def wait_until_settled(admin: AdminClient, names: Iterable[str], seconds: float) -> Fleet:
    """Waits until these daemons are operational, and in one view with all of them that have the same
    configuration and are not cut off; Late if that takes too long."""
    wanted = set(names)
    end = time.monotonic() + seconds
    while True:
        fleet = admin.look()
        those = [one for one in fleet.seen if one.name in wanted]
        if len(those) == len(wanted) and all(_settled(one, those) for one in those):
            return fleet
        if time.monotonic() > end:
            raise Late(f"the daemons are not settled after {seconds:g} s; see `hop monitor status`")
        time.sleep(LOOK_SECONDS)


def wait_until_gone(admin: AdminClient, names: Iterable[str], seconds: float) -> None:
    """Waits until none of these daemons answers."""
    wanted, end = set(names), time.monotonic() + seconds
    while wanted & {one.name for one in _look_or_nothing(admin)}:
        if time.monotonic() > end:
            raise Late(f"{', '.join(sorted(wanted))} did not end within {seconds:g} s")
        time.sleep(LOOK_SECONDS)


def _look_or_nothing(admin: AdminClient) -> tuple[ReachedDaemon, ...]:
    try:
        return admin.look().seen
    except Failure:
        return ()  # The last socket is gone, too.


def _settled(one: ReachedDaemon, those: Sequence[ReachedDaemon]) -> bool:
    status = one.status
    near = [other for other in those if other.name not in status["cut"] and one.name not in other.status["cut"]]
    return _operational(one) and _together(one, near)


def _on_its_side(one: ReachedDaemon, those: Sequence[ReachedDaemon], sides: Sides) -> bool:
    side = _side_of(one.name, sides)
    near = [other for other in those if other.name in side]
    return _operational(one) and set(one.status["members"]) <= side and _together(one, near)


def _side_of(name: str, sides: Sides) -> frozenset[str]:
    return next((side for side in sides if name in side), frozenset())


def _operational(one: ReachedDaemon) -> bool:
    status = one.status
    phases = status["phase"], status.get("groups_state", "GOP")
    return phases == _OPERATIONAL and not status.get("reloading")


def _together(one: ReachedDaemon, near: Sequence[ReachedDaemon]) -> bool:
    """Whether it shares its view with all of these daemons that have the same configuration."""
    alike = [other for other in near if other.status["hash"] == one.status["hash"]]
    members, view = one.status["members"], one.status["view"]
    return all(other.name in members and other.status["view"] == view for other in alike)


def _unlike(late: Sequence[ReachedDaemon], silent: Sequence[str], sides: Sides) -> str:
    """Text about daemons whose views are not the expected ones."""
    told = []
    for one in late:
        members, side = " ".join(one.status["members"]), " ".join(sorted(_side_of(one.name, sides)))
        told.append(f"{one.name} is in a view of {members}, of the side {side} ({one.status['phase']})")
    return "; ".join([*told, *[f"{name} does not answer" for name in silent]])


def read_sides(text: str, sites: Mapping[str, Sequence[str]]) -> Sides:
    """Parses `eu1 eu2 | us`: sides of daemons and sites; daemons that are not named form one more side.

    ValueError says what is wrong.
    """
    sides: Sides = []
    for part in text.split("|"):
        side = frozenset(_daemons_of(part.replace(",", " ").split(), sites))
        if not side:
            raise ValueError("a side is empty; write 'eu1 eu2 | us1'")
        for other in sides:
            if side & other:
                raise ValueError(f"{', '.join(sorted(side & other))} would be on two sides; name each once")
        sides.append(side)
    known = [daemon for daemons in sites.values() for daemon in daemons]
    rest = frozenset(known).difference(*sides)
    sides += [rest] if rest else []
    if len(sides) < 2:
        raise ValueError("all daemons are on one side; write 'eu1 eu2 | us1', or heal")
    return sides


def _daemons_of(names: Iterable[str], sites: Mapping[str, Sequence[str]]) -> list[str]:
    known = [*sites, *[daemon for daemons in sites.values() for daemon in daemons]]
    found: list[str] = []
    for name in names:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            remedy = f"did you mean {close[0]}?" if close else f"choose of {', '.join(known)}"
            raise ValueError(f"there is no site or daemon {name}; {remedy}")
        found += sites.get(name, [name])
    return found


def show_sides(sides: Iterable[frozenset[str]]) -> str:
    """The sides in the notation of `read_sides`."""
    return " | ".join([" ".join(sorted(side)) for side in sides])


def cuts_of(sides: Sides, fleet: Fleet) -> dict[str, list[str]]:
    """For each daemon that answers, the daemons that it has to cut off.

    A cut at one end is enough. ValueError if two sides have daemons of which neither answers.
    """
    told = {one.name for one in fleet.seen}
    for one, other in combinations(sides, 2):
        here, there = sorted(one - told), sorted(other - told)
        if here and there:
            problem = f"neither {here[0]} nor {there[0]} can be told to part"
            raise ValueError(f"{problem}; reach one of them with --admin")
    cuts: dict[str, list[str]] = {}
    for seen in fleet.seen:
        knows = {daemon for daemons in seen.status["sites"].values() for daemon in daemons}
        mine = next((side for side in sides if seen.name in side), frozenset())
        cuts[seen.name] = sorted(knows - mine - {seen.name})
    return cuts


def in_force(fleet: Fleet) -> Sides:
    """The sides that the present cuts make; one side if nothing is cut."""
    names = sorted({daemon for daemons in fleet.sites.values() for daemon in daemons})
    apart = {frozenset((one.name, other)) for one in fleet.seen for other in one.status["cut"]}
    sides: Sides = []
    left = set(names)
    while left:
        side, edge = set[str](), [min(left)]
        while edge:
            one = edge.pop()
            side.add(one)
            edge += [
                other for other in left - side if frozenset((one, other)) not in apart and other not in edge
            ]
        left -= side
        sides.append(frozenset(side))
    return sides


def watch(seen: Iterable[ReachedDaemon], seconds: float, after: int | None, kept: bool) -> Iterator[bytes]:
    """Lines with events of these daemons: those that they keep, or those behind a number and all that come."""
    watched: list[WatchedDaemon] = []
    for one in seen:
        try:
            if kept:
                yield from [line for line in kept_events(one.path, seconds)[1] if line.strip()]
                continue
            start = begin_watch(one.path, seconds, NEW_ONLY if after is None else after)
        except NoAdminReply as unheard:
            say(f"hop: {one.name}: {unheard}", err=True)
        else:
            watched.append(start)
    try:
        for _, line in coming_events(watched):
            yield line
    finally:
        for start in watched:
            start.channel.close()
