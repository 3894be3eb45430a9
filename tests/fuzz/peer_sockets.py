"""Sends wrong packets to real peers that have a key, from a socket of this process that has none."""

import json
import os
import socket
from contextlib import closing
from pathlib import Path
from random import Random
from struct import Struct
from tempfile import TemporaryDirectory
from typing import Final

from tests.fuzz.peer_packets import PacketSpoiler

from hopring import Message, sync
from hopring.credentials.cluster_keys import KeyFile, new_key
from hopring.daemon.net.multicast import MulticastGroup, enable_sending, interface_of, join
from hopring.rmp.naming import group_address

LOOPBACK: Final = "127.0.0.1"
GROUP: Final = "g"
TURN_PACKETS: Final = 200
SECONDS_MAX: Final = 30.0
DATAGRAM_BYTES_MAX: Final = 65_536
PORT: Final = Struct("<H")
PORT_AT: Final = 12
"""The place of the process's port in the head of a sealed datagram."""


class Eavesdropper:
    """Hears the multicasts of a group, and sends changed copies to it and to its members."""

    def __init__(self, domain: str, dice: Random) -> None:
        at = group_address(domain, GROUP)
        self.sent = 0
        self._group = MulticastGroup(at.host, at.port, interface_of(LOOPBACK), 0)
        self._dice, self._spoiler = dice, PacketSpoiler(dice)
        self._heard: list[bytes] = []
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind((at.host, at.port))
        join(self._socket, self._group)
        self._socket.settimeout(SECONDS_MAX)
        self._speaker = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._speaker.bind((LOOPBACK, 0))
        enable_sending(self._speaker, self._group)

    def close(self) -> None:
        """Closes both sockets."""
        self._socket.close()
        self._speaker.close()

    def turn(self, places: list[tuple[str, int]]) -> None:
        """Hears a datagram, and sends wrong ones to the group and to these addresses."""
        self._heard = [*self._heard[-31:], self._socket.recv(DATAGRAM_BYTES_MAX)]
        for _ in range(TURN_PACKETS):
            datagram = self._dice.choice(self._heard)
            if self._dice.random() < 0.5:
                # It says where it comes from, so only its seal is wrong.
                port = PORT.pack(self._speaker.getsockname()[1])
                datagram = datagram[:PORT_AT] + port + datagram[PORT_AT + PORT.size :]
            wrong = self._spoiler.bytes_of(datagram) if self._dice.random() < 0.8 else datagram
            self._speaker.sendto(wrong, self._dice.choice([(self._group.host, self._group.port), *places]))
            self.sent += 1


def fuzz_sockets(seed: int, packets: int) -> dict[str, int]:
    """Sends so many wrong packets to two peers; returns what one has refused, by reason.

    Its messages must come back all the time, and both must stay members of one list.
    """
    with TemporaryDirectory() as directory:
        key_file, admin = Path(directory) / "peers.key", Path(directory) / "anna"
        KeyFile(key_file, (new_key(in_use=True),)).save()
        domain = f"fuzz-{os.getpid()}"
        url = f"rmp:///{domain}?keys={key_file}"
        with sync.connect(f"{url}&admin={admin}", name="anna") as anna, sync.connect(url, name="bert") as bert:
            anna.join(GROUP)
            bert.join(GROUP)
            places = [_place(one.private_group) for one in (anna, bert)]
            with closing(Eavesdropper(domain, Random(seed))) as eve:
                count = 0
                while eve.sent < packets:
                    count += 1
                    _exchange(anna, bert, count)
                    eve.turn(places)
                _exchange(anna, bert, count + 1)
            return _refused(admin)


def _exchange(sender: sync.Session, receiver: sync.Session, count: int) -> None:
    """A message of the one comes to both."""
    text = b"good %d" % count
    receipt = sender.multicast_wait(GROUP, text, timeout_seconds=SECONDS_MAX)
    assert receipt.members == 2, f"{receipt.members} members after {count} messages"
    while True:
        event = receiver.receive(timeout_seconds=SECONDS_MAX)
        if isinstance(event, Message):
            assert event.data == text, event
            break
    while not isinstance(sender.receive(timeout_seconds=SECONDS_MAX), Message):
        pass


def _place(private_group: str) -> tuple[str, int]:
    host, _, port = private_group.rpartition("#")[2].partition(":")
    return host, int(port)


def _refused(admin: Path) -> dict[str, int]:
    """What the peer with this admin socket has dropped."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(SECONDS_MAX)
        sock.connect(str(admin))
        sock.sendall(b'{"verb": "status"}\n')
        answer = b""
        while not answer.endswith(b"\n"):
            answer += sock.recv(DATAGRAM_BYTES_MAX)
    dropped: dict[str, int] = json.loads(answer)["dropped"]
    return dropped
