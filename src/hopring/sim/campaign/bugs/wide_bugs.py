"""Planted bugs of the long-haul service: the rules as the paper prints them, and mistakes around them."""

from collections.abc import Callable
from typing import Any, Final

from hopring.haul.ids import ClusterId, ParcelId, is_in, without
from hopring.haul.order.delaying import Cause, DelayedParcels
from hopring.haul.order.descriptors import DescriptorBuffer
from hopring.haul.order.events import Cast, CastKind, DeliverParcel, HaulOutput, Parcel, ParcelsEverywhere, Past
from hopring.haul.order.numbers import NumberSet
from hopring.haul.order.runs import DescriptorRun
from hopring.haul.order.wide_set import WideSet
from hopring.sim.campaign.bugs.planting import Bug, wide_bug

_Forgotten = list[tuple[ClusterId, int, int]]


def _refused_behind_the_first(learn: Callable[..., list[DescriptorRun]]) -> Any:
    def learns_of_each_sender_once(
        self: DescriptorBuffer, source: ClusterId, descriptors: tuple[DescriptorRun, ...]
    ) -> list[DescriptorRun]:
        valid = [one for one in descriptors if not self.runs[one.sender] or self.find(ParcelId(*one[:2]))]
        return learn(self, source, valid)

    return learns_of_each_sender_once


def _to_destinations(changed: Callable[..., None]) -> Any:
    def tells_the_destinations(self: DescriptorBuffer, run: DescriptorRun, source: ClusterId | None) -> None:
        due = self.due
        self.due = {one: theirs for one, theirs in due.items() if is_in(one, run.destinations)}
        changed(self, run, source)
        self.due = due

    return tells_the_destinations


def _own_only(past_now: Callable[..., Past]) -> Any:
    def past_without_others(self: WideSet) -> Past:
        return tuple([one for one in past_now(self) if one[0] == self.me])

    return past_without_others


def _all_there_is(cause: Callable[..., Cause | None]) -> Any:
    def waits_for_everything(self: DelayedParcels, parcel: Parcel) -> Cause | None:
        for sender, numbers in sorted(self._expected.get(parcel.talk, {}).items()):
            first = ParcelId(sender, numbers.lowest)
            if first != parcel.id:
                return first
        return cause(self, parcel)

    return waits_for_everything


def _notes_newness(arrived: Callable[..., None]) -> Any:
    def notes_whether_the_descriptor_is_new(self: Any, event: Any) -> None:
        self.is_new = self.descriptors.find(event.parcel.id) is None
        arrived(self, event)

    return notes_whether_the_descriptor_is_new


def _if_new(log: Callable[..., None]) -> Any:
    def keeps_the_bit(self: Any, parcel: Parcel) -> None:
        if parcel.id.sender == self.me or self.is_new:
            log(self, parcel)
        elif (deliverable := self.delayed.add(parcel)) is not None:
            self._deliver(deliverable)

    return keeps_the_bit


def _known_is_what_is_kept(forget: Callable[..., _Forgotten]) -> Any:
    def forgets_what_it_knew(self: DescriptorBuffer, waiting: dict[ClusterId, NumberSet]) -> _Forgotten:
        out = forget(self, waiting)
        for sender, first, last in out:
            if sender != self.me and self.known[sender] == last and not self.runs[sender]:
                self.known[sender] = first - 1
        return out

    return forgets_what_it_knew


def _although_it_waits(forget: Callable[..., _Forgotten]) -> Any:
    return lambda self, _waiting: forget(self, {})


def _on_arrival(log: Callable[..., None]) -> Any:
    def counts_when_it_arrives(self: WideSet, parcel: Parcel) -> None:
        for cluster, count in (*parcel.past, parcel.id):
            self._past[cluster] = max(self._past.get(cluster, 0), count)
        log(self, parcel)

    return counts_when_it_arrives


def _at_once(log: Callable[..., None]) -> Any:
    def delivers_own_first(self: WideSet, parcel: Parcel) -> None:
        if parcel.id.sender == self.me and parcel.kind is CastKind.CBCAST:
            self.descriptors.received(parcel.id)
            self._deliver(parcel)
        else:
            log(self, parcel)

    return delivers_own_first


def _order_is_all(cause: Callable[..., Cause | None]) -> Any:
    def abcasts_have_no_past(self: DelayedParcels, parcel: Parcel) -> Cause | None:
        found = cause(self, parcel)
        relayed = parcel.kind is CastKind.ABCAST and isinstance(found, ParcelId)
        return None if relayed and parcel.order == self.ordered.get(parcel.talk, 0) + 1 else found

    return abcasts_have_no_past


def _any_turn(cause: Callable[..., Cause | None]) -> Any:
    def does_not_wait_its_turn(self: DelayedParcels, parcel: Parcel) -> Cause | None:
        found = cause(self, parcel)
        return found if isinstance(found, ParcelId) else None

    return does_not_wait_its_turn


def _but_one(changed: Callable[..., None]) -> Any:
    def complete_without_one(self: DescriptorBuffer, run: DescriptorRun, source: ClusterId | None) -> None:
        changed(self, run, source)
        if run.missing and without(run.missing, self.me) & (run.missing - 1) == 0:
            self.complete[run.sender].add(run.first, run.last)

    return complete_without_one


def _told_when_sent(cast: Callable[..., None]) -> Any:
    def everybody_has_it(self: WideSet, event: Cast) -> None:
        cast(self, event)
        number = self.descriptors.known[self.me]
        self._out.append(ParcelsEverywhere(number, number))

    return everybody_has_it


def _another_entry(deliver: Callable[..., list[HaulOutput]]) -> Any:
    def relays_with_entry_zero(self: WideSet, event: Any, now_us: int) -> list[HaulOutput]:
        outputs = deliver(self, event, now_us)
        return [
            DeliverParcel(_with_entry_zero(one.parcel))
            if isinstance(one, DeliverParcel) and one.parcel.order
            else one
            for one in outputs
        ]

    return relays_with_entry_zero


def _with_entry_zero(parcel: Parcel) -> Parcel:
    return Parcel(parcel.id, parcel.talk, parcel.kind, parcel.destinations, 0, parcel.past, parcel.order)


_BUFFER: Final = "hopring.haul.order.descriptors:DescriptorBuffer"
_DELAYED: Final = "hopring.haul.order.delaying:DelayedParcels"
_SET: Final = "hopring.haul.order.wide_set:WideSet"

BUGS: Final[tuple[Bug, ...]] = (
    wide_bug(
        "validity-reversed",
        "long-haul 5.2.3: a descriptor above all known ones is new",
        "a descriptor is refused if an earlier one of its sender is known, as 5.2.2 prints it",
        (f"{_BUFFER}.learn", _refused_behind_the_first),
    ),
    wide_bug(
        "to-destinations-only",
        "long-haul 5.2.2: every cluster of the set learns of every descriptor",
        "new descriptors and changes are told to the destinations of the parcel only",
        (f"{_BUFFER}._changed", _to_destinations),
    ),
    wide_bug(
        "list-is-past",
        "long-haul 5.2: a parcel carries its whole past",
        "the past of a parcel is that of its sender alone",
        (f"{_SET}._past_now", _own_only),
    ),
    wide_bug(
        "all-is-past",
        "long-haul 5.2: what is not in the past is no cause",
        "a parcel waits for all parcels of its talk that are known",
        (f"{_DELAYED}._cause", _all_there_is),
    ),
    wide_bug(
        "bit-if-new",
        "long-haul 5.2.3: a bit is cleared when the parcel itself is here",
        "a bit is cleared only if the descriptor comes first with its parcel",
        (f"{_SET}._arrived", _notes_newness),
        (f"{_SET}._log", _if_new),
    ),
    wide_bug(
        "known-forgotten",
        "long-haul 5.2.3: what was known of a sender is never forgotten",
        "with the last descriptor of a sender it is forgotten that there was one",
        (f"{_BUFFER}.forget", _known_is_what_is_kept),
    ),
    wide_bug(
        "collected-delayed",
        "long-haul 5.2.3: a descriptor stays until its parcel is delivered here",
        "a descriptor goes, with the body, although its parcel waits here",
        (f"{_BUFFER}.forget", _although_it_waits),
    ),
    wide_bug(
        "causes-on-arrival",
        "long-haul 5.2.2: causes count from delivery",
        "a parcel that has arrived counts as a cause though it is not delivered",
        (f"{_SET}._log", _on_arrival),
    ),
    wide_bug(
        "local-at-once",
        "long-haul 5.2.1: the sender's own cluster is a destination like any other",
        "the sender's cluster delivers its own cbcasts at once",
        (f"{_SET}._log", _at_once),
    ),
    wide_bug(
        "pair-request",
        "long-haul 4.2.2: abcasts and cbcasts keep their causes among each other",
        "an abcast that the coordinator relays waits for its turn only",
        (f"{_DELAYED}._cause", _order_is_all),
    ),
    wide_bug(
        "order-not-waited",
        "long-haul 4.2.2: abcast k waits for k - 1",
        "an abcast does not wait for its turn",
        (f"{_DELAYED}._cause", _any_turn),
    ),
    wide_bug(
        "body-gone-early",
        "property W12: no body goes while a destination lacks it",
        "a parcel counts as complete although one destination lacks it",
        (f"{_BUFFER}._changed", _but_one),
    ),
    wide_bug(
        "told-before-all",
        "property W8: completion is honest",
        "the sender is told at once that all have a parcel",
        (f"{_SET}._cast", _told_when_sent),
    ),
    wide_bug(
        "body-altered",
        "property W1: nothing is altered",
        "an abcast is delivered at entry point 0",
        (f"{_SET}.step", _another_entry),
    ),
)
