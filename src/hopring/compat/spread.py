"""The interface of the old Python module for Spread: `connect`, a mailbox with methods, messages with
attributes.

Names are `str`, messages are `bytes`; a `str` is sent as UTF-8. An error is a `spread.error` with the toolkit's
code and its text.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from hopring.compat import constants, frames
from hopring.compat.constants import *  # noqa: F403
from hopring.compat.constants import (
    CAUSED_BY_DISCONNECT,
    CAUSED_BY_JOIN,
    CAUSED_BY_LEAVE,
    CAUSED_BY_NETWORK,
    DEFAULT_SPREAD_PORT,
    REGULAR_MESS,
    SELF_DISCARD,
    Code,
    text_of,
)
from hopring.compat.frames import Limits, Received
from hopring.compat.mailbox import Mailbox, dial
from hopring.compat.sp_membership import Is_membership_mess, Is_regular_mess, membership_info, set_members
from hopring.spread.handshake import VERSION
from hopring.spread.membership import GroupId

__all__ = [
    "DEFAULT_BUFFER_SIZE",
    "DEFAULT_GROUPS_SIZE",
    "MailboxType",
    "MembershipMsgType",
    "RegularMsgType",
    "SpreadError",
    "connect",
    "error",
    "group_id",
    "version",
]
__all__ += constants.__all__

DEFAULT_BUFFER_SIZE: Final = 10_000
DEFAULT_GROUPS_SIZE: Final = 10

_CAUSES: Final = CAUSED_BY_JOIN | CAUSED_BY_LEAVE | CAUSED_BY_DISCONNECT | CAUSED_BY_NETWORK
_ENDS: Final = (Code.CONNECTION_CLOSED, Code.ILLEGAL_SESSION)


class error(Exception):
    """A code and its text, or only a text where the toolkit has no code."""


SpreadError = error


class group_id(GroupId):
    """The id of a view; equal at all its members."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<group_id {:08X}:{:08X}:{:08X}>".format(*self)


class RegularMsgType(NamedTuple):
    """A message of a group member or another session."""

    sender: str
    groups: tuple[str, ...]
    msg_type: int
    endian: int  # 1 if the sender's byte order is the other one.
    message: bytes


class MembershipMsgType(NamedTuple):
    """A view (`reason` is a cause), a transitional signal (`reason` is 0), or one's own leave (no members)."""

    group: str
    group_id: group_id | None
    members: tuple[str, ...]
    reason: int
    extra: tuple[str, ...]  # The member that joined or left; after a change of network, the own set.


class MailboxType:
    """A session, made by `connect`."""

    def __init__(self, box: Mailbox) -> None:
        self.private_group: Final = frames.decode_text(box.private_group)
        self._box = box
        self._open = True

    def __del__(self) -> None:
        if getattr(self, "_open", False):
            self._box.disconnect(farewell_s=0)  # Garbage collection must not wait.

    def disconnect(self) -> None:
        """Ends the session; a second call is no error."""
        if self._open:
            self._open = False
            self._box.disconnect()

    def fileno(self) -> int:
        """The descriptor of the socket, for select."""
        self._check("fileno")
        return self._box.fileno()

    def join(self, group: str) -> None:
        """Asks to join a group; the view confirms it."""
        self._check("join")
        self._send(frames.join(self._box.private_group, group))

    def leave(self, group: str) -> None:
        """Asks to leave a group."""
        self._check("leave")
        self._send(frames.leave(self._box.private_group, group))

    def multicast(self, service_type: int, group: str, message: bytes | str, message_type: int = 0) -> int:
        """Sends a message to one group; returns its size."""
        self._check("multicast")
        return self._multicast(service_type, (group,), message, message_type)

    def multigroup_multicast(
        self, service_type: int, groups: Sequence[str], message: bytes | str, message_type: int = 0
    ) -> int:
        """Sends a message to several groups; returns its size."""
        if isinstance(groups, str):
            raise TypeError("a sequence of groups is needed, not one string")
        if not groups:
            raise ValueError("no group is named")
        self._check("multigroup_multicast")
        return self._multicast(service_type, groups, message, message_type)

    def poll(self) -> int:
        """The number of bytes that can be received."""
        self._check("poll")
        return self._checked(self._box.poll())

    def receive(self) -> RegularMsgType | MembershipMsgType:
        """Waits for the next message, of any length."""
        self._check("receive")
        got = self._box.receive(Limits())
        self._checked(got.ret)
        if Is_regular_mess(got.service_type):
            return RegularMsgType(got.sender, got.groups, got.mess_type, got.endian_mismatch, got.mess)
        if Is_membership_mess(got.service_type):
            return self._membership(got)
        raise error(f"a message of a type that is none: 0x{got.service_type:x}")

    def _membership(self, got: Received) -> MembershipMsgType:
        info = membership_info(got.mess, got.service_type)
        self._checked(info.ret)
        extra = set_members(got.mess, info.my_vs_set, None).member_names
        gid = group_id(*info.gid) if got.mess else None
        return MembershipMsgType(got.sender, gid, got.groups, got.service_type & _CAUSES, extra)

    def _multicast(
        self, service_type: int, groups: Sequence[str], message: bytes | str, message_type: int
    ) -> int:
        if service_type & ~(REGULAR_MESS | SELF_DISCARD):
            raise ValueError("not a service that clients may ask for")
        body = message.encode() if isinstance(message, str) else memoryview(message).tobytes()
        self._send(frames.multicast(self._box.private_group, service_type, groups, message_type, body))
        return len(body)

    def _send(self, frame: bytes | Code) -> None:
        code = frame if isinstance(frame, Code) else self._box.send(frame)
        self._checked(0 if code is None else code)

    def _checked(self, code: int) -> int:
        if code >= 0:
            return code
        if code in _ENDS:
            self.disconnect()
        raise error(int(code), text_of(code))

    def _check(self, method: str) -> None:
        if not self._open:
            raise error(f"{method}() of a mailbox that is disconnected")


def connect(
    spread_name: str | None = None,
    private_name: str = "",
    priority: int = 0,
    membership: int = 1,
    *,
    daemon: str | None = None,
    name: str | None = None,
) -> MailboxType:
    """Connects to the daemon at `port@host` or `port`; `daemon` and `name` are aliases of the first two."""
    where = daemon if spread_name is None else spread_name
    if where is None:
        where = f"{DEFAULT_SPREAD_PORT}@localhost"
    done = dial(where, private_name if name is None else name, priority > 0, bool(membership), 0)
    if isinstance(done, Code):
        raise error(int(done), text_of(done))
    return MailboxType(Mailbox(*done))


def version() -> tuple[int, int, int]:
    """The version of the toolkit that this module follows."""
    return VERSION
