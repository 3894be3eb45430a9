"""Spoils real packets of peers: bytes of a datagram, or one field of a packet in it, at any depth."""

import dataclasses
from collections import defaultdict, deque
from enum import Enum
from random import Random
from struct import error as StructError
from typing import Any, Final

from tests.fuzz.harness import flip_bits

from hopring.errors import PeerError
from hopring.rmp.packing import frame_of
from hopring.sim.rmp.peer import CLUSTER
from hopring.value import Value, fields_of
from hopring.wire.data import SEGMENT_BYTES_DEFAULT, Data
from hopring.wire.header import HEAD_BYTES
from hopring.wire.rmp.codec import ForwardedPacket, decode_payload, encode_forwarded, encode_packet
from hopring.wire.rmp.ids import PeerProcess
from hopring.wire.rmp.packets import RmpPacket
from hopring.wire.train import decode, encode

TRIES_MAX: Final = 6
SEEN_MAX: Final = 64
"""Packets of a kind, and processes, from which fields are taken."""

_FAR: Final = (0, 1, 2**8 - 1, 2**16, 2**32 - 1, 2**40, 2**48, 2**63, 2**64 - 1)


class PacketSpoiler:
    """Makes wrong datagrams of right ones."""

    def __init__(self, dice: Random) -> None:
        self._dice = dice
        self._seen: defaultdict[type, deque[Any]] = defaultdict(lambda: deque(maxlen=SEEN_MAX))
        self._processes: deque[PeerProcess] = deque(maxlen=SEEN_MAX)

    def see(self, datagram: bytes) -> None:
        """Learns from a right datagram what others may be given."""
        for packet in packets_of(datagram):
            self._seen[type(packet)].append(packet)
            source = getattr(packet, "source", None)
            if isinstance(source, PeerProcess):
                self._processes.append(source)

    def bytes_of(self, datagram: bytes) -> bytes:
        """The datagram with flipped bits, cut, longer, with other bytes, or with numbers that are far off."""
        data, dice = bytearray(datagram), self._dice
        at = dice.randrange(HEAD_BYTES, len(data)) if len(data) > HEAD_BYTES else 0
        match dice.randrange(6):
            case 0:
                flip_bits(dice, data)
            case 1:
                del data[dice.randrange(len(data)) :]
            case 2:
                data[at:at] = dice.randbytes(dice.randrange(1, 9))
            case 3:
                data[at : at + 2] = dice.choice([b"\0\0", b"\xff\xff", b"\x01\x00", dice.randbytes(2)])
            case 4:
                data[at : at + 8] = dice.choice(_FAR).to_bytes(8, "little")
            case _:
                data[at] ^= 1 << dice.randrange(8)
        return bytes(data)

    def field_of(self, datagram: bytes) -> list[bytes]:
        """The datagram with another value in one field of one packet; empty if that cannot be encoded."""
        try:
            packet = decode(datagram, CLUSTER)
        except PeerError:
            return []
        places = [at for at, one in enumerate(packet.frames) if isinstance(one, Data)]
        if not places:
            return []
        at = self._dice.choice(places)
        frame = packet.frames[at]
        assert isinstance(frame, Data), "these places have such frames"
        try:
            found = decode_payload(frame.payload)
        except PeerError:
            return []
        for _ in range(TRIES_MAX):
            try:
                changed = self._envelope(found) if self._dice.random() < 0.02 else self._other(found)
                payload = _encoded(changed)
                frames = (*packet.frames[:at], frame_of(payload), *packet.frames[at + 1 :])
                return _datagrams(datagram[:HEAD_BYTES], frames)
            except (AssertionError, OverflowError, StructError, AttributeError, KeyError, TypeError):
                continue  # The value does not fit the field.
        return []

    def _envelope(self, found: RmpPacket | ForwardedPacket) -> ForwardedPacket:
        packet = found.packet if isinstance(found, ForwardedPacket) else found
        origin = self._dice.choice(self._processes) if self._processes else None
        return ForwardedPacket(self._dice.choice([None, origin]), packet)

    def _other(self, old: Any) -> Any:
        """Another value of the same type."""
        dice = self._dice
        if isinstance(old, Enum):
            return dice.choice(list(type(old)))
        if isinstance(old, bool):
            return not old
        if isinstance(old, int):
            return self._number(old)
        if isinstance(old, str):
            return dice.choice(["", "a", "x" * 64, "y" * 65, "z\0", old + "x", "1", "7"])
        if isinstance(old, bytes):
            return old[: dice.randrange(len(old) + 1)]
        if isinstance(old, PeerProcess) and self._processes and dice.random() < 0.8:
            return dice.choice(self._processes)
        if isinstance(old, tuple) and hasattr(old, "_fields"):
            named: Any = old
            return self._with_other_field(named, named._fields, named._replace)
        if isinstance(old, tuple):
            return self._tuple(old)
        if dataclasses.is_dataclass(old) and not isinstance(old, type):
            names = [one.name for one in dataclasses.fields(old)]
            return self._with_other_field(old, names, lambda **new: dataclasses.replace(old, **new))
        if isinstance(old, Value):
            return self._with_other_field(old, fields_of(old), old.replace)
        return dice.choice([None, dice.choice(self._processes)]) if self._processes else old

    def _with_other_field(self, old: Any, names: Any, replace: Any) -> Any:
        """One field changed, or taken from another packet of the kind."""
        name = self._dice.choice(list(names))
        same = self._seen.get(type(old))
        if same and self._dice.random() < 0.4:
            return replace(**{name: getattr(self._dice.choice(same), name)})
        return replace(**{name: self._other(getattr(old, name))})

    def _tuple(self, old: tuple[Any, ...]) -> tuple[Any, ...]:
        if not old:
            return old
        dice = self._dice
        at = dice.randrange(len(old))
        match dice.randrange(5):
            case 0:
                return old[:at] + old[at + 1 :]
            case 1:
                return (*old, old[at])
            case 2:
                return tuple(dice.sample(old, len(old)))
            case _:
                return (*old[:at], self._other(old[at]), *old[at + 1 :])

    def _number(self, old: int) -> int:
        dice = self._dice
        near = (old + 1, max(0, old - 1), old + dice.randrange(1, 1_000), old ^ 1 << dice.randrange(12))
        return dice.choice((*near, *near, *_FAR))


def packets_of(datagram: bytes) -> list[RmpPacket]:
    """The packets in a datagram, as far as they are whole and right."""
    found: list[RmpPacket] = []
    try:
        frames = decode(datagram, CLUSTER).frames
    except PeerError:
        return found
    for frame in frames:
        if isinstance(frame, Data):
            try:
                one = decode_payload(frame.payload)
            except PeerError:
                continue
            found.append(one.packet if isinstance(one, ForwardedPacket) else one)
    return found


def _encoded(packet: RmpPacket | ForwardedPacket) -> bytes:
    return encode_forwarded(packet) if isinstance(packet, ForwardedPacket) else encode_packet(packet)


def _datagrams(head: bytes, frames: tuple[Any, ...]) -> list[bytes]:
    return [one for train in encode(head, frames, SEGMENT_BYTES_DEFAULT) for one in train.datagrams()]
