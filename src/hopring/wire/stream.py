"""Packets on a byte stream: one greeting, then packets, each after its length (thesis 4.2).

Each end first sends the header of a datagram, so that a stream is checked like a datagram, but only once. An
empty packet is a sign of life. An incomplete packet at the end of a stream is dropped.
"""

from dataclasses import dataclass
from struct import Struct
from typing import Final

from hopring.errors import Drop, PeerError
from hopring.wire.data import PACKET_BYTES_MAX
from hopring.wire.header import HEAD_BYTES, Family, Header, decode_header, encode_header

_LENGTH: Final = Struct("<I")
LENGTH_BYTES: Final = _LENGTH.size
GREETING_BYTES: Final = HEAD_BYTES
SIGN_OF_LIFE: Final = _LENGTH.pack(0)


def encode_greeting(header: Header) -> bytes:
    """The first bytes of each end of a stream."""
    assert header.family is Family.TCP, "only streams are greeted"
    return encode_header(header)


def decode_greeting(stream: bytes, cluster: int) -> Header:
    """The greeting at the start of a stream, of which at least GREETING_BYTES have arrived."""
    header = decode_header(stream, cluster)
    if header.family is not Family.TCP:
        raise PeerError(Drop.UNKNOWN_TYPE, f"{header.family.name} head on a stream")
    return header


def encode_packet(payload: bytes) -> bytes:
    """A packet with its length before it."""
    return _LENGTH.pack(len(payload)) + payload


def split_packets(stream: bytes, start: int, packet_bytes_max: int) -> tuple[list[bytes], int]:
    """The complete packets from `start` on, and the offset of the first incomplete one."""
    packets: list[bytes] = []
    at = start
    while at + LENGTH_BYTES <= len(stream):
        length: int = _LENGTH.unpack_from(stream, at)[0]
        if length > packet_bytes_max:
            raise PeerError(Drop.LIMIT, f"packet of {length} bytes, the limit is {packet_bytes_max}")
        end = at + LENGTH_BYTES + length
        if end > len(stream):
            break
        packets.append(stream[at + LENGTH_BYTES : end])
        at = end
    return packets, at


@dataclass(slots=True)
class StreamReader:
    """One direction of a stream as it arrives, in chunks of any size.

    Between two chunks it stores less than one packet with its length, because a length is checked as soon as it
    arrives. A refused chunk changes nothing, but the stream cannot be continued after it.
    """

    cluster: int
    packet_bytes_max: int = PACKET_BYTES_MAX
    greeting: Header | None = None
    pending: bytes = b""

    def feed(self, chunk: bytes) -> list[bytes]:
        """The packets that this chunk completes, in their order."""
        stream = self.pending + chunk if self.pending else chunk
        start = 0
        greeting = self.greeting
        if greeting is None:
            if len(stream) < GREETING_BYTES:
                self.pending = stream
                return []
            greeting = decode_greeting(stream, self.cluster)
            start = GREETING_BYTES
        packets, end = split_packets(stream, start, self.packet_bytes_max)
        self.greeting = greeting
        self.pending = stream[end:]
        return packets
