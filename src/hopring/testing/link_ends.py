"""Ends of Hop, TCP and ring links on simulated hosts: real frames, encoded and decoded.

A submitted payload travels as one object (wire.objects) and is received as one, whatever else is in its packet.
A ring member has a stand-in for the ordering layer: objects wait there for the token and leave with the
`Release` that answers a `Visit`; urgent ones go in by `Submit`. The stand-in's stamps count objects only.
"""

from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from hopring.errors import Drop, PeerError
from hopring.ids import DaemonId, Incarnation
from hopring.links import tcp
from hopring.links.events import (
    Deliver,
    LinkFailed,
    LinkInput,
    LinkOutput,
    StreamClosed,
    StreamObserve,
    StreamObserved,
    StreamOpened,
    StreamReceived,
    StreamWrite,
    StreamWritten,
    Submit,
    Transmit,
)
from hopring.links.link import Link
from hopring.links.ring import ring
from hopring.links.ring.events import FromMember, Passed, Release, TransmitTo, Visit, Wish
from hopring.links.ring.packing import VisitSpace
from hopring.sim.driver import Driver
from hopring.sim.network import Address, SimNetwork
from hopring.sim.tcp.stream import SimTcpStream
from hopring.testing.trace import (
    DatagramDropped,
    LinkEndFailed,
    ObjectReceived,
    ObjectRefused,
    ObjectSubmitted,
    TraceEvent,
)
from hopring.wire.data import Data, Segment
from hopring.wire.header import Header, encode_header
from hopring.wire.hop import Ack, Nack
from hopring.wire.objects import (
    OBJECT_BODY_BYTES_MAX,
    OBJECT_HEAD_BYTES,
    ObjectType,
    encode_object,
    split_objects,
)
from hopring.wire.ring import Held, Hurry, Token
from hopring.wire.train import Frame, decode, encode

CLUSTER: Final = 0x51AB1E
"""The cluster hash of every simulated world."""


@dataclass(frozen=True, slots=True)
class EndSetup:
    """The environment of an end: network, link name, address, header, and the trace it records to."""

    network: SimNetwork
    link: str
    address: Address
    header: Header
    record: Callable[[TraceEvent], None]

    @property
    def now_us(self) -> int:
        """The present virtual time, in microseconds."""
        return self.network.engine.now_us


class LinkEnd(ABC):
    """One end of a link: takes objects from above and records the link's outputs."""

    def __init__(self, place: EndSetup) -> None:
        self.place = place
        self.failed = False

    @property
    @abstractmethod
    def object_bytes_max(self) -> int:
        """The largest encoded object that the link takes."""

    @abstractmethod
    def close(self) -> None:
        """Takes the link off its host, because a new generation replaces it."""

    @abstractmethod
    def hand_in(self, submit: Submit) -> None:
        """Gives the link an object."""

    def submit(self, payload: bytes, urgent: bool = False, lazy: bool = False) -> bool:
        """Submits an object, or records the reason of its refusal."""
        place = self.place
        reason = self._refusal(payload)
        if reason:
            place.record(ObjectRefused(place.now_us, place.link, place.address.host, reason))
            return False
        place.record(ObjectSubmitted(place.now_us, place.link, place.address.host, payload))
        self.hand_in(Submit(encode_object(ObjectType.ROUTED, payload), urgent, lazy))
        return True

    def _refusal(self, payload: bytes) -> str:
        if self.failed:
            return "the link has failed"
        limit = self.payload_bytes_max
        return f"{len(payload)} bytes, the limit is {limit}" if len(payload) > limit else ""

    @property
    def payload_bytes_max(self) -> int:
        """The largest object that `submit` takes, without the head it gets."""
        return min(self.object_bytes_max - OBJECT_HEAD_BYTES, OBJECT_BODY_BYTES_MAX)

    def deliver(self, packet: bytes) -> None:
        """Records the objects of a packet that the link has delivered."""
        place = self.place
        for _kind, body in split_objects(packet):
            place.record(ObjectReceived(place.now_us, place.link, place.address.host, bytes(body)))

    def fail(self, reason: str) -> None:
        """Records that the link is dead."""
        place = self.place
        self.failed = True
        place.record(LinkEndFailed(place.now_us, place.link, place.address.host, reason))


class DatagramEnd(LinkEnd):
    """An end of a datagram link: checks headers, and counts and drops foreign datagrams."""

    def __init__(self, place: EndSetup, peers: dict[DaemonId, Incarnation], segment_bytes: int) -> None:
        super().__init__(place)
        self.drops: Counter[Drop] = Counter()
        self._peers = peers
        self._head = encode_header(place.header)
        self._segment_bytes = segment_bytes
        place.network.bind(place.address, self._receive)

    @abstractmethod
    def take(self, sender: DaemonId, frame: Frame) -> None:
        """Hands a frame to the link, or raises PeerError if the link has no such frame."""

    def _receive(self, _source: Address, datagram: bytes) -> None:
        try:
            packet = decode(datagram, self.place.header.cluster)
            self._check(packet.header)
            for frame in packet.frames:
                self.take(packet.header.sender, frame)
        except PeerError as error:
            self._drop(error)

    def _check(self, header: Header) -> None:
        own = self.place.header
        if header.family is not own.family or header.sender not in self._peers:
            raise PeerError(Drop.FOREIGN_SENDER, f"{header.family.name} from daemon {header.sender}")
        if header.incarnation != self._peers[header.sender]:
            raise PeerError(Drop.STALE_INCARNATION, f"daemon {header.sender}")
        if header.generation != own.generation:
            raise PeerError(Drop.STALE_GENERATION, f"generation {header.generation}, not {own.generation}")

    def _drop(self, error: PeerError) -> None:
        place = self.place
        self.drops[error.reason] += 1
        place.record(DatagramDropped(place.now_us, place.link, place.address.host, error.reason, error.detail))

    def datagrams(self, frames: tuple[Frame, ...]) -> list[bytes]:
        """The frames as they go over the wire."""
        trains = encode(self._head, frames, self._segment_bytes)
        return [datagram for train in trains for datagram in train.datagrams()]


class HopEnd(DatagramEnd):
    """One end of a Hop link, or of another kind of link over datagrams."""

    def __init__(
        self,
        place: EndSetup,
        peer: Address,
        peers: dict[DaemonId, Incarnation],
        link: Link,
        segment_bytes: int,
    ) -> None:
        super().__init__(place, peers, segment_bytes)
        self.link = link
        self._peer = peer
        self._driver: Driver[LinkInput, LinkOutput] = Driver(
            place.network, place.address.host, link, self._carry_out
        )

    @property
    def object_bytes_max(self) -> int:
        """The largest encoded object that the link takes."""
        return self.link.object_bytes_max

    def close(self) -> None:
        """Stops the link and gives its port back."""
        self._driver.stop()
        self.place.network.unbind(self.place.address)

    def hand_in(self, submit: Submit) -> None:
        """Gives the link an object."""
        self._driver.step(submit)

    def take(self, _sender: DaemonId, frame: Frame) -> None:
        """Hands a frame of the Hop family to the link."""
        match frame:
            case Data() | Segment() | Ack() | Nack():
                self._driver.step(frame)
            case _:
                raise PeerError(Drop.UNKNOWN_TYPE, f"{type(frame).__name__} on a Hop link")

    def _carry_out(self, output: LinkOutput) -> None:
        match output:
            case Transmit(frames=frames):
                for datagram in self.datagrams(frames):
                    self.place.network.send(self.place.address, self._peer, datagram)
            case Deliver(payload=payload):
                self.deliver(payload)
            case LinkFailed(reason=reason):
                self.fail(reason)


class TcpEnd(LinkEnd):
    """One end of a TCP link: a `SimTcpUser` that keeps bytes until the stream has room."""

    def __init__(self, place: EndSetup, link: tcp.Tcp) -> None:
        super().__init__(place)
        self.link = link
        self.stream: SimTcpStream | None = None
        self._unwritten = bytearray()
        self._driver: Driver[LinkInput, LinkOutput] = Driver(
            place.network, place.address.host, link, self._carry_out
        )

    @property
    def object_bytes_max(self) -> int:
        """The largest encoded object that the link takes."""
        return self.link.object_bytes_max

    def close(self) -> None:
        """Stops the link and resets its connection."""
        self._driver.stop()
        if self.stream is not None:
            self.stream.abort()

    def hand_in(self, submit: Submit) -> None:
        """Gives the link an object."""
        self._driver.step(submit)

    def _carry_out(self, output: LinkOutput) -> None:
        match output:
            case StreamWrite(data=data):
                self._unwritten += data
                self._write()
            case StreamObserve():
                assert self.stream is not None, "the link observes only a connection that stands"
                stream = self.stream
                observed = StreamObserved(stream.incoming.data_segments, stream.out.round_trip.smoothed_us)
                self._driver.step(observed)
            case Deliver(payload=payload):
                self.deliver(payload)
            case LinkFailed(reason=reason):
                self.fail(reason)
                if self.stream is not None:
                    self.stream.abort()

    def _write(self) -> None:
        assert self.stream is not None, "the link writes only to a connection that stands"
        taken = self.stream.send(bytes(self._unwritten))
        del self._unwritten[:taken]
        if taken:
            self._driver.step(StreamWritten(taken))

    # ---- Calls of the stream ----

    def connected(self, stream: SimTcpStream) -> None:
        """Tells the link that the connection is established."""
        self.stream = stream
        self._driver.step(StreamOpened())

    def received(self, _stream: SimTcpStream, data: bytes) -> None:
        """Hands arrived bytes to the link."""
        self._driver.step(StreamReceived(data))

    def writable(self, _stream: SimTcpStream) -> None:
        """Writes the bytes that waited for room."""
        self._write()

    def closed(self, _stream: SimTcpStream, reason: str) -> None:
        """Tells the link that the connection has ended."""
        self._driver.step(StreamClosed(reason))


class RingMember(DatagramEnd):
    """One member of a ring; it reaches the others by multicast or unicast."""

    def __init__(
        self,
        place: EndSetup,
        addresses: dict[DaemonId, Address],
        peers: dict[DaemonId, Incarnation],
        link: ring.Ring,
    ) -> None:
        super().__init__(place, peers, link.options.segment_bytes)
        self.link = link
        self.site_aru = 0
        self._addresses = addresses
        self._unstamped: deque[bytes] = deque()
        place.network.join(place.link, place.address)
        self._driver: Driver[ring.Input, ring.Output] = Driver(
            place.network, place.address.host, link, self._carry_out
        )

    @property
    def object_bytes_max(self) -> int:
        """The largest encoded object that goes in one packet of this member."""
        return self.link.packet_bytes

    def close(self) -> None:
        """Stops the link and gives its port and its place in the group back."""
        self._driver.stop()
        self.place.network.unbind(self.place.address)
        self.place.network.leave(self.place.link, self.place.address)

    def hand_in(self, submit: Submit) -> None:
        """Gives the ring an urgent object at once, and others when the token is here."""
        if submit.urgent:
            self._driver.step(submit)
            return
        self._unstamped.append(submit.payload)
        self._driver.step(Wish())

    def take(self, sender: DaemonId, frame: Frame) -> None:
        """Hands a frame of the Ring family to the ring."""
        match frame:
            case Data() | Segment() | Token() | Hurry() | Held():
                self._driver.step(FromMember(sender, frame))
            case _:
                raise PeerError(Drop.UNKNOWN_TYPE, f"{type(frame).__name__} on a ring")

    def _carry_out(self, output: ring.Output) -> None:
        place = self.place
        match output:
            case Transmit(frames=frames):
                for datagram in self.datagrams(frames):
                    place.network.multicast(place.address, place.link, datagram)
            case TransmitTo(member=member, frames=frames):
                for datagram in self.datagrams(frames):
                    place.network.send(place.address, self._addresses[member], datagram)
            case Deliver(payload=payload):
                self.deliver(payload)
            case Visit():
                self._release(output)
            case Passed(number=_number, site_aru=site_aru):
                self.site_aru = site_aru
            case LinkFailed(reason=reason):
                self.fail(reason)

    def _release(self, visit: Visit) -> None:
        """Stamps the objects that fit in the visit and asks for another visit if some are left."""
        objects: list[bytes] = []
        options = self.link.options
        space = VisitSpace(visit.local_segments, options.packet_bytes, options.chunk_bytes)
        while self._unstamped and space.reserve(len(self._unstamped[0]), len(self._unstamped[0])):
            objects.append(self._unstamped.popleft())
        stamp = visit.site_lts + len(objects)
        left = bool(self._unstamped)
        self._driver.step(
            Release(visit.site_seq + len(objects), stamp, local_aru=stamp, objects=tuple(objects), busy=left)
        )
