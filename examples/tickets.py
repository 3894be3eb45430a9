"""Selling tickets in five clusters, which share them out among each other: whole, and parted for a while.

    python -m examples.tickets            # one game of each class, parted, in half a minute
    python -m examples.tickets --all      # all games, with the tables of docs/tickets.md

A ticket is five minutes of the computers in Norway: twelve an hour. Each cluster has an office, which sells
what is in its pool to customers who come to it; a customer waits for two ticks, and goes. Every few ticks, a
subperiod, each office reports what it can spare and what it needs. What follows is up to the class
(`ticket_rules.py`). All offices are in this one program, but each hears of others by its own cluster alone.
"""

import argparse
import asyncio
import json
import random
import sys
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Final

from examples.ticket_rules import (
    CLASS_1,
    CLASS_3,
    HOLDERS,
    RULES,
    UNORDERED,
    Office,
    Report,
    Rule,
    decode_report,
    encode_report,
    gifts_of,
    opened,
)

from hopring import wide
from hopring.wide import AioLocalWide, JoinedSet, WideMessage

CLUSTERS: Final = ("A", "B", "C", "D", "E")
SIDES: Final = ((0, 1), (2, 3, 4))
"""The clusters of each side while they are parted; cluster A is the coordinator of all abcasts."""

EVEN: Final = ((1, 1, 1, 1, 1),)
SKEWED: Final = ((1, 5, 1, 1, 2), (1, 1, 1, 2, 5), (5, 1, 1, 2, 1))
"""How customers are spread over the clusters, in each part of a game: the second third is that of the cut."""

CUSTOMERS_PER_TICK: Final = 6
PATIENCE_TICKS: Final = 2
RECENT_TICKS: Final = 8
"""How far an office looks back to expect what comes."""

TICKS: Final = 48
SUBPERIOD_TICKS: Final = 4
LENGTHS: Final = (1, 2, 4, 8, 16)
SEED: Final = 33


@dataclass(slots=True)
class Server:
    """An office with its customers, and what it has sold."""

    office: Office
    waiting: deque[int] = field(default_factory=deque)  # When each customer goes.
    sold: list[int] = field(default_factory=list)
    asked: int = 0  # Customers so far.
    recent: deque[int] = field(default_factory=lambda: deque(maxlen=RECENT_TICKS))  # Customers by tick.
    sent: int = 0  # Reports so far.
    taken: set[tuple[int, int]] = field(default_factory=set)  # Reports that have arrived.

    @property
    def is_heard(self) -> bool:
        """Whether its last report has counted here."""
        own_back = self.sent == 0 or (self.office.me, self.sent - 1) in self.taken
        return own_back and not any(one.office == self.office.me for one in self.office.reports)

    def sell(self) -> None:
        """Sells what is there to who waits."""
        while self.waiting and self.office.pool:
            self.waiting.popleft()
            ticket = min(self.office.pool)
            self.office = replace(self.office, pool=self.office.pool - {ticket})
            self.sold.append(ticket)

    def tick(self, now: int, customers: int) -> None:
        """Customers come, are served, or go."""
        self.asked += customers
        self.recent.append(customers)
        self.waiting += [now + PATIENCE_TICKS] * customers
        self.sell()
        while self.waiting and self.waiting[0] <= now:
            self.waiting.popleft()

    def expected(self, now: int, ticks: int) -> int:
        """How many tickets it will need until the end, if customers go on to come as they did of late."""
        return len(self.waiting) + -(-sum(self.recent) * (ticks - now) // len(self.recent))

    def issue(self, report: Report) -> Report:
        """A report as it leaves: what it gives away is in this pool no longer."""
        gone = {*report.lot, *[ticket for _, tickets in report.gifts for ticket in tickets]}
        self.office = replace(self.office, pool=self.office.pool - gone)
        self.sent += 1
        return report


class Game:
    """One way to share out tickets, with one demand: its offices, and what became of the tickets."""

    def __init__(
        self,
        rule: Rule,
        demand: str,
        *,
        parted: bool,
        length: int = SUBPERIOD_TICKS,
        ticks: int = TICKS,
        name: str = "",
    ) -> None:
        self.rule, self.demand, self.parted, self.length, self.ticks = rule, demand, parted, length, ticks
        self.name = name or f"{rule.name}, {demand}, {'parted' if parted else 'whole'}, {length}"
        self.tickets = ticks * CUSTOMERS_PER_TICK
        offices = [opened(at, len(CLUSTERS), self.tickets) for at in range(len(CLUSTERS))]
        self.servers = [Server(one) for one in offices]
        self.now = 0
        self.apart = False
        self.multicasts = 0
        self.moved = [0] * len(SIDES)  # Tickets that changed hands on each side while they were apart.
        self._holder = {ticket: one.me for one in offices for ticket in one.pool}
        self._sent: list[tuple[int, int]] = []
        self._arrivals = asyncio.Event()
        self._customers = customers_of(EVEN if demand == "even" else SKEWED, ticks)

    # What arrives, and what is sent.

    def take(self, at: int, report: Report) -> None:
        """A report has arrived at an office."""
        server = self.servers[at]
        assert self.rule.apply is not None, "offices that exchange nothing send nothing"
        before = server.office.pool
        server.office = self.rule.apply(server.office, report)
        for ticket in server.office.pool - before:
            if self.apart and self._holder[ticket] != at:
                self.moved[side_of(at)] += 1
            self._holder[ticket] = at
        server.taken.add((report.office, report.number))
        self._arrivals.set()

    async def cast(self, offices: Sequence[JoinedSet], reports: Iterable[Report]) -> None:
        """Sends reports, each from its own cluster, and waits until they are where they can be."""
        issued = [self.servers[one.office].issue(one) for one in reports]
        self.multicasts += len(issued)
        self._sent += [(one.office, one.number) for one in issued]
        await asyncio.gather(*[self._cast(offices[one.office], one) for one in issued])
        await self.arrive()

    async def _cast(self, joined: JoinedSet, report: Report) -> None:
        talk = joined.conversation(name=self.name)
        if self.rule.ordered:
            await talk.abcast(encode_report(report))
        else:
            await talk.cbcast(encode_report(report))

    async def arrive(self) -> None:
        """Waits until all reports have arrived wherever that is possible now."""
        while not all(self._sent_to(at) <= one.taken for at, one in enumerate(self.servers)):
            self._arrivals.clear()
            await self._arrivals.wait()

    def _sent_to(self, at: int) -> set[tuple[int, int]]:
        """The reports that can have arrived at an office."""
        if not self.apart:
            return set(self._sent)
        if self.rule.ordered and 0 not in SIDES[side_of(at)]:
            return set()  # Their coordinator is on the other side.
        return {sent for sent in self._sent if side_of(sent[0]) == side_of(at)}

    # Its course.

    async def play(self, offices: Sequence[JoinedSet], until: int) -> None:
        """Goes on to this tick."""
        while self.now < until:
            customers = self._customers[self.now]
            self.now += 1
            for at, server in enumerate(self.servers):
                server.tick(self.now, customers[at])
            if self.now % self.length == 0 and self.now < self.ticks and self.rule.apply is not None:
                await self.exchange(offices)

    async def exchange(self, offices: Sequence[JoinedSet]) -> None:
        """The end of a subperiod: all offices report, and go on with what they get."""
        await self.cast(offices, [self._report(one) for one in self.servers if self._may_report(one)])
        if self.rule.gives:
            given = [(one, gifts_of(one.office)) for one in self.servers]
            await self.cast(
                offices, [Report(one.office.me, one.sent, gifts=gifts) for one, gifts in given if gifts]
            )
        for one in self.servers:
            one.sell()

    def _may_report(self, server: Server) -> bool:
        return server.is_heard or not self.rule.waits

    def _report(self, server: Server) -> Report:
        pool, expected = server.office.pool, server.expected(self.now, self.ticks)
        spare, need = max(0, len(pool) - expected), max(0, expected - len(pool))
        if self.rule.gives:
            return Report(server.office.me, server.sent, need=need, spare=spare)
        return Report(server.office.me, server.sent, tuple(sorted(pool)[len(pool) - spare :]), need)

    # What became of it.

    @property
    def twice(self) -> int:
        """How many tickets too many were sold."""
        sold = Counter([ticket for one in self.servers for ticket in one.sold])
        return sum(sold.values()) - len(sold)

    @property
    def lost(self) -> int:
        """How many tickets are neither sold nor anywhere to be sold."""
        known = {ticket for one in self.servers for ticket in (*one.sold, *one.office.pool, *one.office.lots)}
        return self.tickets - len(known)

    @property
    def met(self) -> float:
        """The part of the customers who got a ticket."""
        return sum(len(one.sold) for one in self.servers) / sum(one.asked for one in self.servers)

    @property
    def fairness(self) -> float:
        """The part of customers served in the worst served cluster, against that in the best served one."""
        parts = [len(one.sold) / one.asked for one in self.servers if one.asked]
        return min(parts) / max(parts)

    @property
    def is_sound(self) -> bool:
        """No ticket is sold twice or lost; without the order that is not promised."""
        return self.rule is UNORDERED or self.twice == self.lost == 0

    def facts(self) -> dict[str, object]:
        """The result as a JSON object."""
        return {
            "class": self.rule.name,
            "demand": self.demand,
            "parted": self.parted,
            "subperiod_ticks": self.length,
            "met": round(self.met, 3),
            "fairness": round(self.fairness, 3),
            "multicasts": self.multicasts,
            "sold_twice": self.twice,
            "lost": self.lost,
            "moved_while_parted": self.moved,
        }


def customers_of(weights: Sequence[Sequence[int]], ticks: int) -> list[Counter[int]]:
    """How many customers come to each office at each tick, the same in all games."""
    chance, everywhere = random.Random(SEED), range(len(CLUSTERS))
    parts = [weights[at * len(weights) // ticks] for at in range(ticks)]
    return [Counter(chance.choices(everywhere, part, k=CUSTOMERS_PER_TICK)) for part in parts]


def side_of(office: int) -> int:
    """On which side an office is while they are parted."""
    return next(at for at, side in enumerate(SIDES) if office in side)


class LastTickets(Game):
    """Twelve tickets in a lot that office A has offered, and customers in two clusters that are parted."""

    def __init__(self, rule: Rule) -> None:
        super().__init__(rule, "even", parted=True, ticks=2, name=f"the last tickets, {rule.name}")
        pools = [frozenset(range(self.tickets)), *[frozenset[int]()] * (len(CLUSTERS) - 1)]
        for server, pool in zip(self.servers, pools, strict=True):
            server.office = replace(server.office, pool=pool)

    async def begin(self, offices: Sequence[JoinedSet]) -> None:
        """Office A offers all that it has; nobody needs any yet."""
        await self.cast(offices, [Report(0, 0, lot=tuple(range(self.tickets)))])

    async def both_need(self, offices: Sequence[JoinedSet]) -> None:
        """As many customers come to B and to C, which hear nothing of each other."""
        for at in (1, 2):
            server = self.servers[at]
            server.asked += self.tickets
            server.waiting += [PATIENCE_TICKS] * self.tickets
        await self.cast(offices, [Report(at, 0, need=self.tickets) for at in (1, 2)])
        self.sell()

    def sell(self) -> None:
        """All offices sell what they have to who waits."""
        for one in self.servers:
            one.sell()


# Playing at clusters.


async def follow(at: int, joined: JoinedSet, games: dict[str, Game]) -> None:
    """Gives each report that arrives in a cluster to the office of its game."""
    async for event in joined:
        if isinstance(event, WideMessage):
            games[event.conversation].take(at, decode_report(event.data))


async def play(world: AioLocalWide, games: Sequence[Game], last: Sequence[LastTickets] = ()) -> None:
    """Plays all games at once, each as a conversation of its own among the same clusters."""
    every = {game.name: game for game in (*games, *last)}
    assert len(every) == len(games) + len(last), "each game has a name"
    async with AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
        offices: list[JoinedSet] = []
        for name in CLUSTERS:
            session = await stack.enter_async_context(world.connect(name, name=f"office-{name}"))
            offices.append(await stack.enter_async_context(wide.join(session, "tickets", timeout_seconds=120)))
        following = [tasks.create_task(follow(at, one, every)) for at, one in enumerate(offices)]
        parted = [game for game in games if game.parted]
        await asyncio.gather(*[game.play(offices, game.ticks) for game in games if not game.parted])
        await asyncio.gather(*[game.play(offices, game.ticks // 3) for game in parted])
        await asyncio.gather(*[one.begin(offices) for one in last])
        if parted or last:
            await part(world, [*parted, *last])
            await asyncio.gather(*[game.play(offices, 2 * game.ticks // 3) for game in parted])
            await asyncio.gather(*[one.both_need(offices) for one in last])
            await heal(world, [*parted, *last])
            await asyncio.gather(*[game.play(offices, game.ticks) for game in parted])
            for one in last:
                one.sell()
        for task in following:
            task.cancel()


async def part(world: AioLocalWide, games: Sequence[Game]) -> None:
    """Cuts all links between the two sides."""
    for one in SIDES[0]:
        for other in SIDES[1]:
            await world.cut(CLUSTERS[one], CLUSTERS[other])
    for game in games:
        game.apart = True


async def heal(world: AioLocalWide, games: Sequence[Game]) -> None:
    """Ends the cuts, and waits until all that was sent has arrived everywhere."""
    for game in games:
        game.apart = False
    await world.heal()
    await asyncio.gather(*[game.arrive() for game in games])


# Results.


def all_games(ticks: int) -> list[Game]:
    """Each class with each demand, whole and parted; and class 1 with other lengths of the subperiod."""
    games = [
        Game(rule, demand, parted=parted, ticks=ticks)
        for rule in RULES
        for demand in ("even", "skewed")
        for parted in (False, True)
    ]
    others = [length for length in LENGTHS if length != SUBPERIOD_TICKS]
    return games + [Game(CLASS_1, "skewed", parted=False, ticks=ticks, length=length) for length in others]


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table with names on the left and figures on the right, as text and as Markdown."""
    widths = [max(4, *[len(row[at]) for row in (head, *rows)]) for at in range(len(head))]
    rule = [":" + "-" * (widths[0] - 1), *["-" * (width - 1) + ":" for width in widths[1:]]]
    cells = [
        [row[0].ljust(widths[0]), *[one.rjust(width) for one, width in zip(row[1:], widths[1:], strict=True)]]
        for row in (head, rule, *rows)
    ]
    return "\n".join([f"| {' | '.join(row)} |" for row in cells])


def show(games: Sequence[Game], last: Sequence[Game]) -> None:
    """Prints the tables."""
    base = [game for game in games if game.length == SUBPERIOD_TICKS]
    columns = list(dict.fromkeys((game.demand, game.parted) for game in base))
    rows = []
    for rule in RULES:
        found = {(game.demand, game.parted): game for game in base if game.rule is rule}
        met = [f"{found[key].met:.0%} ({found[key].fairness:.2f})" for key in columns]
        moved = found["skewed", True].moved
        twice, lost = sum(one.twice for one in found.values()), sum(one.lost for one in found.values())
        rows.append([rule.name, *met, f"{moved[0]}, {moved[1]}", str(twice), str(lost)])
    names = [f"{demand}, {'parted' if parted else 'whole'}" for demand, parted in columns]
    print("Demand that was met, and fairness: the worst served cluster against the best served one\n")
    print(table(["", *names, "moved while parted, AB and CDE", "sold twice", "lost"], rows))
    lengths = [game for game in games if (game.rule, game.demand, game.parted) == (CLASS_1, "skewed", False)]
    if lengths:
        print("\nClass 1 by the length of the subperiod, in ticks; skewed, whole\n")
        shown = [
            [str(game.length), f"{game.met:.0%}", f"{game.fairness:.2f}", str(game.multicasts)]
            for game in sorted(lengths, key=lambda one: one.length)
        ]
        print(table(["length", "met", "fairness", "multicasts"], shown))
    print("\nTwelve tickets that A has offered, and twelve customers in each of B and C, which are parted\n")
    sold = [[one.rule.name, *[str(len(each.sold)) for each in one.servers], str(one.twice)] for one in last]
    print(table(["tickets sold by", *CLUSTERS, "sold twice"], sold))


def failures(games: Sequence[Game], last: Sequence[Game]) -> list[str]:
    """What should not have happened, or should have."""
    wrong = [f"{one.name}: sold twice {one.twice}, lost {one.lost}" for one in games if not one.is_sound]
    for one in last:
        if (one.twice > 0) != (one.rule is UNORDERED):
            wrong.append(f"{one.name}: sold twice {one.twice}")
    for one in games:
        if one.parted and one.demand == "skewed" and one.rule in (CLASS_3, HOLDERS):
            goes_on = one.moved[1] > 0
            if goes_on != (one.rule is HOLDERS):
                wrong.append(f"{one.name}: {one.moved[1]} tickets moved while the coordinator was cut off")
    return wrong


async def run(*, everything: bool, as_json: bool) -> int:
    """Plays at clusters of this machine; 0 if everything is as it should be."""
    if everything:
        games = all_games(TICKS)
    else:
        games = [Game(rule, "skewed", parted=True, ticks=24) for rule in RULES]
    last = [LastTickets(CLASS_3), LastTickets(UNORDERED)]
    async with wide.local(dict.fromkeys(CLUSTERS, 1)) as world:
        await play(world, games, last)
    wrong = failures(games, last)
    if as_json:
        stories = {one.rule.name: one.twice for one in last}
        print(json.dumps({"games": [one.facts() for one in games], "last_tickets": stories, "wrong": wrong}))
    else:
        show(games, last)
        print(
            "".join([f"\n! {line}" for line in wrong])
            or "\nWhere it is promised, no ticket is sold twice or lost."
        )
    return 1 if wrong else 0


def main() -> int:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description="Sell tickets in five clusters, whole and parted.")
    parser.add_argument("--all", action="store_true", help="All games; about a minute.")
    parser.add_argument("--json", action="store_true", help="One JSON object instead of tables.")
    options = parser.parse_args()
    return asyncio.run(run(everything=options.all, as_json=options.json))


if __name__ == "__main__":
    sys.exit(main())
