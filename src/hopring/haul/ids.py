"""Identifiers of the long-haul service: clusters, sets of clusters, parcels, talks.

A cluster has a stable number from 1 to CLUSTERS_MAX in the clusters file. A set of clusters is a mask. A *talk*
is the paper's conversation: its participants, and a name if it has one.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, NewType

ClusterId = NewType("ClusterId", int)
"""The number of a cluster, from 1."""

ClusterMask = NewType("ClusterMask", int)
"""A set of clusters as bits: cluster c is bit 1 << (c - 1)."""

CLUSTERS_MAX: Final = 64
NOBODY: Final = ClusterMask(0)
"""No cluster at all."""

TALK_NAME_BYTES_MAX: Final = 64
SET_NAME_BYTES_MAX: Final = 64
SETS_MAX: Final = 256
"""Wide sets of one cluster."""


class ParcelId(NamedTuple):
    """The identity of a parcel: the cluster that sent it, and its number there, from 1."""

    sender: ClusterId
    number: int


class Talk(NamedTuple):
    """A conversation (paper 4.1.3): the same participants without a name are the same talk."""

    participants: ClusterMask
    name: str = ""

    @property
    def coordinator(self) -> ClusterId:
        """The participant that orders abcasts: the one with the smallest number (4.2.2)."""
        return next(clusters_in(self.participants))


def clusters_mask(clusters: Iterable[ClusterId]) -> ClusterMask:
    """The mask of exactly these clusters."""
    mask = 0
    for cluster in clusters:
        mask |= 1 << (cluster - 1)
    return ClusterMask(mask)


def clusters_in(mask: ClusterMask) -> Iterator[ClusterId]:
    """The clusters of a mask, the smallest number first."""
    rest: int = mask
    while rest:
        lowest = rest & -rest
        yield ClusterId(lowest.bit_length())
        rest ^= lowest


def is_in(cluster: ClusterId, mask: ClusterMask) -> bool:
    """Whether a cluster is in a mask."""
    return bool(mask >> (cluster - 1) & 1)


def without(mask: ClusterMask, cluster: ClusterId) -> ClusterMask:
    """The mask without one cluster."""
    return ClusterMask(mask & ~(1 << (cluster - 1)))
