"""GDELAYED, PDELAYED and DELIVERABLE: parcels that wait for their causes.

Implements  Makpangou and Birman, 5.2.1 and 5.2.2.
Below       descriptors: which parcels are for this cluster, known before any parcel that depends on them.
Above       the wide set, which takes what is deliverable.
Invariants  a parcel is deliverable when every parcel of its talk in its past which is for this cluster is
            delivered, and, if it is an abcast, the one before it in the order of its talk. What a parcel waits
            for is for this cluster and not delivered here.
Deviations  each parcel has its causal past as a vector. In the paper its predecessors are the descriptors that
            come with it, which lacks those that came before; all of DESCBUF instead would wait for ever. Waits
            are for predecessors of the same talk; causes count through all talks.
"""

from collections import defaultdict
from dataclasses import dataclass, field

from hopring.haul.ids import ClusterId, ParcelId, Talk, is_in
from hopring.haul.order.events import CastKind, Parcel
from hopring.haul.order.numbers import NumberSet
from hopring.haul.order.runs import DescriptorRun
from hopring.haul.order.set_state import BehindState, DelayedState, SenderNumbers, TalkNumbers

Place = tuple[Talk, int]
"""A place in the order of the abcasts of a talk."""

Cause = ParcelId | Place


@dataclass(slots=True)
class DelayedParcels:
    """What is for this cluster and not delivered, and the parcels among it that have arrived."""

    me: ClusterId
    waiting: dict[ClusterId, NumberSet] = field(default_factory=dict)
    """For this cluster and not delivered, by sender."""
    delayed: dict[ParcelId, Parcel] = field(default_factory=dict)  # GDELAYED.
    causes: dict[ParcelId, Cause] = field(default_factory=dict)  # What each of them waits for.
    ordered: dict[Talk, int] = field(default_factory=dict)  # The last abcast delivered here, by talk.
    _expected: dict[Talk, dict[ClusterId, NumberSet]] = field(default_factory=dict)  # `waiting`, by talk too.
    _behind: defaultdict[Cause, list[ParcelId]] = field(default_factory=lambda: defaultdict(list))  # PDELAYED.

    def expect(self, run: DescriptorRun) -> None:
        """New descriptors: parcels for this cluster will arrive."""
        if is_in(self.me, run.destinations):
            self.waiting.setdefault(run.sender, NumberSet()).add(run.first, run.last)
            senders = self._expected.setdefault(run.talk, {})
            senders.setdefault(run.sender, NumberSet()).add(run.first, run.last)

    def add(self, parcel: Parcel) -> Parcel | None:
        """A parcel has arrived; returns it if it is deliverable."""
        cause = self._cause(parcel)
        if cause is None:
            return parcel
        self.delayed[parcel.id] = parcel
        self._wait(parcel.id, cause)
        return None

    def delivered(self, parcel: Parcel) -> list[Parcel]:
        """A parcel is delivered here; returns those that are deliverable now."""
        sender, number = parcel.id
        self.waiting[sender].discard(number, number)
        senders = self._expected[parcel.talk]
        senders[sender].discard(number, number)
        if not senders[sender]:
            del senders[sender]
        reached: list[Cause] = [parcel.id]
        if parcel.kind is CastKind.ABCAST:
            self.ordered[parcel.talk] = parcel.order
            reached.append((parcel.talk, parcel.order))
        return [one for cause in reached for one in self._wake(cause)]

    def _wake(self, cause: Cause) -> list[Parcel]:
        """The parcels behind a cause that wait for nothing any more."""
        out: list[Parcel] = []
        for waiting in self._behind.pop(cause, ()):
            parcel = self.delayed[waiting]
            further = self._cause(parcel)
            if further is None:
                del self.delayed[waiting], self.causes[waiting]
                out.append(parcel)
            else:
                self._wait(waiting, further)
        return out

    def _wait(self, parcel: ParcelId, cause: Cause) -> None:
        self.causes[parcel] = cause
        self._behind[cause].append(parcel)

    def _cause(self, parcel: Parcel) -> Cause | None:
        """Something that has to be delivered here before this parcel."""
        expected = self._expected.get(parcel.talk, {})
        for sender, count in parcel.past:
            numbers = expected.get(sender)
            if numbers is not None and numbers.lowest <= count:
                return ParcelId(sender, numbers.lowest)
        if parcel.order > self.ordered.get(parcel.talk, 0) + 1:
            return parcel.talk, parcel.order - 1
        return None

    def state(self) -> DelayedState:
        """All of it, for a snapshot."""
        waiting = [SenderNumbers(one, numbers.firsts, numbers.lasts) for one, numbers in self.waiting.items()]
        expected = [
            TalkNumbers(talk, SenderNumbers(one, numbers.firsts, numbers.lasts))
            for talk, senders in self._expected.items()
            for one, numbers in senders.items()
        ]
        behind = [_behind_state(cause, parcels) for cause, parcels in self._behind.items()]
        return DelayedState(waiting, expected, list(self.delayed.values()), behind, list(self.ordered.items()))


def delayed_from(me: ClusterId, state: DelayedState) -> DelayedParcels:
    """The parcels of a snapshot."""
    found = DelayedParcels(me, ordered=dict(state.ordered))
    for one in state.waiting:
        found.waiting[one.sender] = one.numbers()
    for talk, one in state.expected:
        found._expected.setdefault(talk, {})[one.sender] = one.numbers()
    found.delayed = {parcel.id: parcel for parcel in state.delayed}
    for behind in state.behind:
        cause: Cause = behind.parcel if behind.talk is None else (behind.talk, behind.order)
        found._behind[cause] = list(behind.waiting)
        found.causes.update(dict.fromkeys(behind.waiting, cause))
    return found


def _behind_state(cause: Cause, parcels: list[ParcelId]) -> BehindState:
    if isinstance(cause, ParcelId):
        return BehindState(cause, None, 0, parcels)
    return BehindState(ParcelId(ClusterId(0), 0), cause[0], cause[1], parcels)
