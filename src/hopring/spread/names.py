"""Names as Spread clients see them: 31 bytes at most, those of sessions of ASCII.

Names of sessions here may be longer, and may be of any letters. A private group that does not fit is shown by
another name that stands for it, made of a hash: the same everywhere, so that views and messages agree. Nobody
can be reached by it. A group that does not fit is not shown at all: no Spread client can be in it.
"""

from functools import lru_cache
from hashlib import blake2s
from typing import Final

from hopring.groups.private_groups import PRIVATE, split_private
from hopring.ids import GroupName
from hopring.spread.frames import NAME_BYTES, encode_names

DAEMON_BYTES_MAX: Final = 19
"""Of the name of a daemon that Spread clients connect to."""

_KEPT_MAX: Final = 4096


def is_group(name: str) -> bool:
    """Whether a Spread client may join it."""
    return _group_fits(name) and not name.startswith(PRIVATE)


def _group_fits(name: str) -> bool:
    return 0 < len(name.encode()) < NAME_BYTES


def _session_fits(private_group: str) -> bool:
    return 0 < len(private_group) < NAME_BYTES and private_group.isascii() and private_group.isprintable()


@lru_cache(maxsize=_KEPT_MAX)
def shown_session(private_group: str) -> str:
    """The private group of a session, or the name that stands for it."""
    if _session_fits(private_group):
        return private_group
    digest = blake2s(private_group.encode(), digest_size=4).hexdigest()
    _, daemon = split_private(GroupName(private_group))
    if len(daemon) > DAEMON_BYTES_MAX:
        daemon = f"{daemon[: DAEMON_BYTES_MAX - 1]}~"
    return f"{PRIVATE}~{digest}{PRIVATE}{daemon}"


@lru_cache(maxsize=_KEPT_MAX)
def shown_groups(groups: tuple[str, ...]) -> bytes:
    """Of the groups of a message those that can be shown, as they are written."""
    return encode_names(tuple([one for one in groups if _group_fits(one)]))
