"""A voter of a recovery: joins the highest attempt, votes as it gets what it lacks, and is bound by its word.

Invariants  a voter acknowledges a list only if it is in it, has everything up to its sync point, and delivered
            nothing behind that; it acknowledges lists of its present attempt only.
Deviations  the paper aborts when a second attempt is heard; here a voter moves to any higher ballot (trap 13).
"""

from dataclasses import dataclass, field

from hopring.rmp.recovery.attempt import RecoveryPhase, RingAttempt
from hopring.rmp.recovery.sync import has_reached, own_sync
from hopring.rmp.retry import Retry
from hopring.wire.rmp.packets import NewListPacket, RecoveryAckNewList, RecoveryStart, RecoveryVote

PATIENCE = 4
"""A voter that hears nothing of its initiator for so many longest timers begins an attempt of its own."""


@dataclass(slots=True)
class Voter:
    """This member in the attempt of another one."""

    attempt: RingAttempt
    told: RecoveryVote | None = None  # The vote that was sent last.
    retry: Retry = field(init=False)  # Runs while nothing is heard of the initiator.

    def __post_init__(self) -> None:
        wait_us = PATIENCE * self.attempt.state.options.clamp_us
        self.retry = Retry(wait_us, wait_us)

    def join(self, start: RecoveryStart, now_us: int) -> None:
        """Joins an attempt, or hears of it again."""
        if start.ballot != self.attempt.ballot or self.attempt.phase is not RecoveryPhase.VOTING:
            self.attempt.freeze(start.ballot, RecoveryPhase.VOTING)
        self.attempt.target = start.sync
        self.retry.restart(now_us, self._patience_us())
        self._send(self.attempt.vote())

    def _patience_us(self) -> int:
        wait_us = PATIENCE * self.attempt.state.options.clamp_us
        return wait_us + self.attempt.state.random.randrange(wait_us)

    def _send(self, vote: RecoveryVote) -> None:
        self.told = vote
        self.attempt.state.unicast(vote, self.attempt.ballot.process)

    def settle(self, now_us: int) -> None:
        """Votes again after progress, and asks for what is missing."""
        if self.attempt.phase is not RecoveryPhase.VOTING:
            return
        vote = self.attempt.vote()
        if vote != self.told:
            self._send(vote)
        self.attempt.ask(now_us, self.attempt.ballot.process)

    def on_new_list(self, packet: NewListPacket, now_us: int) -> None:
        """The initiator proposes a list: acknowledged if this member can keep its word."""
        attempt = self.attempt
        state = attempt.state
        if packet.list.id.epoch != attempt.ballot or packet.source != attempt.ballot.process:
            return
        mine, member = state.my_membership, packet.list.member(state.me)
        if member is None or member.membership != mine:
            return
        if attempt.phase is RecoveryPhase.VOTING:
            attempt.target = packet.sync
            reached = has_reached(own_sync(state, attempt.delivery.early, packet.sync), packet.sync)
            if not reached or state.epoch.delivered > packet.sync.timestamp:
                return
            attempt.remember(packet)
            attempt.phase = RecoveryPhase.PREPARED
            attempt.asking.stop()
        if attempt.phase is RecoveryPhase.PREPARED:
            self.retry.restart(now_us, self._patience_us())
            self.acknowledge()

    def acknowledge(self) -> None:
        """Tells the initiator that this member is bound to its list."""
        state = self.attempt.state
        state.unicast(RecoveryAckNewList(self.attempt.ballot, state.me), self.attempt.ballot.process)
