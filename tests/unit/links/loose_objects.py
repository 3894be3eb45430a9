"""Objects of the Unreliable service for tests."""

from hopring.ids import DaemonId, SiteId, SiteMask
from hopring.wire.unreliable import Unreliable, encode_unreliable


def an_object(number: int, index: int = 0, count: int = 1, size: int = 100) -> bytes:
    """An object whose encoding has exactly this size."""
    chunk = bytes(size - 27)
    return encode_unreliable(Unreliable(SiteId(0), DaemonId(1), number, SiteMask(1), index, count, chunk))
