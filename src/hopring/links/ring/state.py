"""The state of a ring's member, and two policies by which a busy member holds the token for a moment.

Kept (`Keeping`): a member that was the last to send, and sends again, is likely to send more, and would wait
for a whole rotation each time. So, if it sent only a little and no other member is known to need the token, it
keeps the token and numbers the next packets at once. It sends HELD with its packet, so that others know which
member to ask with HURRY. Only a rotation of the token shows that all members have a packet: so a visit after
which the token is kept raises no ARU, and the token is not kept while a Safe bundle waits.

Awaiting an answer (`Answers`): clients of two members answer each other. The token arrives with a packet and
would be gone when the answer is submitted. So a member where answers tend to come soon holds the token for one.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import Final, final

from hopring.ids import NEVER, NOBODY, DaemonId
from hopring.links.queues import LooseQueue
from hopring.links.ring.options import RingOptions
from hopring.links.ring.packing import Outbox
from hopring.links.ring.plan import VisitPlan
from hopring.links.ring.store import RingStore
from hopring.links.ring.token import first_token
from hopring.value import Mutable
from hopring.wire.ring import Token
from hopring.wire.unreliable import loose_bytes_of

KEPT_SEGMENTS_MAX: Final = 32
"""A member that sends more than this fills a rotation anyway and gains nothing by keeping the token."""

ANSWERS_SURE: Final = 2
"""An answer is awaited after this many answers in time."""

ANSWERS_MISSED: Final = -16
"""The count of answers in time after one was awaited in vain."""


@dataclass(slots=True)
class Keeping:
    """A member's knowledge of held tokens: its own kept one, and HELD from other members."""

    came_at_us: int = 0  # When the token came.
    last_seq: int = -1  # The last packet that this member numbered.
    segments: int = 0  # Sent since the token came, in visits after which it was kept.
    asked: bool = False  # A HURRY came since the token was last passed on.
    held_by: DaemonId = NOBODY  # The member that sent HELD since the token was last passed on.

    def note_sent(self, link_seq: int, packets: int) -> bool:
        """Notes packets sent above this number; returns whether the packet before was this member's too."""
        alone = self.last_seq == link_seq
        self.last_seq = link_seq + packets
        return alone

    def may_keep(self, sent_segments: int, now_us: int, keep_us_max: int) -> bool:
        """Whether the token may be kept after a visit that sent this much."""
        few = self.segments + sent_segments <= KEPT_SEGMENTS_MAX
        return few and not self.asked and now_us < self.came_at_us + keep_us_max

    def note_passed(self) -> int:
        """Notes that the token is passed on; returns the segments sent while it was kept."""
        segments, self.segments = self.segments, 0
        self.asked = False
        self.held_by = NOBODY
        return segments


@dataclass(slots=True)
class Answers:
    """Whether clients of this member tend to answer packets of other members."""

    heard_at_us: int = 0  # When the last packet of another member came.
    open: bool = False  # Nothing was submitted here since that packet.
    in_time: int = 0  # Consecutive answers in time, up to ANSWERS_SURE.
    awaited: bool = False  # The token is held for an answer.

    def note_packet(self, now_us: int) -> None:
        """Notes a packet of another member."""
        self.heard_at_us = now_us
        self.open = True

    def note_wish(self, now_us: int, answer_us: int) -> None:
        """Notes that something was submitted here."""
        if self.open and now_us < self.heard_at_us + answer_us:
            self.in_time = min(self.in_time + 1, ANSWERS_SURE)
        self.open = self.awaited = False

    def note_hold_over(self) -> None:
        """Notes that the time to hold the token is over; if an answer was awaited, it did not come."""
        if self.awaited:
            self.in_time = ANSWERS_MISSED
            self.open = self.awaited = False

    def likely(self, now_us: int, answer_us: int) -> bool:
        """Whether an answer is likely to come soon."""
        return self.open and self.in_time == ANSWERS_SURE and now_us < self.heard_at_us + answer_us


class Phase(Enum):
    """The state of the token as this member sees it (ring.py), or the failure of the ring."""

    AWAY = "away"
    HELD = "held"
    VISITING = "visiting"
    FAILED = "failed"


@final
class Timers(Mutable):
    """When the next actions are due; none is set during a visit."""

    def __init__(
        self,
        hold_until_us: int = NEVER,
        resend_at_us: int = NEVER,
        loss_at_us: int = NEVER,
        hurry_at_us: int = NEVER,
    ) -> None:
        self.hold_until_us = hold_until_us
        self.resend_at_us = resend_at_us
        self.loss_at_us = loss_at_us
        self.hurry_at_us = hurry_at_us


@dataclass(slots=True)
class RingState:
    """All that changes in a ring."""

    phase: Phase
    timers: Timers
    expected: int  # The number of the next token for this member.
    token: Token  # The last token accepted.
    passed: Token  # The last token passed on.
    store: RingStore
    outbox: Outbox = field(default_factory=Outbox)
    plan: VisitPlan | None = None  # Set during a visit.
    sent_segments: int = 0  # Sent in the last visit: this member's part of flow_control.
    resent_segments: int = 0  # Sent again in all visits, for other members.
    site_aru: int = 0
    keeping: Keeping = field(default_factory=Keeping)
    answers: Answers = field(default_factory=Answers)
    hurried: bool = False  # A member, this one or another, needs the token since it was last here.
    idle_from_us: int = 0  # After traffic: the token does not become idle before this time.
    unanswered: bool = False  # Of a failed ring: there was no sign that the token passed on last arrived.


def initial_state(options: RingOptions, index: int, members: int, initial_seq: int, now_us: int) -> RingState:
    """The state of member `index`; the representative holds the first token and begins a visit at once."""
    token = first_token(initial_seq)
    store = RingStore(options, aru=initial_seq, discarded=initial_seq)
    outbox = Outbox(loose=LooseQueue(loose_bytes_of(options.segment_bytes), options.loose_bytes_max))
    if index == 0:
        return RingState(Phase.HELD, Timers(hold_until_us=now_us), members, token, token, store, outbox)
    timers = Timers(loss_at_us=now_us + options.token_loss_us)
    # The number grows with every pass, and the first pass carries 1 to the second member.
    return RingState(Phase.AWAY, timers, index, token, token, store, outbox)
