"""A peer: one process of RMP with its sockets, its groups, and the session server for its one session.

Below       `PeerEndpoint`, the sockets; `GroupRing`, one for each group.
Above       the session of a program, at the other end of a pair of sockets, which speaks the client protocol.
Invariants  everything that one turn of the loop sends leaves at its end; the peer ends when its session has
            ended and no other process needs it, or SERVE_US_MAX later.
"""

import os
import secrets
import socket
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final, Protocol

from hopring.client.peer_url import PeerUrl
from hopring.daemon.clients.connection import ClientConnection
from hopring.daemon.loop.event_loop import Loop
from hopring.daemon.net.bind_errors import BindError
from hopring.errors import ChannelRefused, HopError
from hopring.ids import NEVER, GroupName
from hopring.links.events import Tick
from hopring.peer.endpoint import PeerEndpoint
from hopring.peer.status import status_of
from hopring.rmp.events import PacketArrived, RingEffect
from hopring.rmp.flow.policies import FlowOptions, FlowPolicy
from hopring.rmp.options import PeerRingOptions
from hopring.rmp.process.bundles import MESSAGE_BYTES_MAX
from hopring.rmp.process.events import GroupPacket, ProcessStalled, RingLayer
from hopring.rmp.process.group import PeerTerms
from hopring.rmp.process.groups import PeerGroups
from hopring.rmp.process.numbers import SESSION
from hopring.rmp.ring import open_ring
from hopring.session.events import (
    BytesReceived,
    Close,
    ConnectionLost,
    ConnectionOpened,
    Input,
    Listen,
    Output,
    OutputReady,
    Pause,
)
from hopring.session.options import SessionOptions, Slow
from hopring.session.server import SessionServer
from hopring.wire.bundle import bundle_bytes_of
from hopring.wire.rmp.ids import PeerProcess
from hopring.wire.rmp.lists import PeerList

if TYPE_CHECKING:
    from hopring.peer.recorder import PeerTraceFile, RecordedRing
    from hopring.sealing.keys import KeyRing

KEYS_US: Final = 2_000_000
"""How often a peer with keys looks whether their file has changed."""

SERVE_US_MAX: Final = 2_500_000
"""How long a peer whose session has ended answers others at most."""

PAYLOAD_BYTES_MAX: Final = MESSAGE_BYTES_MAX + bundle_bytes_of(0) + 65
"""With this limit the session server takes messages of MESSAGE_BYTES_MAX; longer bundles are cut."""

_OPTIONS: Final = SessionOptions(sessions_max=1, slow_allowed=frozenset({Slow.KICK, Slow.DROP}))


class PeerDoor(Protocol):
    """A server beside the session: the admin socket, or the page of metrics."""

    def close(self) -> None:
        """Closes all of its sockets."""
        ...


class Peer:
    """Serves the session at the other end of a socket."""

    def __init__(
        self, loop: Loop, url: PeerUrl, sock: socket.socket, options: PeerRingOptions | None = None
    ) -> None:
        """Opens the sockets; ChannelRefused says why it cannot, and closes nothing of the caller's."""
        self.ended: Callable[[], None] = loop.stop
        """Called when the peer has closed its sockets."""
        self._loop, self.url = loop, url
        self._key_file = None if not url.keys else KeyFileWatch(url.keys)
        flow = FlowOptions(policy=FlowPolicy(url.flow))
        self._options = options or PeerRingOptions(flow=flow)
        self._random = Random(secrets.randbits(64))
        self.endpoint = PeerEndpoint(loop, url, secrets.randbits(63), self._packet, keys_of(url))
        via = tuple([PeerProcess(_number(host), port, 0) for host, port in url.via])
        terms = PeerTerms(url.minimum, url.ttl, True, url.found, via, _wall_ms)
        self.groups = PeerGroups(self.endpoint.process, terms, self._make_ring)
        self.session_server = SessionServer(self.groups, PAYLOAD_BYTES_MAX, _OPTIONS)
        self._alarm = loop.alarm(lambda: self._step(Tick()))
        self._key_alarm = loop.alarm(self._look_at_keys)
        if self._key_file is not None:
            self._key_alarm.set(loop.now_us() + KEYS_US)
        self._due = False
        self._end_us = NEVER
        self._over = False
        loop.on_stall.append(lambda for_us: self._step(ProcessStalled(for_us)))
        self._writer: PeerTraceFile | None = None
        self._recorded: dict[GroupName, RecordedRing] = {}
        self._doors: list[PeerDoor] = []
        self._open_doors()
        self._connection: ClientConnection | None = ClientConnection(loop, sock, SESSION, self)
        self._step(ConnectionOpened(SESSION))

    def _open_doors(self) -> None:
        """Opens what the URL asks for besides: the trace, the admin socket, the page of metrics."""
        url = self.url
        try:
            # Few peers have them, and every program would pay for their imports.
            if url.trace:
                self._writer = import_module("hopring.peer.recorder").PeerTraceFile(Path(url.trace))
            if url.admin:
                make = import_module("hopring.peer.admin").PeerAdmin
                self._doors.append(make(self._loop, Path(url.admin), lambda: status_of(self), self.endpoint))
            if url.metrics is not None:
                serve = import_module("hopring.peer.metrics").serve_metrics
                self._doors.append(serve(self._loop, url.metrics, lambda: status_of(self)))
        except (OSError, BindError) as error:
            self._close_doors()
            self.endpoint.close()
            problem = f"{url.trace}: {error.strerror}" if isinstance(error, OSError) else str(error)
            raise ChannelRefused(problem, "change trace=, admin= or metrics= of the URL") from None

    def _close_doors(self) -> None:
        for ring in self._recorded.values():
            ring.crash()
        if self._writer is not None:
            self._writer.close()
        for door in self._doors:
            door.close()

    def close(self) -> None:
        """Closes all sockets at once; the others notice by their timers."""
        if self._over:
            return
        self._over = True
        self._close_doors()
        if self._connection is not None:
            self._connection.close()
        self._alarm.drop()
        self._key_alarm.drop()
        self.endpoint.close()
        self.ended()

    def _look_at_keys(self) -> None:
        """Takes the keys of the file if it has changed; a file that is wrong changes nothing."""
        if self._over or self._key_file is None:
            return
        keys = self._key_file.changed()
        if keys is not None:
            self.endpoint.use_keys(keys)
        self._key_alarm.set(self._loop.now_us() + KEYS_US)

    # The connection of the session (`ConnectionOwner`).

    def received(self, _number: int, chunk: bytes) -> None:
        """Handles bytes of the session."""
        self._step(BytesReceived(SESSION, chunk))

    def fetch(self, _number: int, bytes_max: int) -> Sequence[bytes | memoryview]:
        """The bytes to send to the session next."""
        return self.session_server.outgoing(SESSION, bytes_max)

    def lost(self, _number: int) -> None:
        """The session has closed its end, or its program has ended."""
        self._step(ConnectionLost(SESSION))

    def closed(self, _number: int) -> None:
        """The connection has ended: others may still need this peer."""
        self._connection = None
        self._end_us = self._loop.now_us() + SERVE_US_MAX
        self._finish_soon()

    # Steps.

    def _make_ring(self, name: GroupName) -> tuple[RingLayer, bool]:
        capable = self.endpoint.open(name)
        ring = open_ring(self.endpoint.process, name, self._options, self._random)
        if self._writer is None:
            return ring, capable
        make = import_module("hopring.peer.recorder").RecordedRing
        recorded: RecordedRing = make(ring, self.endpoint.process, name, self._writer)
        self._recorded[name] = recorded
        return recorded, capable

    def _packet(self, name: GroupName, packet: PacketArrived) -> None:
        self._step(GroupPacket(name, packet))

    def _step(self, event: Input) -> None:
        if self._over:
            return
        for output in self.session_server.step(event, self._loop.now_us()):
            self._carry_out(output)
        self._finish_soon()

    def _carry_out(self, output: Output) -> None:
        connection = self._connection
        if connection is None:
            return
        if isinstance(output, OutputReady):
            connection.flush_soon()
        elif isinstance(output, Pause | Listen):
            connection.pause(isinstance(output, Pause))
        elif isinstance(output, Close):
            connection.finish(output.last)

    def _finish_soon(self) -> None:
        if not self._due and not self._over:
            self._due = True
            self._loop.call_soon(self._finish_turn)

    def _finish_turn(self) -> None:
        """Submits, gives credit, sends, and sets the alarm; ends the peer when nobody needs it."""
        self._due = False
        if self._over:
            return
        now_us, server = self._loop.now_us(), self.session_server
        server.next_submission(True, now_us)
        for output in server.credit(now_us):
            self._carry_out(output)
        self._send()
        self.endpoint.keep(self.groups.by_name)
        if self._connection is None and (self.groups.over or now_us >= self._end_us):
            self.close()
            return
        self._alarm.set(min(server.wake_at_us, self._end_us))

    def _send(self) -> None:
        packets, self.groups.box.packets = self.groups.box.packets, []
        for name, joined in self.groups.by_name.items():
            listed = joined.list
            deaf = None if listed is None else [one.process for one in listed.members if not one.capable]
            self.endpoint.send_onward(name, self._ttl_of(listed), deaf)
        by_group: dict[GroupName, list[RingEffect]] = {}
        for name, effect in packets:
            by_group.setdefault(name, []).append(effect)
        for name, effects in by_group.items():
            group = self.groups.by_name.get(name)
            members = None if group is None else group.list
            processes = () if members is None else members.processes
            self.endpoint.send(name, effects, self._ttl_of(members), processes)

    def _ttl_of(self, members: PeerList | None) -> int:
        """The TTL of a group's multicasts: the greatest that a member asks for, if they may leave this host."""
        may_leave = self.url.insecure or bool(self.url.keys) or not self.url.is_local
        return self.url.ttl if members is None or not may_leave else max(members.ttl, self.url.ttl)


class KeyFileWatch:
    """A file of keys that may change while a peer runs."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._seen = self._state()

    def changed(self) -> "KeyRing | None":
        """The keys, if the file has changed since the last look and can be read."""
        seen = self._state()
        if seen is None or seen == self._seen:
            return None
        try:
            keys = read_keys(self._path)
        except HopError:
            return None  # It may be half written: the next look reads it again.
        self._seen = seen
        return keys

    def _state(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self._path)
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns


def keys_of(url: PeerUrl) -> "KeyRing | None":
    """The cluster keys that a URL names; CredentialError names the problem and the remedy."""
    return read_keys(url.keys) if url.keys else None


def read_keys(path: str) -> "KeyRing":
    """The cluster keys in a file; CredentialError names the problem and the remedy."""
    ring: KeyRing = import_module("hopring.credentials.cluster_keys").load_key_ring(path)
    return ring


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


def _number(host: str) -> int:
    return int.from_bytes(socket.inet_aton(host), "big")
