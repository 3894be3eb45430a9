"""Connectivity: which daemons hear each other, inside a site and among the representatives of sites.

Implements  the assumption of thesis 6.1.6 that the daemons of a site all hear each other, as a check.
Above       gather and discovery, which form views only of daemons that can reach each other.
Invariants  a pair of a site hears each other only if both said so within `fresh_us`: a ring goes through every
            pair. Two representatives are linked if each says that it hears the other; linked ones form a
            component. Two sites of one component without a link between them are a cut link of the next view.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from hopring.ids import DaemonId, Process, SiteId
from hopring.membership.messages import DaemonAlive, DaemonJoin, GatherRecord, SitePair
from hopring.routing.trees import Pair, build_trees, pair

Records = Mapping[DaemonId, GatherRecord]


@dataclass(slots=True)
class SiteConnectivity:
    """Which daemons of its site hear each other, as one daemon knows it; outlives searches and views."""

    me: Process
    others: tuple[DaemonId, ...]  # The other daemons of the site, sorted.
    fresh_us: int
    heard_at_us: dict[DaemonId, int] = field(default_factory=dict)
    said: dict[DaemonId, dict[DaemonId, int]] = field(default_factory=dict)  # By hearer and heard, when.

    def heard(self, message: DaemonAlive | DaemonJoin, now_us: int) -> None:
        """Notes that the sender is heard, and which daemons it hears: those in ALIVE, or members in JOIN."""
        sender = message.sender.daemon
        if sender not in self.others:
            return
        if isinstance(message, DaemonAlive):
            hears = [DaemonId(one) for one in message.hears]
        else:
            hears = [self.me.daemon] if not message.active and self.me in message.records[0].members else []
        self.heard_at_us[sender] = now_us
        self.said.setdefault(sender, {}).update(dict.fromkeys(hears, now_us))

    def forget(self, daemon: DaemonId) -> None:
        """Drops all reports of a daemon that is gone."""
        self.heard_at_us.pop(daemon, None)
        self.said.pop(daemon, None)

    def hears(self, now_us: int) -> tuple[DaemonId, ...]:
        """The daemons of the site that this one hears."""
        return tuple(one for one in self.others if self.says(self.me.daemon, one, now_us))

    def says(self, one: DaemonId, other: DaemonId, now_us: int) -> bool:
        """Whether the first reported lately that it hears the other."""
        return now_us - self._at_us(one, other) <= self.fresh_us

    def mutual(self, one: DaemonId, other: DaemonId, now_us: int) -> bool:
        """Whether these two daemons hear each other."""
        return self.says(one, other, now_us) and self.says(other, one, now_us)

    def unsure(self, now_us: int) -> tuple[DaemonId, ...]:
        """Daemons for which it is unknown, or soon will be, whether they and this one hear each other."""
        since_us = now_us - self.fresh_us // 2
        return tuple(
            one
            for one in self.others
            if min(self._at_us(self.me.daemon, one), self._at_us(one, self.me.daemon)) < since_us
        )

    def pairwise(self, daemons: Iterable[DaemonId], now_us: int) -> list[DaemonId]:
        """Of these daemons and this one, a set that hears each other in pairs; in a conflict the lower ones."""
        chosen = [self.me.daemon]
        for one in sorted(daemons):
            if one != self.me.daemon and all(self.mutual(one, other, now_us) for other in chosen):
                chosen.append(one)
        return chosen

    def _at_us(self, one: DaemonId, other: DaemonId) -> int:
        """When the first is last known to have heard the other."""
        never_us = -2 * self.fresh_us
        if one == self.me.daemon:
            return self.heard_at_us.get(other, never_us)
        return self.said.get(one, {}).get(other, never_us)


@dataclass(frozen=True, slots=True)
class ViewChoice:
    """The component, the members and the cut links of the next view, as they follow from records."""

    me: Process
    site_of: Mapping[DaemonId, SiteId]
    weights: Mapping[Pair, int]
    view_cut: tuple[SitePair, ...]  # Cut links of the whole view, if there is one.

    def component(
        self, own: GatherRecord, others: Collection[GatherRecord], waits: bool
    ) -> dict[DaemonId, GatherRecord]:
        """The component of this representative; one that waits keeps those that form a view without it."""
        left_out = self._left_out((own, *others))
        records = {record.rep.daemon: record for record in others if record.rep not in left_out}
        records[self.me.daemon] = own
        if any(self.me in record.left_out for record in others):
            # All that hear of it leave this daemon out too: waiting for them would be in vain.
            return {self.me.daemon: own}
        if waits:
            return component_of(self.me.daemon, records, self.site_of)
        return self._settled_component(records)

    def _settled_component(self, records: dict[DaemonId, GatherRecord]) -> dict[DaemonId, GatherRecord]:
        """The component, without representatives that will form a view without this daemon."""
        while True:
            found = component_of(self.me.daemon, records, self.site_of)
            first = min(found)
            if first == self.me.daemon:
                lost = [one for one in found if min(component_of(one, records, self.site_of)) < first]
                if not lost:
                    return found
                for one in lost:
                    del records[one]
                continue
            theirs = component_of(first, records, self.site_of)
            taken, _ = self.members_and_cuts(theirs, first, theirs.values())
            if taken.get(self.me.daemon) == self.me:
                return found
            for one in [*theirs, first]:
                if one == first or one in taken:
                    records.pop(one, None)

    def members_and_cuts(
        self, component: Records, decider: DaemonId, records: Iterable[GatherRecord]
    ) -> tuple[dict[DaemonId, Process], set[Pair]]:
        """The members and the cut links that the decider of a component would choose."""
        members: dict[DaemonId, Process] = {}
        left_out = self._left_out(component.values())
        for record in records:
            members.update({one.daemon: one for one in record.members if one not in left_out})
        members.update({record.rep.daemon: record.rep for record in component.values()})
        cut = missing_links(component, self.site_of, self.view_cut)
        cut = leave_out_unreached(members, cut, self.site_of[decider], self.site_of, self.weights)
        return members, cut

    def _left_out(self, records: Iterable[GatherRecord]) -> set[Process]:
        """The processes that these records leave out; never passed on as own, or it would not end."""
        return {one for record in records for one in record.left_out} - {self.me}


def component_of(
    me: DaemonId, records: Records, site_of: Mapping[DaemonId, SiteId]
) -> dict[DaemonId, GatherRecord]:
    """The representatives linked to this one, directly or through others, itself included."""
    lowest = {rep: _lowest_by_site(record, site_of) for rep, record in records.items()}
    found = {me: records[me]}
    queue = [me]
    while queue:
        one = queue.pop()
        for other in sorted(records):
            if other not in found and _mutual(records, one, other) and _fits(records, found, other, lowest):
                found[other] = records[other]
                queue.append(other)
    return found


def _fits(
    records: Records,
    found: Iterable[DaemonId],
    other: DaemonId,
    lowest: Mapping[DaemonId, Mapping[SiteId, DaemonId]],
) -> bool:
    """Whether all daemons of each site would hear each other: a ring goes through every pair.

    If two representatives represent different daemons of one site, the lowest of these on each side report
    whether they hear each other; those may be other daemons than the two representatives.
    """
    for one in found:
        for site, near in lowest[one].items():
            far = lowest[other].get(site, near)
            if far != near and not (near in records and far in records and _mutual(records, near, far)):
                return False
    return True


def _lowest_by_site(record: GatherRecord, site_of: Mapping[DaemonId, SiteId]) -> dict[SiteId, DaemonId]:
    """The lowest daemon of each site among those that a record represents."""
    daemons = sorted([record.rep.daemon, *[one.daemon for one in record.members]], reverse=True)
    return {site_of[one]: one for one in daemons}


def missing_links(
    component: Records, site_of: Mapping[DaemonId, SiteId], view_cut: Iterable[SitePair]
) -> set[Pair]:
    """The cut links of the next view: those over which no representatives hear each other, and suspect ones.

    A cut link of the current view stays cut unless representatives of both its ends are in the component.
    """
    reps: dict[SiteId, list[DaemonId]] = {}
    for one in component:
        reps.setdefault(site_of[one], []).append(one)
    unheard = {
        pair(near, far)
        for near in reps
        for far in reps
        if near < far and not any(_mutual(component, one, other) for one in reps[near] for other in reps[far])
    }
    told = {ends for record in component.values() for ends in record.cut}
    untested = {ends for ends in view_cut if not reps.keys() >= set(ends)}
    return unheard | {pair(SiteId(one), SiteId(other)) for one, other in told | untested}


def leave_out_unreached(
    members: dict[DaemonId, Process],
    cut: set[Pair],
    near: SiteId,
    site_of: Mapping[DaemonId, SiteId],
    weights: Mapping[Pair, int],
) -> set[Pair]:
    """Removes the members whose sites no route reaches; returns the cut links between the remaining sites."""
    sites = {site_of[one] for one in members}
    reached = build_trees(sites, weights, cut)[near].reached
    for one in [one for one in members if not reached >> site_of[one] & 1]:
        del members[one]
    left = {site_of[one] for one in members}
    return {ends for ends in cut if left.issuperset(ends)}


def lowest_of_sites(daemons: Iterable[DaemonId], site_of: Mapping[DaemonId, SiteId]) -> set[DaemonId]:
    """The representatives: the lowest of these daemons in each site."""
    return set({site_of[one]: one for one in sorted(daemons, reverse=True)}.values())


def _mutual(records: Records, one: DaemonId, other: DaemonId) -> bool:
    return other in records[one].hears and one in records[other].hears
