"""Ring: reliable multicast among the daemons of one site, by a rotating token.

Implements  Amir, Stanton (1998) 3.2 and figure 3.3; Stanton's thesis (2002) 4.1.
Below       datagrams to one member or to all, which may be lost, reordered or duplicated.
Above       ordering, which stamps during a visit; routing, which submits data from other sites. They get every
            packet of the others at once, in any order.
Invariants  only the token's holder numbers packets; a member stores each packet until all members have it; a
            payload is delivered at most once; no packet number is more than unstable_packets_max above the last
            packet that all members have; a visit sends at most the personal window, and urgent objects in a
            window of their own (options has the exceptions).
Deviations  tokens are numbered, and sent again until there is a sign that they arrived; the token is held at
            a member in the three cases below; each ARU has its own modifier (token.py); every member has a fair
            share of the global window (options.py); requests stay on the token until a member can answer them,
            and name segments where only some are missing; Unreliable bundles are sent with the token, without
            numbers. The reasons are in docs/protocols/ring.md.

The token, for one member, is in one of these states (`Phase` in state.py):

away        another member has it, or it is on its way.
visiting    it is here, and the layer above stamps: from `Visit` to `Release`.
held        it is here, between two visits or before one. It is held for one of three reasons:
            *idle*: at the representative, after two rotations in which no member had anything to do;
            *kept*: at a member that sent last, sent again, and may send more soon;
            *awaiting an answer*: at a member whose clients tend to answer a packet at once.

A member that needs a held token asks with HURRY. HELD says which member has it.
"""

from dataclasses import dataclass, field, replace
from typing import assert_never

from hopring.errors import Drop, PeerError
from hopring.ids import NEVER, NOBODY, NUMBER_MAX, DaemonId
from hopring.links.events import Deliver, LinkFailed, Submit, Tick, Transmit
from hopring.links.ring.events import FromMember, Passed, Release, RingFrame, TransmitTo, Visit, Wish
from hopring.links.ring.options import RingOptions
from hopring.links.ring.packing import VisitSpace
from hopring.links.ring.state import Phase, RingState, Timers, initial_state
from hopring.links.ring.token import (
    NO_LINES,
    MemberLines,
    check_token,
    idle_hold_us,
    may_be_idle,
    may_idle,
    next_lines,
)
from hopring.links.ring.visit import ask, begin_visit, keep_token, send, send_loose, write_token
from hopring.wire.data import SEGMENTS_MAX, Data, Segment
from hopring.wire.ring import Held, Hurry, Token

Input = FromMember | Submit | Wish | Release | Tick
Output = Transmit | TransmitTo | Deliver | Visit | Passed | LinkFailed


@dataclass(slots=True)
class Ring:
    """One member's end of the ring; `open_ring` makes it."""

    me: DaemonId
    members: tuple[DaemonId, ...]  # Sorted; the first is the representative.
    options: RingOptions
    state: RingState
    before: DaemonId = field(init=False)  # The member that the token comes from.
    after: DaemonId = field(init=False)  # The member that it is passed on to.

    def __post_init__(self) -> None:
        index = self.members.index(self.me)
        self.before = self.members[index - 1]
        self.after = self.members[(index + 1) % len(self.members)]

    @property
    def object_bytes_max(self) -> int:
        """The longest object that `Submit` and `Release` may bring."""
        return self.options.object_bytes_max

    @property
    def packet_bytes(self) -> int:
        """The size of packets that are packed here; local objects are cut to it, or they delay others."""
        return self.options.packet_bytes

    @property
    def transit_open(self) -> bool:
        """Whether `Submit` may bring another object that is not urgent."""
        return self.state.outbox.transit.total_bytes < self.options.queue_bytes_max

    @property
    def urgent_open(self) -> bool:
        """Whether `Submit` may bring another urgent object."""
        return self.state.outbox.urgent.total_bytes < self.options.queue_bytes_max

    def tune(self, personal_segments: int, global_segments: int, packet_segments: int = SEGMENTS_MAX) -> None:
        """Sets windows and the size of packets, from the next visit on; other members may have others."""
        options = replace(
            self.options,
            personal_window_segments=personal_segments,
            global_window_segments=global_segments,
            packet_segments_max=packet_segments,
        )
        self.options = self.state.store.options = options.among(len(self.members))

    @property
    def wake_at_us(self) -> int:
        """When the next `Tick` is due."""
        timers = self.state.timers
        wake_us = min(timers.hold_until_us, timers.resend_at_us)  # By twos: compiled, these are comparisons.
        wake_us = min(wake_us, timers.loss_at_us)
        return min(wake_us, timers.hurry_at_us)

    def step(self, event: Input, now_us: int) -> list[Output]:
        """Takes one event; returns frames to send, payloads, and the begin and end of visits."""
        if self.state.phase is Phase.FAILED:
            return []
        if isinstance(event, FromMember):
            return self._frame_received(event.sender, event.frame, now_us)
        if isinstance(event, Release):
            return self._release(event, now_us)
        if isinstance(event, Tick):
            return self._tick(now_us)
        if isinstance(event, Wish):
            return self._want_token(now_us)
        if isinstance(event, Submit):
            return self._submit(event, now_us)
        assert_never(event)

    def _frame_received(self, sender: DaemonId, frame: RingFrame, now_us: int) -> list[Output]:
        if sender not in self.members:
            raise PeerError(Drop.FOREIGN_SENDER, f"daemon {sender} is no member of this ring")
        if sender == self.me:
            return []  # A multicast packet also comes back to its sender.
        if isinstance(frame, Token):
            return self._token_received(sender, frame, now_us)
        if isinstance(frame, (Data, Segment)):
            return self._packet_received(frame, now_us)
        if isinstance(frame, Hurry):
            return self._hurry_received()
        if isinstance(frame, Held):
            return self._held_received(sender, frame.number, now_us)
        assert_never(frame)

    # Packets.

    def _packet_received(self, frame: Data | Segment, now_us: int) -> list[Output]:
        s = self.state
        payload = s.store.receive(frame)
        if payload is not None:
            s.answers.note_packet(now_us)
        if frame.seq > s.passed.link_seq:
            s.timers.resend_at_us = NEVER  # A later holder of the token numbered it, so the token has arrived.
        return [] if payload is None else [Deliver(payload)]

    def _submit(self, submit: Submit, now_us: int) -> list[Output]:
        s = self.state
        if submit.loose:
            if len(self.members) > 1:
                s.outbox.loose.put(submit.payload)
            return self._want_token(now_us)
        queue = s.outbox.urgent if submit.urgent else s.outbox.transit
        assert len(submit.payload) <= self.object_bytes_max, "cut objects to object_bytes_max"
        assert queue.total_bytes < self.options.queue_bytes_max, (
            "look at transit_open or urgent_open before Submit"
        )
        if len(self.members) == 1:
            return []  # There is no other member.
        queue.put(submit.payload)
        return self._want_token(now_us)

    # The token.

    def _token_received(self, sender: DaemonId, token: Token, now_us: int) -> list[Output]:
        s = self.state
        count = len(self.members)
        if token.number < s.expected:
            # The member before us sends a token again that we have had: it has to be told so.
            seen = sender == self.before and token.number == s.expected - count
            return [TransmitTo(sender, (Held(token.number),))] if seen else []
        if token.number > s.expected or sender != self.before:
            raise PeerError(Drop.INCONSISTENT, f"token {token.number} from daemon {sender}, not {s.expected}")
        check_token(token, self.members, s.passed, s.store)
        s.expected = token.number + count
        s.token = token
        s.keeping.came_at_us = now_us
        if token.quiet < count:
            s.idle_from_us = now_us + self.options.free_rotation_us
        if self._may_idle(now_us):
            return self._hold_idle(now_us)
        return self._await_answer() if self._may_await_answer(now_us) else self._visit()

    def _may_await_answer(self, now_us: int) -> bool:
        """Whether a client here is likely to answer the last packet, and no member needs the token."""
        s = self.state
        if s.hurried or s.token.missing or s.store.gap or s.outbox.waiting or s.outbox.loose.objects:
            return False
        alternating = s.token.link_seq == s.keeping.last_seq + 1  # One packet was sent since our last one.
        return alternating and s.answers.likely(now_us, self.options.answer_us)

    def _await_answer(self) -> list[Output]:
        """Holds the token, without HELD: it is passed on before another member could ask for it."""
        s = self.state
        s.phase = Phase.HELD
        s.answers.awaited = True
        s.timers = Timers(hold_until_us=s.answers.heard_at_us + self.options.answer_us)
        return []

    def _may_idle(self, now_us: int) -> bool:
        s = self.state
        quiet = may_idle(s.token.quiet, len(self.members)) and now_us >= s.idle_from_us
        return quiet and not s.hurried and self.me == self.members[0]

    def _hold_idle(self, now_us: int) -> list[Output]:
        s = self.state
        s.phase = Phase.HELD
        hold_us = idle_hold_us(self.options.hold_us, self.options.hold_us_max, s.token.quiet, len(self.members))
        s.timers = Timers(hold_until_us=now_us + hold_us)
        # All are told: otherwise the member before would send the token again and have to be answered.
        return [Transmit((Held(s.token.number),))]

    def _held_received(self, sender: DaemonId, number: int, now_us: int) -> list[Output]:
        s = self.state
        if number >= s.expected:
            raise PeerError(Drop.INCONSISTENT, f"HELD {number}, but token {s.expected} comes here first")
        if number >= s.passed.number:
            s.timers.resend_at_us = NEVER
            s.keeping.held_by = sender
            not_asked = s.phase is Phase.AWAY and s.timers.hurry_at_us == NEVER
            if not_asked and (s.hurried or s.store.gap):
                s.timers.hurry_at_us = now_us
        return []

    def _want_token(self, now_us: int) -> list[Output]:
        """Notes that this member needs the token; the next tick asks for it if another member may hold it."""
        s = self.state
        s.hurried = True
        s.answers.note_wish(now_us, self.options.answer_us)
        if s.phase is Phase.HELD:
            s.timers.hold_until_us = min(s.timers.hold_until_us, now_us)
        elif s.phase is Phase.AWAY and s.timers.hurry_at_us == NEVER and self._held_elsewhere():
            s.timers.hurry_at_us = now_us
        return []

    def _held_elsewhere(self) -> bool:
        return self.state.keeping.held_by != NOBODY or self._may_be_idle

    def _holders(self) -> list[DaemonId]:
        """The members that may hold the token. A HELD may only have said that a token had arrived."""
        held_by, representative = self.state.keeping.held_by, self.members[0]
        known = [] if held_by == NOBODY else [held_by]
        return [*known, representative] if self._may_be_idle and held_by != representative else known

    @property
    def _may_be_idle(self) -> bool:
        """Whether the token may be idle at the representative."""
        index = self.members.index(self.me)
        return index > 0 and may_be_idle(self.state.passed.quiet, index, len(self.members))

    def _hurry_received(self) -> list[Output]:
        self.state.hurried = self.state.keeping.asked = True
        self.state.answers.awaited = False  # Whether the answer would have come is unknown now.
        return self._visit() if self.state.phase is Phase.HELD else []

    def _tick(self, now_us: int) -> list[Output]:
        timers = self.state.timers
        out: list[Output] = []
        if now_us - timers.loss_at_us > self.options.token_loss_us // 4:
            # The tick itself is late: this daemon was asleep, and must not blame the others for it.
            timers.loss_at_us = now_us + self.options.token_loss_us // 2
        elif now_us >= timers.loss_at_us:
            silence_us = self.options.token_loss_us
            return self._fail(f"no token for {silence_us // 1_000} ms", True, silence_us)
        if now_us >= timers.resend_at_us:
            timers.resend_at_us = now_us + self.options.token_resend_us
            out.append(TransmitTo(self.after, (self.state.passed,)))
        if now_us >= timers.hurry_at_us:
            timers.hurry_at_us = now_us + self.options.hurry_resend_us
            out += [TransmitTo(member, (Hurry(),)) for member in self._holders()]
        if now_us >= timers.hold_until_us:
            self.state.answers.note_hold_over()
            out += self._visit()
        return out

    def _fail(self, reason: str, absence: bool = False, silence_us: int = 0) -> list[Output]:
        self.state.phase = Phase.FAILED
        self.state.unanswered = self.state.timers.resend_at_us < NEVER
        self.state.timers = Timers()
        return [LinkFailed(reason, absence, silence_us)]

    @property
    def suspect(self) -> DaemonId | None:
        """Of a failed ring: the next member, if the failure may be that it does not hear us or is not heard."""
        return self.after if self.state.unanswered else None

    # The two halves of a visit.

    def _visit(self) -> list[Output]:
        s = self.state
        plan = begin_visit(s, len(self.members))
        visit = Visit(s.token.number, s.token.site_seq, s.token.site_lts, s.site_aru, plan.local_segments)
        return [Transmit(plan.copies), visit] if plan.copies else [visit]

    def _release(self, release: Release, now_us: int) -> list[Output]:
        s = self.state
        plan = s.plan
        assert plan is not None, "a Release answers a Visit"
        assert release.site_seq >= s.token.site_seq, "site_seq only grows"
        assert release.site_lts >= s.token.site_lts, "site_lts only grows"
        space = VisitSpace(plan.local_segments, self.options.packet_bytes, self.options.chunk_bytes)
        for payload in release.objects:
            assert len(payload) <= self.object_bytes_max, "cut objects first"
            assert space.reserve(len(payload), len(payload)), (
                "reserve space in the visit before an object is added"
            )
        s.plan = None
        if s.token.link_seq > NUMBER_MAX:
            return self._fail("no packet numbers are left")
        lines = self._lines(release)
        missing = ask(s, plan, lines)
        if s.store.asked_visits_most > self.options.asked_visits_max:
            failed = self._fail(f"packet {s.store.aru + 1} does not come")
            s.unanswered = True  # The next member answers requests first, and may be the one we do not hear.
            return failed
        wanted = bool(missing or plan.copies or s.outbox.waiting)  # Others need the token, or we do for them.
        last_segments = s.sent_segments
        frames = send(s, plan, release.objects) if len(self.members) > 1 else ()
        sends_again = bool(frames) and s.keeping.note_sent(s.token.link_seq, len(frames))
        if sends_again and not wanted and self._may_keep(release, now_us):
            keep_token(s, release, len(frames), last_segments)
            s.timers = Timers(hold_until_us=now_us + min(self.options.keep_us, self.options.keep_limit_us))
            return [Transmit((*frames, Held(s.token.number)))]
        s.sent_segments += s.keeping.note_passed()
        loose = send_loose(s, plan) if s.outbox.loose.objects else ()
        token = write_token(s, self.me, plan, release, packets=len(frames), missing=missing, lines=lines)
        out: list[Output] = [Transmit((*frames, *loose))] if frames or loose else []
        return [*out, *self._pass(token, now_us), Passed(token.number, s.site_aru, token.lines)]

    def _lines(self, release: Release) -> MemberLines:
        """The lines of the members to write; none if the ring has more members than a token has room for."""
        members = len(self.members)
        if not (release.resilient_lts or self.state.token.lines) or self.options.requests_beside(members) < 1:
            return NO_LINES
        s, place = self.state, self.members.index(self.me)
        return next_lines(s.token, release, place, members, s.site_aru)

    def _may_keep(self, release: Release, now_us: int) -> bool:
        s = self.state
        if release.busy or release.waits_for_holders or s.outbox.loose.objects:
            return False
        return s.keeping.may_keep(s.sent_segments, now_us, self.options.keep_limit_us)

    def _pass(self, token: Token, now_us: int) -> list[Output]:
        s = self.state
        options = self.options
        if len(self.members) == 1:
            s.token = token
            s.phase = Phase.HELD
            idle = may_idle(token.quiet, 1)
            s.timers = Timers(hold_until_us=NEVER if idle else now_us + options.lone_visit_us)
            return []
        s.phase = Phase.AWAY
        s.timers = Timers(
            resend_at_us=now_us + options.token_resend_us, loss_at_us=now_us + options.token_loss_us
        )
        return [TransmitTo(self.after, (token,))]


def open_ring(
    me: DaemonId, members: tuple[DaemonId, ...], options: RingOptions, initial_seq: int, now_us: int
) -> Ring:
    """A member's end of a new ring; packets are numbered from initial_seq + 1 at all members."""
    assert me in members, "a member opens its ring"
    assert members == tuple(sorted(set(members))), "members are sorted"
    options = options.among(len(members))
    return Ring(
        me, members, options, initial_state(options, members.index(me), len(members), initial_seq, now_us)
    )
