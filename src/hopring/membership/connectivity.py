"""Who belongs together: pure functions on the records that representatives tell each other.

Two representatives are linked if each says that it hears the other. Linked ones form a component. A pair of
sites that is in one component without a link of its own is a cut link of the view to come.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from hopring.ids import DaemonId, Process, SiteId
from hopring.membership.messages import DaemonAlive, DaemonJoin, GatherRecord, SitePair
from hopring.routing.trees import Pair, build_trees, pair

Records = Mapping[DaemonId, GatherRecord]


@dataclass(slots=True)
class SiteConnectivity:
    """What one daemon knows of its site; it outlives searches and views."""

    me: Process
    others: tuple[DaemonId, ...]  # Of the site, sorted.
    fresh_us: int
    heard_at_us: dict[DaemonId, int] = field(default_factory=dict)
    said: dict[DaemonId, dict[DaemonId, int]] = field(default_factory=dict)  # Who says it hears whom, and when.

    def take(self, word: DaemonAlive | DaemonJoin, now_us: int) -> None:
        """A daemon is heard; ALIVE says whom it hears, and a search that speaks for me hears me."""
        sender = word.sender.daemon
        if sender not in self.others:
            return
        if isinstance(word, DaemonAlive):
            hears = [DaemonId(one) for one in word.hears]
        else:
            hears = [self.me.daemon] if not word.active and self.me in word.records[0].members else []
        self.heard_at_us[sender] = now_us
        self.said.setdefault(sender, {}).update(dict.fromkeys(hears, now_us))

    def forget(self, daemon: DaemonId) -> None:
        """This one is gone."""
        self.heard_at_us.pop(daemon, None)
        self.said.pop(daemon, None)

    def hears(self, now_us: int) -> tuple[DaemonId, ...]:
        """Whom this daemon hears."""
        return tuple(one for one in self.others if self.says(self.me.daemon, one, now_us))

    def says(self, one: DaemonId, other: DaemonId, now_us: int) -> bool:
        """Whether the first says that it hears the other."""
        return now_us - self._at_us(one, other) <= self.fresh_us

    def mutual(self, one: DaemonId, other: DaemonId, now_us: int) -> bool:
        """Whether these two hear each other."""
        return self.says(one, other, now_us) and self.says(other, one, now_us)

    def unsure(self, now_us: int) -> tuple[DaemonId, ...]:
        """Those of whom this daemon does not know, or will soon not know, that they hear each other."""
        since_us = now_us - self.fresh_us // 2
        return tuple(
            one
            for one in self.others
            if min(self._at_us(self.me.daemon, one), self._at_us(one, self.me.daemon)) < since_us
        )

    def pairwise(self, daemons: Iterable[DaemonId], now_us: int) -> list[DaemonId]:
        """Of these daemons and this one, those that all hear each other; in a conflict the lower ones."""
        chosen = [self.me.daemon]
        for one in sorted(daemons):
            if one != self.me.daemon and all(self.mutual(one, other, now_us) for other in chosen):
                chosen.append(one)
        return chosen

    def _at_us(self, one: DaemonId, other: DaemonId) -> int:
        """When the first last heard the other, as far as is known."""
        never_us = -2 * self.fresh_us
        if one == self.me.daemon:
            return self.heard_at_us.get(other, never_us)
        return self.said.get(one, {}).get(other, never_us)


def component_of(
    me: DaemonId, records: Records, site_of: Mapping[DaemonId, SiteId]
) -> dict[DaemonId, GatherRecord]:
    """The representatives that hear each other, directly or through others, me among them."""
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
    """Inside a site all must hear each other: a ring goes through every pair.

    Where two of them speak for different daemons of one site, it is for the lowest of these on each side to
    say that those hear each other; it may be another than the two that meet here.
    """
    for one in found:
        for site, near in lowest[one].items():
            far = lowest[other].get(site, near)
            if far != near and not (near in records and far in records and _mutual(records, near, far)):
                return False
    return True


def _lowest_by_site(record: GatherRecord, site_of: Mapping[DaemonId, SiteId]) -> dict[SiteId, DaemonId]:
    """Of the daemons that a record speaks for, the lowest of each site."""
    daemons = sorted([record.rep.daemon, *[one.daemon for one in record.members]], reverse=True)
    return {site_of[one]: one for one in daemons}


def missing_links(
    component: Records, site_of: Mapping[DaemonId, SiteId], view_cut: Iterable[SitePair]
) -> set[Pair]:
    """The links to do without: those that nobody hears through, those somebody suspects.

    What a whole view does without stays so, unless representatives of both ends are here to tell.
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
    """Takes the members out whose sites no route reaches; returns the cuts that still matter."""
    sites = {site_of[one] for one in members}
    reached = build_trees(sites, weights, cut)[near].reached
    for one in [one for one in members if not reached >> site_of[one] & 1]:
        del members[one]
    left = {site_of[one] for one in members}
    return {ends for ends in cut if left.issuperset(ends)}


def lowest_of_sites(daemons: Iterable[DaemonId], site_of: Mapping[DaemonId, SiteId]) -> set[DaemonId]:
    """The lowest of these daemons in each site: its representative."""
    return set({site_of[one]: one for one in sorted(daemons, reverse=True)}.values())


def _mutual(records: Records, one: DaemonId, other: DaemonId) -> bool:
    return other in records[one].hears and one in records[other].hears
