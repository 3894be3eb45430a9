"""A wide set at one cluster: pc_cbcast and pc_abcast among the clusters of an application. The main class.

Implements  Makpangou and Birman, 5.2 (pc_cbcast) and 4.2.2 (pc_abcast).
Below       channels to the other clusters (`ChannelChanged`), which lose nothing and keep the order, however
            long they are cut; a log with the bodies of parcels, of this cluster's and of those that arrived.
Above       the application's representative in this cluster, which gets parcels in a causal order.
Invariants  parcels of a talk are delivered behind those in their causal past, and the abcasts of a talk in one
            order at all participants. Causes count from delivery here, not from arrival: otherwise a parcel
            that waits would hold back those who have nothing to do with it. At rest no descriptor is left.
Deviations  see `descriptors.py` and `delaying.py`. The cluster of the sender is a destination like any other;
            the paper delivers there at once. An abcast keeps the descriptor of its origin, for all
            participants, and goes by way of the coordinator, which adds its number in the order. Sent as a
            request within the pair of origin and coordinator, as in the paper, abcasts and cbcasts would not
            keep their causes among each other. Descriptors also travel by themselves, and a cluster that lacks
            a predecessor asks another one that has it.
"""

from dataclasses import dataclass, replace
from typing import Final

from hopring.errors import Drop, PeerError
from hopring.haul.ids import (
    ClusterId,
    ClusterMask,
    ParcelId,
    clusters_in,
    clusters_mask,
    is_in,
    without,
)
from hopring.haul.order.delaying import DelayedParcels, delayed_from
from hopring.haul.order.descriptors import DescriptorBuffer, descriptors_from
from hopring.haul.order.events import (
    AskForParcel,
    Cast,
    CastKind,
    ChannelChanged,
    DeliverParcel,
    DescriptorsArrived,
    DropBodies,
    HaulInput,
    HaulOutput,
    Parcel,
    ParcelArrived,
    ParcelsEverywhere,
    ParcelWanted,
    Past,
    SendDescriptors,
    SendLogged,
    SendParcel,
)
from hopring.haul.order.runs import DescriptorRun
from hopring.haul.order.set_state import WideSetState
from hopring.ids import NEVER
from hopring.links.events import Tick

ENTRY_MAX: Final = 65_535
"""The highest entry point (5.3)."""


@dataclass(frozen=True, slots=True)
class WideOptions:
    """Times of a wide set."""

    descriptors_after_us: int = 1_000_000  # Without a parcel to travel with, descriptors go by themselves.
    ask_after_us: int = 2_000_000  # A cluster that lacks a predecessor waits this long before it asks.


class WideSet:
    """The parcels of one application, as one cluster knows them."""

    def __init__(
        self, me: ClusterId, clusters: ClusterMask, options: WideOptions | None = None, up: bool = True
    ) -> None:
        """`up` says whether the channels carry parcels from the start."""
        assert is_in(me, clusters), "a cluster has wide sets that it is in"
        self.me = me
        self.options = options or WideOptions()
        self.descriptors = DescriptorBuffer(me, clusters)
        self.delayed = DelayedParcels(me)
        self._past: dict[ClusterId, int] = {}
        self._up = set(clusters_in(without(clusters, me))) if up else set()
        self._descriptors_at_us = NEVER
        self._ask_at_us = NEVER
        self._turn = 0  # Clusters that have a parcel are asked in turn.
        self.parked: set[ParcelId] = set()  # Have arrived without their files: nobody asks for them.
        self._out: list[HaulOutput] = []

    @property
    def clusters(self) -> ClusterMask:
        """The clusters of the set."""
        return self.descriptors.clusters

    def snapshot(self) -> WideSetState:
        """All of it: another cluster member goes on from there in the same way."""
        timers = self._descriptors_at_us, self._ask_at_us, self._turn
        up, past = sorted(self._up), sorted(self._past.items())
        return WideSetState(self.clusters, up, past, *timers, self.descriptors.state(), self.delayed.state())

    @property
    def at_rest(self) -> bool:
        """Whether nothing waits, and everybody has everything, as far as is known here."""
        return not self.delayed.delayed and not self.descriptors.size

    @property
    def wake_at_us(self) -> int:
        """When the next tick is due."""
        return min(self._descriptors_at_us, self._ask_at_us)

    def step(self, event: HaulInput, now_us: int) -> list[HaulOutput]:
        """Handles one event; raises PeerError, with nothing changed, for what no correct cluster sends."""
        match event:
            case ParcelArrived():
                self._arrived(event)
            case Cast():
                self._cast(event)
            case DescriptorsArrived(source, descriptors):
                self._check_source(source)
                self.descriptors.check(source, descriptors)
                self._learn(source, descriptors)
            case ParcelWanted(source, parcel):
                self._wanted(source, parcel)
            case ChannelChanged(cluster, up):
                (self._up.add if up else self._up.discard)(cluster)
            case Tick():
                self._tick(now_us)
        self._settle(now_us)
        out, self._out = self._out, []
        return out

    # Sending.

    def _cast(self, cast: Cast) -> None:
        talk = cast.talk
        assert not talk.participants & ~self.clusters, "participants are of the set"
        assert is_in(self.me, talk.participants), "who sends takes part in the talk"
        assert 0 <= cast.entry <= ENTRY_MAX, "entry points have a limit"
        assert not cast.answers or cast.to is not None, "an answer is for the cluster that has asked"
        assert cast.to is None or cast.kind is CastKind.CBCAST, "an order is one of all participants"
        destinations = talk.participants
        if cast.to is not None:
            assert is_in(cast.to, talk.participants), "a single destination takes part in the talk"
            destinations = clusters_mask([cast.to])
        past = self._past_now()
        parcel_id = self.descriptors.create(talk, destinations)
        self._past[self.me] = parcel_id.number
        parcel = Parcel(parcel_id, talk, cast.kind, destinations, cast.entry, past, 0, cast.answers)
        self._expect_own(parcel)
        if cast.kind is CastKind.ABCAST and talk.coordinator != self.me:
            self._send(talk.coordinator, parcel)
            return
        if cast.kind is CastKind.CBCAST:
            self._send_to_others(parcel)
        if is_in(self.me, destinations):
            self._log(parcel)

    def _past_now(self) -> Past:
        return tuple(sorted(self._past.items()))

    def _expect_own(self, parcel: Parcel) -> None:
        run = self.descriptors.find(parcel.id)
        assert run is not None, "it was just created"
        self.delayed.expect(run.part(parcel.id.number, parcel.id.number))

    def _send(self, to: ClusterId, parcel: Parcel) -> None:
        self._out.append(SendParcel(to, parcel, self.descriptors.take_due(to)))

    def _send_to_others(self, parcel: Parcel) -> None:
        for cluster in clusters_in(without(parcel.destinations, self.me)):
            self._send(cluster, parcel)

    # Receiving.

    def _arrived(self, event: ParcelArrived) -> None:
        parcel = event.parcel
        self._check_source(event.source)
        known = self.descriptors.check(event.source, event.descriptors)
        self._check(parcel, known, event.descriptors)
        self._learn(event.source, event.descriptors)
        run = self.descriptors.find(parcel.id)
        if run is None or not is_in(self.me, run.missing) or parcel.id in self.delayed.delayed:
            return  # It came by another way, too.
        if parcel.kind is CastKind.ABCAST and not parcel.order and parcel.talk.coordinator != self.me:
            return
        self._log(parcel)

    def needs(self, source: ClusterId, parcel: Parcel, descriptors: tuple[DescriptorRun, ...]) -> bool:
        """Whether a parcel that has just come is one that this cluster lacks; PeerError if it cannot be."""
        self._check_source(source)
        self._check(parcel, self.descriptors.check(source, descriptors), descriptors)
        if parcel.kind is CastKind.ABCAST and not parcel.order and parcel.talk.coordinator != self.me:
            return False
        if parcel.id.number > self.descriptors.known[parcel.id.sender]:
            return True
        run = self.descriptors.find(parcel.id)
        return run is not None and is_in(self.me, run.missing) and parcel.id not in self.delayed.delayed

    def _check_source(self, source: ClusterId) -> None:
        if source == self.me or not is_in(source, self.clusters):
            raise PeerError(Drop.FOREIGN_SENDER, f"cluster {source} is not another one of the set")

    def _check(
        self, parcel: Parcel, known: dict[ClusterId, int], descriptors: tuple[DescriptorRun, ...]
    ) -> None:
        """Raises PeerError unless this parcel can be, given what is known with its descriptors."""
        sender, number = parcel.id
        if number > known.get(sender, 0) or number < 1:
            raise PeerError(Drop.OUT_OF_WINDOW, f"parcel {number} of cluster {sender} without its descriptor")
        if not is_in(self.me, parcel.destinations) or not 0 <= parcel.entry <= ENTRY_MAX:
            raise PeerError(
                Drop.INCONSISTENT, f"parcel {number} of cluster {sender} is not for cluster {self.me}"
            )
        run = self.descriptors.find(parcel.id) or next(
            (one for one in descriptors if one.sender == sender and one.first <= number <= one.last), None
        )
        if run is not None and (run.talk, run.destinations) != (parcel.talk, parcel.destinations):
            raise PeerError(Drop.INCONSISTENT, f"parcel {number} of cluster {sender} and its descriptor differ")
        past = dict(parcel.past)
        if len(past) != len(parcel.past) or past.get(sender, 0) != number - 1:
            raise PeerError(
                Drop.INCONSISTENT, f"the past of parcel {number} of cluster {sender} runs backwards"
            )
        for cluster, count in parcel.past:
            if not 0 < count <= known.get(cluster, 0):
                raise PeerError(Drop.OUT_OF_WINDOW, f"the past of a parcel of cluster {sender} lies ahead")
        if parcel.kind is CastKind.ABCAST and parcel.destinations != parcel.talk.participants:
            raise PeerError(
                Drop.INCONSISTENT, f"abcast {number} of cluster {sender} is not for all participants"
            )
        if parcel.answers:
            only = parcel.kind is CastKind.CBCAST and parcel.destinations == clusters_mask([self.me])
            if not only or not 0 < parcel.answers <= known[self.me]:
                reason = f"parcel {number} of cluster {sender} answers what cluster {self.me} has not asked"
                raise PeerError(Drop.INCONSISTENT, reason)
        if parcel.order < 0 or (parcel.order and parcel.kind is CastKind.CBCAST):
            raise PeerError(Drop.INCONSISTENT, f"parcel {number} of cluster {sender} with a wrong order")

    def _learn(self, source: ClusterId, descriptors: tuple[DescriptorRun, ...]) -> None:
        for run in self.descriptors.learn(source, descriptors):
            self.delayed.expect(run)

    def _log(self, parcel: Parcel) -> None:
        """A parcel is here with all that it needs: its place in the order, if there has to be one."""
        orders = parcel.kind is CastKind.ABCAST and not parcel.order
        if not orders:
            self.descriptors.received(parcel.id)
        deliverable = self.delayed.add(parcel)
        if deliverable is not None:
            self._deliver(deliverable)

    def _deliver(self, first: Parcel) -> None:
        """Delivers a parcel, and all that waited for it."""
        ready = [first]
        while ready:
            parcel = ready.pop(0)
            if parcel.kind is CastKind.ABCAST and not parcel.order:
                parcel = self._order(parcel)
            for cluster, count in parcel.past:
                self._past[cluster] = max(self._past.get(cluster, 0), count)
            sender, number = parcel.id
            self._past[sender] = max(self._past.get(sender, 0), number)
            self._out.append(DeliverParcel(parcel))
            ready += self.delayed.delivered(parcel)

    def _order(self, parcel: Parcel) -> Parcel:
        """The coordinator gives an abcast its place in the order, and passes it on."""
        placed = replace(parcel, order=self.delayed.ordered.get(parcel.talk, 0) + 1)
        self.descriptors.received(parcel.id)
        self._send_to_others(placed)
        return placed

    # Parcels that others have.

    def _wanted(self, source: ClusterId, parcel: ParcelId) -> None:
        self._check_source(source)
        if (
            not is_in(parcel.sender, self.clusters)
            or not 0 < parcel.number <= self.descriptors.known[parcel.sender]
        ):
            raise PeerError(Drop.OUT_OF_WINDOW, f"cluster {source} asks for a parcel that nobody has sent")
        run = self.descriptors.find(parcel)
        if run is None or not is_in(source, run.missing) or not self._has(run, parcel):
            return
        self._out.append(SendLogged(source, parcel, self.descriptors.take_due(source)))

    def _has(self, run: DescriptorRun, parcel: ParcelId) -> bool:
        """Whether the log has this parcel as it is delivered."""
        if is_in(self.me, run.destinations):
            return not is_in(self.me, run.missing)
        return parcel.sender == self.me

    def _tick(self, now_us: int) -> None:
        if now_us >= self._descriptors_at_us:
            self._descriptors_at_us = NEVER
            for cluster in sorted(self._up):
                if descriptors := self.descriptors.take_due(cluster):
                    self._out.append(SendDescriptors(cluster, descriptors))
        if now_us >= self._ask_at_us:
            self._ask_at_us = NEVER
            self._turn += 1
            for parcel in sorted(self._lacking()):
                self._ask(parcel)

    def _lacking(self) -> set[ParcelId]:
        """Predecessors of parcels here that have not arrived."""
        causes = [one for one in self.delayed.causes.values() if isinstance(one, ParcelId)]
        return {one for one in causes if one not in self.delayed.delayed and one not in self.parked}

    def _ask(self, parcel: ParcelId) -> None:
        run = self.descriptors.find(parcel)
        assert run is not None, "what is not delivered here is not forgotten"
        havers = [
            one for one in clusters_in(run.destinations) if not is_in(one, run.missing) and one in self._up
        ]
        if havers:
            self._out.append(AskForParcel(havers[self._turn % len(havers)], parcel))

    def _settle(self, now_us: int) -> None:
        """Forgets what nobody needs, and sets the timers."""
        for sender, first, last in self.descriptors.forget(self.delayed.waiting):
            if sender == self.me:
                self._out.append(ParcelsEverywhere(first, last))
            self._out.append(DropBodies(sender, first, last))
        if self._descriptors_at_us == NEVER and any(self.descriptors.due[one] for one in self._up):
            self._descriptors_at_us = now_us + self.options.descriptors_after_us
        if self._ask_at_us == NEVER and self.delayed.causes:
            self._ask_at_us = now_us + self.options.ask_after_us


def wide_set_from(me: ClusterId, state: WideSetState, options: WideOptions) -> WideSet:
    """The wide set of a snapshot."""
    found = WideSet(me, state.clusters, options, up=False)
    found.descriptors = descriptors_from(me, state.clusters, state.descriptors)
    found.delayed = delayed_from(me, state.delayed)
    found._up, found._past = set(state.up), dict(state.past)
    found._descriptors_at_us, found._ask_at_us = state.descriptors_at_us, state.ask_at_us
    found._turn = state.turn
    return found
