"""Events at daemons and clients as values: the history of a run, recorded by the driver of the protocol.

A history is a list of these events. The checks use the order of the events of one process, and which message
was sent where; they never compare times or places of two processes, so the histories of many machines may be
put one behind the other. `trace_files` has the same events as flat rows, `docs/trace.md` describes the columns.

Names are named tuples: they are compared and looked up all the time, and tuples do that in C. Events are frozen
structs of msgspec rather than dataclasses: a run makes hundreds of thousands, and a struct takes an eighth of
the time to make. They have no cycles, so the garbage collector may skip them.
"""

from typing import Final, NamedTuple

import msgspec

from hopring.services import Service


class ProcessName(NamedTuple):
    """One life of a daemon; or one session of a client at it, with the session's number."""

    daemon: str
    incarnation: int
    session: int = 0  # 0 is the daemon itself.


class ViewName(NamedTuple):
    """A view's id; its order is the order of views."""

    counter: int
    representative: int
    nonce: int


class GroupViewName(NamedTuple):
    """The id of a group's view; its order is the order of views."""

    view: ViewName  # The daemons' view in which it was made.
    path: tuple[ViewName, ...]  # If that was closing, the views that its side installed after it.
    step: int


class MessageId(NamedTuple):
    """The id of a message: its sender, and its number there."""

    daemon: str
    incarnation: int
    number: int
    session: int = 0

    @property
    def sender(self) -> ProcessName:
        """The process that sent it; FIFO order is among the messages of one."""
        return ProcessName(self.daemon, self.incarnation, self.session)


class Ord(NamedTuple):
    """A message's place in the one order of all messages."""

    lts: int
    site: int
    view: ViewName  # Both halves of a split site can issue the same (lts, site).
    place: int = 0  # In its bundle.


class Recover(msgspec.Struct, frozen=True, gc=False):
    """A process began its life: always its first event."""

    process: ProcessName
    at_us: int
    wall_us: int = 0  # The same moment in microseconds since 1970; 0 where times are of one clock anyway.


class Crash(msgspec.Struct, frozen=True, gc=False):
    """A process ended: always its last event. A life that ends in silence has none."""

    process: ProcessName
    at_us: int


class ViewInstalled(msgspec.Struct, frozen=True, gc=False):
    """A process installed a view."""

    process: ProcessName
    at_us: int
    view: ViewName
    members: tuple[ProcessName, ...]
    together: tuple[ProcessName, ...]  # The transitional set.
    cause: str = ""
    primary: str = ""  # Why it is primary: first, majority, all or operator. Empty if it is not.


class Signalled(msgspec.Struct, frozen=True, gc=False):
    """The transitional signal: from here on, what is delivered in this view is promised to `together` only."""

    process: ProcessName
    at_us: int
    view: ViewName  # The one it closes.
    together: tuple[ProcessName, ...]


class MessageSent(msgspec.Struct, frozen=True, gc=False):
    """A process sent a message; it is written down when the message gets its stamp."""

    process: ProcessName
    at_us: int
    view: ViewName  # The one it was stamped in.
    message: MessageId
    service: Service
    ord: Ord
    size: int = 0  # Bytes.
    resilience: int = 0  # How many lost daemons it survives, or MAJORITY (ordering/holders.py).


class MessageDelivered(msgspec.Struct, frozen=True, gc=False):
    """A process delivered a message, or passed over one whose body it does not want, or that is withheld."""

    process: ProcessName
    at_us: int
    view: ViewName  # The one the receiver is in.
    message: MessageId
    service: Service
    ord: Ord
    withheld: bool = False  # A majority resilient message had its turn where no primary view is.


class Counters(msgspec.Struct, frozen=True, gc=False):
    """The counters of a link of a process since it was made; in packets, where no unit is named.

    A link is made anew for every network, and then it begins at 0: only counters of the same `link` can be
    subtracted from each other.
    """

    process: ProcessName
    at_us: int
    link: str  # Unique among the links of the process.
    sent: int
    received: int
    lost: int  # Asked for at least once: gaps, whatever caused them.
    nacks: int  # Requests, each for one packet or many.
    retransmissions: int
    round_trip_us: int  # Smoothed; 0 if the link does not measure it.
    peer: str = ""  # The daemon at the other end.


# Events of clients: the process is a session.


class ClientConnected(msgspec.Struct, frozen=True, gc=False):
    """A session began: always its first event."""

    process: ProcessName
    at_us: int
    name: str
    private_group: str


class AsksJoin(msgspec.Struct, frozen=True, gc=False):
    """A session asked to join a group."""

    process: ProcessName
    at_us: int
    group: str


class AsksLeave(msgspec.Struct, frozen=True, gc=False):
    """A session asked to leave a group."""

    process: ProcessName
    at_us: int
    group: str


class AsksEnd(msgspec.Struct, frozen=True, gc=False):
    """A session disconnected, by its wish or because it died: it asks for nothing more."""

    process: ProcessName
    at_us: int


class GroupInstalled(msgspec.Struct, frozen=True, gc=False):
    """A session was shown a view of a group; the first one after a join makes it a member."""

    process: ProcessName
    at_us: int
    group: str
    view: GroupViewName
    members: tuple[ProcessName, ...]
    together: tuple[ProcessName, ...]  # The transitional set.
    cause: str = ""  # join, leave, disconnect or network.


class GroupSignal(msgspec.Struct, frozen=True, gc=False):
    """The transitional signal of a group."""

    process: ProcessName
    at_us: int
    group: str
    view: GroupViewName  # The one it closes.
    together: tuple[ProcessName, ...]


class GroupLeft(msgspec.Struct, frozen=True, gc=False):
    """A session's leave takes effect: it is no longer a member."""

    process: ProcessName
    at_us: int
    group: str


class Gone(msgspec.Struct, frozen=True, gc=False):
    """A session's end takes effect: always its last event. If its daemon crashes, there is none."""

    process: ProcessName
    at_us: int


class ClientSent(msgspec.Struct, frozen=True, gc=False):
    """A session sent a message; its stamp is not known yet."""

    process: ProcessName
    at_us: int
    groups: tuple[str, ...]  # Private ones too.
    message: MessageId
    service: Service
    size: int = 0  # Bytes.
    self_discard: bool = False  # The sender itself does not want it.
    resilience: int = 0  # As of `MessageSent`.


class ClientDelivered(msgspec.Struct, frozen=True, gc=False):
    """A session got a message, in the last view that it was shown of each of the groups it is in."""

    process: ProcessName
    at_us: int
    groups: tuple[str, ...]  # As the sender named them.
    message: MessageId
    service: Service
    ord: Ord


Asked = AsksJoin | AsksLeave | AsksEnd
ClientEvent = (
    ClientConnected | Asked | GroupInstalled | GroupSignal | GroupLeft | Gone | ClientSent | ClientDelivered
)


class BlockNoted(msgspec.Struct, frozen=True, gc=False):
    """An event of a block, such as a lock that was taken: the process is the record that it is in."""

    process: ProcessName
    at_us: int
    kind: str
    fields: str  # As JSON; check/block_kinds.py says which each kind has.


Event = (
    Recover
    | Crash
    | ViewInstalled
    | Signalled
    | MessageSent
    | MessageDelivered
    | Counters
    | ClientEvent
    | BlockNoted
)

KINDS: Final[dict[type, str]] = {
    **{Recover: "recover", Crash: "crash", ViewInstalled: "view", Signalled: "transitional"},
    **{MessageSent: "send", MessageDelivered: "deliver", Counters: "counters"},
    **{ClientConnected: "connect", AsksJoin: "join", AsksLeave: "leave", AsksEnd: "disconnect"},
    **{GroupInstalled: "view", GroupSignal: "transitional", GroupLeft: "left", Gone: "gone"},
    **{ClientSent: "send", ClientDelivered: "deliver"},
}
"""The names of events in files and in witnesses."""
