"""An attacker without the cluster key: changed copies of sealed datagrams, and connections to TCP link ports.

It sees real datagrams (`see`), and sends copies that are flipped, cut, longer, spliced, late, or for another
receiver; heads with other fields; clear text; datagrams under a key of its own; and wrong greetings and TLS
handshakes. Nothing of this may have an effect.
"""

import socket
import ssl
from collections import Counter, deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from random import Random
from typing import Final

from hopring.config import Config, cluster_hash
from hopring.errors import PeerError
from hopring.ids import DaemonId, Generation, Incarnation, Process
from hopring.sealing.keys import ClusterKey, KeyRing
from hopring.sealing.packet import (
    EVERYBODY,
    HEAD_BYTES,
    PLACE_BYTES,
    Form,
    SealedHead,
    decode_head,
    encode_head,
)
from hopring.sealing.sealer import SealedCluster
from hopring.sealing.sealing import SECRET_BYTES, Sealing
from hopring.wire.header import Family, Header, encode_header
from hopring.wire.stream import encode_greeting, encode_packet

SEEN_MAX: Final = 4096
STREAMS_MAX: Final = 48
"""Connections that are open at a time."""

STREAM_SHARE: Final = 0.004
WITHOUT_CERTIFICATE: Final = "TCP without certificate"
FOREIGN_KEY: Final = ClusterKey(bytes(32))
NUMBERS: Final = (0, 1, 2**8 - 1, 2**16 - 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1)

Change = Callable[["PacketAttacker", bytes], bytes]


class PacketAttacker:
    """Sends one packet after the other to the daemons of a configuration."""

    def __init__(self, config: Config, seed: int) -> None:
        self.sent: Counter[str] = Counter()
        self._dice = Random(seed)
        self._config = config
        self._hash = cluster_hash(config)
        self._addresses = {
            DaemonId(at): (daemon.address, daemon.port) for at, daemon in enumerate(config.daemons)
        }
        self._seen: deque[bytes] = deque(maxlen=SEEN_MAX)
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._streams: deque[socket.socket] = deque()
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._context.check_hostname, self._context.verify_mode = False, ssl.CERT_NONE
        self._foreign: dict[DaemonId, Sealing] = {}

    def close(self) -> None:
        """Closes its sockets."""
        self._socket.close()
        while self._streams:
            self._streams.popleft().close()

    @property
    def knows(self) -> int:
        """The number of real datagrams that it may use."""
        return len(self._seen)

    def see(self, datagram: bytes) -> None:
        """A real datagram is on the network."""
        self._seen.append(datagram)

    def send(self) -> None:
        """Sends one packet of a drawn kind; it counts only if the kernel has taken it."""
        if self._dice.random() < STREAM_SHARE:
            self._connect()
            return
        kind = self._dice.choice(tuple(CHANGES))
        real = self._dice.choice(self._seen)
        datagram = CHANGES[kind](self, real)
        with suppress(OSError):
            self._socket.sendto(datagram, self._target(kind, real))
            self.sent[kind] += 1

    def _target(self, kind: str, real: bytes) -> tuple[str, int]:
        everywhere = list(self._addresses.values())
        try:
            head = decode_head(real, self._hash)
        except PeerError:
            return self._dice.choice(everywhere)
        if kind == "reflected":
            return self._addresses[head.sender]
        if kind == "redirected" or head.receiver == EVERYBODY or self._dice.random() < 0.1:
            return self._dice.choice(everywhere)
        return self._addresses[head.receiver]

    # Changes.

    def _same(self, real: bytes) -> bytes:
        return real

    def _flipped(self, real: bytes) -> bytes:
        changed = bytearray(real)
        for _ in range(self._dice.choice((1, 1, 1, 2, 8))):
            changed[self._dice.randrange(len(changed))] ^= 1 << self._dice.randrange(8)
        return bytes(changed)

    def _cut(self, real: bytes) -> bytes:
        return real[: self._dice.randrange(1, len(real))]

    def _longer(self, real: bytes) -> bytes:
        return real + self._dice.randbytes(self._dice.choice((1, 16, 100, 1_000)))

    def _spliced(self, real: bytes) -> bytes:
        other, at = self._dice.choice(self._seen), self._dice.randrange(1, len(real))
        return real[:at] + other[at:]

    def _other_head(self, real: bytes) -> bytes:
        """Another value in one field of the sealed head, in front of the same ciphertext."""
        try:
            head = decode_head(real, self._hash)
        except PeerError:
            return real
        dice = self._dice
        receiver = dice.choice([*self._addresses, EVERYBODY, DaemonId(dice.getrandbits(16))])
        changes = [
            head._replace(form=dice.choice(list(Form))),
            head._replace(sender=dice.choice([*self._addresses, DaemonId(dice.getrandbits(16))])),
            head._replace(incarnation=Incarnation(dice.getrandbits(64))),
            head._replace(key=dice.getrandbits(32)),
            head._replace(receiver=receiver),
            head._replace(counter=dice.choice([head.counter + dice.randrange(1, 9_000), *NUMBERS])),
            head._replace(cluster=dice.getrandbits(32)),
        ]
        return encode_head(dice.choice(changes)) + real[HEAD_BYTES:]

    def _train(self, real: bytes) -> bytes:
        """Says that it is a segment of a sealed train, with any place in it."""
        try:
            head = decode_head(real, self._hash)
        except PeerError:
            return real
        dice = self._dice
        counter = head.counter + dice.choice((0, 1, 1, 2, 10, 10_000))
        place = bytes(
            [dice.choice((0, 1, 2, dice.randrange(256))), dice.choice((2, 3, 46, dice.randrange(256)))]
        )
        size = dice.choice((len(real), 2 * len(real), 65_000, 66_001, 2**32 - 1)).to_bytes(4, "little")
        start = encode_head(head._replace(form=Form.TRAIN, counter=min(counter, 2**64 - 1)))
        return start + place + size + real[HEAD_BYTES + PLACE_BYTES :]

    def _clear(self, real: bytes) -> bytes:
        """A datagram of version 1: its head is no secret."""
        try:
            head = decode_head(real, self._hash)
        except PeerError:
            head = SealedHead(Form.DATAGRAM, self._hash, DaemonId(0), Incarnation(1), 0, EVERYBODY, 0)
        family = self._dice.choice(list(Family))
        generation = Generation(self._dice.getrandbits(64))
        return encode_header(Header(family, self._hash, head.sender, head.incarnation, generation)) + real[-40:]

    def _foreign_key(self, real: bytes) -> bytes:
        return (
            self._foreign_sealing()
            .seal_datagram(self._clear(real), self._dice.choice([*self._addresses]))
            .buffer
        )

    def _claimed_key(self, real: bytes) -> bytes:
        """Sealed with its own key, under the id of the real one."""
        sealed = self._foreign_key(real)
        with suppress(PeerError):
            key = decode_head(real, self._hash).key
            return encode_head(decode_head(sealed, self._hash)._replace(key=key)) + sealed[HEAD_BYTES:]
        return sealed

    def _foreign_sealing(self) -> Sealing:
        daemon = self._dice.choice([*self._addresses])
        if daemon not in self._foreign:
            me = Process(daemon, Incarnation(self._dice.getrandbits(64)))
            cluster = SealedCluster(self._config.cluster, self._hash, len(self._addresses))
            ring = KeyRing([FOREIGN_KEY], FOREIGN_KEY.id)
            self._foreign[daemon] = Sealing(me, cluster, ring, bytes(SECRET_BYTES))
        return self._foreign[daemon]

    def _start(self, real: bytes) -> bytes:
        """Another magic, version or form."""
        changed = bytearray(real)
        changed[self._dice.choice((0, 1, 2, 3))] = self._dice.randrange(256)
        return bytes(changed)

    def _random(self, _real: bytes) -> bytes:
        return self._dice.randbytes(self._dice.choice((1, 3, 20, 32, 48, 200, 1_400)))

    # Connections to the ports of TCP links.

    def _connect(self) -> None:
        if len(self._streams) == STREAMS_MAX:
            self._streams.popleft().close()
        kind = self._dice.choice(tuple(STREAMS))
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.settimeout(0.2)
        self._streams.append(sock)
        # Daemons that are down refuse.
        with suppress(OSError):
            sock.connect(self._dice.choice(list(self._addresses.values())))
            self.sent[kind] += 1
            if kind == WITHOUT_CERTIFICATE:
                self._streams[-1] = self._context.wrap_socket(sock)  # With a complete handshake.
            else:
                sock.sendall(STREAMS[kind](self, self._dice.choice(self._seen)))

    def _greeting(self, _real: bytes) -> bytes:
        sender, dice = self._dice.choice([*self._addresses]), self._dice
        header = Header(
            Family.TCP, self._hash, sender, Incarnation(dice.getrandbits(64)), Generation(dice.getrandbits(64))
        )
        return encode_greeting(header) + encode_packet(dice.randbytes(50))

    def _hello(self, _real: bytes) -> bytes:
        """The first message of a TLS client, damaged."""
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        with suppress(ssl.SSLWantReadError):
            self._context.wrap_bio(incoming, outgoing).do_handshake()
        return self._flipped(outgoing.read())

    def _record(self, real: bytes) -> bytes:
        """Looks like a record of TLS and is none."""
        return bytes([self._dice.choice((20, 21, 22, 23)), 3, 1]) + len(real).to_bytes(2, "big") + real


CHANGES: Final[Mapping[str, Change]] = {
    "flipped": PacketAttacker._flipped,
    "cut": PacketAttacker._cut,
    "longer": PacketAttacker._longer,
    "spliced": PacketAttacker._spliced,
    "replayed": PacketAttacker._same,
    "reflected": PacketAttacker._same,
    "redirected": PacketAttacker._same,
    "other head": PacketAttacker._other_head,
    "train": PacketAttacker._train,
    "clear": PacketAttacker._clear,
    "foreign key": PacketAttacker._foreign_key,
    "claimed key": PacketAttacker._claimed_key,
    "other start": PacketAttacker._start,
    "random": PacketAttacker._random,
}
"""Kinds of datagrams."""

STREAMS: Final[Mapping[str, Change]] = {
    "TCP clear greeting": PacketAttacker._greeting,
    "TCP damaged handshake": PacketAttacker._hello,
    WITHOUT_CERTIFICATE: PacketAttacker._same,
    "TCP no record": PacketAttacker._record,
    "TCP random": PacketAttacker._random,
    "TCP datagram": PacketAttacker._same,
}
"""What is written to connections, by kind."""
