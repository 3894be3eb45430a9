"""Events of peers that form rings of RMP, as the simulator sees them: the history that R1 to R17 judge.

Above       the properties of this package, and `client_form`, which makes a history of clients of them.
Invariants  a history is in the order of its times, over all processes: the simulator sees everything.

A process is one life of a peer, `a` or in its second start `a.2`. A member is one membership of a process: `a`
in its first one, `a'` and `a''` in later ones. A message is its source and number, `a:7`; Unreliable messages
are numbered apart, `a:u7`. Epochs are numbers that rise with their ballots.
"""

import msgspec

from hopring.services import Service


class PeerStarted(msgspec.Struct, frozen=True, gc=False):
    """A process began its life."""

    process: str
    at_us: int


class AskedToJoin(msgspec.Struct, frozen=True, gc=False):
    """A process asked to join the group."""

    process: str
    at_us: int
    minimum: int = 1  # That it states, as in `ListSeen`.


class AskedToLeave(msgspec.Struct, frozen=True, gc=False):
    """A process asked to leave the group."""

    process: str
    at_us: int


class ListSeen(msgspec.Struct, frozen=True, gc=False):
    """A process installed a list."""

    process: str
    at_us: int
    epoch: int
    timestamp: int
    members: tuple[str, ...]  # In ring order.
    together: tuple[str, ...]
    cause: str = "join"  # join, leave, lock or failure.
    who: str = ""  # The member that joined, left or asked for a lock.
    primary: bool = False
    minimum: int = 1  # The greatest that a member stated: a number, or 254 for majority and 255 for all.


class ListClosed(msgspec.Struct, frozen=True, gc=False):
    """The transitional signal in the list of a process."""

    process: str
    at_us: int
    together: tuple[str, ...]


class DataSent(msgspec.Struct, frozen=True, gc=False):
    """A process handed a message to its ring."""

    process: str
    at_us: int
    message: str
    service: Service
    resilience: int = 0  # How many lost members it survives, or 255 for a minority.


class DataLeft(msgspec.Struct, frozen=True, gc=False):
    """The Data packet of a message left its source for the first time: it is of the stay in which it did."""

    process: str
    at_us: int
    message: str


class BodySeen(msgspec.Struct, frozen=True, gc=False):
    """A process received the Data packet of a message for the first time."""

    process: str
    at_us: int
    message: str


class SlotsOrdered(msgspec.Struct, frozen=True, gc=False):
    """A token site sent an ACK or a New List of its own for the first time."""

    process: str
    at_us: int
    epoch: int
    timestamp: int
    next: str  # The process that it names as the next token site.
    messages: tuple[str, ...] = ()  # Of an ACK, at the timestamps after its own.
    members: tuple[str, ...] = ()  # Of a New List.

    @property
    def last(self) -> int:
        """The last timestamp that it gives."""
        return self.timestamp + len(self.messages)


class OrderingSeen(msgspec.Struct, frozen=True, gc=False):
    """A process received an ACK or a New List for the first time."""

    process: str
    at_us: int
    epoch: int
    timestamp: int


class PassConfirmed(msgspec.Struct, frozen=True, gc=False):
    """A process told who named it at a timestamp that it has accepted the token."""

    process: str
    at_us: int
    epoch: int
    timestamp: int


class DataShown(msgspec.Struct, frozen=True, gc=False):
    """A process delivered a message, or withheld it."""

    process: str
    at_us: int
    message: str
    service: Service
    epoch: int
    timestamp: int = 0  # 0 of an early one that has no place in the order yet.
    resilience: int = 0
    withheld: bool = False
    call: bool = False  # Its source is no member.


class PeerSuspended(msgspec.Struct, frozen=True, gc=False):
    """A process has fewer members around it than its ring needs; it goes on with its next list."""

    process: str
    at_us: int


class RingStayEnded(msgspec.Struct, frozen=True, gc=False):
    """A process is a member no more."""

    process: str
    at_us: int
    cause: str  # leave, removed or crash.


class QueueSeen(msgspec.Struct, frozen=True, gc=False):
    """What a process keeps, read from the snapshot of its ring."""

    process: str
    at_us: int
    epoch: int
    kept_from: int  # The lowest slot that it keeps; those below are freed.
    needed_from: int  # The lowest slot that is undelivered or not stable; above the highest if there is none.
    waiting: tuple[str, ...] = ()  # The messages of the DataList: without a place in the order.
    queued: tuple[str, ...] = ()  # The messages of the slots.


class FenceGiven(msgspec.Struct, frozen=True, gc=False):
    """A process was told that it holds a lock."""

    process: str
    at_us: int
    lock: str
    epoch: int
    timestamp: int
    fence: int
    primary: bool = True  # Whether its list was.
    partial: bool = False  # Whether it takes a lock without a primary list, too.


class FenceEnded(msgspec.Struct, frozen=True, gc=False):
    """A process was told that its claim of a lock has ended."""

    process: str
    at_us: int
    lock: str


class ToldToAnswer(msgspec.Struct, frozen=True, gc=False):
    """A process delivered a request, as the holder of its handler lock or not."""

    process: str
    at_us: int
    message: str
    handler: int
    holder: bool  # Whether it was told to answer.
    owner: str  # The holder of the handler lock at the request's place in the order.
    again: bool = False


class StrangerAcknowledged(msgspec.Struct, frozen=True, gc=False):
    """A member told a process that is none that its packet was delivered."""

    process: str
    at_us: int
    client: str
    message: str


class StrangerShown(msgspec.Struct, frozen=True, gc=False):
    """A member delivered a packet of a process that is no member."""

    process: str
    at_us: int
    client: str
    message: str
    repeat: bool = False  # The sender asks for another reply, so it may be delivered again.


class PacketSentAgain(msgspec.Struct, frozen=True, gc=False):
    """A process sent one packet for the given time since its last list or the last answer."""

    process: str
    at_us: int
    packet: str
    times: int
    allowed: int


class WindowSeen(msgspec.Struct, frozen=True, gc=False):
    """What a sender had under way as it sent a Data packet."""

    process: str
    at_us: int
    unacknowledged_bytes: int
    window_bytes: int


class EndSeen(msgspec.Struct, frozen=True, gc=False):
    """What a process was doing at the end."""

    process: str
    at_us: int
    unplaced: int = 0  # Messages without a place in the order.
    calls: int = 0  # Calls that are neither answered nor failed.
    idle_passes: int = 0  # Orderings of the whole ring in the last second.
    idle_passes_max: int = 0
    apart: bool = False  # It could not reach the others, did not want to, or calls without being a member.


PeerEvent = (
    PeerStarted
    | AskedToJoin
    | AskedToLeave
    | ListSeen
    | ListClosed
    | DataSent
    | DataLeft
    | BodySeen
    | SlotsOrdered
    | OrderingSeen
    | PassConfirmed
    | DataShown
    | PeerSuspended
    | RingStayEnded
    | QueueSeen
    | FenceGiven
    | FenceEnded
    | ToldToAnswer
    | StrangerAcknowledged
    | StrangerShown
    | PacketSentAgain
    | WindowSeen
    | EndSeen
)


def process_of(member: str) -> str:
    """The process of a member."""
    return member.rstrip("'")


def source_of(message: str) -> str:
    """The process that a message comes from."""
    return message.partition(":")[0]


def number_of(message: str) -> int:
    """The number of a message, among those of its source and kind."""
    return int(message.partition(":")[2].removeprefix("u"))
