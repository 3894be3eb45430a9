"""Events between groups and sessions; those between groups and the engine are in `engine.py`."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal, final

from hopring.engine import (
    Delivered,
    Installed,
    Resume,
    Rift,
    Stamped,
    TransitionalSignal,
    Withdraw,
    Withheld,
)
from hopring.groups.locks import LockEnd
from hopring.groups.names import Fence, GroupMember, GroupViewId
from hopring.groups.retained import RetainedValue
from hopring.ids import NEVER, GroupName, Place, Process, ViewId
from hopring.links.events import Tick
from hopring.ordering.entry import Position
from hopring.value import Value
from hopring.wire.bundle import Bundle, BundleKey, decode_bundle, pick

# From sessions.


@dataclass(frozen=True, slots=True)
class Connect:
    """A session begins; its number is unique in this incarnation of the daemon."""

    session: int
    name: str
    priority: bool = False  # Its requests go before those of other sessions.
    impatient: bool = False  # Its messages to suspended groups are refused; otherwise they wait.


@dataclass(frozen=True, slots=True)
class Disconnect:
    """A session ends, at its request or because its connection failed; its earlier requests are still sent."""

    session: int


@dataclass(frozen=True, slots=True)
class JoinGroup:
    """A session asks to join a group."""

    session: int
    group: GroupName
    minimum: int = 0  # The fewest members that may go on; wire/rmp/lists.py has the codes.


@dataclass(frozen=True, slots=True)
class LeaveGroup:
    """A session asks to leave a group."""

    session: int
    group: GroupName


@dataclass(frozen=True, slots=True)
class ClaimLock:
    """A session asks for a lock of a group that it is in."""

    session: int
    group: GroupName
    lock: str
    serial: int  # Of the claim; a session does not use it twice.
    partial: bool = False  # A grant without a primary view is welcome, too.


@dataclass(frozen=True, slots=True)
class ReleaseLock:
    """A session gives up a claim, whether it holds the lock or waits."""

    session: int
    serial: int


@final
class Send(Value):
    """An encoded bundle of one session for any groups, private ones included."""

    def __init__(
        self, session: int, key: BundleKey, bundle: bytes | memoryview, deadline_us: int = NEVER
    ) -> None:
        self.session: Final = session
        self.key: Final = key
        self.bundle: Final = bundle
        self.deadline_us: Final = deadline_us  # From then on it is not given to the order.


# To sessions.


class Cause(StrEnum):
    """The cause of a group view."""

    JOIN = "join"
    LEAVE = "leave"
    DISCONNECT = "disconnect"
    NETWORK = "network"


class RefusalReason(StrEnum):
    """The reason why a request is refused."""

    ILLEGAL_NAME = "illegal name"
    NAME_IN_USE = "name in use"  # Until the KILL of its last holder has its place in the order.
    ILLEGAL_GROUP = "illegal group"
    ALREADY_MEMBER = "already a member"
    NOT_A_MEMBER = "not a member"


@dataclass(frozen=True, slots=True)
class SessionConnected:
    """The session is connected; it may send requests."""

    session: int
    private_group: GroupName


@dataclass(frozen=True, slots=True)
class GroupRequestRefused:
    """A request is refused; a session whose name is refused does not begin."""

    session: int
    refusal: RefusalReason
    name: str  # The name of the session or the group.


@dataclass(frozen=True, slots=True)
class GroupView:
    """A view of a group: its members from here on."""

    group: GroupName
    id: GroupViewId
    members: tuple[GroupMember, ...]
    together: tuple[GroupMember, ...]  # Members from the same view as the receiver, itself included.
    cause: Cause
    who: GroupMember | None = None  # The member that joined, left or disconnected.
    sets: tuple[tuple[GroupMember, ...], ...] = ()  # After a change of network: the members by last view.
    primary: bool = False  # Whether the daemons' view is.
    same: bool = False  # Nothing but `primary` has changed.
    suspended: bool = False  # The group is below its minimum.
    minimum: int = 0  # The one in force.


@dataclass(frozen=True, slots=True)
class ShowView:
    """A new view for these sessions."""

    sessions: tuple[int, ...]
    view: GroupView


@dataclass(frozen=True, slots=True)
class ShowSignal:
    """The group's view is closing: until the next one, guarantees hold among `together` only."""

    sessions: tuple[int, ...]
    group: GroupName
    id: GroupViewId
    together: tuple[GroupMember, ...]
    suspended: bool = False  # These are fewer than the group's minimum.
    minimum: int = 0  # The one in force.


@dataclass(frozen=True, slots=True)
class LeftGroup:
    """The session's own leave is ordered here."""

    session: int
    group: GroupName


@dataclass(frozen=True, slots=True)
class SessionGone:
    """The session's end is ordered here; nothing follows, and its name is free."""

    session: int
    name: str


@dataclass(frozen=True, slots=True)
class LockGranted:
    """The session holds the lock from this place in the order on, and until its lease or the lock has ended."""

    session: int
    serial: int
    group: GroupName
    lock: str
    fence: Fence
    place: Place
    lease_us: int  # What is left of it.


@dataclass(frozen=True, slots=True)
class LockEnded:
    """The session's claim has ended; if it held the lock, it holds it no more."""

    session: int
    serial: int
    group: GroupName
    lock: str
    end: LockEnd


@dataclass(frozen=True, slots=True)
class LeaseRenewed:
    """The session's locks are held this much longer from now."""

    session: int
    lease_us: int


@dataclass(frozen=True, slots=True)
class PresenceReport:
    """Another daemon reports which private groups of a bundle belong to sessions connected there."""

    session: int  # The sender of the bundle.
    position: Position
    process: Process
    present: tuple[tuple[int, int], ...]  # Index of the group in the bundle's list, and the session there.


@final
class DeliverBundle(Value):
    """A bundle for these sessions, once for each."""

    def __init__(
        self,
        sessions: tuple[int, ...],
        sender: GroupName,
        bundle: Bundle,
        view: ViewId,
        position: Position,
        only: tuple[int, ...] | None = None,
    ) -> None:
        self.sessions: Final = sessions
        self.sender: Final = sender  # The sender's private group.
        self.bundle: Final = bundle
        self.view: Final = view  # Of the daemons, in which it was stamped.
        self.position: Final = position
        self.only: Final = only  # Of a mixed bundle, the messages that are for them; None is all.

    def picked(self) -> Bundle:
        """The bundle reduced to the messages for these sessions."""
        return self.bundle if self.only is None else decode_bundle(pick(self.bundle, self.only))


@dataclass(frozen=True, slots=True)
class ShowRetained:
    """The retained value of a group, for sessions that have joined it, or whose group got it by a merge."""

    sessions: tuple[int, ...]
    group: GroupName
    value: RetainedValue


@dataclass(frozen=True, slots=True)
class RequestDenied:
    """A request is refused for a reason that the engine below has, with its remedy."""

    session: int
    request: Literal["join", "send"]
    name: str  # Of the group.
    reason: str
    remedy: str
    tickets: tuple[int, ...] = ()  # Of the messages that wait for receipts.


@final
class OwnDelivered(Value):
    """A bundle of a session here was delivered, by an engine that does not tell the session server itself."""

    def __init__(self, event: Delivered) -> None:
        self.event: Final = event


class EngineEvent(Value):
    """An event of another engine, which only the groups above that engine understand."""


SessionRequest = JoinGroup | LeaveGroup | ClaimLock | ReleaseLock | Send
Request = Connect | Disconnect | SessionRequest
FromBelow = Delivered | Stamped | Withheld | Rift | TransitionalSignal | Installed | EngineEvent
Input = Request | FromBelow | Tick
Output = (
    SessionConnected
    | GroupRequestRefused
    | ShowView
    | ShowSignal
    | LeftGroup
    | SessionGone
    | LockGranted
    | LockEnded
    | LeaseRenewed
    | PresenceReport
    | DeliverBundle
    | ShowRetained
    | RequestDenied
    | OwnDelivered
    | Resume
    | Withdraw
)
