"""How clusters share out tickets among each other: the three classes of the long-haul paper, as functions.

Each takes the state of one office and a report that has arrived there, and returns the new state. Nothing else
is needed to know what an office may sell; `examples/tickets.py` brings the reports to real clusters.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Final

Tickets = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """What an office tells all others at the end of a subperiod."""

    office: int
    number: int  # Of the reports of this office, from 0.
    lot: Tickets = ()  # What it can spare. These have left its pool.
    need: int = 0
    spare: int = 0  # How many it could give away; they stay in its pool until somebody needs them.
    gifts: tuple[tuple[int, Tickets], ...] = ()  # What it gives to whom. These have left its pool.


def encode_report(report: Report) -> bytes:
    """A report as the body of a message."""
    return json.dumps(asdict(report)).encode()


def decode_report(data: bytes) -> Report:
    """The report in a message."""
    found = json.loads(data)
    gifts = tuple([(to, tuple(tickets)) for to, tickets in found["gifts"]])
    return Report(**{**found, "lot": tuple(found["lot"]), "gifts": gifts})


@dataclass(frozen=True, slots=True)
class Office:
    """The state of the office in one cluster: what it may sell, and what it knows of the others."""

    me: int
    count: int  # How many offices there are.
    pool: frozenset[int]  # Tickets that nobody but this office can sell.
    reports: tuple[Report, ...] = ()  # Class 2: of rounds that are not complete.
    rounds: int = 0  # Class 2: how many are complete.
    common: Tickets = ()  # Class 3: what was offered, and nobody has got yet.
    needs: tuple[int, ...] = ()  # By office, as far as they are not met.
    spares: tuple[int, ...] = ()  # By office, class 3 without an order.

    @property
    def lots(self) -> Tickets:
        """Tickets that were offered and are in nobody's pool yet, as this office knows it."""
        return (*self.common, *[ticket for report in self.reports for ticket in report.lot])


def opened(me: int, count: int, tickets: int) -> Office:
    """An office with its part of all tickets."""
    return Office(me, count, frozenset(range(me, tickets, count)), needs=(0,) * count, spares=(0,) * count)


def class_1(office: Office, report: Report) -> Office:
    """Reports count as they come, in any order: of each lot every office takes the same share."""
    mine = [ticket for at, ticket in enumerate(report.lot) if (at + report.number) % office.count == office.me]
    return replace(office, pool=office.pool | set(mine))


def class_2(office: Office, report: Report) -> Office:
    """When all reports of a round are here, its lots go where they are needed, and the rest back."""
    reports = (*office.reports, report)
    of_round = [one for one in reports if one.number == office.rounds]
    if len(of_round) < office.count:
        return replace(office, reports=reports)
    needs = {one.office: one.need for one in of_round}
    mine: list[int] = []
    for one in sorted(of_round, key=lambda each: each.office):
        for ticket in one.lot:
            neediest = max(needs, key=lambda each: (needs[each], -each))
            if needs[neediest] > 0:
                needs[neediest] -= 1
            else:
                neediest = one.office
            if neediest == office.me:
                mine.append(ticket)
    left = tuple([one for one in reports if one.number != office.rounds])
    return replace(office, pool=office.pool | set(mine), reports=left, rounds=office.rounds + 1)


def class_3(office: Office, report: Report) -> Office:
    """Each report counts from its place in the order: all offices compute the same from what came before."""
    needs = list(office.needs)
    needs[report.office] = report.need
    common = [*office.common, *report.lot]
    mine: list[int] = []
    while common and max(needs) > 0:
        neediest = max(range(office.count), key=lambda each: (needs[each], -each))
        needs[neediest] -= 1
        ticket = common.pop(0)
        if neediest == office.me:
            mine.append(ticket)
    return replace(office, pool=office.pool | set(mine), common=tuple(common), needs=tuple(needs))


def holders_give(office: Office, report: Report) -> Office:
    """Only who has a ticket gives it away, so the order of reports of different offices does not matter."""
    needs, spares, mine = list(office.needs), list(office.spares), list[int]()
    if report.gifts:
        for to, tickets in report.gifts:
            needs[to] = max(0, needs[to] - len(tickets))
            spares[report.office] = max(0, spares[report.office] - len(tickets))
            mine += tickets if to == office.me else ()
    else:
        needs[report.office], spares[report.office] = report.need, report.spare
    return replace(office, pool=office.pool | set(mine), needs=tuple(needs), spares=tuple(spares))


def gifts_of(office: Office) -> tuple[tuple[int, Tickets], ...]:
    """What this office gives: its part, by what all could spare, of what each of the others needs."""
    could, left = sum(office.spares), sorted(office.pool)[: office.spares[office.me]]
    gifts: list[tuple[int, Tickets]] = []
    for to, need in enumerate(office.needs):
        part = min(len(left), -(-need * office.spares[office.me] // could)) if could else 0
        if part and to != office.me:
            gifts.append((to, tuple(left[:part])))
            left = left[part:]
    return tuple(gifts)


Apply = Callable[[Office, Report], Office]


@dataclass(frozen=True, slots=True)
class Rule:
    """How one class of the table works."""

    name: str
    apply: Apply | None  # None: tickets stay where they are.
    ordered: bool = False  # By abcast instead of cbcast.
    waits: bool = False  # An office reports again only when its last report has counted.
    gives: bool = False


ALONE: Final = Rule("no exchange", None)
CLASS_1: Final = Rule("class 1", class_1)
CLASS_2: Final = Rule("class 2", class_2, waits=True)
CLASS_3: Final = Rule("class 3", class_3, ordered=True, waits=True)
UNORDERED: Final = Rule("class 3 without the order", class_3)
HOLDERS: Final = Rule("class 3, holders give", holders_give, gives=True)
RULES: Final = (ALONE, CLASS_1, CLASS_2, CLASS_3, UNORDERED, HOLDERS)
"""The rows of the table."""
