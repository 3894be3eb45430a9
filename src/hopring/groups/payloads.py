"""Payloads of the daemons' messages: group messages, or clients' bundles with the sender's name appended."""

from typing import Final

from hopring.errors import Drop, PeerError
from hopring.groups.names import SESSION_NAME_BYTES_MAX

_MESSAGE: Final = 0x80  # This bit is set in the first byte of every group message, and of no bundle.
_INTEREST_TAG: Final = ord("I")


def is_group_message(payload: bytes | memoryview) -> bool:
    """Whether this is a group message; otherwise it is a client's bundle."""
    if not payload:
        raise PeerError(Drop.TRUNCATED, "an empty message")
    return bool(payload[0] & _MESSAGE)


def is_interest(payload: bytes | memoryview) -> bool:
    """Whether this is an INTEREST, without decoding it."""
    return len(payload) > 2 and bool(payload[0] & _MESSAGE) and payload[2] == _INTEREST_TAG


def append_sender(bundle: bytes | memoryview, name: str) -> bytes:
    """Appends the sender's name to a client's bundle."""
    encoded = name.encode()
    return b"".join([bundle, encoded, bytes([len(encoded)])])


def split_sender(payload: bytes | memoryview) -> tuple[str, memoryview]:
    """Splits a payload into the sender's name and the bundle, which is a view of the payload."""
    view = memoryview(payload)
    end = len(view) - 1
    size: int = view[end]
    name_at = end - size
    if not 0 < size <= SESSION_NAME_BYTES_MAX or name_at < 0:
        raise PeerError(Drop.LENGTH, f"bundle with a name of {size} bytes in {len(view)}")
    try:
        name = str(view[name_at:end], "utf-8")
    except UnicodeDecodeError as error:
        raise PeerError(Drop.INCONSISTENT, "a session's name is not UTF-8") from error
    return name, view[:name_at]
