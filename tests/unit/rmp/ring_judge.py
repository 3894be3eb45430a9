"""Judges what rings told: direct checks over the stays of a world. Each returns sentences; none means right."""

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import combinations, pairwise

from tests.unit.rmp.ring_world import StayLog, World

from hopring.ordering.holders import MAJORITY
from hopring.rmp.events import (
    DataDelivered,
    DataOrdered,
    ListClosing,
    ListInstalled,
    RingSuspended,
)
from hopring.services import SERVICES
from hopring.wire.rmp.ids import Ballot, DataId, ListMembership
from hopring.wire.rmp.lists import ListId


@dataclass(slots=True)
class Period:
    """What one member delivered in one list."""

    stay: StayLog
    installed: ListInstalled
    came_from: "Period | None"
    me: ListMembership
    before: list[DataDelivered] = field(default_factory=list)
    behind: list[DataDelivered] = field(default_factory=list)  # Behind the transitional signal.
    closing: ListClosing | None = None
    next: "Period | None" = None

    @property
    def id(self) -> ListId:
        return self.installed.list.id

    @property
    def all(self) -> list[DataDelivered]:
        return self.before + self.behind

    def __repr__(self) -> str:
        return f"{self.stay.process.port} in {self.id.epoch.version}.{self.id.timestamp}"


def is_ordered(one: DataDelivered) -> bool:
    """Whether a message is delivered in the one order."""
    return one.service.total and not one.withheld


def periods_of(stay: StayLog) -> list[Period]:
    """The lists of one stay, with what was delivered in each."""
    found: list[Period] = []
    for news in stay.news:
        if isinstance(news, ListInstalled):
            before = found[-1] if found else None
            member = news.list.member(stay.process)
            assert member is not None, "a member is in its own list"
            found.append(Period(stay, news, before, member.membership))
            if before is not None:
                before.next = found[-1]
        elif isinstance(news, ListClosing):
            found[-1].closing = news
        elif isinstance(news, DataDelivered):
            assert found, f"{stay.process.port} delivers before its first list"
            (found[-1].behind if found[-1].closing else found[-1].before).append(news)
    return found


@dataclass(slots=True)
class RingJudge:
    """The verdict on one world."""

    world: World
    quiet: bool = True
    stays: list[StayLog] = field(init=False)
    periods: list[Period] = field(init=False)
    by_list: dict[ListId, list[Period]] = field(init=False)
    wrong: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.stays = [stay for node in self.world.nodes.values() for stay in node.stays]
        self.periods = [period for stay in self.stays for period in periods_of(stay)]
        self.by_list = defaultdict(list)
        for period in self.periods:
            self.by_list[period.id].append(period)

    def judge(self) -> list[str]:
        """All that is wrong."""
        self.once()
        self.lists_agree()
        self.one_order()
        self.fifo()
        self.together()
        self.no_gaps()
        self.safe()
        self.resilience()
        self.primaries()
        self.stamps()
        if self.quiet:
            self.at_the_end()
        return self.wrong

    def once(self) -> None:
        """No process delivers a message twice (2.5)."""
        seen: dict[tuple[object, DataId, bool], Period] = {}
        for period in self.periods:
            for one in period.all:
                key = (period.stay.process, one.id, one.service.loose)
                if key in seen:
                    self.wrong.append(f"2.5 {period} delivers {one.body!r} again, first in {seen[key]}")
                seen[key] = period

    def lists_agree(self) -> None:
        """One id is one list (2.20), and ids rise (2.3)."""
        for group in self.by_list.values():
            for other in group[1:]:
                if other.installed.list != group[0].installed.list:
                    self.wrong.append(f"2.20 {other} and {group[0]} differ")
                if other.installed.primary != group[0].installed.primary:
                    self.wrong.append(f"R6 {other} and {group[0]} differ about primary")
        for period in self.periods:
            before = period.came_from
            if before is not None and (before.id.epoch, before.id.timestamp) >= (
                period.id.epoch,
                period.id.timestamp,
            ):
                self.wrong.append(f"2.3 {period} after {before}")

    def one_order(self) -> None:
        """No two processes deliver ordered messages in opposite orders."""
        # What both sides of a split know may have another place in the next epoch of each.
        lines: dict[object, list[tuple[DataId, Ballot]]] = defaultdict(list)
        for period in self.periods:
            epoch = period.id.epoch
            lines[period.stay.process] += [(one.id, epoch) for one in period.all if is_ordered(one)]
        for (one, first), (other, second) in combinations(lines.items(), 2):
            places = {message: place for place, message in enumerate(second)}
            common = [places[message] for message in first if message in places]
            if common != sorted(common):
                self.wrong.append(f"order of {one} and {other} differs")

    def fifo(self) -> None:
        """A FIFO or ordered message comes after earlier reliable ones of its source (2.11)."""
        for stay in self.stays:
            delivered = [one for period in periods_of(stay) for one in period.all if one.service.reliable]
            seen_fifo: dict[object, int] = defaultdict(int)
            for one in delivered:
                if one.id.seq < seen_fifo[one.id.source]:
                    self.wrong.append(f"2.11 {stay.process.port} delivers {one.body!r} late")
                if one.service.fifo:
                    seen_fifo[one.id.source] = max(seen_fifo[one.id.source], one.id.seq)

    def together(self) -> None:
        """Who moves together has seen the same, before the signal and behind it (2.4, 2.7, 2.8)."""
        for group in self.by_list.values():
            for one, other in combinations(group, 2):
                joint = one.came_from is not None and other.came_from is not None
                same = joint and one.came_from.id == other.came_from.id  # type: ignore[union-attr]
                if (other.me in one.installed.together) != same or (one.me in other.installed.together) != same:
                    self.wrong.append(f"2.4 {one} from {one.came_from}, {other} from {other.came_from}")
                if same and one.came_from is not None and other.came_from is not None:
                    self._compare(one.came_from, other.came_from)
        for period in self.periods:
            if period.me not in period.installed.together:
                self.wrong.append(f"2.4 {period} is not in its own set")

    def _compare(self, one: Period, other: Period) -> None:
        for name, first, second in (("before", one.before, other.before), ("behind", one.behind, other.behind)):
            ordered = [[x.id for x in line if is_ordered(x)] for line in (first, second)]
            if ordered[0] != ordered[1]:
                self.wrong.append(f"2.7 {one} and {other} differ {name}: {len(ordered[0])} {len(ordered[1])}")
        if one.next is not None and one.next.installed.cause == "failure":
            for first_period, second_period in ((one, other), (other, one)):
                early = {x.id for x in first_period.all if x.service.reliable and not x.withheld}
                have = {
                    x.id for period in self.periods if period.stay is second_period.stay for x in period.all
                }
                lacking = early - have if first_period.came_from or second_period.came_from else set()
                if lacking:
                    self.wrong.append(
                        f"2.7 early: {second_period} lacks {sorted(lacking)[:3]} of {first_period}"
                    )

    def no_gaps(self) -> None:
        """Before the signal nobody has skipped what another delivered in this list (2.13(3))."""
        for group in self.by_list.values():
            delivered = {one.id: one.timestamp for p in group for one in p.all if one.timestamp}
            for period in group:
                top = max([x.timestamp for x in period.before if is_ordered(x)], default=0)
                have = {x.id for p in periods_of(period.stay) for x in p.all}
                for one, timestamp in delivered.items():
                    if timestamp < top and one not in have:
                        self.wrong.append(f"2.13 {period} skips {one}")

    def safe(self) -> None:
        """Safe messages are delivered by all, or they end (2.14)."""
        for group in self.by_list.values():
            for period in group:
                for one in period.before:
                    if one.service.stable:
                        self._all_have(period, one, period.installed.list.memberships, "2.14(2)")
                if period.next is not None:
                    for one in period.behind:
                        if one.service.stable:
                            self._all_have(period, one, period.next.installed.together, "2.14(3)")

    def _all_have(
        self, period: Period, one: DataDelivered, members: frozenset[ListMembership], name: str
    ) -> None:
        for member in members:
            stays = [p for p in self.periods if p.me == member]
            if not stays:  # It never installed a list: it did not begin.
                continue
            if any(x.id == one.id for p in stays for x in p.all):
                continue
            last = stays[-1]
            behind = [p for p in stays if p.id.epoch > period.id.epoch]
            installed = [p for p in stays if p.id == period.id]
            if (behind and installed) or (installed and not last.stay.ended and self.quiet):
                self.wrong.append(f"{name} {period} delivers {one.body!r}, {last} does not")

    def resilience(self) -> None:
        """R5: a message with resilience k survives the loss of any k members."""
        for group in self.by_list.values():
            for period in group:
                for one in period.before:
                    k = one.resilience
                    if k in (0, MAJORITY):
                        continue
                    for other in group:
                        after = other.next
                        if after is None or len(other.installed.list) - len(after.installed.together) > k:
                            continue
                        if one.id not in {x.id for x in other.all}:
                            self.wrong.append(f"R5 {period} delivers {one.body!r}, {other} does not")

    def primaries(self) -> None:
        """R6: primary lists have a majority of the one before, and keep the majority messages."""
        lists = {p.id: p.installed.list for p in self.periods if p.installed.primary}
        ranked = [lists[one] for one in sorted(lists, key=lambda one: (one.epoch, one.timestamp))]
        left = {p.id for p in self.periods if p.installed.cause == "leave"}
        for first, second in pairwise(ranked):
            # Who leaves agrees to the list without it: it is named next, or made it.
            if second.id not in left and 2 * len(first.memberships & second.memberships) <= len(first):
                self.wrong.append(f"R6 {second.id} has no majority of {first.id}")
        if not ranked:
            return
        for period in self.periods:
            for one in period.before:
                if one.resilience != MAJORITY or one.withheld:
                    continue
                for other in self.by_list[period.id]:
                    later = other.next is not None and other.next.installed.primary
                    if later and one.id not in {x.id for x in other.all}:
                        self.wrong.append(f"R6 {other} lacks {one.body!r} of {period}")

    def stamps(self) -> None:
        """Own messages have their place before they are delivered in order, and one place for all."""
        stamps: dict[tuple[DataId, Ballot], set[int]] = defaultdict(set)
        for stay in self.stays:
            for news in stay.news:
                if isinstance(news, DataOrdered):
                    stamps[news.id, news.epoch].add(news.timestamp)
        for period in self.periods:
            for one in period.all:
                if one.timestamp and one.service.total:
                    stamps[one.id, period.id.epoch].add(one.timestamp)
        for message, places in stamps.items():
            if len(places) > 1:
                self.wrong.append(f"definition 2.7 {message} has places {places}")

    def at_the_end(self) -> None:
        """Living processes have one list, and have what was sent to it."""
        living = [n for n in self.world.nodes.values() if n.alive and n.stays and not n.stays[-1].leave_asked]
        if any(n.ring.snapshot().suspended for n in living) and not all(
            n.alive for n in self.world.nodes.values()
        ):
            return  # A majority may have crashed; nobody goes on then.
        lasts = {}
        for node in living:
            mine = periods_of(node.stays[-1])
            lasts[node.process] = mine[-1] if mine else None
            if any(isinstance(x, RingSuspended) for x in node.stays[-1].news[-1:]):
                self.wrong.append(f"2.16 {node.process.port} is suspended")
        members = {p.id for p in lasts.values() if p is not None}
        expected = {node.process for node in living}
        if len(members) > 1 or None in lasts.values():
            self.wrong.append(f"2.16 last lists {[str(one) for one in lasts.values()]}")
        for last in lasts.values():
            if last is not None and set(last.installed.list.processes) != expected:
                self.wrong.append(f"2.16 {last} has {[one.port for one in last.installed.list.processes]}")
        for node in living:
            have = {x.ticket for p in periods_of(node.stays[-1]) for x in p.all}
            for ticket, wish in node.stays[-1].submitted.items():
                if ticket not in have and SERVICES[wish.service].reliable:
                    self.wrong.append(f"2.15 {node.process.port} lacks its own {ticket} {wish.service.name}")
        for node in self.world.nodes.values():
            for stay in node.stays:
                if stay.leave_asked and not stay.ended:
                    self.wrong.append(f"{node.process.port} never left")
