"""The DataList: Data packets without a place in the order, and how far each source's have one (paper 4.2).

Invariants  packets of a source are ordered without gaps (trap 4); a packet is here or in a slot, never in both.
Limits      so many packets of each source; only sources that are in the list.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hopring.wire.rmp.ids import DataId, PeerProcess
from hopring.wire.rmp.packets import DataPacket


@dataclass(slots=True)
class DataList:
    """Packets that wait for an ACK, in the order of their arrival."""

    per_source_max: int
    packets: dict[DataId, DataPacket] = field(default_factory=dict)
    ordered: dict[PeerProcess, int] = field(default_factory=dict)  # The last number with a place, by source.
    counts: dict[PeerProcess, int] = field(default_factory=dict)

    def add(self, packet: DataPacket) -> bool:
        """Keeps a packet; false if it is here, has a place, is of nobody in the list, or is too much."""
        source, seq = packet.id
        line = self.ordered.get(source)
        if line is None or seq <= line or packet.id in self.packets:
            return False
        if self.counts.get(source, 0) >= self.per_source_max or seq > line + 4 * self.per_source_max:
            return False
        self.packets[packet.id] = packet
        self.counts[source] = self.counts.get(source, 0) + 1
        return True

    def take(self, data_id: DataId) -> DataPacket | None:
        """Takes out a packet that gets a place."""
        packet = self.packets.pop(data_id, None)
        if packet is not None:
            self.counts[data_id.source] -= 1
        return packet

    def pass_line(self, data_id: DataId) -> None:
        """Notes that a packet has its place, with everything before it of its source."""
        self.ordered[data_id.source] = max(data_id.seq, self.ordered.get(data_id.source, 0))

    def orderable(self, most: int) -> tuple[DataId, ...]:
        """The packets that an ACK may order next: without a gap of their source, oldest source first."""
        line = dict(self.ordered)
        chosen: list[DataId] = []
        for one in self.packets:
            source = one.source
            while len(chosen) < most and (following := DataId(source, line[source] + 1)) in self.packets:
                chosen.append(following)
                line[source] += 1
            if len(chosen) >= most:
                break
        return tuple(chosen)

    def set_lines(self, lines: Mapping[PeerProcess, int]) -> None:
        """The sources of a list, and how far they are; packets of others, and older ones, are dropped."""
        self.ordered = dict(lines)
        kept = {one: packet for one, packet in self.packets.items() if one.seq > lines.get(one.source, one.seq)}
        self.packets = kept
        self.counts = {}
        for one in kept:
            self.counts[one.source] = self.counts.get(one.source, 0) + 1

    def add_source(self, source: PeerProcess, seq: int) -> None:
        """A new member, and the number of the last packet that it has ever sent."""
        for one in [one for one in self.packets if one.source == source and one.seq <= seq]:
            self.take(one)
        self.ordered[source] = seq

    def remove_source(self, source: PeerProcess) -> None:
        """A member has left: what it sent and nobody ordered is gone."""
        for one in [one for one in self.packets if one.source == source]:
            self.take(one)
        self.ordered.pop(source, None)
        self.counts.pop(source, None)

    def consecutive(self, source: PeerProcess) -> int:
        """The highest number up to which all packets of a source are here or have a place."""
        seq = self.ordered.get(source, 0)
        while DataId(source, seq + 1) in self.packets:
            seq += 1
        return seq
