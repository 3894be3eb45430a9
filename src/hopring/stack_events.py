"""The words of the stack: what its driver hands in, what it hands back, and who it is."""

from dataclasses import dataclass, field
from typing import Final

from hopring.ids import NUMBER_MAX, DaemonId, Generation, Incarnation, SiteId, SiteMask
from hopring.links import hop, tcp
from hopring.links.events import Tick
from hopring.links.ring_options import RingOptions
from hopring.routing.network import NetworkFailed
from hopring.value import Value
from hopring.wire.bundle import BUNDLE_BYTES_DEFAULT
from hopring.wire.data import PACKET_BYTES_MAX
from hopring.wire.flood import Update
from hopring.wire.header import Family, Header
from hopring.wire.routed import Meta
from hopring.wire.train import Frame, Packet

StreamEvent = tcp.Opened | tcp.Received | tcp.Written | tcp.Observed | tcp.Closed
LinkOutput = hop.Output | tcp.Output


class Multicast(Value, frozen=True):
    """A bundle for the sites of the mask, or those of them that want it; the others get its meta-data."""

    mask: SiteMask
    bundle: bytes
    session: int = 0  # Bundles of one session are chained for FIFO order.
    settle: bool = False  # Somebody waits until all have it.


class MulticastLoose(Value, frozen=True):
    """An Unreliable bundle for the sites of the mask; the others do not hear of it. Leaves in this turn."""

    mask: SiteMask
    bundle: bytes
    lts: int = 0  # Later stamps of this site are above it: so the stability line tells when it is long gone.
    hurry: bool = False  # From the next visit on; otherwise later, which spares ordered bundles higher stamps.


class Tell(Value, frozen=True):
    """A control word for every other daemon of the network; it goes before bundles and needs no stamp."""

    word: bytes


class Promise(Value, frozen=True):
    """The site's promise, read off the token by its representative in this very turn, for all other sites."""

    update: Update


class WishVisit(Value, frozen=True):
    """The layer above wants to see the token."""


class PingLinks(Value, frozen=True):
    """Every link that is measured carries a PING now."""


class Arrived(Value, frozen=True):
    """A packet from the wire, decoded."""

    packet: Packet


class FromStream(Value, frozen=True):
    """What happened to the connection of the TCP link with this neighbour."""

    neighbour: DaemonId
    event: StreamEvent


class SendTo(Value, frozen=True):
    """Frames for one daemon."""

    daemon: DaemonId
    family: Family
    frames: tuple[Frame, ...]


class SendSite(Value, frozen=True):
    """Frames for all other daemons of the site."""

    frames: tuple[Frame, ...]


class WriteTo(Value, frozen=True):
    """Bytes for the connection of the TCP link with this neighbour."""

    neighbour: DaemonId
    data: bytes


class ObserveStream(Value, frozen=True):
    """Asks for the state of the connection with this neighbour."""

    neighbour: DaemonId


Sending = SendTo | SendSite | WriteTo | ObserveStream
"""What the stack asks of sockets."""


class Receive(Value, frozen=True):
    """A bundle, whole, or only the fact of it where the mask does not name this site."""

    source: SiteId
    seq: int
    lts: int
    mask: SiteMask
    bundle: bytes | memoryview | None
    prev: int = 0  # The sequence of its session's bundle before; 0 if it is the first.

    def meta(self) -> Meta:
        """What the order needs of it."""
        return Meta(self.source, self.seq, self.lts, self.mask, self.prev)


class ReceiveLoose(Value, frozen=True):
    """An Unreliable bundle, whole: the daemon's own as it leaves, others' if and when they come."""

    daemon: DaemonId
    number: int
    bundle: bytes


class Told(Value, frozen=True):
    """A control word from another daemon."""

    daemon: DaemonId
    word: bytes


class Promised(Value, frozen=True):
    """Another site's promise has come."""

    update: Update


class Visited(Value, frozen=True):
    """The token was here: what it says of the own site, and the line that all its daemons have reached."""

    site_seq: int
    site_lts: int
    site_aru: int


Input = Multicast | MulticastLoose | Tell | Promise | WishVisit | PingLinks | Arrived | FromStream | Tick
Output = Sending | Receive | ReceiveLoose | Told | Promised | Visited | NetworkFailed


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a daemon is in one network."""

    me: DaemonId
    incarnation: Incarnation
    cluster: int
    generation: Generation

    def header(self, family: Family) -> Header:
        """The head of this daemon's datagrams, or its greeting on a stream."""
        return Header(family, self.cluster, self.me, self.incarnation, self.generation)


@dataclass(frozen=True, slots=True)
class StackOptions:
    """What can be tuned beyond the links."""

    ring: RingOptions = field(default_factory=RingOptions)
    bundle_bytes_max: int = BUNDLE_BYTES_DEFAULT
    object_bytes_max: int = PACKET_BYTES_MAX  # What every ring and link of the cluster carries in one packet.
    initial_seq: int = 1
    transit_bytes: int = 0  # What all members together may have under way; no queue is smaller than that.
    transit_bundles: int = 0
    loose_wait_us: int = 500_000  # From the first fragment of an Unreliable bundle to its last.
    loose_clock_us: int = (
        1_000_000  # So late the clock takes the step of an Unreliable bundle, if nothing hurries.
    )
    loose_held_bytes_max: int = 8 * 1024 * 1024  # Of Unreliable bundles that are not whole.

    def __post_init__(self) -> None:
        assert 0 < self.initial_seq <= NUMBER_MAX, "packets are numbered from 1 on, and not without end"


DEFAULTS: Final = StackOptions()
