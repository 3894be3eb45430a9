"""What a member shows of itself: to status, metrics and tests, instead of its insides.

The spools of the paper (4.1.1) are views of the state: an interLAN spool is what waits in the channel to a
peer, a wSpool what the local group still has to get. It is on while the peer, or the group, is away, and until
what has waited is gone. Bodies that wait for long are on the disk of the member (stored/bodies.py).
"""

from dataclasses import dataclass

from hopring.haul.application import ApplicationManager
from hopring.haul.ids import ClusterId, ClusterMask, ParcelId
from hopring.haul.link.frames import LinkGeneration
from hopring.haul.managed_set import ManagedSet


@dataclass(frozen=True, slots=True)
class WideLinkStatus:
    """The link to one peer."""

    peer: ClusterId
    is_on: bool  # As operators want it.
    is_open: bool
    member: str  # Who has the connection here, or had the last one.
    generation: LinkGeneration


@dataclass(frozen=True, slots=True)
class WideSpoolStatus:
    """What waits for one peer, or for the local group, of one set."""

    set: str
    peer: ClusterId | None  # None: the local group.
    is_on: bool
    messages: int
    size_bytes: int
    on_disk: int  # Messages whose bodies are in files beside the log, and not in memory.


@dataclass(frozen=True, slots=True)
class WideSetStatus:
    """One wide set of a cluster."""

    name: str
    group: str  # Empty until somebody joins.
    clusters: ClusterMask
    delivered: int
    handed: int
    delayed: int  # Parcels that wait for their causes.
    descriptors: int  # Runs of them.
    disputed: tuple[tuple[ClusterId, ClusterMask], ...]  # Peers that have the set with other clusters.
    forwarder: str
    durable: tuple[tuple[str, int], ...]  # Consumers, and what they have done with.
    calls: int = 0  # That are open.


@dataclass(frozen=True, slots=True)
class WideStatus:
    """A member with the state that it has in common with the others."""

    cluster: ClusterId
    member: str
    serving: bool
    epoch: int
    members: tuple[str, ...]  # Those that serve.
    links: tuple[WideLinkStatus, ...]
    sets: tuple[WideSetStatus, ...]
    spools: tuple[WideSpoolStatus, ...]


def status_of(app: ApplicationManager, member: str, present: set[str], *, serving: bool) -> WideStatus:
    """The status of a member; `present` are the local groups that have members."""
    links = [
        WideLinkStatus(peer, one.is_on, one.is_open, one.member, one.generation)
        for peer, one in app.links.items()
    ]
    of = app.me, member, serving, app.epoch, app.members
    return WideStatus(*of, tuple(links), tuple(_sets(app)), tuple(_spools(app, present)))


def _sets(app: ApplicationManager) -> list[WideSetStatus]:
    return [
        WideSetStatus(
            one.name,
            one.group,
            one.clusters,
            one.delivered,
            one.handed,
            len(one.core.delayed.delayed),
            one.core.descriptors.size,
            tuple(sorted(one.disputed.items())),
            app.forwarders.get(one.name, ""),
            tuple(sorted(one.durable.items())),
            len(one.calls.by_name),
        )
        for one in app.sets.values()
    ]


def _spools(app: ApplicationManager, present: set[str]) -> list[WideSpoolStatus]:
    out: list[WideSpoolStatus] = []
    for one in app.sets.values():
        for peer, channel in one.channels.items():
            waiting = [frame.parcel.id for frame in channel.waiting if frame.parcel is not None]
            is_on = bool(waiting) or not app.links[peer].is_open
            counts = len(waiting), channel.waiting_bytes, _on_disk(one, waiting)
            out.append(WideSpoolStatus(one.name, peer, is_on, *counts))
        waiting = [item.parcel.id for item in one.line if item.parcel is not None]
        is_on = bool(waiting) or one.group not in present
        out.append(WideSpoolStatus(one.name, None, is_on, len(waiting), one.line_bytes, _on_disk(one, waiting)))
    return out


def _on_disk(managed: ManagedSet, waiting: list[ParcelId]) -> int:
    return sum([one in managed.kept and one not in managed.bodies for one in waiting])
