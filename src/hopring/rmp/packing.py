"""Packing: the packets of a group as datagrams, and datagrams as packets of the group.

Implements  the head of all packets (figure 4.1) as the header of the datagram: group, epoch, sender's nonce.
Below       datagrams that may be lost, reordered or doubled (wire.train), which a driver may seal.
Above       a ring, whose effects are packed, and which is given what arrives.
Invariants  packets for one destination keep their order; packets that fit share a datagram. A long packet is
            complete only if all its segments are of one cut of the same bytes. At most INCOMPLETE_MAX packets
            are incomplete at one time.
Deviations  the paper has IP fragment long packets, so that one lost fragment loses the packet. Here segments
            are numbered by the identity of the packet and not by its sender: a copy that is sent again, even
            by another member, completes the one that was heard in part. Without this a packet of 46 segments
            would arrive whole once in eleven times at a loss of 5 %.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b
from struct import Struct
from typing import Final, final

from hopring.errors import Drop, PeerError
from hopring.ids import DaemonId, Generation, Incarnation
from hopring.links.assembly import Assembly
from hopring.rmp.events import MulticastPacket, PacketArrived, RingEffect, UnicastPacket
from hopring.value import Value
from hopring.wire.data import SEGMENT_BYTES_DEFAULT, Data, Segment, packet_bytes_of
from hopring.wire.header import HEAD_BYTES, Family, Header, encode_header
from hopring.wire.rmp.codec import (
    DATA_KEY_BYTES,
    PACKET_ENCODED_BYTES_MAX,
    ForwardedPacket,
    decode_payload,
    encode_forwarded,
    encode_packet,
)
from hopring.wire.rmp.ids import PeerProcess
from hopring.wire.rmp.packets import PacketType, RmpPacket
from hopring.wire.train import Frame, Packet, Train, encode

INCOMPLETE_MAX: Final = 64
"""Limit of the incomplete packets of a group; beyond it the one begun first is forgotten."""

HEADS_MAX: Final = 16
"""Limit of the encoded headers that a sender keeps, one for each epoch that it has sent in."""

ONWARD_MAX: Final = 64
"""Limit of the packets that wait to be sent on for others; further ones are only taken here."""

_SHORT_BYTES: Final = 512
_CLUSTER_AT: Final = 4
_CLUSTER: Final = Struct("<I")


@final
class Addressed(Value):
    """Frames with one header for one destination: as few datagrams as hold them."""

    def __init__(self, to: PeerProcess | None, head: bytes, frames: tuple[Frame, ...]) -> None:
        self.to: Final = to  # None: the group.
        self.head: Final = head
        self.frames: Final = frames

    def trains(self, segment_bytes: int = SEGMENT_BYTES_DEFAULT) -> list[Train]:
        """The datagrams in clear text; who seals them takes the frames instead."""
        return encode(self.head, self.frames, segment_bytes)


@final
class PacketOnward(Value):
    """A packet that its origin asks this process to send on to the group (paper 3.4)."""

    def __init__(self, packet: RmpPacket, epoch: int, origin: PeerProcess) -> None:
        self.packet: Final = packet
        self.epoch: Final = epoch
        self.origin: Final = origin


@dataclass(slots=True)
class Packer:
    """Makes frames of the packets that one process sends to one group."""

    cluster: int  # The hash of the group's domain and name.
    nonce: int  # Of the sending process.
    segment_bytes: int = SEGMENT_BYTES_DEFAULT
    _heads: dict[int, bytes] = field(default_factory=dict)  # By epoch.

    def __post_init__(self) -> None:
        fits = packet_bytes_of(self.segment_bytes) >= PACKET_ENCODED_BYTES_MAX
        assert fits, "the longest packet has to fit in one train"

    def pack(self, effects: Iterable[RingEffect]) -> list[Addressed]:
        """What one turn of a ring sends: one entry for each run of packets of one destination and epoch."""
        runs: dict[PeerProcess | None, list[tuple[int, list[Frame]]]] = {}
        for effect in effects:
            frame = frame_of(_encoded(effect))
            for to in _destinations(effect):
                theirs = runs.setdefault(to, [])
                if not theirs or theirs[-1][0] != effect.epoch:
                    theirs.append((effect.epoch, []))
                theirs[-1][1].append(frame)
        return [
            Addressed(to, self._head(epoch), tuple(frames))
            for to, theirs in runs.items()
            for epoch, frames in theirs
        ]

    def pack_onward(self, one: PacketOnward, unicast_too: Iterable[PeerProcess] = ()) -> list[Addressed]:
        """Sends a packet on to the group for another process, and to members that hear no multicast."""
        payload = encode_forwarded(ForwardedPacket(one.origin, one.packet))
        frames, head = (frame_of(payload),), self._head(one.epoch)
        return [Addressed(to, head, frames) for to in (None, *unicast_too) if to != one.origin]

    def _head(self, epoch: int) -> bytes:
        head = self._heads.get(epoch)
        if head is None:
            if len(self._heads) >= HEADS_MAX:
                self._heads.clear()
            head = self._heads[epoch] = encode_header(
                Header(Family.RMP, self.cluster, DaemonId(0), Incarnation(self.nonce), Generation(epoch))
            )
        return head


def frame_of(payload: bytes) -> Data:
    """An encoded packet as a frame; equal long packets have equal numbers, whoever sends them."""
    if len(payload) <= _SHORT_BYTES:
        return Data(0, payload)
    identity = payload[:DATA_KEY_BYTES] if payload[0] == PacketType.DATA else payload
    return Data(int.from_bytes(blake2b(identity, digest_size=8).digest(), "little"), payload)


def cluster_of(datagram: bytes | memoryview) -> int:
    """The cluster that a datagram names, so that a socket of several groups finds its own; 0 if it has none."""
    if len(datagram) < HEAD_BYTES:
        return 0
    cluster: int = _CLUSTER.unpack_from(datagram, _CLUSTER_AT)[0]
    return cluster


@dataclass(slots=True)
class Unpacker:
    """Makes packets of the datagrams that one process receives for one group."""

    nonce: int  # Its own: copies of what it sent to the group are not for it (trap 33).
    onward: list[PacketOnward] = field(default_factory=list)
    """Packets that are to be sent on, as soon as the driver takes them; they have arrived here, too."""
    _parts: Assembly = field(default_factory=Assembly)

    @property
    def incomplete(self) -> int:
        """How many long packets lack segments."""
        return len(self._parts)

    def unpack(self, datagram: Packet, address: int, port: int) -> list[PacketArrived | PeerError]:
        """The packets of a decoded datagram, sent from this IPv4 address and port; for a bad one its error."""
        header = datagram.header
        if header.family is not Family.RMP or header.sender:
            return [PeerError(Drop.UNKNOWN_TYPE, f"family {header.family} of sender {header.sender} in RMP")]
        if header.incarnation == self.nonce:
            return []
        sender = PeerProcess(address, port, header.incarnation)
        out: list[PacketArrived | PeerError] = []
        for frame in datagram.frames:
            try:
                payload = self._payload(frame)
                if payload is not None:
                    out += self._arrived(decode_payload(payload), header.generation, sender)
            except PeerError as error:
                out.append(error)
        return out

    def _arrived(
        self, one: RmpPacket | ForwardedPacket, epoch: int, sender: PeerProcess
    ) -> list[PacketArrived]:
        if not isinstance(one, ForwardedPacket):
            return [PacketArrived(one, epoch, sender)]
        if one.origin is None:
            if len(self.onward) < ONWARD_MAX:
                self.onward.append(PacketOnward(one.packet, epoch, sender))
            return [PacketArrived(one.packet, epoch, sender)]
        return [] if one.origin.nonce == self.nonce else [PacketArrived(one.packet, epoch, one.origin)]

    def _payload(self, frame: Frame) -> bytes | None:
        """The packet in a frame, or the one that it completes."""
        if isinstance(frame, Data):
            return frame.payload
        if not isinstance(frame, Segment):
            raise PeerError(Drop.UNKNOWN_TYPE, f"{type(frame).__name__} in a datagram of RMP")
        return self._add(frame)

    def _add(self, segment: Segment) -> bytes | None:
        # Cuts of other sizes are other packets: senders may have paths with other MTUs.
        key = (segment.seq << 32 | segment.packet_bytes) << 8 | segment.count
        one = Segment(key, segment.index, segment.count, segment.packet_bytes, segment.chunk)
        payload = self._parts.add(one)
        if len(self._parts) > INCOMPLETE_MAX:
            self._parts.forget_oldest()
        return payload


def _encoded(effect: RingEffect) -> bytes:
    if isinstance(effect, UnicastPacket) and effect.forward:
        return encode_forwarded(ForwardedPacket(None, effect.packet))
    return encode_packet(effect.packet)


def _destinations(effect: RingEffect) -> tuple[PeerProcess | None, ...]:
    if isinstance(effect, MulticastPacket):
        return None, *effect.unicast_too
    return (effect.to,)
