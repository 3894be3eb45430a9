"""Recovery: the decision about the last bundles of an old view, computed from STATETRANS messages alone.

Implements  thesis 6.1.9 and 6.1.10, with the delivery line, the commit line and the exemption of Reliable and
            FIFO bundles that the thesis lacks.
Invariants  all processes that come from the same view and take part in the same attempt decide the same,
            because the decision depends on their STATETRANS messages only.

Terms: T is the set of processes that come from the same view. A hole is a bundle that is known to exist and
that no member of T has, or whose body none has although a site of T wants it. A rift is a position in
the order that some of T passed before the view broke, because its bundle is not for their sites, while the
members that the bundle is for could not pass it: it is a hole, or Safe and not stable.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hopring.ids import NUMBER_MAX, DaemonId, Process, SiteId, SiteMask, ViewId, mask_of
from hopring.membership.messages import SiteState, StateTrans
from hopring.ordering.entry import Position

NOWHERE = Position(NUMBER_MAX + 1, 0)
"""A position after every stamp that a packet can carry."""

Key = tuple[SiteId, int]


@dataclass(frozen=True, slots=True)
class HeldBundle:
    """A bundle of the old view that may be unstable, and its holders in T."""

    lts: int
    mask: int
    bodies: frozenset[Process]
    metas: frozenset[Process]  # Holders of its meta-data, with the body or without.
    safe: bool = False  # Safe, and not for all sites of the view.


@dataclass(frozen=True, slots=True)
class DecidedRift:
    """A rift: a position in the order, and the sites that its bundle is for."""

    position: Position
    mask: int
    lost: bool  # The bundle is a hole.


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision that all of T carry out."""

    together: tuple[Process, ...]  # T, sorted.
    items: Mapping[Key, HeldBundle]  # Unstable bundles that a member of T has.
    holes: frozenset[Key]
    delivered: Position  # The last position that a member of T delivered in order before the view broke.
    edge: Position  # The position of the first hole.
    lines: Mapping[SiteId, int]  # By site, the last sequence promised in this or an earlier attempt.
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
    holes, first = _holes(mine, items, aru, sites)
    commit = frozenset([*together, *[one for state in mine for one in state.commit]])
    delivered = max(Position(*state.delivered) for state in mine)
    rifts = _rifts(items, holes, delivered)
    return Decision(
        together=together,
        items=items,
        holes=holes,
        delivered=delivered,
        edge=first,
        lines=_lines(mine, items, first),
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


def _holes(
    mine: list[StateTrans], items: Mapping[Key, HeldBundle], aru: int, sites: set[SiteId]
) -> tuple[frozenset[Key], Position]:
    """All holes, and the position of the first one."""
    holes: set[Key] = set()
    first = NOWHERE
    for key, item in items.items():
        needed = any(item.mask >> site & 1 for site in sites)
        if needed and not item.bodies:
            holes.add(key)
            first = min(first, Position(item.lts, key[0]))
    for site in sorted({SiteId(one.site) for state in mine for one in state.sites}):
        states = [one for state in mine for one in state.sites if one.site == site]
        for seq, position in _unknown(site, states, items, aru):
            holes.add((site, seq))
            first = min(first, position)
    return frozenset(holes), first


def _lines(mine: list[StateTrans], items: Mapping[Key, HeldBundle], edge: Position) -> dict[SiteId, int]:
    """By site, the last bundle below the edge, or the line that a failed attempt bound some of T to.

    A promise covers the bundles known when it was given. A single line through all sites, by position in
    the order, would also cover bundles that only others knew of, and with them bundles behind a hole.
    """
    lines: dict[SiteId, int] = {}
    for state in mine:
        for one in state.sites:
            site = SiteId(one.site)
            lines[site] = max(lines.get(site, 0), one.line)
    for (site, seq), item in items.items():
        if Position(item.lts, site) < edge:
            lines[site] = max(lines[site], seq)
    return lines


def _rifts(
    items: Mapping[Key, HeldBundle], holes: frozenset[Key], delivered: Position
) -> tuple[DecidedRift, ...]:
    """A member that passed a rift is outside of its mask; members inside of it stop there."""
    found = [
        DecidedRift(Position(item.lts, key[0]), item.mask, key in holes)
        for key, item in items.items()
        if (item.safe or key in holes) and Position(item.lts, key[0]) <= delivered
    ]
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


def _unknown(
    site: SiteId, states: list[SiteState], items: Mapping[Key, HeldBundle], aru: int
) -> list[tuple[int, Position]]:
    """Sequences of a site that exist and that no member of T has, with lower bounds of their positions.

    Up to the highest contiguous sequence, a member of T has each bundle, or it was stable and is discarded.
    """
    low = max(state.cseq for state in states)
    high = max(state.highest for state in states)
    # No member of T lacks anything below its own next_lts, so the hole's stamp is at least the highest of
    # those.
    floor = max([aru, *[state.next_lts for state in states]])
    out: list[tuple[int, Position]] = []
    for seq in range(low + 1, high + 1):
        item = items.get((site, seq))
        if item is not None:
            floor = max(floor, item.lts + 1)
        else:
            out.append((seq, Position(floor, site)))
    return out
