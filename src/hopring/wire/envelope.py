"""Envelopes: headers of a message, names with values, in front of its body.

A flag of a bundle says that each of its bodies begins with an envelope. Daemons pass bodies on without reading
them; only receivers decode an envelope. Bundles without the flag have no envelopes, and not a byte more.

    length of the rest (16 bits), number of headers (8 bits), then for each header: length of the name (8 bits),
    length of the value (16 bits), name, value, both in UTF-8

Invariants  a decoded envelope has at most HEADERS_MAX headers with different names, and its parts fill it
            exactly. Anything else is no envelope: the receiver then gets the whole body, without headers. No
            sender can end the sessions of its receivers by a malformed one.
"""

from collections.abc import Mapping
from struct import Struct
from typing import Final

_HEAD: Final = Struct("<HB")
_SIZES: Final = Struct("<BH")
_HEAD_BYTES: Final = _HEAD.size
_SIZES_BYTES: Final = _SIZES.size
_LENGTH_BYTES: Final = 2

HEADERS_MAX: Final = 32
HEADER_NAME_BYTES_MAX: Final = 64
HEADER_VALUE_BYTES_MAX: Final = 4096
ENVELOPE_BYTES_MAX: Final = 8192
"""The limit for all headers of a message together."""

HEADER_SIZES_BYTES: Final = _SIZES_BYTES
"""What a header takes beside its name and value."""

ENVELOPE_SPARE_BYTES: Final = 1024
"""The part of an envelope that is left to headers of the library."""

RESERVED: Final = "hop-"
"""Names of headers with this prefix belong to the library."""


def encode_envelope(headers: Mapping[str, str]) -> bytes:
    """Encodes headers, which the caller has checked; the body of the message follows them."""
    assert 0 < len(headers) <= HEADERS_MAX, "an envelope has 1 to HEADERS_MAX headers"
    parts = [b""]
    for name, value in headers.items():
        name_bytes, value_bytes = name.encode(), value.encode()
        parts += [_SIZES.pack(len(name_bytes), len(value_bytes)), name_bytes, value_bytes]
    rest = b"".join(parts)
    assert len(rest) < ENVELOPE_BYTES_MAX, "check the headers before"
    return _HEAD.pack(len(rest) + 1, len(headers)) + rest


def envelope_bytes(body: bytes | memoryview) -> int:
    """The size of the envelope in front of a body, by its length alone; 0 if the body is too short for it."""
    if len(body) < _HEAD_BYTES:
        return 0
    size = _LENGTH_BYTES + (body[0] | body[1] << 8)
    return size if _HEAD_BYTES <= size <= min(len(body), ENVELOPE_BYTES_MAX + _LENGTH_BYTES) else 0


def decode_envelope(body: bytes) -> tuple[dict[str, str], int] | None:
    """Decodes the headers in front of a body, and where its data begins; None if they are malformed."""
    end = envelope_bytes(body)
    if not end:
        return None
    count = body[_LENGTH_BYTES]
    if not 0 < count <= HEADERS_MAX:
        return None
    at = _HEAD_BYTES
    found: dict[str, str] = {}
    while at + _SIZES_BYTES <= end and len(found) < count:
        name_at = at + _SIZES_BYTES
        value_at = name_at + body[at]
        at = value_at + (body[at + 1] | body[at + 2] << 8)
        if at > end:
            return None
        try:
            name = body[name_at:value_at].decode()
            if not name or name in found:
                return None
            found[name] = body[value_at:at].decode()
        except UnicodeDecodeError:
            return None
    return (found, end) if at == end and len(found) == count else None
