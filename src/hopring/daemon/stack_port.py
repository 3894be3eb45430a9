"""The port of a whole stack: its frames to datagrams, its streams to connections."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from hopring.daemon.loop import Loop
from hopring.daemon.ports import Outlet, Port
from hopring.daemon.tcp import Connection
from hopring.daemon.udp_socket import Address, Send
from hopring.ids import DaemonId
from hopring.links.hop import Hop
from hopring.routing.network import NetworkFailed
from hopring.stack import Stack
from hopring.stack_events import (
    Input,
    Output,
    Promised,
    Receive,
    ReceiveLoose,
    SendSite,
    SendTo,
    Told,
    Visited,
    WriteTo,
)
from hopring.wire.header import Family, encode_header
from hopring.wire.train import Frame, encode

Up = Callable[[Receive | NetworkFailed], None]

_FAMILIES: Final = (Family.HOP, Family.RING)


@dataclass(frozen=True, slots=True)
class Sites:
    """How datagrams reach the other daemons."""

    send: Send
    addresses: Mapping[DaemonId, Address]
    group: Outlet | None  # To all of the own site at once; without it, each is sent to singly.


class StackPort(Port[Input, Output]):
    """One stack on one loop."""

    def __init__(self, loop: Loop, stack: Stack, sites: Sites, up: Up) -> None:
        self.stack = stack
        self.connections: dict[DaemonId, Connection] = {}
        self._sites = sites
        self._up = up
        self._closed = False
        self._heads = {family: encode_header(stack.own.header(family)) for family in _FAMILIES}
        others = [self._outlet(daemon) for daemon in stack.network.ring if daemon != stack.own.me]
        self._site = others if sites.group is None else [sites.group]
        super().__init__(loop, stack)

    def close(self) -> None:
        """Carries out nothing more."""
        self._closed = True
        for connection in self.connections.values():
            connection.close()

    def _carry_out(self, effect: Output) -> None:
        if self._closed:
            return
        match effect:
            case SendTo(daemon, family, frames):
                self._send(family, frames, self._segment_bytes(daemon, family), [self._outlet(daemon)])
            case SendSite(frames):
                self._send(Family.RING, frames, self.stack.options.ring.segment_bytes, self._site)
            case WriteTo(neighbour, data):
                self.connections[neighbour].write(data)
            case Receive() | NetworkFailed():
                self._up(effect)
            case Told() | Promised() | Visited() | ReceiveLoose():
                pass  # Nobody orders here, and nobody sends loosely.

    def _outlet(self, daemon: DaemonId) -> Outlet:
        return Outlet(self._sites.send, self._sites.addresses[daemon])

    def _segment_bytes(self, daemon: DaemonId, family: Family) -> int:
        link = self.stack.links.get(daemon) if family is Family.HOP else None
        return link.options.segment_bytes if isinstance(link, Hop) else self.stack.options.ring.segment_bytes

    def _send(
        self, family: Family, frames: tuple[Frame, ...], segment_bytes: int, outlets: list[Outlet]
    ) -> None:
        for train in encode(self._heads[family], frames, segment_bytes):
            for outlet in outlets:
                outlet.send(train, outlet.address)
