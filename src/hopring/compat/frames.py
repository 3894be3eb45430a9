"""Requests of a program as frames, and received frames as results of a call. Pure.

Each function for a request returns a frame to send, or the code of an error.

The toolkit sends requests for which a daemon ends the session (two services at once, bits reserved for daemons,
more than 100 groups), or truncates a name into another one; these functions return a code instead.

The result of a receive call follows the toolkit's rules for lists and buffers that are too short. Nothing is
truncated unless the program asks for it (DROP_RECV): the call returns the required sizes, and the next one gets
the same message.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from hopring.compat.constants import REGULAR_MESS, SELF_DISCARD, Code
from hopring.spread.bits import FREE_BITS, Bits
from hopring.spread.deliveries import NATIVE, SpreadDelivery, SpreadHead, encode_request, is_membership, is_view
from hopring.spread.frames import GROUPS_MAX, HEAD_BYTES, NAME_BYTES
from hopring.spread.membership import in_byte_order

MESSAGE_BYTES_SAFE: Final = 143_200 - HEAD_BYTES
"""The limit for names and body together: a real daemon accepts a little more and crashes."""

_LEGAL: Final = frozenset(range(36, 127))
_BARE: Final = [1 << at for at in range(REGULAR_MESS.bit_length())]
_SERVICES: Final = frozenset([*_BARE, *[one | SELF_DISCARD for one in _BARE]])


def encode_text(name: str) -> bytes:
    """Encodes a name; surrogates become the bytes that they came from."""
    return name.encode("utf-8", "surrogateescape")


def decode_text(name: bytes) -> str:
    """Decodes a name; bytes that are not UTF-8 become surrogates."""
    return name.decode("utf-8", "surrogateescape")


def join(sender: bytes, group: str) -> bytes | Code:
    """Encodes a request to join a group."""
    return _membership(Bits.JOIN, sender, group)


def leave(sender: bytes, group: str) -> bytes | Code:
    """Encodes a request to leave a group."""
    return _membership(Bits.LEAVE, sender, group)


def end(sender: bytes) -> bytes:
    """Encodes the request to end the session."""
    return encode_request(Bits.KILL, sender, (sender,), 0, b"")


def multicast(sender: bytes, service: int, groups: Sequence[str], tag: int, body: bytes) -> bytes | Code:
    """Encodes a message to groups, which may be private ones."""
    if not is_service(service):
        return Code.ILLEGAL_SERVICE
    names = [_name(one) for one in groups]
    if len(names) > GROUPS_MAX or not all(names):
        return Code.ILLEGAL_GROUP
    if NAME_BYTES * len(names) + len(body) > MESSAGE_BYTES_SAFE:
        return Code.MESSAGE_TOO_LONG
    return encode_request(service, sender, tuple(names), tag & 0xFFFF, body)


def is_service(bits: int) -> bool:
    """Whether bits are exactly one service, SELF_DISCARD or not, and bits that daemons pass on."""
    return bits >= 0 and bits & ~FREE_BITS in _SERVICES


def _membership(bits: Bits, sender: bytes, group: str) -> bytes | Code:
    name = _name(group)
    if not name or not _LEGAL.issuperset(name):
        return Code.ILLEGAL_GROUP
    return encode_request(bits, sender, (name,), 0, b"")


def _name(group: str) -> bytes:
    # Empty for a name that cannot be sent.
    try:
        name = encode_text(group)
    except UnicodeEncodeError:
        return b""
    return name if len(name) < NAME_BYTES and b"\0" not in name else b""


NO_INDEX: Final = -1


class Limits(NamedTuple):
    """The sizes of a program's buffers; None means no limit."""

    groups: int | None = None
    body_bytes: int | None = None
    drop: bool = False  # The excess is lost.


class Received(NamedTuple):
    """The result, then the variables that the toolkit's call sets, in its order."""

    ret: int  # Bytes of the message, or a code.
    service_type: int = 0
    sender: str = ""
    num_groups: int = 0
    groups: tuple[str, ...] = ()
    mess_type: int = 0
    endian_mismatch: int = 0
    mess: bytes = b""


def too_short(head: SpreadHead, limits: Limits) -> Received | None:
    """The result instead of a message that does not fit and must not be truncated; None if it fits."""
    short_groups = _short(head.groups_count, limits.groups)
    short_body = _short(head.body_bytes, limits.body_bytes)
    if limits.drop or not (short_groups or short_body):
        return None
    return Received(
        Code.GROUPS_TOO_SHORT if short_groups else Code.BUFFER_TOO_SHORT,
        head.bits,
        decode_text(head.name),
        num_groups=-head.groups_count if short_groups else 0,
        mess_type=_signed(head.tag),
        endian_mismatch=-head.body_bytes if short_body else 0,
    )


def received(delivery: SpreadDelivery, limits: Limits, private_group: bytes) -> Received:
    """The result with the message; with DROP_RECV as much of it as fits."""
    count, size = len(delivery.groups), len(delivery.body)
    short_groups = _short(count, limits.groups)
    short_body = _short(size, limits.body_bytes)
    return Received(
        Code.BUFFER_TOO_SHORT if short_body else size,
        delivery.bits,
        decode_text(delivery.name),
        -count if short_groups else count,
        tuple(map(decode_text, delivery.groups[: limits.groups])),
        NO_INDEX if short_groups and is_view(delivery.bits) else _mess_type(delivery, private_group),
        int(delivery.foreign),
        _body(delivery)[: limits.body_bytes],
    )


def _short(there: int, limit: int | None) -> bool:
    return limit is not None and there > limit


def _mess_type(delivery: SpreadDelivery, private_group: bytes) -> int:
    """The message type; of a view, the index of this session among its members."""
    if not is_membership(delivery.bits):
        return _signed(delivery.tag)
    if is_view(delivery.bits) and private_group in delivery.groups:
        return delivery.groups.index(private_group)
    return NO_INDEX


def _body(delivery: SpreadDelivery) -> bytes:
    """The body, in this machine's byte order if it is a membership message, otherwise as it was sent."""
    if not is_membership(delivery.bits):
        return delivery.body
    return in_byte_order(delivery.body, delivery.order, NATIVE, view=is_view(delivery.bits))


def _signed(tag: int) -> int:
    """The message type as the signed 16-bit number of the toolkit."""
    return tag - 0x10000 if tag & 0x8000 else tag
