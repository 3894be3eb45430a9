"""Outputs of the groups for sessions: which sessions get them, their form in a dialect, and refusals.

An output is rendered once in each dialect, for any number of sessions, by native.py or spread/dialect.py.
"""

from collections.abc import Sequence
from typing import assert_never

from hopring.errors import Drop
from hopring.groups import names
from hopring.groups.events import (
    DeliverBundle,
    GroupRequestRefused,
    JoinGroup,
    LeftGroup,
    RefusalReason,
    RequestDenied,
    SessionConnected,
    SessionGone,
    ShowRetained,
    ShowSignal,
    ShowView,
)
from hopring.groups.interface import GroupsInterface
from hopring.ids import GroupName, Process
from hopring.session import protocol
from hopring.session.backlog import SharedFrame
from hopring.session.dialect import Dialect
from hopring.session.lock_frames import LockOutput, notice_of
from hopring.session.options import BLOCK_RIGHT, NOT_ALLOWED, Slow
from hopring.session.session import ConnectedSession

REMEDIES = {
    RefusalReason.ILLEGAL_NAME: "choose a name of 1 to 64 bytes without # and NUL",
    RefusalReason.NAME_IN_USE: "choose another name, or end the client that has it",
    RefusalReason.ILLEGAL_GROUP: "choose a name of 1 to 128 bytes without NUL that does not begin with #",
    RefusalReason.ALREADY_MEMBER: "join a group once; leave it first to join it again",
    RefusalReason.NOT_A_MEMBER: "join the group first",
}
_REMEDY = "use a client library of this version"
_REMEDIES_OF_DROPS = {
    Drop.MAGIC: "this port is for clients of hopring",
    Drop.VERSION: "use a client library of the daemon's version, or upgrade the daemon",
    Drop.OUT_OF_WINDOW: "keep to the credits",
    Drop.LIMIT: "keep to the limits that WELCOME tells",
}
_OF_HELLO = (RefusalReason.ILLEGAL_NAME, RefusalReason.NAME_IN_USE)


def refused(event: GroupRequestRefused) -> protocol.RefusedReply:
    """The REFUSED message for a refusal of the groups."""
    request = "hello" if event.refusal in _OF_HELLO else "join"
    if event.refusal is RefusalReason.NOT_A_MEMBER:
        request = "leave"
    return protocol.RefusedReply(request, event.name[:256], str(event.refusal), REMEDIES[event.refusal])


GroupAnswer = SessionConnected | GroupRequestRefused | SessionGone | RequestDenied | LockOutput


def answer(event: RequestDenied | LockOutput) -> protocol.ControlMessage:
    """The message for a refusal by the engine below the groups, or about a lock."""
    if not isinstance(event, RequestDenied):
        return notice_of(event)
    if event.request == "join":
        return protocol.RefusedReply("join", event.name, event.reason, event.remedy)
    return protocol.DeniedNotice(event.name, event.reason, event.remedy, event.tickets)


def welcome(
    groups: GroupsInterface, session: int, private_group: GroupName, message_bytes_max: int, window_bytes: int
) -> protocol.WelcomeReply:
    """The WELCOME of a session."""
    me = groups.me.daemon
    return protocol.WelcomeReply(groups.names[me], me, session, private_group, message_bytes_max, window_bytes)


def too_many_groups(request: JoinGroup, groups_max: int) -> protocol.RefusedReply:
    """Refuses a join of a session that is in as many groups as allowed."""
    return protocol.RefusedReply("join", request.group, f"more than {groups_max} groups", "leave some first")


def too_many_joins(request: JoinGroup, joins_max: int) -> protocol.RefusedReply:
    """Refuses a join at a daemon whose sessions are in as many groups as allowed."""
    remedy = (
        "leave some, connect to another daemon, or raise joins_max in [clients] of the daemon's configuration"
    )
    reason = f"the sessions of this daemon are in {joins_max} groups, which is the limit"
    return protocol.RefusedReply("join", request.group, reason, remedy)


def too_many_known_groups(request: JoinGroup, known_groups_max: int) -> protocol.RefusedReply:
    """Refuses a join that would make one more group than all daemons together may have."""
    remedy = "join an existing group, or raise known_groups_max in [clients] of the daemon's configuration"
    return protocol.RefusedReply(
        "join", request.group, f"there are {known_groups_max} groups, which is the limit", remedy
    )


def no_such_policy(policy: Slow, allowed: Sequence[Slow]) -> protocol.RefusedReply:
    """Refuses a HELLO with a policy for slow receivers that this daemon does not offer."""
    reason = "a policy for slow receivers that this daemon does not have"
    return protocol.RefusedReply("hello", policy.value, reason, f"choose one of {', '.join(allowed)}")


def no_such_right(right: str) -> protocol.RefusedReply:
    """Refuses a HELLO that asks for a right which the daemon's configuration does not give to clients."""
    asked = 'slow="block"' if right == BLOCK_RIGHT else "priority=True"
    remedy = f'connect without {asked}, or set allow = ["{right}"] in [clients] of the daemon\'s configuration'
    return protocol.RefusedReply("hello", right, NOT_ALLOWED, remedy)


def remedy(reason: Drop) -> str:
    """The remedy for a client that is ended for this reason."""
    return _REMEDIES_OF_DROPS.get(reason, _REMEDY)


def member_entry(one: names.GroupMember, daemons: Sequence[str]) -> protocol.MemberEntry:
    """A member as the protocol names it."""
    return protocol.MemberEntry(one.name, daemons[one.daemon], one.incarnation, one.session)


GroupOutput = DeliverBundle | ShowView | ShowSignal | LeftGroup | ShowRetained


def receivers_of(shown: GroupOutput) -> tuple[int, ...]:
    """The numbers of the sessions that an output is for."""
    return (shown.session,) if isinstance(shown, LeftGroup) else shown.sessions


def is_wanted(session: ConnectedSession, shown: GroupOutput, me: Process) -> bool:
    """Whether a session gets an output.

    Messages go to all. Without membership a session sees only its own joins and leaves, in the native dialect.
    Primary views are unknown to Spread: its clients see no view in which nothing else has changed.
    """
    if isinstance(shown, ShowView) and shown.view.same and not session.dialect.native:
        return False
    if isinstance(shown, ShowRetained):
        return session.dialect.native  # Spread knows nothing of the kind.
    if session.membership or isinstance(shown, DeliverBundle):
        return True
    if not session.dialect.native:
        return False
    who = shown.view.who if isinstance(shown, ShowView) else None
    return isinstance(shown, LeftGroup) or (
        who is not None and (who.process, who.session) == (me, session.number)
    )


def render_output(dialect: Dialect, shown: GroupOutput) -> SharedFrame:
    """Renders an output of the groups in a dialect."""
    if isinstance(shown, DeliverBundle):
        return dialect.render_messages(shown)
    if isinstance(shown, ShowView):
        return dialect.render_view(shown)
    if isinstance(shown, ShowSignal):
        return dialect.render_signal(shown)
    if isinstance(shown, LeftGroup):
        return dialect.render_left(shown)
    if isinstance(shown, ShowRetained):
        return dialect.render_retained(shown)
    assert_never(shown)
