"""The options of a ring, and its flow control: how much a member may send in one visit.

Options are the same at all members, but for the windows and the size of packets.

Implements  Amir, Stanton (1998) 3.2, flow control by the token, counted in segments.
Deviation   a member is always entitled to its equal share of the global window. With the papers' rule
            alone, members that fill the window first keep all of it, and others starve. Until the first ones
            have seen that another member sends, a rotation may carry up to twice the global window.
            A global window of fewer segments than members lets each member send one segment.
Invariants  a visit sends at most its allowance, which is at least one packet and never above the personal
            window. Packets are no larger than the windows, so one always fits. The exceptions: urgent objects
            have a window of their own, and an object that was cut elsewhere for larger packets goes alone.
"""

from dataclasses import dataclass, field, replace

from hopring.wire.data import (
    MISSING_BYTES,
    MISSING_MAX,
    SEGMENT_BYTES_DEFAULT,
    SEGMENTS_MAX,
    chunk_bytes_of,
    datagrams_max_of,
    packet_bytes_of,
)
from hopring.wire.header import FRAME_HEAD_BYTES, HEAD_BYTES
from hopring.wire.ring import TOKEN_BYTES, lines_bytes_of

LOOSE_SHARE = 8
"""Unreliable bundles may use this part of a member's share of the global window in any case; a divisor."""

VISIT_SEGMENTS_BELIEVED_MAX = 2_000_000
"""The most segments that a member may claim to have sent in one visit. It does not depend on the windows here,
because windows are changed at run time, at one member after the other."""


@dataclass(frozen=True, slots=True)
class RingOptions:
    """Options of a ring. Windows count segments, because segments fill the receivers' socket buffers."""

    segment_bytes: int = SEGMENT_BYTES_DEFAULT
    packet_segments_max: int = SEGMENTS_MAX  # Of a packet packed here; a window below it makes packets smaller.

    personal_window_segments: int = 512  # One member in one visit, retransmissions included.
    global_window_segments: int = 1024  # All members in one rotation: 1.4 MB, well below a receive buffer.
    urgent_window_segments: int = 92  # Urgent objects in one visit, on top of the other windows.
    # Stored because some member may lack them; above this, a member sends no new ones.
    unstable_segments_max: int = 8192
    # How far a packet number may be above the last packet that all members have.
    unstable_packets_max: int = 1024
    urgent_packets_reserve: int = 64  # Of unstable_packets_max, the part that only urgent objects may use.
    queue_bytes_max: int = 8 * 2**20  # Submitted and not sent, for urgent objects and for others each.
    loose_bytes_max: int = 4 * 2**20  # Of Unreliable bundles; beyond it, the oldest are dropped.
    asked_visits_max: int = 100  # The ring fails if a packet is requested in more visits than this.

    token_resend_us: int = 10_000
    token_loss_us: int = 300_000
    # How long an idle token is held. A held token looks like a lost one to the others, so this is well below
    # the loss limit: there has to be time for a rotation, and for several tokens that are lost and sent again.
    hold_us: int = 50_000
    # While nothing happens the hold grows up to this; if it is less than hold_us, it does not.
    hold_us_max: int = 0
    hurry_resend_us: int = 5_000
    # For this long after traffic the token does not become idle: more is likely to come.
    free_rotation_us: int = 1_000
    keep_us: int = 1_000  # How long a sender keeps the token after a packet, unless another member asks for it.
    keep_us_max: int = 5_000  # How long it may keep the token altogether; 0: it does not keep it.
    answer_us: int = 500  # How long after a packet of another member an answer is awaited; 0: not at all.
    lone_visit_us: int = 250  # Between two visits in a ring of one member, until it is idle.

    chunk_bytes: int = field(init=False)  # The bytes of a packet in one segment.
    packet_segments: int = field(init=False)  # Of the largest packet that is packed here.
    packet_bytes: int = field(
        init=False
    )  # Of the largest packet that is packed here; local objects are cut to it.
    object_bytes_max: int = field(init=False)  # The largest packet of any member, and so the longest object.

    def __post_init__(self) -> None:
        # Computed once, because every visit reads them; the dataclass is frozen, so they are set this way.
        object.__setattr__(self, "chunk_bytes", chunk_bytes_of(self.segment_bytes))
        packet_segments = min(
            self.packet_segments_max,
            self.personal_window_segments,
            self.global_window_segments,
            datagrams_max_of(self.segment_bytes),
        )
        object.__setattr__(self, "packet_segments", packet_segments)
        object.__setattr__(self, "packet_bytes", packet_segments * self.chunk_bytes)
        object.__setattr__(self, "object_bytes_max", packet_bytes_of(self.segment_bytes))
        assert self.packet_segments_max > 0
        assert self.requests_max > 0, "a token with one request must fit in a datagram"
        assert self.personal_window_segments > 0
        assert self.global_window_segments > 0
        assert self.urgent_window_segments >= self.packet_segments, "one packet has to pass every window"
        assert self.unstable_packets_max <= 0xFFFF, "one request on the token counts to 16 bits"
        assert self.urgent_packets_reserve >= 3, "the reserve holds an urgent packet"
        assert self.unstable_packets_max - self.urgent_packets_reserve >= 5, "a packet of each other kind fits"
        assert 0 < self.token_resend_us < self.token_loss_us
        assert 2 * max(self.hold_us, self.hold_us_max) <= self.token_loss_us, (
            "a held token must not look like a lost one"
        )

    def among(self, members: int) -> "RingOptions":
        """The options for a ring of this many members: no packet is larger than a member's share."""
        share = share_segments(self.global_window_segments, members)
        return replace(self, packet_segments_max=min(self.packet_segments_max, share))

    @property
    def keep_limit_us(self) -> int:
        """How long a token may be kept altogether; bounded, because to the others it looks like a lost one."""
        return min(self.keep_us_max, self.token_loss_us // 4)

    @property
    def requests_max(self) -> int:
        """How many requests a token carries: it has to fit in one datagram."""
        return self.requests_beside(0)

    def requests_beside(self, lines: int) -> int:
        """How many requests a token carries beside the lines of this many members; below 1 they do not fit."""
        lines_bytes = lines_bytes_of(lines) if lines else 0
        free_bytes = self.segment_bytes - HEAD_BYTES - FRAME_HEAD_BYTES - TOKEN_BYTES - lines_bytes
        return min(MISSING_MAX, free_bytes // MISSING_BYTES)


def share_segments(global_window_segments: int, members: int) -> int:
    """The segments that each member may always send: an equal part of the global window, at least one."""
    return max(1, global_window_segments // members)


def allowance_segments(options: RingOptions, members: int, others_segments: int) -> int:
    """The segments that a member may send in a visit; `others_segments` were sent in the last rotation."""
    share = share_segments(options.global_window_segments, members)
    free = max(options.global_window_segments - others_segments, share)
    return min(options.personal_window_segments, free)


def loose_share_segments(options: RingOptions, members: int) -> int:
    """The datagrams of Unreliable bundles that may always be sent in a visit."""
    return max(1, share_segments(options.global_window_segments, members) // LOOSE_SHARE)


def free_unstable_segments(options: RingOptions, unstable_packets: int, unstable_segments: int) -> int:
    """The segments of new packets that the limits of unstable packets allow."""
    if unstable_segments >= options.unstable_segments_max:
        return 0
    packets = options.unstable_packets_max - options.urgent_packets_reserve - unstable_packets
    segments = _segments_sure_to_fit(options, packets)
    # With less than a packet of each kind, small objects would always fit and large ones starve.
    return segments if segments >= 2 * options.packet_segments else 0


def free_urgent_segments(options: RingOptions, unstable_packets: int) -> int:
    """The segments of urgent objects that a visit may send."""
    packets = min(options.urgent_packets_reserve, options.unstable_packets_max - unstable_packets)
    return min(options.urgent_window_segments, _segments_sure_to_fit(options, packets))


def _segments_sure_to_fit(options: RingOptions, packets: int) -> int:
    """The number of segments that never need more than this many packets.

    Packets are filled in order, so two consecutive ones together hold more than a full one: k packets hold more
    than (k - 1) / 2 full ones.
    """
    return max(0, (packets - 1) * options.packet_segments // 2)
