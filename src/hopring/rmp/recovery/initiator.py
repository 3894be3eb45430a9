"""The initiator of a recovery: collects votes, brings all to one sync point, and commits a list (paper 4.4).

Invariants  a list is committed only after all its members have acknowledged it; an attempt that ended commits
            nothing. With a minimum of majority or all it has a majority of each list that may be in use.
Deviations  the paper goes on when all but one have answered, which drops the slowest of a healthy ring (trap
            17): here all are waited for but suspects, and a suspect that is heard is none.
"""

from dataclasses import dataclass, field

from hopring.ids import NEVER
from hopring.rmp.lists.changes import recovered
from hopring.rmp.lists.quorum import is_quorate, may_go_on, needed
from hopring.rmp.recovery.attempt import RecoveryPhase, RingAttempt
from hopring.rmp.recovery.sync import has_reached, merged
from hopring.rmp.retry import Retry
from hopring.wire.rmp.ids import Ballot, ListMembership, PeerProcess
from hopring.wire.rmp.lists import PeerList
from hopring.wire.rmp.packets import (
    AbortReason,
    NewListKind,
    NewListPacket,
    RecoveryAbort,
    RecoveryStart,
    RecoveryVote,
    SyncPoint,
)


@dataclass(slots=True)
class Initiator:
    """The attempt of this member."""

    attempt: RingAttempt
    votes: dict[PeerProcess, RecoveryVote] = field(default_factory=dict)
    suspects: set[PeerProcess] = field(default_factory=set)
    acks: set[PeerProcess] = field(default_factory=set)
    proposed: NewListPacket | None = None
    patient_until_us: int = NEVER  # Until then suspects are waited for.
    too_few: bool = False  # The last attempt ended because too few members were there.
    retry: Retry = field(init=False)

    def __post_init__(self) -> None:
        options = self.attempt.state.options
        self.retry = Retry(options.start_us, options.clamp_us)

    def begin(self, now_us: int, suspects: set[PeerProcess]) -> None:
        """Starts an attempt with a ballot above all that were seen."""
        state = self.attempt.state
        ballot = Ballot(max(state.version, self.attempt.ballot.version) + 1, state.me)
        self.attempt.freeze(ballot, RecoveryPhase.SYNCING)
        self.attempt.target = SyncPoint(0)
        self.votes, self.acks, self.proposed = {}, set(), None
        self.suspects = suspects - {state.me}
        self.patient_until_us = now_us + state.options.suspect_us
        self.retry.restart(now_us)
        self._update()
        self._send_start()

    def on_vote(self, vote: RecoveryVote, now_us: int) -> None:
        """A member has joined the attempt, or is further than before."""
        attempt = self.attempt
        if attempt.phase is not RecoveryPhase.SYNCING or vote.ballot != attempt.ballot:
            return
        attempt.state.version = max(attempt.state.version, vote.version)
        attempt.gone.discard(vote.source)
        if self.votes.get(vote.source) != vote:
            self.votes[vote.source] = vote
            self.retry.restart(now_us)

    def on_ack(self, source: PeerProcess) -> None:
        """A member has acknowledged the proposed list."""
        if self.proposed is not None and source in self.proposed.list:
            self.acks.add(source)

    @property
    def chosen(self) -> bool:
        """Whether all members of the proposed list have acknowledged it."""
        return self.proposed is not None and self.acks >= set(self.proposed.list.processes)

    def settle(self, now_us: int) -> None:
        """Goes on as far as votes allow."""
        if self.attempt.phase is not RecoveryPhase.SYNCING:
            return
        if self._update():
            self._send_start()
        self._try_to_propose(now_us)
        if self.attempt.phase is RecoveryPhase.SYNCING:
            self.attempt.ask(now_us, self._best_source())

    def tick(self, now_us: int) -> None:
        """Polls again, or asks for acknowledgements again; who does not answer in the end is a suspect."""
        if not self.retry.is_due(now_us):
            return
        self.retry.again(now_us)
        if self.attempt.phase is RecoveryPhase.SYNCING:
            self._send_start()
        elif self.proposed is not None:
            if self.retry.tries < self.attempt.state.options.recovery_tries:
                self.attempt.state.multicast(self.proposed)
            else:
                self.begin(now_us, set(self.proposed.list.processes) - self.acks)

    def _send_start(self) -> None:
        self.attempt.state.multicast(RecoveryStart(self.attempt.ballot, self.attempt.target))

    def _update(self) -> bool:
        """Takes the own vote anew, and the target from all votes; whether the target has risen."""
        attempt = self.attempt
        state = attempt.state
        self.votes[state.me] = attempt.vote()
        members = state.present
        target = merged([vote.sync for source, vote in self.votes.items() if source in members])
        risen = target != attempt.target
        if risen:
            attempt.target = target
            self.votes[state.me] = attempt.vote()
        return risen

    def _best_source(self) -> PeerProcess | None:
        me = self.attempt.state.me
        others = [vote for source, vote in self.votes.items() if source != me]
        return max(others, key=lambda vote: (vote.sync.timestamp, vote.source)).source if others else None

    def _try_to_propose(self, now_us: int) -> None:
        """Proposes a list once everybody is here and in step, or those who are not have had their time."""
        attempt = self.attempt
        state, options, members = attempt.state, attempt.state.options, attempt.state.present
        voted = [one for one in members.processes if one in self.votes]
        lacking = {one for one in voted if not has_reached(self.votes[one].sync, attempt.target)}
        awaited = {one for one in members.processes if one not in self.votes} - attempt.gone - attempt.left
        if now_us >= self.patient_until_us:
            self.patient_until_us = NEVER
        patient = self.patient_until_us != NEVER
        waits = lacking or awaited - self.suspects or (awaited and patient)
        if waits and self.retry.tries < options.recovery_tries:
            return
        if state.me in lacking:
            self.give_up(AbortReason.CANNOT_SYNC, now_us)
            return
        self._propose([one for one in voted if one not in lacking], now_us)

    def _propose(self, present: list[PeerProcess], now_us: int) -> None:
        attempt = self.attempt
        state, members, target = attempt.state, attempt.state.present, attempt.target
        votes = [self.votes[one] for one in present]
        settled = min(max([vote.settled for vote in votes]), target.timestamp)
        memberships = {one.membership for one in members.members if one.process in present}
        acknowledged = [one for vote in votes for one in vote.acknowledged]
        if not self._may_go_on(memberships, settled, acknowledged):
            self.give_up(AbortReason.TOO_FEW, now_us)
            return
        fence = max([one.locks.fence for one in acknowledged], default=0)
        after = target.timestamp + 1
        strangers = state.stranger_entries()
        new = recovered(members, attempt.ballot, after, present, state.data.ordered, strangers, fence)
        self.proposed = NewListPacket(NewListKind.RECOVERED, state.me, state.me, new, target, settled)
        self.acks = {state.me}
        attempt.phase = RecoveryPhase.COMMITTING
        attempt.asking.stop()
        self.retry.restart(now_us)
        if len(new) > 1:
            state.multicast(self.proposed)

    def _may_go_on(self, present: set[ListMembership], settled: int, acknowledged: list[PeerList]) -> bool:
        """Whether these members suffice (traps 14 and 15)."""
        lists = self.attempt.state.epoch.lists.lists
        before = [one for one in lists if one.id.timestamp <= settled]
        later = [one for one in lists if one.id.timestamp > settled]
        if not before:
            # A joiner does not know the list that its own one replaced, and which has to agree.
            if any(is_quorate(one) for one in later):
                return False
            return len(present) >= needed(later[-1])
        return may_go_on(present, before[-1], later, acknowledged)

    def give_up(self, reason: AbortReason, now_us: int) -> None:
        """Ends the attempt without a list, and tells those who have joined it."""
        attempt = self.attempt
        state = attempt.state
        state.multicast(RecoveryAbort(attempt.ballot, state.me, reason, state.version))
        self.proposed = None
        self.retry.stop()
        too_few = reason is AbortReason.TOO_FEW
        self.too_few = too_few
        attempt.pause(now_us, state.options.suspended_us if too_few else None)

    @property
    def present(self) -> frozenset[ListMembership]:
        """The members that have voted so far."""
        members = self.attempt.state.present.members
        return frozenset([one.membership for one in members if one.process in self.votes])
