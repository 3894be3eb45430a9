"""A hopd that lies: `python -m tests.fuzz.faulty_hopd FILE --name NAME --admin PATH ...`, as hopd is called.

It is a real daemon with the cluster key. Besides its own packets it sends changed copies of them, through its
own sealing and over its own TCP links: each is rightly sealed, and wrong in one field or in a few. Without
orders it sends none and is a daemon like others.

Orders come as datagrams with a JSON object at the Unix socket PATH.fuzz: `{"lies": 500, "per_second": 1000,
"kinds": [...], "ahead": 0.1}` sends that many, an empty order asks for a report. Both are answered with the
changed copies so far, by kind. `{"tap": true}` has copies of sealed datagrams, as they are on the network, sent
to the asker.

Forged bundles are written to PATH.forged, one JSON line `[daemon, stamp, service]` each: those who judge count
them as sent by the daemon that they name.

Everything is interpreted in this process: methods of compiled classes cannot be replaced.
"""

import os

os.environ["HOPRING_PURE"] = "1"

import json
import socket
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from struct import error as StructError
from typing import Any, Final

import msgspec

from hopring.config import Config
from hopring.daemon.engines.membership_host import MembershipHost
from hopring.daemon.hopd import run
from hopring.daemon.loop.event_loop import Loop
from hopring.daemon.net.datagrams import Datagrams
from hopring.daemon.net.link_streams import LinkStreams
from hopring.daemon.net.udp import Address, UdpEndpoint
from hopring.errors import PeerError
from hopring.ids import DaemonId, Process
from hopring.links.tcp import Tcp
from hopring.membership.messages import RecoveryResend, decode_recovery_message
from hopring.ordering.entry import MESSAGE_HEAD_BYTES, decode_message
from hopring.sealing.packet import EVERYBODY
from hopring.sealing.sealing import Sealing
from hopring.sim.packet_changes import PacketChanger
from hopring.wire.control import decode_control_object
from hopring.wire.data import SEGMENT_BYTES_DEFAULT, Data
from hopring.wire.header import Family
from hopring.wire.objects import ObjectType, split_objects
from hopring.wire.routed import ROUTED_HEAD_BYTES, Routed, decode_routed
from hopring.wire.stream import encode_packet, split_packets
from hopring.wire.train import MEMBERSHIP_DATAGRAM_BYTES_MAX, Frame, MembershipFrame, Train, encode
from hopring.wire.unreliable import Loose

TURN_US: Final = 5_000
KEPT_MAX: Final = 64
"""Recent packets of each kind from which copies are made."""

STREAM_BYTES_MAX: Final = 60_000
AGAIN_SHARE: Final = 0.2
"""The share of lies with another wrong field."""

ASIDE_SHARE: Final = 0.1
"""The share of lies that go to another daemon than the packet that they are made of."""

FRESH_SHARE: Final = 0.15
"""The share of changed packets of links that get the number of one which is to come."""

HEAD_SHARE: Final = 0.03
"""The share of lies with another byte in the head below the seal."""

TAPPED_SHARE: Final = 0.1
GROUP_KIND: Final = "Group"
STREAM_KIND: Final = "Stream"
OBJECT_KINDS: Final = {
    int(ObjectType.ROUTED): "Routed",
    int(ObjectType.META): "Meta",
    int(ObjectType.UPDATE): "Update",
    int(ObjectType.CONTROL): "Control",
    int(ObjectType.UNRELIABLE): "Unreliable",
    int(ObjectType.PING): "Ping",
}
_GROUP_MESSAGE: Final = 0x80
UNSENDABLE: Final = (PeerError, msgspec.DecodeError, StructError, ValueError, OverflowError, AssertionError)
"""A change that the wire cannot hold, or a second one that meets what the first has spoiled."""


@dataclass(frozen=True, slots=True)
class SentFrames:
    """Frames of a network that this daemon has sent."""

    family: Family
    frames: tuple[Frame, ...]
    segment_bytes: int
    to: DaemonId


@dataclass(frozen=True, slots=True)
class SentMessage:
    """A message of the membership that this daemon has sent."""

    payload: bytes
    to: DaemonId


@dataclass(frozen=True, slots=True)
class SentPackets:
    """Packets that this daemon has written to a TCP link."""

    payload: bytes
    to: DaemonId


class Liar:
    """Keeps recent packets of this daemon, and sends changed copies of them when it is told to."""

    def __init__(self, place: Path, name: str) -> None:
        self.sent: Counter[str] = Counter()
        self._dice = Random(name)
        self._kept: dict[str, deque[SentFrames | SentMessage | SentPackets]] = {}
        self._due = 0.0
        self._left = 0
        self._per_turn = 0.0
        self._kinds: list[str] = []
        self._ahead_share = 0.0
        self._tops: dict[tuple[Family, DaemonId], int] = {}  # The last number of each link.
        self._tap: str | None = None
        self._control = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._place = place.with_name(place.name + ".fuzz")
        self._place.unlink(missing_ok=True)
        self._control.bind(str(self._place))
        self._forged = place.with_name(place.name + ".forged").open("ab", buffering=0)
        self._datagrams: Datagrams | None = None
        self._streams: LinkStreams | None = None
        self._host: MembershipHost | None = None

    def attach(self, datagrams: Datagrams, loop: Loop, config: Config, me: Process) -> None:
        """This daemon has opened its sockets."""
        self._datagrams = datagrams
        self._me = me.daemon
        self._others = [DaemonId(at) for at in range(len(config.daemons)) if at != me.daemon]
        size = SEGMENT_BYTES_DEFAULT
        self._changer = PacketChanger(self._dice, len(config.daemons), size, clients=True)
        self._loop = loop
        self._alarm = loop.alarm(self._turn)
        loop.register(self._control.fileno(), self._ordered)

    def attach_host(self, host: MembershipHost) -> None:
        """This daemon has a membership."""
        self._host = host

    def attach_streams(self, streams: LinkStreams) -> None:
        """This daemon has TCP links too."""
        self._streams = streams

    # Packets of this daemon.

    def keep_frames(
        self, family: Family, frames: Sequence[Frame], segment_bytes: int, to: DaemonId
    ) -> list[Train]:
        """This daemon sends these frames; returns what is to be sent before them.

        Links take the first packet with a number, and drop others: a changed copy is believed only if it comes
        before the packet that it is made of.
        """
        sent = SentFrames(family, tuple(frames), segment_bytes, to)
        kinds = {type(frame).__name__ for frame in frames}
        for frame in frames:
            if isinstance(frame, (Data, Loose)):
                kinds |= _objects_in(frame.payload)
            if isinstance(frame, Data):
                self._tops[family, to] = frame.seq
        for kind in kinds:
            self._keep(kind, sent)
        wanted = sorted(kinds.intersection(self._kinds))
        if not wanted or not self._left or self._dice.random() > self._ahead_share:
            return []
        kind = self._dice.choice(wanted)
        with suppress(*UNSENDABLE):
            trains = self._changed_trains(kind, sent, to)
            if trains:
                self.sent[f"{kind}, first"] += 1
                addresses = 1 if to != EVERYBODY or self._datagrams is None else len(self._datagrams._site)
                self.sent["datagrams"] += addresses * sum([len(train.datagrams()) for train in trains])
                self._left -= 1
                return trains
        return []

    def send_first(self, trains: Iterable[Train]) -> None:
        """Sends changed copies of a packet for the site, before the packet itself."""
        assert self._datagrams is not None, "it has sockets"
        for train in trains:
            self._datagrams._send_everywhere(train)

    def keep_message(self, to: Iterable[DaemonId], payload: bytes) -> None:
        """This daemon sends a message of the membership."""
        kind = f"Membership {msgspec.msgpack.decode(payload)[0]}"
        for daemon in to:
            self._keep(kind, SentMessage(payload, daemon))

    def keep_stream(self, to: DaemonId, data: bytes) -> None:
        """This daemon writes to a TCP link: a greeting, or packets."""
        with suppress(PeerError):
            packets, end = split_packets(data, 0, STREAM_BYTES_MAX)
            if end == len(data):
                for payload in packets:
                    for kind in _objects_in(payload):
                        self._keep(f"{STREAM_KIND} {kind}", SentPackets(payload, to))

    def _keep(self, kind: str, sent: SentFrames | SentMessage | SentPackets) -> None:
        self._kept.setdefault(kind, deque(maxlen=KEPT_MAX)).append(sent)

    def tap(self, datagram: bytes) -> None:
        """A sealed datagram is on the network."""
        if self._tap is not None and self._dice.random() < TAPPED_SHARE:
            with suppress(OSError):  # The asker is busy or gone.
                self._control.sendto(datagram, self._tap)

    # Orders.

    def _ordered(self, _events: int) -> None:
        with suppress(BlockingIOError):
            while True:
                data, asker = self._control.recvfrom(1 << 16)
                order: dict[str, Any] = json.loads(data)
                if order.get("tap"):
                    self._tap = asker
                    continue
                if "lies" in order:
                    self._left = order["lies"]
                    self._per_turn = order["per_second"] * TURN_US / 1e6
                    self._kinds = order["kinds"]
                    self._ahead_share = order["ahead"]
                    self._due = 0.0
                    self._alarm.set(self._loop.now_us())
                report = {"start": os.getpid(), "sent": dict(self.sent)}
                with suppress(OSError):
                    self._control.sendto(json.dumps(report).encode(), asker)

    def _turn(self) -> None:
        self._due = min(self._due + self._per_turn, 4 * self._per_turn + 1)
        tries = 0
        while self._due >= 1 and self._left:
            tries += 1
            if tries > 4 * self._per_turn + 10:
                break
            if self._lie():
                self._due -= 1
                self._left -= 1
        if self._left:
            self._alarm.set(self._loop.now_us() + TURN_US)

    # Lies.

    def _lie(self) -> bool:
        """Sends one changed copy; False if the drawn packet cannot be changed so, or nothing was sent yet."""
        if not self._kept:
            return False
        wanted = [kind for kind in self._kinds if kind in self._kept]
        kind = self._dice.choice(wanted or sorted(self._kept))
        sent = self._dice.choice(self._kept[kind])
        aside = self._dice.random() < ASIDE_SHARE
        to = self._dice.choice(self._others) if aside else sent.to
        done = False
        with suppress(*UNSENDABLE):
            if isinstance(sent, SentMessage):
                done = self._lie_message(sent, to)
            elif isinstance(sent, SentPackets):
                done = self._lie_stream(kind, sent)
            else:
                done = self._lie_frames(kind, sent, to)
        if done:
            self.sent[kind] += 1
        return done

    def _lie_message(self, sent: SentMessage, to: DaemonId) -> bool:
        assert self._datagrams is not None, "it has sockets"
        payload = self._changer.change_packed(sent.payload)[0]
        if self._dice.random() < AGAIN_SHARE:
            payload = self._changer.change_packed(payload)[0]
        head = self._head(self._datagrams._membership_head)
        (train,) = encode(head, (MembershipFrame(payload),), MEMBERSHIP_DATAGRAM_BYTES_MAX)
        self._send([self._sealing.seal_datagram(train.buffer, to)], to)
        return True

    def _lie_frames(self, kind: str, sent: SentFrames, to: DaemonId) -> bool:
        trains = self._changed_trains(kind, sent, to)
        self._send(trains, to)
        return bool(trains)

    def _changed_trains(self, kind: str, sent: SentFrames, to: DaemonId) -> list[Train]:
        """A changed copy, sealed; empty if these frames cannot be changed in this way."""
        assert self._datagrams is not None, "it has sockets"
        sockets = self._datagrams
        head = sockets._ring_head if sent.family is Family.RING else sockets._hop_head
        found = self._change(sent.frames, kind)
        if found is None or not head:
            return []
        if self._dice.random() < AGAIN_SHARE:
            found = self._change(found, kind) or found
        if self._dice.random() < FRESH_SHARE:
            found = tuple([self._with_next_number(frame, sent.family, to) for frame in found])
        self._note_forged(found)
        sealing = self._sealing
        # The numbers of copies must not count as those of its own packets.
        tops, singly = dict(sealing._tops), dict(sealing._singly)
        try:
            return sealing.seal_frames(self._head(head), sent.family, found, sent.segment_bytes, to)
        finally:
            sealing._tops, sealing._singly = tops, singly

    def _with_next_number(self, frame: Frame, family: Family, to: DaemonId) -> Frame:
        """A packet with a number that its link expects, so that its objects are looked at."""
        top = self._tops.get((family, to))
        if not isinstance(frame, Data) or top is None:
            return frame
        return frame.replace(seq=top + self._dice.randrange(1, 4))

    def _change(self, frames: tuple[Frame, ...], kind: str) -> tuple[Frame, ...] | None:
        if kind != GROUP_KIND:
            found = self._changer.change_frames(frames, kind)
            return None if found is None else found[0]
        for _ in range(4):
            found = self._changer.change_frames(frames, "Routed")
            if found is not None and found[1].startswith("Routed: "):
                return found[0]
        return None

    def _lie_stream(self, kind: str, sent: SentPackets) -> bool:
        inner = kind.removeprefix(f"{STREAM_KIND} ")
        found = self._changer.change_objects(sent.payload, "Routed" if inner == GROUP_KIND else inner)
        stack = None if self._host is None else self._host.membership.stack
        link = None if stack is None else stack.links.get(sent.to)
        if found is None or self._streams is None or not isinstance(link, Tcp) or not link.state.open:
            return False
        self._note_objects(found[0])
        packet = encode_packet(found[0])
        link.state.unsent_bytes += len(packet)  # The connection will tell the link that they are written.
        self._streams_write(self._streams, sent.to, packet)
        return True

    _streams_write: Callable[[LinkStreams, DaemonId, bytes], None] = staticmethod(LinkStreams.write)

    def _head(self, head: bytes) -> bytes:
        if self._dice.random() >= HEAD_SHARE:
            return head
        changed = bytearray(head)
        changed[self._dice.randrange(len(changed))] ^= 1 << self._dice.randrange(8)
        return bytes(changed)

    @property
    def _sealing(self) -> Sealing:
        assert self._datagrams is not None, "it has sockets"
        sealing = self._datagrams.sealing
        assert sealing is not None, "the cluster has keys"
        return sealing

    def _send(self, trains: Iterable[Train], to: DaemonId) -> None:
        datagrams = self._datagrams
        assert datagrams is not None, "it has sockets"
        addresses: list[Address] = datagrams._site if to == EVERYBODY else [datagrams.addresses[to]]
        for train in trains:
            for address in addresses:
                datagrams.shaper.send(train, address)
            self.sent["datagrams"] += len(addresses) * len(train.datagrams())

    def _note_forged(self, frames: Iterable[Frame]) -> None:
        for frame in frames:
            if isinstance(frame, (Data, Loose)):
                self._note_objects(frame.payload)

    def _note_objects(self, payload: bytes) -> None:
        lines: list[tuple[int, int, int]] = []
        with suppress(PeerError):
            for number, body in split_objects(payload):
                with suppress(PeerError):
                    lines += _bundles_in(number, body)
        if lines:
            self._forged.write(b"".join([json.dumps(line).encode() + b"\n" for line in lines]))


def _objects_in(payload: bytes) -> set[str]:
    kinds: set[str] = set()
    with suppress(PeerError):
        for number, body in split_objects(payload):
            kinds.add(OBJECT_KINDS.get(number, "?"))
            at = ROUTED_HEAD_BYTES + MESSAGE_HEAD_BYTES
            if number == ObjectType.ROUTED and len(body) > at and body[at] & _GROUP_MESSAGE:
                kinds.add(GROUP_KIND)
    return kinds - {"?"}


def _bundles_in(number: int, body: memoryview) -> list[tuple[int, int, int]]:
    """Daemon, stamp and service of the bundle in an object."""
    if number == ObjectType.ROUTED:
        routed = decode_routed(number, body)
        assert isinstance(routed, Routed), "it has the number of one"
        if routed.count == 1:
            message = decode_message(routed.chunk)
            return [(message.daemon, routed.lts, int(message.service))]
    if number == ObjectType.CONTROL:
        control = decode_control_object(body)
        if control.count == 1:
            resend = decode_recovery_message(bytes(control.chunk))
            if isinstance(resend, RecoveryResend) and resend.body is not None:
                message = decode_message(resend.body)
                return [(message.daemon, resend.lts, int(message.service))]
    return []


def install(liar: Liar) -> None:
    """Has the sockets of this process show the liar everything that they carry."""
    first_datagrams, trains, share = Datagrams.__init__, Datagrams._trains, Sealing.seal_shared
    send_message, receive = Datagrams.send_message, Datagrams._receive
    first_streams, write, send = LinkStreams.__init__, LinkStreams.write, UdpEndpoint.send
    first_host = MembershipHost.__init__

    def made(self: Datagrams, loop: Loop, config: Config, me: Process, *more: Any, **options: Any) -> None:
        first_datagrams(self, loop, config, me, *more, **options)
        liar.attach(self, loop, config, me)

    def kept_trains(
        self: Datagrams, family: Family, frames: Sequence[Frame], segment_bytes: int, to: DaemonId
    ) -> list[Train]:
        first = liar.keep_frames(family, frames, segment_bytes, to)
        return [*first, *trains(self, family, frames, segment_bytes, to)]

    def kept_shared(
        self: Sealing,
        head: bytes,
        frames: Sequence[Frame],
        more: Sequence[Frame],
        segment_bytes: int,
        to: DaemonId,
    ) -> Train | None:
        shared = share(self, head, frames, more, segment_bytes, to)
        if shared is not None:
            liar.send_first(liar.keep_frames(Family.RING, frames, segment_bytes, EVERYBODY))
            liar.keep_frames(Family.RING, more, segment_bytes, to)
        return shared

    def kept_message(self: Datagrams, to: Iterable[DaemonId], payload: bytes) -> None:
        daemons = tuple(to)
        liar.keep_message(daemons, payload)
        send_message(self, daemons, payload)

    def tapped_receive(self: Datagrams, buffer: memoryview, segment_bytes: int, address: Address) -> None:
        first, refused = bytes(buffer[:segment_bytes]), sum(self.traffic.dropped.values())
        receive(self, buffer, segment_bytes, address)
        if sum(self.traffic.dropped.values()) == refused:  # Otherwise it may be one of the attacker's own.
            liar.tap(first)

    def tapped_send(self: UdpEndpoint, train: Train, address: Address) -> None:
        liar.tap(train.buffer[: train.segment_bytes])
        send(self, train, address)

    def made_streams(self: LinkStreams, *more: Any, **options: Any) -> None:
        first_streams(self, *more, **options)
        liar.attach_streams(self)

    def made_host(self: MembershipHost, *more: Any, **options: Any) -> None:
        first_host(self, *more, **options)
        liar.attach_host(self)

    def kept_write(self: LinkStreams, neighbour: DaemonId, data: bytes) -> None:
        liar.keep_stream(neighbour, data)
        write(self, neighbour, data)

    liar._streams_write = write
    for owner, name, function in (
        (Datagrams, "__init__", made),
        (Datagrams, "_trains", kept_trains),
        (Sealing, "seal_shared", kept_shared),
        (Datagrams, "send_message", kept_message),
        (Datagrams, "_receive", tapped_receive),
        (UdpEndpoint, "send", tapped_send),
        (LinkStreams, "__init__", made_streams),
        (MembershipHost, "__init__", made_host),
        (LinkStreams, "write", kept_write),
    ):
        setattr(owner, name, function)


def main() -> None:
    """Runs the daemon."""
    words = sys.argv[1:]
    place = Path(words[words.index("--admin") + 1])
    install(Liar(place, words[words.index("--name") + 1]))
    sys.exit(run(words))


if __name__ == "__main__":
    main()
