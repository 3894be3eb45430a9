"""Clusters of one wide set on channels that a test moves by hand."""

from collections import deque
from dataclasses import dataclass, field

from hopring.haul.ids import ClusterId, ParcelId, Talk, clusters_mask
from hopring.haul.order.events import (
    AskForParcel,
    Cast,
    CastKind,
    DeliverParcel,
    DescriptorsArrived,
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
from hopring.links.events import Tick

Channel = tuple[int, int]


@dataclass
class WideClusters:
    """The clusters 1 to `count`; what is sent to a cut channel waits in it."""

    count: int
    now_us: int = 0
    cut: set[Channel] = field(default_factory=set)
    delivered: dict[int, list[str]] = field(default_factory=dict)
    everywhere: dict[int, list[int]] = field(default_factory=dict)
    sent: list[HaulOutput] = field(default_factory=list)
    logs: dict[int, dict[ParcelId, Parcel]] = field(default_factory=dict)
    _waiting: dict[Channel, deque[HaulInput]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        every = clusters_mask([ClusterId(one) for one in range(1, self.count + 1)])
        self.sets = {one: WideSet(ClusterId(one), every) for one in range(1, self.count + 1)}
        for one in self.sets:
            self.delivered[one], self.everywhere[one], self.logs[one] = [], [], {}

    def talk(self, *clusters: int, name: str = "") -> Talk:
        """A talk of these clusters; of all without any."""
        return Talk(clusters_mask([ClusterId(one) for one in clusters or self.sets]), name)

    def cbcast(self, source: int, *clusters: int, to: int | None = None) -> None:
        """A cluster sends to all, or to the participants that are named, or to one of all."""
        single = None if to is None else ClusterId(to)
        self.step(source, Cast(self.talk(*clusters), CastKind.CBCAST, to=single))

    def abcast(self, source: int, *clusters: int) -> None:
        """A cluster sends in the one order of the talk."""
        self.step(source, Cast(self.talk(*clusters), CastKind.ABCAST))

    def step(self, cluster: int, event: HaulInput) -> None:
        """Hands an event to a cluster, and puts what it sends into channels."""
        if isinstance(event, ParcelArrived):
            self.logs[cluster][event.parcel.id] = event.parcel
        for output in self.sets[cluster].step(event, self.now_us):
            self.sent.append(output)
            self._take(cluster, output)

    def move(self) -> None:
        """Everything arrives that can, the channels of lower clusters first."""
        while live := sorted(
            [one for one, waiting in self._waiting.items() if waiting and one not in self.cut]
        ):
            self.step(live[0][1], self._waiting[live[0]].popleft())

    def tick(self, after_us: int) -> None:
        """Time passes, at all clusters; then everything arrives."""
        self.now_us += after_us
        for one, core in self.sets.items():
            if core.wake_at_us <= self.now_us:
                self.step(one, Tick())
        self.move()

    def _take(self, cluster: int, output: HaulOutput) -> None:
        source = ClusterId(cluster)
        match output:
            case SendParcel(to, parcel, descriptors):
                self.logs[cluster][parcel.id] = parcel
                self._put(cluster, to, ParcelArrived(source, parcel, descriptors))
            case SendLogged(to, parcel_id, descriptors):
                self._put(cluster, to, ParcelArrived(source, self.logs[cluster][parcel_id], descriptors))
            case SendDescriptors(to, descriptors):
                self._put(cluster, to, DescriptorsArrived(source, descriptors))
            case AskForParcel(to, parcel_id):
                self._put(cluster, to, ParcelWanted(source, parcel_id))
            case DeliverParcel(parcel):
                self.delivered[cluster].append(f"{parcel.id.sender}.{parcel.id.number}")
            case ParcelsEverywhere(first, last):
                self.everywhere[cluster] += range(first, last + 1)

    def _put(self, source: int, to: int, event: HaulInput) -> None:
        self._waiting.setdefault((source, to), deque()).append(event)
