"""Gathering: who is alive, first in the site (SEG, REP), then among the representatives (GATHER).

Implements  thesis 6.1.6 to 6.1.8.
Below       unreliable datagrams to single daemons or to the own site.
Above       the membership, which is told when a set of processes should form a view.
Deviations  representatives pass on each other's records, so that two sites find each other through a third and
            the missing link between them is known to all; a represented daemon keeps telling its
            representative that it lives; the smallest representative of a connected component decides. While a
            view is whole its lowest daemon looks for others alone; as soon as somebody outside is heard, the
            lowest of each of its sites takes part, for it may be the only one whom the newcomer reaches.
            Daemons say whom of their site they hear, and a representative takes only those that all hear each
            other: the thesis has no answer to a link inside a site that works one way.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from itertools import count, product
from typing import final

from hopring.ids import NEVER, DaemonId, Process, SiteId
from hopring.membership.connectivity import (
    SiteConnectivity,
    component_of,
    leave_out_unreached,
    lowest_of_sites,
    missing_links,
)
from hopring.membership.events import SendControl
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
"""A representative that was not heard for so many of its intervals is gone."""

FRESH_ALIVES = 10
"""A daemon of the site that was not heard for so many of its intervals is gone."""


class GatherPhase(Enum):
    """The three ways of looking around."""

    SEG = "seg"
    REP = "rep"
    GATHER = "gather"


@dataclass(frozen=True, slots=True)
class FormView:
    """These processes should form a view."""

    members: tuple[Process, ...]
    cut: tuple[SitePair, ...]
    reports: tuple[LinkWeight, ...] = ()  # What its representatives measured, of both ends of each link.


@dataclass(frozen=True, slots=True)
class KeepView:
    """There is nobody new: the view goes on."""


GatherOutput = SendControl | FormView | KeepView


@final
class KnownRecord(Mutable):
    """A representative's record, and when something new of it came."""

    def __init__(self, record: GatherRecord, at_us: int) -> None:
        self.record = record
        self.at_us = at_us


@dataclass(slots=True)
class Gather:
    """One daemon's search, from its beginning to a NEWMEMB."""

    me: Process
    site_of: Mapping[DaemonId, SiteId]
    weights: Mapping[Pair, int]
    options: MembershipOptions
    round_trip_us: int
    counter: int  # The highest view counter heard of.
    connectivity: SiteConnectivity  # Outlives the search, too.
    active: bool = False  # A whole view stands behind this daemon, which only probes.
    wide: bool = False  # Active, and the lowest daemons of the view's other sites take part.
    phase: GatherPhase = GatherPhase.SEG
    segment: dict[DaemonId, Process] = field(default_factory=dict)  # Whom this daemon speaks for.
    alive_at_us: dict[DaemonId, int] = field(default_factory=dict)  # Of the segment, when last heard.
    # These two outlive the search: what is old stays old.
    known: dict[Process, KnownRecord] = field(default_factory=dict)
    heard_at_us: dict[DaemonId, int] = field(default_factory=dict)  # Representatives, directly.
    cut: tuple[SitePair, ...] = ()  # What this daemon knows to be cut.
    view_cut: tuple[SitePair, ...] = ()  # What the whole view does without.
    excluded: frozenset[Process] = (
        frozenset()
    )  # Whom this daemon leaves out, by what it saw or was told directly.
    referred: dict[DaemonId, DaemonId] = field(default_factory=dict)  # Who named another as its representative.
    reports: tuple[LinkWeight, ...] = ()  # What this daemon measured of links of its site.
    suspects: tuple[Process, ...] = ()  # Of my site, those that may not hear me.
    representative: DaemonId | None = None
    declined: set[DaemonId] = field(default_factory=set)  # Who does not represent me, and said so.
    numbers: Iterator[int] = field(
        default_factory=lambda: count(1)
    )  # For records, over all searches of a life.
    seq: int = 0
    pairs_known: int = 0  # Of daemons of the site that hear each other, at the last look.
    deadline_us: int = 0
    limit_us: int = NEVER
    say_at_us: int = 0

    @property
    def wake_at_us(self) -> int:
        """When the next tick is due."""
        return min(self.deadline_us, self.say_at_us)

    @property
    def gather_us(self) -> int:
        """How long to look for representatives."""
        far = any(site != self.site_of[self.me.daemon] for site in self.site_of.values())
        return self.options.gather_us + (2 * self.round_trip_us if far else 0)

    # The ways in.

    def seek(self, now_us: int) -> list[GatherOutput]:
        """The view is broken: look for the daemons of the site."""
        self.phase = GatherPhase.SEG
        self.active = False
        self.segment = {self.me.daemon: self.me}
        self.deadline_us = now_us + self.options.seg_us
        return self._say_alive(now_us)

    def probe(self, members: Iterable[Process], now_us: int, wide: bool = False) -> list[GatherOutput]:
        """The view is whole: look for others on its behalf."""
        self.active = True
        self.wide = wide
        self.segment = {one.daemon: one for one in members}
        return self._gather(now_us)

    def _gather(self, now_us: int) -> list[GatherOutput]:
        self.phase = GatherPhase.GATHER
        self.deadline_us = now_us + self.gather_us
        self.limit_us = now_us + 3 * self.gather_us
        self.pairs_known = 0
        self.referred.clear()
        return self._say_join(now_us)

    # What is heard.

    def alive(self, word: DaemonAlive, now_us: int) -> list[GatherOutput]:
        """A daemon of the site looks around."""
        self.counter = max(self.counter, word.counter)
        if self.active or word.sender in self.excluded:
            return []
        if self.site_of[word.sender.daemon] != self.site_of[self.me.daemon]:
            return []
        represented = word.rep is not None and word.rep != self.me.daemon
        if self.phase is GatherPhase.REP:
            chosen = word.sender.daemon == self.representative and (represented or word.active)
            return self._declined_by(word.sender.daemon, now_us) if chosen else []
        if represented:
            self.forget(word.sender)
        if represented or word.active:
            return []
        self.alive_at_us[word.sender.daemon] = now_us
        if self.segment.get(word.sender.daemon) != word.sender:
            self.segment[word.sender.daemon] = word.sender
            self._news(now_us)
        return []

    def join(self, word: DaemonJoin, now_us: int) -> list[GatherOutput]:
        """A representative looks around."""
        sender = word.sender
        self.counter = max([self.counter, *[record.counter for record in word.records]])
        if sender in self.excluded:
            return []
        if self.phase is GatherPhase.GATHER:
            return self._hear_records(word, now_us)
        if self.site_of[sender.daemon] != self.site_of[self.me.daemon]:
            return self._say_refer(sender)
        if word.active:
            # Tells whether its view and this site's daemons all hear each other.
            return self._say_alive_to(self.connectivity.others, now_us)
        if sender.daemon <= self._lowest(now_us) and self._speaks_for_me(word, now_us):
            return self._represented_by(sender, now_us)
        return []

    def _lowest(self, now_us: int) -> DaemonId:
        """Who is to represent me: the lowest of those heard in the site that also hear me."""
        hear_me = [one for one in self.segment if self.connectivity.mutual(self.me.daemon, one, now_us)]
        return min([self.me.daemon, *[one for one in hear_me if one not in self.declined]])

    def _speaks_for_me(self, word: DaemonJoin, now_us: int) -> bool:
        """Whether a lower representative of the site takes me, or may yet do so."""
        sender = word.sender.daemon
        if sender > self.me.daemon or sender in self.declined:
            return False
        if self.phase is not GatherPhase.REP and self.connectivity.mutual(self.me.daemon, sender, now_us):
            return True
        return self.me in word.records[0].members

    def decline(self, word: DaemonDecline, now_us: int) -> list[GatherOutput]:
        """A representative forms a view without me."""
        return self._declined_by(word.sender.daemon, now_us)

    def _declined_by(self, one: DaemonId, now_us: int) -> list[GatherOutput]:
        """It does not represent me: there may be others in the same position."""
        self.declined.add(one)
        return self.seek(now_us) if self.phase is GatherPhase.REP and self.representative == one else []

    def _say_refer(self, sender: Process) -> list[GatherOutput]:
        if self.phase is not GatherPhase.REP or self.representative is None:
            return []
        return [SendControl((sender.daemon,), DaemonRefer(self.me, self.representative))]

    def forget(self, process: Process) -> None:
        """This one is gone."""
        if not self.active and process != self.me and self.segment.get(process.daemon) == process:
            del self.segment[process.daemon]

    def met(self) -> list[Process]:
        """Who has been heard in this search."""
        return [*self.segment.values(), *self.known]

    def refer(self, word: DaemonRefer) -> None:
        """A daemon that is represented by another need not be asked any more."""
        self.referred[word.sender.daemon] = DaemonId(word.rep)

    def _represented_by(self, sender: Process, now_us: int) -> list[GatherOutput]:
        self.phase = GatherPhase.REP
        self.representative = sender.daemon
        self.segment.setdefault(sender.daemon, sender)
        self.deadline_us = now_us + self.options.represented_us
        return []

    def _hear_records(self, word: DaemonJoin, now_us: int) -> list[GatherOutput]:
        own_site = self.site_of[self.me.daemon]
        sender = word.sender
        if not self.active and not word.active and self.site_of[sender.daemon] == own_site:
            if self._speaks_for_me(word, now_us):
                # A lower one represents the site.
                return self._represented_by(sender, now_us)
            if sender.daemon > self.me.daemon:
                self.segment[sender.daemon] = sender
                self.alive_at_us[sender.daemon] = now_us
        if self.active and not self.wide and sender.daemon not in self.segment:
            self.wide = True
            self.say_at_us = now_us
        if not self._hears(sender.daemon, now_us):
            self._news(now_us)
        self.heard_at_us[sender.daemon] = now_us
        self.referred.pop(sender.daemon, None)
        for record in word.records:
            self._learn(record, now_us)
        return []

    def _learn(self, record: GatherRecord, now_us: int) -> None:
        if record.rep.daemon == self.me.daemon or record.rep in self.excluded:
            return
        if is_news(record, self.known):
            known = self.known.get(record.rep)
            if known is None or known.record.members != record.members or not self._is_fresh(known, now_us):
                self._news(now_us)
            self.known[record.rep] = KnownRecord(record, now_us)

    @property
    def _fresh_us(self) -> int:
        return FRESH_JOINS * self.options.join_us + self.round_trip_us

    def _fresh_records(self, now_us: int) -> list[GatherRecord]:
        """What is worth passing on; of two lives of a daemon, the one that was heard of last comes last."""
        fresh = [known for known in self.known.values() if self._is_fresh(known, now_us)]
        return [known.record for known in sorted(fresh, key=lambda known: known.at_us)]

    def _is_fresh(self, known: KnownRecord, now_us: int) -> bool:
        return now_us - known.at_us <= self._fresh_us

    def _hears(self, one: DaemonId, now_us: int) -> bool:
        at_us = self.heard_at_us.get(one)
        return at_us is not None and now_us - at_us <= self._fresh_us

    def _news(self, now_us: int) -> None:
        """Something changed: wait a little longer, for there may be more."""
        if self.phase is GatherPhase.GATHER:
            self.deadline_us = min(max(self.deadline_us, now_us + self.gather_us), self.limit_us)

    # What is said, and decided.

    def tick(self, now_us: int) -> list[GatherOutput]:
        """Time passes."""
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
                return self._say_alive_to(self.connectivity.others, now_us)  # All shall know who represents me.
            case GatherPhase.REP:
                return self.seek(now_us)
            case GatherPhase.GATHER:
                return self._stay(now_us) if self._comes_closer(now_us) else self._decide(now_us)

    def _stay(self, now_us: int) -> list[GatherOutput]:
        """What is missing may just have been lost: the search goes on for two more JOINs."""
        self.deadline_us = min(self.limit_us, now_us + 2 * self.options.join_us)
        return self._say_join(now_us) if now_us >= self.say_at_us else []

    def _comes_closer(self, now_us: int) -> bool:
        """Whether it is about to be known of more and more daemons of the site that they hear each other."""
        near = self._near(self._members(now_us))
        pairs = [
            self.connectivity.says(one, other, now_us)
            for rep in self.connectivity.others
            if rep not in near and self._hears(rep, now_us) and not self._linked(near, rep, now_us)
            for far in [self._far(rep)]
            for one, other in [*product(near, far), *product(far, near)]
        ]
        before, self.pairs_known = self.pairs_known, sum(pairs)
        return now_us < self.limit_us and self.pairs_known > before

    def _linked(self, near: list[DaemonId], rep: DaemonId, now_us: int) -> bool:
        """Whether another representative of the site and I both say that all hear each other."""
        said = [known.record for known in self.known.values() if known.record.rep.daemon == rep]
        return self._all_hear(near, rep, now_us) and any(self.me.daemon in record.hears for record in said)

    def _decide(self, now_us: int) -> list[GatherOutput]:
        component = self._component(now_us)
        # For a whole view its lowest daemon decides, be it heard at the moment or not.
        if min([*component, *(self.segment if self.active else ())]) != self.me.daemon:
            return self._wait_for_the_smallest(now_us)
        form = self._form(component, now_us)
        if self.active:
            return [form] if self._is_better(form) else [KeepView()]
        taken = set(form.members)
        declined = tuple(sorted(one.daemon for one in self._living(now_us) if one not in taken))
        return [SendControl(declined, DaemonDecline(self.me)), form] if declined else [form]

    def _is_better(self, form: FormView) -> bool:
        """Whether a whole view is given up for it: all its daemons stay, others come or a link works again."""
        if not {one.daemon for one in form.members} >= set(self.segment):
            return False
        return set(form.members) != set(self.segment.values()) or set(form.cut) < set(self.view_cut)

    def _wait_for_the_smallest(self, now_us: int) -> list[GatherOutput]:
        """Keeps speaking, or the one that decides would take us for gone."""
        if not self.active:
            return self._gather(now_us)
        if now_us >= self.limit_us:
            return [KeepView()]
        self.deadline_us = min(self.limit_us, now_us + self.gather_us)
        return []

    def _component(self, now_us: int) -> dict[DaemonId, GatherRecord]:
        """The representatives that hear each other, directly or through others; myself among them."""
        own = self._own_record(now_us)
        fresh = [record for record in self._fresh_records(now_us) if record.rep not in self.excluded]
        left_out = self._left_out((own, *fresh))
        records = {record.rep.daemon: record for record in fresh if record.rep not in left_out}
        records[self.me.daemon] = own
        if any(self.me in record.left_out for record in fresh):
            # Who hears of it leaves me out too, and waiting for them would be in vain.
            return {self.me.daemon: own}
        return self._with_whom(records)

    def _with_whom(self, records: dict[DaemonId, GatherRecord]) -> dict[DaemonId, GatherRecord]:
        """My component; but who will form a view without me is not waited for."""
        while True:
            found = component_of(self.me.daemon, records, self.site_of)
            first = min(found)
            if self.active:
                return found
            if first == self.me.daemon:
                lost = [one for one in found if min(component_of(one, records, self.site_of)) < first]
                if not lost:
                    return found
                for one in lost:
                    del records[one]
                continue
            theirs = component_of(first, records, self.site_of)
            taken, _ = self._who_fits(theirs, first, theirs.values())
            if taken.get(self.me.daemon) == self.me:
                return found
            for one in [*theirs, first]:
                if one == first or one in taken:
                    records.pop(one, None)

    def _form(self, component: Mapping[DaemonId, GatherRecord], now_us: int) -> FormView:
        """All that the component speaks for; of two lives of a daemon, the one that was heard of last."""
        by_age = sorted(component.values(), key=lambda record: self._age_us(record, now_us), reverse=True)
        members, cut = self._who_fits(component, self.me.daemon, by_age)
        reports = tuple([one for record in by_age for one in record.weights])
        return FormView(tuple(sorted(members.values())), tuple(sorted(cut)), reports)

    def _who_fits(
        self, component: Mapping[DaemonId, GatherRecord], decider: DaemonId, records: Iterable[GatherRecord]
    ) -> tuple[dict[DaemonId, Process], set[Pair]]:
        """Whom the decider of a component would take, and the links to do without."""
        members: dict[DaemonId, Process] = {}
        left_out = self._left_out(component.values())
        for record in records:
            members.update({one.daemon: one for one in record.members if one not in left_out})
        members.update({record.rep.daemon: record.rep for record in component.values()})
        cut = missing_links(component, self.site_of, self.view_cut)
        cut = leave_out_unreached(members, cut, self.site_of[decider], self.site_of, self.weights)
        return members, cut

    def _left_out(self, records: Iterable[GatherRecord]) -> set[Process]:
        """Whom any of these leaves out, while it says so; passed on as one's own, it would never end."""
        return {one for record in records for one in record.left_out} - {self.me}

    def _age_us(self, record: GatherRecord, now_us: int) -> int:
        known = self.known.get(record.rep)
        return now_us - known.at_us if known is not None else 0

    def _own_record(self, now_us: int) -> GatherRecord:
        members = self._members(now_us)
        near = self._near(members)
        heard = [one for one in self.heard_at_us if self._hears(one, now_us)]
        hears = sorted(one for one in heard if self._all_hear(near, one, now_us))
        left_out = tuple(sorted(self.excluded))
        who = tuple(sorted(members)), tuple(hears)
        return GatherRecord(self.me, self.seq, *who, self.counter, self.cut, left_out, self.reports)

    def _members(self, now_us: int) -> list[Process]:
        """Whom I speak for: a whole view, or those of the site that all hear each other."""
        members = [one for one in self._living(now_us) if one not in self.excluded]
        if self.active:
            return members
        together = self.connectivity.pairwise([one.daemon for one in members], now_us)
        return [one for one in members if one.daemon in together]

    def _near(self, members: Iterable[Process]) -> list[DaemonId]:
        """Of these, those of my site."""
        site = self.site_of[self.me.daemon]
        return [one.daemon for one in members if self.site_of[one.daemon] == site]

    def _far(self, rep: DaemonId) -> set[DaemonId]:
        """Those of my site whom another representative of it speaks for."""
        lives = [known for known in self.known.values() if known.record.rep.daemon == rep]
        members = max(lives, key=lambda known: known.at_us).record.members if lives else ()
        return {rep, *self._near(members)}

    def _all_hear(self, near: list[DaemonId], rep: DaemonId, now_us: int) -> bool:
        """Whether those of the site that I represent hear those of the site that another one represents."""
        if rep in near or rep not in self.connectivity.others:
            return True
        return all(self.connectivity.says(one, far, now_us) for one in near for far in self._far(rep) - {one})

    def _living(self, now_us: int) -> list[Process]:
        """Those of the segment that were heard lately; in a whole view the network watches over them."""
        since_us = now_us - FRESH_ALIVES * self.options.alive_us
        return [
            one
            for daemon, one in self.segment.items()
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
        return [SendControl(to, DaemonAlive(self.me, self.counter, self.suspects, hears, rep))]

    def _say_join(self, now_us: int) -> list[GatherOutput]:
        self.say_at_us = now_us + self.options.join_us
        self.seq = next(self.numbers)
        records = sorted(self._fresh_records(now_us), key=lambda record: record.rep)
        targets = self._targets(now_us)
        out: list[GatherOutput] = [
            SendControl(targets, word) for word in joins(self._own_record(now_us), records, self.active)
        ]
        return out if self.active else [*out, *self._say_alive_to(self.connectivity.unsure(now_us), now_us)]

    def _targets(self, now_us: int) -> tuple[DaemonId, ...]:
        """Everybody who may be a representative, and those I represent, so that they know that I live."""
        skip = set(self.segment) if self.active else set()
        if self.wide:
            skip -= lowest_of_sites(self.segment, self.site_of)
        # Who named a representative that speaks with us hears of it from there.
        skip.update(one for one, rep in self.referred.items() if self._hears(rep, now_us))
        return tuple(one for one in sorted(self.site_of) if one != self.me.daemon and one not in skip)


def is_news(record: GatherRecord, known: Mapping[Process, KnownRecord]) -> bool:
    """Whether a record says more than what was known of its representative."""
    before = known.get(record.rep)
    return before is None or before.record.seq < record.seq
