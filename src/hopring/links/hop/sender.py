"""The sending half of Hop: waiting objects, unacknowledged packets, retransmissions (thesis figure 4.1).

Invariants  `unacked` has the packets above the neighbour's aru, oldest first, and ends at `sent`; a new packet
            is sent only while the window is open; a retransmission never waits for the window.
"""

from dataclasses import dataclass, field
from typing import Final, final

from hopring.errors import Drop, PeerError
from hopring.links.hop.receiver import RequestLimit
from hopring.links.queues import LooseQueue, SendQueue
from hopring.value import Mutable, Value
from hopring.wire.data import SEGMENT_OVERHEAD_BYTES, Data, Missing, Segment, cut, segment_count

RESERVE_PACKETS = 64
"""How many packets of urgent objects may be sent beyond the window."""

IP_UDP_BYTES = 28
"""The IP and UDP headers of a datagram; rates count bytes on the wire."""


@final
class Crossing(Value):
    """The least time for a packet and a request for it: a round trip, and the packet's length at the rate."""

    def __init__(self, now_us: int, round_trip_us: int, rate_bytes_per_second: int) -> None:
        self.now_us: Final = now_us
        self.round_trip_us: Final = round_trip_us
        self.rate_bytes_per_second: Final = rate_bytes_per_second

    def done_us(self, size_bytes: int) -> int:
        """The earliest time at which a request can be an answer to a packet that is sent now."""
        return self.now_us + self.round_trip_us + size_bytes * 1_000_000 // self.rate_bytes_per_second


@final
class Unacked(Mutable):
    """A packet that the neighbour has not acknowledged."""

    def __init__(
        self, payload: bytes, end_bytes: int, crossed_at_us: int, resends: int = 0, first_resend_us: int = 0
    ) -> None:
        self.payload = payload
        self.end_bytes = end_bytes  # Bytes sent on this link up to the end of this packet.
        # A request before this time was sent before the packet could arrive, and is ignored.
        self.crossed_at_us = crossed_at_us
        self.resends = resends
        self.first_resend_us = first_resend_us


@dataclass(slots=True)
class Sender:
    """The state of one direction of a link at its sending end."""

    chunk_bytes: int
    window_packets: int
    window_bytes: int
    sent: int  # The highest sequence used.
    peer_aru: int
    queue: SendQueue = field(default_factory=SendQueue)
    loose: LooseQueue = field(default_factory=LooseQueue)
    unacked: dict[int, Unacked] = field(default_factory=dict)
    to_resend: dict[int, int] = field(default_factory=dict)  # Sequence to requested segments; 0 is all.
    sent_bytes: int = 0
    reported_bytes: int = 0  # Bytes up to the highest packet that the neighbour has reported.
    given_up: bool = False  # The requests for a packet are beyond the limit.
    resends: int = 0

    @property
    def window_open(self) -> bool:
        """Whether a new packet may be sent; an idle link always admits one."""
        held_bytes = self.sent_bytes - self.acked_bytes
        return not held_bytes or (
            self.sent - self.peer_aru < self.window_packets and held_bytes < self.window_bytes
        )

    @property
    def reserve_open(self) -> bool:
        """Whether a packet of urgent objects may be sent; data cannot use this part of the window."""
        return self.sent - self.peer_aru < self.window_packets + RESERVE_PACKETS

    @property
    def acked_bytes(self) -> int:
        """Bytes sent up to the neighbour's aru."""
        for oldest in self.unacked.values():
            return oldest.end_bytes - self.wire_bytes(len(oldest.payload))
        return self.sent_bytes

    @property
    def flight_bytes(self) -> int:
        """Bytes sent beyond the highest packet that the neighbour has reported."""
        return self.sent_bytes - self.reported_bytes

    def wire_bytes(self, payload_bytes: int) -> int:
        """The bytes on the wire of a packet of this size."""
        count = segment_count(payload_bytes, self.chunk_bytes)
        return payload_bytes + count * (SEGMENT_OVERHEAD_BYTES + IP_UDP_BYTES)

    def pack(self, packet_bytes: int, urgent_only: bool, crossing: Crossing) -> Data:
        """Makes the next packet of waiting objects."""
        payload = self.queue.pack(packet_bytes, urgent_only)
        self.sent += 1
        self.sent_bytes += self.wire_bytes(len(payload))
        crossed_at_us = crossing.done_us(self.wire_bytes(len(payload)))
        self.unacked[self.sent] = Unacked(payload, self.sent_bytes, crossed_at_us)
        return Data(self.sent, payload)

    def check_report(self, aru: int, top: int) -> None:
        """Refuses a report of packets that were never sent."""
        if max(aru, top) > self.sent:
            raise PeerError(Drop.OUT_OF_WINDOW, f"neighbour reports {aru} and {top}, we sent {self.sent}")

    def reported(self, aru: int, top: int) -> int:
        """Notes that the neighbour has all up to aru and knows of all up to top; returns the new bytes."""
        before = self.reported_bytes
        if top in self.unacked:
            self.reported_bytes = max(before, self.unacked[top].end_bytes)
        for seq in range(self.peer_aru + 1, aru + 1):
            self.reported_bytes = max(self.reported_bytes, self.unacked.pop(seq).end_bytes)
            self.to_resend.pop(seq, None)
        self.peer_aru = max(self.peer_aru, aru)
        return self.reported_bytes - before

    def check_missing(self, missing: tuple[Missing, ...]) -> None:
        """Refuses requests for packets that were never sent, and for one packet twice."""
        last = -1
        for one in missing:
            if one.seq <= last:
                raise PeerError(Drop.INCONSISTENT, f"neighbour asks for {one} after packet {last}")
            last = one.seq + one.count - 1
            if one.seq + one.count - 1 > self.sent:
                raise PeerError(Drop.OUT_OF_WINDOW, f"neighbour asks for {one}, we sent {self.sent}")

    def requested(self, missing: tuple[Missing, ...], now_us: int, limit: RequestLimit) -> list[int]:
        """Queues requested packets for retransmission; returns those requested for the first time."""
        fresh: list[int] = []
        for one in missing:
            # A late request may name packets that a newer report has acknowledged.
            for seq in range(max(one.seq, self.peer_aru + 1), one.seq + one.count):
                if seq in self.to_resend:
                    both = self.to_resend[seq] and one.segments
                    self.to_resend[seq] = self.to_resend[seq] | one.segments if both else 0
                    continue
                held = self.unacked[seq]
                if now_us < held.crossed_at_us:
                    continue
                if not held.resends:
                    fresh.append(seq)
                    held.first_resend_us = now_us
                held.resends += 1
                self.resends += 1
                self.given_up |= limit.exceeded(held.resends, now_us - held.first_resend_us)
                self.to_resend[seq] = one.segments
        return fresh

    def resend(self, crossing: Crossing) -> tuple[list[Data | Segment], int]:
        """The oldest requested packet, or some of its segments, and the bytes on the wire."""
        seq = min(self.to_resend)
        segments = self.to_resend.pop(seq)
        held = self.unacked[seq]
        parts: list[Data | Segment] = [Data(seq, held.payload)]
        size = self.wire_bytes(len(held.payload))
        if segments:
            chunks = cut(seq, held.payload, self.chunk_bytes)
            parts = [part for part in chunks if segments >> part.index & 1]
            size = len(parts) * (self.chunk_bytes + SEGMENT_OVERHEAD_BYTES + IP_UDP_BYTES)
        held.crossed_at_us = crossing.done_us(size)
        return parts, size
