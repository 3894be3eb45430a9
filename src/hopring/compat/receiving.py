"""The result of a receive call, with the toolkit's rules for lists and buffers that are too short. Pure.

Nothing is truncated unless the program asks for it (DROP_RECV): the call returns the required sizes, and the
next one gets the same message.
"""

from typing import Final, NamedTuple

from hopring.compat.constants import Code
from hopring.compat.requests import decode_text
from hopring.spread.deliveries import NATIVE, SpreadDelivery, SpreadHead, is_membership, is_view
from hopring.spread.membership import turned

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
    return turned(delivery.body, delivery.order, NATIVE, view=is_view(delivery.bits))


def _signed(tag: int) -> int:
    """The message type as the signed 16-bit number of the toolkit."""
    return tag - 0x10000 if tag & 0x8000 else tag
