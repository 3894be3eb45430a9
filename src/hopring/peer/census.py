"""Asks who is there in a group: which rings, with which members, and where their tokens are.

Below       the sockets of a peer, which joins nothing.
Above       `hop rmp rings` and `hop doctor`.
Invariants  nothing is changed: a question is no request of the list. All members that hear it answer.
"""

import secrets
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Final

from hopring.client.peer_url import PeerUrl
from hopring.daemon.loop.event_loop import Loop
from hopring.ids import GroupName
from hopring.peer.endpoint import PeerEndpoint
from hopring.peer.peer import keys_of
from hopring.rmp.absorbing import DIRECT
from hopring.rmp.events import MulticastPacket, PacketArrived
from hopring.wire.rmp.ids import Ballot, PeerProcess
from hopring.wire.rmp.lists import PeerList
from hopring.wire.rmp.packets import ListChange, ListChangeRequest, NewListKind, NewListPacket

QUESTIONS: Final = 8
"""Half of them are answered by all members that work, the others by two of a ring, also of a suspended one."""

ANSWERS_MAX: Final = 4096


@dataclass(frozen=True, slots=True)
class RingFound:
    """One ring that has answered, as its most advanced member shows it."""

    epoch: Ballot
    list: PeerList
    answered: tuple[PeerProcess, ...]
    named: PeerProcess  # The member that was named last: it has the token, or is about to.
    timestamp: int  # Up to here that member has every packet.


def take_census(url: PeerUrl, group: str, seconds: float) -> list[RingFound]:
    """Asks for this long; the rings that have answered, the greatest first. ChannelRefused as for peers."""
    loop = Loop()
    answers: list[NewListPacket] = []

    def heard(_group: GroupName, arrived: PacketArrived) -> None:
        packet = arrived.packet
        if isinstance(packet, NewListPacket) and packet.kind is NewListKind.INFORMS:
            answers.append(packet)
            if len(answers) >= ANSWERS_MAX:
                loop.stop()

    try:
        endpoint = PeerEndpoint(loop, url, secrets.randbits(63), heard, keys_of(url))
        try:
            _ask(loop, endpoint, url, GroupName(group), int(seconds * 1_000_000))
        finally:
            endpoint.close()
    finally:
        loop.close()
    return _rings(answers)


def _ask(loop: Loop, endpoint: PeerEndpoint, url: PeerUrl, group: GroupName, for_us: int) -> None:
    via = tuple([PeerProcess(int(IPv4Address(host)), port, 0) for host, port in url.via])
    endpoint.open(group)
    asked, began_us = 0, loop.now_us()

    def ask() -> None:
        nonlocal asked
        if asked == QUESTIONS:
            loop.stop()
            return
        number, serial = asked // 2, DIRECT if asked % 2 == 0 else 0
        question = ListChangeRequest(endpoint.process, ListChange.WHO, number, group, serial=serial)
        endpoint.send(group, [MulticastPacket(question, 0, via)], url.ttl)
        asked += 1
        alarm.set(began_us + for_us * asked // QUESTIONS)

    alarm = loop.alarm(ask)
    alarm.set(began_us)
    loop.run()


def _rings(answers: list[NewListPacket]) -> list[RingFound]:
    by_epoch: dict[Ballot, list[NewListPacket]] = {}
    for one in answers:
        by_epoch.setdefault(one.list.id.epoch, []).append(one)
    out = []
    for epoch, some in by_epoch.items():
        newest = max(some, key=lambda one: (one.sync.timestamp, one.list.id.timestamp))
        processes = tuple(sorted({one.source for one in some}))
        out.append(RingFound(epoch, newest.list, processes, newest.next, newest.sync.timestamp))
    return sorted(out, key=lambda one: (-len(one.list), one.epoch))
