"""Gather: one search for other daemons, first in the site (SEG, REP), then among representatives (GATHER).

Implements  thesis 6.1.6 to 6.1.8.
Below       unreliable datagrams to single daemons or to the own site.
Above       discovery and the membership, which forms the view that a search finds.
Deviations  representatives pass on each other's records, so that two sites find each other through a third and
            all know of the missing link between them; a represented daemon keeps sending ALIVE to its
            representative; the smallest representative of a connected component decides. While a view is whole
            its lowest daemon probes alone; as soon as a daemon outside is heard, the lowest of each of its
            sites takes part, since a newcomer may reach only one of them. Daemons report which daemons of their
            site they hear, and a representative takes only daemons that all hear each other: the thesis does
            not consider a link inside a site that fails in one direction.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from itertools import count, product
from typing import Final, TypeVar, final

from hopring.ids import NEVER, DaemonId, Process, SiteId
from hopring.membership.connectivity import SiteConnectivity, ViewChoice, lowest_of_sites
from hopring.membership.events import SendDaemonMessage
from hopring.membership.messages import (
    DaemonAlive,
    DaemonDecline,
    DaemonJoin,
    DaemonRefer,
    GatherRecord,
    LinkWeight,
    SitePair,
    joins,
)
from hopring.membership.options import MembershipOptions
from hopring.routing.trees import Pair
from hopring.value import Mutable

FRESH_JOINS = 4
"""A representative counts as gone after this many JOIN intervals of silence."""

FRESH_ALIVES = 10
"""A daemon of the site counts as gone after this many ALIVE intervals of silence."""


RECORDS_AHEAD_MAX = 1_024
"""A record's number is at most this far above the last one, beside one for each JOIN interval since then."""

RECORD_COUNTS_US = 10_000_000
"""The number of a record counts for this long: no JOIN travels longer."""


class GatherPhase(Enum):
    """The states of a search in the thesis."""

    SEG = "seg"
    REP = "rep"
    GATHER = "gather"


@dataclass(frozen=True, slots=True)
class FormView:
    """The result of a search: these processes should form a view."""

    members: tuple[Process, ...]
    cut: tuple[SitePair, ...]
    reports: tuple[LinkWeight, ...] = ()  # Weights reported by the representatives, from both ends of a link.


@dataclass(frozen=True, slots=True)
class KeepView:
    """The result of a probe: there are no other daemons, the view goes on."""


GatherOutput = SendDaemonMessage | FormView | KeepView


@final
class KnownRecord(Mutable):
    """A representative's newest record, and when it was heard."""

    def __init__(self, record: GatherRecord, at_us: int, own_seq: int = 0) -> None:
        self.record = record
        self.at_us = at_us
        self.own_seq = own_seq  # The number of the last record that the representative itself sent.


@dataclass(slots=True)
class Gather:
    """One search, from its beginning to its result."""

    me: Process
    site_of: Mapping[DaemonId, SiteId]
    weights: Mapping[Pair, int]
    options: MembershipOptions
    round_trip_us: int
    counter: int  # The highest view counter that this daemon knows or believes.
    connectivity: SiteConnectivity  # Outlives the search.
    active: bool = False  # The search is a probe of a whole view.
    wide: bool = False  # Active, and the lowest daemons of the view's other sites take part.
    phase: GatherPhase = GatherPhase.SEG
    # The processes of the site that were heard in this search, or in a probe the members of the view.
    found: dict[DaemonId, Process] = field(default_factory=dict)
    alive_at_us: dict[DaemonId, int] = field(default_factory=dict)  # When daemons of the site were heard.
    claims: dict[DaemonId, int] = field(default_factory=dict)  # View counters that daemons of the site claim.
    # `known` and `heard_at_us` outlive the search, so that old records stay old.
    known: dict[Process, KnownRecord] = field(default_factory=dict)
    heard_at_us: dict[DaemonId, int] = field(default_factory=dict)  # When representatives were heard directly.
    cut: tuple[SitePair, ...] = ()  # Links that this daemon suspects.
    view_cut: tuple[SitePair, ...] = ()  # Cut links of the whole view.
    left_out: frozenset[Process] = frozenset()  # Processes that this daemon leaves out.
    referred: dict[DaemonId, DaemonId] = field(default_factory=dict)  # Daemons and their representatives.
    reports: tuple[LinkWeight, ...] = ()  # Weights that this daemon measured, of its site's links.
    suspects: tuple[Process, ...] = ()  # Processes of the site that may not hear this daemon.
    representative: DaemonId | None = None
    declined: set[DaemonId] = field(default_factory=set)  # Daemons that declined to represent this one.
    numbers: Iterator[int] = field(default_factory=lambda: count(1))  # Of records, through all searches.
    seq: int = 0
    pairs_known: int = 0  # Pairs of the site known to hear each other, at the last check.
    deadline_us: int = 0
    limit_us: int = NEVER
    say_at_us: int = 0

    @property
    def wake_at_us(self) -> int:
        """When the next tick is due."""
        return min(self.deadline_us, self.say_at_us)

    @property
    def gather_us(self) -> int:
        """The duration of a search among representatives."""
        far = any(site != self.site_of[self.me.daemon] for site in self.site_of.values())
        return self.options.gather_us + (2 * self.round_trip_us if far else 0)

    # Begin of a search.

    def seek(self, now_us: int) -> list[GatherOutput]:
        """The view is broken: searches the site."""
        self.phase = GatherPhase.SEG
        self.active = False
        self.found = {self.me.daemon: self.me}
        self.deadline_us = now_us + self.options.seg_us
        return self._say_alive(now_us)

    def probe(self, members: Iterable[Process], now_us: int, wide: bool = False) -> list[GatherOutput]:
        """The view is whole: searches for others on its behalf."""
        self.active = True
        self.wide = wide
        self.found = {one.daemon: one for one in members}
        return self._gather(now_us)

    def _gather(self, now_us: int) -> list[GatherOutput]:
        self.phase = GatherPhase.GATHER
        self.deadline_us = now_us + self.gather_us
        self.limit_us = now_us + 3 * self.gather_us
        self.pairs_known = 0
        self.referred.clear()
        return self._say_join(now_us)

    # Messages of others.

    def heard(self, message: DaemonAlive | DaemonJoin, now_us: int) -> list[GatherOutput]:
        """ALIVE or JOIN of another daemon."""
        return self.alive(message, now_us) if isinstance(message, DaemonAlive) else self.join(message, now_us)

    def alive(self, message: DaemonAlive, now_us: int) -> list[GatherOutput]:
        """ALIVE: a daemon of the site searches."""
        if self.active or message.sender in self.left_out:
            return []
        if self.site_of[message.sender.daemon] != self.site_of[self.me.daemon]:
            return []
        represented = message.rep is not None and message.rep != self.me.daemon
        if self.phase is GatherPhase.REP:
            chosen = message.sender.daemon == self.representative and (represented or message.active)
            return self._declined_by(message.sender.daemon, now_us) if chosen else []
        if represented:
            self.forget(message.sender)
        if represented or message.active:
            return []
        self.alive_at_us[message.sender.daemon] = now_us
        self.claims[message.sender.daemon] = message.counter
        if self.found.get(message.sender.daemon) != message.sender:
            self.found[message.sender.daemon] = message.sender
            self._extend(now_us)
        return []

    def join(self, message: DaemonJoin, now_us: int) -> list[GatherOutput]:
        """JOIN: a representative searches for others."""
        sender = message.sender
        if sender in self.left_out:
            return []
        if self.phase is GatherPhase.GATHER:
            return self._receive_records(message, now_us)
        if self.site_of[sender.daemon] != self.site_of[self.me.daemon]:
            return self._say_refer(sender)
        if message.active:
            # So it learns whether its view and this site's daemons all hear each other.
            return self._say_alive_to(self.connectivity.others, now_us)
        if sender.daemon <= self._lowest(now_us) and self._speaks_for_me(message, now_us):
            return self._represented_by(sender, now_us)
        return []

    def _lowest(self, now_us: int) -> DaemonId:
        """The representative of this daemon: the lowest of the site such that the two hear each other."""
        hear_me = [one for one in self.found if self.connectivity.mutual(self.me.daemon, one, now_us)]
        return min([self.me.daemon, *[one for one in hear_me if one not in self.declined]])

    def _speaks_for_me(self, message: DaemonJoin, now_us: int) -> bool:
        """Whether a lower representative of the site represents this daemon, or may do so yet."""
        sender = message.sender.daemon
        if sender > self.me.daemon or sender in self.declined:
            return False
        if self.phase is not GatherPhase.REP and self.connectivity.mutual(self.me.daemon, sender, now_us):
            return True
        return self.me in message.records[0].members

    def decline(self, message: DaemonDecline, now_us: int) -> list[GatherOutput]:
        """DECLINE: a representative forms a view without this daemon."""
        return self._declined_by(message.sender.daemon, now_us)

    def _declined_by(self, one: DaemonId, now_us: int) -> list[GatherOutput]:
        """That daemon does not represent this one: searches the site again for others without it."""
        self.declined.add(one)
        return self.seek(now_us) if self.phase is GatherPhase.REP and self.representative == one else []

    def _say_refer(self, sender: Process) -> list[GatherOutput]:
        if self.phase is not GatherPhase.REP or self.representative is None:
            return []
        return [SendDaemonMessage((sender.daemon,), DaemonRefer(self.me, self.representative))]

    def forget(self, process: Process) -> None:
        """Removes a process that is gone, or is represented by another, from those found."""
        if not self.active and process != self.me and self.found.get(process.daemon) == process:
            del self.found[process.daemon]

    def met(self) -> list[Process]:
        """The processes heard in this search."""
        return [*self.found.values(), *self.known]

    def refer(self, message: DaemonRefer) -> None:
        """REFER: a daemon that is represented by another one needs no further JOIN."""
        self.referred[message.sender.daemon] = DaemonId(message.rep)

    def _represented_by(self, sender: Process, now_us: int) -> list[GatherOutput]:
        self.phase = GatherPhase.REP
        self.representative = sender.daemon
        self.found.setdefault(sender.daemon, sender)
        self.deadline_us = now_us + self.options.represented_us
        return []

    def _receive_records(self, message: DaemonJoin, now_us: int) -> list[GatherOutput]:
        own_site = self.site_of[self.me.daemon]
        sender = message.sender
        if not self.active and not message.active and self.site_of[sender.daemon] == own_site:
            if self._speaks_for_me(message, now_us):
                # A lower daemon represents the site.
                return self._represented_by(sender, now_us)
            if sender.daemon > self.me.daemon:
                self.found[sender.daemon] = sender
                self.alive_at_us[sender.daemon] = now_us
                self.claims[sender.daemon] = message.records[0].counter
        if self.active and not self.wide and sender.daemon not in self.found:
            self.wide = True
            self.say_at_us = now_us
        if not self._hears(sender.daemon, now_us):
            self._extend(now_us)
        self.heard_at_us[sender.daemon] = now_us
        self.referred.pop(sender.daemon, None)
        for at, record in enumerate(message.records):
            self._learn(record, at == 0, now_us)
        return []

    def _learn(self, record: GatherRecord, own: bool, now_us: int) -> None:
        if record.rep.daemon == self.me.daemon or record.rep in self.left_out:
            return
        if is_news(record, own, self.known, self.options.join_us, now_us):
            known = self.known.get(record.rep)
            if known is None or known.record.members != record.members or not self._is_fresh(known, now_us):
                self._extend(now_us)
            own_seq = record.seq if own else 0 if known is None else known.own_seq
            if known is None:
                make_room(self.known, record.rep.daemon, lambda one: one.at_us)
            self.known[record.rep] = KnownRecord(record, now_us, own_seq)

    @property
    def _fresh_us(self) -> int:
        return FRESH_JOINS * self.options.join_us + self.round_trip_us

    def _fresh_records(self, now_us: int) -> list[GatherRecord]:
        """The recent records, for JOINs; of two incarnations of a daemon, the one heard last comes last."""
        fresh = [known for known in self.known.values() if self._is_fresh(known, now_us)]
        return [known.record for known in sorted(fresh, key=lambda known: known.at_us)]

    def _is_fresh(self, known: KnownRecord, now_us: int) -> bool:
        return now_us - known.at_us <= self._fresh_us

    def _hears(self, one: DaemonId, now_us: int) -> bool:
        at_us = self.heard_at_us.get(one)
        return at_us is not None and now_us - at_us <= self._fresh_us

    def _extend(self, now_us: int) -> None:
        """There is news: prolongs the search, since there may be more."""
        if self.phase is GatherPhase.GATHER:
            self.deadline_us = min(max(self.deadline_us, now_us + self.gather_us), self.limit_us)

    # Timers and decisions.

    def tick(self, now_us: int) -> list[GatherOutput]:
        """Sends the next message, or ends the phase."""
        if now_us >= self.deadline_us:
            return self._late(now_us)
        if now_us < self.say_at_us:
            return []
        return self._say_join(now_us) if self.phase is GatherPhase.GATHER else self._say_alive(now_us)

    def _late(self, now_us: int) -> list[GatherOutput]:
        match self.phase:
            case GatherPhase.SEG:
                lowest = self._lowest(now_us)
                if lowest == self.me.daemon:
                    return self._gather(now_us)
                self.phase = GatherPhase.REP
                self.representative = lowest
                self.deadline_us = now_us + self.options.represented_us
                self.say_at_us = now_us + self.options.alive_us
                # All of the site need to know the representative of this daemon.
                return self._say_alive_to(self.connectivity.others, now_us)
            case GatherPhase.REP:
                return self.seek(now_us)
            case GatherPhase.GATHER:
                return self._prolong(now_us) if self._pairs_increase(now_us) else self._decide(now_us)

    def _prolong(self, now_us: int) -> list[GatherOutput]:
        """Prolongs the search by two JOINs: messages that are missing may have been lost."""
        self.deadline_us = min(self.limit_us, now_us + 2 * self.options.join_us)
        return self._say_join(now_us) if now_us >= self.say_at_us else []

    def _pairs_increase(self, now_us: int) -> bool:
        """Whether more pairs of the site are known to hear each other than at the last check."""
        near = self._near(self._members(now_us))
        pairs = [
            self.connectivity.says(one, other, now_us)
            for rep in self.connectivity.others
            if rep not in near and self._hears(rep, now_us) and not self._linked(near, rep, now_us)
            for others in [self._near_of(rep)]
            for one, other in [*product(near, others), *product(others, near)]
        ]
        before, self.pairs_known = self.pairs_known, sum(pairs)
        return now_us < self.limit_us and self.pairs_known > before

    def _linked(self, near: list[DaemonId], rep: DaemonId, now_us: int) -> bool:
        """Whether this daemon and another representative of the site both say that all hear each other."""
        said = [known.record for known in self.known.values() if known.record.rep.daemon == rep]
        return self._hears_all(near, rep, now_us) and any(self.me.daemon in record.hears for record in said)

    def _decide(self, now_us: int) -> list[GatherOutput]:
        component = self._component(now_us)
        # For a whole view its lowest daemon decides, whether it is heard at the moment or not.
        if min([*component, *(self.found if self.active else ())]) != self.me.daemon:
            return self._wait_for_the_smallest(now_us)
        form = self._form(component, now_us)
        if self.active:
            return [form] if self._is_better(form) else [KeepView()]
        taken = set(form.members)
        declined = tuple(sorted(one.daemon for one in self._alive_members(now_us) if one not in taken))
        return [SendDaemonMessage(declined, DaemonDecline(self.me)), form] if declined else [form]

    def _is_better(self, form: FormView) -> bool:
        """Whether it is worth a new view: all members stay, and others come or a cut link works again."""
        if not {one.daemon for one in form.members} >= set(self.found):
            return False
        return set(form.members) != set(self.found.values()) or set(form.cut) < set(self.view_cut)

    def _wait_for_the_smallest(self, now_us: int) -> list[GatherOutput]:
        """Keeps sending JOIN: otherwise the deciding representative would take this one for gone."""
        if not self.active:
            return self._gather(now_us)
        if now_us >= self.limit_us:
            return [KeepView()]
        self.deadline_us = min(self.limit_us, now_us + self.gather_us)
        return []

    def _component(self, now_us: int) -> dict[DaemonId, GatherRecord]:
        """The component of this representative, by the recent records."""
        own = self._own_record(now_us)
        records = [one for one in self._fresh_records(now_us) if self._is_in_reach(one.counter)]
        fresh = [record for record in records if record.rep not in self.left_out]
        return self._choice.component(own, fresh, waits=self.active)

    def _form(self, component: Mapping[DaemonId, GatherRecord], now_us: int) -> FormView:
        """The view of a component; of two incarnations of a daemon, the one heard last is a member."""
        by_age = sorted(component.values(), key=lambda record: self._age_us(record, now_us), reverse=True)
        members, cut = self._choice.members_and_cuts(component, self.me.daemon, by_age)
        reports = tuple([one for record in by_age for one in record.weights])
        return FormView(tuple(sorted(members.values())), tuple(sorted(cut)), reports)

    @property
    def _choice(self) -> ViewChoice:
        return ViewChoice(self.me, self.site_of, self.weights, self.view_cut)

    def _age_us(self, record: GatherRecord, now_us: int) -> int:
        known = self.known.get(record.rep)
        return now_us - known.at_us if known is not None else 0

    def _own_record(self, now_us: int) -> GatherRecord:
        members = self._members(now_us)
        near = self._near(members)
        heard = [one for one in self.heard_at_us if self._hears(one, now_us)]
        hears = sorted(one for one in heard if self._hears_all(near, one, now_us))
        return GatherRecord(
            self.me,
            self.seq,
            tuple(sorted(members)),
            tuple(hears),
            self.counter,
            self.cut,
            tuple(sorted(self.left_out)),
            self.reports,
        )

    def _members(self, now_us: int) -> list[Process]:
        """The processes that this daemon represents: a whole view, or daemons of the site in mutual contact."""
        members = [one for one in self._alive_members(now_us) if one not in self.left_out]
        if self.active:
            return members
        members = [one for one in members if self._is_in_reach(self.claims.get(one.daemon, self.counter))]
        together = self.connectivity.pairwise([one.daemon for one in members], now_us)
        return [one for one in members if one.daemon in together]

    def _is_in_reach(self, counter: int) -> bool:
        """Whether a daemon with this counter and this one accept a view of each other: neither is far ahead."""
        return self.counter - self.options.counter_ahead_max <= counter <= self.counter

    def _near(self, members: Iterable[Process]) -> list[DaemonId]:
        """The daemons of this site among these processes."""
        site = self.site_of[self.me.daemon]
        return [one.daemon for one in members if self.site_of[one.daemon] == site]

    def _near_of(self, rep: DaemonId) -> set[DaemonId]:
        """The daemons of this site that another representative of it represents."""
        incarnations = [known for known in self.known.values() if known.record.rep.daemon == rep]
        members = max(incarnations, key=lambda known: known.at_us).record.members if incarnations else ()
        return {rep, *self._near(members)}

    def _hears_all(self, near: list[DaemonId], rep: DaemonId, now_us: int) -> bool:
        """Whether the daemons of the site that this one represents hear those of another representative."""
        if rep in near or rep not in self.connectivity.others:
            return True
        return all(
            self.connectivity.says(one, other, now_us) for one in near for other in self._near_of(rep) - {one}
        )

    def _alive_members(self, now_us: int) -> list[Process]:
        """The processes found and heard lately; in a whole view the network detects failures."""
        since_us = now_us - FRESH_ALIVES * self.options.alive_us
        return [
            one
            for daemon, one in self.found.items()
            if self.active or one == self.me or self.alive_at_us.get(daemon, since_us) >= since_us
        ]

    def _say_alive(self, now_us: int) -> list[GatherOutput]:
        self.say_at_us = now_us + self.options.alive_us
        if self.phase is GatherPhase.REP and self.representative is not None:
            to = {self.representative, *self.connectivity.unsure(now_us)}
            return self._say_alive_to(tuple(sorted(to)), now_us)
        return self._say_alive_to(self.connectivity.others, now_us)

    def _say_alive_to(self, to: tuple[DaemonId, ...], now_us: int) -> list[GatherOutput]:
        rep = self.representative if self.phase is GatherPhase.REP else None
        if not to:
            return []
        hears = self.connectivity.hears(now_us)
        return [SendDaemonMessage(to, DaemonAlive(self.me, self.counter, self.suspects, hears, rep))]

    def _say_join(self, now_us: int) -> list[GatherOutput]:
        self.say_at_us = now_us + self.options.join_us
        self.seq = next(self.numbers)
        records = sorted(self._fresh_records(now_us), key=lambda record: record.rep)
        targets = self._targets(now_us)
        out: list[GatherOutput] = [
            SendDaemonMessage(targets, message)
            for message in joins(self._own_record(now_us), records, self.active)
        ]
        return out if self.active else [*out, *self._say_alive_to(self.connectivity.unsure(now_us), now_us)]

    def _targets(self, now_us: int) -> tuple[DaemonId, ...]:
        """The receivers of JOIN: possible representatives, and the daemons that this one represents."""
        skip = set(self.found) if self.active else set()
        if self.wide:
            skip -= lowest_of_sites(self.found, self.site_of)
        # A daemon that named a representative in contact with this one learns of the search from there.
        skip.update(one for one, rep in self.referred.items() if self._hears(rep, now_us))
        return tuple(one for one in sorted(self.site_of) if one != self.me.daemon and one not in skip)


PROCESSES_MAX: Final = 4
"""Limit of the processes of one daemon that a table keeps: one that restarts often has many."""

Kept = TypeVar("Kept")


def make_room(table: dict[Process, Kept], daemon: DaemonId, since_us: Callable[[Kept], int]) -> None:
    """Drops the oldest process of a daemon that has PROCESSES_MAX of them: anybody may name others."""
    present = [one for one in table if one.daemon == daemon]
    if len(present) >= PROCESSES_MAX:
        del table[min(present, key=lambda one: since_us(table[one]))]


def is_news(
    record: GatherRecord, own: bool, known: Mapping[Process, KnownRecord], join_us: int, now_us: int
) -> bool:
    """Whether a record is newer than the known one of its representative; `own`: the representative sent it.

    A wrong number, from the representative or from a daemon that passes its record on, must not make its next
    records old for ever. So a number far above the last one is not believed, a known number is not believed if
    its representative itself sends a much lower one, and it counts no longer some time after it was heard.
    """
    before = known.get(record.rep)
    if before is None:
        return True
    ahead = record.seq - before.record.seq
    age_us = now_us - before.at_us
    if own and ahead < -RECORDS_AHEAD_MAX and record.seq > before.own_seq:
        return True
    if age_us > RECORD_COUNTS_US:
        return ahead != 0
    return 0 < ahead <= RECORDS_AHEAD_MAX + age_us // join_us
