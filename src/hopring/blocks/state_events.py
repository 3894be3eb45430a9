"""Events of the core of state transfer, between one member's session, its program and the core."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from hopring.blocks.state_header import GroupMark, MemberMark, StateMark
from hopring.client.events import View
from hopring.ids import Place

PlaceKey = tuple[int, ...]
NOWHERE: Final[PlaceKey] = ()


class Standing(IntEnum):
    """What a member has; of several states those of a higher standing count."""

    FRESH = 0  # No state, and it knows of nobody who has one.
    AWARE = 1  # No state, but others have one, or had one when the network parted them.
    FORMER = 2  # The state of an earlier session of the same program.
    LIVE = 3


# Inputs.


@dataclass(frozen=True, slots=True)
class ViewShown:
    """A view of the group, and the private group of this session."""

    view: View
    me: str


@dataclass(frozen=True, slots=True)
class OperationShown:
    """Anything else that the program is to get at its place: a message, or a signal, which has no place."""

    item: object
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class GroupMarkShown:
    """A mark in the order of the group."""

    sender: str
    mark: GroupMark
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class MemberMarkArrived:
    """A mark of another member for this one; its place in the order does not matter."""

    sender: str
    mark: MemberMark
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class SnapshotTaken:
    """The provider's snapshot: its parts, and how long it says that they are."""

    parts: Iterator[bytes]
    promised_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class SnapshotRefused:
    """The provider could not make a snapshot."""

    reason: str


@dataclass(frozen=True, slots=True)
class BeginAnew:
    """The program wants to begin with the state that it has, because nobody else has one."""


@dataclass(frozen=True, slots=True)
class SessionLost:
    """The session is gone; views of another one follow. The state stays in the program."""


Input = (
    ViewShown
    | OperationShown
    | GroupMarkShown
    | MemberMarkArrived
    | SnapshotTaken
    | SnapshotRefused
    | BeginAnew
    | SessionLost
)

# Outputs, to be carried out in their order.


@dataclass(frozen=True, slots=True)
class GiveEvent:
    """The program gets this now."""

    item: object
    settled: bool = True  # Whether all members of the view get it, and get it on the same state.


@dataclass(frozen=True, slots=True)
class TakeSnapshot:
    """The provider makes a snapshot, when the program has handled all that was released before."""

    round: str


@dataclass(frozen=True, slots=True)
class TakeState:
    """The provider takes this state, or merges several; then the program is told that it is ready."""

    states: tuple[bytes, ...]
    view: View
    sources: tuple[tuple[str, str], ...]  # Of each state: its speaker's private group, and the round.
    merged: bool


@dataclass(frozen=True, slots=True)
class BeginsHere:
    """Nobody had a state: the program is ready with the one that it has."""

    view: View


@dataclass(frozen=True, slots=True)
class SendMark:
    """A message to the group, or to one member."""

    to: str  # A private group; empty is the group.
    mark: StateMark
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class SpeakerFailed:
    """The snapshot of this member's provider failed."""

    reason: str


@dataclass(frozen=True, slots=True)
class NobodySpeaks:
    """No member that has the state can give it: all of their snapshots fail."""

    reasons: tuple[tuple[str, str], ...]  # Of each speaker that failed: its private group, and why.


Output = GiveEvent | TakeSnapshot | TakeState | BeginsHere | SendMark | SpeakerFailed | NobodySpeaks
