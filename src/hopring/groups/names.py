"""Members, ids of group views, and the rules for names of sessions and groups.

msgspec reads these types at run time, so this module is not compiled.
"""

from typing import Final, Literal, NamedTuple

from hopring.groups.private_groups import PRIVATE, is_private, private_group
from hopring.ids import DaemonId, GroupName, Incarnation, Process, ViewId
from hopring.wire.bundle import GROUP_NAME_BYTES_MAX

SESSION_NAME_BYTES_MAX: Final = 64
LOCK_NAME_BYTES_MAX: Final = 128

STEP_BITS: Final = 36
"""Of the step in a fence: 1,000 grants a second for two years, in one view."""

PARTIAL_STEP_BITS: Final = 28
"""Of the step in a partial fence: 1,000 grants a second for three days; counters need more bits than epochs."""

SERVERS_SUFFIX: Final = "?servers"
HANDLER_SUFFIX: Final = "?handler"  # With the number of the handler.
HANDLERS_MAX: Final = 6
VIEW_SUFFIX: Final = "?view"
"""What the client library appends to the name of a group: for those that serve it, that serve one of its
handlers, and that are its members with view synchrony. Daemons know these groups by their grants only."""

_OF_SERVERS: Final = (SERVERS_SUFFIX, *[f"{HANDLER_SUFFIX}{number}" for number in range(1, HANDLERS_MAX + 1)])

_BELOW_ALL: Final = 1 << 63


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


class Fence(NamedTuple):
    """The position of a grant of a lock in the chain of all grants; compared from left to right."""

    epoch: int  # The place of the view in the chain of primary views; of a partial grant: the view's counter.
    step: int  # Counts the grants in this view, from 1.
    partial: bool = False  # Granted without a primary view: it counts within one side only.

    @property
    def number(self) -> int:
        """The fence as one number. Partial ones are below all others: a primary's holder goes before them."""
        if self.partial:
            return (self.epoch << PARTIAL_STEP_BITS | self.step) - _BELOW_ALL
        return self.epoch << STEP_BITS | self.step


def is_legal_lock(name: str) -> bool:
    """Whether a lock may have this name."""
    return _is_text(name, LOCK_NAME_BYTES_MAX)


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


def served_by(name: str) -> str | None:
    """The group whose servers are the members of this one; None if it is no group of servers."""
    for suffix in _OF_SERVERS:
        if name.endswith(suffix):
            return name.removesuffix(suffix)
    return None


def synchronous_of(name: str) -> str | None:
    """The group whose members with view synchrony are those of this one; None if it is no such group."""
    return name.removesuffix(VIEW_SUFFIX) if name.endswith(VIEW_SUFFIX) else None
