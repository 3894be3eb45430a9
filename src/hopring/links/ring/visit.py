"""The two halves of a token visit: what happens to the state before and after the layer above has the word."""

from hopring.ids import DaemonId
from hopring.links.ring.events import Release
from hopring.links.ring.state import Phase, RingState, Timers
from hopring.links.ring.store import collapse, want
from hopring.links.ring.token import next_token, usable
from hopring.links.ring.turn import Turn, begin_turn, pack
from hopring.wire.data import Data, Missing
from hopring.wire.ring import Token
from hopring.wire.unreliable import Loose


def begin_visit(s: RingState, members: int) -> Turn:
    """Takes the token in hand and fixes what this visit may send."""
    s.phase = Phase.VISITING
    s.timers = Timers()
    s.hurried = False
    s.turn = begin_turn(s.token, members, s.sent_segments, s.keeping.segments, s.store, s.outbox)
    s.resent_segments += s.turn.copies_segments
    return s.turn


def ask(s: RingState, turn: Turn) -> tuple[Missing, ...]:
    """The requests for the token: what others still want, and what this member lacks.

    Only packets up to the link_seq of the last visit are missing: later ones may just be on their way, and
    would be asked for in every rotation.
    """
    if s.store.aru >= s.passed.link_seq and not turn.unanswered:
        s.store.asked_visits.clear()
        return ()
    mine = s.store.missing(s.passed.link_seq)
    wanted = dict(turn.unanswered)
    for seq, segments in mine.items():
        want(wanted, seq, segments)
    requests = collapse(wanted, s.store.options.requests_max)
    last = requests[-1].seq + requests[-1].count - 1 if requests else s.store.aru
    s.store.count_asked([seq for seq in mine if seq <= last])
    return requests


def send(s: RingState, turn: Turn, objects: tuple[bytes, ...]) -> tuple[Data, ...]:
    """Packs what may go, numbers the packets and keeps them until all members have them."""
    if not objects and not s.outbox.waiting:
        s.sent_segments = turn.copies_segments
        return ()
    packing = pack(s.store.options, turn, s.outbox, objects)
    frames = tuple(Data(seq, payload) for seq, payload in enumerate(packing.packets, s.token.link_seq + 1))
    for frame in frames:
        s.store.keep(frame.seq, frame.payload)
    s.sent_segments = turn.copies_segments + packing.segments
    return frames


def send_loose(s: RingState, turn: Turn) -> tuple[Loose, ...]:
    """What waits of Unreliable bundles, behind all else: counted like it, and then forgotten."""
    room = max(turn.window_segments - s.sent_segments, turn.loose_segments)
    frames: list[Loose] = []
    while s.outbox.loose.objects and len(frames) < room:
        frames.append(s.outbox.loose.pack()[0])
    s.sent_segments += len(frames)
    return tuple(frames)


def keep_token(s: RingState, release: Release, packets: int, last_segments: int) -> None:
    """The token stays for another visit, with the numbers that were given; all else is written when it goes."""
    s.token = s.token.kept(s.token.link_seq + packets, release.site_seq, release.site_lts)
    s.keeping.segments += s.sent_segments
    s.sent_segments = last_segments  # What the token says of the last rotation.
    s.phase = Phase.HOLDING


def write_token(
    s: RingState, me: DaemonId, turn: Turn, release: Release, *, packets: int, missing: tuple[Missing, ...]
) -> Token:
    """The token as it leaves; then everything below the usable ARUs is known to be with all members."""
    token = next_token(
        s.token,
        me,
        release,
        link_seq=s.token.link_seq + packets,
        link_local=s.store.aru,
        flow_control=turn.others_segments + s.sent_segments,
        missing=missing,
        active=release.busy or s.hurried or s.outbox.waiting or s.sent_segments > 0,
    )
    s.store.discard(usable(token.link_aru, s.passed.link_aru))
    s.site_aru = max(s.site_aru, usable(token.site_aru, s.passed.site_aru))
    s.passed = token
    return token
