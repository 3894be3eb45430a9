"""The sending half of Hop: what waits, what is on its way, what has to go again (thesis figure 4.1).

Invariants  `unacked` holds the packets above the neighbour's aru, oldest first, and ends at `sent`; a new
            packet goes only while the window is open; a retransmission never waits for the window (trap 4).
"""

from dataclasses import dataclass, field
from typing import Final, final

from hopring.errors import Drop, PeerError
from hopring.links.hop.receiver import Patience
from hopring.links.queues import LooseQueue, SendQueue
from hopring.value import Mutable, Value
from hopring.wire.data import SEGMENT_OVERHEAD_BYTES, Data, Missing, Segment, cut, segment_count

RESERVE_PACKETS = 64
"""How far urgent packets may go beyond the window."""

IP_UDP_BYTES = 28
"""What the network adds to a datagram; rates are those of the wire."""


@final
class Crossing(Value):
    """How long a packet and a request for it are on their way at least: a round trip, and its length."""

    def __init__(self, now_us: int, round_trip_us: int, rate_bytes_per_second: int) -> None:
        self.now_us: Final = now_us
        self.round_trip_us: Final = round_trip_us
        self.rate_bytes_per_second: Final = rate_bytes_per_second

    def done_us(self, size_bytes: int) -> int:
        """The earliest moment at which a request for it can be more than impatience."""
        return self.now_us + self.round_trip_us + size_bytes * 1_000_000 // self.rate_bytes_per_second


@final
class Unacked(Mutable):
    """A packet that the neighbour has not acknowledged."""

    def __init__(
        self, payload: bytes, end_bytes: int, crossed_at_us: int, resends: int = 0, first_resend_us: int = 0
    ) -> None:
        self.payload = payload
        self.end_bytes = end_bytes  # Bytes sent on this link up to and with this packet.
        # Before this it cannot have crossed, so a request for it is premature.
        self.crossed_at_us = crossed_at_us
        self.resends = resends
        self.first_resend_us = first_resend_us


@dataclass(slots=True)
class Sender:
    """State of one direction of a link, at the end where packets leave."""

    chunk_bytes: int
    window_packets: int
    window_bytes: int
    sent: int  # The highest sequence used.
    peer_aru: int
    queue: SendQueue = field(default_factory=SendQueue)
    loose: LooseQueue = field(default_factory=LooseQueue)
    unacked: dict[int, Unacked] = field(default_factory=dict)
    again: dict[int, int] = field(default_factory=dict)  # Sequence to segments asked for; 0 is all.
    sent_bytes: int = 0
    reported_bytes: int = 0  # Up to the highest packet that the neighbour knows of.
    given_up: bool = False  # Something was asked for too often, for too long.
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
        """Whether a packet of urgent objects may be sent, which no data can keep out."""
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
        """What a packet of this size costs on the wire."""
        count = segment_count(payload_bytes, self.chunk_bytes)
        return payload_bytes + count * (SEGMENT_OVERHEAD_BYTES + IP_UDP_BYTES)

    def pack(self, packet_bytes: int, urgent_only: bool, crossing: Crossing) -> Data:
        """The next packet, of waiting objects."""
        payload = self.queue.pack(packet_bytes, urgent_only)
        self.sent += 1
        self.sent_bytes += self.wire_bytes(len(payload))
        crossed_at_us = crossing.done_us(self.wire_bytes(len(payload)))
        self.unacked[self.sent] = Unacked(payload, self.sent_bytes, crossed_at_us)
        return Data(self.sent, payload)

    def check_report(self, aru: int, top: int) -> None:
        """Refuses a report of what we never sent."""
        if max(aru, top) > self.sent:
            raise PeerError(Drop.OUT_OF_WINDOW, f"neighbour reports {aru} and {top}, we sent {self.sent}")

    def report(self, aru: int, top: int) -> int:
        """The neighbour has all up to aru and knows of all up to top; returns the bytes that are news."""
        before = self.reported_bytes
        if top in self.unacked:
            self.reported_bytes = max(before, self.unacked[top].end_bytes)
        for seq in range(self.peer_aru + 1, aru + 1):
            self.reported_bytes = max(self.reported_bytes, self.unacked.pop(seq).end_bytes)
            self.again.pop(seq, None)
        self.peer_aru = max(self.peer_aru, aru)
        return self.reported_bytes - before

    def check_missing(self, missing: tuple[Missing, ...]) -> None:
        """Refuses requests for what we never sent."""
        for one in missing:
            if one.seq + one.count - 1 > self.sent:
                raise PeerError(Drop.OUT_OF_WINDOW, f"neighbour asks for {one}, we sent {self.sent}")

    def wanted(self, missing: tuple[Missing, ...], now_us: int, patience: Patience) -> list[int]:
        """Queues what is asked for again; returns the sequences that were never asked for before."""
        fresh: list[int] = []
        for one in missing:
            # A late request may still name what a newer report has freed.
            for seq in range(max(one.seq, self.peer_aru + 1), one.seq + one.count):
                if seq in self.again:
                    both = self.again[seq] and one.segments
                    self.again[seq] = self.again[seq] | one.segments if both else 0
                    continue
                held = self.unacked[seq]
                if now_us < held.crossed_at_us:
                    continue
                if not held.resends:
                    fresh.append(seq)
                    held.first_resend_us = now_us
                held.resends += 1
                self.resends += 1
                self.given_up |= patience.ends(held.resends, now_us - held.first_resend_us)
                self.again[seq] = one.segments
        return fresh

    def resend(self, crossing: Crossing) -> tuple[list[Data | Segment], int]:
        """The oldest packet that was asked for, whole or in part, and its bytes on the wire."""
        seq = min(self.again)
        segments = self.again.pop(seq)
        held = self.unacked[seq]
        parts: list[Data | Segment] = [Data(seq, held.payload)]
        size = self.wire_bytes(len(held.payload))
        if segments:
            chunks = cut(seq, held.payload, self.chunk_bytes)
            parts = [part for part in chunks if segments >> part.index & 1]
            size = len(parts) * (self.chunk_bytes + SEGMENT_OVERHEAD_BYTES + IP_UDP_BYTES)
        held.crossed_at_us = crossing.done_us(size)
        return parts, size
