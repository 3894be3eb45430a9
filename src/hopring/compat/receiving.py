"""What a receive call says, with the toolkit's rules for lists and buffers that are too short. Pure.

Nothing is cut off unless the program asks for it (DROP_RECV): the call says how much is needed, and the next
one gets the same message.
"""

from typing import Final, NamedTuple

from hopring.compat.constants import Code
from hopring.compat.requests import decode_text
from hopring.spread.deliveries import NATIVE, SpreadDelivery, SpreadHead, is_membership, is_view
from hopring.spread.membership import turned

NO_INDEX: Final = -1


class Limits(NamedTuple):
    """How much a program can take; None for as much as there is."""

    groups: int | None = None
    body_bytes: int | None = None
    drop: bool = False  # What does not fit is lost.


class Received(NamedTuple):
    """The result first, then what the toolkit's call sets, in its order."""

    ret: int  # Bytes of the message, or a code.
    service_type: int = 0
    sender: str = ""
    num_groups: int = 0
    groups: tuple[str, ...] = ()
    mess_type: int = 0
    endian_mismatch: int = 0
    mess: bytes = b""


def too_short(head: SpreadHead, limits: Limits) -> Received | None:
    """What is told instead of the message, if it does not fit and must not be cut."""
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
    """What is told with the message; with DROP_RECV as much of it as fits."""
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
    """Of a view, which of its members this session is."""
    if not is_membership(delivery.bits):
        return _signed(delivery.tag)
    if is_view(delivery.bits) and private_group in delivery.groups:
        return delivery.groups.index(private_group)
    return NO_INDEX


def _body(delivery: SpreadDelivery) -> bytes:
    """Words of membership messages are in this machine's order; messages are as they were sent."""
    if not is_membership(delivery.bits):
        return delivery.body
    return turned(delivery.body, delivery.order, NATIVE, view=is_view(delivery.bits))


def _signed(tag: int) -> int:
    """16 bits as the toolkit's type has them."""
    return tag - 0x10000 if tag & 0x8000 else tag
