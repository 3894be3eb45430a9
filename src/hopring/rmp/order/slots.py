"""The OrderingQ: slots in rising timestamps, made by ACKs and New Lists, filled by Data (paper 4.2).

Invariants  slots of an ordering are made all at once; of two orderings next to each other the first names the
            source of the second (trap 8); `consecutive` is the last timestamp up to which every packet is here.
Deviations  the state of a slot is where its packet is: none (Missing, or Requested while a NACK is out), here
            (Received), below the delivered line (Delivered), or no slot (freed).
"""

from dataclasses import dataclass, field
from typing import Final

from hopring.errors import Drop, PeerError
from hopring.wire.rmp.ids import DataId
from hopring.wire.rmp.packets import AckPacket, DataPacket, NewListPacket

Ordering = AckPacket | NewListPacket

SLOTS_AHEAD_MAX: Final = 16_384
"""An ordering further above the consecutive timestamp than this is refused."""


@dataclass(slots=True)
class Slot:
    """One place in the order."""

    timestamp: int
    by: Ordering  # The ordering that made it; its packet, if the slot is the ordering's own.
    id: DataId | None = None  # Of a Data packet.
    packet: Ordering | DataPacket | None = None


@dataclass(slots=True)
class OrderingQueue:
    """The slots that are kept, beginning with those of one New List or ACK."""

    first: Ordering
    front: int = 0  # The lowest timestamp that is kept.
    consecutive: int = 0
    highest: Ordering = field(init=False)
    slots: dict[int, Slot] = field(default_factory=dict)
    place: dict[DataId, int] = field(default_factory=dict)  # Of the Data packets that slots name.

    def __post_init__(self) -> None:
        self.highest = self.first
        self.front = self.first.timestamp
        self.consecutive = self.front - 1
        self._make_slots(self.first)

    def is_new(self, packet: Ordering) -> bool:
        """Whether the ordering is not here yet; raises PeerError if it contradicts what is here."""
        stamp, last = packet.timestamp, packet.last
        if stamp < self.front:
            return False
        if last > self.consecutive + SLOTS_AHEAD_MAX:
            raise PeerError(Drop.OUT_OF_WINDOW, f"timestamp {stamp}, consecutive is {self.consecutive}")
        slot = self.slots.get(stamp)
        if slot is not None and slot.by == packet:
            return False
        if stamp <= self.consecutive or any(one in self.slots for one in range(stamp, last + 1)):
            raise PeerError(Drop.INCONSISTENT, f"two orderings have timestamp {stamp}")
        before, after = self.slots.get(stamp - 1), self.slots.get(last + 1)
        if before is not None and before.by.next != packet.source:
            raise PeerError(Drop.INCONSISTENT, f"{packet.source} orders at {stamp} without the token")
        if after is not None and after.by.source != packet.next:
            raise PeerError(Drop.INCONSISTENT, f"{after.by.source} ordered behind {stamp} without the token")
        if isinstance(packet, AckPacket) and any(one in self.place for one in packet.ordered):
            raise PeerError(Drop.INCONSISTENT, "an ACK orders what has a place")
        return True

    def add(self, packet: Ordering) -> None:
        """Makes the slots of a new ordering."""
        self._make_slots(packet)
        if packet.timestamp > self.highest.timestamp:
            self.highest = packet

    def _make_slots(self, packet: Ordering) -> None:
        self.slots[packet.timestamp] = Slot(packet.timestamp, packet, None, packet)
        if isinstance(packet, AckPacket):
            for timestamp, one in enumerate(packet.ordered, packet.timestamp + 1):
                self.slots[timestamp] = Slot(timestamp, packet, one)
                self.place[one] = timestamp

    def put(self, packet: DataPacket) -> bool:
        """Fills the slot that names this packet; false if no empty slot does."""
        slot = self.slots.get(self.place.get(packet.id, -1))
        if slot is None or slot.packet is not None:
            return False
        slot.packet = packet
        return True

    def advance(self) -> list[Slot]:
        """Raises `consecutive` as far as packets are here; the slots that it passed."""
        passed = []
        while (slot := self.slots.get(self.consecutive + 1)) is not None and slot.packet is not None:
            self.consecutive += 1
            passed.append(slot)
        return passed

    @property
    def complete(self) -> bool:
        """Whether nothing is missing up to the highest ordering that is known."""
        return self.consecutive >= self.highest.last

    def holes(self, most: int) -> tuple[tuple[int, ...], tuple[DataId, ...]]:
        """Timestamps and tuples of the first packets that are missing."""
        stamps: list[int] = []
        tuples: list[DataId] = []
        for timestamp in range(self.consecutive + 1, self.highest.last + 1):
            slot = self.slots.get(timestamp)
            if slot is None:
                stamps.append(timestamp)
            elif slot.packet is None and slot.id is not None:
                tuples.append(slot.id)
            if len(stamps) + len(tuples) >= most:
                break
        return tuple(stamps), tuple(tuples)

    def packet_at(self, timestamp: int) -> Ordering | DataPacket | None:
        """The packet of a slot, if it is here."""
        slot = self.slots.get(timestamp)
        return None if slot is None else slot.packet

    def data(self, data_id: DataId) -> DataPacket | None:
        """The Data packet, if a slot has it."""
        slot = self.slots.get(self.place.get(data_id, -1))
        return slot.packet if slot is not None and isinstance(slot.packet, DataPacket) else None

    def free(self, up_to: int) -> None:
        """Forgets slots from the front, except those of the ordering at the consecutive timestamp."""
        keep = self.slots.get(self.consecutive)
        limit = min(up_to, (keep.by.timestamp if keep is not None else self.front) - 1)
        while self.front <= limit:
            slot = self.slots.pop(self.front, None)
            if slot is not None and slot.id is not None:
                self.place.pop(slot.id, None)
            self.front += 1
