"""The words between groups and sessions; those towards the membership are its own."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, final

from hopring.groups.names import GroupMember, GroupViewId
from hopring.ids import GroupName, Process, ViewId
from hopring.links.events import Tick
from hopring.membership.events import Delivered, Installed, Resume, Rift, Stamped, TransitionalSignal, Withdraw
from hopring.ordering.entry import Position
from hopring.value import Value
from hopring.wire.bundle import Bundle, Run, decode_bundle, pick

# From sessions.


@dataclass(frozen=True, slots=True)
class Connect:
    """A session begins; its number is new in this life of the daemon."""

    session: int
    name: str
    priority: bool = False  # Its requests go before those of others.


@dataclass(frozen=True, slots=True)
class Disconnect:
    """A session ends, by its own wish or because it died; what it asked for before still goes out."""

    session: int


@dataclass(frozen=True, slots=True)
class JoinGroup:
    """A session wants to be a member."""

    session: int
    group: GroupName


@dataclass(frozen=True, slots=True)
class LeaveGroup:
    """A session wants to be a member no longer."""

    session: int
    group: GroupName


@final
class Send(Value):
    """A run of messages of one session, sealed; its groups may be any, private ones too."""

    def __init__(self, session: int, run: Run, bundle: bytes | memoryview) -> None:
        self.session: Final = session
        self.run: Final = run
        self.bundle: Final = bundle


# To sessions.


class Cause(StrEnum):
    """Why there is a new view."""

    JOIN = "join"
    LEAVE = "leave"
    DISCONNECT = "disconnect"
    NETWORK = "network"


class RefusalReason(StrEnum):
    """Why a request is not carried out."""

    ILLEGAL_NAME = "illegal name"
    NAME_IN_USE = "name in use"  # Until the end of its last holder has its place in the order.
    ILLEGAL_GROUP = "illegal group"
    ALREADY_MEMBER = "already a member"
    NOT_A_MEMBER = "not a member"


@dataclass(frozen=True, slots=True)
class SessionConnected:
    """The session is there."""

    session: int
    private_group: GroupName


@dataclass(frozen=True, slots=True)
class RequestRefused:
    """A request that nothing comes of; a session whose name is refused is not there."""

    session: int
    refusal: RefusalReason
    name: str  # Of the session or the group.


@dataclass(frozen=True, slots=True)
class GroupView:
    """Who is in a group from here on."""

    group: GroupName
    id: GroupViewId
    members: tuple[GroupMember, ...]
    together: tuple[GroupMember, ...]  # Those who come from the same view as the receiver, itself included.
    cause: Cause
    who: GroupMember | None = None  # Who joined, left or disconnected.
    sets: tuple[
        tuple[GroupMember, ...], ...
    ] = ()  # After a change of network: the members by where they came from.


@dataclass(frozen=True, slots=True)
class ShowView:
    """These sessions have a new view."""

    sessions: tuple[int, ...]
    view: GroupView


@dataclass(frozen=True, slots=True)
class ShowSignal:
    """The group's view is closing; what follows until the next one is promised only among `together`."""

    sessions: tuple[int, ...]
    group: GroupName
    id: GroupViewId
    together: tuple[GroupMember, ...]


@dataclass(frozen=True, slots=True)
class LeftGroup:
    """The session's own leave has its place here."""

    session: int
    group: GroupName


@dataclass(frozen=True, slots=True)
class SessionGone:
    """The session's end has its place here; nothing follows, and the name is free."""

    session: int
    name: str


@dataclass(frozen=True, slots=True)
class PresenceReport:
    """Another daemon tells which of the private groups of a session's bundle were of sessions there."""

    session: int  # That sent the bundle.
    position: Position
    process: Process
    present: tuple[tuple[int, int], ...]  # The group's place in the bundle's list, and the session there.


@final
class DeliverBundle(Value):
    """A bundle for these sessions, each once."""

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
        """What these sessions get of it."""
        return self.bundle if self.only is None else decode_bundle(pick(self.bundle, self.only))


Request = Connect | Disconnect | JoinGroup | LeaveGroup | Send
FromBelow = Delivered | Stamped | Rift | TransitionalSignal | Installed
Input = Request | FromBelow | Tick
Output = (
    SessionConnected
    | RequestRefused
    | ShowView
    | ShowSignal
    | LeftGroup
    | SessionGone
    | PresenceReport
    | DeliverBundle
    | Resume
    | Withdraw
)
