"""The packets that a member stores because another member may still lack them, and requests for packets.

During a visit, requests are a dict from the sequence of a packet to a bit for each requested segment; no bits
request the whole packet.

Invariants  `discarded <= aru`; every packet in (discarded, aru] is stored, and none at or below
            `discarded`; packet aru + 1 is not here; none is stored above aru + unstable_packets_max.
"""

from dataclasses import dataclass, field

from hopring.errors import Drop, PeerError
from hopring.links.assembly import Assembly
from hopring.links.ring.options import RingOptions
from hopring.wire.data import Data, Missing, Segment, cut, segment_count


@dataclass(slots=True)
class RingStore:
    """Packets by sequence, sent and received, each until all members have it."""

    options: RingOptions
    aru: int  # All received up to here.
    discarded: int  # All members have all up to here.
    packets: dict[int, bytes] = field(default_factory=dict)
    segments: int = 0  # Of all stored packets.
    assembly: Assembly = field(default_factory=Assembly)
    asked_visits: dict[int, int] = field(
        default_factory=dict
    )  # For each missing packet, consecutive visits in which it was requested.

    def has(self, seq: int) -> bool:
        """Whether the whole packet has arrived; it may be discarded since."""
        return seq <= self.aru or seq in self.packets

    def receive(self, frame: Data | Segment) -> bytes | None:
        """Returns the payload if this frame completes a packet that was not here before."""
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
        """Drops packets up to this one, which all members have."""
        assert upto <= self.aru, "all members includes this one"
        for seq in range(self.discarded + 1, upto + 1):
            payload = self.packets.pop(seq)
            self.segments -= segment_count(len(payload), self.options.chunk_bytes)
        self.discarded = max(self.discarded, upto)

    def missing(self, upto: int) -> dict[int, int]:
        """The missing packets up to this sequence, with a bit for each missing segment; 0 if all are."""
        return {
            seq: self.assembly.missing_segments(seq)
            for seq in range(self.aru + 1, upto + 1)
            if seq not in self.packets
        }

    @property
    def gap(self) -> bool:
        """Whether a packet is stored above a missing one."""
        return len(self.packets) > self.aru - self.discarded

    def count_asked(self, seqs: list[int]) -> None:
        """Notes that exactly these packets are requested in this visit."""
        self.asked_visits = {seq: self.asked_visits.get(seq, 0) + 1 for seq in seqs}

    @property
    def asked_visits_most(self) -> int:
        """The largest number of consecutive visits in which a packet was requested."""
        return max(self.asked_visits.values()) if self.asked_visits else 0

    def copies(self, seq: int, segments: int) -> tuple[Data | Segment, ...]:
        """A packet to send again: these segments of it, or the whole one if there are no bits."""
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
    """Whether the segment has the size that all members use; others could not be joined with it."""
    rest = segment.packet_bytes - segment.index * chunk_bytes
    return segment.count == segment_count(segment.packet_bytes, chunk_bytes) and len(segment.chunk) == min(
        rest, chunk_bytes
    )


def expand(missing: tuple[Missing, ...], above: int, upto: int) -> dict[int, int]:
    """The requests of the list for packets above `above` and up to `upto`.

    The bounds limit the work, whatever a peer writes on the token.
    """
    wanted: dict[int, int] = {}
    for one in missing:
        for seq in range(max(one.seq, above + 1), min(one.seq + one.count, upto + 1)):
            want(wanted, seq, one.segments)
    return wanted


def want(wanted: dict[int, int], seq: int, segments: int) -> None:
    """Adds a request to those for the same packet."""
    before = wanted.get(seq, segments)
    wanted[seq] = before | segments if before and segments else 0


def collapse(wanted: dict[int, int], requests_max: int) -> tuple[Missing, ...]:
    """The list for the token, lowest packets first, with at most this many entries; the others wait."""
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
