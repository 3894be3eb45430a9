"""Where a daemon listens, from what programs call its name. Pure."""

import re
from typing import Final, NamedTuple

from hopring.compat.constants import DEFAULT_SPREAD_PORT

UNIX_DIRECTORY: Final = "/tmp"
_NAME: Final = re.compile(r"\s*(\d{1,5})(?:@(\S+))?\s*", re.ASCII)


class UnixPlace(NamedTuple):
    """A socket in the file system."""

    path: str


class TcpPlace(NamedTuple):
    """A port of a host, which may be a name or an address."""

    host: str
    port: int


def place_of(spread_name: str | None) -> UnixPlace | TcpPlace | None:
    """`port` is a Unix socket, `port@host` is TCP, nothing is the default port; None if it is none of these."""
    found = _NAME.fullmatch(spread_name or str(DEFAULT_SPREAD_PORT))
    if found is None or not 1 <= int(found[1]) <= 0xFFFF:
        return None
    port = int(found[1])
    return TcpPlace(found[2], port) if found[2] else UnixPlace(f"{UNIX_DIRECTORY}/{port}")
