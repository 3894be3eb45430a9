"""The ends of links on simulated hosts: real frames, encoded and decoded, over the faulty network.

What is submitted travels as one object (wire.objects) and is received as one, whatever company it had in its
packet.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from hopring.check.link_history import Failed, Received, Submitted
from hopring.errors import Drop, PeerError
from hopring.ids import DaemonId, Incarnation
from hopring.links.events import Submit
from hopring.sim.host import Address
from hopring.sim.network import Network
from hopring.sim.trace import Dropped, Event, Refused
from hopring.wire.header import Header, encode_header
from hopring.wire.objects import (
    OBJECT_BODY_BYTES_MAX,
    OBJECT_HEAD_BYTES,
    ObjectType,
    encode_object,
    split_objects,
)
from hopring.wire.train import Frame, decode, encode

CLUSTER: Final = 0x51AB1E
"""The cluster hash of every simulated world."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where an end lives and what it speaks for itself: shared by all kinds of links."""

    network: Network
    link: str
    address: Address
    header: Header
    record: Callable[[Event], None]

    @property
    def now_us(self) -> int:
        """The present."""
        return self.network.engine.now_us


class End(ABC):
    """One end of a link: takes objects from above and records what the link gives back."""

    def __init__(self, place: Place) -> None:
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
        """Submits an object, or records why it cannot be."""
        place = self.place
        reason = self._refusal(payload)
        if reason:
            place.record(Refused(place.now_us, place.link, place.address.host, reason))
            return False
        place.record(Submitted(place.now_us, place.link, place.address.host, payload))
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
            place.record(Received(place.now_us, place.link, place.address.host, bytes(body)))

    def fail(self, reason: str) -> None:
        """Records that the link is dead."""
        place = self.place
        self.failed = True
        place.record(Failed(place.now_us, place.link, place.address.host, reason))


class DatagramEnd(End):
    """An end that speaks in datagrams: checks, counts and drops what does not belong to the link."""

    def __init__(self, place: Place, peers: dict[DaemonId, Incarnation], segment_bytes: int) -> None:
        super().__init__(place)
        self.drops: Counter[Drop] = Counter()
        self._peers = peers
        self._head = encode_header(place.header)
        self._segment_bytes = segment_bytes
        place.network.bind(place.address, self._receive)

    @abstractmethod
    def take(self, sender: DaemonId, frame: Frame) -> None:
        """Hands a frame to the link, or raises PeerError if it is none of the link's words."""

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
        place.record(Dropped(place.now_us, place.link, place.address.host, error.reason, error.detail))

    def datagrams(self, frames: tuple[Frame, ...]) -> list[bytes]:
        """The frames as they go over the wire."""
        trains = encode(self._head, frames, self._segment_bytes)
        return [datagram for train in trains for datagram in train.datagrams()]
