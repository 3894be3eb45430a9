"""The state of a wide set as a snapshot has it."""

from typing import NamedTuple

import msgspec

from hopring.haul.ids import ClusterId, ClusterMask, ParcelId, Talk
from hopring.haul.order.events import Parcel
from hopring.haul.order.numbers import NumberSet
from hopring.haul.order.runs import DescriptorRun


class SenderNumbers(NamedTuple):
    """Numbers of one sender, as ranges."""

    sender: ClusterId
    firsts: list[int]
    lasts: list[int]

    def numbers(self) -> NumberSet:
        """The set of these numbers."""
        return NumberSet(list(self.firsts), list(self.lasts))


class DueNumbers(NamedTuple):
    """Descriptors that a cluster has to be told of."""

    to: ClusterId
    numbers: SenderNumbers


class TalkNumbers(NamedTuple):
    """Parcels of a talk that have not been delivered."""

    talk: Talk
    numbers: SenderNumbers


class DescriptorsState(msgspec.Struct, array_like=True):
    """DESCBUF, PRECEDES and KNOWN of a set."""

    known: list[tuple[ClusterId, int]]
    runs: list[DescriptorRun]
    due: list[DueNumbers]
    complete: list[SenderNumbers]


class BehindState(msgspec.Struct, array_like=True):
    """Parcels behind one cause, in the order in which they go on."""

    parcel: ParcelId
    talk: Talk | None
    order: int
    waiting: list[ParcelId]


class DelayedState(msgspec.Struct, array_like=True):
    """GDELAYED and PDELAYED of a set."""

    waiting: list[SenderNumbers]
    expected: list[TalkNumbers]
    delayed: list[Parcel]
    behind: list[BehindState]
    ordered: list[tuple[Talk, int]]


class WideSetState(msgspec.Struct, array_like=True):
    """A wide set at one cluster."""

    clusters: ClusterMask
    up: list[ClusterId]
    past: list[tuple[ClusterId, int]]
    descriptors_at_us: int
    ask_at_us: int
    turn: int
    descriptors: DescriptorsState
    delayed: DelayedState
