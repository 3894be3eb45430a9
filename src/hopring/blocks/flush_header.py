"""The header of view synchrony: the view in which a message was sent, agreements and exclusions.

It is one header of a message (wire/envelope.py) with a reserved name:

    hop-view: m.<view>              a message, sent in this view
    hop-view: a.<attempt>.<leader>  an agreement; the leader is a private group
    hop-view: x.<attempt>           an exclusion

Views and attempts are named by `view_key`, a digest of the id of the group's view.

Invariants  `decode_flush` returns None for anything that `encode_flush` does not write.
"""

from hashlib import blake2b
from typing import Final, NamedTuple

from hopring.groups.names import GroupViewId
from hopring.wire.bundle import GROUP_NAME_BYTES_MAX

FLUSH_HEADER: Final = "hop-view"
KEY_CHARACTERS: Final = 16
_HEX: Final = frozenset("0123456789abcdef")


class ViewMark(NamedTuple):
    """The mark of a message: the view in which it was sent."""

    view: str


class AgreementMark(NamedTuple):
    """The mark of an agreement."""

    attempt: str
    leader: str


class ExclusionMark(NamedTuple):
    """The mark of an exclusion."""

    attempt: str


FlushMark = ViewMark | AgreementMark | ExclusionMark


def view_key(view: GroupViewId) -> str:
    """A short name of a group's view, the same at all members."""
    ids = [view.view, *view.path]
    numbers = [number for one in ids for number in one]
    text = ".".join(map(str, [*numbers, view.step]))
    return blake2b(text.encode(), digest_size=KEY_CHARACTERS // 2).hexdigest()


def encode_flush(mark: FlushMark) -> str:
    """The value of the header."""
    if isinstance(mark, ViewMark):
        return f"m.{mark.view}"
    if isinstance(mark, AgreementMark):
        return f"a.{mark.attempt}.{mark.leader}"
    return f"x.{mark.attempt}"


def decode_flush(text: str) -> FlushMark | None:
    """The mark in a header; None if it is malformed."""
    kind, _, rest = text.partition(".")
    key, dot, leader = rest.partition(".")
    if len(key) != KEY_CHARACTERS or not _HEX.issuperset(key):
        return None
    if kind == "a":
        legal = 0 < len(leader.encode(errors="replace")) <= GROUP_NAME_BYTES_MAX
        return AgreementMark(key, leader) if legal else None
    if dot or kind not in ("m", "x"):
        return None
    return ViewMark(key) if kind == "m" else ExclusionMark(key)
