"""Sync points: how far a member is, what it lacks, and what all of an attempt have to reach (paper 4.4).

Invariants  who has reached a sync point holds every slot up to its timestamp and every packet that it names; so
            all who commit a list deliver the same before it.
"""

from collections.abc import Iterable

from hopring.rmp.state import PeerRingState
from hopring.wire.rmp.ids import DataId, PeerProcess
from hopring.wire.rmp.packets import EARLY_MAX, HOLES_MAX, SyncPoint


def has_packet(state: PeerRingState, one: DataId) -> bool:
    """Whether a Data packet is here, or has its place below the consecutive timestamp."""
    if one.seq <= state.data.ordered.get(one.source, 0):
        return True
    return one in state.data.packets or state.epoch.queue.data(one) is not None


def own_sync(state: PeerRingState, early: Iterable[DataId], wanted: SyncPoint) -> SyncPoint:
    """How far this member is; of packets above gaps, those that it delivered and those that are wanted."""
    seqs = {source: _consecutive(state, source) for source in sorted(state.data.ordered)}
    above = {one for one in early if one.seq > seqs.get(one.source, one.seq)}
    above |= {one for one in wanted.early if has_packet(state, one) and one.seq > seqs.get(one.source, one.seq)}
    lines = tuple([DataId(source, seq) for source, seq in seqs.items()])
    return SyncPoint(state.epoch.queue.consecutive, lines, tuple(sorted(above)[:EARLY_MAX]))


def _consecutive(state: PeerRingState, source: PeerProcess) -> int:
    seq = state.data.ordered[source]
    while has_packet(state, DataId(source, seq + 1)):
        seq += 1
    return seq


def merged(points: Iterable[SyncPoint]) -> SyncPoint:
    """What all have to reach, so that nobody has more than another."""
    timestamp = 0
    seqs: dict[PeerProcess, int] = {}
    early: set[DataId] = set()
    for one in points:
        timestamp = max(timestamp, one.timestamp)
        for line in one.seqs:
            seqs[line.source] = max(line.seq, seqs.get(line.source, 0))
        early.update(one.early)
    lines = tuple([DataId(source, seq) for source, seq in sorted(seqs.items())])
    above = [one for one in sorted(early) if one.seq > seqs.get(one.source, 0)]
    return SyncPoint(timestamp, lines, tuple(above[:EARLY_MAX]))


def has_reached(one: SyncPoint, target: SyncPoint) -> bool:
    """Whether a voter's sync point is not below the target in anything."""
    if one.timestamp < target.timestamp:
        return False
    seqs = {line.source: line.seq for line in one.seqs}
    # A source that a voter does not know any more has left, in the order that it has.
    if any(line.seq > seqs.get(line.source, line.seq) for line in target.seqs):
        return False
    return all(early in one.early or early.seq <= seqs.get(early.source, early.seq) for early in target.early)


def missing(state: PeerRingState, target: SyncPoint) -> tuple[tuple[int, ...], tuple[DataId, ...]]:
    """Timestamps and tuples of what this member lacks up to a sync point, as many as a NACK names."""
    queue = state.epoch.queue
    stamps: list[int] = []
    tuples: list[DataId] = []
    for timestamp in range(queue.consecutive + 1, target.timestamp + 1):
        slot = queue.slots.get(timestamp)
        if slot is None:
            stamps.append(timestamp)
        elif slot.packet is None and slot.id is not None:
            tuples.append(slot.id)
        if len(stamps) + len(tuples) >= HOLES_MAX:
            return tuple(stamps), tuple(tuples)
    for line in target.seqs:
        first = state.data.ordered.get(line.source)
        for seq in range(line.seq + 1 if first is None else first + 1, line.seq + 1):
            one = DataId(line.source, seq)
            if not has_packet(state, one):
                tuples.append(one)
            if len(stamps) + len(tuples) >= HOLES_MAX:
                return tuple(stamps), tuple(tuples)
    tuples += [one for one in target.early if one.source in state.data.ordered and not has_packet(state, one)]
    return tuple(stamps), tuple(dict.fromkeys(tuples))[: HOLES_MAX - len(stamps)]
