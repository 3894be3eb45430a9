"""Events of the library, as frozen values in one order: messages, views, transitions, reconnections."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise, repeat
from typing import TYPE_CHECKING, Final, Generic, cast

import msgspec

from hopring.errors import Drop, PeerError
from hopring.groups.names import GroupViewId, ViewCause
from hopring.groups.private_groups import private_group
from hopring.ids import Place
from hopring.services import Service
from hopring.session import protocol
from hopring.session.frames import DeliveredBundle
from hopring.session.options import SlowPolicy
from hopring.wire.bundle import Bundle
from hopring.wire.envelope import decode_envelope
from hopring.wire.rmp.lists import MINIMUM_ALL, MINIMUM_MAJORITY

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T_co = TypeVar("T_co", covariant=True, default=bytes)
    V = TypeVar("V", default=bytes)
else:  # The defaults matter to type checkers only.
    from typing import TypeVar

    T_co = TypeVar("T_co", covariant=True)
    V = TypeVar("V")


class Headers(Mapping[str, str]):
    """The headers of a message: a mapping that does not change, and has a hash."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, str] | Sequence[tuple[str, str]] = ()) -> None:
        self._values = dict(values)

    def __getitem__(self, name: str) -> str:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return hash(frozenset(self._values.items()))

    def __eq__(self, other: object) -> bool:
        return self._values == (other._values if isinstance(other, Headers) else other)

    def __repr__(self) -> str:
        return f"Headers({self._values!r})"

    def __reduce__(self) -> tuple[type["Headers"], tuple[dict[str, str]]]:
        return Headers, (self._values,)


NO_HEADERS: Final = Headers()


@dataclass(frozen=True, slots=True, order=True)
class Member:
    """A session in a group. A later session of the same name is another member."""

    daemon: str
    name: str
    incarnation: int
    session: int

    @property
    def private_group(self) -> str:
        """The group for messages to this session alone."""
        return private_group(self.name, self.daemon)


class Message(msgspec.Struct, Generic[T_co], frozen=True, gc=False):
    """A message, in the view that was shown last; `T` is the type of its value, by the session's codec."""

    sender: str  # The sender's private group: an answer goes there.
    groups: tuple[str, ...]
    data: bytes
    service: Service
    type: int
    place: Place  # In the one order of all groups; messages of one bundle share it, Unreliable ones have none.
    headers: Headers = NO_HEADERS
    retained: bool = False
    """Whether it was kept from before this session joined, or came with another side of the network."""

    @property
    def value(self) -> T_co:
        """The body as a value of the application; without a codec, the body itself."""
        return cast("T_co", self.data)

    @property
    def undecodable(self) -> str:
        """Why the session's codec could not decode the body; empty if it could, or if there is no codec."""
        return ""


class Quorum(Enum):
    """Instead of a number: how many servers a request waits for, or how many members have to be left."""

    MAJORITY = "majority"
    ALL = "all"


MAJORITY: Final = Quorum.MAJORITY
ALL: Final = Quorum.ALL


def minimum_of(code: int) -> int | Quorum:
    """The minimum of a group, from its code on the wire; 1 if there is none."""
    if code == MINIMUM_ALL:
        return ALL
    return MAJORITY if code == MINIMUM_MAJORITY else max(code, 1)


@dataclass(frozen=True, slots=True)
class View:
    """The members of a group from here on."""

    group: str
    id: GroupViewId
    members: tuple[Member, ...]
    together: tuple[Member, ...]  # The members from the same view as this session, itself included.
    cause: ViewCause
    who: Member | None  # The member that joined, left or disconnected.
    sets: tuple[tuple[Member, ...], ...]  # After a change of network: the members by their previous views.
    primary: bool = False
    """Whether the daemons' view is primary: of several sides of a split at most one is. If only this changes,
    there is a view with the same members, whose cause is the network."""
    suspended: bool = False
    """Whether the group is below its minimum: nothing ordered is delivered in this view."""
    minimum: int | Quorum = 1
    """The minimum in force: the largest of the members, and of lost ones until the group goes on."""


@dataclass(frozen=True, slots=True)
class Suspended:
    """The group is below its minimum: nothing ordered is delivered until a view that is not suspended.

    It stands behind the view or the transition with which the suspension begins for this session.
    """

    group: str
    id: GroupViewId  # Of that view.
    members: tuple[Member, ...]  # Those that are left.
    minimum: int | Quorum  # The one that they do not meet.


@dataclass(frozen=True, slots=True)
class Transition:
    """The group's view is closing: until the next one, guarantees hold among these members only."""

    group: str
    id: GroupViewId
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class Ready:
    """The program has the state of the group now: that at this view. Messages since the view follow.

    It is the first event of a group with a state. Another one follows where the state was replaced or merged.
    """

    group: str
    view: View
    speakers: tuple[str, ...]  # The members whose states it is, by private group; none if nobody had one.
    merged: bool  # Whether several states were merged.


@dataclass(frozen=True, slots=True)
class Receipt:
    """The confirmation of a message for its sender; not an event."""

    groups: tuple[str, ...]
    service: Service
    place: Place  # In the one order of all groups; the message has the same.
    closing: bool  # Whether the view was closing: the service then holds among those who stay together only.
    members: int | None
    """The sessions that were in one of the groups at this place, each counted once. None if the view closed
    before the daemon of a private group had reported whether its session was there."""
    holders: int | None = None
    """The daemons (without daemons: the peers) that were known to have the message when it was delivered, if it
    is Safe or resilient; others may have it, too. None if it waited for nobody, or the view was closing."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request, as a handler gets it."""

    group: str
    data: bytes
    headers: Headers
    caller: str  # The caller's private group.
    service: Service
    place: Place  # In the one order of all groups: it tells which messages precede the request.
    again: bool  # It was sent before: another server may have done it, or this one before it was restarted.
    fence: int | None = None  # Of the handler lock, if it is for a handler: above that of all earlier holders.


@dataclass(frozen=True, slots=True)
class Reply:
    """A server's answer to a request."""

    server: str  # Its private group.
    data: bytes
    place: Place
    again: bool = False  # The server had sent it before, and has it from its cache.
    error: str = ""  # Why the server could not do it; empty if it has.

    @property
    def failed(self) -> bool:
        """Whether the server could not do it."""
        return bool(self.error)


class Replies(tuple[Reply, ...]):
    """The replies to one request, in the order in which they arrived."""

    __slots__ = ()

    @property
    def data(self) -> bytes:
        """The data of the first reply."""
        return self[0].data


@dataclass(frozen=True, slots=True)
class ReconnectGap:
    """A time without a connection. Messages to the groups in that time are missing."""

    lost_at_seconds: float  # When the loss was noticed; seconds since 1970, by the clock of this host.
    back_at_seconds: float
    reason: str  # Why the connection was lost.
    last: Place | None  # Of the last message before it.
    in_doubt: int
    """Messages that the daemon had not acknowledged: each is sent once or not at all. An acknowledged message
    is lost only if the daemon itself died before it passed it on."""
    tries: int


@dataclass(frozen=True, slots=True)
class Reconnected:
    """The session has reconnected under its name. The groups' views follow."""

    groups: tuple[str, ...]  # The groups that it was in, and joins again.
    daemon: str  # Perhaps another one; then the private group is another one too.
    private_group: str
    gap: ReconnectGap


@dataclass(frozen=True, slots=True)
class Gap:
    """Messages are missing here: the session did not keep up, and had chosen `slow="drop"`."""

    groups: tuple[str, ...]  # Of the missing messages; not all of them if `complete` is false.
    messages: int
    size_bytes: int
    complete: bool


@dataclass(frozen=True, slots=True)
class SlowWarning:
    """The session does not keep up: its backlog at the daemon is long, and at the limit its policy acts."""

    groups: tuple[str, ...]  # All groups of the session.
    waiting_bytes: int
    limit_bytes: int
    policy: SlowPolicy


@dataclass(frozen=True, slots=True)
class FlushRequest:
    """A view of a group with view synchrony is about to end: send what belongs to it, then call `flush_ok`."""

    group: str
    id: GroupViewId  # Of the view that ends.
    members: tuple[Member, ...]  # Those of the view that get what is sent from here on.


@dataclass(frozen=True, slots=True)
class Excluded:
    """The other members of a group with view synchrony went on without this session, which joins again.

    Messages that it sent since its last agreement may be missing everywhere. Its next view follows.
    """

    group: str
    id: GroupViewId  # Of the view that has ended for this session.
    reason: str


Event = (
    Message[V]
    | View
    | Transition
    | Suspended
    | Gap
    | SlowWarning
    | Reconnected
    | FlushRequest
    | Excluded
    | Ready
)


def bodies_of(bundle: Bundle, start: int, end: int) -> list[bytes]:
    """The bodies of a bundle's messages in a half-open range."""
    ends = bundle.offsets[start : end + 1].tolist()
    first = ends[0]
    whole = bytes(bundle.bodies[first : ends[-1]])
    return [whole[low - first : high - first] for low, high in pairwise(ends)]


def split_envelope(body: bytes) -> tuple[Headers, bytes]:
    """Separates headers and data; a malformed envelope counts as a part of the data."""
    decoded = decode_envelope(body)
    return (NO_HEADERS, body) if decoded is None else (Headers(decoded[0]), body[decoded[1] :])


_message: Final[Callable[..., Message]] = Message


def messages_of(delivered: DeliveredBundle, start: int, end: int) -> list[Message]:
    """The messages of a bundle in a half-open range."""
    key = delivered.bundle.key
    bodies, types = bodies_of(delivered.bundle, start, end), delivered.bundle.types[start:end].tolist()
    shared = (repeat(key.service), types, repeat(delivered.place))
    groups: Iterable[tuple[str, ...]] = repeat(key.groups)
    if key.mixed:
        alone = [(group,) for group in key.groups]
        groups = [alone[index] for index in delivered.bundle.group_indexes[start:end].tolist()]
    if key.enveloped:
        split = list(map(split_envelope, bodies))
        headers, bodies = [one[0] for one in split], [one[1] for one in split]
        return list(map(_message, repeat(delivered.sender), groups, bodies, *shared, headers))
    return list(map(_message, repeat(delivered.sender), groups, bodies, *shared))


def view_of(view: protocol.ViewNotice) -> View:
    """The event for a VIEW of the daemon."""
    if any(index >= len(view.members) for some in (view.together, *view.sets) for index in some):
        raise PeerError(Drop.INCONSISTENT, f"VIEW of {len(view.members)} members with an index beyond them")
    members = tuple([_member(one) for one in view.members])
    return View(
        view.group,
        view.id,
        members,
        tuple([members[index] for index in view.together]),
        view.cause,
        None if view.who is None else _member(view.who),
        tuple([tuple([members[index] for index in some]) for some in view.sets]),
        view.primary,
        view.suspended,
        minimum_of(view.minimum),
    )


def transition_of(signal: protocol.SignalNotice) -> Transition:
    """The event for a SIGNAL of the daemon."""
    return Transition(signal.group, signal.id, tuple([_member(one) for one in signal.together]))


def gap_of(gap: protocol.GapNotice) -> Gap:
    """The event for a GAP of the daemon."""
    return Gap(gap.groups, gap.messages, gap.size_bytes, gap.complete)


def groups_of(event: Event) -> tuple[str, ...]:
    """The groups whose readers get an event."""
    if isinstance(event, View | Transition | Suspended | FlushRequest | Excluded | Ready):
        return (event.group,)
    return event.groups


def _member(one: protocol.MemberEntry) -> Member:
    return Member(one.daemon, one.name, one.incarnation, one.session)
