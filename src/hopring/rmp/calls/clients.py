"""Clients: the member's side of calls that processes make that are not members.

Implements  Whetten, Montgomery, Kaplan, 3.3 and 4.5: Non Member Data in the order of the group, with
            acknowledgements, and replies of the member that holds a handler lock.
Below       the ring's DataList, order and lists; strangers, which resend.
Above       the ring, which passes packets and its outputs through here; the program that answers.
Invariants  which strangers have an entry, and how far each is, is a function of the order: an entry begins with
            the first packet of a stranger that is ordered, and ends with a list that does not have it. A call
            is acknowledged by a member that has delivered it. A holder is asked to answer a call once, and
            again only if another one was asked before, or its reply is forgotten.
Deviations  who ordered a call acknowledges it, and the present token site acknowledges what comes again: "the
            current token site" of the paper is another at each site (trap 22). Replies are kept where they were
            made (trap 23). Reliable and FIFO calls are delivered at their place in the order, as Agreed ones.
Limits      strangers with and without an entry; replies by number and bytes.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from hopring.rmp.delivery import LooseWindow
from hopring.rmp.events import (
    AnswerRequested,
    DataDelivered,
    ListInstalled,
    MulticastPacket,
    RemovedFromRing,
    RingLeft,
    RingOutput,
    SubmitReply,
    UnicastPacket,
)
from hopring.rmp.lists.locks import handler_holder
from hopring.rmp.requests import OwnRequests
from hopring.rmp.state import PeerRingState, RingPhase
from hopring.services import Service
from hopring.wire.rmp.ids import DataId, PeerProcess
from hopring.wire.rmp.lists import STRANGERS_MAX, PeerList
from hopring.wire.rmp.locks import HANDLERS
from hopring.wire.rmp.packets import (
    NO_HANDLER,
    AckPacket,
    DataPacket,
    ListChange,
    NonMemberAck,
    NonMemberData,
)

ANSWERS_MAX: Final = 1_024
"""Limit of the calls that this member answers, or has answered and may be asked for again."""

ANSWERS_BYTES_MAX: Final = 4 << 20
"""Limit of the replies that are kept for strangers that ask again."""

REFUSED: Final = b"not primary"
"""The body of an answer that is no reply: the call was withheld. An acknowledgement has none."""

UNACKNOWLEDGED_MAX: Final = 1_024
"""Limit of the calls that this member has ordered and not delivered yet, and of those that it has withheld."""


@dataclass(slots=True)
class ClientCalls:
    """The calls of strangers at one member."""

    state: PeerRingState
    heard_us: dict[PeerProcess, int] = field(default_factory=dict)  # Strangers, when they were heard last.
    answers: dict[DataId, bytes | None] = field(default_factory=dict)  # Oldest first; None: being made.
    answers_bytes: int = 0
    ordered: dict[DataId, None] = field(default_factory=dict)  # By this member: to be acknowledged.
    # Of each stranger the first call that this member has delivered; the others followed without a gap, but for
    # those that were withheld.
    delivered: dict[PeerProcess, int] = field(default_factory=dict)
    withheld: dict[DataId, None] = field(default_factory=dict)
    loose: dict[PeerProcess, LooseWindow] = field(default_factory=dict)
    noted: tuple[int, int] = 0, 0  # Epoch and timestamp of the last own ordering.
    shown: PeerList | None = None  # The list that the program knows.

    # Packets of strangers.

    def arrived(self, packet: NonMemberData, token_here: bool, now_us: int) -> DataPacket | None:
        """A call: returns it as a packet that waits for its place, if it is new; answers if it is not."""
        if not self._is_for_us(packet):
            return None
        source, seq = packet.id
        if packet.service.loose:
            self._deliver_loose(packet)
            return None
        line = self.state.data.ordered.get(source)
        if line is None:
            if not packet.first or not self._has_room():
                return None
            self.state.data.add_source(source, seq - 1)
        elif seq <= line:
            self._heard_again(packet, token_here)
            self.heard_us[source] = now_us
            return None
        self.heard_us[source] = now_us
        service = Service.AGREED if packet.service.early else packet.service
        return DataPacket(packet.id, service, packet.resilience, packet.handler, packet.body)

    def _is_for_us(self, packet: NonMemberData) -> bool:
        state = self.state
        if state.phase is not RingPhase.IN or state.frozen or state.installed is None:
            return False
        if packet.id.source in state.present or packet.group != state.group:
            return False
        return packet.list is None or packet.list.epoch == state.epoch.epoch

    def _has_room(self) -> bool:
        """Whether another stranger may begin; those without an entry make room."""
        data, members = self.state.data, self.state.present
        waiting = [one for one in data.ordered if one not in members and one not in self.state.strangers]
        if len(waiting) + len(self.state.strangers) < STRANGERS_MAX:
            return True
        if waiting:
            data.remove_source(waiting[0])
            self.heard_us.pop(waiting[0], None)
        return bool(waiting)

    def _deliver_loose(self, packet: NonMemberData) -> None:
        """An Unreliable call: delivered now or never, and once; nobody answers it."""
        source = packet.id.source
        window = self.loose.pop(source, None) or LooseWindow()
        self.loose[source] = window
        while len(self.loose) > STRANGERS_MAX:
            del self.loose[next(iter(self.loose))]
        if window.is_new(packet.id.seq):
            self.state.emit(
                DataDelivered(packet.id, 0, packet.service, packet.resilience, NO_HANDLER, packet.body)
            )

    def _heard_again(self, packet: NonMemberData, token_here: bool) -> None:
        """A call that has its place: its answer was lost, or the member that would answer is gone."""
        epoch = self.state.epoch
        timestamp = epoch.queue.place.get(packet.id, 0)
        if timestamp > epoch.delivered:
            return
        if packet.acknowledge and token_here:
            if self._has_delivered(packet.id):
                self._acknowledge(packet.id, timestamp)
            elif packet.id in self.withheld:
                self._refuse(packet.id, timestamp)
        if packet.handler == NO_HANDLER or not self._is_holder(packet.handler):
            return
        if packet.id not in self.answers:
            if packet.repeat_reply:
                self._request(packet.id, timestamp, packet.handler, packet.body, again=True)
        else:
            reply = self.answers[packet.id]
            if reply is not None:
                self._send_reply(packet.id, reply)

    def _has_delivered(self, one: DataId) -> bool:
        """Whether this member may say so: who has joined since does not know what became of it."""
        return one.seq >= self.delivered.get(one.source, one.seq + 1) and one not in self.withheld

    # The order.

    def passed(self, data_id: DataId) -> None:
        """A packet has its place; strangers are kept in the order of their last packets."""
        source, seq = data_id
        if source not in self.state.present:
            if self.state.strangers.pop(source, None) is None:
                self.state.data.ordered[source] = seq  # Its entry begins here, whatever was heard before.
            self.state.strangers[source] = seq

    def list_passed(self, members: PeerList) -> list[PeerProcess]:
        """A list has its turn in the order: it says who has an entry from here on; those who have none."""
        kept = {one.process: one.seq for one in members.strangers}
        gone = [one for one in self.state.strangers if one not in kept and one not in members]
        for process in gone:
            self.state.data.remove_source(process)
            self.heard_us.pop(process, None)
        self.state.strangers = kept
        return gone

    def settle(self, requests: OwnRequests, token_here: bool, now_us: int) -> None:
        """Has silent strangers flushed by a change of the list, once the table is half full (trap 21)."""
        if not token_here or 2 * len(self.state.strangers) < STRANGERS_MAX:
            return
        idle_us = self.state.options.stranger_idle_us
        heard = {one: self.heard_us.setdefault(one, now_us) for one in self.state.strangers}
        self.state.silent = frozenset([one for one in heard if now_us - heard[one] >= idle_us])
        if self.state.silent and not requests.flushing:
            requests.ask(ListChange.FLUSH)

    # What the ring tells.

    def follow(self, outputs: Iterable[RingOutput]) -> list[RingOutput]:
        """The outputs of a step, with acknowledgements of calls and requests to answer at their places."""
        out: list[RingOutput] = []
        for one in outputs:
            out.append(one)
            if isinstance(one, ListInstalled):
                self.shown = one.list
            elif isinstance(one, RingLeft | RemovedFromRing):
                self.delivered.clear()
                self.withheld.clear()
            elif isinstance(one, MulticastPacket):
                if isinstance(one.packet, AckPacket) and one.packet.source == self.state.me:
                    self._note_ordered(one.packet, one.epoch)
            elif isinstance(one, DataDelivered):
                out += self._delivered(one)
        return out

    def _note_ordered(self, packet: AckPacket, epoch: int) -> None:
        """Own orderings are noted once: an ACK that is sent again names what was acknowledged."""
        if self.noted[0] == epoch and packet.timestamp <= self.noted[1]:
            return
        self.noted = epoch, packet.timestamp
        for one in packet.ordered:
            # A member of a list that is not shown yet is no stranger.
            if one.source in self.state.strangers:
                self.ordered[one] = None
        while len(self.ordered) > UNACKNOWLEDGED_MAX:
            del self.ordered[next(iter(self.ordered))]

    def _delivered(self, one: DataDelivered) -> list[RingOutput]:
        stranger = self.shown is not None and one.id.source not in self.shown
        self.state.outputs = []
        if stranger and not one.service.loose:
            self._note_delivered(one)
        if one.id in self.ordered and not one.service.loose:
            del self.ordered[one.id]
            if one.withheld:
                self._refuse(one.id, one.timestamp)
            else:
                self._acknowledge(one.id, one.timestamp)
        asks = one.handler != NO_HANDLER and not one.withheld and not one.service.loose
        if asks and self._is_holder(one.handler):
            self._request(one.id, one.timestamp, one.handler, one.body, again=False, stranger=stranger)
        out, self.state.outputs = self.state.outputs, []
        return out

    def _note_delivered(self, one: DataDelivered) -> None:
        self.delivered.setdefault(one.id.source, one.id.seq)
        while len(self.delivered) > 2 * STRANGERS_MAX:
            del self.delivered[next(iter(self.delivered))]
        if one.withheld:
            self.withheld[one.id] = None
            while len(self.withheld) > UNACKNOWLEDGED_MAX:
                del self.withheld[next(iter(self.withheld))]

    def _is_holder(self, handler: int) -> bool:
        if self.shown is None or not 1 <= handler <= HANDLERS:
            return False
        holder = handler_holder(self.shown, handler)
        return holder is not None and holder.member.process == self.state.me

    # Answers.

    def _request(
        self, one: DataId, timestamp: int, handler: int, body: bytes, again: bool, stranger: bool = True
    ) -> None:
        if stranger:
            self._keep(one, None)
        self.state.emit(AnswerRequested(one, timestamp, handler, body, stranger, again))

    @property
    def owes_replies(self) -> bool:
        """Whether the program has not answered all that it was asked."""
        return None in self.answers.values()

    def reply(self, event: SubmitReply) -> None:
        """The program has answered; what it was not asked for, or has answered, is ignored."""
        if self.answers.get(event.id, b"") is None:
            self._keep(event.id, event.body)
            self._send_reply(event.id, event.body)

    def _keep(self, one: DataId, body: bytes | None) -> None:
        self.answers_bytes -= len(self.answers.pop(one, None) or b"")
        self.answers[one] = body
        self.answers_bytes += len(body or b"")
        while len(self.answers) > ANSWERS_MAX or self.answers_bytes > ANSWERS_BYTES_MAX:
            oldest = next(iter(self.answers))
            self.answers_bytes -= len(self.answers.pop(oldest) or b"")

    def _send_reply(self, one: DataId, body: bytes) -> None:
        if self.state.in_epoch:  # A leaver waits for its program, but not for ever.
            self._answer(one, self.state.epoch.queue.place.get(one, 0), True, body)

    def _acknowledge(self, one: DataId, timestamp: int) -> None:
        self._answer(one, timestamp, False, b"")

    def _refuse(self, one: DataId, timestamp: int) -> None:
        """A call for a majority, in a list that is not primary: no member shows it."""
        self._answer(one, timestamp, False, REFUSED)

    def _answer(self, one: DataId, timestamp: int, reply: bool, body: bytes) -> None:
        state = self.state
        if state.epoch_state is not None:
            ack = NonMemberAck(state.me, one.source, state.present.id, one.seq, timestamp, reply, body)
            state.emit(UnicastPacket(ack, state.epoch.generation, one.source))
