"""The calls of the Spread toolkit, `SP_connect` to `SP_version`, in a shape for Python.

A call that in C returns an int and sets nothing returns an int. One that sets variables through pointers
returns a named tuple: `ret`, the result in C, and then the variables, in the order of the C arguments. The
lengths and counts beside C's buffers and lists are omitted. Names are `str`, messages are `bytes`.

Errors for which the toolkit has a code are negative codes, not exceptions. A mailbox is a number as in C: the
socket's descriptor, for `select`.
"""

import sys
from collections.abc import Sequence
from math import isfinite
from threading import RLock
from typing import Final, NamedTuple

from hopring.compat import constants, frames, sp_membership
from hopring.compat.constants import *  # noqa: F403
from hopring.compat.constants import DROP_RECV, MAX_CLIENT_SCATTER_ELEMENTS, Code, text_of
from hopring.compat.frames import Limits, Received
from hopring.compat.mailbox import Mailbox, dial
from hopring.compat.sp_membership import *  # noqa: F403
from hopring.spread.handshake import VERSION

__all__ = [
    "Connected",
    "Received",
    "SP_connect",
    "SP_connect_timeout",
    "SP_disconnect",
    "SP_error",
    "SP_join",
    "SP_kill",
    "SP_leave",
    "SP_multicast",
    "SP_multigroup_multicast",
    "SP_multigroup_scat_multicast",
    "SP_poll",
    "SP_receive",
    "SP_scat_multicast",
    "SP_scat_receive",
    "SP_version",
    "Version",
]
__all__ += constants.__all__
__all__ += sp_membership.__all__

Bytes = bytes | bytearray | memoryview

SESSIONS_MAX: Final = 1024
_sessions: Final[dict[int, Mailbox]] = {}
_lock: Final = RLock()  # A signal handler may end a session.


class Connected(NamedTuple):
    """The result of a connection: ACCEPT_SESSION, or a code without a mailbox."""

    ret: int
    mbox: int = -1
    private_group: str = ""


class Version(NamedTuple):
    """1, and the version of the toolkit that these calls follow."""

    ret: int
    major_version: int
    minor_version: int
    patch_version: int


def SP_version() -> Version:
    """The version of the toolkit that these calls follow."""
    return Version(1, *VERSION)


def SP_connect(
    spread_name: str | None = "", private_name: str | None = "", priority: int = 0, group_membership: int = 1
) -> Connected:
    """Connects to the daemon at `port`, `port@host` or, if empty, the default port; waits without a limit."""
    return SP_connect_timeout(spread_name, private_name, priority, group_membership, 0)


def SP_connect_timeout(
    spread_name: str | None = "",
    private_name: str | None = "",
    priority: int = 0,
    group_membership: int = 1,
    time_out_s: float = 0,
) -> Connected:
    """Connects within this many seconds; 0 means no limit."""
    if not isfinite(time_out_s) or time_out_s < 0:
        return Connected(Code.ILLEGAL_TIME)
    done = dial(spread_name, private_name, priority > 0, bool(group_membership), time_out_s)
    if isinstance(done, Code):
        return Connected(done)
    box = Mailbox(*done)
    mbox = box.fileno()
    with _lock:
        full = len(_sessions) >= SESSIONS_MAX
        if not full:
            _sessions[mbox] = box
    if full:
        box.disconnect()
        return Connected(Code.REJECT_QUOTA)
    return Connected(Code.ACCEPT_SESSION, mbox, frames.decode_text(box.private_group))


def SP_disconnect(mbox: int) -> int:
    """Ends the session and closes the mailbox."""
    box = _remove(mbox)
    if box is None:
        return Code.ILLEGAL_SESSION
    box.disconnect()
    return 0


def SP_kill(mbox: int) -> None:
    """Closes the connection without telling the daemon; other members see the same."""
    box = _remove(mbox)
    if box is not None:
        box.kill()


def SP_join(mbox: int, group: str) -> int:
    """Asks to join a group; the view confirms it."""
    box = _sessions.get(mbox)
    return Code.ILLEGAL_SESSION if box is None else _send(box, frames.join(box.private_group, group), 0)


def SP_leave(mbox: int, group: str) -> int:
    """Asks to leave a group."""
    box = _sessions.get(mbox)
    return Code.ILLEGAL_SESSION if box is None else _send(box, frames.leave(box.private_group, group), 0)


def SP_multicast(mbox: int, service_type: int, group: str, mess_type: int, mess: Bytes) -> int:
    """Sends a message to one group; returns its size."""
    return SP_multigroup_multicast(mbox, service_type, (group,), mess_type, mess)


def SP_scat_multicast(
    mbox: int, service_type: int, group: str, mess_type: int, scat_mess: Sequence[Bytes]
) -> int:
    """Sends one message from several buffers."""
    return SP_multigroup_scat_multicast(mbox, service_type, (group,), mess_type, scat_mess)


def SP_multigroup_scat_multicast(
    mbox: int, service_type: int, groups: Sequence[str], mess_type: int, scat_mess: Sequence[Bytes]
) -> int:
    """Sends one message from several buffers to several groups."""
    if len(scat_mess) > MAX_CLIENT_SCATTER_ELEMENTS:
        return Code.ILLEGAL_MESSAGE
    return SP_multigroup_multicast(mbox, service_type, groups, mess_type, b"".join(scat_mess))


def SP_multigroup_multicast(
    mbox: int, service_type: int, groups: Sequence[str], mess_type: int, mess: Bytes
) -> int:
    """Sends a message to several groups; a member of more than one of them gets it once."""
    if isinstance(groups, str):
        raise TypeError("groups are a list of names; one name is for SP_multicast")
    box = _sessions.get(mbox)
    if box is None:
        return Code.ILLEGAL_SESSION
    body = mess if isinstance(mess, bytes) else memoryview(mess).tobytes()
    return _send(box, frames.multicast(box.private_group, service_type, groups, mess_type, body), len(body))


def SP_receive(
    mbox: int, service_type: int = 0, max_groups: int | None = None, max_mess_len: int | None = None
) -> Received:
    """Waits for the next message of any group.

    If there are more groups or bytes than the limits allow, it returns GROUPS_TOO_SHORT or BUFFER_TOO_SHORT
    with the required sizes, negative, in `num_groups` and `endian_mismatch`, and the next call gets the same
    message. With DROP_RECV as `service_type` the excess is lost.
    """
    box = _sessions.get(mbox)
    if box is None:
        return Received(Code.ILLEGAL_SESSION)
    if max_mess_len is not None and max_mess_len < 0:
        return Received(Code.ILLEGAL_MESSAGE)
    groups = None if max_groups is None else max(max_groups, 0)
    return box.receive(Limits(groups, max_mess_len, bool(service_type & DROP_RECV)))


def SP_scat_receive(
    mbox: int,
    service_type: int = 0,
    max_groups: int | None = None,
    scat_mess: Sequence[bytearray | memoryview] = (),
) -> Received:
    """Waits for the next message and fills buffers one after the other; `mess` is their contents."""
    if len(scat_mess) > MAX_CLIENT_SCATTER_ELEMENTS:
        return Received(Code.ILLEGAL_MESSAGE)
    rooms = [memoryview(one).cast("B") for one in scat_mess]
    got = SP_receive(mbox, service_type, max_groups, sum(map(len, rooms)))
    at = 0
    for room in rooms:
        part = got.mess[at : at + len(room)]
        room[: len(part)] = part
        at += len(part)
    return got


def SP_poll(mbox: int) -> int:
    """The number of bytes that can be received; above 0 there is a message, or the beginning of one."""
    box = _sessions.get(mbox)
    return Code.ILLEGAL_SESSION if box is None else box.poll()


def SP_error(error: int) -> None:
    """Prints the text of a code on stderr."""
    print(f"SP_error: ({int(error)}) {text_of(error)}", file=sys.stderr, flush=True)


def _remove(mbox: int) -> Mailbox | None:
    # Removed from the table first: its number may soon be another session's.
    with _lock:
        return _sessions.pop(mbox, None)


def _send(box: Mailbox, frame: bytes | Code, size: int) -> int:
    if isinstance(frame, Code):
        return frame
    code = box.send(frame)
    return size if code is None else code
