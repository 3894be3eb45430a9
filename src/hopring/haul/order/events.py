"""Events of a wide set at one cluster: what goes between applications, channels and the protocol.

Below       channels to the other clusters, which lose and double nothing and keep the order, however long they
            are cut; a log, which has the bodies of parcels by their ids.
Above       the representative of the application in this cluster.

A parcel is what one call sends: its descriptor, its causal past and one body, which the protocol never sees.
"""

from dataclasses import dataclass
from enum import IntEnum

from hopring.haul.ids import ClusterId, ClusterMask, ParcelId, Talk
from hopring.haul.order.runs import DescriptorRun
from hopring.links.events import Tick


class CastKind(IntEnum):
    """The two multicasts of the paper."""

    CBCAST = 1  # Behind its causes within the talk.
    ABCAST = 2  # And in one order at all participants.


Past = tuple[tuple[ClusterId, int], ...]
"""How many parcels of each cluster are in the causal past, sorted; clusters without one are left out."""


@dataclass(frozen=True, slots=True)
class Parcel:
    """A parcel without its body, as it travels and as it is delivered."""

    id: ParcelId
    talk: Talk
    kind: CastKind
    destinations: ClusterMask
    entry: int  # The entry point of the receiving group (5.3).
    past: Past
    order: int = 0  # Of an abcast: its number among those of the talk; 0 on its way to the coordinator.
    answers: int = 0  # The parcel of its only destination that it answers; 0 for none.


# From above, from channels, and from the clock.


@dataclass(frozen=True, slots=True)
class Cast:
    """Sends a parcel to the participants of a talk, or to one of them only."""

    talk: Talk
    kind: CastKind
    entry: int = 0
    to: ClusterId | None = None  # Point to point; with cbcast only.
    answers: int = 0  # With `to`: the number of a parcel of that cluster.


@dataclass(frozen=True, slots=True)
class ParcelArrived:
    """A parcel, logged here with its body, and the descriptors that came with it."""

    source: ClusterId  # The cluster that sent it now; not always the one that made it.
    parcel: Parcel
    descriptors: tuple[DescriptorRun, ...] = ()


@dataclass(frozen=True, slots=True)
class DescriptorsArrived:
    """Descriptors that came by themselves."""

    source: ClusterId
    descriptors: tuple[DescriptorRun, ...]


@dataclass(frozen=True, slots=True)
class ParcelWanted:
    """Another cluster asks for a parcel that a delayed one waits for."""

    source: ClusterId
    id: ParcelId


@dataclass(frozen=True, slots=True)
class ChannelChanged:
    """The channel to a cluster carries parcels, or is cut; what is sent meanwhile waits there."""

    cluster: ClusterId
    up: bool


# To channels, to the log, and to above.


@dataclass(frozen=True, slots=True)
class SendParcel:
    """Sends a parcel with its body."""

    to: ClusterId
    parcel: Parcel
    descriptors: tuple[DescriptorRun, ...]


@dataclass(frozen=True, slots=True)
class SendLogged:
    """Sends a parcel that the log has, because another cluster asked for it."""

    to: ClusterId
    id: ParcelId
    descriptors: tuple[DescriptorRun, ...]


@dataclass(frozen=True, slots=True)
class SendDescriptors:
    """Sends descriptors without a parcel."""

    to: ClusterId
    descriptors: tuple[DescriptorRun, ...]


@dataclass(frozen=True, slots=True)
class AskForParcel:
    """Asks a cluster for a parcel that it has."""

    to: ClusterId
    id: ParcelId


@dataclass(frozen=True, slots=True)
class DeliverParcel:
    """A parcel for the application, at its place."""

    parcel: Parcel


@dataclass(frozen=True, slots=True)
class ParcelsEverywhere:
    """All destinations have these parcels of this cluster."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class DropBodies:
    """Nobody will ask for these parcels any more, and they are delivered here if they are for this cluster."""

    sender: ClusterId
    first: int
    last: int


HaulInput = Cast | ParcelArrived | DescriptorsArrived | ParcelWanted | ChannelChanged | Tick
HaulOutput = (
    SendParcel | SendLogged | SendDescriptors | AskForParcel | DeliverParcel | ParcelsEverywhere | DropBodies
)
