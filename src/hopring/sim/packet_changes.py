"""Changes of real packets between daemons: one field gets another value of its type, everything else stays.

It knows frames of rings and links, the objects in them (bundles, meta-data, promises, control messages of
recovery), messages of the membership, and group messages. A faulty daemon of the simulator and the fuzz of real
daemons (`tests/fuzz`) send such packets with a right seal.

Limits      the bodies of clients' messages stay as they are: those who judge know messages by names in them,
            and daemons do not read them.
"""

from collections.abc import Sequence
from enum import Enum
from random import Random
from struct import error as StructError
from typing import Any, Final

import msgspec

from hopring.errors import PeerError
from hopring.ordering.entry import decode_message, encode_message, payload_of
from hopring.routing.network import Item, decode_item, encode_item
from hopring.value import Value, fields_of
from hopring.wire.bundle import BUNDLE_HEAD_BYTES
from hopring.wire.control import Control, Ping, decode_ping, encode_ping
from hopring.wire.data import Data
from hopring.wire.header import HEAD_BYTES
from hopring.wire.objects import ObjectType, split_objects
from hopring.wire.routed import Routed
from hopring.wire.train import Frame, encode
from hopring.wire.unreliable import Loose, Unreliable, decode_unreliable

TRIES_MAX: Final = 8
SLACK_BYTES: Final = 128
"""Room for a longer encoding of a changed number, and for the seal."""

_GROUP_MESSAGE: Final = 0x80
BUNDLE_FIELDS: Final = ((0, 1), (1, 1), (2, 1), (3, 1), (4, 2), (6, 2), (8, 4), (12, 4), (16, 4), (20, 4))
"""Offset and size of the fields of a bundle's head."""

DaemonObject = Item | Ping


class PacketChanger:
    """Changes one field at a time. Each method returns the changed thing and a text about the change."""

    def __init__(self, dice: Random, daemons: int, segment_bytes: int, clients: bool) -> None:
        """Of a cluster with this many daemons and datagrams of this size; `clients`: bundles are of clients."""
        self._dice = dice
        self._daemons = daemons
        self._segment_bytes = segment_bytes
        self._clients = clients

    def change_frames(self, frames: tuple[Frame, ...], kind: str) -> tuple[tuple[Frame, ...], str] | None:
        """Frames with a change in one of this kind, or in an object of this kind; None if there is none."""
        for at, frame in enumerate(frames):
            found = self.change_frame(frame, kind)
            if found is not None:
                changed = (*frames[:at], found[0], *frames[at + 1 :])
                if self._is_sendable(changed):
                    return changed, found[1]
        return None

    def _is_sendable(self, frames: Sequence[Frame]) -> bool:
        """Whether the fields fit the wire."""
        try:
            trains = encode(bytes(HEAD_BYTES), frames, self._segment_bytes - SLACK_BYTES)
        except (StructError, OverflowError, AssertionError, ValueError):
            return False
        return len(trains) == 1

    def change_frame(self, frame: Frame, kind: str) -> tuple[Any, str] | None:
        """A frame of this kind, or with an object of this kind; None if it is another one."""
        if isinstance(frame, (Data, Loose)) and kind != "Data":
            found = self.change_objects(frame.payload, kind)
            return None if found is None else (frame.replace(payload=found[0]), found[1])
        if type(frame).__name__ != kind or not fields_of(frame):
            return None
        return self._change_value(frame, leave=("payload", "chunk"))

    def change_objects(self, payload: bytes, kind: str) -> tuple[bytes, str] | None:
        """The payload of a packet, with a change in an object of this kind; None if there is none."""
        try:
            objects = split_objects(payload)
        except PeerError:
            return None
        starts, at = [], 0
        for _, body in objects:
            starts.append(at)
            at += 4 + len(body)
        order = list(range(len(objects)))
        self._dice.shuffle(order)
        for index in order:
            number, body = objects[index]
            found = self._change_object(number, body, kind)
            if found is not None:
                start = starts[index]
                end = start + 4 + len(body)
                return b"".join([payload[:start], found[0], payload[end:]]), found[1]
        return None

    def _change_object(self, number: int, body: memoryview, kind: str) -> tuple[bytes, str] | None:
        item = _decode_object(number, body)
        if item is None or type(item).__name__ != kind:
            return None
        has_whole = isinstance(item, (Routed, Control, Unreliable)) and item.count == 1
        if has_whole and self._dice.random() < 0.5:
            assert isinstance(item, (Routed, Control, Unreliable)), "it has a chunk"
            chunk = bytes(item.chunk)
            changed, what = (self.change_packed if isinstance(item, Control) else self._change_body)(chunk)
            item, what = item.replace(chunk=changed), f"{type(item).__name__}: {what}"
        else:
            item, what = self._change_value(item, leave=("chunk",))
        try:
            return _encode_object(item), what
        except (StructError, OverflowError, AssertionError):
            return None

    def _change_body(self, body: bytes) -> tuple[bytes, str]:
        """A bundle: its service, daemon or session; or its group message; or the head of a client's bundle."""
        message, dice = decode_message(body), self._dice
        payload = bytes(message.payload)
        if payload and payload[0] & _GROUP_MESSAGE and dice.random() < 0.8:
            changed, what = self.change_packed(payload)
            return body[: len(body) - len(payload)] + changed, what
        if self._clients and len(payload) > BUNDLE_HEAD_BYTES and dice.random() < 0.6:
            return self._change_bundle_head(body)
        field = dice.choice(["service", "daemon", "session"])
        if field == "service":
            service = dice.choice([one for one in type(message.service) if one is not message.service])
            return encode_message(message.replace(service=service)), f"service {service.name}"
        limit = 2**16 if field == "daemon" else 2**32
        old = getattr(message, field)
        new = self._other_number(old) % limit
        if field == "daemon" and dice.random() < 0.5:
            new = dice.randrange(self._daemons)
        return encode_message(message.replace(**{field: new})), f"{field} of a bundle {old} to {new}"

    def _change_bundle_head(self, body: bytes) -> tuple[bytes, str]:
        """The head of a client's bundle, or the length of its sender's name, which is the last byte."""
        payload = payload_of(body)
        payload_at = len(body) - len(payload)
        at, size = self._dice.choice([*BUNDLE_FIELDS, (len(payload) - 1, 1)])
        at += payload_at
        old = int.from_bytes(body[at : at + size], "little")
        new = self._other_number(old) % 2 ** (8 * size)
        changed = b"".join([body[:at], new.to_bytes(size, "little"), body[at + size :]])
        return changed, f"head of a client's bundle at {at - payload_at} {old} to {new}"

    def _change_value(self, value: Any, leave: tuple[str, ...] = ()) -> tuple[Any, str]:
        names = [name for name in fields_of(value) if name not in leave]
        name = self._dice.choice(names)
        old = getattr(value, name)
        new = self._other(old)
        return value.replace(**{name: new}), f"{type(value).__name__}.{name} {old} to {new}"

    def change_packed(self, payload: bytes) -> tuple[bytes, str]:
        """A message in msgpack: one part of it, at any depth."""
        old = msgspec.msgpack.decode(payload)
        path: list[int] = []
        tag = old[0]
        new = self._other_part(old[1:], path)
        for _ in range(TRIES_MAX):
            try:
                return msgspec.msgpack.encode([tag, *new]), f"{tag!r} at {path}: {old[1:]} to {new}"[:400]
            except OverflowError:
                path = []
                new = self._other_part(old[1:], path)
        return payload, "no change"

    def _other_part(self, value: Any, path: list[int]) -> Any:
        dice = self._dice
        if not isinstance(value, list):
            return self._other(value)
        if not value or dice.random() < 0.05:
            return [*value, *value[-1:]] if dice.random() < 0.5 else value[:-1]
        at = dice.randrange(len(value))
        path.append(at)
        return [*value[:at], self._other_part(value[at], path), *value[at + 1 :]]

    def _other(self, old: Any) -> Any:
        """Another value of the same type."""
        dice = self._dice
        if isinstance(old, bool):
            return not old
        if isinstance(old, Enum):
            return dice.choice(list(type(old)))
        if isinstance(old, int):
            return self._other_number(old)
        if isinstance(old, str):
            return dice.choice(["", "a", "#a#b", "x" * 64, "y" * 128, "z\0", old + "x", "red"])
        if isinstance(old, bytes):
            return old[: dice.randrange(len(old) + 1)]
        if isinstance(old, tuple) and old:
            at = dice.randrange(len(old))
            if dice.random() < 0.2:
                return old[:at] + old[at + 1 :]
            part = old[at]
            other = self._change_value(part)[0] if isinstance(part, Value) else self._other(part)
            return (*old[:at], other, *old[at + 1 :])
        return old

    def _other_number(self, old: int) -> int:
        dice = self._dice
        near = [old + 1, max(0, old - 1), old + dice.randrange(1, 1_000), old ^ 1 << dice.randrange(16)]
        far = [0, 1, 2**8 - 1, 2**16 - 1, 2**20, 2**32 - 1, 2**32, 2**48, 2**63, 2**64 - 1]
        return dice.choice([*near, *far, dice.randrange(self._daemons)])


def _decode_object(number: int, body: memoryview) -> DaemonObject | None:
    try:
        if number == ObjectType.PING:
            return decode_ping(body)
        return (decode_unreliable if number == ObjectType.UNRELIABLE else decode_item)(number, body)
    except PeerError:
        return None


def _encode_object(item: DaemonObject) -> bytes:
    return encode_ping(item) if isinstance(item, Ping) else encode_item(item)
