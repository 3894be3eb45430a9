"""A node: one daemon's sockets on one loop, and under them the stack of its present network.

Whoever decides about membership calls `start` with a new generation; the stack of the old one is forgotten, the
sockets stay.
"""

from collections.abc import Mapping
from dataclasses import replace
from random import Random

from hopring.config import Config, cluster_hash
from hopring.daemon.anteroom import Anteroom
from hopring.daemon.interfaces import interface_of
from hopring.daemon.loop import Loop
from hopring.daemon.multicast import Group
from hopring.daemon.ports import Outlet
from hopring.daemon.shaper import DatagramShaper, Shape
from hopring.daemon.stack_port import Sites, StackPort, Up
from hopring.daemon.tcp import Connection, Happening, Listener
from hopring.daemon.traffic import Traffic
from hopring.daemon.udp import UdpEndpoint
from hopring.daemon.udp_socket import Address
from hopring.errors import PeerError
from hopring.ids import DaemonId, Generation, Incarnation, SiteMask
from hopring.links.ring_options import RingOptions
from hopring.links.tcp import Tcp
from hopring.routing.topology import topology_of
from hopring.routing.trees import Pair
from hopring.stack import Stack
from hopring.stack_events import Arrived, FromStream, Identity, Multicast, StackOptions
from hopring.wire.header import Header
from hopring.wire.ring import Token
from hopring.wire.train import decode_train

EARLY_HAPPENINGS_MAX = 64
"""What is kept of a connection whose network has not started here yet; more cuts it."""


class Node:
    """One daemon of a configuration."""

    def __init__(self, loop: Loop, config: Config, name: str, incarnation: Incarnation, up: Up) -> None:
        self.traffic = Traffic()
        """Counts only what was dropped before it reached a network; the endpoints count the rest."""
        self.me = config.daemon_id(name)
        self.port: StackPort | None = None
        self._loop = loop
        self._config = config
        self._incarnation = incarnation
        self._up = up
        self._cluster = cluster_hash(config)
        tuning = config.sites[config.site_of[self.me]].ring
        self._options = StackOptions(ring=replace(RingOptions(), **tuning.given()))
        own = config.daemons[self.me]
        self._addresses: dict[DaemonId, Address] = {
            DaemonId(at): (daemon.address, daemon.port) for at, daemon in enumerate(config.daemons)
        }
        self.endpoint = UdpEndpoint(loop, (own.address, own.port), self._receive)
        # The dice are for tests only: without a shape nothing is thrown.
        self.shaper = DatagramShaper(loop, self.endpoint.send, Random(name))
        self._group = self._join_group()
        self._anteroom = Anteroom(loop, self._cluster, self._admit)
        self._listener = Listener(loop, (own.address, own.port), self._anteroom.welcome)
        self._early: dict[tuple[DaemonId, Generation], _Early] = {}

    def _join_group(self) -> UdpEndpoint | None:
        multicast = self._config.sites[self._config.site_of[self.me]].multicast
        if multicast is None:
            return None
        own = self._config.daemons[self.me].address
        group = Group(multicast.group, multicast.port, interface_of(own))
        return UdpEndpoint(self._loop, group, self._receive)

    @property
    def _outlet(self) -> Outlet | None:
        """The way to all daemons of the site at once, if there is one."""
        return None if self._group is None else Outlet(self._group.send, self._group.address)

    def shape(self, daemon: str, shape: Shape) -> None:
        """Treats what goes to this daemon so from now on; for tests and demonstrations."""
        self.shaper.shape(self._addresses[self._config.daemon_id(daemon)], shape)

    def start(
        self,
        generation: Generation,
        members: Mapping[DaemonId, Incarnation | None],
        cut: frozenset[Pair] = frozenset(),
    ) -> None:
        """Begins a network; the one before is over."""
        if self.port is not None:
            self.port.close()
        own = Identity(self.me, self._incarnation, self._cluster, generation)
        stack = Stack(own, topology_of(self._config), members, cut, self._options, self._loop.now_us())
        sites = Sites(self.shaper.send, self._addresses, self._outlet)
        self.port = StackPort(self._loop, stack, sites, self._up)
        self._connect(stack, self.port)

    def multicast(self, mask: SiteMask, bundle: bytes) -> None:
        """Sends a bundle on the present network."""
        assert self.port is not None, "start a network first"
        self.port.give(Multicast(mask, bundle))

    def close(self) -> None:
        """Gives all sockets back."""
        if self.port is not None:
            self.port.close()
        self._listener.close()
        self._anteroom.close()
        for early in self._early.values():
            early.connection.close()
        self.endpoint.close()
        if self._group is not None:
            self._group.close()

    def _receive(self, buffer: memoryview, segment_bytes: int, _address: Address) -> None:
        for packet in decode_train(buffer, segment_bytes, self._cluster):
            if isinstance(packet, PeerError):
                self.traffic.dropped[packet.reason] += 1
            elif packet.header.sender != self.me and self.port is not None:
                if self._group is not None and any(isinstance(frame, Token) for frame in packet.frames):
                    # Packets sent before the token wait in another socket. Unread they would look lost.
                    self._group.drain()
                self.port.give(Arrived(packet))

    # The connections of TCP links: the lower daemon of a pair dials, the higher one is dialled.

    def _connect(self, stack: Stack, port: StackPort) -> None:
        for neighbour, link in sorted(stack.links.items()):
            if not isinstance(link, Tcp):
                continue
            if self.me < neighbour:
                self._bind(Connection.dial(self._loop, self._addresses[neighbour]), neighbour, port)
            else:
                early = self._early.pop((neighbour, stack.own.generation), None)
                if early is not None:
                    self._bind(early.connection, neighbour, port)
                    for happening in early.happenings:
                        early.connection.sink(happening)
        for early in self._early.values():
            early.connection.close()
        self._early.clear()

    @staticmethod
    def _bind(connection: Connection, neighbour: DaemonId, port: StackPort) -> None:
        connection.sink = lambda happening: port.give(FromStream(neighbour, happening))
        port.connections[neighbour] = connection

    def _admit(self, header: Header, connection: Connection) -> bool:
        """Whether a dialled connection belongs to a link that is, or may soon be."""
        sender = header.sender
        if sender >= self.me:
            return False
        port = self.port
        if port is not None and header.generation == port.stack.own.generation:
            if not isinstance(port.stack.links.get(sender), Tcp) or sender in port.connections:
                return False
            self._bind(connection, sender, port)
            return True
        if (sender, header.generation) in self._early:
            return False
        self._early[sender, header.generation] = _Early(connection)
        return True


class _Early:
    """A connection of a network that has not started here: what happens to it is kept for then."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.happenings: list[Happening] = []
        connection.sink = self._keep

    def _keep(self, happening: Happening) -> None:
        if len(self.happenings) == EARLY_HAPPENINGS_MAX:
            self.connection.close()
        else:
            self.happenings.append(happening)
