"""The calls of the toolkit's flush library, `FL_connect` to `FL_error`, in the shape of sp.py: view synchrony.

Below       the calls of sp.py, over Spread's client protocol.
Above       programs ported from the flush library. They use it for all groups of a session.
Invariants  as blocks/flushing.py: a message is received in the view in which it was sent.
Limits      members of a group all use this module: others are waited for without a limit. How messages are
            marked is hopring's own: programs with the toolkit's library in the same group do not understand it.

A mark precedes the body of each message: MAGIC, its kind, the id of the view, and for some kinds a name. Bodies
without a mark are those of sessions without view synchrony, and are received where they stand in the order.
"""

import struct
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import RLock
from typing import Final, NamedTuple

from hopring.blocks.flushing import (
    AgreementArrived,
    AgreeToFlush,
    AskToFlush,
    BaseClosing,
    BaseView,
    DeliverContent,
    FlushMember,
    FlushPhase,
    Input,
    InstallView,
    MemberDisconnected,
    Output,
    SendAgreement,
    ShowClosing,
    ViewMessage,
    service_in_view,
)
from hopring.compat import sp
from hopring.compat import sp_membership as memb
from hopring.compat.constants import AGREED_MESS, CAUSED_BY_NETWORK, REG_MEMB_MESS, TRANSITION_MESS, Code
from hopring.compat.frames import Received, encode_text
from hopring.services import Service
from hopring.spread.frames import NAME_BYTES

__all__ = [
    "FLUSH_REQ_MESS",
    "ILLEGAL_STATE",
    "SUBGROUP_CAST",
    "FL_connect",
    "FL_disconnect",
    "FL_error",
    "FL_flush",
    "FL_get_memb_info",
    "FL_get_vs_set_members",
    "FL_get_vs_sets_info",
    "FL_join",
    "FL_leave",
    "FL_multicast",
    "FL_poll",
    "FL_receive",
    "FL_subgroup_multicast",
    "FL_unicast",
    "FlReceived",
    "Is_flush_req_mess",
    "Is_subgroup_cast",
]

FLUSH_REQ_MESS: Final = 0x20000000
"""The type of a request to flush; a value of hopring's own, as the next one."""
ILLEGAL_STATE: Final = -50
"""A message between a flush and the next view, a flush that is not requested, a group without a view."""
SUBGROUP_CAST: Final = 0x40000000
"""Set in the type of a message to some members of a group."""

MAGIC: Final = b"\xf7hF1"
_MESSAGE, _SUBGROUP, _AGREEMENT = b"m", b"s", b"a"
_ID: Final = struct.Struct(">III")
_WORDS: Final = struct.Struct("=IIIII")
_COUNT: Final = struct.Struct("=I")
_MARK_BYTES: Final = len(MAGIC) + 1 + _ID.size + NAME_BYTES
_SERVICES: Final = {0x1: Service.UNRELIABLE, 0x2: Service.RELIABLE, 0x4: Service.FIFO}
_CAUSAL_BIT: Final = 0x8

FL_connect = sp.SP_connect
FL_error = sp.SP_error
FL_get_memb_info = memb.SP_get_memb_info
FL_get_vs_sets_info = memb.SP_get_vs_sets_info
FL_get_vs_set_members = memb.SP_get_vs_set_members
Bytes = bytes | bytearray | memoryview


class FlReceived(NamedTuple):
    """As sp.Received, and how many messages can be received without waiting."""

    ret: int
    service_type: int = 0
    sender: str = ""
    num_groups: int = 0
    groups: tuple[str, ...] = ()
    mess_type: int = 0
    endian_mismatch: int = 0
    mess: bytes = b""
    more_messes: int = 0


def Is_flush_req_mess(service_type: int) -> bool:
    """Whether it asks to flush the group that is its sender."""
    return bool(service_type & FLUSH_REQ_MESS)


def Is_subgroup_cast(service_type: int) -> bool:
    """Whether it was sent to some members of the group only."""
    return bool(service_type & SUBGROUP_CAST)


_NO_VIEW: Final = Received(0)


@dataclass(slots=True)
class _Group:
    """A group of one session."""

    member: FlushMember = field(default_factory=FlushMember)
    base: Received = _NO_VIEW  # The last base view.
    ids: dict[str, bytes] = field(default_factory=dict)  # Of views, in words.


@dataclass(slots=True)
class _Session:
    """The groups of one mailbox, and what can be received without waiting."""

    me: str
    groups: dict[str, _Group] = field(default_factory=dict)
    ready: deque[Received] = field(default_factory=deque)
    lock: RLock = field(default_factory=RLock)  # One thread may send while another receives.


_sessions: Final[dict[int, _Session]] = {}


def FL_join(mbox: int, group: str) -> int:
    """Joins a group; its first view is received when all members have flushed theirs."""
    ret = sp.SP_join(mbox, group)
    if ret == 0:
        _session(mbox).groups.setdefault(group, _Group())
    return ret


def FL_leave(mbox: int, group: str) -> int:
    """Leaves a group; the others are asked to flush."""
    ret = sp.SP_leave(mbox, group)
    its = _session(mbox).groups.pop(group, None) if ret == 0 else None
    if its is not None:
        its.member.step(MemberDisconnected(), 0)
    return ret


def FL_disconnect(mbox: int) -> int:
    """Ends the session and all its memberships."""
    _sessions.pop(mbox, None)
    return sp.SP_disconnect(mbox)


def FL_flush(mbox: int, group: str) -> int:
    """Agrees to a requested flush: nothing may be sent to the group until the next view."""
    session = _session(mbox)
    with session.lock:
        its = session.groups.get(group)
        if its is None:
            return Code.ILLEGAL_GROUP
        if its.member.phase is not FlushPhase.ASKED:
            return ILLEGAL_STATE
        return _step(mbox, session, group, AgreeToFlush())


def FL_multicast(mbox: int, service_type: int, group: str, mess_type: int, mess: Bytes) -> int:
    """Sends a message to the group in its present view; ILLEGAL_STATE if it has none to be sent in."""
    return _send(mbox, service_type, group, (group,), mess_type, mess, _MESSAGE)


def FL_unicast(mbox: int, service_type: int, group: str, receiver: str, mess_type: int, mess: Bytes) -> int:
    """Sends a message to one member of the group, by its private group."""
    return _send(mbox, service_type, group, (receiver,), mess_type, mess, _SUBGROUP)


def FL_subgroup_multicast(
    mbox: int, service_type: int, group: str, receivers: Sequence[str], mess_type: int, mess: Bytes
) -> int:
    """Sends a message to some members of the group, by their private groups."""
    if isinstance(receivers, str):
        raise TypeError("receivers are a list of names; one name is for FL_unicast")
    return _send(mbox, service_type, group, tuple(receivers), mess_type, mess, _SUBGROUP)


def FL_poll(mbox: int) -> int:
    """Above 0 if there is something to receive; a view may be due all the same when it is not."""
    return len(_session(mbox).ready) or sp.SP_poll(mbox)


def FL_receive(mbox: int) -> FlReceived:
    """Waits for the next message, view, signal or request to flush of any group.

    Of a request, `sender` is the group, and `groups` are the members of the view that get what is sent now.
    """
    session = _session(mbox)
    while not session.ready:
        got = sp.SP_receive(mbox)
        if got.ret < 0:
            return FlReceived(*got)
        with session.lock:
            _take(mbox, session, got)
    return FlReceived(*session.ready.popleft(), len(session.ready))


def _session(mbox: int) -> _Session:
    return _sessions.setdefault(mbox, _Session(""))


def _send(
    mbox: int, bits: int, group: str, to: tuple[str, ...], mess_type: int, mess: Bytes, kind: bytes
) -> int:
    session = _session(mbox)
    with session.lock:
        its = session.groups.get(group)
        if its is None or not set(to) <= {group, *its.member.members}:
            return Code.ILLEGAL_GROUP
        if not its.member.may_send:
            return ILLEGAL_STATE
        service = next((one for bit, one in _SERVICES.items() if bits & bit), Service.AGREED)
        if service_in_view(service) is not service:
            bits = bits & ~0x3F | _CAUSAL_BIT
        body = _mark(kind, its.ids[its.member.sending_view], group) + bytes(mess)
        ret = sp.SP_multigroup_multicast(mbox, bits, to, mess_type, body)
    return ret if ret < 0 else len(mess)


def _mark(kind: bytes, view: bytes, name: str) -> bytes:
    return MAGIC + kind + view + encode_text(name).ljust(NAME_BYTES, b"\0")


def _take(mbox: int, session: _Session, got: Received) -> None:
    """Handles a message that Spread delivered."""
    bits = got.service_type
    if memb.Is_membership_mess(bits):
        its = session.groups.get(got.sender)
        if its is None or memb.Is_self_leave(bits):
            session.ready.append(got)
        elif memb.Is_transition_mess(bits):
            _step(mbox, session, got.sender, BaseClosing(frozenset(its.base.groups)))
        else:
            _base_view(mbox, session, its, got)
        return
    kind, view = got.mess[4:5], got.mess[5:17]
    name = got.mess[17:_MARK_BYTES].rstrip(b"\0").decode(errors="replace")
    if len(got.mess) < _MARK_BYTES or not got.mess.startswith(MAGIC):
        session.ready.append(got)
    elif kind == _AGREEMENT:
        for group in got.groups[:1]:
            _step(mbox, session, group, AgreementArrived(got.sender, view.hex(), name))
    else:
        _step(mbox, session, name, ViewMessage(got.sender, view.hex(), _unmarked(got, kind, name)))


def _unmarked(got: Received, kind: bytes, group: str) -> Received:
    body = got.mess[_MARK_BYTES:]
    if kind == _SUBGROUP:
        bits = got.service_type | SUBGROUP_CAST
        return got._replace(ret=len(body), mess=body, service_type=bits, num_groups=1, groups=(group,))
    return got._replace(ret=len(body), mess=body)


def _base_view(mbox: int, session: _Session, its: _Group, got: Received) -> None:
    info = memb.SP_get_memb_info(got.mess, got.service_type)
    words = _ID.pack(*info.gid)
    its.base = got
    its.ids = {one: kept for one, kept in its.ids.items() if one == its.member.view} | {words.hex(): words}
    joined = its.member.phase is FlushPhase.OUTSIDE
    if 0 <= got.mess_type < len(got.groups):
        session.me = got.groups[got.mess_type]
    together = set(memb.SP_get_vs_set_members(got.mess, info.my_vs_set).member_names)
    if not memb.Is_caused_network_mess(got.service_type):
        together = set(got.groups) - {info.changed_member}
    _step(
        mbox,
        session,
        got.sender,
        BaseView(words.hex(), got.groups, frozenset(together), joined_as=session.me if joined else ""),
    )


def _step(mbox: int, session: _Session, group: str, event: Input) -> int:
    its = session.groups.get(group)
    if its is None:
        return 0
    ret = 0
    for output in its.member.step(event, 0):
        ret = min(ret, _carry_out(mbox, session, group, its, output))
    return ret


def _carry_out(mbox: int, session: _Session, group: str, its: _Group, output: Output) -> int:
    match output:
        case SendAgreement(attempt, leader):
            mark = _mark(_AGREEMENT, its.ids[attempt], leader)
            return min(0, sp.SP_multicast(mbox, AGREED_MESS, group, 0, mark))
        case DeliverContent(_, content):
            assert isinstance(content, Received), "messages were given"
            session.ready.append(content)
        case AskToFlush(_, members):
            session.ready.append(Received(0, FLUSH_REQ_MESS, group, len(members), members))
        case ShowClosing(view, _):
            body = struct.pack("=III", *_ID.unpack(its.ids[view]))
            session.ready.append(Received(len(body), TRANSITION_MESS, group, mess_type=-1, mess=body))
        case InstallView():
            session.ready.append(_view(session, group, its, output))
    return 0


def _view(session: _Session, group: str, its: _Group, output: InstallView) -> Received:
    """The view as a membership message, whose sets are those of the members' previous views."""
    index = output.members.index(session.me)
    if output.whole and not memb.Is_caused_network_mess(its.base.service_type):
        return its.base
    own = next(at for at, one in enumerate(output.sets) if session.me in one)
    offset = sum(_COUNT.size + NAME_BYTES * len(one) for one in output.sets[:own])
    body = _WORDS.pack(*_ID.unpack(its.ids[output.id]), len(output.sets), offset)
    for one in output.sets:
        body += _COUNT.pack(len(one)) + b"".join([encode_text(name).ljust(NAME_BYTES, b"\0") for name in one])
    bits = REG_MEMB_MESS | CAUSED_BY_NETWORK
    return Received(len(body), bits, group, len(output.members), output.members, index, 0, body)
