"""The vocabulary of the stack: its inputs, outputs, identity and options.

A bundle of the stack is an encoded `OrderedMessage` (ordering/entry.py). Its payload may contain a bundle of a
client (wire/bundle.py), which the stack does not look into.
"""

from dataclasses import dataclass, field
from typing import Final, final

from hopring.ids import NUMBER_MAX, DaemonId, Generation, Incarnation, SiteId, SiteMask
from hopring.links.events import StreamEvent, Tick
from hopring.links.ring.options import RingOptions
from hopring.routing.network import NetworkFailed
from hopring.value import Value
from hopring.wire.bundle import BUNDLE_BYTES_DEFAULT
from hopring.wire.control import Update
from hopring.wire.data import PACKET_BYTES_MAX
from hopring.wire.header import Family, Header
from hopring.wire.routed import Meta
from hopring.wire.train import Frame, Packet


@final
class Multicast(Value):
    """A bundle for those sites of the mask that want it (`Destinations`); other sites get its meta-data."""

    def __init__(
        self, mask: SiteMask, bundle: bytes, session: int = 0, waits_for_holders: bool = False
    ) -> None:
        self.mask: Final = mask
        self.bundle: Final = bundle
        self.session: Final = session  # Bundles of one session are chained for FIFO order.
        # Its turn in the order is not enough: its delivery waits until other daemons have it.
        self.waits_for_holders: Final = waits_for_holders


@final
class MulticastLoose(Value):
    """An Unreliable bundle for the sites of the mask only; it is submitted to links and ring at once."""

    def __init__(self, mask: SiteMask, bundle: bytes, lts: int = 0, hurry: bool = False) -> None:
        self.mask: Final = mask
        self.bundle: Final = bundle
        # Later stamps of this site are above it: once the stability line passes it, the bundle leaves the send
        # window.
        self.lts: Final = lts
        # The clock advances at the next visit; otherwise later, so that ordered bundles need no higher stamps.
        self.hurry: Final = hurry


@final
class MulticastControl(Value):
    """A control message for every other daemon of the network; it precedes bundles and has no stamp."""

    def __init__(self, message: bytes) -> None:
        self.message: Final = message


@final
class Promise(Value):
    """The site's promise for all other sites; its representative has just read the values from the token."""

    def __init__(self, update: Update) -> None:
        self.update: Final = update


@final
class WishVisit(Value):
    """The layer above wants a visit of the token."""


@final
class PingLinks(Value):
    """Sends a PING on every measured link."""


@final
class PacketReceived(Value):
    """A decoded packet from the wire; it may belong to another network."""

    def __init__(self, packet: Packet) -> None:
        self.packet: Final = packet


@final
class StreamChanged(Value):
    """An event of the TCP connection to this neighbour, in the network of this generation."""

    def __init__(self, generation: Generation, neighbour: DaemonId, event: StreamEvent) -> None:
        self.generation: Final = generation
        self.neighbour: Final = neighbour
        self.event: Final = event


@final
class SendTo(Value):
    """Frames for one daemon, in one datagram or train."""

    def __init__(self, daemon: DaemonId, family: Family, frames: tuple[Frame, ...]) -> None:
        self.daemon: Final = daemon
        self.family: Final = family
        self.frames: Final = frames


@final
class SendSite(Value):
    """Frames for all other daemons of the site."""

    def __init__(self, frames: tuple[Frame, ...]) -> None:
        self.frames: Final = frames


@final
class WriteTo(Value):
    """Bytes to write to the connection with this neighbour."""

    def __init__(self, neighbour: DaemonId, data: bytes) -> None:
        self.neighbour: Final = neighbour
        self.data: Final = data


@final
class ObserveStream(Value):
    """Asks for the state of the connection with this neighbour."""

    def __init__(self, neighbour: DaemonId) -> None:
        self.neighbour: Final = neighbour


Sending = SendTo | SendSite | WriteTo | ObserveStream
"""Requests of the stack to sockets."""


@final
class Receive(Value):
    """A complete bundle, or only its meta-data if the mask does not name this site."""

    def __init__(
        self,
        source: SiteId,
        seq: int,
        lts: int,
        mask: SiteMask,
        bundle: bytes | memoryview | None,
        prev: int = 0,
        own: bool = False,
    ) -> None:
        self.source: Final = source
        self.seq: Final = seq
        self.lts: Final = lts
        self.mask: Final = mask
        self.bundle: Final = bundle
        self.prev: Final = prev  # The sequence of its session's previous bundle; 0 if it is the first.
        self.own: Final = own  # This daemon has just stamped it; it did not arrive from the network.

    def meta(self) -> Meta:
        """The meta-data of the bundle, for the order."""
        return Meta(self.source, self.seq, self.lts, self.mask, self.prev)


@final
class ReceiveLoose(Value):
    """A complete Unreliable bundle: the daemon's own when it leaves, others' on arrival."""

    def __init__(self, daemon: DaemonId, number: int, bundle: bytes) -> None:
        self.daemon: Final = daemon
        self.number: Final = number
        self.bundle: Final = bundle


@final
class ReceiveControl(Value):
    """A control message from another daemon."""

    def __init__(self, daemon: DaemonId, message: bytes) -> None:
        self.daemon: Final = daemon
        self.message: Final = message


@final
class Promised(Value):
    """A promise of another site has arrived."""

    def __init__(self, update: Update) -> None:
        self.update: Final = update


@final
class Visited(Value):
    """A visit of the token has ended: the counters of the site, and the line that all its daemons reached."""

    def __init__(self, site_seq: int, site_lts: int, site_aru: int, lines: tuple[int, ...] = ()) -> None:
        self.site_seq: Final = site_seq
        self.site_lts: Final = site_lts
        self.site_aru: Final = site_aru
        self.lines: Final = lines  # The line of each daemon of the site, while resilient bundles wait.


Input = (
    Multicast
    | MulticastLoose
    | MulticastControl
    | Promise
    | WishVisit
    | PingLinks
    | PacketReceived
    | StreamChanged
    | Tick
)
Output = Sending | Receive | ReceiveLoose | ReceiveControl | Promised | Visited | NetworkFailed


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of a daemon in one network."""

    me: DaemonId
    incarnation: Incarnation
    cluster: int
    generation: Generation

    def header(self, family: Family) -> Header:
        """The header of this daemon's datagrams, or its greeting on a stream."""
        return Header(family, self.cluster, self.me, self.incarnation, self.generation)


@dataclass(frozen=True, slots=True)
class StackOptions:
    """Tuning options of the stack, besides those of links."""

    ring: RingOptions = field(default_factory=RingOptions)
    bundle_bytes_max: int = BUNDLE_BYTES_DEFAULT
    object_bytes_max: int = PACKET_BYTES_MAX  # The largest object that every ring and link carries.
    initial_seq: int = 1
    transit_bytes: int = 0  # The sum of all members' windows; no queue is smaller.
    transit_bundles: int = 0  # The sum of all members' windows, counted in bundles.
    in_flight_max: int = NUMBER_MAX  # The most bundles of all members that may be sent and not stable.
    loose_wait_us: int = 500_000  # An Unreliable bundle that is incomplete after this is dropped.
    loose_clock_us: int = 1_000_000  # When the clock advances after an Unreliable bundle without `hurry`.
    loose_held_bytes_max: int = 8 * 1024 * 1024  # Limit for incomplete Unreliable bundles.

    def __post_init__(self) -> None:
        assert 0 < self.initial_seq <= NUMBER_MAX, "packet numbers are between 1 and NUMBER_MAX"


DEFAULTS: Final = StackOptions()
