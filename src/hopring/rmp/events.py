"""Events of a ring: one group of RMP at one of its members.

Below       a driver, which sends packets, draws the nonce of the process, and knows the time.
Above       the groups of a process, which make views, messages and receipts of a session of these events.
Invariants  `ListInstalled` begins every stay in a list; nothing is delivered in order while the ring is
            suspended; an own packet is `DataOrdered` before it is delivered in order.

A ring begins with `JoinRing` and ends with `RingLeft` or `JoinFailed`. After `RemovedFromRing` it may be joined
again: its process is then another member. A ring knows nothing of sessions: a process has one.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, final

from hopring.links.events import Tick
from hopring.services import Service
from hopring.value import Value
from hopring.wire.rmp.ids import Ballot, DataId, ListMembership, PeerProcess
from hopring.wire.rmp.lists import PeerList
from hopring.wire.rmp.packets import NO_HANDLER, RmpPacket

# From the process.


@dataclass(frozen=True, slots=True)
class JoinRing:
    """Asks who is there, and joins the ring that answers; founds one if none does."""

    name: str = ""  # Of the member, for the others.
    minimum: int = 1  # The fewest members that may go on, or MINIMUM_MAJORITY or MINIMUM_ALL.
    ttl: int = 0
    capable: bool = True  # It receives multicasts.
    found: bool = True  # With a minimum of majority or all, a ring is founded only if this says so (trap 16).
    via: tuple[PeerProcess, ...] = ()  # Explicit naming: members to ask by unicast (paper 3.3).
    fence: int = 0  # Where the fences of a founded ring start: `first_fence` of the wall clock.


@dataclass(frozen=True, slots=True)
class LeaveRing:
    """Leaves: the member answers others until everything it holds is stable."""


@final
class SubmitData(Value):
    """A bundle for all members, numbered in the order of its submission; Unreliable ones are numbered apart."""

    def __init__(
        self, service: Service, body: bytes, resilience: int = 0, handler: int = NO_HANDLER, ticket: int = 0
    ) -> None:
        self.service: Final = service
        self.body: Final = body
        self.resilience: Final = resilience
        self.handler: Final = handler
        self.ticket: Final = ticket  # Comes back with `DataOrdered`, and with what is delivered of oneself.


@dataclass(frozen=True, slots=True)
class ClaimRingLock:
    """Asks for a lock; the claim waits in the list until it is the first."""

    lock: str
    serial: int  # Of the claim; a member does not use it twice.
    partial: bool = False  # A grant without a primary list is welcome, too.


@dataclass(frozen=True, slots=True)
class ReleaseRingLock:
    """Gives up a claim, whether it holds the lock or waits."""

    serial: int


@final
class SubmitReply(Value):
    """The reply to a call of a process that is not a member, which this member was asked to answer."""

    def __init__(self, id: DataId, body: bytes) -> None:
        self.id: Final = id
        self.body: Final = body


@dataclass(frozen=True, slots=True)
class RingStalled:
    """The driver did not run for this long: the others were not necessarily silent."""

    for_us: int


@final
class PacketArrived(Value):
    """A packet whose header names this group, from the process that sent the datagram."""

    def __init__(self, packet: RmpPacket, epoch: int, sender: PeerProcess) -> None:
        self.packet: Final = packet
        self.epoch: Final = epoch  # The generation in the header: of the sender's epoch, 0 if it has none.
        self.sender: Final = sender  # The packet's `source` may be another process: whoever has it resends it.


# To the driver.


@final
class MulticastPacket(Value):
    """Sends a packet to the group, and by unicast to each member that is not capable of multicast."""

    def __init__(self, packet: RmpPacket, epoch: int, unicast_too: tuple[PeerProcess, ...] = ()) -> None:
        self.packet: Final = packet
        self.epoch: Final = epoch
        self.unicast_too: Final = unicast_too


@final
class UnicastPacket(Value):
    """Sends a packet to one process."""

    def __init__(self, packet: RmpPacket, epoch: int, to: PeerProcess, forward: bool = False) -> None:
        self.packet: Final = packet
        self.epoch: Final = epoch
        self.to: Final = to
        self.forward: Final = forward  # The receiver takes it and sends it on to the group (paper 3.4).


# To the process.


class ListCause(StrEnum):
    """The cause of a new list."""

    JOIN = "join"  # Also of a founded ring.
    LEAVE = "leave"
    LOCK = "lock"  # The members are the same.
    FAILURE = "failure"  # A recovery made it.


@dataclass(frozen=True, slots=True)
class ListInstalled:
    """A new list at this place in the order: delivered where a message with its timestamp would be."""

    list: PeerList
    together: frozenset[ListMembership]  # Members that come from the same list as this one, itself included.
    cause: ListCause
    who: ListMembership | None = None  # The member that joined or left, or that asked for a lock.
    primary: bool = False  # Only one side of any split can be; never without a minimum of majority or all.


@dataclass(frozen=True, slots=True)
class ListClosing:
    """The transitional signal: until the next list, guarantees hold among `together` only."""

    list: PeerList  # The one that closes.
    together: frozenset[ListMembership]
    next: Ballot  # The epoch of the list that follows.


@final
class DataDelivered(Value):
    """A message of the group."""

    def __init__(
        self,
        id: DataId,
        timestamp: int,  # Its place in the order of its epoch; 0 of an early one that has none yet.
        service: Service,
        resilience: int,
        handler: int,
        body: bytes,
        ticket: int = 0,  # Of an own one.
        withheld: bool = False,  # A majority resilient one without a primary list: no member shows it.
        holders: int = 0,  # Of an own one that waited for some: members that are known to have it.
    ) -> None:
        self.id: Final = id
        self.timestamp: Final = timestamp
        self.service: Final = service
        self.resilience: Final = resilience
        self.handler: Final = handler
        self.body: Final = body
        self.ticket: Final = ticket
        self.withheld: Final = withheld
        self.holders: Final = holders


@final
class DataOrdered(Value):
    """An own packet has its place in the order."""

    def __init__(self, id: DataId, epoch: Ballot, timestamp: int, ticket: int) -> None:
        self.id: Final = id
        self.epoch: Final = epoch
        self.timestamp: Final = timestamp
        self.ticket: Final = ticket


@dataclass(frozen=True, slots=True)
class RingSuspended:
    """Fewer members than the minimum are left: nothing is ordered, and what is sent waits (trap 25)."""

    present: frozenset[ListMembership]
    needed: int


@dataclass(frozen=True, slots=True)
class RingLeft:
    """The own leave is in the order; nothing is delivered any more."""


@dataclass(frozen=True, slots=True)
class RemovedFromRing:
    """The others went on without this member: it may come back as another one."""

    in_doubt: tuple[int, ...]  # Tickets of own packets without a place in the order, as far as is known here.


class JoinFailure(StrEnum):
    """The reason why a join ended."""

    NOBODY = "nobody is there, and founding was not asked for"
    FULL = "the list is full"
    LOCKS = "all locks are taken"


@dataclass(frozen=True, slots=True)
class JoinFailed:
    """There is no ring to be in."""

    failure: JoinFailure


@dataclass(frozen=True, slots=True)
class RingLockGranted:
    """This member holds the lock from here on."""

    lock: str
    serial: int
    fence: int
    timestamp: int


@dataclass(frozen=True, slots=True)
class RingLockEnded:
    """A claim of this member has ended."""

    lock: str
    serial: int
    reason: str


@final
class AnswerRequested(Value):
    """This member holds the handler lock of a delivered packet, and is to answer it.

    The reply to a process that is not a member goes to it alone, by `SubmitReply`; one to a member is a message
    to the group.
    """

    def __init__(
        self, id: DataId, timestamp: int, handler: int, body: bytes, stranger: bool, again: bool = False
    ) -> None:
        self.id: Final = id
        self.timestamp: Final = timestamp
        self.handler: Final = handler
        self.body: Final = body
        self.stranger: Final = stranger
        self.again: Final = again  # It was delivered before: another holder may have acted on it (trap 23).


RingRequest = JoinRing | LeaveRing | SubmitData | ClaimRingLock | ReleaseRingLock | SubmitReply
RingInput = RingRequest | RingStalled | PacketArrived | Tick
RingEffect = MulticastPacket | UnicastPacket
RingNews = (
    ListInstalled
    | ListClosing
    | DataDelivered
    | DataOrdered
    | RingSuspended
    | RingLeft
    | RemovedFromRing
    | JoinFailed
    | RingLockGranted
    | RingLockEnded
    | AnswerRequested
)
RingOutput = RingEffect | RingNews
