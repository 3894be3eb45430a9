"""One visit's account: what is sent again, and what room that leaves for new packets."""

from hopring.links.ring_options import RingOptions
from hopring.links.ring_packing import Outbox, Packing
from hopring.links.ring_requests import expand
from hopring.links.ring_store import RingStore
from hopring.links.ring_window import (
    allowance_segments,
    room_bytes,
    unstable_room_segments,
    urgent_room_segments,
)
from hopring.value import Value
from hopring.wire.data import Data, Segment, segment_count
from hopring.wire.ring import Token


class Turn(Value, frozen=True):
    """Fixed when the visit begins, so that `Release` is held to what `Visit` said."""

    others_segments: int  # What the other members sent in the last rotation.
    copies: tuple[Data | Segment, ...]  # The requested packets that are sent again.
    copies_segments: int
    unanswered: dict[int, int]  # The requests that stay on the token.
    urgent_segments: int  # What urgent objects may use.
    new_segments: int  # What local and transit objects may use together.
    room_bytes: int  # What is sure to be left for local objects.


def begin_turn(
    token: Token, members: int, sent_segments: int, kept_segments: int, store: RingStore, outbox: Outbox
) -> Turn:
    """Answers the token's requests first and shares out the rest of the window.

    Transit and local objects each have half of it if they want it, and what the other leaves.
    """
    options = store.options
    others = max(0, token.flow_control - sent_segments)
    allowance = allowance_segments(options, members, others) - kept_segments
    wanted = expand(token.missing, store.discarded, token.link_seq)
    copies, copies_segments = _take_copies(wanted, store, allowance)
    unstable = token.link_seq - store.discarded
    new = min(max(0, allowance - copies_segments), unstable_room_segments(options, unstable, store.segments))
    waiting = -(-outbox.transit.total_bytes // options.chunk_bytes)
    return Turn(
        others_segments=others,
        copies=copies,
        copies_segments=copies_segments,
        unanswered=wanted,
        urgent_segments=urgent_room_segments(options, unstable),
        new_segments=new,
        room_bytes=room_bytes(options, new - min(waiting, new // 2)),
    )


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
        if total + segments > segments_max:
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
    packing = Packing(options.packet_bytes, options.chunk_bytes)
    outbox.urgent.move_to(packing, turn.urgent_segments)
    # The windows are reckoned from an empty packet, and urgent objects are outside of them.
    packing.close()
    segments_max = packing.segments + turn.new_segments
    for payload in local:
        packing.add(payload)
    assert packing.segments <= segments_max, "what fits in room_bytes fits in the window"
    outbox.transit.move_to(packing, segments_max)
    packing.close()
    return packing
