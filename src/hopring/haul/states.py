"""The replicated state of the service as a snapshot has it."""

from typing import NamedTuple

import msgspec

from hopring.haul.calls import CallState
from hopring.haul.entries import Answer
from hopring.haul.ids import ClusterId, ClusterMask, ParcelId
from hopring.haul.link.channel import ChannelFrame
from hopring.haul.link.frames import LinkGeneration, WideFile
from hopring.haul.order.events import Parcel
from hopring.haul.order.set_state import WideSetState
from hopring.haul.stored.shelf import KeptFileState


class LineFile(NamedTuple):
    """The file of an item: where it is put, or, if all have it, what its sender calls it."""

    place: str  # Within the directory of the set.
    size_bytes: int
    digest: bytes
    source: str = ""


class ChannelState(msgspec.Struct, array_like=True):
    """A channel to one peer."""

    peer: ClusterId
    sent: int
    acked: int
    received: int
    waiting: list[ChannelFrame]


class FileOfParcel(msgspec.Struct, array_like=True):
    """A parcel that comes with a file."""

    id: ParcelId
    file: WideFile
    source: str  # Of a parcel of this cluster.


class ParkedParcel(msgspec.Struct, array_like=True):
    """A parcel that has arrived, and whose file has not."""

    parcel: Parcel
    sources: list[ClusterId]  # The clusters that have sent it.


class KeptParcel(msgspec.Struct, array_like=True):
    """A parcel whose body is kept, and how it is sent on."""

    id: ParcelId
    size_bytes: int
    body: bytes | None  # None: beside the snapshot.
    parcel: Parcel | None


class SetState(msgspec.Struct, array_like=True):
    """A wide set with its channels and bodies."""

    name: str
    group: str
    core: WideSetState
    channels: list[ChannelState]
    kept: list[KeptParcel]
    line: list[tuple[int, Parcel | None, ParcelId | None, LineFile | None]]
    delivered: int
    handed: int
    durable: list[tuple[str, int]]
    rewinds: int
    line_bytes: int
    sizes_base: int
    sizes: list[int]
    notify: list[int]
    disputed: list[tuple[ClusterId, ClusterMask]]
    files: list[FileOfParcel]
    parked: list[ParkedParcel]
    calls: list[CallState] = []


class LinkStateRecord(msgspec.Struct, array_like=True):
    """What is known of the connection to one peer."""

    peer: ClusterId
    incarnation: int
    is_on: bool
    is_open: bool
    dialer: ClusterId
    generation: LinkGeneration
    member: str
    seen: list[tuple[ClusterId, LinkGeneration]]
    drains: dict[str, int] | None


class ClientState(msgspec.Struct, array_like=True):
    """Answers that a client may still ask for."""

    name: str
    answers: list[tuple[int, Answer]]


class ManagerState(msgspec.Struct, array_like=True):
    """All that the members of a cluster have in common."""

    now_us: int
    epoch: int
    members: tuple[str, ...]
    managers: list[tuple[ClusterId, str]]
    forwarders: list[tuple[str, str]]
    sets: list[SetState]
    links: list[LinkStateRecord]
    clients: list[ClientState]
    file_attempts: int
    files: list[KeptFileState]
