"""What the two roles of a recovery share: the attempt that this member is in, and what it has promised.

Invariants  ballots that this member joins rise within an epoch; a list that it acknowledged is remembered until
            it commits a list of a recovery (trap 14).
"""

from dataclasses import dataclass, field
from enum import StrEnum

from hopring.ids import NEVER
from hopring.rmp.delivery import Delivery
from hopring.rmp.recovery.sync import missing, own_sync
from hopring.rmp.retry import Retry
from hopring.rmp.state import PeerRingState, RingPhase
from hopring.wire.rmp.codec import ACKNOWLEDGED_MAX
from hopring.wire.rmp.ids import NO_BALLOT, Ballot, PeerProcess
from hopring.wire.rmp.lists import bare
from hopring.wire.rmp.packets import NackPacket, NewListPacket, RecoveryVote, SyncPoint


class RecoveryPhase(StrEnum):
    """The role of a member in a recovery."""

    NONE = ""
    SYNCING = "syncing"  # It is the initiator, and collects votes.
    COMMITTING = "committing"  # It is the initiator, and collects acknowledgements of its list.
    VOTING = "voting"
    PREPARED = "prepared"  # It has acknowledged a list, and waits for its commit.
    WAITING = "waiting"  # An attempt has ended without a list; another one follows.


@dataclass(slots=True)
class RingAttempt:
    """The state of a recovery at one member."""

    state: PeerRingState
    delivery: Delivery
    phase: RecoveryPhase = RecoveryPhase.NONE
    ballot: Ballot = NO_BALLOT
    target: SyncPoint = field(default_factory=lambda: SyncPoint(0))
    acknowledged: dict[Ballot, NewListPacket] = field(default_factory=dict)
    gone: set[PeerProcess] = field(default_factory=set)  # Members that are in another list by now.
    left: set[PeerProcess] = field(default_factory=set)  # Members that have nothing of the list any more.
    suspended: bool = False
    failures: int = 0  # Attempts that ended without a list, one after the other.
    wait_until_us: int = NEVER
    asking: Retry = field(init=False)

    def __post_init__(self) -> None:
        self.asking = Retry(self.state.options.first_us, self.state.options.clamp_us)

    def vote(self) -> RecoveryVote:
        """The vote of this member, as it is now."""
        state = self.state
        # A joiner that has not shown its first list has delivered nothing: what is below is for others to say.
        shown = state.installed is not None or state.phase is not RingPhase.IN
        return RecoveryVote(
            self.ballot,
            state.me,
            state.epoch.queue.front,
            own_sync(state, self.delivery.early, self.target),
            state.epoch.delivered if shown else 0,
            state.version,
            tuple([bare(one.list) for one in self.acknowledged.values()]),
        )

    def remember(self, packet: NewListPacket) -> None:
        """This member is bound to a list from here on."""
        ballot = packet.list.id.epoch
        self.acknowledged.pop(ballot, None)
        self.acknowledged[ballot] = packet
        while len(self.acknowledged) > ACKNOWLEDGED_MAX:
            del self.acknowledged[next(iter(self.acknowledged))]

    @property
    def last_promise(self) -> NewListPacket | None:
        """The list that was acknowledged last: the only one that this member may commit on hearsay."""
        return list(self.acknowledged.values())[-1] if self.acknowledged else None

    def freeze(self, ballot: Ballot, phase: RecoveryPhase) -> None:
        """Joins an attempt: from here on nothing is ordered or delivered."""
        self.state.frozen = True
        self.ballot, self.phase = ballot, phase
        self.state.version = max(self.state.version, ballot.version)
        self.wait_until_us = NEVER
        self.asking.stop()

    def pause(self, now_us: int, wait_us: int | None = None) -> None:
        """An attempt has ended: waits for another one, or a random time, longer after each failure."""
        options = self.state.options
        if wait_us is None:
            wait_us = min(options.backoff_us << min(self.failures, 16), options.backoff_max_us)
        self.phase = RecoveryPhase.WAITING
        self.failures += 1
        self.wait_until_us = now_us + wait_us // 4 + self.state.random.randrange(wait_us)
        self.asking.stop()

    def ask(self, now_us: int, first_target: PeerProcess | None) -> None:
        """Asks for what is missing up to the target, if it is time."""
        stamps, tuples = missing(self.state, self.target)
        if not stamps and not tuples:
            self.asking.stop()
            return
        self.asking.start(now_us - self.asking.first_us)
        if not self.asking.is_due(now_us):
            return
        # Every other time anybody may answer: the one that is named may lack it as well.
        answers = first_target if self.asking.tries % 2 == 0 else None
        self.state.multicast(NackPacket(self.state.me, min(self.asking.tries, 255), answers, stamps, tuples))
        self.asking.again(now_us)

    def end(self) -> None:
        """A list was committed: earlier promises are kept in it."""
        self.phase = RecoveryPhase.NONE
        self.ballot = NO_BALLOT
        self.target = SyncPoint(0)
        self.acknowledged.clear()
        self.gone.clear()
        self.left.clear()
        self.suspended = False
        self.failures = 0
        self.wait_until_us = NEVER
        self.asking.stop()
