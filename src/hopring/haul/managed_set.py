"""A wide set in the replicated state of a cluster: protocol, channels, bodies, and what is deliverable.

Implements  Makpangou and Birman, 4.1.1 and 5.1: what cannot be sent waits for the channel (the interLAN spool),
            what cannot be handed over waits for the local group (the wSpool).
Below       `WideSet`, which orders parcels and knows who has them; channels, which number frames.
Above       the application manager.
Invariants  it changes by entries of the log alone. A body is kept while a destination may lack it, or the
            group here does. Delivery numbers rise by one, and each has one item for ever. A parcel with a file
            counts as arrived when its file is whole; until then it is parked, and nothing else waits for it
            but what depends on it.
            The state has their sizes; the bodies themselves are in memory from their entry to the next
            snapshot of the member, and then in files beside its log (stored/keeping.py).
Deviations  one copy of a body serves all spools. A limit of bytes for each peer and for the group holds back
            what is more.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from hopring.errors import Drop, PeerError
from hopring.haul.calls import DurableCalls, calls_from
from hopring.haul.ids import ClusterId, ClusterMask, ParcelId, clusters_in, is_in, without
from hopring.haul.link.channel import FRAME_COST_BYTES, Channel, NumberedFrame
from hopring.haul.link.frames import DESCRIPTORS_MAX, DescriptorsFrame, ParcelFrame, SetFrame, WideFile
from hopring.haul.order.events import (
    AskForParcel,
    Cast,
    DeliverParcel,
    DescriptorsArrived,
    DropBodies,
    HaulInput,
    HaulOutput,
    Parcel,
    ParcelArrived,
    ParcelsEverywhere,
    SendDescriptors,
    SendLogged,
    SendParcel,
)
from hopring.haul.order.runs import DescriptorRun
from hopring.haul.order.wide_set import WideOptions, WideSet, wide_set_from
from hopring.haul.states import ChannelState, FileOfParcel, KeptParcel, LineFile, ParkedParcel, SetState
from hopring.haul.stored.names import check_file, place_of
from hopring.haul.stored.shelf import FILES_BYTES_MAX, UPLOAD_US, FileShelf

SPOOL_BYTES_MAX: Final = 10 * 1024**3
"""What one cluster may have under way to another one, and what may wait for the group here, of one set.

It is counted from end to end. If channels had limits of their own, coordinators could wait for each other.
"""

UNDER_WAY_MAX: Final = 100_000
"""Parcels that one cluster may have under way to another one."""


@dataclass(frozen=True, slots=True)
class SetOptions:
    """Times and limits of wide sets."""

    wide: WideOptions = field(default_factory=WideOptions)
    spool_bytes_max: int = SPOOL_BYTES_MAX
    under_way_max: int = UNDER_WAY_MAX
    files_bytes_max: int = FILES_BYTES_MAX  # Of all sets together.
    upload_us: int = UPLOAD_US  # A file that no parcel names is kept for so long.


class LineItem(NamedTuple):
    """What the group of a set gets at one place: a parcel, or that all have a parcel of this cluster."""

    number: int  # The delivery number.
    parcel: Parcel | None
    everywhere: ParcelId | None = None
    file: LineFile | None = None


@dataclass(slots=True)
class ParcelSizes:
    """The sizes of this cluster's parcels, as sums up to each of them: a run is one difference."""

    base: int = 0  # The number of the parcel before the first one.
    sums: list[int] = field(default_factory=lambda: [0])  # Up to the base, and to each parcel behind it.

    def append(self, number: int, size_bytes: int) -> None:
        """The size of the next parcel."""
        assert number == self.base + len(self.sums), "numbers rise by one"
        self.sums.append(self.sums[-1] + size_bytes)

    def between(self, first: int, last: int) -> int:
        """The bytes of the parcels from `first` to `last`."""
        return self.sums[last - self.base] - self.sums[first - 1 - self.base]

    def forget_before(self, number: int) -> None:
        """Nobody will ask for parcels before this one."""
        if number - 1 - self.base > len(self.sums) // 2:
            del self.sums[: number - 1 - self.base]
            self.base = number - 1


class ManagedSet:
    """One wide set at one cluster, as all members of the service have it."""

    def __init__(self, me: ClusterId, name: str, core: WideSet, options: SetOptions, shelf: FileShelf) -> None:
        """`shelf` has the files of all sets of the cluster."""
        self.me = me
        self.shelf = shelf
        self.name = name
        self.core = core
        self.options = options
        self.group = ""  # The local representative; empty until somebody joins.
        self.channels = {one: Channel() for one in clusters_in(without(core.clusters, me))}
        self.kept: dict[ParcelId, int] = {}  # The parcels whose bodies are kept, with their sizes.
        self.bodies: dict[ParcelId, bytes] = {}  # Those that are not on this member's disk beside the log.
        self.dropped: list[ParcelId] = []  # Taken by the application manager after each entry.
        self.parcels: dict[ParcelId, Parcel] = {}  # Those of the bodies, as they are sent on.
        self.line: deque[LineItem] = deque()  # What the group, or a durable consumer, still has to get.
        self.handed = 0  # The group has everything up to this delivery number.
        self.durable: dict[str, int] = {}  # By consumer: it has done with everything up to here.
        self.rewinds = 0  # How often handing over began again for a durable consumer.
        self.delivered = 0  # The number of the last item.
        self.line_bytes = 0
        self.line_files_bytes = 0  # Of the files that the group here still has to get.
        self.notify: set[int] = set()  # Parcels of this cluster whose completion the group is told.
        self.disputed: dict[ClusterId, ClusterMask] = {}  # Peers that have the set with other clusters.
        self.sizes = ParcelSizes()
        self.files: dict[ParcelId, WideFile] = {}  # Of parcels that are kept.
        self.sources: dict[int, str] = {}  # What senders of this cluster call the files of their parcels.
        self.parked: dict[ParcelId, ParkedParcel] = {}
        self._in_line: set[ParcelId] = set()
        self.calls = DurableCalls()
        self.asks: list[AskForParcel] = []  # Taken by the application manager after each entry.

    @property
    def clusters(self) -> ClusterMask:
        """The clusters of the set."""
        return self.core.clusters

    def items(self, behind: int, last: int) -> list[LineItem]:
        """The items behind one delivery number, up to another, that somebody here still has to get."""
        before = self.delivered - len(self.line)
        return [self.line[number - before - 1] for number in range(max(behind, before) + 1, last + 1)]

    @property
    def is_full(self) -> bool:
        """Whether so much waits for the group here that nothing more is taken.

        Parcels that wait for their causes do not count: the causes could not come.
        """
        return self.line_bytes >= self.options.spool_bytes_max

    def introduce(self) -> None:
        """Tells all other clusters of the set; their channels begin with that."""
        for channel in self.channels.values():
            channel.append(0, clusters=self.clusters)

    def full_towards(self, destinations: ClusterMask) -> ClusterId | None:
        """The first of these clusters for which no more can wait."""
        for cluster in clusters_in(destinations):
            size_bytes, count = self.under_way_to(cluster)
            if size_bytes >= self.options.spool_bytes_max or count >= self.options.under_way_max:
                return cluster
        return self.me if is_in(self.me, destinations) and self.is_full else None

    def waiting_for(self, peer: ClusterId) -> int:
        """The bytes that wait for a connection to a peer, descriptors without a parcel among them."""
        due = FRAME_COST_BYTES if self.core.descriptors.due[peer] else 0
        return self.channels[peer].waiting_bytes + due + self.files_for(peer)

    def files_for(self, peer: ClusterId) -> int:
        """The bytes of files that this cluster has and a peer lacks, each byte of each parcel."""
        return sum([max(1, file.size_bytes) for one, file in self.files.items() if self.lacks(peer, one)])

    def lacks(self, peer: ClusterId, parcel: ParcelId) -> bool:
        """Whether a peer has not got a parcel that is here, as far as is known."""
        run = self.core.descriptors.find(parcel)
        return run is not None and is_in(peer, run.missing) and parcel not in self.parked

    def under_way_to(self, cluster: ClusterId) -> tuple[int, int]:
        """The parcels of this cluster that another one has not got, as far as is known: bytes and number."""
        runs = [one for one in self.core.descriptors.runs[self.me].runs if is_in(cluster, one.missing)]
        size_bytes = sum([self.sizes.between(one.first, one.last) for one in runs])
        return size_bytes, sum([one.last - one.first + 1 for one in runs])

    # Snapshots.

    def state(self, *, with_bodies: bool) -> SetState:
        """All of it, for a snapshot; the bodies may be beside it."""
        channels = [
            ChannelState(peer, one.sent, one.acked, one.received, list(one.waiting))
            for peer, one in self.channels.items()
        ]
        kept = [
            KeptParcel(one, size, self.bodies.get(one) if with_bodies else None, self.parcels.get(one))
            for one, size in self.kept.items()
        ]
        line = [(one.number, one.parcel, one.everywhere, one.file) for one in self.line]
        handing = self.handed, list(self.durable.items()), self.rewinds
        numbers = self.delivered, *handing, self.line_bytes, self.sizes.base, self.sizes.sums
        rest = sorted(self.notify), list(self.disputed.items())
        files = [
            FileOfParcel(one, file, self.sources.get(one.number, "") if one.sender == self.me else "")
            for one, file in self.files.items()
        ]
        more = *rest, files, list(self.parked.values()), self.calls.state()
        return SetState(self.name, self.group, self.core.snapshot(), channels, kept, line, *numbers, *more)

    # What entries do.

    def cast(
        self,
        cast: Cast,
        body: bytes,
        now_us: int,
        *,
        notify: bool,
        file: WideFile | None = None,
        source: str = "",
    ) -> ParcelId:
        """A client's parcel; its arguments are checked, and its file is whole."""
        parcel = ParcelId(self.me, self.core.descriptors.known[self.me] + 1)
        self._keep(parcel, body)
        self.sizes.append(parcel.number, cost_of(len(body)))
        if notify:
            self.notify.add(parcel.number)
        if file is not None:
            self._need(parcel, file, now_us)
            self.sources[parcel.number] = source
        self.step(cast, now_us)
        return parcel

    def takes(self, peer: ClusterId, frame: NumberedFrame) -> bool:
        """Whether the frame is the next one of its channel, and there is room for it."""
        if not self.channels[peer].is_next(frame.number):
            return False
        if isinstance(frame, SetFrame):
            return frame.clusters == self.clusters
        if not isinstance(frame, ParcelFrame):
            return True
        return not (is_in(self.me, frame.parcel.destinations) and self.is_full)

    def receive(self, peer: ClusterId, frame: NumberedFrame, now_us: int) -> None:
        """Takes the next frame of a peer; PeerError, with nothing changed, if it is impossible."""
        if isinstance(frame, ParcelFrame):
            self._receive_parcel(peer, frame, now_us)
        elif isinstance(frame, DescriptorsFrame):
            self.step(DescriptorsArrived(peer, frame.descriptors), now_us)
        self.channels[peer].received = frame.number

    def _receive_parcel(self, peer: ClusterId, frame: ParcelFrame, now_us: int) -> None:
        parcel, file = frame.parcel, frame.file
        if file is not None:
            check_file(file)
            self.shelf.check(file)
            if not self.shelf.is_whole(file.digest) and self.core.needs(peer, parcel, frame.descriptors):
                self._park(peer, frame, file, now_us)
                return
        outputs = self.core.step(ParcelArrived(peer, parcel, frame.descriptors), now_us)
        self._keep(parcel.id, frame.body)
        if file is not None:
            self._need(parcel.id, file, now_us)
        if parcel.id not in self.parcels or parcel.order:
            self.parcels[parcel.id] = parcel
        self._carry_out(outputs)
        # All destinations had it before: nobody asks for it any more.
        if self.core.descriptors.find(parcel.id) is None:
            self._drop(parcel.id)

    def _keep(self, parcel: ParcelId, body: bytes) -> None:
        if parcel not in self.kept:
            self.kept[parcel] = len(body)
            self.bodies[parcel] = body

    def _need(self, parcel: ParcelId, file: WideFile, now_us: int) -> None:
        self.files[parcel] = file
        self.shelf.expect(file, (self.name, parcel), now_us)

    def _park(self, peer: ClusterId, frame: ParcelFrame, file: WideFile, now_us: int) -> None:
        """A parcel has come before its file: what is known of it spreads, and it waits."""
        parcel = frame.parcel
        outputs = self.core.step(DescriptorsArrived(peer, frame.descriptors), now_us)
        parked = self.parked.setdefault(parcel.id, ParkedParcel(parcel, []))
        if parcel.order:
            parked.parcel = parcel
        if peer not in parked.sources:
            parked.sources.append(peer)
        self.core.parked.add(parcel.id)
        self._keep(parcel.id, frame.body)
        self._need(parcel.id, file, now_us)
        self._carry_out(outputs)

    def file_arrived(self, digest: bytes, now_us: int) -> None:
        """A file is whole: the parcels that waited for it have arrived, too."""
        for parcel_id in sorted([one for one in self.parked if self.files[one].digest == digest]):
            parked = self.parked.pop(parcel_id)
            self.core.parked.discard(parcel_id)
            self.parcels[parcel_id] = parked.parcel
            self.step(ParcelArrived(parked.sources[0], parked.parcel), now_us)

    def acknowledge(self, peer: ClusterId, number: int) -> None:
        """The peer has logged all frames up to here; PeerError if there were not that many."""
        channel = self.channels[peer]
        if not channel.may_acknowledge(number):
            reason = f"cluster {peer} acknowledges frame {number} of {self.name}, of {channel.sent}"
            raise PeerError(Drop.OUT_OF_WINDOW, reason)
        channel.acknowledge(number)

    def hand_over(self, number: int) -> None:
        """The group has everything up to this delivery number."""
        self.handed = max(self.handed, min(number, self.delivered))
        self._shorten()

    def subscribe(self, consumer: str) -> None:
        """A durable consumer is in the group from here on, and gets all that it has not done with."""
        had = self.durable.setdefault(consumer, self.delivered - len(self.line))
        self.handed = min(self.handed, had)
        self.rewinds += 1

    def done(self, consumer: str, number: int) -> None:
        """A durable consumer has done with everything up to this delivery number."""
        self.durable[consumer] = max(self.durable[consumer], min(number, self.delivered))
        self._shorten()

    def unsubscribe(self, consumer: str) -> None:
        """A durable consumer ends: nothing is kept for it any more."""
        self.durable.pop(consumer, None)
        self._shorten()

    def _shorten(self) -> None:
        """Drops what nobody here has to get any more."""
        number = min([self.handed, *self.durable.values()])
        while self.line and self.line[0].number <= number:
            item = self.line.popleft()
            if item.parcel is not None:
                parcel = item.parcel.id
                self.line_bytes -= cost_of(self.kept[parcel])
                self.line_files_bytes -= item.file.size_bytes if item.file is not None else 0
                self._in_line.discard(parcel)
                if self.core.descriptors.find(parcel) is None:
                    self._drop(parcel)

    def end_call(self, name: str) -> None:
        """A client has done with a call."""
        answer = self.calls.done(name)
        if answer is not None and self.core.descriptors.find(answer) is None:
            self._drop(answer)

    def step(self, event: HaulInput, now_us: int) -> None:
        """Hands an event to the protocol, and carries out what it says."""
        self._carry_out(self.core.step(event, now_us))

    # Outputs of the protocol.

    def _carry_out(self, outputs: list[HaulOutput]) -> None:
        for output in outputs:
            match output:
                case SendParcel(to, parcel, descriptors):
                    self.parcels[parcel.id] = parcel
                    self._send(to, parcel, descriptors)
                case SendLogged(to, parcel_id, descriptors):
                    self._send(to, self.parcels.get(parcel_id), descriptors)
                case SendDescriptors(to, descriptors):
                    self._send(to, None, descriptors)
                case AskForParcel():
                    self.asks.append(output)
                case DeliverParcel(parcel):
                    self.parcels[parcel.id] = parcel
                    if parcel.answers:
                        self.calls.answered(parcel)
                    else:
                        self._put(parcel, None)
                case ParcelsEverywhere(first, last):
                    self._complete(first, last)
                case DropBodies(sender, first, last):
                    self._drop_all(sender, first, last)

    def _send(self, to: ClusterId, parcel: Parcel | None, descriptors: tuple[DescriptorRun, ...]) -> None:
        *before, last = list(_parts(descriptors))
        for part in before:
            self.channels[to].append(0, descriptors=part)
        if parcel is not None:
            self.channels[to].append(self.kept[parcel.id], parcel, last)
        elif last:
            self.channels[to].append(0, descriptors=last)

    def _put(self, parcel: Parcel | None, everywhere: ParcelId | None) -> None:
        self.delivered += 1
        file: LineFile | None = None
        if parcel is not None and (sent := self.files.get(parcel.id)) is not None:
            file = LineFile(place_of(sent, parcel.id), sent.size_bytes, sent.digest)
        elif everywhere is not None and (sent := self.files.get(everywhere)) is not None:
            file = LineFile("", sent.size_bytes, sent.digest, self.sources.get(everywhere.number, ""))
        self.line.append(LineItem(self.delivered, parcel, everywhere, file))
        if parcel is not None:
            self._in_line.add(parcel.id)
            self.line_bytes += cost_of(self.kept[parcel.id])
            self.line_files_bytes += file.size_bytes if file is not None else 0

    def _complete(self, first: int, last: int) -> None:
        for number in sorted([one for one in self.notify if first <= one <= last]):
            self.notify.discard(number)
            self._put(None, ParcelId(self.me, number))

    def _drop_all(self, sender: ClusterId, first: int, last: int) -> None:
        for number in range(first, last + 1):
            self._drop(ParcelId(sender, number))
        if sender == self.me:
            descriptors = self.core.descriptors
            runs = descriptors.runs[sender].runs
            self.sizes.forget_before(runs[0].first if runs else descriptors.known[sender] + 1)

    def _drop(self, parcel: ParcelId) -> None:
        """Drops a body unless the group here still has to get it, or a caller."""
        if parcel in self._in_line or self.calls.holds(parcel):
            return  # It goes when it is handed over, or when the call is done.
        if self.kept.pop(parcel, None) is not None:
            self.bodies.pop(parcel, None)
            self.dropped.append(parcel)
        self.parcels.pop(parcel, None)
        file = self.files.pop(parcel, None)
        if file is not None:
            self.shelf.release(file.digest, (self.name, parcel))
            if parcel.sender == self.me:
                self.sources.pop(parcel.number, None)


def cost_of(body_bytes: int) -> int:
    """The bytes that count for a parcel that waits for the group here."""
    return body_bytes + FRAME_COST_BYTES


def _parts(descriptors: tuple[DescriptorRun, ...]) -> Iterator[tuple[DescriptorRun, ...]]:
    """Descriptors in as many frames as they need; one, without any, if there are none."""
    yield descriptors[:DESCRIPTORS_MAX]
    for start in range(DESCRIPTORS_MAX, len(descriptors), DESCRIPTORS_MAX):
        yield descriptors[start : start + DESCRIPTORS_MAX]


def managed_set_from(me: ClusterId, state: SetState, options: SetOptions, shelf: FileShelf) -> ManagedSet:
    """The set of a snapshot."""
    found = ManagedSet(me, state.name, wide_set_from(me, state.core, options.wide), options, shelf)
    found.group = state.group
    for one in state.channels:
        waiting_bytes = sum([frame.cost_bytes for frame in one.waiting])
        numbers = one.sent, one.acked, one.received
        found.channels[one.peer] = Channel(*numbers, deque(one.waiting), waiting_bytes)
    for kept in state.kept:
        found.kept[kept.id] = kept.size_bytes
        if kept.body is not None:
            found.bodies[kept.id] = kept.body
        if kept.parcel is not None:
            found.parcels[kept.id] = kept.parcel
    found.line = deque([LineItem(*one) for one in state.line])
    found._in_line = {one.parcel.id for one in found.line if one.parcel is not None}
    found.delivered, found.line_bytes = state.delivered, state.line_bytes
    files = [one.file for one in found.line if one.parcel is not None]
    found.line_files_bytes = sum([one.size_bytes for one in files if one is not None])
    found.handed, found.durable, found.rewinds = state.handed, dict(state.durable), state.rewinds
    found.sizes = ParcelSizes(state.sizes_base, list(state.sizes))
    found.notify, found.disputed = set(state.notify), dict(state.disputed)
    found.files = {one.id: one.file for one in state.files}
    found.sources = {one.id.number: one.source for one in state.files if one.id.sender == me}
    found.parked = {one.parcel.id: one for one in state.parked}
    found.core.parked = set(found.parked)
    found.calls = calls_from(state.calls)
    return found
