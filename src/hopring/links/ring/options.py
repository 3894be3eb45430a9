"""The options of a ring, and its flow control: how much a member may send in one visit.

Options are the same at all members, but for the windows and the size of packets.

Implements  Amir, Stanton (1998) 3.2, flow control by the token, counted in segments.
Deviation   a member is always entitled to its equal share of the global window. The papers' rule alone keeps
            any division that fills the window: whoever came first has all of it, and late comers starve.
            Until the first comers have seen the claim, a rotation may carry up to twice the global window.
            A global window of fewer segments than members lets each member send one segment.
Invariants  a visit sends at most its allowance, which is at least one packet and never above the personal
            window. Packets are no larger than the windows, so one always passes. The exceptions: urgent objects
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
from hopring.wire.ring import TOKEN_BYTES

LOOSE_SHARE = 8
"""The part of a member's share of the global window that Unreliable bundles have in any case, as a divisor."""

VISIT_SEGMENTS_BELIEVED_MAX = 2_000_000
"""Most that a member may say it sent in one visit. Windows are changed at run time, at one member after the
other, so what others send is not judged by the windows here."""


@dataclass(frozen=True, slots=True)
class RingOptions:
    """Windows count segments, because that is what fills the receivers' socket buffers."""

    segment_bytes: int = SEGMENT_BYTES_DEFAULT
    packet_segments_max: int = SEGMENTS_MAX  # Of a packet packed here; a window below it makes packets smaller.

    personal_window_segments: int = 512  # One member in one visit, retransmissions included.
    global_window_segments: int = 1024  # All members in one rotation: 1.4 MB, well below a receive buffer.
    urgent_window_segments: int = 92  # Urgent objects in one visit, on top of the other windows.
    unstable_segments_max: int = 8192  # Kept because some member may lack them; a member above it is silent.
    unstable_packets_max: int = 1024  # How far a packet may be ahead of what all members have.
    urgent_packets_reserve: int = 64  # The part of it that only urgent objects may use.
    queue_bytes_max: int = 8 * 2**20  # Submitted and not yet sent, urgent ones and others each.
    loose_bytes_max: int = 4 * 2**20  # Of Unreliable bundles; beyond it, the oldest are dropped.
    asked_visits_max: int = 100  # A packet asked for in more visits than these fails the ring.

    token_resend_us: int = 10_000
    token_loss_us: int = 300_000
    # A held token looks like a lost one to the others, so the hold must be well below the loss limit: there
    # has to be time for the heartbeat's rotation and for several tokens lost and sent again.
    hold_us: int = 50_000
    rest_us_max: int = 0  # The hold grows up to this while nothing happens; if it is less, it does not grow.
    hurry_resend_us: int = 5_000
    free_rotation_us: int = 1_000  # After traffic the token keeps going for so long: more is likely to come.
    keep_us: int = 1_000  # So long who has sent keeps the token for more, if nobody asks for it;
    kept_us_max: int = 5_000  # and so long altogether. 0: it goes on at once.
    answer_us: int = 500  # So long after a packet of another who tends to answer waits for that; 0: never.
    lone_visit_us: int = 250  # Between the visits of a ring of one that has something left to settle.

    chunk_bytes: int = field(init=False)  # What one segment carries of a packet.
    packet_segments: int = field(init=False)  # The segments of the largest packet that is packed here,
    packet_bytes: int = field(init=False)  # and its bytes; local objects are cut to this size.
    object_bytes_max: int = field(init=False)  # The largest packet of any member, and so the longest object.

    def __post_init__(self) -> None:
        # Looked at in every visit, so computed once; the value is frozen all the same.
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
        assert self.requests_max > 0, "a datagram has to hold a token with a request"
        assert self.personal_window_segments > 0
        assert self.global_window_segments > 0
        assert self.urgent_window_segments >= self.packet_segments, "one packet has to pass every window"
        assert self.unstable_packets_max <= 0xFFFF, "one request on the token counts to 16 bits"
        assert self.urgent_packets_reserve >= 3, "room for an urgent packet"
        assert self.unstable_packets_max - self.urgent_packets_reserve >= 5, "room for one of each other kind"
        assert 0 < self.token_resend_us < self.token_loss_us
        assert 2 * max(self.hold_us, self.rest_us_max) <= self.token_loss_us, (
            "a held token must not look like a lost one"
        )

    def among(self, members: int) -> "RingOptions":
        """The options in a ring of so many members, where no packet is larger than a member's share."""
        share = share_segments(self.global_window_segments, members)
        return replace(self, packet_segments_max=min(self.packet_segments_max, share))

    @property
    def kept_limit_us(self) -> int:
        """How long a token may be kept altogether: to the others it looks like a lost one."""
        return min(self.kept_us_max, self.token_loss_us // 4)

    @property
    def requests_max(self) -> int:
        """How many requests a token carries: it has to fit in one datagram."""
        room_bytes = self.segment_bytes - HEAD_BYTES - FRAME_HEAD_BYTES - TOKEN_BYTES
        return min(MISSING_MAX, room_bytes // MISSING_BYTES)


def share_segments(global_window_segments: int, members: int) -> int:
    """What each member may send in any case: an equal part of the global window, or one segment."""
    return max(1, global_window_segments // members)


def allowance_segments(options: RingOptions, members: int, others_segments: int) -> int:
    """What a member may send in a visit if the others sent so much in the last rotation."""
    share = share_segments(options.global_window_segments, members)
    room = max(options.global_window_segments - others_segments, share)
    return min(options.personal_window_segments, room)


def loose_share_segments(options: RingOptions, members: int) -> int:
    """How many datagrams of Unreliable bundles have a place in each visit, if so many wait."""
    return max(1, share_segments(options.global_window_segments, members) // LOOSE_SHARE)


def unstable_room_segments(options: RingOptions, unstable_packets: int, unstable_segments: int) -> int:
    """How many segments of new packets stay inside the limits of what some member may lack."""
    if unstable_segments >= options.unstable_segments_max:
        return 0
    packets = options.unstable_packets_max - options.urgent_packets_reserve - unstable_packets
    segments = _segments_sure_to_fit(options, packets)
    # Less than a packet of each kind would let small objects pass and big ones starve.
    return segments if segments >= 2 * options.packet_segments else 0


def urgent_room_segments(options: RingOptions, unstable_packets: int) -> int:
    """How many segments of urgent objects may go in a visit, whatever else goes."""
    packets = min(options.urgent_packets_reserve, options.unstable_packets_max - unstable_packets)
    return min(options.urgent_window_segments, _segments_sure_to_fit(options, packets))


def _segments_sure_to_fit(options: RingOptions, packets: int) -> int:
    """How many segments never take more packets than these.

    Packets are filled in order, so two neighbours together hold more than a full one: all k packets hold more
    than (k - 1) / 2 full ones.
    """
    return max(0, (packets - 1) * options.packet_segments // 2)
