"""The two halves of a token visit: the changes of state before and after the layer above stamps."""

from hopring.ids import DaemonId
from hopring.links.ring.events import Release
from hopring.links.ring.plan import VisitPlan, pack, plan_visit
from hopring.links.ring.state import Phase, RingState, Timers
from hopring.links.ring.store import collapse, want
from hopring.links.ring.token import MemberLines, next_token, usable
from hopring.wire.data import Data, Missing
from hopring.wire.ring import Token
from hopring.wire.unreliable import Loose


def begin_visit(s: RingState, members: int) -> VisitPlan:
    """Begins a visit and fixes how much it may send."""
    s.phase = Phase.VISITING
    s.timers = Timers()
    s.hurried = False
    s.plan = plan_visit(s.token, members, s.sent_segments, s.keeping.segments, s.store, s.outbox)
    s.resent_segments += s.plan.copies_segments
    return s.plan


def ask(s: RingState, plan: VisitPlan, lines: MemberLines) -> tuple[Missing, ...]:
    """The requests to write on the token: unanswered ones of others, and the packets that this member lacks.

    Only packets up to the link_seq of the last visit are missing: later ones may just be on their way, and
    would be asked for in every rotation.
    """
    if s.store.aru >= s.passed.link_seq and not plan.unanswered:
        s.store.asked_visits.clear()
        return ()
    mine = s.store.missing(s.passed.link_seq)
    wanted = dict(plan.unanswered)
    for seq, segments in mine.items():
        want(wanted, seq, segments)
    requests = collapse(wanted, s.store.options.requests_beside(len(lines.lines)))
    last = requests[-1].seq + requests[-1].count - 1 if requests else s.store.aru
    s.store.count_asked([seq for seq in mine if seq <= last])
    return requests


def send(s: RingState, plan: VisitPlan, objects: tuple[bytes, ...]) -> tuple[Data, ...]:
    """Packs and numbers objects within the plan, and stores the packets until all members have them."""
    if not objects and not s.outbox.waiting:
        s.sent_segments = plan.copies_segments
        return ()
    packing = pack(s.store.options, plan, s.outbox, objects)
    frames = tuple(Data(seq, payload) for seq, payload in enumerate(packing.packets, s.token.link_seq + 1))
    for frame in frames:
        s.store.keep(frame.seq, frame.payload)
    s.sent_segments = plan.copies_segments + packing.segments
    return frames


def send_loose(s: RingState, plan: VisitPlan) -> tuple[Loose, ...]:
    """Packs objects of Unreliable bundles; they come last, count in the window, and are not stored."""
    frames_max = max(plan.window_segments - s.sent_segments, plan.loose_segments)
    frames: list[Loose] = []
    while s.outbox.loose.objects and len(frames) < frames_max:
        frames.append(s.outbox.loose.pack()[0])
    s.sent_segments += len(frames)
    return tuple(frames)


def keep_token(s: RingState, release: Release, packets: int, last_segments: int) -> None:
    """Keeps the token for another visit. It has the new numbers; all else is written when it is passed on."""
    s.token = s.token.with_numbers(s.token.link_seq + packets, release.site_seq, release.site_lts)
    s.keeping.segments += s.sent_segments
    s.sent_segments = last_segments  # This member's part of the flow_control that is on the token.
    s.phase = Phase.HELD


def write_token(
    s: RingState,
    me: DaemonId,
    plan: VisitPlan,
    release: Release,
    *,
    packets: int,
    missing: tuple[Missing, ...],
    lines: MemberLines,
) -> Token:
    """The token to pass on. All members have everything up to the usable ARUs, so that is discarded."""
    token = next_token(
        s.token,
        me,
        release,
        link_seq=s.token.link_seq + packets,
        link_local=s.store.aru,
        flow_control=plan.others_segments + s.sent_segments,
        missing=missing,
        active=release.busy or s.hurried or s.outbox.waiting or s.sent_segments > 0,
        lines=lines,
    )
    s.store.discard(usable(token.link_aru, s.passed.link_aru))
    s.site_aru = max(s.site_aru, usable(token.site_aru, s.passed.site_aru))
    s.passed = token
    return token
