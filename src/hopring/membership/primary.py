"""Primary views: at most one side of a split goes on as the primary. Dynamic voting over lives of daemons.

Implements  the majority that RMP wants (3.2, 4.4), by a rule that stays safe over many splits: dynamic voting
            with attempts that may have succeeded (Yeger Lotem, Keidar and Dolev 1997). Votes are exchanged as a
            part of STATETRANS, and DONE is the promise.
Invariants  each primary view has more than half of the weight of the primary before it, so primaries form a
            chain. A daemon notes an attempt to form a primary before it says DONE, and nobody installs a view
            before all have said DONE. So an attempt that a member has not noted was installed by nobody, and
            any other counts as if it had been.
            Votes belong to processes and not to daemons: one that starts again has forgotten what it voted for.
            What outlives a process is its mark on disk, written before each vote for a primary. Daemons
            with a mark, and daemons that have no disk for it, never found the first primary.
            Epochs number the chain. That of a primary is above all earlier ones if it is `sure`: marks, which
            are told by daemons whatever their lives, form the same chain (decision 21).
Exceptions  two primaries need not have a process in common if the second has all configured daemons, or if an
            operator made it. Then what only the lost processes held is lost.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from msgspec import structs

from hopring.engine import PrimaryBasis
from hopring.ids import EPOCH_MAX, NOBODY, DaemonId, Process, SiteId, ViewId
from hopring.membership.messages import EpochMark, PrimaryVote, VotedView

ATTEMPTS_MAX: Final = 16
"""Attempts that may have succeeded: daemons that know as many form no primary until they meet others."""


OPERATOR_STEP: Final = 1024
"""The step of the epoch by an operator's word: the daemons that are not there may have gone on for a while."""


@dataclass(frozen=True, slots=True)
class Electorate:
    """The configured daemons, with their weights and the site that decides between equal halves."""

    site_of: Mapping[DaemonId, SiteId]
    weights: Mapping[DaemonId, int]  # Daemons that are not in it weigh 1.
    tie_site: SiteId | None = None

    @property
    def is_weighted(self) -> bool:
        """Whether a majority is not simply more than half of the processes."""
        return bool(self.weights) or self.tie_site is not None

    def has_majority(self, some: Collection[DaemonId], of: Collection[DaemonId]) -> bool:
        """Whether these have more than half of the weight of those, or half of it and the deciding site."""
        part, whole = self._weight(some), self._weight(of)
        if 2 * part != whole or self.tie_site is None:
            return 2 * part > whole
        # Of two halves at most one has more than half of the site.
        return 2 * self._weight(self._deciding(some)) > self._weight(self._deciding(of))

    def _weight(self, daemons: Iterable[DaemonId]) -> int:
        return sum([self.weights.get(one, 1) for one in daemons])

    def _deciding(self, daemons: Collection[DaemonId]) -> list[DaemonId]:
        return [one for one in daemons if self.site_of.get(one) == self.tie_site]


@dataclass(frozen=True, slots=True)
class Judgement:
    """Whether an attempt forms a primary view, and what all its members know then of earlier ones."""

    basis: PrimaryBasis
    last: VotedView | None  # The latest primary that was installed, as far as any member knows.
    attempts: tuple[VotedView, ...]  # Later attempts that may have succeeded.
    voters: tuple[Process, ...]  # The members that vote.
    epoch: int = 0  # Of the view, if it becomes primary.
    sure: bool = False  # Whether that is above the epochs of all earlier primaries.

    def as_voted(self, view: ViewId) -> VotedView:
        """The attempt, or the view that it becomes."""
        return VotedView(view, self.voters, self.epoch, self.sure)

    @property
    def mark(self) -> EpochMark:
        """What every voter has to write before it votes."""
        return EpochMark(self.epoch, tuple([one.daemon for one in self.voters]))


def judge(votes: Mapping[Process, PrimaryVote], electorate: Electorate) -> Judgement:
    """The judgement of a view of these processes; all of them come to the same."""
    known = [vote.last for vote in votes.values() if vote.last is not None]
    last = max(known, key=lambda one: one.view, default=None)
    later = {one.view: one for vote in votes.values() for one in vote.attempts if _is_later(one, last)}
    attempts = tuple([later[view] for view in sorted(later) if not _is_refuted(later[view], votes)])
    voters = tuple([one for one, vote in sorted(votes.items()) if not vote.abstains])
    everybody = len(voters) == len(electorate.site_of)
    if any(vote.forced for vote in votes.values()):
        basis = PrimaryBasis.OPERATOR
    elif _is_next(voters, votes, last, attempts, electorate):
        basis = PrimaryBasis.FIRST if last is None else PrimaryBasis.MAJORITY
        if electorate.is_weighted or len(voters) < len(votes):
            basis = PrimaryBasis.WEIGHTED
    else:
        basis = PrimaryBasis.ALL if everybody else PrimaryBasis.NONE
    epoch = _highest_epoch(votes) + (OPERATOR_STEP if basis is PrimaryBasis.OPERATOR else 1)
    if not basis or epoch > EPOCH_MAX:
        return Judgement(basis, last, attempts, voters)
    return Judgement(basis, last, attempts, voters, epoch, _is_sure(basis, last, votes, electorate))


def _highest_epoch(votes: Mapping[Process, PrimaryVote]) -> int:
    views = [one for vote in votes.values() for one in (*vote.attempts, vote.last) if one is not None]
    marks = [vote.mark.epoch for vote in votes.values() if vote.mark is not None]
    return max([*[one.epoch for one in views], *marks], default=0)


def _is_sure(
    basis: PrimaryBasis,
    last: VotedView | None,
    votes: Mapping[Process, PrimaryVote],
    electorate: Electorate,
) -> bool:
    """Whether no primary view can have had a higher epoch than all that are known."""
    if basis is PrimaryBasis.OPERATOR:
        return True
    if basis is not PrimaryBasis.ALL and (last is None or last.sure):
        # It is the first one, or has a majority of the lives of the last one.
        return True
    marks = {process.daemon: vote.mark for process, vote in votes.items() if vote.mark is not None}
    highest = max(marks.values(), key=lambda one: one.epoch, default=None)
    if highest is None:
        return False
    voters = [DaemonId(one) for one in highest.voters]
    return electorate.has_majority([one for one in voters if one in marks], voters)


def _is_later(one: VotedView, last: VotedView | None) -> bool:
    return last is None or one.view > last.view


def _is_refuted(attempt: VotedView, votes: Mapping[Process, PrimaryVote]) -> bool:
    """Whether a voter of this attempt has not noted it, and so nobody has installed it, or ever will."""
    present = [votes[one] for one in attempt.voters if one in votes]
    return any(all(noted.view != attempt.view for noted in vote.attempts) for vote in present)


def _is_next(
    voters: tuple[Process, ...],
    votes: Mapping[Process, PrimaryVote],
    last: VotedView | None,
    attempts: tuple[VotedView, ...],
    electorate: Electorate,
) -> bool:
    """Whether these processes have a majority of every view that may be the latest primary."""
    if len(attempts) >= ATTEMPTS_MAX:
        return False
    if last is None:
        found = electorate.has_majority([one.daemon for one in voters], list(electorate.site_of))
        if not found or any(vote.marked for vote in votes.values()):
            return False
    possible = attempts if last is None else (last, *attempts)
    return all(_has_majority_of(one, voters, electorate) for one in possible)


def _has_majority_of(view: VotedView, voters: tuple[Process, ...], electorate: Electorate) -> bool:
    present = [one.daemon for one in view.voters if one in voters]
    return electorate.has_majority(present, [one.daemon for one in view.voters])


class PrimaryVoter:
    """The vote of one process, from its start to its end."""

    def __init__(
        self, electorate: Electorate, marked: bool, mark: EpochMark | None = None, has_disk: bool = False
    ) -> None:
        """Starts; `marked` means that an earlier process of this daemon may have voted, or it has no disk.

        `mark` is what that process wrote, if it is undamaged.
        """
        self.electorate = electorate
        self.has_disk = has_disk  # Without one, nothing is written and nothing is told.
        self.vote = PrimaryVote(None, (), marked, mark=mark)
        self.marking: EpochMark | None = None  # It is being written.

    def follow(self, before: "PrimaryVoter", numbers: Mapping[DaemonId, DaemonId]) -> None:
        """Goes on with the vote of before another configuration; daemons that are not in it vote no more."""

        def renumber(voted: VotedView) -> VotedView:
            voters = [Process(numbers.get(one.daemon, NOBODY), one.incarnation) for one in voted.voters]
            return structs.replace(voted, voters=tuple(voters))

        last = None if before.vote.last is None else renumber(before.vote.last)
        attempts = tuple([renumber(one) for one in before.vote.attempts])
        mark = before.vote.mark
        if mark is not None:
            mark = EpochMark(mark.epoch, tuple([numbers.get(DaemonId(one), NOBODY) for one in mark.voters]))
        self.vote = structs.replace(before.vote, last=last, attempts=attempts, mark=mark)
        self.marking = before.marking

    def may_bind(self, judgement: Judgement) -> bool:
        """Whether this daemon may say DONE: not before its mark is on disk, if it votes for a primary."""
        if not judgement.basis or self.vote.abstains or not self.has_disk:
            return True
        return self.vote.mark is not None and self.vote.mark == judgement.mark

    def begin_mark(self, judgement: Judgement) -> EpochMark | None:
        """The mark that has to be written now, if one has to; one at a time."""
        if self.marking is not None or self.may_bind(judgement):
            return None
        self.marking = judgement.mark
        return self.marking

    def mark_written(self, durable: bool) -> None:
        """The mark is on disk. If it cannot be written, this process votes no more."""
        mark, self.marking = self.marking, None
        self.vote = (
            structs.replace(self.vote, mark=mark) if durable else structs.replace(self.vote, abstains=True)
        )

    def force(self) -> None:
        """An operator wants the next view to be primary, whatever the others have."""
        self.vote = structs.replace(self.vote, forced=True)

    def bind(self, judgement: Judgement, view: ViewId) -> None:
        """Notes what the members know and, if it may become a primary, this attempt."""
        attempts = judgement.attempts
        if judgement.basis:
            # Only beside a view of all, or of an operator, are there too many.
            attempts = (*attempts, judgement.as_voted(view))[-ATTEMPTS_MAX:]
        self.vote = structs.replace(self.vote, last=judgement.last, attempts=attempts)

    def install(self, judgement: Judgement, view: ViewId) -> None:
        """Notes that the attempt has become a view."""
        if judgement.basis:
            self.vote = structs.replace(self.vote, last=judgement.as_voted(view), attempts=())
        self.vote = structs.replace(self.vote, forced=False)
