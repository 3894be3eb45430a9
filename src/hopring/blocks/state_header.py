"""The header of messages that carry state, and of those that agree on it.

It is one header of a message (wire/envelope.py) with a reserved name. `round` names a view of the group and an
attempt in it; a transfer is known by its round and by its speaker's private group.

    hop-state: c.<round>                          a claim, to the group: the data is a `Claim`
    hop-state: d.<round>                          done, to the group: the sender has all that it needs
    hop-state: f.<round>                          the sender's snapshot failed, to the group: the data is a text
    hop-state: n.<round>                          the sender begins anew, to the group
    hop-state: k.<round>.<index>                  a chunk of a snapshot, to one member
    hop-state: e.<round>.<chunks>.<bytes>.<crc>   the end of a snapshot
    hop-state: t.<round>.<chunks>                 so many chunks were taken, to the speaker

Invariants  `decode_state` returns None for anything that `encode_state` does not write.
"""

import re
from typing import Final, NamedTuple

import msgspec

STATE_HEADER: Final = "hop-state"
_NUMBER_MAX: Final = 2**53 - 1


class ClaimMark(NamedTuple):
    """The mark of a claim."""

    round: str


class DoneMark(NamedTuple):
    """The mark of a member that has received all that it needs."""

    round: str


class FailedMark(NamedTuple):
    """The mark of a speaker whose snapshot failed."""

    round: str


class FoundMark(NamedTuple):
    """The mark of a member that begins with the state that it has."""

    round: str


class ChunkMark(NamedTuple):
    """The mark of a part of a snapshot."""

    round: str
    number: int  # From 0.


class EndMark(NamedTuple):
    """The mark of the end of a snapshot, with what it consisted of."""

    round: str
    chunks: int
    size_bytes: int
    crc: int


class TakenMark(NamedTuple):
    """The mark of a receipt: so many chunks have arrived."""

    round: str
    chunks: int


GroupMark = ClaimMark | DoneMark | FailedMark | FoundMark
"""These have their place in the order of the group's messages."""

MemberMark = ChunkMark | EndMark | TakenMark
"""These go from member to member, and are handled when they arrive."""

StateMark = GroupMark | MemberMark

_KINDS: Final[dict[str, type[StateMark]]] = {
    "c": ClaimMark,
    "d": DoneMark,
    "f": FailedMark,
    "n": FoundMark,
    "k": ChunkMark,
    "e": EndMark,
    "t": TakenMark,
}
_LETTERS: Final = {kind: letter for letter, kind in _KINDS.items()}
_ROUND: Final = re.compile(r"[0-9a-f]{16}-(0|[1-9][0-9]{0,8})")


class Claim(msgspec.Struct, frozen=True, array_like=True):
    """What a speaker says for members that have the same state, or a member without state for itself."""

    of: tuple[int, ...]  # The members for which it speaks, by their index in the sorted members of the view.
    standing: int
    primary: tuple[int, ...]  # The last place in a primary view that the state has seen.
    place: tuple[int, ...]  # The last place of a message that the state has seen.
    merges: bool  # Whether its program can merge states.
    pending: tuple[str, str] | None = (
        None  # A transfer that still goes on: its speaker's private group, its round.
    )


_claims: Final = msgspec.json.Decoder(Claim)


def encode_claim(claim: Claim) -> bytes:
    """The data of a claim."""
    return msgspec.json.encode(claim)


def decode_claim(data: bytes) -> Claim | None:
    """The claim in the data of a message; None if it is malformed."""
    try:
        return _claims.decode(data)
    except (msgspec.DecodeError, ValueError):
        return None


def encode_state(mark: StateMark) -> str:
    """The value of the header."""
    return ".".join([_LETTERS[type(mark)], *map(str, mark)])


def decode_state(text: str) -> StateMark | None:
    """The mark in a header; None if it is malformed."""
    letter, *parts = text.split(".")
    kind = _KINDS.get(letter)
    if kind is None or not parts or _ROUND.fullmatch(parts[0]) is None:
        return None
    numbers = [number for part in parts[1:] if (number := _number(part)) is not None]
    if len(numbers) < len(parts) - 1 or len(parts) != len(kind._fields):
        return None
    mark: StateMark = kind._make([parts[0], *numbers])
    return mark


def _number(text: str) -> int | None:
    """A number in its shortest form."""
    if not text.isascii() or not text.isdigit() or (text[0] == "0" and text != "0") or len(text) > 16:
        return None
    number = int(text)
    return number if number <= _NUMBER_MAX else None
