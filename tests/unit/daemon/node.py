"""A node: one daemon's sockets on one loop, and the stack of its present network over them.

The caller decides about membership and calls `start` with a new generation; the stack of the old one is
dropped, the sockets stay. Tests and benches use it without the layers above; `hopd` runs the same sockets under
the real membership (`engines/membership_host.py`).
"""

from collections.abc import Callable, Mapping, Sequence

from hopring.config import Config, cluster_hash
from hopring.daemon.engines.host import LayerDriver
from hopring.daemon.engines.membership_host import stack_options
from hopring.daemon.loop.event_loop import Loop
from hopring.daemon.net.peer_sockets import PeerSockets
from hopring.daemon.net.tcp import ConnectionEvent
from hopring.ids import DaemonId, Generation, Incarnation, Process, SiteMask
from hopring.routing.network import NetworkFailed
from hopring.routing.trees import Pair, topology_of
from hopring.stack import Stack
from hopring.stack_events import (
    Identity,
    Input,
    Multicast,
    ObserveStream,
    Output,
    PacketReceived,
    Receive,
    SendSite,
    SendTo,
    StreamChanged,
    WriteTo,
)
from hopring.wire.train import Packet

Up = Callable[[Receive | NetworkFailed], None]


class Node:
    """One daemon of a configuration."""

    def __init__(self, loop: Loop, config: Config, name: str, incarnation: Incarnation, up: Up) -> None:
        self.me = config.daemon_id(name)
        self.stack: Stack | None = None
        self._loop = loop
        self._config = config
        self._incarnation = incarnation
        self._up = up
        self._port: LayerDriver[Input, Output] | None = None
        self._options = stack_options(config, self.me)
        me = Process(self.me, incarnation)
        self.sockets = PeerSockets(
            loop, config, me, self._options, self._packet_received, self._connection_changed
        )

    def start(
        self,
        generation: Generation,
        members: Mapping[DaemonId, Incarnation | None],
        cut: frozenset[Pair] = frozenset(),
    ) -> None:
        """Starts a network and drops the one before."""
        if self._port is not None:
            self._port.close()
        own = Identity(self.me, self._incarnation, cluster_hash(self._config), generation)
        stack = Stack(own, topology_of(self._config), members, cut, self._options, self._loop.now_us())
        self.stack = stack
        streams = stack.stream_neighbours
        self.sockets.begin(own, stack.network.ring, streams)
        self._port = LayerDriver(self._loop, stack, self._carry_out)

    def multicast(self, mask: SiteMask, bundle: bytes) -> None:
        """Sends a bundle on the present network."""
        assert self._port is not None, "start a network first"
        self._port.give(Multicast(mask, bundle))

    def close(self) -> None:
        """Closes all sockets of the node."""
        if self._port is not None:
            self._port.close()
        self.sockets.close()

    def _packet_received(self, packet: Packet) -> None:
        if self._port is not None:
            self._port.give(PacketReceived(packet))

    def _connection_changed(self, generation: Generation, neighbour: DaemonId, event: ConnectionEvent) -> None:
        if self._port is not None:
            self._port.give(StreamChanged(generation, neighbour, event))

    def _carry_out(self, outputs: Sequence[Output]) -> None:
        self.sockets.send(
            [output for output in outputs if isinstance(output, SendTo | SendSite | WriteTo | ObserveStream)]
        )
        for output in outputs:
            match output:
                case Receive() | NetworkFailed():
                    self._up(output)
                case _:
                    pass  # Nothing is ordered here, and nothing is sent unreliably.
