"""Processes of RMP on a network in memory: sessions ask, rings order, and each packet takes DELAY_US."""

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from random import Random

from hopring.groups.events import Connect, Input, JoinGroup, Output, Send, ShowView
from hopring.ids import DaemonId, GroupName
from hopring.links.events import Tick
from hopring.rmp.events import MulticastPacket, PacketArrived
from hopring.rmp.options import PeerRingOptions
from hopring.rmp.process.events import GroupPacket, RingLayer
from hopring.rmp.process.group import PeerTerms
from hopring.rmp.process.groups import PeerGroups
from hopring.rmp.process.numbers import SESSION
from hopring.rmp.ring import open_ring
from hopring.services import Service
from hopring.wire.bundle import BundleKey, encode_bundle
from hopring.wire.rmp.ids import PeerProcess

DELAY_US = 500
TRADES = GroupName("trades")


class PeerNode:
    """One process with its session, and everything that the session was told."""

    def __init__(self, world: "PeerWorld", name: str, port: int, terms: PeerTerms) -> None:
        self.world, self.name = world, name
        self.process = PeerProcess(0x7F000001, port, port)
        self.groups = PeerGroups(self.process, terms, self._make_ring)
        self.told: list[Output] = []

    def _make_ring(self, group: GroupName) -> tuple[RingLayer, bool]:
        return open_ring(self.process, group, PeerRingOptions(), Random(self.process.port)), True

    def step(self, event: Input) -> None:
        """One event, and the packets that follow from it."""
        self.told += self.groups.step(event, self.world.now_us)
        self.told += self.groups.step(Tick(), self.world.now_us)
        packets, self.groups.box.packets = self.groups.box.packets, []
        for group, effect in packets:
            arrived = PacketArrived(effect.packet, effect.epoch, self.process)
            for other in self.world.nodes:
                to_all = isinstance(effect, MulticastPacket)
                if other is not self and (to_all or getattr(effect, "to", None) == other.process):
                    self.world.send(other, GroupPacket(group, arrived))

    def connect(self) -> "PeerNode":
        """The session begins; a name is that of its process here."""
        self.step(Connect(SESSION, self.name))
        return self

    def join(self, group: GroupName = TRADES) -> None:
        """Asks to join a group."""
        self.step(JoinGroup(SESSION, group))

    def send(
        self,
        *bodies: bytes,
        groups: Sequence[str] = (TRADES,),
        service: Service = Service.AGREED,
        resilience: int = 0,
        ticket: int = 0,
        indexes: Sequence[int] = (),
        deadline_us: int | None = None,
    ) -> None:
        """Sends a bundle; with indexes it is a mixed one."""
        names = tuple([GroupName(one) for one in groups])
        key = BundleKey(DaemonId(0), SESSION, service, names, mixed=bool(indexes), resilience=resilience)
        bundle = encode_bundle(key, bodies, [0] * len(bodies), [ticket] * len(bodies), indexes)
        send = Send(SESSION, key, bundle) if deadline_us is None else Send(SESSION, key, bundle, deadline_us)
        self.step(send)

    def views(self) -> list[tuple[str, ...]]:
        """The names in the views that its session was shown."""
        return [tuple([one.name for one in event.view.members]) for event in self.all(ShowView)]

    def all(self, kind: type) -> list:  # type: ignore[type-arg]
        """All that it was told of one kind."""
        return [one for one in self.told if isinstance(one, kind)]

    @property
    def private(self) -> str:
        """The private group of its session."""
        return f"#{self.name}#{self.process}"


class PeerWorld:
    """All processes, and the packets under way."""

    def __init__(self) -> None:
        self.now_us = 1_000
        self.nodes: list[PeerNode] = []
        self._under_way: list[tuple[int, int, PeerNode, GroupPacket]] = []
        self._count = 0

    def add(self, name: str, terms: PeerTerms | None = None) -> PeerNode:
        """A new process, with its session connected."""
        node = PeerNode(self, name, 5_000 + len(self.nodes), terms or PeerTerms())
        self.nodes.append(node)
        return node.connect()

    def joined(self, *names: str) -> list[PeerNode]:
        """New processes that are in one group."""
        nodes = []
        for name in names:
            node = self.add(name)
            node.join()
            self.run_until(lambda node=node: bool(node.views()))  # type: ignore[misc]
            nodes.append(node)
        self.run_until(lambda: all(len(node.views()[-1]) == len(names) for node in nodes))
        return nodes

    def send(self, to: PeerNode, packet: GroupPacket) -> None:
        """A packet is under way."""
        self._count += 1
        heappush(self._under_way, (self.now_us + DELAY_US, self._count, to, packet))

    def run_until(self, done: Callable[[], bool], for_us: int = 10_000_000) -> None:
        """Carries out what is next until this holds; fails after that time."""
        end_us = self.now_us + for_us
        while not done():
            self._next(end_us)
            assert self.now_us < end_us, "it does not come about"

    def run(self, for_us: int) -> None:
        """Lets this time pass."""
        end_us = self.now_us + for_us
        while self.now_us < end_us:
            self._next(end_us)

    def _next(self, end_us: int) -> None:
        wake, node = min([(one.groups.wake_at_us, one.process.port) for one in self.nodes])
        arrival_us = self._under_way[0][0] if self._under_way else end_us
        self.now_us = max(self.now_us, min(wake, arrival_us, end_us))
        if arrival_us <= self.now_us and self._under_way:
            _, _, to, packet = heappop(self._under_way)
            to.step(packet)
            return
        for one in self.nodes:
            if one.process.port == node and wake <= self.now_us:
                one.step(Tick())
