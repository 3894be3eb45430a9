"""Own Data packets: queued, numbered, sent in a window, and again until they have a place (paper 4.2, 4.6).

Invariants  a packet keeps its number through recoveries; numbers are used once in a life of the process;
            Unreliable packets have numbers of their own (trap 4), and are sent once. The first copy of the
            ACK of a packet gives back what it took of the window.
Limits      packets that wait to be sent, and packets without a place in the order: by number, and by the bytes
            of the flow's window.
"""

from collections import deque
from dataclasses import dataclass, field

from hopring.ids import NEVER
from hopring.rmp.events import SubmitData
from hopring.rmp.flow.flow import SenderFlow
from hopring.rmp.retry import Retry
from hopring.rmp.state import PeerRingState
from hopring.services import Service
from hopring.wire.rmp.ids import DataId
from hopring.wire.rmp.packets import NO_HANDLER, DataPacket

RESENT_MAX = 16
"""The most own packets that one try sends again."""


@dataclass(slots=True)
class OwnData:
    """The packets of this member."""

    state: PeerRingState
    queue: deque[SubmitData] = field(default_factory=deque)
    last: int = 0  # The number of the last packet.
    last_loose: int = 0
    unsettled: dict[int, tuple[DataPacket, int]] = field(default_factory=dict)  # Sent and not passed, tickets.
    loose_ticket: int = 0
    paced_until_us: int = NEVER  # A rate lets the first packet of the queue go then.
    retry: Retry = field(init=False)
    flow: SenderFlow = field(init=False)

    def __post_init__(self) -> None:
        options = self.state.options
        self.retry = Retry(options.first_us, options.clamp_us)
        self.flow = SenderFlow(options.flow, options.first_us, options.clamp_us)

    @property
    def open(self) -> bool:
        """Whether another packet may be submitted."""
        return len(self.queue) < self.state.options.submit_max

    @property
    def drained(self) -> bool:
        """Whether everything that was submitted has its place in the order."""
        return not self.queue and not self.unsettled

    @property
    def unordered(self) -> list[DataPacket]:
        """Packets that were sent, and have no place in the order."""
        line = self.state.data.ordered.get(self.state.me, 0)
        return [packet for seq, (packet, _) in self.unsettled.items() if seq > line]

    def _may_send(self, wish: SubmitData, now_us: int) -> bool:
        if wish.service.loose:
            return self.flow.may_send_loose(now_us)
        few = len(self.unordered) < self.state.options.window_packets
        return few and self.flow.may_send(len(wish.body), now_us)

    def next_packet(self, now_us: int) -> DataPacket | None:
        """Numbers the next packet of the queue, if the window lets it go."""
        if not self.queue:
            return None
        if not self._may_send(self.queue[0], now_us):
            if now_us < self.flow.ready_at_us:
                self.paced_until_us = self.flow.ready_at_us
            return None
        wish = self.queue.popleft()
        seq = self._number(wish)
        # Who holds the handler is a matter of the place in the order: at another one it may be another member.
        in_order = wish.handler != NO_HANDLER and wish.service.early
        service = Service.AGREED if in_order else wish.service
        packet = DataPacket(DataId(self.state.me, seq), service, wish.resilience, wish.handler, wish.body)
        if wish.service.loose:
            self.flow.sent_loose(len(wish.body), now_us)
        else:
            self.unsettled[seq] = (packet, wish.ticket)
            self.flow.sent(seq, len(wish.body), now_us)
        return packet

    def _number(self, wish: SubmitData) -> int:
        if wish.service.loose:
            self.last_loose += 1
            self.loose_ticket = wish.ticket
            return self.last_loose
        self.last += 1
        return self.last

    def ticket_of(self, seq: int, loose: bool = False) -> int:
        """The ticket of an own packet."""
        if loose:
            return self.loose_ticket
        return self.unsettled[seq][1] if seq in self.unsettled else 0

    def settled(self, seq: int) -> None:
        """An own packet was passed in the order."""
        self.unsettled.pop(seq, None)
        self.flow.forget(seq)

    def watch(self, now_us: int, progressed: bool) -> None:
        """Lets the timer run while something has no place; progress starts it anew."""
        if not self.unordered or self.state.frozen:
            self.retry.stop()
        else:
            self.retry.first_us = self.flow.timer_us
            if progressed:
                self.retry.restart(now_us)
            else:
                self.retry.start(now_us)

    def send_again(self, now_us: int) -> None:
        """Sends the oldest packets again that have no place."""
        self.retry.again(now_us)
        packets = self.unordered[:RESENT_MAX]
        if packets:
            self.flow.timed_out(packets[0].id.seq, now_us)
        for packet in packets:
            self.flow.resent(packet.id.seq, now_us)
            self.state.multicast(packet)

    def abandon(self) -> tuple[int, ...]:
        """Gives up what was sent, and tells its tickets; what was not sent stays in the queue."""
        tickets = tuple([ticket for _, ticket in self.unsettled.values()])
        self.unsettled.clear()
        self.flow.clear()
        self.retry.stop()
        return tickets
