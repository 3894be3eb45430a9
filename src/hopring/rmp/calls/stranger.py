"""Stranger: calls a group without being a member, and resends until each call is delivered or answered.

Implements  Whetten, Montgomery, Kaplan, 3.3 and 4.5: Non Member Data by group name or by a list id that is
            cached, with its three flags.
Below       a flow, and a driver that sends packets to the group, or to the members that it was told of.
Above       a program that calls (events.py).
Invariants  calls are numbered without gaps in one life; a packet keeps its number and its content. A call
            that is not delivered is sent again at most `tries_max` times without an answer to any call. Each
            call ends once.
Deviations  members order a source's packets without gaps, so a reliable call is always acknowledged, and one
            that has timed out is sent again in silence until it is. When nobody answers at all, everything
            that is under way fails, and the stranger goes on with another life: another nonce, whose first
            packet says so (trap 20). A cached list id is not used for a second try.
Limits      calls that wait and calls under way; as many bytes under way as the flow allows.
"""

from collections import deque
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

from hopring.ids import NEVER
from hopring.rmp.calls.events import (
    CallAcknowledged,
    CallAnswered,
    CallFailed,
    StrangerInput,
    StrangerOutput,
    SubmitCall,
)
from hopring.rmp.events import MulticastPacket, PacketArrived, UnicastPacket
from hopring.rmp.flow.flow import SenderFlow
from hopring.wire.rmp.ids import DataId, PeerProcess
from hopring.wire.rmp.lists import ListId
from hopring.wire.rmp.packets import NO_HANDLER, NonMemberAck, NonMemberData

CALLS_MAX: Final = 256
"""Limit of the calls under way."""

FIRST_AGAIN_TRIES: Final = 2
"""After so many tries without an answer a packet says again that it is the first."""

WAITING_MAX: Final = 1024
"""Limit of the calls that wait to be sent."""


@dataclass(frozen=True, slots=True)
class StrangerOptions:
    """Timers and tries of a stranger."""

    first_us: int = 5_000
    clamp_us: int = 100_000
    tries_max: int = 8  # Without an answer of any kind; then this life ends.
    answer_us: int = 200_000  # A delivered call asks for its reply again after so long.
    via: tuple[PeerProcess, ...] = ()  # Explicit naming: members that forward; empty: the group's address.


@dataclass(slots=True)
class _Call:
    """One call that is under way."""

    wish: SubmitCall
    seq: int
    ends_at_us: int
    due_us: int
    gap_us: int
    tries: int = 0
    delivered: bool = False  # It was acknowledged; its reply is missing.
    told: bool = False  # The program knows its end; it is resent for the sake of those behind it.


@dataclass(slots=True)
class Stranger:
    """A process that calls one group."""

    me: PeerProcess  # Its first life; also where replies go.
    group: str
    options: StrangerOptions
    flow: SenderFlow
    life: PeerProcess = field(init=False)
    lives: int = 0
    known: ListId | None = None  # The list of the last answer.
    queue: deque[tuple[SubmitCall, int]] = field(default_factory=deque)  # With the ends of their time.
    calls: dict[int, _Call] = field(default_factory=dict)  # By number, rising.
    _last: int = 0  # Number of the last reliable call in this life.
    _first_answered: bool = False  # Members have an entry for this life.
    _last_loose: int = 0
    _targets: int = 0

    def __post_init__(self) -> None:
        self.life = self.me

    @property
    def open(self) -> bool:
        """Whether another `SubmitCall` may come now."""
        return len(self.queue) < WAITING_MAX

    @property
    def wake_at_us(self) -> int:
        """When the stranger wants the next tick."""
        times = [min(one.due_us, NEVER if one.told else one.ends_at_us) for one in self.calls.values()]
        times += [ends_at_us for _, ends_at_us in self.queue]
        if self.queue and len(self.calls) < CALLS_MAX:
            times.append(self.flow.wake_at_us(len(self.queue[0][0].body), 0))
        return min(times, default=NEVER)

    def step(self, event: StrangerInput, now_us: int) -> list[StrangerOutput]:
        """Takes one event; packets that answer nothing are ignored."""
        out: list[StrangerOutput] = []
        if isinstance(event, SubmitCall):
            assert self.open, "look at open before SubmitCall"
            self.queue.append((event, now_us + event.timeout_us))
        elif isinstance(event, PacketArrived):
            if isinstance(event.packet, NonMemberAck):
                out += self._answered(event.packet, now_us)
        else:
            out += self._tick(now_us)
        return out + self._send_queue(now_us)

    # Sending.

    def _send_queue(self, now_us: int) -> list[StrangerOutput]:
        out: list[StrangerOutput] = []
        while self.queue and len(self.calls) < CALLS_MAX:
            wish, ends_at_us = self.queue[0]
            if not self.flow.may_send(len(wish.body), now_us):
                break
            self.queue.popleft()
            if wish.service.loose:
                out.append(self._send_loose(wish, now_us))
                continue
            self._last += 1
            gap_us = min(self.flow.timer_us, self.options.clamp_us)
            call = _Call(wish, self._last, ends_at_us, now_us + gap_us, gap_us)
            self.calls[call.seq] = call
            self.flow.sent(call.seq, len(wish.body), now_us)
            out.append(self._packet(call))
        return out

    def _send_loose(self, wish: SubmitCall, now_us: int) -> StrangerOutput:
        """An Unreliable call has a number of its own row, no acknowledgement, and no end."""
        self._last_loose += 1
        self.flow.sent_loose(len(wish.body), now_us)
        loose = _Call(wish, self._last_loose, NEVER, NEVER, 0)
        return self._packet(loose)

    def _packet(self, call: _Call) -> StrangerOutput:
        wish = call.wish
        lowest = min([one.seq for one in self.calls.values() if not one.delivered], default=0)
        # An entry of this life may have been flushed; where there is one, the flag is ignored.
        first = call.seq == lowest and (not self._first_answered or call.tries >= FIRST_AGAIN_TRIES)
        packet = NonMemberData(
            DataId(self.life, call.seq),
            wish.service,
            wish.resilience,
            wish.handler,
            self.group,
            None if call.tries else self.known,
            not wish.service.loose,
            wish.repeat_reply and wish.handler != NO_HANDLER,
            first and not wish.service.loose,
            wish.body,
        )
        if not self.options.via:
            return MulticastPacket(packet, 0)
        self._targets += bool(call.tries)  # Another member, after a try in vain.
        to = self.options.via[self._targets % len(self.options.via)]
        return UnicastPacket(packet, 0, to, forward=True)

    # Answers.

    def _answered(self, ack: NonMemberAck, now_us: int) -> list[StrangerOutput]:
        call = self.calls.get(ack.seq)
        if ack.client != self.life or call is None:
            return []
        self.known = ack.list
        self._first_answered = True
        for other in self.calls.values():
            other.tries = 0 if not other.delivered else other.tries
        self.flow.acknowledged(ack.seq, now_us)
        if ack.reply and call.wish.handler != NO_HANDLER:
            del self.calls[call.seq]
            return [] if call.told else [CallAnswered(call.wish.ticket, ack.body, ack.source)]
        if call.delivered or ack.reply:
            return []
        if ack.body:
            del self.calls[call.seq]
            return [] if call.told else [CallFailed(call.wish.ticket, False, refused=True)]
        return self._delivered(call, ack, now_us)

    def _delivered(self, call: _Call, ack: NonMemberAck, now_us: int) -> list[StrangerOutput]:
        call.delivered, call.tries = True, 0
        call.due_us = now_us + self.options.answer_us
        if call.wish.handler == NO_HANDLER or call.told:
            del self.calls[call.seq]
        return [] if call.told else [CallAcknowledged(call.wish.ticket, ack.list, ack.timestamp)]

    # Timers.

    def _tick(self, now_us: int) -> list[StrangerOutput]:
        out = self._expire(now_us)
        for call in list(self.calls.values()):
            if now_us < call.due_us:
                continue
            if call.tries >= self.options.tries_max and not call.delivered:
                return out + self._end_life()
            call.tries += 1
            if call.delivered:
                call.due_us = now_us + self.options.answer_us
            else:
                self.flow.timed_out(call.seq, now_us)
                call.gap_us = min(2 * call.gap_us, max(self.options.clamp_us, self.options.first_us))
                call.due_us = now_us + call.gap_us
                self.flow.resent(call.seq, now_us)
            out.append(self._packet(call))
        return out

    def _expire(self, now_us: int) -> list[StrangerOutput]:
        """Tells of calls whose time has run out."""
        out: list[StrangerOutput] = []
        for call in list(self.calls.values()):
            if now_us >= call.ends_at_us and not call.told:
                call.told = True
                out.append(CallFailed(call.wish.ticket, call.delivered))
                if call.delivered:
                    del self.calls[call.seq]
        late = [wish for wish, ends_at_us in self.queue if now_us >= ends_at_us]
        if late:
            self.queue = deque([one for one in self.queue if now_us < one[1]])
        return out + [CallFailed(wish.ticket, False) for wish in late]

    def _end_life(self) -> list[StrangerOutput]:
        """Nobody answers: what is under way fails, and later calls are of another life."""
        out: list[StrangerOutput] = [
            CallFailed(call.wish.ticket, call.delivered) for call in self.calls.values() if not call.told
        ]
        self.calls.clear()
        self.flow.clear()
        self.lives += 1
        digest = blake2b(f"{self.me.nonce} {self.lives}".encode(), digest_size=8).digest()
        self.life = self.me._replace(nonce=int.from_bytes(digest, "little"))
        self.known, self._first_answered = None, False
        return out
