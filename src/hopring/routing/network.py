"""The overlay network: bundles travel along the trees of their sources, bodies only where they are wanted.

Implements  Stanton (thesis 2002) properties 2.21 to 2.23, 3.3 and 3.4.2; Amir and Stanton (report 1998) 3.2.
Below       the ring of the own site; for its representative also the links to representatives of other sites.
            Each hands up every packet at most once, in any order.
Above       ordering, which gets every bundle of the view: with its body where the bundle's mask names the own
            site, as meta-data otherwise. Own bundles do not come up here: the stack hands them up itself.
Invariants  the mask in the object decides, never a table of a forwarder; nothing waits for anything earlier;
            meta-data travels once for a bundle, with fragment 0, and none for an Unreliable one; promises and
            control messages go to all sites; an item is accepted only from the parent in the tree of its
            source, or from a member of the own ring; after a failure there is no output.
Deviations  the papers do not cover a source whose own site does not want the body: its ring then carries the
            body only if its representative needs it to forward, and the other daemons hand up meta-data.

One object serves one view, from `ninit` to `linkfailed`; the next view builds another. There are no timers.
"""

from collections.abc import Collection, Iterable
from dataclasses import InitVar, dataclass, field
from typing import Final, assert_never, final

from hopring.config.model import LinkProtocol, LinkTuning
from hopring.errors import Drop, PeerError
from hopring.ids import DaemonId, SiteId, SiteMask, mask_of
from hopring.links.events import LinkFailed
from hopring.reason import NO_FACTS, LossFacts, ReasonKind
from hopring.routing.trees import Pair, Topology, Tree, build_trees, edges_used, islands, pair
from hopring.value import Value
from hopring.wire.control import (
    Control,
    Update,
    decode_control_object,
    decode_update,
    encode_control_object,
    encode_update,
)
from hopring.wire.objects import ObjectType
from hopring.wire.routed import Meta, Routed, decode_routed, encode_meta, encode_routed
from hopring.wire.unreliable import Unreliable, encode_unreliable

Item = Routed | Meta | Update | Control | Unreliable
"""All that travels along the trees; encoded, an item is an object of a packet."""


@final
class Originate(Value):
    """Send this, which is of this daemon: a promise, a control message or an Unreliable fragment.

    Fragments of stamped bundles go by `forward_own` and `ring_part`, during a visit of the token.
    """

    def __init__(self, item: Update | Control | Unreliable) -> None:
        self.item: Final = item


@final
class FromRing(Value):
    """Another daemon of my site sent this on the ring; any of them, since all may repeat a packet."""

    def __init__(self, item: Item) -> None:
        self.item: Final = item


@final
class FromLink(Value):
    """The representative of a neighbouring site sent this on our link."""

    def __init__(self, neighbour: DaemonId, item: Item) -> None:
        self.neighbour: Final = neighbour
        self.item: Final = item


@final
class Failed(Value):
    """A link or the ring has failed, or this daemon cannot go on with them."""

    def __init__(
        self,
        reason: str,
        kind: ReasonKind = ReasonKind.PROTOCOL,
        facts: LossFacts = NO_FACTS,
    ) -> None:
        self.reason: Final = reason
        self.kind: Final = kind
        self.facts: Final = facts

    @staticmethod
    def of_link(failed: LinkFailed, peer: DaemonId) -> "Failed":
        """The failure of the link with this daemon."""
        reason = f"link with daemon {peer}: {failed.reason}"
        return Failed(reason, ReasonKind.LINK, LossFacts(peer, failed.silence_us, failed.absence))

    @staticmethod
    def of_ring(failed: LinkFailed, suspect: DaemonId | None) -> "Failed":
        """The failure of the ring, and the member that may be the reason."""
        facts = LossFacts(suspect, failed.silence_us, failed.absence)
        return Failed(f"ring: {failed.reason}", ReasonKind.RING, facts)

    @staticmethod
    def of_load(reason: str) -> "Failed":
        """More has to be sent than can be."""
        return Failed(reason, kind=ReasonKind.OVERLOAD)


@final
class ToRing(Value):
    """Send this on the ring of my site."""

    def __init__(self, item: Item) -> None:
        self.item: Final = item


@final
class ToLink(Value):
    """Send this on the link to that representative."""

    def __init__(self, neighbour: DaemonId, item: Item) -> None:
        self.neighbour: Final = neighbour
        self.item: Final = item


@final
class Up(Value):
    """Hand this to the layer above."""

    def __init__(self, item: Item) -> None:
        self.item: Final = item


@final
class NetworkFailed(Value):
    """The network has failed; the membership has to build another."""

    def __init__(
        self,
        reason: str,
        kind: ReasonKind = ReasonKind.PROTOCOL,
        facts: LossFacts = NO_FACTS,
    ) -> None:
        self.reason: Final = reason
        self.kind: Final = kind
        self.facts: Final = facts


Input = Originate | FromRing | FromLink | Failed
Output = ToRing | ToLink | Up | NetworkFailed


@dataclass(frozen=True, slots=True)
class Neighbour:
    """The other end of one of my links."""

    daemon: DaemonId
    site: SiteId
    protocol: LinkProtocol
    tuning: LinkTuning


@final
class _Route(Value):
    """My site's part in the tree of one source."""

    def __init__(
        self, parent: DaemonId | None, below: SiteMask, branches: tuple[tuple[DaemonId, SiteMask], ...]
    ) -> None:
        self.parent: Final = parent  # None at the source.
        self.below: Final = below  # My site and all that it forwards to.
        self.branches: Final = branches


@dataclass(slots=True)
class Network:
    """The overlay network of one view, as one of its daemons sees it."""

    topology: Topology
    me: DaemonId
    members: Collection[DaemonId]
    cut: InitVar[Collection[Pair]] = ()

    site: SiteId = field(init=False)
    sites: tuple[SiteId, ...] = field(init=False)
    ring: tuple[DaemonId, ...] = field(init=False)  # The members of my site, me included.
    representatives: dict[SiteId, DaemonId] = field(init=False)  # The lowest daemon of each site.
    is_representative: bool = field(init=False)  # Whether I am the one that links my site to others.
    trees: dict[SiteId, Tree] = field(init=False)
    neighbours: tuple[Neighbour, ...] = field(init=False)  # By links that some tree uses.
    cut_links: frozenset[Pair] = field(init=False)
    spares: tuple[Neighbour, ...] = field(init=False)  # By links that no tree uses, and that are measured.
    failure: str | None = field(init=False, default=None)
    everywhere: SiteMask = field(init=False)
    _here: SiteMask = field(init=False)
    _routes: dict[SiteId, _Route] = field(init=False)

    def __post_init__(self, cut: Collection[Pair]) -> None:
        assert self.me in self.members, "I am a member of my own view"
        self.members = tuple(sorted(set(self.members)))
        site_of = self.topology.site_of
        self.site = site_of[self.me]
        self._here = mask_of(self.site)
        self.representatives = {site_of[daemon]: daemon for daemon in reversed(self.members)}
        self.is_representative = self.representatives[self.site] == self.me
        self.sites = tuple(sorted(self.representatives))
        self.everywhere = mask_of(*self.sites)
        self.ring = tuple([daemon for daemon in self.members if site_of[daemon] == self.site])
        self.cut_links = frozenset(cut)
        self.trees = build_trees(self.sites, self.topology.weights, cut)
        assert len(islands(self.trees)) == 1, "membership leaves out sites that cannot be reached"
        self.neighbours = self._find_neighbours() if self.is_representative else ()
        self.spares = self._find_spares() if self.is_representative and self.topology.measured else ()
        self._routes = {source: self._route(tree) for source, tree in self.trees.items()}

    def step(self, event: Input) -> list[Output]:
        """Takes one event; returns the items to send and to hand up."""
        if self.failure is not None:
            return []
        if isinstance(event, FromRing):
            return self._from_ring(event.item)
        if isinstance(event, FromLink):
            return self._from_link(event.neighbour, event.item)
        if isinstance(event, Originate):
            return self._originate(event.item)
        if isinstance(event, Failed):
            self.failure = event.reason
            return [NetworkFailed(event.reason, event.kind, event.facts)]
        assert_never(event)

    def forward_own(self, fragment: Routed) -> list[ToLink]:
        """The parts of an own fragment for other sites; the stack itself puts `ring_part` on the ring."""
        assert fragment.source == self.site, "a daemon originates for its own site only"
        return [] if self.failure is not None else self._forward(fragment)

    def _originate(self, item: Update | Control | Unreliable) -> list[Output]:
        assert item.source == self.site, "a daemon originates for its own site only"
        outputs: list[Output] = [*self._forward(item)]
        part = self.ring_part(item)
        if part is not None:
            outputs.append(ToRing(part))
        return outputs

    def ring_part(self, item: Routed | Update | Control | Unreliable) -> Item | None:
        """The part of an own item for the ring of this site: all of it, its meta-data or nothing."""
        if len(self.ring) == 1:
            return None
        # A body that is not for this site goes on its ring only so that the representative can forward it.
        for part in _prune(item, self._here if self.is_representative else self.everywhere):
            return part
        return None

    def _from_ring(self, item: Item) -> list[Output]:
        route = self._checked_route(item)
        if item.source != self.site and self.is_representative:
            raise PeerError(Drop.FOREIGN_SENDER, f"site {item.source} speaks to this ring through me alone")
        # A source's body crosses its own ring for the representative's sake, whether wanted here or not.
        _check_kind(
            item,
            must_have=route.below if self.is_representative else self._here,
            may_have=route.below if item.source == self.site else self._here,
        )
        return [*self._forward(item), *self._up(item)]

    def _from_link(self, neighbour: DaemonId, item: Item) -> list[Output]:
        route = self._checked_route(item)
        if not self.is_representative or route.parent != neighbour:
            raise PeerError(
                Drop.FOREIGN_SENDER, f"daemon {neighbour} is not my parent in the tree of site {item.source}"
            )
        _check_kind(item, must_have=route.below, may_have=route.below)
        outputs: list[Output] = [*self._forward(item)]
        if len(self.ring) > 1:
            outputs += [ToRing(part) for part in _prune(item, self._here)]
        return [*outputs, *self._up(item)]

    def _checked_route(self, item: Item) -> _Route:
        route = self._routes.get(item.source)
        if route is None:
            raise PeerError(Drop.INCONSISTENT, f"site {item.source} is not in this view")
        if isinstance(item, Control):
            self._check_control(item)
        return route

    def _check_control(self, item: Control) -> None:
        """Refuses a control message of a daemon that is not at its source, and one in the own name."""
        daemon = item.daemon
        if daemon == self.me or daemon not in self.members or self.topology.site_of[daemon] != item.source:
            raise PeerError(Drop.FOREIGN_SENDER, f"control message of daemon {daemon} by site {item.source}")

    def _forward(self, item: Item) -> list[ToLink]:
        branches = self._routes[item.source].branches
        return [ToLink(child, part) for child, below in branches for part in _prune(item, below)]

    def _up(self, item: Item) -> list[Output]:
        return [Up(part) for part in _prune(item, self._here)]

    def _find_neighbours(self) -> tuple[Neighbour, ...]:
        edges = [ends for ends in edges_used(self.trees) if self.site in ends]
        others = sorted([one if other == self.site else other for one, other in edges])
        return tuple([self._neighbour(site) for site in others])

    def _find_spares(self) -> tuple[Neighbour, ...]:
        """A link must be measured before a tree can use it, and after all trees have left it."""
        used = {one.site for one in self.neighbours}
        others = [site for site in self.sites if site != self.site and site not in used]
        links = {site: pair(self.site, site) for site in others}
        return tuple(
            [
                self._neighbour(site)
                for site, ends in links.items()
                if ends in self.topology.links and ends not in self.cut_links
            ]
        )

    def _neighbour(self, site: SiteId) -> Neighbour:
        plan = self.topology.links[pair(self.site, site)]
        return Neighbour(self.representatives[site], site, plan.protocol, plan.tuning)

    def _route(self, tree: Tree) -> _Route:
        parent = tree.parent.get(self.site)
        branches = tree.branches(self.site) if self.is_representative else ()
        return _Route(
            parent=None if parent is None else self.representatives[parent],
            below=tree.below[self.site],
            branches=tuple([(self.representatives[child], below) for child, below in branches]),
        )


def _prune(item: Item, below: SiteMask) -> Iterable[Item]:
    """The part of an item that goes to these sites: all of it, its meta-data, or nothing."""
    if isinstance(item, Routed):
        if item.mask & below:
            return (item,)
        return (item.meta(),) if item.index == 0 else ()
    # No daemon waits for an Unreliable bundle, so its meta-data is not needed.
    return () if isinstance(item, Unreliable) and not item.mask & below else (item,)


def _check_kind(item: Item, must_have: SiteMask, may_have: SiteMask) -> None:
    """Refuses meta-data if the mask names one of the first sites, a body if it names none of the second."""
    if isinstance(item, Meta):
        if item.mask & must_have:
            raise PeerError(Drop.INCONSISTENT, f"no body of bundle {item.seq} from site {item.source}")
    elif isinstance(item, Routed):
        if not item.mask & may_have:
            raise PeerError(Drop.INCONSISTENT, f"unwanted body of bundle {item.seq} from site {item.source}")
    elif isinstance(item, Unreliable) and not item.mask & may_have:
        raise PeerError(Drop.INCONSISTENT, f"unwanted Unreliable bundle from site {item.source}")


def encode_item(item: Item) -> bytes:
    """An item as an object of a packet."""
    if isinstance(item, Routed):
        return encode_routed(item)
    if isinstance(item, Meta):
        return encode_meta(item)
    if isinstance(item, Update):
        return encode_update(item)
    if isinstance(item, Control):
        return encode_control_object(item)
    if isinstance(item, Unreliable):
        return encode_unreliable(item)
    assert_never(item)


def decode_item(kind: int, body: memoryview) -> Item:
    """The item of an object, unless it is Unreliable or a PING."""
    match kind:
        case ObjectType.UPDATE:
            return decode_update(body)
        case ObjectType.CONTROL:
            return decode_control_object(body)
        case _:
            return decode_routed(kind, body)
