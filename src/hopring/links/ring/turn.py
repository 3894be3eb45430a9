"""One visit's account: what is sent again, and what room that leaves for new packets."""

from typing import Final, final

from hopring.links.ring.options import (
    RingOptions,
    allowance_segments,
    loose_share_segments,
    unstable_room_segments,
    urgent_room_segments,
)
from hopring.links.ring.packing import Fill, Kind, Outbox, Packing
from hopring.links.ring.store import RingStore, expand
from hopring.value import Value
from hopring.wire.data import Data, Segment, segment_count
from hopring.wire.ring import Token


@final
class Turn(Value):
    """Fixed when the visit begins, so that `Release` is held to what `Visit` said."""

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
        self.others_segments: Final = others_segments  # What the other members sent in the last rotation.
        # What this member may send from one pass of the token to the next.
        self.window_segments: Final = window_segments
        self.copies: Final = copies  # The requested packets that are sent again.
        self.copies_segments: Final = copies_segments
        self.unanswered: Final = unanswered  # The requests that stay on the token.
        self.urgent_segments: Final = urgent_segments  # What urgent objects may use.
        self.new_segments: Final = new_segments  # What local and transit objects may use together.
        self.local_segments: Final = local_segments  # Of it, what transit leaves for local objects.
        # What transit may use if nothing local goes: more than new_segments for a long object.
        self.transit_segments: Final = transit_segments
        self.loose_segments: Final = loose_segments  # What Unreliable bundles may use whatever else goes.


def begin_turn(
    token: Token, members: int, sent_segments: int, kept_segments: int, store: RingStore, outbox: Outbox
) -> Turn:
    """Answers the token's requests first and shares out the rest of the window."""
    options = store.options
    others = max(0, token.flow_control - sent_segments)
    window = allowance_segments(options, members, others)
    wanted = expand(token.missing, store.discarded, token.link_seq)
    copies, copies_segments = _take_copies(wanted, store, window - kept_segments)
    unstable = token.link_seq - store.discarded
    room = max(0, window - kept_segments - copies_segments)
    new = min(room, unstable_room_segments(options, unstable, store.segments))
    transit, loose = _reserve(options, outbox, new, room, loose_share_segments(options, members))
    new = min(new, room - loose)
    return Turn(
        others_segments=others,
        window_segments=window,
        copies=copies,
        copies_segments=copies_segments,
        unanswered=wanted,
        urgent_segments=urgent_room_segments(options, unstable),
        new_segments=new,
        local_segments=max(0, new - transit),
        transit_segments=max(new, transit),
        loose_segments=loose,
    )


def _reserve(
    options: RingOptions, outbox: Outbox, new_segments: int, room_segments: int, loose_share: int
) -> tuple[int, int]:
    """What local objects leave of the window for transit, and what these two leave for Unreliable bundles.

    Transit has half of it, and Unreliable bundles their share, as far as they want it. Where that would be too
    little for a packet of some kind, the kinds take turns from visit to visit, and each uses what others leave.
    """
    chunk_bytes = options.chunk_bytes
    transit = -(-outbox.transit.total_bytes // chunk_bytes)
    loose = min(loose_share, -(-outbox.loose.size_bytes // chunk_bytes))
    if not transit and not loose:
        return 0, 0
    first_segments = outbox.transit.first_segments(chunk_bytes)
    least = max(options.packet_segments, first_segments) * (2 if transit else 1)
    if new_segments >= least and room_segments >= least + loose:
        return min(transit, (min(new_segments, room_segments - loose)) // 2), loose
    if new_segments < options.packet_segments:
        return 0, 0  # After retransmissions, or because too much is unstable.
    first = outbox.next_first()
    if first is Kind.TRANSIT:
        return max(first_segments, min(transit, new_segments)), 0
    return 0, min(loose, room_segments) if first is Kind.LOOSE else 0


def _take_copies(
    wanted: dict[int, int], store: RingStore, segments_max: int
) -> tuple[tuple[Data | Segment, ...], int]:
    """The packets asked for that are here, lowest first, as far as the window goes; takes them off `wanted`."""
    if not wanted:
        return (), 0
    copies: list[Data | Segment] = []
    total = 0
    for seq in sorted(wanted):
        if seq not in store.packets:
            continue
        frames = store.copies(seq, wanted[seq])
        segments = sum(segments_of(frame, store.options) for frame in frames)
        # A packet larger than those packed here goes alone.
        alone = not copies and segments > store.options.packet_segments <= segments_max
        if total + segments > segments_max and not alone:
            break
        copies.extend(frames)
        total += segments
        del wanted[seq]
    return tuple(copies), total


def segments_of(frame: Data | Segment, options: RingOptions) -> int:
    """What a frame counts in the windows."""
    return segment_count(len(frame.payload), options.chunk_bytes) if isinstance(frame, Data) else 1


def pack(options: RingOptions, turn: Turn, outbox: Outbox, local: tuple[bytes, ...]) -> Packing:
    """The visit's new packets: urgent objects, then local ones, then transit in what is left."""
    packing = Packing(Fill(options.packet_bytes, options.chunk_bytes))
    outbox.urgent.move_to(packing, max(turn.urgent_segments, _alone(options, turn, outbox)))
    # The windows are reckoned from an empty packet, and urgent objects are outside of them.
    packing.close()
    before = packing.segments
    for payload in local:
        packing.add(payload)
    outbox.transit.move_to(packing, before + (turn.new_segments if local else turn.transit_segments))
    packing.close()
    return packing


def _alone(options: RingOptions, turn: Turn, outbox: Outbox) -> int:
    """The segments of the first urgent object if it is larger than packets here, and there is room for one."""
    room = turn.urgent_segments >= options.packet_segments
    return outbox.urgent.first_segments(options.chunk_bytes) if room else 0
