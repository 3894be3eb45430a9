"""The state of a ring's member, and the two policies by which it keeps the token for a moment.

A member that was the last to send, and sends again, is likely to go on, and would have to wait for a whole
rotation each time. So, if it sent only a little and knows of nobody who wants the token, it numbers what comes
next without passing the token on (`Keeping`). It says HELD in the packet that it sends, so others know whom to
ask with HURRY. That all members have a packet is known only when the token has gone round: so a kept visit
raises no ARU, and the token is never kept from a Safe bundle that waits.

Two clients at different members that answer each other are another case: the token comes with the packet, and
would be gone when the answer is there. A member where answers tend to come soon waits for one (`Answers`).
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import Final, final

from hopring.ids import NEVER, NOBODY, DaemonId
from hopring.links.queues import LooseQueue
from hopring.links.ring.options import RingOptions
from hopring.links.ring.packing import Outbox
from hopring.links.ring.store import RingStore
from hopring.links.ring.token import first_token
from hopring.links.ring.turn import Turn
from hopring.value import Mutable
from hopring.wire.ring import Token
from hopring.wire.unreliable import loose_bytes_of

KEPT_SEGMENTS_MAX: Final = 32
"""Who sends more than this has bundles to fill a rotation with, and gains nothing."""

ANSWERS_SURE: Final = 2
"""After so many answers in time the next one is waited for,"""

ANSWERS_MISSED: Final = -16
"""and after one that was waited for in vain, so many more have to come first."""


@dataclass(slots=True)
class Keeping:
    """What a member knows of kept tokens, its own and others'."""

    came_at_us: int = 0  # When the token came.
    last_seq: int = -1  # The last packet that this member numbered.
    segments: int = 0  # Sent since the token came, in visits after which it stayed.
    asked: bool = False  # Somebody said HURRY since it was last passed on,
    at: DaemonId = NOBODY  # and this one said HELD.

    def sent(self, link_seq: int, packets: int) -> bool:
        """Packets behind this number were sent; whether the one before them was this member's too."""
        alone = self.last_seq == link_seq
        self.last_seq = link_seq + packets
        return alone

    def may_go_on(self, sent_segments: int, now_us: int, kept_us_max: int) -> bool:
        """Whether the token may stay after a visit that sent so much."""
        few = self.segments + sent_segments <= KEPT_SEGMENTS_MAX
        return few and not self.asked and now_us < self.came_at_us + kept_us_max

    def passed(self) -> int:
        """The token goes; returns what was sent while it was kept."""
        segments, self.segments = self.segments, 0
        self.asked = False
        self.at = NOBODY
        return segments


@dataclass(slots=True)
class Answers:
    """Whether who is here tends to answer what comes from others."""

    heard_at_us: int = 0  # When the last packet of another member came,
    open: bool = False  # and whether nothing was to be sent from here since.
    in_time: int = 0  # Answers, the last ones.
    awaited: bool = False  # The token waits for one.

    def heard(self, now_us: int) -> None:
        """A packet of another member came."""
        self.heard_at_us = now_us
        self.open = True

    def wished(self, now_us: int, answer_us: int) -> None:
        """Something is to be sent from here."""
        if self.open and now_us < self.heard_at_us + answer_us:
            self.in_time = min(self.in_time + 1, ANSWERS_SURE)
        self.open = self.awaited = False

    def waited_long_enough(self) -> None:
        """The token goes on by itself; if it waited for an answer, that did not come."""
        if self.awaited:
            self.in_time = ANSWERS_MISSED
            self.open = self.awaited = False

    def likely(self, now_us: int, answer_us: int) -> bool:
        """Whether one may be about to come."""
        return self.open and self.in_time == ANSWERS_SURE and now_us < self.heard_at_us + answer_us


class Phase(Enum):
    """Where the token is, as far as this member knows."""

    WAITING = "waiting"  # Somewhere else.
    HOLDING = "holding"  # Here, and nobody needs it.
    VISITING = "visiting"  # Here, and the layer above has the word.
    FAILED = "failed"


@final
class Timers(Mutable):
    """What is due when; none is set while the token visits."""

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
    token: Token  # The last one accepted.
    passed: Token  # The last one passed on.
    store: RingStore
    outbox: Outbox = field(default_factory=Outbox)
    turn: Turn | None = None  # Set while visiting.
    sent_segments: int = 0  # In the last visit: this member's part of flow_control.
    resent_segments: int = 0  # In all visits: copies of what others lacked.
    site_aru: int = 0
    keeping: Keeping = field(default_factory=Keeping)
    answers: Answers = field(default_factory=Answers)
    hurried: bool = False  # Somebody needs the token since it was last here.
    free_until_us: int = 0  # There was traffic just now: the token does not stop before.
    unanswered: bool = False  # Of a ring that failed: nobody showed that it got the token we passed last.


def initial_state(options: RingOptions, index: int, members: int, initial_seq: int, now_us: int) -> RingState:
    """The state of member `index`; the representative holds the first token, which is due at once."""
    token = first_token(initial_seq)
    store = RingStore(options, aru=initial_seq, discarded=initial_seq)
    outbox = Outbox(loose=LooseQueue(loose_bytes_of(options.segment_bytes), options.loose_bytes_max))
    if index == 0:
        return RingState(Phase.HOLDING, Timers(hold_until_us=now_us), members, token, token, store, outbox)
    timers = Timers(loss_at_us=now_us + options.token_loss_us)
    # The number grows with every pass, and the first pass carries 1 to the second member.
    return RingState(Phase.WAITING, timers, index, token, token, store, outbox)
