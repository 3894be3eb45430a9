"""Names: members, ids of group views, and what sessions and groups may be called.

The values here, in words.py and in events.py are read by msgspec at run time, so these files are not compiled.
"""

from typing import Final, Literal, NamedTuple

from hopring.groups.private_groups import PRIVATE, is_private, private_group
from hopring.ids import DaemonId, GroupName, Incarnation, Process, ViewId
from hopring.wire.bundle import GROUP_NAME_BYTES_MAX

SESSION_NAME_BYTES_MAX: Final = 64


ViewCause = Literal["join", "leave", "disconnect", "network"]
"""Why a group has a new view, as clients and spools spell it: a `Cause`."""


class GroupMember(NamedTuple):
    """A session in a group. Members are listed by daemon, then by name, in the same order everywhere."""

    daemon: DaemonId
    name: str
    incarnation: Incarnation
    session: int  # Its number at the daemon; a later holder of the name has another.

    @property
    def process(self) -> Process:
        """The life of the daemon that it belongs to."""
        return Process(self.daemon, self.incarnation)


class GroupViewId(NamedTuple):
    """The id of a group's view; compared from left to right.

    What the thesis writes as a negative index is `closing`: the view was made after the daemons' transitional
    signal, when the sides of a split give ids without knowing of each other. The way that a side takes from
    there tells it apart from all others.
    """

    view: ViewId  # The daemons' view in which it was made.
    path: tuple[ViewId, ...]  # If closing, where its side went from there.
    step: int  # 0 after a change of network, then counted; if closing, it tells apart what the path does not.

    @property
    def closing(self) -> bool:
        """Whether the daemons' view was closing."""
        return bool(self.path)

    @property
    def signed(self) -> int:
        """The index of the thesis."""
        return -self.step if self.path else self.step


def is_legal_group(group: GroupName) -> bool:
    """Whether a session may join it."""
    return _is_text(group, GROUP_NAME_BYTES_MAX) and not is_private(group)


def is_legal_session(name: str, daemon: str) -> bool:
    """Whether a session may be called so."""
    private_bytes = len(private_group(name, daemon).encode(errors="replace"))
    return (
        _is_text(name, SESSION_NAME_BYTES_MAX) and PRIVATE not in name and private_bytes <= GROUP_NAME_BYTES_MAX
    )


def _is_text(name: str, bytes_max: int) -> bool:
    try:
        encoded = name.encode()
    except UnicodeEncodeError:
        return False
    return 0 < len(encoded) <= bytes_max and 0 not in encoded
