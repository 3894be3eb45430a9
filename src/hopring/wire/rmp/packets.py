"""The packets of RMP (figure 4.1) as values: eight of a ring and its changes, four of recovery.

The head of all of them is the header of the datagram: group, sender's nonce and epoch. So a packet names
processes only where it is not about its sender, and each of the twelve says who made it: a packet that is sent
again by another member is the same packet.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from hopring.services import Service
from hopring.wire.rmp.ids import Ballot, DataId, PeerProcess
from hopring.wire.rmp.lists import ListId, PeerList

TUPLES_MAX: Final = 48
"""The most Data packets that one ACK orders: with them it fits a datagram of 1,400 bytes."""

HOLES_MAX: Final = 64
"""The most packets that one NACK asks for, by timestamp and by tuple together."""

EARLY_MAX: Final = 128
"""The most Reliable packets above gaps that a sync point names; a member delivers no more of them."""

BODY_BYTES_MAX: Final = 60_000
"""The longest body of a Data packet: one bundle, which with its packet fits a train."""

NO_HANDLER: Final = 255


class PacketType(IntEnum):
    """The types of the twelve packets."""

    DATA = 1
    ACK = 2
    CONFIRM = 3
    NACK = 4
    NEW_LIST = 5
    LIST_CHANGE_REQUEST = 6
    RECOVERY_START = 7
    RECOVERY_VOTE = 8
    RECOVERY_ACK_NEW_LIST = 9
    RECOVERY_ABORT = 10
    NON_MEMBER_DATA = 11
    NON_MEMBER_ACK = 12


@dataclass(frozen=True, slots=True)
class DataPacket:
    """A bundle of a member for all members. Unreliable ones are numbered apart (trap 4)."""

    id: DataId
    service: Service
    resilience: int
    handler: int
    body: bytes


@dataclass(frozen=True, slots=True)
class AckPacket:
    """Orders Data packets, and passes the token; without any it is a NULL ACK."""

    source: PeerProcess
    timestamp: int
    next: PeerProcess  # The next token site.
    ordered: tuple[DataId, ...] = ()

    @property
    def last(self) -> int:
        """The timestamp of the last packet that it orders, or its own."""
        return self.timestamp + len(self.ordered)


@dataclass(frozen=True, slots=True)
class ConfirmPacket:
    """Tells the last token site that the token was accepted."""

    source: PeerProcess
    timestamp: int  # Of the ACK or New List that passed it.
    consecutive: int  # The sender has everything up to here: who is slow differs from who is dead (trap 8).


@dataclass(frozen=True, slots=True)
class NackPacket:
    """Asks for packets by timestamp, or by tuple; one site is to answer, or anybody."""

    source: PeerProcess
    retry: int
    answers: PeerProcess | None  # None: anybody who has one of them.
    timestamps: tuple[int, ...]
    tuples: tuple[DataId, ...] = ()


class NewListKind(IntEnum):
    """The three uses of a New List."""

    ORDERED = 1  # A change that the token site has put into the order.
    RECOVERED = 2  # The list of a recovery, to be acknowledged by all its members.
    INFORMS = 3  # The present list, as an answer; it changes nothing.


@dataclass(frozen=True, slots=True)
class NewListPacket:
    """A new list, which is its own ACK; or the present one, as an answer."""

    kind: NewListKind
    source: PeerProcess
    next: PeerProcess
    list: PeerList
    # In recovery, what all members have; in an answer, how far the sender is; where somebody joins, the numbers
    # of the last requests of those that have left.
    sync: "SyncPoint"
    # In recovery, the timestamp up to which some voter has delivered and committed; of a list that was ordered,
    # how far its token site had delivered.
    settled: int = 0

    @property
    def timestamp(self) -> int:
        """The timestamp of the list."""
        return self.list.id.timestamp

    @property
    def last(self) -> int:
        """A list takes one timestamp for both its halves."""
        return self.list.id.timestamp


class ListChange(IntEnum):
    """The changes of a list that a process may ask for."""

    JOIN = 1
    LEAVE = 2
    LOCK = 3
    RELEASE = 4
    WHO = 5  # No change: who is there? (trap 26)
    FLUSH = 6  # The token site drops strangers that it has not heard for long (trap 21).


@dataclass(frozen=True, slots=True)
class ListChangeRequest:
    """Asks the token site for a change of the list, or anybody for the present one."""

    source: PeerProcess
    change: ListChange
    number: int  # Rises with each request of a process (trap 9).
    group: str
    minimum: int = 1
    ttl: int = 1
    capable: bool = True
    seq: int = 0  # The number of the last Data packet that the process has ever sent to the group.
    name: str = ""  # Of the session that joins.
    fence: int = 0  # Of a joiner: the highest it has ever heard of.
    lock: str = ""  # Its name, of a claim.
    serial: int = 0  # Of the claim that is made or released.
    partial: bool = False  # The claim accepts a grant in a list that is not primary.


@dataclass(frozen=True, slots=True)
class SyncPoint:
    """The highest consecutive timestamp, and the highest consecutive number from each source."""

    timestamp: int
    seqs: tuple[DataId, ...] = ()
    early: tuple[DataId, ...] = ()  # Reliable packets above a gap of their source, which were delivered.


@dataclass(frozen=True, slots=True)
class RecoveryStart:
    """The initiator asks the old list to join its attempt, and tells the sync point so far."""

    ballot: Ballot
    sync: SyncPoint


@dataclass(frozen=True, slots=True)
class RecoveryVote:
    """A voter has joined the attempt, and tells how far it is."""

    ballot: Ballot
    source: PeerProcess
    first: int  # The lowest timestamp that it still has; it cannot resend below.
    sync: SyncPoint
    settled: int  # The timestamp up to which it has delivered, and so committed lists.
    version: int  # The highest it has seen.
    acknowledged: tuple[PeerList, ...] = ()  # Lists it has acknowledged, and not seen committed (trap 14).


@dataclass(frozen=True, slots=True)
class RecoveryAckNewList:
    """A voter has everything up to the sync point of the new list, and is bound to it."""

    ballot: Ballot
    source: PeerProcess


class AbortReason(IntEnum):
    """The reasons for an Abort."""

    HIGHER_BALLOT = 1  # The sender is in an attempt with a higher one.
    CANNOT_SYNC = 2
    TOO_FEW = 3
    REMOVED = 4  # The sender's list was made by a later recovery, without the receiver.
    LEFT = 5  # The sender was in the list that recovers, and has nothing of it any more.


@dataclass(frozen=True, slots=True)
class RecoveryAbort:
    """Ends one attempt, and no other (trap 13)."""

    ballot: Ballot  # The attempt that ends.
    source: PeerProcess
    reason: AbortReason
    version: int  # The highest the sender has seen.


@dataclass(frozen=True, slots=True)
class NonMemberData:
    """A packet of a process that is no member of the group."""

    id: DataId
    service: Service
    resilience: int
    handler: int
    group: str
    list: ListId | None
    acknowledge: bool
    repeat_reply: bool
    first: bool
    body: bytes


@dataclass(frozen=True, slots=True)
class NonMemberAck:
    """The acknowledgement of a packet of a process that is no member, or the reply to it."""

    source: PeerProcess
    client: PeerProcess  # Whose packet it is: of several lives at one port, one (trap 20).
    list: ListId
    seq: int
    timestamp: int
    reply: bool
    body: bytes


RingPacket = DataPacket | AckPacket | ConfirmPacket | NackPacket | NewListPacket | ListChangeRequest
RecoveryPacket = RecoveryStart | RecoveryVote | RecoveryAckNewList | RecoveryAbort
RmpPacket = RingPacket | RecoveryPacket | NonMemberData | NonMemberAck
