"""TOKEN, HURRY and HELD frames of the Ring (thesis 4.1)."""

from enum import IntEnum
from struct import Struct
from struct import unpack as struct_unpack
from typing import Final, final

from hopring.errors import Drop, PeerError
from hopring.ids import DaemonId
from hopring.value import Value
from hopring.wire.data import Missing, decode_missing, encode_missing
from hopring.wire.header import FrameType, encode_frame

# kind, quiet, number, link_seq, link_aru, link_aru_modifier, flow_control,
# site_seq, site_lts, site_aru, site_aru_modifier
_TOKEN: Final = Struct("<BHQQQHIQQQH")
TOKEN_BYTES: Final = _TOKEN.size
"""A token's body without lines of members and without requests."""
# lines_lts, number of lines; the lines follow
_LINES: Final = Struct("<QH")
_LINE_BYTES: Final = 8
_NUMBER: Final = Struct("<Q")


class TokenKind(IntEnum):
    """The `type` field of the papers' token; other kinds belong to membership."""

    REGULAR = 1
    WITH_LINES = 2  # A regular token with the lines of the members.


_REGULAR: Final = int(TokenKind.REGULAR)
_WITH_LINES: Final = int(TokenKind.WITH_LINES)
_NO_LINES: Final[tuple[int, ...]] = ()
_Numbers = tuple[int, int, int, int, int, int, int, int, int, int, int]


@final
class Token(Value):
    """The token; its `number` grows each time it is passed on."""

    def __init__(
        self,
        number: int,
        link_seq: int,
        link_aru: int,
        link_aru_modifier: DaemonId,
        flow_control: int,
        site_seq: int,
        site_lts: int,
        site_aru: int,
        site_aru_modifier: DaemonId,
        missing: tuple[Missing, ...] = (),
        quiet: int = 0,
        lines: tuple[int, ...] = (),
        lines_lts: int = 0,
    ) -> None:
        self.number: Final = number
        self.link_seq: Final = link_seq
        self.link_aru: Final = link_aru
        self.link_aru_modifier: Final = link_aru_modifier
        self.flow_control: Final = flow_control
        self.site_seq: Final = site_seq
        self.site_lts: Final = site_lts
        self.site_aru: Final = site_aru
        self.site_aru_modifier: Final = site_aru_modifier
        self.missing: Final = missing
        self.quiet: Final = quiet  # Consecutive visits in which there was nothing to do.
        # The line of each member, in their order: it has everything below. Only while resilient messages wait.
        self.lines: Final = lines
        self.lines_lts: Final = lines_lts  # The highest stamp of a resilient message that the lines are for.

    def with_numbers(self, link_seq: int, site_seq: int, site_lts: int) -> "Token":
        """The same token with higher numbers: packets, bundles and stamps were given since it came."""
        return Token(
            self.number,
            link_seq,
            self.link_aru,
            self.link_aru_modifier,
            self.flow_control,
            site_seq,
            site_lts,
            self.site_aru,
            self.site_aru_modifier,
            self.missing,
            self.quiet,
            self.lines,
            self.lines_lts,
        )


@final
class Hurry(Value):
    """Asks the member that holds the token to pass it on."""


@final
class Held(Value):
    """The sender has, or had, the token with this number; also the answer to a token that was sent again."""

    def __init__(self, number: int) -> None:
        self.number: Final = number


def encode_token(token: Token) -> bytes:
    """The token as a frame."""
    body = _TOKEN.pack(
        _WITH_LINES if token.lines else _REGULAR,
        token.quiet,
        token.number,
        token.link_seq,
        token.link_aru,
        token.link_aru_modifier,
        token.flow_control,
        token.site_seq,
        token.site_lts,
        token.site_aru,
        token.site_aru_modifier,
    )
    if token.lines:
        head = _LINES.pack(token.lines_lts, len(token.lines))
        body = b"".join([body, head, *[line.to_bytes(_LINE_BYTES, "little") for line in token.lines]])
    return encode_frame(FrameType.TOKEN, body + encode_missing(token.missing) if token.missing else body)


def lines_bytes_of(members: int) -> int:
    """The size of the lines of this many members on a token."""
    return _LINES.size + _LINE_BYTES * members


def _decode_lines(body: bytes) -> tuple[int, tuple[int, ...], bytes]:
    """Decodes the lines of the members: their stamp, the lines and the rest of the body."""
    if len(body) < _LINES.size:
        raise PeerError(Drop.TRUNCATED, f"TOKEN with {len(body)} bytes of lines")
    lines_lts, count = _LINES.unpack_from(body)
    size = lines_bytes_of(count)
    if not count or len(body) < size:
        raise PeerError(Drop.LENGTH, f"TOKEN with {count} lines in {len(body)} bytes")
    lines = struct_unpack(f"<{count}Q", body[_LINES.size : size])
    return lines_lts, lines, body[size:]


def decode_token(body: bytes) -> Token:
    """Decodes the body of a TOKEN frame."""
    if len(body) < TOKEN_BYTES:
        raise PeerError(Drop.TRUNCATED, f"TOKEN of {len(body)} bytes")
    numbers: _Numbers = _TOKEN.unpack_from(body)
    kind, quiet, number, link_seq, link_aru, link_modifier, flow, seq, lts, aru, modifier = numbers
    lines_lts, lines, rest = 0, _NO_LINES, body[TOKEN_BYTES:]
    if kind == _WITH_LINES:
        lines_lts, lines, rest = _decode_lines(rest)
    elif kind != _REGULAR:
        raise PeerError(Drop.UNKNOWN_TYPE, f"token of kind {kind}")
    if link_aru > link_seq:
        raise PeerError(Drop.INCONSISTENT, f"token with link_aru {link_aru} above link_seq {link_seq}")
    return Token(
        number=number,
        link_seq=link_seq,
        link_aru=link_aru,
        link_aru_modifier=DaemonId(link_modifier),
        flow_control=flow,
        site_seq=seq,
        site_lts=lts,
        site_aru=aru,
        site_aru_modifier=DaemonId(modifier),
        missing=decode_missing(rest) if len(rest) else (),
        quiet=quiet,
        lines=lines,
        lines_lts=lines_lts,
    )


def encode_hurry(_hurry: Hurry) -> bytes:
    """Encodes HURRY as a frame without a body."""
    return encode_frame(FrameType.HURRY, b"")


def decode_hurry(body: bytes) -> Hurry:
    """Decodes the body of a HURRY frame, which is empty."""
    if len(body):
        raise PeerError(Drop.LENGTH, f"HURRY of {len(body)} bytes")
    return Hurry()


def encode_held(held: Held) -> bytes:
    """Encodes HELD with the number of its token."""
    return encode_frame(FrameType.HELD, _NUMBER.pack(held.number))


def decode_held(body: bytes) -> Held:
    """Decodes the body of a HELD frame."""
    if len(body) != _NUMBER.size:
        raise PeerError(Drop.LENGTH, f"HELD of {len(body)} bytes")
    return Held(*_NUMBER.unpack(body))
