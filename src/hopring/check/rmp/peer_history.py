"""A history of peers, indexed once for R1 to R17: stays in lists, what was delivered there, and orderings."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

from hopring.check.rmp.peer_events import (
    BodySeen,
    DataSent,
    DataShown,
    ListClosed,
    ListSeen,
    OrderingSeen,
    PeerEvent,
    PeerSuspended,
    RingStayEnded,
    SlotsOrdered,
    process_of,
)

MINIMUM_MAJORITY: Final = 254
MINIMUM_ALL: Final = 255
MAJORITY_RESILIENCE: Final = 255

Kind = TypeVar("Kind", bound=PeerEvent)

Place = tuple[int, int]
"""An epoch and a timestamp."""


class RingFault(NamedTuple):
    """A violation: the event that breaks the property, and what is wrong with it."""

    event: PeerEvent
    text: str


@dataclass(slots=True, eq=False)
class ListStay:
    """The time of one member in one list."""

    installed: ListSeen
    at: int  # The number of the event in the history.
    before: "ListStay | None"  # None: it became a member with this list.
    after: "ListStay | None" = None
    shown: list[DataShown] = field(default_factory=list)
    cut: int | None = None  # The number of messages before the signal.
    ended: str = ""  # leave, removed or crash, if the membership ended here.
    number: int = 0  # How many stays in the ring the process has ended before.

    @property
    def process(self) -> str:
        """The process that is in the list."""
        return self.installed.process

    @property
    def member(self) -> str:
        """The process as the member that it is in the list."""
        return next((one for one in self.installed.members if process_of(one) == self.process), self.process)

    @property
    def place(self) -> Place:
        """The place of the list in the order."""
        return self.installed.epoch, self.installed.timestamp

    @property
    def before_signal(self) -> list[DataShown]:
        """What it delivered before the signal, or all if there was none."""
        return self.shown[: self.cut]


@dataclass(slots=True)
class PeerHistory:
    """A history as R1 to R17 take it."""

    events: list[PeerEvent]
    quiet_end: bool
    stays: dict[str, list[ListStay]] = field(default_factory=dict)  # By process.
    orderings: dict[int, list[SlotsOrdered]] = field(default_factory=dict)  # By epoch, as they were sent.
    lists: dict[Place, ListSeen] = field(default_factory=dict)  # As it was first installed.
    _places: dict[int, int] = field(default_factory=dict)  # By the identity of an event.

    def begins(self) -> dict[tuple[str, int, int], int]:
        """By process, number of its stay in the ring, and epoch: the timestamp of its first list there."""
        first: dict[tuple[str, int, int], int] = {}
        for stay in self.all_stays:
            key, timestamp = (stay.process, stay.number, stay.installed.epoch), stay.installed.timestamp
            first[key] = min(first.get(key, timestamp), timestamp)
        return first

    def place_of(self, event: PeerEvent) -> int:
        """The number of an event in the history."""
        if not self._places:
            for at, one in enumerate(self.events):
                self._places.setdefault(id(one), at)
        return self._places[id(event)]

    @property
    def all_stays(self) -> Iterator[ListStay]:
        """The stays of all processes."""
        return (stay for stays in self.stays.values() for stay in stays)

    def of_kind(self, kind: type[Kind]) -> Iterator[Kind]:
        """The events of one kind, in their order."""
        return (event for event in self.events if isinstance(event, kind))

    def in_order(self, epoch: int) -> list[SlotsOrdered]:
        """The orderings of an epoch by rising timestamps."""
        return sorted(self.orderings.get(epoch, ()), key=lambda one: one.timestamp)


def index_peers(events: Iterable[PeerEvent], quiet_end: bool) -> PeerHistory:
    """Indexes the history of one group."""
    history = PeerHistory(list(events), quiet_end)
    present: dict[str, ListStay] = {}
    ended: Counter[str] = Counter()
    for at, event in enumerate(history.events):
        match event:
            case ListSeen(process=process, epoch=epoch, timestamp=timestamp):
                stay = ListStay(event, at, present.get(process), number=ended[process])
                if stay.before is not None:
                    stay.before.after = stay
                present[process] = stay
                history.stays.setdefault(process, []).append(stay)
                history.lists.setdefault((epoch, timestamp), event)
            case RingStayEnded(process=process, cause=cause):
                ended[process] += 1
                last = present.pop(process, None)
                if last is not None:
                    last.ended = cause
            case DataShown(process=process) if process in present:
                present[process].shown.append(event)
            case ListClosed(process=process) if process in present:
                stay = present[process]
                stay.cut = len(stay.shown) if stay.cut is None else stay.cut
            case SlotsOrdered(epoch=epoch):
                history.orderings.setdefault(epoch, []).append(event)
            case _:
                pass
    return history


@dataclass(slots=True)
class PeerReceipts:
    """What each process has received so far, while a check goes through a history."""

    orderings: dict[tuple[str, int], set[int]] = field(default_factory=dict)
    bodies: dict[str, set[str]] = field(default_factory=dict)
    suspended: set[str] = field(default_factory=set)
    ended: Counter[str] = field(default_factory=Counter)  # By process: the stays that it has ended.

    def see(self, event: PeerEvent) -> None:
        """Takes one event into account."""
        match event:
            case SlotsOrdered(process=process, epoch=epoch, timestamp=timestamp):
                self.orderings.setdefault((process, epoch), set()).add(timestamp)
            case OrderingSeen(process=process, epoch=epoch, timestamp=timestamp):
                self.orderings.setdefault((process, epoch), set()).add(timestamp)
            case BodySeen(process=process, message=message) | DataSent(process=process, message=message):
                self.bodies.setdefault(process, set()).add(message)
            case PeerSuspended(process=process):
                self.suspended.add(process)
            case ListSeen(process=process):
                self.suspended.discard(process)
            case RingStayEnded(process=process):
                self.suspended.discard(process)
                self.ended[process] += 1
            case _:
                pass

    def lacks(self, process: str, ordering: SlotsOrdered) -> str:
        """The first part of an ordering that the process has not received; empty if it has all of it."""
        if ordering.timestamp not in self.orderings.get((process, ordering.epoch), ()):
            return f"timestamp {ordering.timestamp}"
        bodies = self.bodies.get(process, set())
        return next((message for message in ordering.messages if message not in bodies), "")


def needed_of(before: ListSeen) -> int:
    """How many members have to go on after this list breaks."""
    return needed_with(before.minimum, len(before.members))


def needed_with(minimum: int, members: int) -> int:
    """How many of so many members have to go on, by the minimum that they have stated."""
    if minimum == MINIMUM_ALL:
        return members
    return members // 2 + 1 if minimum == MINIMUM_MAJORITY else minimum
