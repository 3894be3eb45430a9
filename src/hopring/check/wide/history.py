"""The history of a world of clusters: what client processes did and saw, and what disks and links show.

Invariants  a message is named by its client and number, and is known by what its body says; the protocol's own
            vectors are not looked at. Events are in the order in which they happened.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from hopring.check.durable_log import DurableLogEvent
from hopring.haul.ids import ClusterId, ClusterMask, ParcelId, Talk, is_in
from hopring.haul.order.events import CastKind, Parcel


@dataclass(frozen=True, slots=True)
class WideSent:
    """A client process sends a message."""

    client: str
    cluster: ClusterId
    message: str
    set: str
    talk: Talk
    kind: CastKind
    destinations: ClusterMask
    entry: int
    number: int = 0  # Of the client's requests.
    notify: bool = True  # Whether its group is to be told when all have it.


@dataclass(frozen=True, slots=True)
class WideAccepted:
    """A client is told that its message is accepted."""

    client: str
    message: str
    parcel: ParcelId
    on_disk: tuple[str, ...]  # The members of its cluster that have the request on disk then.
    members: int  # How many are configured.


@dataclass(frozen=True, slots=True)
class WideNotDone:
    """A client is told that its message is refused: nobody gets it."""

    client: str
    message: str


@dataclass(frozen=True, slots=True)
class WideLogged:
    """A cluster has a parcel with its body in its accepted log."""

    cluster: ClusterId
    set: str
    id: ParcelId


@dataclass(frozen=True, slots=True)
class WideSeen:
    """A client process gets an item of a set: a message, or that all destinations have one."""

    client: str
    cluster: ClusterId
    set: str
    number: int  # The delivery number.
    message: str = ""  # What the body says.
    parcel: Parcel | None = None
    everywhere: ParcelId | None = None


@dataclass(frozen=True, slots=True)
class WideFileSent:
    """A client process sends a file with a message."""

    message: str
    set: str
    name: str  # The place that it asks for; empty if any will do.
    digest: str  # Of the content that it says.


@dataclass(frozen=True, slots=True)
class WideFileSeen:
    """A client process gets a message with a file, and reads it."""

    client: str
    cluster: ClusterId
    set: str
    message: str
    path: str  # From the directory that has those of all sets.
    digest: str  # Of the content that it reads; empty if nothing is there.


@dataclass(frozen=True, slots=True)
class WideSourceGone:
    """A client process deletes the source of a file that was sent with a message."""

    cluster: ClusterId
    message: str


@dataclass(frozen=True, slots=True)
class WideCalled:
    """A client process makes a call with a message."""

    client: str
    cluster: ClusterId
    set: str
    call: str
    message: str
    to: ClusterId


@dataclass(frozen=True, slots=True)
class WideCallAccepted:
    """A host is told which parcel a call is, by a process that has made it, or asks again."""

    cluster: ClusterId
    set: str
    call: str
    parcel: ParcelId


@dataclass(frozen=True, slots=True)
class WideCallAnswerSent:
    """A client process answers a call, or is told that its answer is accepted."""

    cluster: ClusterId
    to: ClusterId
    set: str
    message: str  # That made the call.
    text: str
    accepted: bool


@dataclass(frozen=True, slots=True)
class WideCallAnswered:
    """A client process gets the answer to a call."""

    client: str
    cluster: ClusterId
    set: str
    call: str
    text: str


@dataclass(frozen=True, slots=True)
class WideFinished:
    """A durable consumer has done with an item."""

    consumer: str
    cluster: ClusterId
    set: str
    number: int


@dataclass(frozen=True, slots=True)
class WideDropped:
    """A cluster drops the body of a parcel."""

    cluster: ClusterId
    set: str
    id: ParcelId


@dataclass(frozen=True, slots=True)
class WideWaiting:
    """All that can move has moved, and these parcels wait at a cluster."""

    cluster: ClusterId
    set: str
    parcels: tuple[ParcelId, ...]


@dataclass(frozen=True, slots=True)
class WideRefused:
    """A cluster refuses what another one has sent."""

    cluster: ClusterId
    reason: str


@dataclass(frozen=True, slots=True)
class WideRest:
    """A cluster at the quiet end: what it still keeps, by name."""

    cluster: ClusterId
    kept: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class WideSwitched:
    """An operator is told that the link to a peer is off, or asks for it to be on."""

    cluster: ClusterId
    peer: ClusterId
    on: bool


@dataclass(frozen=True, slots=True)
class WideFrameSent:
    """A member sends a frame to a peer; `in_window`: whether the schedule of the link has a window now."""

    cluster: ClusterId
    peer: ClusterId
    member: str
    in_window: bool
    frame: str


@dataclass(frozen=True, slots=True)
class WideLimitSeen:
    """The highest value of something that has a limit."""

    cluster: ClusterId
    what: str
    highest: int
    limit: int


@dataclass(frozen=True, slots=True)
class WideLogEvent:
    """An event of the log of a cluster's members."""

    cluster: ClusterId
    members: tuple[str, ...]
    event: DurableLogEvent


WideEvent = (
    WideSent
    | WideAccepted
    | WideNotDone
    | WideLogged
    | WideSeen
    | WideFileSent
    | WideFileSeen
    | WideSourceGone
    | WideFinished
    | WideCalled
    | WideCallAccepted
    | WideCallAnswerSent
    | WideCallAnswered
    | WideDropped
    | WideWaiting
    | WideRefused
    | WideRest
    | WideSwitched
    | WideFrameSent
    | WideLimitSeen
    | WideLogEvent
)

Where = tuple[ClusterId, str]
"""A set at a cluster."""


_Kind = TypeVar("_Kind")


@dataclass(slots=True)
class WideHistory:
    """A history with its indexes."""

    events: tuple[WideEvent, ...]
    sent: dict[str, WideSent] = field(default_factory=dict)  # By message.
    bits: dict[str, int] = field(default_factory=dict)  # Messages as bits, in the order of the history.
    causes: dict[str, int] = field(default_factory=dict)  # What its client had sent and seen before, as bits.
    abcasts: int = 0
    not_done: int = 0  # Messages that were refused.
    for_talk: dict[tuple[str, Talk, ClusterId], int] = field(default_factory=dict)  # Messages for a cluster.
    lines: dict[Where, dict[int, WideSeen]] = field(default_factory=dict)  # By delivery number, as first seen.
    places: dict[Where, dict[str, int]] = field(default_factory=dict)  # The number of each message.
    accepted: dict[str, WideAccepted] = field(default_factory=dict)
    parcels: dict[tuple[str, ParcelId], str] = field(default_factory=dict)  # The message of a parcel of a set.
    sightings: dict[str, list[WideSeen]] = field(default_factory=dict)  # By client process.
    cluster_causes: dict[str, int] = field(default_factory=dict)
    """What the cluster of a message had sent and seen when it is first known to be accepted, as bits."""

    answered_by: dict[Where, set[ClusterId]] = field(default_factory=dict)
    """The clusters that have answered calls of a cluster: what they had sent and seen may be causes there."""

    def name(self, bits: int) -> str:
        """The first message among these."""
        return next(one for one, bit in self.bits.items() if bit & bits)

    def open_causes(self, where: Where, message: str) -> int:
        """The causes of a message within its talk that are for this cluster, and not before it in its line."""
        cluster, name = where
        theirs = self.causes[message] & self.for_talk.get((name, self.sent[message].talk, cluster), 0)
        theirs &= ~self.not_done
        places, open_causes = self.places.get(where, {}), 0
        here = places.get(message)
        while theirs:
            bit = theirs & -theirs
            theirs ^= bit
            place = places.get(self.ordered[bit.bit_length() - 1])
            if place is None or (here is not None and place >= here):
                open_causes |= bit
        return open_causes

    @property
    def ordered(self) -> list[str]:
        """All messages in the order in which they were sent."""
        return self._ordered

    _ordered: list[str] = field(default_factory=list)

    def of_kind(self, kind: type[_Kind]) -> list[_Kind]:
        """The events of one kind."""
        return [one for one in self.events if isinstance(one, kind)]


def index_wide(events: Iterable[WideEvent]) -> WideHistory:
    """Indexes a history for all properties."""
    history = WideHistory(tuple(events))
    seen: dict[tuple[str, str], int] = {}  # By client and set: causes through other sets are not promised.
    had: dict[Where, int] = {}
    for event in history.events:
        match event:
            case WideSent():
                _index_sent(history, seen, event)
            case WideSeen():
                _index_seen(history, seen, event)
                _index_cluster(history, had, event.message)
                if event.message in history.sent:
                    where = event.cluster, event.set
                    bits = history.bits[event.message] | history.cluster_causes[event.message]
                    had[where] = had.get(where, 0) | bits
            case WideCallAnswerSent(cluster, to, name):
                history.answered_by.setdefault((to, name), set()).add(cluster)
            case WideNotDone(_, message):
                history.not_done |= history.bits[message]
            case WideAccepted(_, message, parcel):
                history.accepted[message] = event
                _index_cluster(history, had, message)
                if message in history.sent:
                    history.parcels.setdefault((history.sent[message].set, parcel), message)
    return history


def _index_cluster(history: WideHistory, had: dict[Where, int], message: str) -> None:
    """A message is accepted in its cluster, where all clients together count as one."""
    sent = history.sent.get(message)
    if sent is not None and message not in history.cluster_causes:
        where = sent.cluster, sent.set
        for other in history.answered_by.get(where, ()):
            had[where] = had.get(where, 0) | had.get((other, sent.set), 0)
        history.cluster_causes[message] = had.get(where, 0)
        had[where] = had.get(where, 0) | history.bits[message]


def _index_sent(history: WideHistory, seen: dict[tuple[str, str], int], event: WideSent) -> None:
    bit = 1 << len(history.sent)
    history.sent[event.message], history.bits[event.message] = event, bit
    history._ordered.append(event.message)
    key = event.client, event.set
    history.causes[event.message] = seen.get(key, 0)
    seen[key] = seen.get(key, 0) | bit
    if event.kind is CastKind.ABCAST:
        history.abcasts |= bit
    for cluster in range(1, event.destinations.bit_length() + 1):
        if is_in(ClusterId(cluster), event.destinations):
            of_talk = event.set, event.talk, ClusterId(cluster)
            history.for_talk[of_talk] = history.for_talk.get(of_talk, 0) | bit


def _index_seen(history: WideHistory, seen: dict[tuple[str, str], int], event: WideSeen) -> None:
    history.sightings.setdefault(event.client, []).append(event)
    where = event.cluster, event.set
    history.lines.setdefault(where, {}).setdefault(event.number, event)
    if event.parcel is None:
        return
    history.places.setdefault(where, {}).setdefault(event.message, event.number)
    history.parcels.setdefault((event.set, event.parcel.id), event.message)
    if event.message in history.sent:
        key = event.client, event.set
        seen[key] = seen.get(key, 0) | history.bits[event.message] | history.causes[event.message]
