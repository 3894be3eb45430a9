"""A process that is no member calls a ring of real peers: by multicast, and through a member that sends on."""

import os
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from itertools import count

import pytest
from tests.support.waiting import SECONDS_MAX

from hopring import Message, View, sync
from hopring.client.peer_url import parse_peer_url
from hopring.daemon.net.multicast import MulticastGroup, enable_sending, interface_of
from hopring.groups.payloads import append_sender
from hopring.ids import DaemonId, GroupName
from hopring.links.events import Tick
from hopring.rmp.calls.events import CallAcknowledged, StrangerOutput, SubmitCall
from hopring.rmp.calls.stranger import Stranger, StrangerOptions
from hopring.rmp.events import MulticastPacket, PacketArrived, UnicastPacket
from hopring.rmp.flow.flow import SenderFlow
from hopring.rmp.naming import group_address
from hopring.rmp.packing import Packer, Unpacker
from hopring.rmp.process.numbers import SESSION
from hopring.services import Service
from hopring.wire.bundle import BundleKey, encode_bundle
from hopring.wire.rmp.ids import PeerProcess
from hopring.wire.train import decode

LOOPBACK = 0x7F000001
NONCE = 77
MEMBERS = ("anna", "bert", "cora")

pytestmark = pytest.mark.slow

_count = count()


class Caller:
    """The core of a stranger at a socket of its own."""

    def __init__(self, domain: str, via: tuple[PeerProcess, ...]) -> None:
        self._at = group_address(domain, "g")
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        enable_sending(self._socket, MulticastGroup(self._at.host, self._at.port, interface_of("127.0.0.1"), 0))
        self.me = PeerProcess(LOOPBACK, self._socket.getsockname()[1], NONCE)
        self._core = Stranger(self.me, "g", StrangerOptions(via=via), SenderFlow())
        self._packer, self._unpacker = Packer(self._at.cluster, NONCE), Unpacker(NONCE)

    def close(self) -> None:
        """Closes the socket."""
        self._socket.close()

    def call(self, text: bytes) -> list[StrangerOutput]:
        """Calls the group with a message of a session `xan`, until the call has ended; returns its end."""
        key = BundleKey(DaemonId(0), SESSION, Service.AGREED, (GroupName("g"),))
        body = append_sender(encode_bundle(key, [text], [0], [0]), "xan")
        wish = SubmitCall(Service.AGREED, body, int(SECONDS_MAX * 1_000_000), ticket=1)
        ended = self._carry_out(self._core.step(wish, _now_us()))
        while not ended:
            wait_us = max(1, min(self._core.wake_at_us, _now_us() + 1_000_000) - _now_us())
            self._socket.settimeout(wait_us / 1_000_000)
            try:
                arrived = self._received(*self._socket.recvfrom(65_536))
            except TimeoutError:
                ended = self._carry_out(self._core.step(Tick(), _now_us()))
                continue
            for one in arrived:
                ended += self._carry_out(self._core.step(one, _now_us()))
        return ended

    def _received(self, datagram: bytes, source: tuple[str, int]) -> list[PacketArrived]:
        found = self._unpacker.unpack(decode(datagram, self._at.cluster), LOOPBACK, source[1])
        return [one for one in found if isinstance(one, PacketArrived)]

    def _carry_out(self, outputs: list[StrangerOutput]) -> list[StrangerOutput]:
        """Sends packets, and returns the rest."""
        effects = [one for one in outputs if isinstance(one, MulticastPacket | UnicastPacket)]
        for addressed in self._packer.pack(effects):
            to = (self._at.host, self._at.port) if addressed.to is None else ("127.0.0.1", addressed.to.port)
            for train in addressed.trains():
                for datagram in train.datagrams():
                    self._socket.sendto(datagram, to)
        return [one for one in outputs if not isinstance(one, MulticastPacket | UnicastPacket)]


def _now_us() -> int:
    return time.monotonic_ns() // 1_000


def place_of(session: sync.Session) -> PeerProcess:
    """Where a session's peer is; nobody knows its nonce."""
    port = parse_peer_url(f"rmp://{session.private_group.rpartition('#')[2]}/").port
    return PeerProcess(LOOPBACK, port, 0)


@pytest.fixture
def ring() -> Iterator[tuple[str, list[sync.Session]]]:
    """Three sessions in one ring; the last one hears no multicasts."""
    domain = f"strangers-{os.getpid()}-{next(_count)}"
    with ExitStack() as stack:
        sessions: list[sync.Session] = []
        for name in MEMBERS:
            deaf = f"?multicast=no&via=127.0.0.1:{place_of(sessions[0]).port}" if name == MEMBERS[-1] else ""
            sessions.append(stack.enter_context(sync.connect(f"rmp:///{domain}{deaf}", name=name)))
            sessions[-1].join("g", timeout_seconds=SECONDS_MAX)
        for session in sessions:
            while not isinstance(event := session.receive(timeout_seconds=SECONDS_MAX), View):
                pass
            while len(event.members) < len(MEMBERS):
                found = session.receive(timeout_seconds=SECONDS_MAX)
                event = found if isinstance(found, View) else event
        yield domain, sessions


def messages_until(session: sync.Session, last: bytes) -> list[tuple[bytes, str]]:
    """The messages of a session and their senders, up to this one."""
    got: list[tuple[bytes, str]] = []
    while not got or got[-1][0] != last:
        event = session.receive(timeout_seconds=SECONDS_MAX)
        if isinstance(event, Message):
            got.append((bytes(event.data), event.sender))
    return got


@pytest.mark.parametrize("through", [(), (0,), (1,)], ids=["by multicast", "by anna", "by bert"])
def test_a_call_comes_to_all_members_once_and_is_acknowledged(
    ring: tuple[str, list[sync.Session]], through: tuple[int, ...]
) -> None:
    domain, sessions = ring
    with closing(Caller(domain, tuple([place_of(sessions[at]) for at in through]))) as caller:
        ended = [*caller.call(b"one"), *caller.call(b"two")]
    sessions[0].multicast("g", b"last")
    got = [messages_until(one, b"last") for one in sessions]

    assert [type(one) for one in ended] == [CallAcknowledged] * 2
    assert [text for text, _sender in got[0]] == [b"one", b"two", b"last"]
    assert got[0][0][1] == f"#xan#127.0.0.1:{caller.me.port}"
    assert got[1] == got[2] == got[0]


def test_a_call_is_sent_on_by_a_member_only(ring: tuple[str, list[sync.Session]]) -> None:
    domain, sessions = ring
    with (
        sync.connect(f"rmp:///{domain}", name="dora") as outside,
        closing(Caller(domain, (place_of(outside), place_of(sessions[1])))) as caller,
    ):
        (ended,) = caller.call(b"one")

    assert isinstance(ended, CallAcknowledged)
    assert [text for text, _sender in messages_until(sessions[2], b"one")] == [b"one"]
