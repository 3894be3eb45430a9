"""The plan of a visit: the packets that are sent again, and the segments that are left for new ones."""

from typing import Final, final

from hopring.links.ring.options import (
    RingOptions,
    allowance_segments,
    free_unstable_segments,
    free_urgent_segments,
    loose_share_segments,
)
from hopring.links.ring.packing import Fill, Kind, Outbox, Packing
from hopring.links.ring.store import RingStore, expand
from hopring.value import Value
from hopring.wire.data import Data, Segment, segment_count
from hopring.wire.ring import Token


@final
class VisitPlan(Value):
    """How many segments each kind of object may use in a visit; fixed when `Visit` is put out."""

    def __init__(
        self,
        others_segments: int,
        window_segments: int,
        copies: tuple[Data | Segment, ...],
        copies_segments: int,
        unanswered: dict[int, int],
        urgent_segments: int,
        new_segments: int,
        local_segments: int,
        transit_segments: int,
        loose_segments: int,
    ) -> None:
        self.others_segments: Final = others_segments  # Sent by the other members in the last rotation.
        # The limit of this member from one pass of the token to the next.
        self.window_segments: Final = window_segments
        self.copies: Final = copies  # Requested packets, sent again.
        self.copies_segments: Final = copies_segments
        self.unanswered: Final = unanswered  # Requests that stay on the token.
        self.urgent_segments: Final = urgent_segments  # For urgent objects.
        self.new_segments: Final = new_segments  # For local and transit objects together.
        self.local_segments: Final = local_segments  # Of new_segments, for local objects.
        # For transit if there are no local objects: more than new_segments for a long object.
        self.transit_segments: Final = transit_segments
        self.loose_segments: Final = loose_segments  # Reserved for Unreliable bundles.


def plan_visit(
    token: Token, members: int, sent_segments: int, kept_segments: int, store: RingStore, outbox: Outbox
) -> VisitPlan:
    """Answers the token's requests first and divides the rest of the window among the kinds of objects."""
    options = store.options
    others = max(0, token.flow_control - sent_segments)
    window = allowance_segments(options, members, others)
    wanted = expand(token.missing, store.discarded, token.link_seq)
    copies, copies_segments = _pop_copies(wanted, store, window - kept_segments)
    unstable = token.link_seq - store.discarded
    free = max(0, window - kept_segments - copies_segments)
    new = min(free, free_unstable_segments(options, unstable, store.segments))
    transit, loose = _reserve(options, outbox, new, free, loose_share_segments(options, members))
    new = min(new, free - loose)
    return VisitPlan(
        others_segments=others,
        window_segments=window,
        copies=copies,
        copies_segments=copies_segments,
        unanswered=wanted,
        urgent_segments=free_urgent_segments(options, unstable),
        new_segments=new,
        local_segments=max(0, new - transit),
        transit_segments=max(new, transit),
        loose_segments=loose,
    )


def _reserve(
    options: RingOptions, outbox: Outbox, new_segments: int, free_segments: int, loose_share: int
) -> tuple[int, int]:
    """The segments reserved for transit, and those reserved for Unreliable bundles.

    Transit gets half of the window and Unreliable bundles their share, as far as they need it. If that is too
    little for a packet of each kind, another kind goes first in each visit and the others use the rest.
    """
    chunk_bytes = options.chunk_bytes
    transit = -(-outbox.transit.total_bytes // chunk_bytes)
    loose = min(loose_share, -(-outbox.loose.size_bytes // chunk_bytes))
    if not transit and not loose:
        return 0, 0
    first_segments = outbox.transit.first_segments(chunk_bytes)
    least = max(options.packet_segments, first_segments) * (2 if transit else 1)
    if new_segments >= least and free_segments >= least + loose:
        return min(transit, (min(new_segments, free_segments - loose)) // 2), loose
    if new_segments < options.packet_segments:
        return 0, 0  # After retransmissions, or because too much is unstable.
    first = outbox.next_first()
    if first is Kind.TRANSIT:
        return max(first_segments, min(transit, new_segments)), 0
    return 0, min(loose, free_segments) if first is Kind.LOOSE else 0


def _pop_copies(
    wanted: dict[int, int], store: RingStore, segments_max: int
) -> tuple[tuple[Data | Segment, ...], int]:
    """The requested packets that are here, lowest first, within the window; they are removed from `wanted`."""
    if not wanted:
        return (), 0
    copies: list[Data | Segment] = []
    total = 0
    for seq in sorted(wanted):
        if seq not in store.packets:
            continue
        frames = store.copies(seq, wanted[seq])
        segments = sum(segments_of(frame, store.options) for frame in frames)
        # A packet larger than those that this member packs goes alone.
        alone = not copies and segments > store.options.packet_segments <= segments_max
        if total + segments > segments_max and not alone:
            break
        copies.extend(frames)
        total += segments
        del wanted[seq]
    return tuple(copies), total


def segments_of(frame: Data | Segment, options: RingOptions) -> int:
    """The segments that a frame counts in the windows."""
    return segment_count(len(frame.payload), options.chunk_bytes) if isinstance(frame, Data) else 1


def pack(options: RingOptions, plan: VisitPlan, outbox: Outbox, local: tuple[bytes, ...]) -> Packing:
    """The visit's new packets: urgent objects, then local ones, then transit in the rest of the window."""
    packing = Packing(Fill(options.packet_bytes, options.chunk_bytes))
    outbox.urgent.move_to(packing, max(plan.urgent_segments, _lone_urgent_segments(options, plan, outbox)))
    # The windows count from an empty packet, and urgent objects are outside of them.
    packing.close()
    before = packing.segments
    for payload in local:
        packing.add(payload)
    outbox.transit.move_to(packing, before + (plan.new_segments if local else plan.transit_segments))
    packing.close()
    return packing


def _lone_urgent_segments(options: RingOptions, plan: VisitPlan, outbox: Outbox) -> int:
    """The segments of the first urgent object, which may be longer than a packet; 0 if no packet fits."""
    fits = plan.urgent_segments >= options.packet_segments
    return outbox.urgent.first_segments(options.chunk_bytes) if fits else 0
