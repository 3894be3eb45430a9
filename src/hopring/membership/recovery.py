"""Recovery: the decision about the last bundles of an old view, computed from STATETRANS messages alone.

Implements  thesis 6.1.9 and 6.1.10, with the delivery line, the commit line and the exemption of Reliable and
            FIFO bundles that the thesis lacks.
Invariants  all processes that come from the same view and take part in the same attempt decide the same,
            because the decision depends on their STATETRANS messages only.

Terms: T is the set of processes that come from the same view. A hole is a bundle that is known to exist and
that no member of T has, or whose body none has although a site of T wants it. A rift is a position in
the order that some of T passed before the view broke, because its bundle is not for their sites, while the
members that the bundle is for could not pass it: it is a hole, or Safe and not stable, or resilient and without
its holders, as far as any of them knew.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hopring.ids import NUMBER_MAX, DaemonId, Process, SiteId, SiteMask, ViewId, mask_of
from hopring.membership.messages import SiteState, StateTrans
from hopring.ordering.entry import Position

BEYOND_ALL = Position(NUMBER_MAX + 1, 0)
"""A position after every stamp that a packet can carry."""

Key = tuple[SiteId, int]


@dataclass(frozen=True, slots=True)
class HeldBundle:
    """A bundle of the old view that may be unstable, and its holders in T."""

    lts: int
    mask: int
    bodies: frozenset[Process]
    metas: frozenset[Process]  # Holders of its meta-data, with the body or without.
    safe: bool = False  # Safe or resilient, and not for all sites of the view.


@dataclass(frozen=True, slots=True)
class DecidedRift:
    """A rift: a position in the order, and the sites that its bundle is for."""

    position: Position
    mask: int
    lost: bool  # The bundle is a hole.


@dataclass(frozen=True, slots=True)
class SequenceGap:
    """Consecutive sequences of a site that exist and that no member of T has."""

    site: SiteId
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision that all of T carry out."""

    together: tuple[Process, ...]  # T, sorted.
    items: Mapping[Key, HeldBundle]  # Unstable bundles that a member of T has.
    holes: frozenset[Key]  # Among the items.
    gaps: tuple[SequenceGap, ...]  # All other holes: no member of T has even their meta-data.
    delivered: Position  # The last position that a member of T delivered in order before the view broke.
    edge: Position  # The position of the first hole.
    promised: Mapping[SiteId, int]  # By site, the last sequence promised in this or an earlier attempt.
    commit: frozenset[Process]
    rifts: tuple[DecidedRift, ...] = ()  # In order.
    uneven: bool = False  # There are rifts, or bundles behind the signal that some site of T does not get.

    def owed(self, site: SiteId) -> dict[Key, bool]:
        """The bundles that a daemon of this site must hold before it is done, and whether with their bodies."""
        return {key: bool(item.mask >> site & 1) for key, item in self.items.items() if key not in self.holes}

    def resends(self, me: Process, site_of: Mapping[DaemonId, SiteId]) -> list[tuple[Key, bool]]:
        """The bundles that this process resends: the lowest holder sends a bundle that a member of T lacks."""
        out: list[tuple[Key, bool]] = []
        for key, item in sorted(self.items.items()):
            if key in self.holes:
                continue
            wanting = [one for one in self.together if item.mask >> site_of[one.daemon] & 1]
            if any(one not in item.bodies for one in wanting):
                if me == min(item.bodies):
                    out.append((key, True))
            elif any(one not in item.metas for one in self.together) and me == min(item.metas):
                out.append((key, False))
        return out


def decide(states: Iterable[StateTrans], installed: ViewId, site_of: Mapping[DaemonId, SiteId]) -> Decision:
    """The decision of the processes that come from this view."""
    mine = sorted([state for state in states if state.installed == installed], key=lambda state: state.sender)
    together = tuple([state.sender for state in mine])
    aru = max(state.aru for state in mine)
    items = _collect(mine, aru)
    sites = {site_of[one.daemon] for one in together}
    holes = _bodiless(items, sites)
    gaps, first = _gaps(mine, items, aru)
    first = min([first, *[Position(items[key].lts, key[0]) for key in holes]])
    commit = frozenset([*together, *[one for state in mine for one in state.commit]])
    delivered = max(Position(*state.delivered) for state in mine)
    passed = [(site_of[state.sender.daemon], Position(*state.delivered)) for state in mine]
    rifts = _rifts(items, holes, passed)
    return Decision(
        together=together,
        items=items,
        holes=holes,
        gaps=gaps,
        delivered=delivered,
        edge=first,
        promised=_promised(mine, items, first),
        commit=commit,
        rifts=rifts,
        uneven=bool(rifts) or _is_pruned_behind(items, holes, delivered, mask_of(*sites)),
    )


def _collect(mine: list[StateTrans], aru: int) -> dict[Key, HeldBundle]:
    """The unstable bundles that a member of T has."""
    known: dict[Key, tuple[int, int]] = {}
    bodies: dict[Key, set[Process]] = {}
    metas: dict[Key, set[Process]] = {}
    safe: set[Key] = set()
    for state in mine:
        for site_state in state.sites:
            for run in site_state.held:
                for seq, lts in run.stamps():
                    if lts < aru:
                        continue
                    key = (SiteId(site_state.site), seq)
                    known[key] = (lts, run.mask)
                    metas.setdefault(key, set()).add(state.sender)
                    if run.body:
                        bodies.setdefault(key, set()).add(state.sender)
                    if run.safe:
                        safe.add(key)
    return {
        key: HeldBundle(lts, mask, frozenset(bodies.get(key, ())), frozenset(metas[key]), key in safe)
        for key, (lts, mask) in known.items()
    }


def _bodiless(items: Mapping[Key, HeldBundle], sites: set[SiteId]) -> frozenset[Key]:
    """The bundles that a site of T wants and whose body no member of T has."""
    wanted = mask_of(*sites)
    return frozenset([key for key, item in items.items() if item.mask & wanted and not item.bodies])


def _gaps(
    mine: list[StateTrans], items: Mapping[Key, HeldBundle], aru: int
) -> tuple[tuple[SequenceGap, ...], Position]:
    """The gaps of all sites, and the lowest position at which a bundle of one may be."""
    gaps: list[SequenceGap] = []
    first = BEYOND_ALL
    held: dict[SiteId, list[int]] = {}
    for site, seq in sorted(items):
        held.setdefault(site, []).append(seq)
    for site in sorted({SiteId(one.site) for state in mine for one in state.sites}):
        states = [one for state in mine for one in state.sites if one.site == site]
        found = _gaps_of(site, states, held.get(site, []))
        if found:
            gaps.extend(found)
            first = min(first, Position(_floor(found[0], states, items, held.get(site, []), aru), site))
    return tuple(gaps), first


def _promised(mine: list[StateTrans], items: Mapping[Key, HeldBundle], edge: Position) -> dict[SiteId, int]:
    """By site, the last bundle below the edge, or the one that a failed attempt bound some of T to.

    A promise covers the bundles known when it was given. A single line through all sites, by position in
    the order, would also cover bundles that only others knew of, and with them bundles behind a hole.
    """
    promised: dict[SiteId, int] = {}
    for state in mine:
        for one in state.sites:
            site = SiteId(one.site)
            promised[site] = max(promised.get(site, 0), one.bound)
    for (site, seq), item in items.items():
        if Position(item.lts, site) < edge:
            promised[site] = max(promised[site], seq)
    return promised


def _rifts(
    items: Mapping[Key, HeldBundle], holes: frozenset[Key], passed: list[tuple[SiteId, Position]]
) -> tuple[DecidedRift, ...]:
    """A member that passed a rift is outside of its mask; members inside of it stop there.

    A resilient bundle that a member inside of the mask has delivered had its holders, and all deliver it.
    """
    found: list[DecidedRift] = []
    for key, item in items.items():
        position = Position(item.lts, key[0])
        sites = [site for site, delivered in passed if position <= delivered]
        had_holders = any(item.mask >> site & 1 for site in sites)
        if sites and (key in holes or (item.safe and not had_holders)):
            found.append(DecidedRift(position, item.mask, key in holes))
    return tuple(sorted(found, key=lambda rift: rift.position))


def _is_pruned_behind(
    items: Mapping[Key, HeldBundle], holes: frozenset[Key], delivered: Position, sites: SiteMask
) -> bool:
    """Whether a bundle behind the signal is not for all sites of T."""
    return any(
        sites & ~item.mask and Position(item.lts, key[0]) > delivered
        for key, item in items.items()
        if key not in holes
    )


def _gaps_of(site: SiteId, states: list[SiteState], held: list[int]) -> list[SequenceGap]:
    """The gaps of one site, lowest first; the cost depends on the bundles held, not on the width of gaps.

    Up to the highest contiguous sequence, a member of T has each bundle, or it was stable and is discarded.
    """
    after = max(state.cseq for state in states)
    highest = max(state.highest for state in states)
    gaps: list[SequenceGap] = []
    for seq in [*[seq for seq in held if seq > after], highest + 1]:
        if seq > after + 1:
            gaps.append(SequenceGap(site, after + 1, seq - 1))
        after = max(after, seq)
    return gaps


def _floor(
    gap: SequenceGap, states: list[SiteState], items: Mapping[Key, HeldBundle], held: list[int], aru: int
) -> int:
    """The lowest stamp that a bundle of a site's first gap can have.

    No member of T lacks anything below its own next_lts, so it is at least the highest of those.
    """
    below = [items[gap.site, seq].lts + 1 for seq in held if seq < gap.first]
    return max([aru, *[state.next_lts for state in states], *below])
