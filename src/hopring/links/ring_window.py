"""Ring flow control: how much a member may send in one visit.

Implements  Amir, Stanton (1998) 3.2, flow control by the token, counted in segments.
Deviation   a member is always entitled to its equal share of the global window. The papers' rule alone keeps
            any division that fills the window: whoever came first has all of it, and late comers starve.
            Until the first comers have seen the claim, a rotation may carry up to twice the global window.
            A global window of fewer segments than members lets each member send one segment.
Invariants  a visit sends at most its allowance, which is at least one packet and never above the personal
            window. Packets are no larger than the windows (ring_options), so one always passes. The exceptions:
            urgent objects have a window of their own, and an object that was cut elsewhere for larger packets
            goes alone in a visit.
"""

from hopring.links.ring_options import RingOptions, share_segments

LOOSE_SHARE = 8
"""The part of a member's share of the global window that Unreliable bundles have in any case, as a divisor."""

VISIT_SEGMENTS_BELIEVED_MAX = 2_000_000
"""Most that a member may say it sent in one visit. Windows are changed at run time, at one member after the
other, so what others send is not judged by the windows here."""


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
