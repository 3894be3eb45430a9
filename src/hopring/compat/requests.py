"""Requests of a program to its daemon, checked so that the daemon need not end the session. Pure.

Each function returns a frame to send, or the code of an error.

The toolkit sends requests for which a daemon ends the session (two services at once, bits reserved for daemons,
more than 100 groups), or truncates a name into another one; these functions return a code instead.
"""

from collections.abc import Sequence
from typing import Final

from hopring.compat.constants import REGULAR_MESS, SELF_DISCARD, Code
from hopring.spread.bits import FREE_BITS, Bits
from hopring.spread.deliveries import encode_request
from hopring.spread.frames import GROUPS_MAX, HEAD_BYTES, NAME_BYTES

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
