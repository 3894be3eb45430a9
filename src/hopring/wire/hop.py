"""ACK and NACK frames of the Hop link (thesis 4.3)."""

from struct import Struct
from typing import Final, final

from hopring.errors import Drop, PeerError
from hopring.value import Value
from hopring.wire.data import Missing, decode_missing, encode_missing
from hopring.wire.header import FrameType, encode_frame

# aru, top, max sent, stamp, echo, echo delay
_ACK: Final = Struct("<QQQIII")

STAMP_MASK: Final = 0xFFFF_FFFF
"""Stamps are the low 32 bits of the sender's microsecond clock; differences are taken modulo 2**32."""


@final
class Ack(Value):
    """A report of one end: the packets that it has received and sent so far.

    `stamp_us` is the sender's clock, `echo_us` the last stamp that it received, or 0 if there is none yet, and
    `echo_delay_us` the time since then.
    """

    def __init__(
        self, aru: int, top: int, max_sent: int, stamp_us: int, echo_us: int, echo_delay_us: int
    ) -> None:
        self.aru: Final = aru
        self.top: Final = top
        self.max_sent: Final = max_sent
        self.stamp_us: Final = stamp_us
        self.echo_us: Final = echo_us
        self.echo_delay_us: Final = echo_delay_us


@final
class Nack(Value):
    """A request for the packets and segments that are missing."""

    def __init__(self, missing: tuple[Missing, ...]) -> None:
        self.missing: Final = missing


def encode_ack(ack: Ack) -> bytes:
    """The ACK as a frame."""
    body = _ACK.pack(ack.aru, ack.top, ack.max_sent, ack.stamp_us, ack.echo_us, ack.echo_delay_us)
    return encode_frame(FrameType.ACK, body)


def decode_ack(body: bytes) -> Ack:
    """Decodes the body of an ACK frame."""
    if len(body) != _ACK.size:
        raise PeerError(Drop.LENGTH, f"ACK of {len(body)} bytes, not {_ACK.size}")
    ack = Ack(*_ACK.unpack(body))
    if ack.aru > ack.top:
        raise PeerError(Drop.INCONSISTENT, f"ACK with aru {ack.aru} above top {ack.top}")
    return ack


def encode_nack(nack: Nack) -> bytes:
    """The NACK as a frame."""
    return encode_frame(FrameType.NACK, encode_missing(nack.missing))


def decode_nack(body: bytes) -> Nack:
    """Decodes the body of a NACK frame; an empty list is refused."""
    missing = decode_missing(body)
    if not missing:
        raise PeerError(Drop.INCONSISTENT, "NACK that asks for nothing")
    return Nack(missing)
