"""Ports: where a pure link meets the loop and the sockets.

A port hands its link one event at a time with the time, carries out what comes back, and looks at
`wake_at_us` once at the end of each turn: a link that wants to act by then gets its Tick, any other an alarm.
What is to be sent, the port sends; every other output goes `up`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from hopring.daemon.loop import Loop
from hopring.daemon.tcp import Connection
from hopring.daemon.udp_socket import Address, Send
from hopring.errors import Drop, PeerError
from hopring.ids import DaemonId
from hopring.links import hop, ring, tcp
from hopring.links.events import Deliver, LinkFailed, Tick, Transmit
from hopring.links.ring_events import FromMember, Passed, TransmitTo, Visit
from hopring.wire.data import Data, Segment
from hopring.wire.header import Header, encode_header
from hopring.wire.hop import Ack, Nack
from hopring.wire.ring import Held, Hurry, Token
from hopring.wire.train import Frame, encode

Event_contra = TypeVar("Event_contra", contravariant=True)
Effect_co = TypeVar("Effect_co", covariant=True)
Event = TypeVar("Event")
Effect = TypeVar("Effect")


@dataclass(frozen=True, slots=True)
class Outlet:
    """A way out: an endpoint's `send`, or that of a shaper before it, and where to."""

    send: Send
    address: Address


class Link(Protocol[Event_contra, Effect_co]):
    """What all links look like from here."""

    @property
    def wake_at_us(self) -> int:
        """When it wants a Tick."""

    def step(self, event: Event_contra | Tick, now_us: int) -> Sequence[Effect_co]:
        """Takes one event and tells what to do."""


class Port(ABC, Generic[Event, Effect]):
    """One link on one loop."""

    def __init__(self, loop: Loop, link: Link[Event, Effect]) -> None:
        self._loop = loop
        self._link = link
        self._look_due = False
        self._alarm = loop.alarm(self._look_soon)
        self._look_soon()

    def give(self, event: Event) -> None:
        """Hands an event to the link; the link's PeerError is the caller's to count."""
        for effect in self._link.step(event, self._loop.now_us()):
            self._carry_out(effect)
        self._look_soon()

    @abstractmethod
    def _carry_out(self, effect: Effect) -> None:
        """Does what the link wants done."""

    def _look_soon(self) -> None:
        if not self._look_due:
            self._look_due = True
            self._loop.call_soon(self._look)

    def _look(self) -> None:
        self._look_due = False
        now_us = self._loop.now_us()
        if self._link.wake_at_us <= now_us:
            for effect in self._link.step(Tick(), now_us):
                self._carry_out(effect)
        self._alarm.set(self._link.wake_at_us)


class HopPort(Port[hop.Input, hop.Output]):
    """A Hop link to one neighbour."""

    def __init__(
        self,
        loop: Loop,
        link: hop.Hop,
        own: Header,
        neighbour: Outlet,
        up: Callable[[Deliver | LinkFailed], None],
    ) -> None:
        self._head = encode_header(own)
        self._segment_bytes = link.options.segment_bytes
        self._neighbour = neighbour
        self._up = up
        super().__init__(loop, link)

    def receive(self, _sender: DaemonId, frames: Sequence[Frame]) -> None:
        """Takes a packet's frames in."""
        for frame in frames:
            if not isinstance(frame, Data | Segment | Ack | Nack):
                raise PeerError(Drop.UNKNOWN_TYPE, f"{type(frame).__name__} on a Hop link")
            self.give(frame)

    def _carry_out(self, effect: hop.Output) -> None:
        if isinstance(effect, Transmit):
            for train in encode(self._head, effect.frames, self._segment_bytes):
                self._neighbour.send(train, self._neighbour.address)
        else:
            self._up(effect)


class RingPort(Port[ring.Input, ring.Output]):
    """A ring; what goes to all its members is multicast, or without a group sent to each of them."""

    def __init__(
        self,
        loop: Loop,
        link: ring.Ring,
        own: Header,
        *,
        members: Mapping[DaemonId, Outlet],  # Without ourselves.
        group: Outlet | None = None,
        drain: Callable[[], None] | None = None,  # The `drain` of the group's endpoint.
        up: Callable[[Deliver | LinkFailed | Visit | Passed], None],
    ) -> None:
        self._head = encode_header(own)
        self._segment_bytes = link.options.segment_bytes
        self._members = members
        self._all = [members[member] for member in sorted(members)] if group is None else [group]
        self._drain = drain
        self._up = up
        super().__init__(loop, link)

    def receive(self, sender: DaemonId, frames: Sequence[Frame]) -> None:
        """Takes a packet's frames in."""
        for frame in frames:
            if not isinstance(frame, Data | Segment | Token | Hurry | Held):
                raise PeerError(Drop.UNKNOWN_TYPE, f"{type(frame).__name__} on a ring")
            if isinstance(frame, Token) and self._drain is not None:
                # Packets sent before the token wait in another socket. Unread they would look lost.
                self._drain()
            self.give(FromMember(sender, frame))

    def _carry_out(self, effect: ring.Output) -> None:
        match effect:
            case Transmit(frames):
                self._transmit(frames, self._all)
            case TransmitTo(member, frames):
                self._transmit(frames, [self._members[member]])
            case _:
                self._up(effect)

    def _transmit(self, frames: Sequence[Frame], outlets: Sequence[Outlet]) -> None:
        for train in encode(self._head, frames, self._segment_bytes):
            for outlet in outlets:
                outlet.send(train, outlet.address)


class TcpPort(Port[tcp.Input, tcp.Output]):
    """A TCP link on its connection, which ends with it."""

    def __init__(
        self,
        loop: Loop,
        link: tcp.Tcp,
        connection: Connection,
        up: Callable[[Deliver | LinkFailed], None],
        write: Callable[[bytes], None] | None = None,  # A shaper's, if not the connection's own.
    ) -> None:
        self._connection = connection
        self._write = write or connection.write
        self._up = up
        super().__init__(loop, link)
        connection.sink = self.give

    def _carry_out(self, effect: tcp.Output) -> None:
        match effect:
            case tcp.Write(data):
                self._write(data)
            case LinkFailed():
                self._connection.close()
                self._up(effect)
            case Deliver():
                self._up(effect)
