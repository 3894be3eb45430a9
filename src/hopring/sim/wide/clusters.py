"""Clusters with the real protocol of the long-haul service, on channels that lose nothing and may be cut.

A cut channel keeps what is sent, and what was on its way, until it is open again. Each cluster is one member
here, and its log never fails.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from hopring.check.wide.history import (
    WideAccepted,
    WideDropped,
    WideEvent,
    WideLogged,
    WideRefused,
    WideRest,
    WideSeen,
    WideSent,
    WideWaiting,
)
from hopring.errors import PeerError
from hopring.haul.ids import ClusterId, ParcelId, clusters_mask
from hopring.haul.order.events import (
    AskForParcel,
    Cast,
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
    SendDescriptors,
    SendLogged,
    SendParcel,
)
from hopring.haul.order.wide_set import WideSet
from hopring.ids import NEVER
from hopring.links.events import Tick
from hopring.sim.engine import SimEngine, generator

EVENTS_MAX: Final = 200_000
SET: Final = "s1"

Frame = SendParcel | SendLogged | SendDescriptors | AskForParcel
Direction = tuple[ClusterId, ClusterId]


@dataclass(slots=True)
class SimChannel:
    """One direction between two clusters."""

    cuts: int = 0  # How many cuts it is under; open without any.
    waiting: deque[Frame] = field(default_factory=deque)  # The first one arrives next.
    last_us: int = 0  # When the last one arrives, if nothing is cut.
    opening: int = 0  # Counts how often it was opened: what was to arrive before a cut does not.


class SimWideCluster:
    """One cluster: its protocol and its log."""

    def __init__(self, world: "SimWideClusters", me: ClusterId, count: int) -> None:
        self.world = world
        self.me = me
        self.core = WideSet(me, clusters_mask([ClusterId(one) for one in range(1, count + 1)]))
        self.log: dict[ParcelId, Parcel] = {}
        self.delivered = 0
        self._wake_at_us = NEVER

    def cast(self, cast: Cast) -> None:
        """The client sends; its cluster has logged the parcel before anything else happens to it."""
        parcel = ParcelId(self.me, self.core.descriptors.known[self.me] + 1)
        destinations = cast.talk.participants if cast.to is None else clusters_mask([cast.to])
        note = self.world.history.append
        of = SET, cast.talk, cast.kind, destinations, cast.entry, parcel.number
        note(WideSent(self.name, self.me, message_of(parcel), *of))
        note(WideAccepted(self.name, message_of(parcel), parcel, (), 0))
        note(WideLogged(self.me, SET, parcel))
        self.step(cast)

    @property
    def name(self) -> str:
        """The one client process of this cluster."""
        return f"client {self.me}"

    def receive(self, event: HaulInput) -> None:
        """Something of another cluster; that it is refused is a finding."""
        try:
            self.step(event)
        except PeerError as error:
            self.world.history.append(WideRefused(self.me, str(error)))

    def step(self, event: HaulInput) -> None:
        """Hands an event to the protocol, and carries out what it says."""
        now_us = self.world.engine.now_us
        outputs = self.core.step(event, now_us)
        if isinstance(event, ParcelArrived):
            self._logged(event.parcel)
        for output in outputs:
            self._carry_out(output)
        if self.core.wake_at_us < self._wake_at_us:
            self._wake_at_us = self.core.wake_at_us
            self.world.engine.at(max(now_us, self._wake_at_us), self._tick)

    def _tick(self) -> None:
        self._wake_at_us = NEVER
        self.step(Tick())

    def _logged(self, parcel: Parcel) -> None:
        if parcel.id not in self.log or parcel.order:
            self.log[parcel.id] = parcel
        self.world.history.append(WideLogged(self.me, SET, parcel.id))

    def _carry_out(self, output: HaulOutput) -> None:
        note = self.world.history.append
        match output:
            case SendParcel(to, parcel):
                if parcel.order or parcel.id.sender == self.me:
                    self.log[parcel.id] = parcel
                self.world.send((self.me, to), output)
            case SendLogged(to) | SendDescriptors(to) | AskForParcel(to):
                self.world.send((self.me, to), output)
            case DeliverParcel(parcel):
                self.delivered += 1
                of = self.name, self.me, SET, self.delivered
                note(WideSeen(*of, message_of(parcel.id), parcel))
                self.world.when_delivered(self, parcel)
            case ParcelsEverywhere(first, last):
                for number in range(first, last + 1):
                    self.delivered += 1
                    of = self.name, self.me, SET, self.delivered
                    note(WideSeen(*of, everywhere=ParcelId(self.me, number)))
            case DropBodies(sender, first, last):
                for number in range(first, last + 1):
                    note(WideDropped(self.me, SET, ParcelId(sender, number)))
                    self.log.pop(ParcelId(sender, number), None)


def ignore(_cluster: SimWideCluster, _parcel: Parcel) -> None:
    """The default for deliveries: the client does nothing."""


class SimWideClusters:
    """The clusters of one wide set, and the channels between them."""

    def __init__(self, count: int, seed: int, delay_us: int) -> None:
        self.engine = SimEngine(EVENTS_MAX)
        self.history: list[WideEvent] = []
        self.frames: Counter[str] = Counter()  # Put into channels, by kind.
        self.when_delivered: Callable[[SimWideCluster, Parcel], None] = ignore
        self._delay_us = delay_us
        self._dice = generator(seed, "channels")
        every = [ClusterId(one) for one in range(1, count + 1)]
        self.clusters = {one: SimWideCluster(self, one, count) for one in every}
        self.channels = {(one, other): SimChannel() for one in every for other in every if one != other}

    def send(self, direction: Direction, frame: Frame) -> None:
        """Puts a frame into a channel."""
        self.frames[type(frame).__name__] += 1
        channel = self.channels[direction]
        channel.waiting.append(frame)
        if not channel.cuts:
            self._plan(direction, channel)

    def cut(self, directions: Iterable[Direction]) -> None:
        """Cuts some channels; what is under several cuts is open when all have ended."""
        for direction in directions:
            channel = self.channels[direction]
            channel.cuts += 1
            if channel.cuts == 1:
                channel.opening += 1
                self.clusters[direction[0]].step(ChannelChanged(direction[1], up=False))

    def mend(self, directions: Iterable[Direction]) -> None:
        """Ends one cut of each of these channels."""
        for direction in directions:
            channel = self.channels[direction]
            channel.cuts = max(0, channel.cuts - 1)
            if not channel.cuts:
                self._open(direction, channel)

    def heal(self) -> None:
        """Ends all cuts of all channels."""
        for direction, channel in self.channels.items():
            if channel.cuts:
                channel.cuts = 0
                self._open(direction, channel)

    def note_waiting(self) -> None:
        """Notes what waits, at a moment at which all that can move has moved."""
        for cluster in self.clusters.values():
            waits = tuple(sorted(cluster.core.delayed.delayed))
            self.history.append(WideWaiting(cluster.me, SET, waits))

    def note_rest(self) -> None:
        """Notes at the quiet end what is kept."""
        for cluster in self.clusters.values():
            core = cluster.core
            kept = ("descriptors", core.descriptors.size), ("delayed parcels", len(core.delayed.delayed))
            self.history.append(WideRest(cluster.me, kept))

    def _open(self, direction: Direction, channel: SimChannel) -> None:
        for _ in channel.waiting:
            self._plan(direction, channel)
        self.clusters[direction[0]].step(ChannelChanged(direction[1], up=True))

    def _plan(self, direction: Direction, channel: SimChannel) -> None:
        """The next frame that is not planned arrives some time after the one before it."""
        earliest_us = self.engine.now_us + self._dice.randint(1, self._delay_us)
        channel.last_us = max(channel.last_us, earliest_us)
        self.engine.at(channel.last_us, self._arrive, direction, channel.opening)

    def _arrive(self, direction: Direction, opening: int) -> None:
        channel = self.channels[direction]
        if opening == channel.opening and not channel.cuts:
            source, to = direction
            self.clusters[to].receive(self._event(source, channel.waiting.popleft()))

    def _event(self, source: ClusterId, frame: Frame) -> HaulInput:
        match frame:
            case SendParcel(_, parcel, descriptors):
                return ParcelArrived(source, parcel, descriptors)
            case SendLogged(_, parcel_id, descriptors):
                logged = self.clusters[source].log.get(parcel_id)
                if logged is None:  # It was dropped meanwhile: everybody has it.
                    return DescriptorsArrived(source, descriptors)
                return ParcelArrived(source, logged, descriptors)
            case SendDescriptors(_, descriptors):
                return DescriptorsArrived(source, descriptors)
            case AskForParcel(_, parcel_id):
                return ParcelWanted(source, parcel_id)


def message_of(parcel: ParcelId) -> str:
    """The message that a parcel has: each client sends one for each number of its cluster."""
    return f"{parcel.sender}.{parcel.number}"
