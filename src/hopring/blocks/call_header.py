"""The header of requests, replies and fences: which call a message belongs to.

It is one header of a message (wire/envelope.py) with a reserved name, so members that watch a group see it as
text:

    hop-call: q.<caller>.<serial>.<low>.<sending>.<flags>  a request; flags: g, reply to the group
    hop-call: r.<caller>.<serial>.<result>.<flags>         a reply; flags: a, from the cache
    hop-call: f.<caller>.<number>                          a fence: a message of a caller to itself

Invariants  `decode_call` returns None for anything that `encode_call` does not write.
"""

from enum import StrEnum
from typing import Final, NamedTuple

CALL_HEADER: Final = "hop-call"
SERIAL_MAX: Final = 2**53 - 1
CALLER_CHARACTERS: Final = 16
_HEX: Final = frozenset("0123456789abcdef")


class ReplyResult(StrEnum):
    """What a server says about a request."""

    DONE = "o"
    FAILED = "f"  # Its handler raised an error, whose text is the data.
    TOO_OLD = "t"  # It was done, perhaps, and its reply is forgotten; it is not done again.
    BUSY = "b"  # Too many requests wait; it was not done.


class RequestMark(NamedTuple):
    """The mark of a request."""

    caller: str  # Unique for the life of the caller's session object, across its connections.
    serial: int
    low: int  # The caller has no open calls below this serial.
    sending: int = 1  # Above 1, it was sent before, perhaps by an earlier connection.
    to_group: bool = False

    @property
    def again(self) -> bool:
        """Whether it was sent before."""
        return self.sending > 1


class ReplyMark(NamedTuple):
    """The mark of a reply."""

    caller: str
    serial: int
    result: ReplyResult = ReplyResult.DONE
    again: bool = False  # The server has sent this reply before.


class FenceMark(NamedTuple):
    """The mark of a fence: when it returns, the caller has had all messages before it."""

    caller: str
    number: int


CallMark = RequestMark | ReplyMark | FenceMark

_RESULTS: Final = {one.value: one for one in ReplyResult}


def encode_call(mark: CallMark) -> str:
    """The value of the header."""
    if isinstance(mark, RequestMark):
        return f"q.{mark.caller}.{mark.serial}.{mark.low}.{mark.sending}.{'g' if mark.to_group else ''}"
    if isinstance(mark, ReplyMark):
        return f"r.{mark.caller}.{mark.serial}.{mark.result.value}.{'a' if mark.again else ''}"
    return f"f.{mark.caller}.{mark.number}"


def decode_call(text: str) -> CallMark | None:
    """The mark in a header; None if it is malformed."""
    parts = text.split(".")
    if len(parts) < 3 or len(parts[1]) != CALLER_CHARACTERS or not _HEX.issuperset(parts[1]):
        return None
    kind, caller, serial = parts[0], parts[1], _number(parts[2])
    if kind == "r" and len(parts) == 5:
        result, again = _RESULTS.get(parts[3]), parts[4] == "a"
        if serial is None or result is None or not (again or not parts[4]):
            return None
        return ReplyMark(caller, serial, result, again)
    if kind == "q" and len(parts) == 6:
        low, sending, flags = _number(parts[3]), _number(parts[4]), parts[5]
        if serial is None or low is None or low > serial or sending is None or flags not in ("", "g"):
            return None
        return RequestMark(caller, serial, low, sending, flags == "g")
    return FenceMark(caller, serial) if kind == "f" and len(parts) == 3 and serial is not None else None


def _number(text: str) -> int | None:
    """A positive number in its shortest form."""
    if not text.isascii() or not text.isdigit() or text[0] == "0" or len(text) > 16:
        return None
    number = int(text)
    return number if number <= SERIAL_MAX else None
