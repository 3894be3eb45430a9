"""The words of the stack: what its driver hands in, what it hands back, and who it is."""

from dataclasses import dataclass, field
from typing import Final

from hopring.ids import DaemonId, Generation, Incarnation, SiteId, SiteMask
from hopring.links import hop, tcp
from hopring.links.events import Tick
from hopring.links.ring_options import RingOptions
from hopring.routing.network import NetworkFailed
from hopring.wire.bundle import BUNDLE_BYTES_DEFAULT
from hopring.wire.flood import Update
from hopring.wire.header import Family, Header
from hopring.wire.routed import Meta
from hopring.wire.train import Frame, Packet

StreamEvent = tcp.Opened | tcp.Received | tcp.Written | tcp.Closed
LinkOutput = hop.Output | tcp.Output


@dataclass(frozen=True, slots=True)
class Multicast:
    """A bundle for the sites of the mask; the others get its meta-data."""

    mask: SiteMask
    bundle: bytes
    session: int = 0  # Bundles of one session are chained for FIFO order.


@dataclass(frozen=True, slots=True)
class Tell:
    """A control word for every other daemon of the network; it goes before bundles and needs no stamp."""

    word: bytes


@dataclass(frozen=True, slots=True)
class Promise:
    """The site's promise, read off the token by its representative in this very turn, for all other sites."""

    update: Update


@dataclass(frozen=True, slots=True)
class WishVisit:
    """The layer above wants to see the token."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """A packet from the wire, decoded."""

    packet: Packet


@dataclass(frozen=True, slots=True)
class FromStream:
    """What happened to the connection of the TCP link with this neighbour."""

    neighbour: DaemonId
    event: StreamEvent


@dataclass(frozen=True, slots=True)
class SendTo:
    """Frames for one daemon."""

    daemon: DaemonId
    family: Family
    frames: tuple[Frame, ...]


@dataclass(frozen=True, slots=True)
class SendSite:
    """Frames for all other daemons of the site."""

    frames: tuple[Frame, ...]


@dataclass(frozen=True, slots=True)
class WriteTo:
    """Bytes for the connection of the TCP link with this neighbour."""

    neighbour: DaemonId
    data: bytes


@dataclass(frozen=True, slots=True)
class Receive:
    """A bundle, whole, or only the fact of it where the mask does not name this site."""

    source: SiteId
    seq: int
    lts: int
    mask: SiteMask
    bundle: bytes | None
    prev: int = 0  # The sequence of its session's bundle before; 0 if it is the first.

    def meta(self) -> Meta:
        """What the order needs of it."""
        return Meta(self.source, self.seq, self.lts, self.mask, self.prev)


@dataclass(frozen=True, slots=True)
class Told:
    """A control word from another daemon."""

    daemon: DaemonId
    word: bytes


@dataclass(frozen=True, slots=True)
class Promised:
    """Another site's promise has come."""

    update: Update


@dataclass(frozen=True, slots=True)
class Visited:
    """The token was here: what it says of the own site, and the line that all its daemons have reached."""

    site_seq: int
    site_lts: int
    site_aru: int


Input = Multicast | Tell | Promise | WishVisit | Arrived | FromStream | Tick
Output = SendTo | SendSite | WriteTo | Receive | Told | Promised | Visited | NetworkFailed


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
    initial_seq: int = 1


DEFAULTS: Final = StackOptions()
