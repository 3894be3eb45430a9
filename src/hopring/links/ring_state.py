"""What a member of a ring remembers."""

from dataclasses import dataclass, field
from enum import Enum
from typing import final

from hopring.ids import NEVER
from hopring.links.loose_queue import LooseQueue
from hopring.links.ring_keep import Answers, Keeping
from hopring.links.ring_options import RingOptions
from hopring.links.ring_packing import Outbox
from hopring.links.ring_store import RingStore
from hopring.links.ring_token import first_token
from hopring.links.ring_turn import Turn
from hopring.value import Mutable
from hopring.wire.ring import Token
from hopring.wire.unreliable import loose_bytes_of


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
