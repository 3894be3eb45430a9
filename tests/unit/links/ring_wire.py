"""Several rings on a fake multicast wire with losses."""

from collections import Counter
from dataclasses import dataclass, field
from heapq import heappop, heappush
from random import Random
from struct import Struct

from hopring.ids import NEVER, DaemonId, Generation, Incarnation
from hopring.links.events import Deliver, LinkFailed, Submit, Tick, Transmit
from hopring.links.ring.events import FromMember, Passed, Release, TransmitTo, Visit, Wish
from hopring.links.ring.options import RingOptions
from hopring.links.ring.packing import VisitSpace
from hopring.links.ring.ring import Input, Output, Ring, open_ring
from hopring.wire.data import Data, Segment, segment_count
from hopring.wire.header import Family, Header, encode_header
from hopring.wire.ring import Held, Hurry, Token
from hopring.wire.train import Frame, decode, encode

OBJECT = Struct("<QI")  # site_seq, or 0 for transit; bytes that follow


MS = 1_000


@dataclass
class RingDaemon:
    """A member and its layer above: stamps in visits, and reports how far its objects are complete."""

    ring: Ring
    to_stamp: list[bytes] = field(default_factory=list)
    delivered: list[bytes] = field(default_factory=list)
    sent: list[bytes] = field(default_factory=list)
    arrived: set[int] = field(default_factory=set)  # Stamped objects; `line` is the last without a gap.
    line: int = 0
    reported: int = 0
    site_aru: int = 0
    visits: int = 0
    passes: int = 0
    failures: list[str] = field(default_factory=list)
    segments: Counter[int] = field(default_factory=Counter)  # New and resent segments between two passes.
    busy: bool = False

    def release(self, visit: Visit) -> Release:
        seq, objects, options = visit.site_seq, [], self.ring.options
        space = VisitSpace(visit.local_segments, options.packet_bytes, options.chunk_bytes)
        while self.to_stamp and space.reserve(size := OBJECT.size + len(self.to_stamp[0]), size):
            body = self.to_stamp.pop(0)
            seq += 1
            objects.append(OBJECT.pack(seq, len(body)) + body)
            self.sent.append(body)
            self.take(seq)
        self.visits += 1
        self.reported = self.line
        return Release(seq, seq, self.line, tuple(objects), self.busy)

    def deliver(self, payload: bytes) -> None:
        at = 0
        while at < len(payload):
            seq, length = OBJECT.unpack_from(payload, at)
            at += OBJECT.size
            self.delivered.append(payload[at : at + length])
            at += length
            if seq:
                self.take(seq)

    def take(self, seq: int) -> None:
        self.arrived.add(seq)
        while self.line + 1 in self.arrived:
            self.line += 1


class RingWire:
    """Carries real datagrams between the members, in virtual time."""

    def __init__(
        self,
        members: int,
        seed: int = 0,
        loss: float = 0.0,
        repeat: float = 0.0,
        delay_us: tuple[int, int] = (50, 50),
        options: RingOptions | None = None,
        initial_seq: int = 0,
    ) -> None:
        self.options = options or RingOptions()
        ids = tuple(DaemonId(10 + at) for at in range(members))
        self.daemons = {me: RingDaemon(open_ring(me, ids, self.options, initial_seq, 0)) for me in ids}
        self.random = Random(seed)
        self.loss = loss
        self.repeat = repeat
        self.delay_us = delay_us
        self.now_us = 0
        self.order = 0
        self.flying: list[tuple[int, int, DaemonId, DaemonId, bytes]] = []
        self.cut_off: set[DaemonId] = set()
        self.deaf: set[DaemonId] = set()  # Members that get tokens, but no packets.
        self.frames: Counter[type] = Counter()
        self.flow_control_max = 0

    def __getitem__(self, at: int) -> RingDaemon:
        return self.daemons[DaemonId(10 + at)]

    @property
    def all(self) -> list[RingDaemon]:
        return list(self.daemons.values())

    def run(self, until_us: int) -> None:
        while (at_us := self._next_us()) <= until_us:
            self.now_us = max(self.now_us, at_us)
            if self.flying and self.flying[0][0] <= self.now_us:
                _, _, sender, to, datagram = heappop(self.flying)
                for frame in decode(datagram, cluster=7).frames:
                    assert isinstance(frame, Data | Segment | Token | Hurry | Held)
                    self.step(to, FromMember(sender, frame))
            else:
                due = min(self.daemons, key=lambda me: (self.daemons[me].ring.wake_at_us, me))
                self.step(due, Tick())
        self.now_us = until_us

    def _next_us(self) -> int:
        wake_us = min(daemon.ring.wake_at_us for daemon in self.all)
        return min(wake_us, self.flying[0][0] if self.flying else NEVER)

    def multicast(self, at: int, *bodies: bytes) -> None:
        self[at].to_stamp += bodies
        self.step(self[at].ring.me, Wish())

    def carry_in(self, at: int, *bodies: bytes, urgent: bool = False) -> None:
        for body in bodies:
            self[at].sent.append(body)
            self.step(self[at].ring.me, Submit(OBJECT.pack(0, len(body)) + body, urgent))

    def step(self, me: DaemonId, event: Input) -> None:
        daemon = self.daemons[me]
        for output in daemon.ring.step(event, self.now_us):
            self._carry_out(daemon, output)

    def _carry_out(self, daemon: RingDaemon, output: Output) -> None:
        me = daemon.ring.me
        match output:
            case Transmit(frames=frames):
                self._count_segments(daemon, frames)
                self._send(me, [other for other in self.daemons if other != me], frames)
            case TransmitTo(member=member, frames=frames):
                self._send(me, [member], frames)
            case Deliver(payload=payload):
                daemon.deliver(payload)
            case Visit():
                self.step(me, daemon.release(output))
            case Passed(site_aru=site_aru):
                assert site_aru <= min(other.reported for other in self.all), "Safe before all have it"
                assert site_aru >= daemon.site_aru
                daemon.site_aru = site_aru
                daemon.passes += 1
            case LinkFailed(reason=reason):
                daemon.failures.append(reason)

    def _count_segments(self, daemon: RingDaemon, frames: tuple[Frame, ...]) -> None:
        chunk = self.options.chunk_bytes
        for frame in frames:
            if isinstance(frame, Data):
                daemon.segments[daemon.passes] += segment_count(len(frame.payload), chunk)
            elif isinstance(frame, Segment):
                daemon.segments[daemon.passes] += 1

    def _send(self, sender: DaemonId, to: list[DaemonId], frames: tuple[Frame, ...]) -> None:
        head = encode_header(Header(Family.RING, 7, sender, Incarnation(1), Generation(1)))
        for frame in frames:
            self.frames[type(frame)] += 1
            if isinstance(frame, Token):
                self.flow_control_max = max(self.flow_control_max, frame.flow_control)
        if isinstance(frames[0], Data | Segment):
            to = [member for member in to if member not in self.deaf]
        for train in encode(head, frames, self.options.segment_bytes):
            for datagram in train.datagrams():
                for member in to:
                    self._fly(sender, member, datagram)

    def _fly(self, sender: DaemonId, member: DaemonId, datagram: bytes) -> None:
        if member in self.cut_off or sender in self.cut_off or self.random.random() < self.loss:
            return
        copies = 2 if self.random.random() < self.repeat else 1
        for _ in range(copies):
            self.order += 1
            at_us = self.now_us + self.random.randint(*self.delay_us)
            heappush(self.flying, (at_us, self.order, sender, member, datagram))


def assert_all_delivered_once(wire: RingWire) -> None:
    for daemon in wire.all:
        others = [body for other in wire.all if other is not daemon for body in other.sent]
        assert Counter(daemon.delivered) == Counter(others)
        assert not daemon.to_stamp
        assert not daemon.failures


def bodies(name: str, count: int, length: int = 100) -> list[bytes]:
    return [f"{name} {number} ".encode().ljust(length, b".") for number in range(count)]
