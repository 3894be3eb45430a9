"""Planted bugs of calls to rings of RMP: acknowledgements, entries of strangers, handlers, forwarding."""

from collections.abc import Callable
from typing import Any, Final

from hopring.rmp.calls.clients import ClientCalls
from hopring.sim.campaign.bugs.planting import Bug, ring_bug
from hopring.sim.rmp.peer import SimPeer
from hopring.wire.rmp.packets import DataPacket, NonMemberData

FLUSH_US: Final = 150_000
"""A member that forgets strangers by its own clock does so after this time."""


def _all_acknowledge(arrived: Callable[..., DataPacket | None]) -> Any:
    def acknowledges_what_it_hears(
        self: ClientCalls, packet: NonMemberData, token_here: bool, now_us: int
    ) -> DataPacket | None:
        if self._is_for_us(packet) and packet.acknowledge and not packet.service.loose:
            self._acknowledge(packet.id, 0)
        return arrived(self, packet, token_here, now_us)

    return acknowledges_what_it_hears


def _flushed_by_clock(arrived: Callable[..., DataPacket | None]) -> Any:
    def forgets_by_its_clock(
        self: ClientCalls, packet: NonMemberData, token_here: bool, now_us: int
    ) -> DataPacket | None:
        source = packet.id.source
        idle_us = now_us - self.heard_us.get(source, now_us)
        if idle_us >= FLUSH_US and self._is_for_us(packet):
            self.state.data.remove_source(source)
            self.state.strangers.pop(source, None)
        return arrived(self, packet, token_here, now_us)

    return forgets_by_its_clock


def _by_address(arrived: Callable[..., DataPacket | None]) -> Any:
    def takes_an_address_for_a_life(
        self: ClientCalls, packet: NonMemberData, token_here: bool, now_us: int
    ) -> DataPacket | None:
        source, seq = packet.id
        lines = [
            line
            for other, line in self.state.data.ordered.items()
            if other != source and other[:2] == source[:2] and other in self.state.strangers
        ]
        if self._is_for_us(packet) and seq <= max(lines, default=0) and not packet.service.loose:
            if token_here:
                self._acknowledge(packet.id, 0)  # It has been delivered, it believes.
            return None
        return arrived(self, packet, token_here, now_us)

    return takes_an_address_for_a_life


def _waiters_answer(holder: Callable[..., bool]) -> Any:
    def any_claim_answers(self: ClientCalls, handler: int) -> bool:
        lock = None if self.shown is None else self.shown.locks.named(str(handler))
        claims = () if lock is None else lock.claims
        return holder(self, handler) or any(one.member.process == self.state.me for one in claims)

    return any_claim_answers


def _without_loopback(send_on: Callable[..., None]) -> Any:
    def hides_it_from_its_host(self: SimPeer) -> None:
        if self.rings.one_host:
            for one in self._unpacker.onward:
                self.observer.sent_on(self.process, one.packet)
            self._unpacker.onward.clear()
        send_on(self)

    return hides_it_from_its_host


_CALLS: Final = "hopring.rmp.calls.clients:ClientCalls"

BUGS: Final[tuple[Bug, ...]] = (
    ring_bug(
        "ack-by-everyone",
        "RMP trap 22: who has delivered a call acknowledges it",
        "every member acknowledges every call that it hears",
        (f"{_CALLS}.arrived", _all_acknowledge),
    ),
    ring_bug(
        "flush-by-clock",
        "RMP trap 21: strangers are forgotten by an ordered change",
        "a member forgets a stranger that it has not heard for a while",
        (f"{_CALLS}.arrived", _flushed_by_clock),
    ),
    ring_bug(
        "nonce-ignored",
        "RMP trap 20: a process that starts again is another one",
        "calls of a process that starts again at its address are taken for those of before",
        (f"{_CALLS}.arrived", _by_address),
    ),
    ring_bug(
        "two-answer",
        "RMP 4.5: the holder of the handler lock answers",
        "those that wait for the handler lock answer, too",
        (f"{_CALLS}._is_holder", _waiters_answer),
    ),
    ring_bug(
        "forward-without-loopback",
        "RMP trap 33: other processes of the host hear what is sent on",
        "what a member sends on does not reach the other processes of its host",
        ("hopring.sim.rmp.peer:SimPeer._send_on", _without_loopback),
    ),
)
