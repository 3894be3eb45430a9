"""Segments of the TCP model, and what can be tuned in it.

A segment's head has 24 bytes, so that with the 28 that the network adds it weighs what a TCP segment with
time stamps weighs: 52. Bytes of a stream are numbered from 0; FIN takes the number after the last byte.
"""

from dataclasses import dataclass
from enum import IntFlag
from struct import Struct
from typing import Final

# source port, target port, seq, ack, stamp, echo, flags
_SEGMENT: Final = Struct("<HHIIIIB3x")
SEGMENT_HEAD_BYTES: Final = _SEGMENT.size
STREAM_BYTES_MAX: Final = 0xFFFF_FFFF
"""The model does not let sequence numbers wrap."""


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """Limits and timers of one end; the defaults are those of a Linux host on Ethernet."""

    mss: int = 1448
    send_buffer_bytes: int = 1024 * 1024
    receive_window_bytes: int = 4 * 1024 * 1024
    delayed_ack_us: int = 40_000
    retries_max: int = 15
    connect_retries_max: int = 6


class Flags(IntFlag):
    """The control bits."""

    NONE = 0
    FIN = 1
    SYN = 2
    RST = 4
    ACK = 16


@dataclass(frozen=True, slots=True)
class TcpSegment:
    """One segment; `stamp_us` is the sender's clock, `echo_us` the stamp it answers."""

    source_port: int
    target_port: int
    seq: int
    ack: int
    stamp_us: int
    echo_us: int
    flags: Flags
    data: bytes = b""

    @property
    def end(self) -> int:
        """The number after the last byte."""
        return self.seq + len(self.data)


def encode_segment(segment: TcpSegment) -> bytes:
    """The segment as a datagram."""
    assert segment.end <= STREAM_BYTES_MAX, "the model's streams end at 4 GiB"
    head = _SEGMENT.pack(
        segment.source_port,
        segment.target_port,
        segment.seq,
        segment.ack,
        segment.stamp_us,
        segment.echo_us,
        segment.flags,
    )
    return head + segment.data


def decode_segment(datagram: bytes) -> TcpSegment:
    """The segment in a datagram; both ends are ours, so it is well formed."""
    source_port, target_port, seq, ack, stamp_us, echo_us, flags = _SEGMENT.unpack_from(datagram)
    data = datagram[SEGMENT_HEAD_BYTES:]
    return TcpSegment(source_port, target_port, seq, ack, stamp_us, echo_us, Flags(flags), data)
