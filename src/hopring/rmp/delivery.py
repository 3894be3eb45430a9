"""Delivery: packets and lists in the order, and Reliable and FIFO packets before it (paper 3.2, 4.2).

Invariants  a packet is delivered once; in-order delivery stops at what waits for holders, and nothing is
            delivered in a recovery; a FIFO packet comes after everything that its source sent before.
Deviations  Reliable packets are delivered once, not at least once (trap 31). A list change of a ring whose
            minimum is majority or all waits for a majority of the list that it leaves (trap 15). A joiner
            shows its first list when what is below it may be delivered: others deliver that before it.
"""

from dataclasses import dataclass, field

from hopring.ordering.holders import MAJORITY
from hopring.rmp.events import DataDelivered, DataOrdered, ListCause, ListInstalled, RingLeft
from hopring.rmp.lists.quorum import is_quorate, majority
from hopring.rmp.order.holders import are_enough
from hopring.rmp.order.slots import Ordering, Slot
from hopring.rmp.outgoing import OwnData
from hopring.rmp.state import PeerRingState, RingPhase
from hopring.wire.rmp.ids import SEQ_MAX, DataId, ListMembership, PeerProcess
from hopring.wire.rmp.lists import PeerList
from hopring.wire.rmp.packets import EARLY_MAX, DataPacket, NewListKind, NewListPacket, SyncPoint

LOOSE_WINDOW = 1024
"""An Unreliable packet this far behind the newest of its source is dropped."""


@dataclass(slots=True)
class LooseWindow:
    """Which of the last Unreliable packets of a source have come, so that none is delivered twice."""

    top: int = 0
    seen: set[int] = field(default_factory=set)

    def is_new(self, seq: int) -> bool:
        """Whether this one has not come yet; notes that it has."""
        if seq <= self.top - LOOSE_WINDOW or seq in self.seen:
            return False
        self.seen.add(seq)
        if seq > self.top:
            self.top = seq
            if len(self.seen) > 2 * LOOSE_WINDOW:
                self.seen = {one for one in self.seen if one > seq - LOOSE_WINDOW}
        return True


@dataclass(slots=True)
class Delivery:
    """Delivers what may be delivered; the ring calls it after each change."""

    state: PeerRingState
    own: OwnData
    early: set[DataId] = field(default_factory=set)  # Delivered, and not yet passed in the order.
    passed: dict[PeerProcess, int] = field(default_factory=dict)  # FIFO: delivered up to here, by source.
    loose: dict[PeerProcess, LooseWindow] = field(default_factory=dict)
    owed: int = 0  # Others may wait for an ordering of this member at this timestamp or later.

    def begin(self, members: PeerList) -> None:
        """A stay begins: packets up to the lines of its list are of the past."""
        self.early.clear()
        self.owed = 0
        self.passed = {one.process: one.seq for one in members.members}

    # Before the order.

    def arrived(self, packet: DataPacket) -> None:
        """A reliable packet is here for the first time."""
        if self.state.frozen or self.state.installed is None:
            return
        if packet.service.at_once and (not self._above_gap(packet.id) or self._gaps_left()):
            self._deliver_early(packet)
        self._advance_fifo(packet.id.source)

    def _above_gap(self, one: DataId) -> bool:
        return one.seq > self.passed.get(one.source, 0) + 1

    def _gaps_left(self) -> bool:
        """Whether another Reliable packet above a gap may be delivered: a vote names so many at most."""
        above = [one for one in self.early if one.seq > self.passed.get(one.source, 0)]
        return len(above) < EARLY_MAX // len(self.state.present)

    def arrived_loose(self, packet: DataPacket) -> None:
        """An Unreliable packet: delivered now or never."""
        source = packet.id.source
        installed = self.state.installed
        if installed is None or source not in installed or self.state.phase is not RingPhase.IN:
            return
        if self.loose.setdefault(source, LooseWindow()).is_new(packet.id.seq):
            self._emit(packet, 0)

    def catch_up_early(self) -> None:
        """Delivers early packets that came while nothing could be delivered."""
        for packet in list(self.state.data.packets.values()):
            self.arrived(packet)

    def _deliver_early(self, packet: DataPacket) -> None:
        epoch = self.state.epoch
        if packet.id not in self.early and epoch.queue.place.get(packet.id, 2**63) > epoch.delivered:
            self.early.add(packet.id)
            self._emit(packet, 0)

    def _advance_fifo(self, source: PeerProcess, most: int = SEQ_MAX) -> None:
        """Passes what is delivered, and delivers FIFO packets that are next, up to one that must wait."""
        while self.passed.get(source, 0) < most:
            following = DataId(source, self.passed.get(source, 0) + 1)
            packet = self._find(following)
            if packet is None or not (following in self.early or packet.service.early):
                return
            if following not in self.early:
                self._deliver_early(packet)
            self.passed[source] = following.seq

    def deliver_early_up_to(self, sync: SyncPoint) -> None:
        """At a commit: the Reliable and FIFO packets that some member may have delivered, and no others."""
        if self.state.installed is None:
            return
        for line in sync.seqs:
            first = self.state.data.ordered.get(line.source, line.seq)
            for seq in range(first + 1, line.seq + 1):
                self._deliver_if_at_once(DataId(line.source, seq))
        for one in sync.early:
            self._deliver_if_at_once(one)
        for line in sync.seqs:
            self._advance_fifo(line.source, line.seq)

    def _deliver_if_at_once(self, one: DataId) -> None:
        packet = self._find(one)
        if packet is not None and packet.service.at_once:
            self._deliver_early(packet)

    def _find(self, one: DataId) -> DataPacket | None:
        return self.state.data.packets.get(one) or self.state.epoch.queue.data(one)

    def keep_early(self, members: PeerList) -> None:
        """A new epoch: what was delivered early of members that are lost never gets a place."""
        lines = self.state.data.ordered
        self.early = {one for one in self.early if one.seq > lines.get(one.source, one.seq)}
        self.passed = {one: seq for one, seq in self.passed.items() if one in lines}
        self.loose = {one: window for one, window in self.loose.items() if one in members}

    # In the order.

    def advance(self) -> None:
        """Delivers slots in order, until one is missing or waits for holders."""
        epoch = self.state.epoch
        while epoch.delivered < epoch.queue.consecutive and not self.state.frozen:
            slot = epoch.queue.slots[epoch.delivered + 1]
            if not self.may_deliver(slot):
                return
            if self._waits_publicly(slot.timestamp, slot.packet):
                self.owed = slot.timestamp
            self.deliver(slot)

    def may_deliver(self, slot: Slot) -> bool:
        """Whether a slot below the consecutive timestamp has the holders that it needs."""
        lists, packet = self.state.epoch.lists, slot.packet
        if isinstance(packet, DataPacket):
            members = lists.at(slot.timestamp)
            holders = self._holders(slot.timestamp, members)
            return are_enough(holders, members, lists, packet.service, packet.resilience)
        if isinstance(packet, NewListPacket) and (left := lists.before(slot.timestamp)) is not None:
            holders = self._holders(slot.timestamp, left)
            if self.state.installed is None and not self._is_settled(packet, left, holders):
                return False
            return not (is_quorate(left) or is_quorate(packet.list)) or len(holders) >= majority(len(left))
        return True

    def _is_settled(self, packet: NewListPacket, left: PeerList, holders: frozenset[ListMembership]) -> bool:
        """Whether all slots below a New List may be delivered: its token site had done so, or all hold them."""
        had_all = packet.kind is not NewListKind.ORDERED or packet.settled >= packet.timestamp - 1
        return had_all or left.memberships <= holders | self.state.epoch.lists.lost

    def _holders(self, timestamp: int, members: PeerList) -> frozenset[ListMembership]:
        mine = self.state.my_membership
        holders = self.state.epoch.holders.of(timestamp, members)
        return holders if mine is None or mine not in members.memberships else holders | {mine}

    def waits_publicly(self) -> bool:
        """Whether some member may wait for holders of a slot: all know only what orderings show (trap 5)."""
        epoch, mine = self.state.epoch, self.state.my_membership
        if mine is not None and epoch.holders.lines.get(mine, 0) < self.owed:
            return True  # It may be freed here already: this member knows that it holds it, and others do not.
        stamps = range(epoch.queue.front, epoch.queue.consecutive + 1)
        return any(self._waits_publicly(one, epoch.queue.packet_at(one)) for one in stamps)

    def _waits_publicly(self, timestamp: int, packet: Ordering | DataPacket | None) -> bool:
        lists, holders = self.state.epoch.lists, self.state.epoch.holders
        if isinstance(packet, DataPacket):
            if not (packet.service.stable or packet.resilience):
                return False
            members = lists.at(timestamp)
            held = holders.of(timestamp, members)
            return not are_enough(held, members, lists, packet.service, packet.resilience)
        left = lists.before(timestamp) if isinstance(packet, NewListPacket) else None
        if left is None or not isinstance(packet, NewListPacket):
            return False
        held = holders.of(timestamp, left)
        if packet.list.memberships - left.memberships and not self._is_settled(packet, left, held):
            return True
        quorate = is_quorate(left) or is_quorate(lists.at(timestamp))
        return quorate and len(held) < majority(len(left))

    def deliver(self, slot: Slot, withheld: bool = False) -> None:
        """Passes one slot: delivers its packet, unless that was early, or installs its list."""
        self.state.epoch.delivered = slot.timestamp
        packet = slot.packet
        if isinstance(packet, NewListPacket):
            self._install(packet)
        elif isinstance(packet, DataPacket):
            self._deliver_data(packet, slot.timestamp, withheld)

    def _deliver_data(self, packet: DataPacket, timestamp: int, withheld: bool) -> None:
        source = packet.id.source
        if source == self.state.me:
            ticket = self.own.ticket_of(packet.id.seq)
            self.state.emit(DataOrdered(packet.id, self.state.epoch.epoch, timestamp, ticket))
        if packet.id in self.early:
            self.early.discard(packet.id)
        elif self.state.installed is not None:
            self._emit(packet, timestamp, withheld or self._lacks_primary(packet))
        self.passed[source] = max(packet.id.seq, self.passed.get(source, 0))
        if source == self.state.me:
            self.own.settled(packet.id.seq)
        if not self.state.frozen:
            self._advance_fifo(source)

    def _lacks_primary(self, packet: DataPacket) -> bool:
        installed = self.state.installed
        return packet.resilience == MAJORITY and (installed is None or not is_quorate(installed))

    def _emit(self, packet: DataPacket, timestamp: int, withheld: bool = False) -> None:
        mine = packet.id.source == self.state.me
        ticket = self.own.ticket_of(packet.id.seq, packet.service.loose) if mine else 0
        self.state.emit(
            DataDelivered(
                packet.id,
                timestamp,
                packet.service,
                packet.resilience,
                packet.handler,
                packet.body,
                ticket,
                withheld,
                self._holders_of(packet, timestamp) if ticket else 0,
            )
        )

    def _holders_of(self, packet: DataPacket, timestamp: int) -> int:
        if self.state.frozen or not (packet.service.stable or packet.resilience):
            return 0
        return len(self._holders(timestamp, self.state.epoch.lists.at(timestamp)))

    # Lists.

    def _install(self, packet: NewListPacket) -> None:
        """Shows a list that the order has brought: of a join, a leave, or a lock."""
        old, new = self.state.installed, packet.list
        if self.state.me not in new:
            self.state.installed = None
            self.state.phase = RingPhase.SERVING
            self.state.emit(RingLeft())
            return
        cause, who = _difference(old, new, self.state.me)
        self.state.installed = new
        together = _together(old, new, self.state.my_membership)
        self.state.emit(ListInstalled(new, together, cause, who, is_quorate(new)))
        for one in new.members:
            if old is None or one.membership not in old.memberships:
                self.loose.pop(one.process, None)
                if old is not None:
                    self.passed[one.process] = one.seq
        if old is None:
            self.catch_up_early()


def _together(old: PeerList | None, new: PeerList, mine: ListMembership | None) -> frozenset[ListMembership]:
    if old is None or mine not in old.memberships:
        return frozenset([mine] if mine is not None else [])
    return old.memberships & new.memberships


def _difference(
    old: PeerList | None, new: PeerList, me: PeerProcess
) -> tuple[ListCause, ListMembership | None]:
    """Why a list replaced another: who joined, who left, or neither."""
    if old is None:
        member = new.member(me)
        return ListCause.JOIN, None if member is None else member.membership
    joined = sorted(new.memberships - old.memberships)
    if joined:
        return ListCause.JOIN, joined[0]
    left = sorted(old.memberships - new.memberships)
    return (ListCause.LEAVE, left[0]) if left else (ListCause.LOCK, None)
