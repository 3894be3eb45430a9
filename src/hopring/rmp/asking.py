"""Asking for missing packets, and answering those who ask (paper 4.2, NACK).

Invariants  a NACK names one site, the last known token site first, then others; after `nack_named_tries`
            anybody may answer. The same packet is not sent again twice within `resend_gap_us`, whoever asks.
Deviations  the first NACK waits a moment, because most holes are packets that others have overtaken.
"""

from dataclasses import dataclass, field

from hopring.rmp.retry import Retry
from hopring.rmp.state import PeerRingState
from hopring.wire.rmp.ids import DataId, PeerProcess
from hopring.wire.rmp.packets import HOLES_MAX, NackPacket, RmpPacket

RESENT_KEPT_MAX = 4096
"""How many packets' last resends are remembered."""


@dataclass(slots=True)
class Asking:
    """NACKs of this member, and its answers."""

    state: PeerRingState
    retry: Retry = field(init=False)
    asked_from: int = -1  # The consecutive timestamp when the timer began.
    resent: dict[int | DataId, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.retry = Retry(self.state.options.first_us, self.state.options.clamp_us)

    def settle(self, now_us: int) -> None:
        """Starts the timer if there are holes, anew after progress; stops it without any."""
        queue = self.state.epoch.queue
        if queue.complete:
            self.retry.stop()
        elif not self.retry.running or self.asked_from != queue.consecutive:
            self.asked_from = queue.consecutive
            self.retry.restart(now_us, self.state.options.nack_delay_us)

    def ask(self, now_us: int) -> None:
        """Asks for the first packets that are missing."""
        stamps, tuples = self.state.epoch.queue.holes(HOLES_MAX)
        if not stamps and not tuples:
            return
        retry = min(self.retry.tries, 255)
        self.state.multicast(NackPacket(self.state.me, retry, self._target(), stamps, tuples))
        first = self.retry.tries == 0 and self.retry.gap_us == self.state.options.nack_delay_us
        self.retry.again(now_us)
        if first:
            self.retry.gap_us = self.state.options.first_us
            self.retry.due_us = now_us + self.retry.gap_us

    def _target(self) -> PeerProcess | None:
        """The site that is to answer; None if anybody may."""
        state, tries = self.state, self.retry.tries
        others = [one for one in state.present.processes if one != state.me]
        last = state.epoch.queue.highest.source
        if tries == 0 and last != state.me:
            return last
        if tries < state.options.nack_named_tries and others:
            return others[tries % len(others)]
        return None

    def answer(self, packet: NackPacket, now_us: int) -> None:
        """Sends what is asked for, if this site is to answer."""
        if packet.source == self.state.me or packet.answers not in (None, self.state.me):
            return
        for timestamp in packet.timestamps:
            found: RmpPacket | None = self.state.epoch.queue.packet_at(timestamp)
            self._resend(timestamp, found, now_us)
        for one in packet.tuples:
            self._resend(one, self.find(one), now_us)

    def own_packets(self, packet: NackPacket) -> list[int]:
        """The numbers of this member's Data packets that a NACK asks for, by timestamp or by tuple."""
        slots = [self.state.epoch.queue.slots.get(one) for one in packet.timestamps]
        ids = [*[slot.id for slot in slots if slot is not None and slot.id is not None], *packet.tuples]
        return [one.seq for one in ids if one.source == self.state.me]

    def find(self, data_id: DataId) -> RmpPacket | None:
        """A Data packet, from a slot or from the DataList."""
        return self.state.epoch.queue.data(data_id) or self.state.data.packets.get(data_id)

    def _resend(self, key: int | DataId, packet: RmpPacket | None, now_us: int) -> None:
        if packet is None or now_us < self.resent.get(key, -(2**62)) + self.state.options.resend_gap_us:
            return
        if len(self.resent) >= RESENT_KEPT_MAX:
            self.resent.clear()
        self.resent[key] = now_us
        self.state.multicast(packet)
