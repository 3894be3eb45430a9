"""The packets that a member of a ring keeps because another member may still lack them, and requests for them.

While a visit works on them, the requests of the token are a dict from the sequence of a packet to a bit for
each segment asked for; no bits ask for the whole packet.

Invariants  `discarded <= aru`; every packet in (discarded, aru] is kept, and none at or below `discarded`;
            packet aru + 1 is not here; nothing is kept beyond aru + unstable_packets_max.
"""

from dataclasses import dataclass, field

from hopring.errors import Drop, PeerError
from hopring.links.assembly import Assembly
from hopring.links.ring.options import RingOptions
from hopring.wire.data import Data, Missing, Segment, cut, segment_count


@dataclass(slots=True)
class RingStore:
    """Packets by sequence: our own and those received, each until all members have it."""

    options: RingOptions
    aru: int  # All received up to here.
    discarded: int  # All members have all up to here.
    packets: dict[int, bytes] = field(default_factory=dict)
    segments: int = 0  # Of all the packets kept.
    assembly: Assembly = field(default_factory=Assembly)
    asked_visits: dict[int, int] = field(default_factory=dict)  # Only packets that are missing.

    def has(self, seq: int) -> bool:
        """Whether the packet has arrived whole, now or long ago."""
        return seq <= self.aru or seq in self.packets

    def receive(self, frame: Data | Segment) -> bytes | None:
        """The payload, if this frame makes a packet whole that was not here before."""
        self._check(frame)
        if self.has(frame.seq):
            return None
        payload = self.assembly.add(frame) if isinstance(frame, Segment) else frame.payload
        if payload is not None:
            self.assembly.forget(frame.seq)
            self.keep(frame.seq, payload)
        return payload

    def keep(self, seq: int, payload: bytes) -> None:
        """Stores a packet that is not here yet."""
        self.packets[seq] = payload
        self.segments += segment_count(len(payload), self.options.chunk_bytes)
        while self.aru + 1 in self.packets:
            self.aru += 1

    def discard(self, upto: int) -> None:
        """Drops what all members have."""
        assert upto <= self.aru, "all members includes this one"
        for seq in range(self.discarded + 1, upto + 1):
            payload = self.packets.pop(seq)
            self.segments -= segment_count(len(payload), self.options.chunk_bytes)
        self.discarded = max(self.discarded, upto)

    def missing(self, upto: int) -> dict[int, int]:
        """What to ask for: packets up to this sequence, each with its missing segments, or none for all."""
        return {
            seq: self.assembly.missing_segments(seq)
            for seq in range(self.aru + 1, upto + 1)
            if seq not in self.packets
        }

    @property
    def gap(self) -> bool:
        """Whether a packet is here that is not next."""
        return len(self.packets) > self.aru - self.discarded

    def count_asked(self, seqs: list[int]) -> None:
        """Notes that these packets, and no others, are being asked for in this visit."""
        self.asked_visits = {seq: self.asked_visits.get(seq, 0) + 1 for seq in seqs}

    @property
    def asked_visits_most(self) -> int:
        """In how many visits in a row the longest missing packet was asked for."""
        return max(self.asked_visits.values()) if self.asked_visits else 0

    def copies(self, seq: int, segments: int) -> tuple[Data | Segment, ...]:
        """A packet for sending again: some segments of it, or the whole."""
        payload = self.packets[seq]
        if not segments:
            return (Data(seq, payload),)
        every = cut(seq, payload, self.options.chunk_bytes)
        return tuple(segment for segment in every if segments >> segment.index & 1)

    def _check(self, frame: Data | Segment) -> None:
        options = self.options
        if frame.seq > self.aru + options.unstable_packets_max:
            raise PeerError(Drop.OUT_OF_WINDOW, f"packet {frame.seq} is past the window above {self.aru}")
        packet_bytes = len(frame.payload) if isinstance(frame, Data) else frame.packet_bytes
        if packet_bytes > options.object_bytes_max:
            problem = f"packet of {packet_bytes} bytes, the limit is {options.object_bytes_max}"
            raise PeerError(Drop.LIMIT, problem)
        if isinstance(frame, Segment) and not _in_the_cut(frame, options.chunk_bytes):
            raise PeerError(Drop.INCONSISTENT, f"packet {frame.seq} is not cut by {options.chunk_bytes} bytes")


def _in_the_cut(segment: Segment, chunk_bytes: int) -> bool:
    """Whether the segment is one of the cut that all members use; another could not be completed."""
    rest = segment.packet_bytes - segment.index * chunk_bytes
    return segment.count == segment_count(segment.packet_bytes, chunk_bytes) and len(segment.chunk) == min(
        rest, chunk_bytes
    )


def expand(missing: tuple[Missing, ...], above: int, upto: int) -> dict[int, int]:
    """What the list asks for among the packets above the one and up to the other sequence.

    The bounds keep the work small, whatever a peer writes on the token.
    """
    wanted: dict[int, int] = {}
    for one in missing:
        for seq in range(max(one.seq, above + 1), min(one.seq + one.count, upto + 1)):
            want(wanted, seq, one.segments)
    return wanted


def want(wanted: dict[int, int], seq: int, segments: int) -> None:
    """Adds a request to those of others for the same packet."""
    before = wanted.get(seq, segments)
    wanted[seq] = before | segments if before and segments else 0


def collapse(wanted: dict[int, int], requests_max: int) -> tuple[Missing, ...]:
    """The list for the token, lowest first, as far as it has room: the rest is asked for later."""
    requests: list[Missing] = []
    for seq in sorted(wanted):
        last = requests[-1] if requests else None
        if last and not last.segments and not wanted[seq] and seq == last.seq + last.count:
            requests[-1] = Missing(last.seq, last.count + 1)
        elif len(requests) < requests_max:
            requests.append(Missing(seq, 1, wanted[seq]))
        else:
            break
    return tuple(requests)
