"""Artificial partitions: who is on which side, what each daemon has to be told, and what is in force."""

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from itertools import combinations

from hopring.cli.monitor.channels import Sight

Sides = list[frozenset[str]]


def read_sides(text: str, sites: Mapping[str, Sequence[str]]) -> Sides:
    """`eu1 eu2 | us`: sides of daemons and sites; daemons that are not named are one more.

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
    """As it is typed."""
    return " | ".join([" ".join(sorted(side)) for side in sides])


def cuts_of(sides: Sides, sight: Sight) -> dict[str, list[str]]:
    """By daemon that can be told, whom it is to cut off.

    A cut at one end is enough; ValueError if two sides have daemons of which neither can be told.
    """
    told = {one.name for one in sight.seen}
    for one, other in combinations(sides, 2):
        here, there = sorted(one - told), sorted(other - told)
        if here and there:
            problem = f"neither {here[0]} nor {there[0]} can be told to part"
            raise ValueError(f"{problem}; reach one of them with --admin")
    cuts: dict[str, list[str]] = {}
    for seen in sight.seen:
        knows = {daemon for daemons in seen.status["sites"].values() for daemon in daemons}
        mine = next((side for side in sides if seen.name in side), frozenset())
        cuts[seen.name] = sorted(knows - mine - {seen.name})
    return cuts


def in_force(sight: Sight) -> Sides:
    """The sides that the cuts leave; one if nothing is cut."""
    names = sorted({daemon for daemons in sight.sites.values() for daemon in daemons})
    apart = {frozenset((one.name, other)) for one in sight.seen for other in one.status["cut"]}
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
