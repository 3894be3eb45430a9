"""R1 to R4 and R17: the order of a ring, how the token passes, and that it visits everybody.

Each function goes through a history of peers and yields a fault for each violation.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from hopring.check.rmp.peer_events import (
    DataShown,
    ListSeen,
    PassConfirmed,
    PeerEvent,
    SlotsOrdered,
    number_of,
    process_of,
    source_of,
)
from hopring.check.rmp.peer_history import PeerHistory, PeerReceipts, Place, RingFault


def one_content(history: PeerHistory) -> Iterator[RingFault]:
    """R1: a timestamp of an epoch has one content."""
    known: dict[Place, tuple[str, str]] = {}
    for event in history.events:
        for place, content, who in _contents(event):
            first, said_by = known.setdefault(place, (content, who))
            if first != content:
                said = f"{_at(place)} is {first} as {said_by} says, and {content} as {who} says"
                yield RingFault(event, said)


def _contents(event: PeerEvent) -> Iterator[tuple[Place, str, str]]:
    match event:
        case SlotsOrdered(process=process, epoch=epoch, timestamp=timestamp, messages=messages):
            if event.members:
                yield (epoch, timestamp), _list(event.members), process
            else:
                yield (epoch, timestamp), f"an ACK of {process} to {event.next}", process
            for place, message in enumerate(messages, start=timestamp + 1):
                yield (epoch, place), message, process
        case DataShown(process=process, epoch=epoch, timestamp=timestamp, message=message) if timestamp:
            yield (epoch, timestamp), message, process
        case ListSeen(process=process, epoch=epoch, timestamp=timestamp, members=members):
            yield (epoch, timestamp), _list(members), process
        case _:
            pass


def _list(members: tuple[str, ...]) -> str:
    return f"the list {' '.join(members)}"


def _at(place: Place) -> str:
    return f"timestamp {place[1]} of epoch {place[0]}"


def rising_order(history: PeerHistory) -> Iterator[RingFault]:
    """R2: timestamps rise at every receiver, and the numbers of each source rise without gaps along them."""
    last: dict[tuple[str, int], int] = {}
    for event in history.events:
        if isinstance(event, ListSeen) or (
            isinstance(event, DataShown) and event.timestamp and event.service.total
        ):
            key = event.process, event.epoch
            if event.timestamp <= last.get(key, 0):
                before = last[key]
                goes = f"{event.process} goes from timestamp {before} to {event.timestamp}"
                yield RingFault(event, f"{goes} at {event.at_us} us")
            last[key] = event.timestamp
    for epoch in history.orderings:
        yield from _gaps(history, epoch)


def _gaps(history: PeerHistory, epoch: int) -> Iterator[RingFault]:
    """Numbers of a source that an epoch leaves out; a source that joins in it begins anew."""
    last: dict[str, int] = {}
    members: set[str] = set()
    for ordering in history.in_order(epoch):
        if ordering.members:
            new = {process_of(one) for one in set(ordering.members) - members}
            last = {source: number for source, number in last.items() if source not in new}
            members = set(ordering.members)
        for message in ordering.messages:
            source, number = source_of(message), number_of(message)
            if number != last.get(source, number - 1) + 1:
                after = f"{message} is ordered after {source}:{last[source]} in epoch {epoch}"
                yield RingFault(ordering, after)
            last[source] = number


def orders_without_holes(history: PeerHistory) -> Iterator[RingFault]:
    """R3: who orders, or confirms that the token is here, has received everything of its stay up to there."""
    receipts = PeerReceipts()
    begins = history.begins()
    made: dict[int, list[SlotsOrdered]] = {}
    judged: dict[tuple[str, int, int], _Judged] = {}
    for event in history.events:
        if isinstance(event, SlotsOrdered | PassConfirmed):
            key = event.process, receipts.ended[event.process], event.epoch
            # Who never installs a list of the epoch is not judged: what is before its list is unknown.
            if key in begins:
                mine = judged.setdefault(key, _Judged(begins[key]))
                until = event.timestamp + isinstance(event, PassConfirmed)
                for lacking in mine.lacks(receipts, event.process, made.get(event.epoch, []), until):
                    where = f"{event.timestamp} of epoch {event.epoch}"
                    does = "orders at" if isinstance(event, SlotsOrdered) else "confirms the token of"
                    yield RingFault(event, f"{event.process} {does} {where} without {lacking}")
            if isinstance(event, SlotsOrdered):
                made.setdefault(event.epoch, []).append(event)
        receipts.see(event)


@dataclass(slots=True)
class _Judged:
    """Which orderings of an epoch a process is not known to have received yet."""

    begin: int  # What is below was before its time.
    seen: int = 0
    open: list[SlotsOrdered] = field(default_factory=list)

    def lacks(
        self, receipts: PeerReceipts, process: str, made: list[SlotsOrdered], until: int
    ) -> Iterator[str]:
        """The first thing that it lacks of each ordering below this timestamp."""
        self.open += [one for one in made[self.seen :] if one.timestamp >= self.begin]
        self.seen = len(made)
        kept: list[SlotsOrdered] = []
        for one in self.open:
            lacking = receipts.lacks(process, one)
            if lacking:
                kept.append(one)
                if one.timestamp < until:
                    yield lacking
        self.open = kept


def passes_as_named(history: PeerHistory) -> Iterator[RingFault]:
    """R4: of two orderings next to each other, the first names who sends the second; each is made once."""
    for epoch in sorted(history.orderings):
        for one, other in pairwise(history.in_order(epoch)):
            if one.timestamp == other.timestamp:
                both = f"{one.process} and {other.process} both order at {_at((epoch, one.timestamp))}"
                yield RingFault(other, both)
            elif other.timestamp != one.last + 1:
                orders = f"{other.process} orders at {other.timestamp} of epoch {epoch}"
                yield RingFault(other, f"{orders}, behind {one.last}")
            elif one.next != other.process:
                place = _at((epoch, one.timestamp))
                names = f"{one.process} names {one.next} at {place}"
                yield RingFault(other, f"{names}, and {other.process} orders next")


ROTATION_SLACK: Final = 2
"""A rotation may have so many more orderings than members: behind the list of a leave its leaver orders once
more, and who recovered the ring orders twice."""


def visits_everybody(history: PeerHistory) -> Iterator[RingFault]:
    """R17: the token visits every member within one rotation, and so meets who is dead, or lacks a packet.

    A list with other members in between begins the rotation anew: a leaver is named at once.
    """
    for epoch in sorted(history.orderings):
        made = history.in_order(epoch)
        members: tuple[str, ...] = ()
        for at, one in enumerate(made):
            members = one.members or members
            missed = _missed(made, at, members)
            if missed:
                visits = f"the token does not visit {missed} in a rotation"
                yield RingFault(one, f"{visits} from timestamp {one.timestamp} on")


def _missed(made: list[SlotsOrdered], at: int, members: tuple[str, ...]) -> str:
    """A process of the list that makes none of the orderings of the rotation that begins here."""
    there = {process_of(one) for one in members}
    for one in made[at : at + len(members) + ROTATION_SLACK]:
        if one.members and one.members != members:
            return ""
        there.discard(one.process)
        if not there:
            return ""
    whole = at + len(members) + ROTATION_SLACK <= len(made)
    return min(there, default="") if whole else ""
