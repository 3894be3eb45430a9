"""Members, ids of group views, and the rules for names of sessions and groups.

msgspec reads these types at run time, so this module is not compiled.
"""

from typing import Final, Literal, NamedTuple

from hopring.groups.private_groups import PRIVATE, is_private, private_group
from hopring.ids import DaemonId, GroupName, Incarnation, Process, ViewId
from hopring.wire.bundle import GROUP_NAME_BYTES_MAX

SESSION_NAME_BYTES_MAX: Final = 64


ViewCause = Literal["join", "leave", "disconnect", "network"]
"""The cause of a group view as clients and spools spell it: the values of `Cause`."""


class GroupMember(NamedTuple):
    """A session in a group. Lists of members are sorted by daemon, then by name."""

    daemon: DaemonId
    name: str
    incarnation: Incarnation
    session: int  # Its number at the daemon; a later holder of the name has another.

    @property
    def process(self) -> Process:
        """The daemon, with its incarnation, that serves the session."""
        return Process(self.daemon, self.incarnation)


class GroupViewId(NamedTuple):
    """The id of a group's view; compared from left to right.

    A view made after the daemons' transitional signal is closing; the thesis writes its index as negative. Then
    the sides of a split choose ids without knowing of each other, and the path of each side distinguishes them.
    """

    view: ViewId  # The daemons' view in which it was made.
    path: tuple[ViewId, ...]  # Of a closing view: the daemons' views that followed.
    step: int  # 0 after a change of network, then counted; of a closing view: distinguishes equal paths.

    @property
    def closing(self) -> bool:
        """Whether the daemons' view was closing when it was made."""
        return bool(self.path)

    @property
    def signed(self) -> int:
        """The index with the sign that the thesis gives it."""
        return -self.step if self.path else self.step


def is_legal_group(group: GroupName) -> bool:
    """Whether a session may join a group of this name."""
    return is_legal_name(group) and not is_private(group)


def is_legal_name(group: GroupName) -> bool:
    """Whether messages may be sent to a group of this name, which may be a private one."""
    return _is_text(group, GROUP_NAME_BYTES_MAX)


def is_legal_session(name: str, daemon: str) -> bool:
    """Whether a session may have this name at this daemon."""
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
