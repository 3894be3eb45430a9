"""The lower rows of the paper's tables, as two processes with one TCP connection between them.

Each layer has what is below it: bare TCP; numbered frames of a channel with their acknowledgements; the causal
order of a set on top of that. There is no log and there are no members, as in the paper's rows "no logging".
"""

import socket
import struct
import time
from collections import deque
from typing import Final, Protocol

from hopring.bench.wide.paper import CBCAST, CHANNEL, TCP
from hopring.haul.ids import ClusterId, ParcelId, Talk, clusters_mask
from hopring.haul.link.channel import Channel, ChannelReceiver, ChannelSender
from hopring.haul.link.frames import (
    FRAME_BYTES_MAX,
    DescriptorsFrame,
    LinkFrameReader,
    ParcelFrame,
    SetFrame,
    encode_frame,
)
from hopring.haul.managed_set import ManagedSet, SetOptions
from hopring.haul.order.events import Cast, CastKind, Parcel
from hopring.haul.order.wide_set import WideSet
from hopring.haul.stored.shelf import FileShelf

SET: Final = "bench"
READ_BYTES: Final = 64 * 1024
BATCH_BYTES: Final = 1024 * 1024
BOTH: Final = clusters_mask([ClusterId(1), ClusterId(2)])
_LENGTH: Final = struct.Struct("<I")


class BareLayer(Protocol):
    """One end of a connection that carries messages."""

    def send(self, body: bytes) -> None:
        """Sends a message to the other end."""

    def receive(self) -> bytes:
        """The next message of the other end; raises EOFError if it has gone."""


class TcpLayer:
    """Messages with their length before them."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._pending = bytearray()

    def send(self, body: bytes) -> None:
        """Sends a message by one call."""
        self._connection.sendall(_LENGTH.pack(len(body)) + body)

    def receive(self) -> bytes:
        """The next message of the other end."""
        pending = self._pending
        while len(pending) < _LENGTH.size or len(pending) < _LENGTH.size + _LENGTH.unpack_from(pending)[0]:
            pending += received_from(self._connection)
        end = _LENGTH.size + _LENGTH.unpack_from(pending)[0]
        body = bytes(pending[_LENGTH.size : end])
        del pending[:end]
        return body


class ChannelLayer:
    """Numbered frames, which are kept until the other end acknowledges them."""

    def __init__(self, connection: socket.socket, me: ClusterId, peer: ClusterId) -> None:
        self._connection = connection
        self._me, self._peer = me, peer
        self.channel = Channel()
        self._sender = ChannelSender(0)
        self._receiver = ChannelReceiver(0)
        self._reader = LinkFrameReader(FRAME_BYTES_MAX)
        self._bodies: dict[ParcelId, bytes] = {}
        self._ready: deque[bytes] = deque()

    def send(self, body: bytes) -> None:
        """Gives the message a number, and sends what the window has room for."""
        parcel_id = ParcelId(self._me, self.channel.sent + 1)
        to = clusters_mask([self._peer])
        self._bodies[parcel_id] = body
        self.channel.append(len(body), Parcel(parcel_id, Talk(BOTH), CastKind.CBCAST, to, 0, ()))
        self._push()

    def receive(self) -> bytes:
        """The next message, behind all frames before it."""
        while not self._ready:
            self._reader.feed(received_from(self._connection))
            while (frame := self._reader.next()) is not None:
                assert isinstance(frame, ParcelFrame | DescriptorsFrame | SetFrame), "nothing else is sent"
                self._receiver.arrive(frame)
            for one in self._receiver.submit(BATCH_BYTES):
                self._take(one)
                self._receiver.taken(one.number)
            self._push()
        return self._ready.popleft()

    def _take(self, frame: ParcelFrame | DescriptorsFrame | SetFrame) -> None:
        for one in self.channel.acknowledge(frame.received):
            assert one.parcel is not None, "there are no other frames here"
            del self._bodies[one.parcel.id]
        self.channel.received = frame.number
        assert isinstance(frame, ParcelFrame), "there are no other frames here"
        self._ready.append(frame.body)

    def _push(self) -> None:
        for frame in self._sender.take(self.channel, lambda _one: True):
            at = SET, frame.number, self.channel.received
            if frame.parcel is None:
                out = encode_frame(DescriptorsFrame(*at, frame.descriptors))
            else:
                body = self._body(frame.parcel.id)
                out = encode_frame(ParcelFrame(*at, frame.parcel, frame.descriptors, body))
            self._connection.sendall(out)

    def _body(self, parcel: ParcelId) -> bytes:
        return self._bodies[parcel]


class CastLayer(ChannelLayer):
    """A set over a channel: descriptors, causes, delivery numbers, bodies that go when all have them."""

    def __init__(self, connection: socket.socket, me: ClusterId, peer: ClusterId) -> None:
        super().__init__(connection, me, peer)
        options = SetOptions()
        shelf = FileShelf(options.files_bytes_max, options.upload_us)
        self._set = ManagedSet(me, SET, WideSet(me, BOTH, options.wide), options, shelf)
        self.channel = self._set.channels[peer]

    def send(self, body: bytes) -> None:
        """A cbcast to the other cluster."""
        cast = Cast(Talk(BOTH), CastKind.CBCAST, to=self._peer)
        self._set.cast(cast, body, _now_us(), notify=False)
        self._push()

    def _take(self, frame: ParcelFrame | DescriptorsFrame | SetFrame) -> None:
        of = self._set
        of.acknowledge(self._peer, frame.received)
        of.receive(self._peer, frame, _now_us())
        for item in of.items(of.handed, of.delivered):
            if item.parcel is not None:
                self._ready.append(of.bodies[item.parcel.id])
        of.hand_over(of.delivered)
        of.dropped.clear()

    def _body(self, parcel: ParcelId) -> bytes:
        return self._set.bodies[parcel]


def layer_over(name: str, connection: socket.socket, me: ClusterId, peer: ClusterId) -> BareLayer:
    """One end of a layer over a connection."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if name == TCP:
        return TcpLayer(connection)
    kinds = {CHANNEL: ChannelLayer, CBCAST: CastLayer}
    return kinds[name](connection, me, peer)


def received_from(connection: socket.socket) -> bytes:
    """Some bytes of the other end; EOFError if it has gone."""
    chunk = connection.recv(READ_BYTES)
    if not chunk:
        raise EOFError("the other end has gone")
    return chunk


def _now_us() -> int:
    return time.monotonic_ns() // 1_000
