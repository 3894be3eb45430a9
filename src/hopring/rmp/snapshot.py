"""Snapshot: the state of a ring as one plain value, for status, metrics, and tests."""

from dataclasses import dataclass

from hopring.rmp.flow.flow import FlowSnapshot
from hopring.rmp.state import RingPhase
from hopring.wire.rmp.ids import Ballot, DataId, PeerProcess


@dataclass(frozen=True, slots=True)
class PeerRingSnapshot:
    """A ring at one member; outside of a list, most of it is empty."""

    phase: RingPhase
    group: str
    epoch: Ballot | None
    members: tuple[PeerProcess, ...]  # Of the last list in the order.
    installed: tuple[PeerProcess, ...]  # Of the list that was shown last.
    recovering: str  # The role in a recovery; empty without one.
    attempt: Ballot | None  # Of that recovery.
    suspended: bool
    token_here: bool
    token_passing: bool
    consecutive: int  # The timestamp up to which every packet is here.
    delivered: int
    slots: int  # That are kept.
    waiting: int  # Data packets without a place in the order, also of strangers, whose gaps may stay.
    orderable: bool  # Whether some of them can be ordered.
    queued: int  # Own packets that are not sent yet.
    unordered: int  # Own packets that are sent and have no place.
    retained_acks: int  # ACKs and New Lists among the slots.
    stable: int  # The timestamp up to which slots were freed.
    flow: FlowSnapshot  # Of this member's own packets.
    misplaced: tuple[DataId, ...]  # Data packets that wait though they have a place: always none.
