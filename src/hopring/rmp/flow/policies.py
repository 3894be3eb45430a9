"""Window policies: how the window of a sender grows with ACKs and shrinks with losses.

Implements  Whetten, Montgomery, Kaplan, 4.6: slow start and halving as they stand (`rmp`), and the leaky bucket
            that they suggest for fast long networks (`rate`). CUBIC (`cubic`) is that of Hop links.
Above       flow.py, which counts the bytes in flight and measures the round trip.
Invariants  a window is between the smallest packet and the largest window of the options.
Deviations  the paper describes no congestion avoidance, and slow start for ever oscillates (trap 28): `cubic`
            is the default. One overrun receiver halves every sender that it names; the cache of three and the
            smallest packet bound what it can do.
"""

from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol

from hopring.links.hop.pacing import Bucket, Congestion
from hopring.links.timing import RoundTrip
from hopring.wire.data import SEGMENT_BYTES_DEFAULT
from hopring.wire.rmp.packets import BODY_BYTES_MAX

NACKED_KEPT: Final = 3
"""The paper's cache: so many of the latest packets named by NACKs do not shrink the window again."""


class FlowPolicy(StrEnum):
    """The policies by the names that users give."""

    RMP = "rmp"
    CUBIC = "cubic"
    RATE = "rate"


@dataclass(frozen=True, slots=True)
class FlowOptions:
    """The policy of a sender, with its limits."""

    policy: FlowPolicy = FlowPolicy.CUBIC
    packet_bytes_min: int = SEGMENT_BYTES_DEFAULT  # The figure's MIN: also where the window starts and ends.
    packet_bytes_max: int = BODY_BYTES_MAX  # Its MAX.
    window_bytes_max: int = 1 << 20
    rate_bytes_per_second: int = 10_000_000  # Of the policy `rate`.

    def __post_init__(self) -> None:
        assert 0 < self.packet_bytes_min <= self.packet_bytes_max, "packets have a smallest size"
        assert self.packet_bytes_max <= BODY_BYTES_MAX, "a packet has to fit a train"
        assert self.packet_bytes_max <= self.window_bytes_max, "a packet has to fit the window"
        assert self.rate_bytes_per_second > 0, "a rate is positive"


@dataclass(slots=True)
class AckedPacket:
    """The first copy of the ACK of a packet."""

    size_bytes: int
    used: bool  # Half of the window or more was in flight.
    round_trip: RoundTrip
    now_us: int


@dataclass(slots=True)
class LostPacket:
    """A packet that a receiver or a timer takes for lost."""

    seq: int
    by_timer: bool
    highest_sent: int
    now_us: int


class WindowPolicy(Protocol):
    """A policy is told of ACKs, losses and sends, and says how much may be in flight, and when to send."""

    @property
    def window_bytes(self) -> int:
        """How many bytes may be in flight."""

    @property
    def ready_at_us(self) -> int:
        """When the next packet may be sent, as far as rates go."""

    def sent(self, size_bytes: int, now_us: int) -> None:
        """A packet was sent for the first time, or again."""

    def acknowledged(self, packet: AckedPacket) -> None:
        """A packet is not in flight any more."""

    def lost(self, packet: LostPacket) -> bool:
        """A packet has to be sent again; whether the window shrinks."""


class _Unpaced:
    """A window does not pace, and its flow counts what is sent."""

    __slots__ = ()

    @property
    def ready_at_us(self) -> int:
        """At once: only rates pace."""
        return 0

    def sent(self, size_bytes: int, now_us: int) -> None:
        """A packet was sent for the first time, or again."""


@dataclass(slots=True)
class SlowStartWindow(_Unpaced):
    """The paper's: one packet more with each ACK, half after each timer and each first NACK of a packet."""

    options: FlowOptions
    window_bytes: int = 0
    _nacked: deque[int] = field(default_factory=lambda: deque(maxlen=NACKED_KEPT))

    def __post_init__(self) -> None:
        self.window_bytes = self.window_bytes or self.options.packet_bytes_min

    def acknowledged(self, packet: AckedPacket) -> None:
        """Grows by one smallest packet, so it takes log2 W round trips to a window of W of them."""
        if packet.used:
            grown = self.window_bytes + self.options.packet_bytes_min
            self.window_bytes = min(grown, self.options.window_bytes_max)

    def lost(self, packet: LostPacket) -> bool:
        """Halves the window, unless a NACK names a packet that one of the last three named."""
        if not packet.by_timer:
            if packet.seq in self._nacked:
                return False
            self._nacked.append(packet.seq)
        self.window_bytes = max(self.window_bytes // 2, self.options.packet_bytes_min)
        return True


@dataclass(slots=True)
class CubicWindow(_Unpaced):
    """CUBIC of Hop links: all losses of one round trip shrink the window once."""

    options: FlowOptions
    congestion: Congestion = field(init=False)

    def __post_init__(self) -> None:
        self.congestion = Congestion(self.options.packet_bytes_min)

    @property
    def window_bytes(self) -> int:
        """How many bytes may be in flight."""
        return min(int(self.congestion.window_bytes), self.options.window_bytes_max)

    def acknowledged(self, packet: AckedPacket) -> None:
        """Grows while the window is used and below its limit."""
        trip, below = packet.round_trip, self.congestion.window_bytes < self.options.window_bytes_max
        if packet.used and below and trip.measured:
            times = trip.smoothed_us, trip.least_us, trip.last_us, packet.now_us
            self.congestion.delivered(packet.size_bytes, *times)

    def lost(self, packet: LostPacket) -> bool:
        """Shrinks the window if the packet was sent after the last decrease, and with each timer."""
        before = self.congestion.window_bytes
        if packet.by_timer:
            # Timers double, so that there is a round trip between two of them.
            self.congestion.recover_seq = packet.seq - 1
        self.congestion.lost(packet.seq, packet.highest_sent, packet.now_us)
        return self.congestion.window_bytes < before


@dataclass(slots=True)
class RateBucket:
    """A leaky bucket with a fixed rate, which ACKs and losses do not change; its window is the largest."""

    options: FlowOptions
    bucket: Bucket = field(init=False)

    def __post_init__(self) -> None:
        self.bucket = Bucket(self.options.rate_bytes_per_second, self.options.packet_bytes_max)

    @property
    def window_bytes(self) -> int:
        """The largest window: only the rate limits."""
        return self.options.window_bytes_max

    @property
    def ready_at_us(self) -> int:
        """When the bucket has credit again."""
        return self.bucket.ready_at_us

    def sent(self, size_bytes: int, now_us: int) -> None:
        """Takes the packet's credit, also of one that is sent again."""
        self.bucket.fill(now_us)
        self.bucket.spend(size_bytes)

    def acknowledged(self, packet: AckedPacket) -> None:
        """A packet is not in flight any more."""

    def lost(self, packet: LostPacket) -> bool:  # noqa: ARG002
        """A packet has to be sent again, and the rate stays."""
        return False


def policy_of(options: FlowOptions) -> WindowPolicy:
    """The policy that the options name."""
    if options.policy is FlowPolicy.RMP:
        return SlowStartWindow(options)
    return CubicWindow(options) if options.policy is FlowPolicy.CUBIC else RateBucket(options)
