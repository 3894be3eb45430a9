"""Recovery from failures at one member: dispatches to its role in the attempt that it is in (paper 4.4).

Above       the ring, which begins a recovery when tries are spent, and gives it the recovery packets.
Invariants  from the first attempt of an epoch until the commit of its successor nothing is ordered or
            delivered, however many attempts that takes; an attempt is ended only by a packet that names it
            (trap 13).
Deviations  a member that is told of a list without it leaves that list's members out of its own attempts; if it
            cannot go on without them it is removed.
"""

from dataclasses import dataclass, field
from typing import Final

from hopring.errors import Drop, PeerError
from hopring.ids import NEVER
from hopring.rmp.events import PacketArrived, RingSuspended
from hopring.rmp.lists.quorum import needed
from hopring.rmp.recovery.attempt import RecoveryPhase, RingAttempt
from hopring.rmp.recovery.initiator import Initiator
from hopring.rmp.recovery.voter import Voter
from hopring.rmp.state import RingPhase, earliest
from hopring.wire.rmp.ids import Ballot, PeerProcess
from hopring.wire.rmp.packets import (
    AbortReason,
    NewListPacket,
    RecoveryAbort,
    RecoveryAckNewList,
    RecoveryPacket,
    RecoveryStart,
    RecoveryVote,
)

VERSION_STEP_MAX: Final = 2**20
"""A ballot this far above all that were seen is refused: nobody uses up the versions with one packet."""

INITIATING = (RecoveryPhase.SYNCING, RecoveryPhase.COMMITTING)


@dataclass(slots=True)
class RingRecovery:
    """The recovery of one member, if there is one."""

    attempt: RingAttempt
    initiator: Initiator = field(init=False)
    voter: Voter = field(init=False)
    removed: bool = False  # Others went on without this member, and it cannot without them.

    def __post_init__(self) -> None:
        self.initiator = Initiator(self.attempt)
        self.voter = Voter(self.attempt)

    @property
    def under_way(self) -> bool:
        """Whether nothing is ordered or delivered."""
        return self.attempt.phase is not RecoveryPhase.NONE

    @property
    def wake_at_us(self) -> int:
        """When a recovery wants the next tick."""
        phase = self.attempt.phase
        if phase is RecoveryPhase.NONE:
            return NEVER
        own_us = self.initiator.retry.due_us if phase in INITIATING else NEVER
        if phase in (RecoveryPhase.VOTING, RecoveryPhase.PREPARED):
            own_us = self.voter.retry.due_us
        patient_us = self.initiator.patient_until_us if phase is RecoveryPhase.SYNCING else NEVER
        return earliest(own_us, patient_us, self.attempt.wait_until_us, self.attempt.asking.due_us)

    def begin(self, now_us: int, suspects: set[PeerProcess]) -> None:
        """Tries are spent: this member starts an attempt."""
        self.initiator.begin(now_us, suspects)

    # Packets of the own epoch.

    def packet(self, packet: RecoveryPacket, now_us: int) -> None:
        """A recovery packet from a member of the old list."""
        if isinstance(packet, RecoveryStart):
            self._start(packet, now_us)
        elif isinstance(packet, RecoveryVote):
            self._check_version(packet.version)
            self.initiator.on_vote(packet, now_us)
        elif isinstance(packet, RecoveryAckNewList):
            if packet.ballot == self.attempt.ballot and self.attempt.phase is RecoveryPhase.COMMITTING:
                self.initiator.on_ack(packet.source)
        else:
            self._check_version(packet.version)
            self._abort(packet, now_us)

    def _check_version(self, version: int) -> None:
        if version > self.attempt.state.version + VERSION_STEP_MAX:
            raise PeerError(Drop.LIMIT, f"version {version}, the highest seen is {self.attempt.state.version}")

    def _start(self, packet: RecoveryStart, now_us: int) -> None:
        attempt, ballot = self.attempt, packet.ballot
        state = attempt.state
        self._check_version(ballot.version)
        if ballot.process == state.me or ballot.process not in state.present:
            return
        if ballot < attempt.ballot or ballot <= state.epoch.epoch:
            state.unicast(
                RecoveryAbort(ballot, state.me, AbortReason.HIGHER_BALLOT, state.version), ballot.process
            )
            return
        if ballot == attempt.ballot and attempt.phase is not RecoveryPhase.VOTING:
            return  # It is bound to the list of this attempt already, or the attempt has ended.
        self.voter.join(packet, now_us)

    def _abort(self, packet: RecoveryAbort, now_us: int) -> None:
        """An attempt has ended; only one that this member is in matters."""
        attempt = self.attempt
        if packet.ballot != attempt.ballot or not self.under_way:
            return
        state = attempt.state
        state.version = max(state.version, packet.version)
        if attempt.phase in INITIATING:
            if packet.reason is AbortReason.REMOVED and packet.source in state.present:
                attempt.gone.add(packet.source)
            elif packet.reason is AbortReason.LEFT and packet.source in state.present:
                attempt.left.add(packet.source)
            elif packet.reason is AbortReason.HIGHER_BALLOT:
                self.initiator.proposed = None
                attempt.pause(now_us)
        elif packet.source == attempt.ballot.process and attempt.phase is not RecoveryPhase.WAITING:
            too_few = packet.reason is AbortReason.TOO_FEW
            attempt.pause(now_us, state.options.suspended_us if too_few else None)
            if too_few:
                self._suspend()

    def new_list(self, packet: NewListPacket, now_us: int) -> None:
        """The list of an attempt."""
        if self.attempt.phase in (RecoveryPhase.VOTING, RecoveryPhase.PREPARED):
            self.voter.on_new_list(packet, now_us)

    # Packets of other epochs.

    def is_commit(self, event: PacketArrived) -> bool:
        """Whether a packet shows that the list that this member acknowledged last was committed."""
        promise = self.attempt.last_promise
        if promise is None or event.sender not in promise.list:
            return False
        return event.epoch == promise.list.id.epoch.generation

    # The end of each step.

    def tick(self, now_us: int) -> None:
        """Timers of the role that this member has."""
        attempt = self.attempt
        if attempt.phase in INITIATING:
            self.initiator.tick(now_us)
        elif attempt.phase in (RecoveryPhase.VOTING, RecoveryPhase.PREPARED):
            if self.voter.retry.is_due(now_us):
                self.initiator.begin(now_us, {attempt.ballot.process})
        elif now_us >= attempt.wait_until_us:
            self.initiator.begin(now_us, set())

    def settle(self, now_us: int) -> NewListPacket | None:
        """Goes on as far as possible; the list to be committed, if there is one."""
        attempt = self.attempt
        if attempt.phase in INITIATING:
            self.initiator.settle(now_us)
            if attempt.phase is RecoveryPhase.COMMITTING and self.initiator.chosen:
                return self.initiator.proposed
            if attempt.phase is RecoveryPhase.WAITING and self.initiator.too_few:
                self.initiator.too_few = False
                self._suspend()
        else:
            self.voter.settle(now_us)
        return None

    def _suspend(self) -> None:
        """Too few members are left (trap 25)."""
        attempt = self.attempt
        state = attempt.state
        rest = len([one for one in state.present.processes if one not in attempt.left])
        if attempt.gone or rest < needed(state.present):
            self.removed = True
        elif not attempt.suspended:
            attempt.suspended = True
            mine = state.my_membership
            present = self.initiator.present or frozenset([mine] if mine is not None else [])
            state.emit(RingSuspended(present, needed(state.present)))

    def postpone(self, by_us: int) -> None:
        """This process did not run for a while: others could not answer."""
        attempt = self.attempt
        for retry in (attempt.asking, self.initiator.retry, self.voter.retry):
            retry.postpone(by_us)
        if self.initiator.patient_until_us != NEVER:
            self.initiator.patient_until_us += by_us
        if attempt.wait_until_us != NEVER:
            attempt.wait_until_us += by_us

    def clear(self) -> None:
        """The stay, or the epoch, has ended."""
        self.attempt.end()
        self.initiator.proposed = None
        self.initiator.retry.stop()
        self.voter.retry.stop()
        self.removed = False

    def answer_stranger(self, packet: RecoveryStart, event: PacketArrived) -> None:
        """A Start of another epoch: tells its initiator that this member is in another list by now."""
        state = self.attempt.state
        to: PeerProcess = packet.ballot.process
        ballot: Ballot = packet.ballot
        removed = RecoveryAbort(ballot, state.me, AbortReason.REMOVED, state.version)
        if state.phase is RingPhase.IN and to not in state.present:
            state.unicast(removed, to, event.epoch)
