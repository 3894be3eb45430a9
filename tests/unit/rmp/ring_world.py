"""Rings on a network in memory, in virtual time: loss, doubled and overtaken packets, splits, crashes.

A world is a function of its seed. `World.run_until` carries out what rings ask for; what they tell is kept by
process, stay by stay, for the checks in `ring_judge.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from random import Random

from hopring.errors import PeerError
from hopring.ids import NEVER
from hopring.links.events import Tick
from hopring.rmp.events import (
    ClaimRingLock,
    JoinFailed,
    JoinRing,
    LeaveRing,
    MulticastPacket,
    PacketArrived,
    ReleaseRingLock,
    RemovedFromRing,
    RingInput,
    RingLeft,
    RingNews,
    RingOutput,
    RingStalled,
    SubmitData,
    UnicastPacket,
)
from hopring.rmp.options import PeerRingOptions
from hopring.rmp.ring import GroupRing, open_ring
from hopring.services import Service
from hopring.wire.rmp.codec import decode_packet, encode_packet
from hopring.wire.rmp.ids import PeerProcess
from hopring.wire.rmp.packets import RmpPacket

STEPS_AT_ONE_TIME_MAX = 2_000
"""More steps of a process without any time between them are an endless loop."""


@dataclass(slots=True)
class StayLog:
    """What one ring told between a join and the end of that stay."""

    process: PeerProcess
    news: list[RingNews] = field(default_factory=list)
    submitted: dict[int, SubmitData] = field(default_factory=dict)  # By ticket.
    leave_asked: bool = False
    ended: bool = False
    crashed: bool = False


@dataclass(slots=True)
class Node:
    """One process of the world."""

    process: PeerProcess
    ring: GroupRing
    dice: Random
    wish: JoinRing
    stays: list[StayLog] = field(default_factory=list)
    alive: bool = True
    frozen_until_us: int = 0
    tick_at_us: int = NEVER
    steps: tuple[int, int] = (0, 0)
    refused: int = 0
    rejoins: bool = True
    side: int = 0


@dataclass(slots=True)
class Faults:
    """What the network does to packets."""

    loss: float = 0.0
    doubled: float = 0.0
    delay_us: int = 500
    jitter_us: int = 200


@dataclass(slots=True)
class World:
    """Processes, their network, and the time."""

    seed: int
    options: PeerRingOptions
    faults: Faults = field(default_factory=Faults)
    nodes: dict[PeerProcess, Node] = field(default_factory=dict)
    now_us: int = 0
    heap: list[tuple[int, int, Callable[[], None]]] = field(default_factory=list)
    count: int = 0
    tickets: int = 0
    multicasts: int = 0
    unicasts: int = 0
    trace: Callable[[str], None] | None = None
    dice: Random = field(init=False)

    def __post_init__(self) -> None:
        self.dice = Random(self.seed)

    # Actions.

    def add(self, number: int, wish: JoinRing) -> Node:
        """A new process, which has not joined yet."""
        process = PeerProcess(0x0A000000 + number, 4000 + number, 1000 * number + 7)
        dice = Random(self.seed * 1000 + number)
        node = Node(process, open_ring(process, "red", self.options, dice), dice, wish)
        self.nodes[process] = node
        return node

    def join(self, node: Node) -> None:
        """The process joins, with a new log of its stay."""
        node.stays.append(StayLog(node.process))
        self._step(node, node.wish)

    def submit(self, node: Node, service: Service, resilience: int = 0, size: int = 0) -> None:
        """The process sends a message, if its queue lets it."""
        if node.alive and node.ring.queue_open and node.stays and not node.stays[-1].ended:
            self.tickets += 1
            body = f"{self.tickets}".encode() + b"." * size
            event = SubmitData(service, body, resilience, ticket=self.tickets)
            node.stays[-1].submitted[self.tickets] = event
            self._step(node, event)

    def leave(self, node: Node) -> None:
        """The process asks to leave."""
        if node.alive and node.stays and not node.stays[-1].ended and not node.stays[-1].leave_asked:
            node.stays[-1].leave_asked = True
            self._step(node, LeaveRing())

    def request(self, node: Node, event: ClaimRingLock | ReleaseRingLock) -> None:
        """The process asks for a lock, or gives up a claim."""
        self._step(node, event)

    def crash(self, node: Node) -> None:
        """The process ends without a word."""
        node.alive = False
        if node.stays:
            node.stays[-1].crashed = node.stays[-1].ended = True

    def freeze(self, node: Node, for_us: int) -> None:
        """The process does not run for a while; its packets wait."""
        node.frozen_until_us = self.now_us + for_us
        self.at(node.frozen_until_us, lambda: self._thaw(node, for_us))

    def _thaw(self, node: Node, for_us: int) -> None:
        if node.alive:
            self._step(node, RingStalled(for_us))

    def split(self, sides: dict[PeerProcess, int]) -> None:
        """Only processes of one side reach each other."""
        for process, side in sides.items():
            self.nodes[process].side = side

    def heal(self) -> None:
        """All reach all."""
        for node in self.nodes.values():
            node.side = 0

    # Time.

    def at(self, time_us: int, action: Callable[[], None]) -> None:
        """Does something at a time."""
        self.count += 1
        heappush(self.heap, (time_us, self.count, action))

    def run_until(self, time_us: int) -> None:
        """Lets the time pass."""
        while self.heap and self.heap[0][0] <= time_us:
            when, _, action = heappop(self.heap)
            self.now_us = max(self.now_us, when)
            action()
        self.now_us = time_us

    # Rings.

    def _step(self, node: Node, event: RingInput) -> None:
        if not node.alive:
            return
        if self.now_us < node.frozen_until_us:
            self.at(node.frozen_until_us, lambda: self._step(node, event))
            return
        self._count_step(node)
        try:
            outputs = node.ring.step(event, self.now_us)
        except PeerError as error:
            node.refused += 1
            if self.trace:
                self.trace(f"{self.now_us} {node.process.port} refuses {event}: {error}")
            return
        if self.trace:
            self.trace(f"{self.now_us} {node.process.port} <- {event}")
        for output in outputs:
            if self.trace:
                self.trace(f"{self.now_us} {node.process.port}     -> {output}")
            self._carry_out(node, output)
        self._schedule(node)

    def _carry_out(self, node: Node, output: RingOutput) -> None:
        if isinstance(output, MulticastPacket):
            self.multicasts += 1
            for other in self.nodes.values():
                if other.wish.capable:
                    self._send(node, other, output.packet, output.epoch)
            for process in output.unicast_too:
                self._unicast(node, process, output.packet, output.epoch)
        elif isinstance(output, UnicastPacket):
            self._unicast(node, output.to, output.packet, output.epoch)
        else:
            self._news(node, output)

    def _count_step(self, node: Node) -> None:
        when, steps = node.steps
        node.steps = (self.now_us, steps + 1 if when == self.now_us else 1)
        assert node.steps[1] < STEPS_AT_ONE_TIME_MAX, f"{node.process} steps without end at {self.now_us}"

    def _schedule(self, node: Node) -> None:
        wake_at_us = max(node.ring.wake_at_us, self.now_us)
        if wake_at_us < NEVER and wake_at_us != node.tick_at_us:
            node.tick_at_us = wake_at_us
            self.at(wake_at_us, lambda: self._tick(node, wake_at_us))

    def _tick(self, node: Node, wake_at_us: int) -> None:
        if node.tick_at_us == wake_at_us:
            node.tick_at_us = NEVER
            self._step(node, Tick())

    def _news(self, node: Node, news: RingNews) -> None:
        stay = node.stays[-1]
        stay.news.append(news)
        if isinstance(news, RingLeft):
            stay.ended = True
        elif isinstance(news, RemovedFromRing | JoinFailed):
            stay.ended = True
            if node.rejoins and not stay.leave_asked:
                pause_us = 1 + node.dice.randrange(20_000)
                self.at(self.now_us + pause_us, lambda: self._rejoin(node))

    def _rejoin(self, node: Node) -> None:
        if node.alive and node.stays[-1].ended:
            self.join(node)

    def _unicast(self, node: Node, to: PeerProcess, packet: RmpPacket, epoch: int) -> None:
        self.unicasts += 1
        if to in self.nodes:
            self._send(node, self.nodes[to], packet, epoch)

    def _send(self, node: Node, to: Node, packet: RmpPacket, epoch: int) -> None:
        if node is to:  # Loopback: nothing is lost there.
            self.at(self.now_us + 1, lambda: self._step(to, PacketArrived(packet, epoch, node.process)))
            return
        if node.side != to.side or self.dice.random() < self.faults.loss:
            return
        copies = 2 if self.dice.random() < self.faults.doubled else 1
        coded = decode_packet(encode_packet(packet))
        for _ in range(copies):
            delay_us = self.faults.delay_us + self.dice.randrange(self.faults.jitter_us + 1)
            self.at(self.now_us + delay_us, lambda: self._arrive(to, coded, epoch, node))

    def _arrive(self, to: Node, packet: RmpPacket, epoch: int, sender: Node) -> None:
        if sender.side == to.side:
            self._step(to, PacketArrived(packet, epoch, sender.process))
