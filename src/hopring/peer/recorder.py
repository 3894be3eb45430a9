"""The trace of a peer: what its rings do, as lines of JSON, written as it happens.

Below       a ring of the peer; the file.
Above       the peer, whose ring this is; `check.rmp.peer_trace` reads the files of all peers together.
Invariants  a line is in the kernel before the call returns. What is written depends on packets and news only.
Deviations  names are raw here: a member is its process and the number of its join, an epoch its generation.
            One peer does not know all, as the simulator's observer does: who reads traces makes the names.
"""

import os
import time
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from hopring.check.rmp.observer import RingObserver
from hopring.check.rmp.peer_events import (
    AskedToJoin,
    AskedToLeave,
    DataSent,
    DataShown,
    PeerEvent,
    PeerStarted,
    RingStayEnded,
)
from hopring.check.rmp.peer_trace import EpochNamed, PeerTraceRow, member_text, process_text
from hopring.ids import GroupName
from hopring.rmp.events import (
    ClaimRingLock,
    DataDelivered,
    JoinRing,
    LeaveRing,
    ListInstalled,
    MulticastPacket,
    PacketArrived,
    RemovedFromRing,
    RingInput,
    RingLeft,
    RingOutput,
    UnicastPacket,
)
from hopring.rmp.process.events import RingLayer
from hopring.rmp.snapshot import PeerRingSnapshot
from hopring.wire.rmp.ids import ListMembership, PeerProcess
from hopring.wire.rmp.lists import PeerList
from hopring.wire.rmp.packets import DataPacket

REMEMBERED_MAX: Final = 65_536
"""Packets and messages of one group of which the first occurrence is known."""


class PeerTraceFile:
    """The file of one peer."""

    def __init__(self, path: Path) -> None:
        """Opens the file, behind what earlier peers have written; raises OSError."""
        self.problem = ""
        self._path = path
        self._encoder = msgspec.json.Encoder()
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def write(self, group: GroupName, event: PeerEvent | EpochNamed) -> None:
        """Writes one event of a group; after an error nothing more, since a gap would make verdicts wrong."""
        if self.problem:
            return
        row = PeerTraceRow(group, type(event).__name__, msgspec.to_builtins(event))
        text = self._encoder.encode(row) + b"\n"
        try:
            while text:
                text = text[os.write(self._fd, text) :]
        except OSError as error:
            self.problem = f"cannot write {self._path} ({error.strerror}): the trace ends here"

    def close(self) -> None:
        """Closes the file, at most once."""
        if self.problem != "closed":
            os.close(self._fd)
        self.problem = "closed"


class _Clock:
    """The clock that all processes of this machine share."""

    @property
    def now_us(self) -> int:
        return time.monotonic_ns() // 1_000


class _GroupObserver(RingObserver):
    """Writes events with raw names; it keeps none of them."""

    def __init__(self, writer: PeerTraceFile, group: GroupName) -> None:
        super().__init__(_Clock())
        self._writer, self._group = writer, group
        self._first: OrderedDict[tuple[str, object], None] = OrderedDict()

    def note(self, event: PeerEvent) -> None:
        # What the simulator asks for later is not kept.
        for kept in (self.reached, self._unread, self._heard_of, self._lists, self._begun):
            kept.clear()
        self._writer.write(self._group, event)

    def name(self, process: PeerProcess) -> str:
        return process_text(process)

    def member(self, membership: ListMembership) -> str:
        return member_text(membership)

    def members(self, ring: PeerList) -> tuple[str, ...]:
        ballot = ring.id.epoch
        if self._ballots.get(ballot.generation) != ballot:
            self._ballots[ballot.generation] = ballot
            named = EpochNamed(ballot.generation, ballot.version, process_text(ballot.process))
            self._writer.write(self._group, named)
        return tuple([self.member(one.membership) for one in ring.members])

    def _is_first(self, who: str, what: object) -> bool:
        if (who, what) in self._first:
            return False
        self._first[who, what] = None
        if len(self._first) > REMEMBERED_MAX:
            self._first.popitem(last=False)
        return True

    def _shown(self, who: str, news: DataDelivered, present: ListInstalled | None) -> None:
        epoch = 0 if present is None else present.list.id.epoch.generation
        parts = news.service, epoch, news.timestamp, news.resilience, news.withheld
        self.note(DataShown(who, self.now_us, self.message(news.id, news.service), *parts))


class RecordedRing:
    """A ring whose inputs and outputs are written to the trace of its peer."""

    def __init__(self, ring: RingLayer, me: PeerProcess, group: GroupName, writer: PeerTraceFile) -> None:
        self._ring, self._me = ring, me
        self._observer = _GroupObserver(writer, group)
        self._name = process_text(me)
        self._installed: ListInstalled | None = None
        self._sent = {True: 0, False: 0}  # The last own number, of Unreliable messages and of others.
        self._observer.note(PeerStarted(self._name, self._observer.now_us))

    @property
    def wake_at_us(self) -> int:
        """When the next `Tick` is due."""
        return self._ring.wake_at_us

    @property
    def serving(self) -> bool:
        """Whether the ring still answers others."""
        return self._ring.serving

    def snapshot(self) -> PeerRingSnapshot:
        """The state of the ring."""
        return self._ring.snapshot()

    def step(self, event: RingInput, now_us: int) -> list[RingOutput]:
        """One event of the ring, and what it does."""
        observer, at_us = self._observer, self._observer.now_us
        if isinstance(event, PacketArrived):
            observer.arrived(self._me, event.packet, event.epoch)
        elif isinstance(event, JoinRing):
            observer.note(AskedToJoin(self._name, at_us, event.minimum))
        elif isinstance(event, LeaveRing):
            observer.note(AskedToLeave(self._name, at_us))
        elif isinstance(event, ClaimRingLock) and event.partial:
            observer.partial.add((self._name, event.serial))
        outputs = self._ring.step(event, now_us)
        self._record(outputs)
        return outputs

    def _record(self, outputs: Sequence[RingOutput]) -> None:
        for output in outputs:
            if isinstance(output, MulticastPacket | UnicastPacket):
                if isinstance(output.packet, DataPacket):
                    self._note_send(output.packet)
                self._observer.sent(self._me, output.packet, output.epoch)
                continue
            before = self._installed
            if isinstance(output, ListInstalled):
                self._installed = output
            self._observer.told(self._me, output, before if before is not None else self._installed)
            if isinstance(output, RingLeft | RemovedFromRing):
                self._installed = None

    def _note_send(self, packet: DataPacket) -> None:
        """An own packet leaves for the first time."""
        loose = packet.service.loose
        if packet.id.source == self._me and packet.id.seq > self._sent[loose]:
            self._sent[loose] = packet.id.seq
            message = self._observer.message(packet.id, packet.service)
            parts = self._name, self._observer.now_us, message, packet.service, packet.resilience
            self._observer.note(DataSent(*parts))

    def crash(self) -> None:
        """The peer ends without a leave."""
        if self._installed is not None:
            self._observer.note(RingStayEnded(self._name, self._observer.now_us, "crash"))
