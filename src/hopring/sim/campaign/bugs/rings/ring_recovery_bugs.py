"""Planted bugs of recoveries of rings of RMP: ballots, sync points, quorums, commits, suspension."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from hopring.rmp.delivery import Delivery
from hopring.rmp.joining import Joiner
from hopring.rmp.lists.quorum import has_majority, is_quorate, may_go_on
from hopring.rmp.order.data_list import DataList
from hopring.rmp.recovery.attempt import RingAttempt
from hopring.rmp.recovery.initiator import Initiator
from hopring.rmp.recovery.recovery import INITIATING, RingRecovery
from hopring.rmp.ring import GroupRing
from hopring.rmp.state import PeerRingState, RingPhase
from hopring.sim.campaign.bugs.planting import Bug, ring_bug
from hopring.wire.rmp.ids import DataId, ListMembership, PeerProcess
from hopring.wire.rmp.lists import PeerList
from hopring.wire.rmp.packets import (
    AbortReason,
    NewListPacket,
    RecoveryAbort,
    RecoveryStart,
    RecoveryVote,
    SyncPoint,
)

# What a commit delivers and keeps.


def _above_holes(own_sync: Callable[..., SyncPoint]) -> Any:
    def counts_what_is_above_holes(
        state: PeerRingState, early: Iterable[DataId], wanted: SyncPoint
    ) -> SyncPoint:
        sync, slots = own_sync(state, early, wanted), state.epoch.queue.slots.values()
        return replace(sync, timestamp=max(one.timestamp for one in slots if one.packet is not None))

    return counts_what_is_above_holes


def _keeps_orphans(set_lines: Callable[..., None]) -> Any:
    def keeps_packets_of_the_lost(self: DataList, lines: Mapping[PeerProcess, int]) -> None:
        lost = {one.source for one in self.packets} - set(lines) if lines else set()
        set_lines(self, {one: self.ordered.get(one, 0) for one in lost} | dict(lines))

    return keeps_packets_of_the_lost


def _forgets_early(keep: Callable[..., None]) -> Any:
    def nothing_was_early(self: Delivery, members: PeerList) -> None:
        keep(self, members)
        self.early.clear()

    return nothing_was_early


def _timestamps_only(merged: Callable[..., SyncPoint]) -> Any:
    def without_sequences(points: Iterable[SyncPoint]) -> SyncPoint:
        return SyncPoint(merged(points).timestamp)

    return without_sequences


# Who may go on.


def _without_promises(vote: Callable[..., RecoveryVote]) -> Any:
    def does_not_tell_what_it_acknowledged(self: RingAttempt) -> RecoveryVote:
        return replace(vote(self), acknowledged=())

    return does_not_tell_what_it_acknowledged


def _by_size(go_on: Callable[..., bool]) -> Any:
    def half_of_the_largest(
        present: Collection[ListMembership],
        settled: PeerList,
        later: Iterable[PeerList],
        acknowledged: Iterable[PeerList],
    ) -> bool:
        chain = [settled, *later]
        if not any(is_quorate(one) for one in chain):
            return go_on(present, settled, chain[1:], acknowledged)
        return 2 * len(present) > max(len(one) for one in chain)

    return half_of_the_largest


def _last_settles(may: Callable[..., bool]) -> Any:
    def settled_if_a_majority_has_it(
        self: Initiator, present: set[ListMembership], settled: int, acknowledged: list[PeerList]
    ) -> bool:
        lists = self.attempt.state.epoch.lists.lists
        voted = {one.source: one.sync.timestamp for one in self.votes.values()}
        for at in range(len(lists) - 1, 0, -1):
            has = {
                one.membership
                for one in lists[at].members
                if voted.get(one.process, 0) >= lists[at].id.timestamp
            }
            if has_majority(has, lists[at]):
                return may_go_on(present, lists[at], lists[at + 1 :], acknowledged)
        return may(self, present, settled, acknowledged)

    return settled_if_a_majority_has_it


def _always_found(found: Callable[..., NewListPacket | None]) -> Any:
    def founds_unasked(self: Joiner) -> NewListPacket | None:
        self.state.wish = replace(self.state.wish, found=True)
        return found(self)

    return founds_unasked


# Attempts.


def _at_once(chosen: property) -> Any:
    del chosen
    return property(lambda self: self.proposed is not None)


def _ends_any(abort: Callable[..., None]) -> Any:
    def ends_the_present_attempt(self: RingRecovery, packet: RecoveryAbort, now_us: int) -> None:
        abort(self, replace(packet, ballot=self.attempt.ballot), now_us)

    return ends_the_present_attempt


def _abort_each_other(start: Callable[..., None]) -> Any:
    def equal_versions_end_both(self: RingRecovery, packet: RecoveryStart, now_us: int) -> None:
        attempt, other = self.attempt, packet.ballot
        state, equal = attempt.state, other.version == attempt.ballot.version and other != attempt.ballot
        if equal and attempt.phase in INITIATING and other.process in state.present:
            abort = RecoveryAbort(other, state.me, AbortReason.HIGHER_BALLOT, state.version)
            state.unicast(abort, other.process)
            self.initiator.proposed = None
            attempt.pause(now_us)
        else:
            start(self, packet, now_us)

    return equal_versions_end_both


def _without_suspects(propose: Callable[..., None]) -> Any:
    def leaves_out_suspects(self: Initiator, present: list[PeerProcess], now_us: int) -> None:
        propose(self, [one for one in present if one not in self.suspects], now_us)

    return leaves_out_suspects


def _orders_suspended(settle: Callable[..., None]) -> Any:
    def goes_on_ordering(self: GroupRing, now_us: int) -> None:
        settle(self, now_us)
        state = self.state
        if self.recovery.attempt.suspended and state.phase is RingPhase.IN and state.frozen:
            state.frozen = False
            ordering = self.token.order(now_us)
            if ordering is not None:
                self._order(ordering, now_us)
            state.frozen = True

    return goes_on_ordering


_INITIATOR: Final = "hopring.rmp.recovery.initiator"
_RECOVERY: Final = "hopring.rmp.recovery.recovery:RingRecovery"

BUGS: Final[tuple[Bug, ...]] = (
    ring_bug(
        "slots-above-sync-kept",
        "RMP trap 18: what is above a hole that nobody can fill has no place",
        "a member counts the slots above a hole, too, as it tells how far it is",
        ("hopring.rmp.recovery.attempt:own_sync", _above_holes),
        ("hopring.rmp.recovery.voter:own_sync", _above_holes),
    ),
    ring_bug(
        "orphan-data-ordered",
        "RMP trap 18: unordered Data of lost members are dropped",
        "Data of members that are lost wait for a place in the next epoch",
        ("hopring.rmp.order.data_list:DataList.set_lines", _keeps_orphans),
    ),
    ring_bug(
        "early-twice",
        "RMP trap 18: what was delivered early is marked so",
        "a new epoch does not know what was delivered early",
        ("hopring.rmp.delivery:Delivery.keep_early", _forgets_early),
    ),
    ring_bug(
        "sync-ignores-sequences",
        "RMP 4.4: a sync point has the sequence numbers of all members",
        "members come to the same timestamp only",
        (f"{_INITIATOR}:merged", _timestamps_only),
        aim="severed",
    ),
    ring_bug(
        "prepared-forgotten",
        "RMP trap 14: a vote tells all acknowledged lists",
        "a member that has acknowledged a list does not say so in the next attempt",
        ("hopring.rmp.recovery.attempt:RingAttempt.vote", _without_promises),
        aim="turning",
    ),
    ring_bug(
        "maxn-only",
        "RMP trap 15: majorities are of members, not of sizes",
        "more than half of the size of the largest list that may be in use is enough",
        (f"{_INITIATOR}:may_go_on", _by_size),
        aim="growth",
    ),
    ring_bug(
        "settled-without-chain",
        "RMP trap 15: a list is settled only behind settled ones",
        "a list that a majority of it has is settled, whatever came before it",
        (f"{_INITIATOR}:Initiator._may_go_on", _last_settles),
        aim="growth",
    ),
    ring_bug(
        "founds-in-minority",
        "RMP trap 16: with a minimum of majority a ring is founded only if that was asked for",
        "who reaches nobody founds a ring",
        ("hopring.rmp.joining:Joiner._found", _always_found),
    ),
    ring_bug(
        "commits-before-all-acks",
        "RMP 4.4: a list is committed when all its members have acknowledged it",
        "the initiator commits its list as soon as it has sent it",
        (f"{_INITIATOR}:Initiator.chosen", _at_once),
    ),
    ring_bug(
        "abort-of-any-attempt",
        "RMP trap 13: an Abort ends the attempt that it names",
        "an Abort ends the present attempt, whichever it names",
        (f"{_RECOVERY}._abort", _ends_any),
    ),
    ring_bug(
        "equal-ballots",
        "RMP trap 12: a ballot is a version and its initiator",
        "initiators of attempts with one version abort each other",
        (f"{_RECOVERY}._start", _abort_each_other),
    ),
    ring_bug(
        "suspect-dropped-though-heard",
        "RMP trap 17: a suspect that is heard is none",
        "a list of a recovery leaves out suspects that have voted",
        (f"{_INITIATOR}:Initiator._propose", _without_suspects),
    ),
    ring_bug(
        "ordered-while-suspended",
        "RMP trap 25: a suspended ring orders nothing",
        "a suspended member goes on ordering",
        ("hopring.rmp.ring:GroupRing._settle_recovery", _orders_suspended),
    ),
)
