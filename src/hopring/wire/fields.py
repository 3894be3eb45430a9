"""Fields of packets and frames, little-endian: a reader that checks every length, and each kind's encoding."""

from struct import Struct
from typing import Final

from hopring.errors import Drop, PeerError

_U8: Final = Struct("<B")
_U16: Final = Struct("<H")
_U32: Final = Struct("<I")
_U64: Final = Struct("<Q")

NAME_BYTES_MAX: Final = 128
"""The longest name of a group or of a lock, in UTF-8."""

MEMBER_NAME_BYTES_MAX: Final = 64
"""The longest name of a member. It is in every list with it, so it is shorter."""

u8 = _U8.pack
u16 = _U16.pack
u32 = _U32.pack
u64 = _U64.pack


def block(value: bytes) -> bytes:
    """Bytes with their length before them."""
    return u32(len(value)) + value


def text(value: str, bytes_max: int = NAME_BYTES_MAX) -> bytes:
    """A text of at most this many bytes, 255 at most, with its length."""
    encoded = value.encode()
    assert len(encoded) <= bytes_max, "a name has a limit"
    return u8(len(encoded)) + encoded


class Reader:
    """Reads fields one after the other; a field beyond the end is the peer's mistake."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0

    def _take(self, kind: Struct) -> int:
        end = self._at + kind.size
        if end > len(self._body):
            raise PeerError(Drop.TRUNCATED, f"packet of {len(self._body)} bytes ends in a field")
        number: int = kind.unpack_from(self._body, self._at)[0]
        self._at = end
        return number

    def u8(self) -> int:
        """A number of 8 bits."""
        return self._take(_U8)

    def u16(self) -> int:
        """A number of 16 bits."""
        return self._take(_U16)

    def u32(self) -> int:
        """A number of 32 bits."""
        return self._take(_U32)

    def number(self, most: int) -> int:
        """A number of 64 bits that is at most this."""
        value = self._take(_U64)
        if value > most:
            raise PeerError(Drop.LIMIT, f"number {value}, the limit is {most}")
        return value

    def block(self, bytes_max: int) -> bytes:
        """Bytes with their length before them."""
        length = self._take(_U32)
        if length > bytes_max:
            raise PeerError(Drop.LIMIT, f"block of {length} bytes, the limit is {bytes_max}")
        return self.exactly(length)

    def exactly(self, length: int) -> bytes:
        """The next bytes, as many as these."""
        end = self._at + length
        if end > len(self._body):
            raise PeerError(Drop.TRUNCATED, f"packet of {len(self._body)} bytes ends in a field")
        raw, self._at = self._body[self._at : end], end
        return raw

    def nonce(self) -> int:
        """Any number of 64 bits."""
        return self._take(_U64)

    def flag(self) -> bool:
        """A byte that is 0 or 1."""
        value = self._take(_U8)
        if value > 1:
            raise PeerError(Drop.INCONSISTENT, f"flag {value}")
        return bool(value)

    def count(self, most: int) -> int:
        """A number of items that follow."""
        value = self._take(_U16)
        if value > most:
            raise PeerError(Drop.LIMIT, f"{value} items, the limit is {most}")
        return value

    def text(self, bytes_max: int = NAME_BYTES_MAX) -> str:
        """A text with its length."""
        length = self._take(_U8)
        if length > bytes_max:
            raise PeerError(Drop.LIMIT, f"name of {length} bytes")
        raw = self.exactly(length)
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise PeerError(Drop.INCONSISTENT, f"name {raw!r} is not UTF-8") from error

    def rest(self, most: int) -> bytes:
        """All bytes that are left."""
        raw, self._at = self._body[self._at :], len(self._body)
        if len(raw) > most:
            raise PeerError(Drop.LIMIT, f"body of {len(raw)} bytes, the limit is {most}")
        return raw

    def end(self) -> None:
        """Checks that nothing is left."""
        if self._at != len(self._body):
            raise PeerError(Drop.LENGTH, f"{len(self._body) - self._at} bytes too many in a packet")
