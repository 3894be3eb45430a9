"""Requests of sessions: checked at once, and carried out when they have their place in the order.

Below       `next_submission` returns the messages for the engine, one by one.
Above       sessions. A request that cannot succeed is refused at once; the others are carried out in the order
            of their session's requests.
"""

from dataclasses import dataclass, field

from hopring.engine import SubmitMessage
from hopring.errors import Drop, PeerError
from hopring.groups.events import (
    ClaimLock,
    Connect,
    GroupRequestRefused,
    JoinGroup,
    LeaveGroup,
    LockEnded,
    RefusalReason,
    ReleaseLock,
    Send,
    SessionConnected,
)
from hopring.groups.group_table import GroupTable
from hopring.groups.interest import OwnInterest
from hopring.groups.locks import LockEnd
from hopring.groups.messages import GroupInterest, GroupJoin, GroupKill
from hopring.groups.names import is_legal_group, is_legal_session
from hopring.groups.private_groups import private_group
from hopring.groups.sessions import LocalSession, LocalSessions
from hopring.ids import DaemonId, GroupName
from hopring.ordering.entry import DAEMON_SESSION


@dataclass(slots=True)
class Requests:
    """The requests of this daemon's sessions, and the interest that follows from them."""

    daemon: DaemonId
    daemon_name: str
    queue_bytes_max: int  # For each session.
    table: GroupTable
    own: OwnInterest
    sessions: LocalSessions = field(default_factory=LocalSessions)
    joins: int = 0  # The groups that the sessions want, each counted by session.

    def accepts(self, number: int) -> bool:
        """Whether this session may queue another request; `Disconnect` is always accepted."""
        session = self.sessions.by_number[number]
        return not session.ends and session.queued_bytes < self.queue_bytes_max

    def queued_bytes(self, number: int) -> int:
        """The size of this session's queued requests."""
        session = self.sessions.by_number.get(number)
        return 0 if session is None else session.queued_bytes

    @property
    def idle(self) -> bool:
        """Whether no session has a queued request."""
        sessions = self.sessions
        return not (sessions.ready or sessions.expedited or sessions.parked or sessions.held)

    def connect(self, event: Connect) -> SessionConnected | GroupRequestRefused:
        """A session begins, if its name is legal and free."""
        assert 0 <= event.session < DAEMON_SESSION, "no such number"
        assert event.session not in self.sessions.by_number, "numbers are not used twice"
        if not is_legal_session(event.name, self.daemon_name):
            return GroupRequestRefused(event.session, RefusalReason.ILLEGAL_NAME, event.name)
        if event.name in self.sessions.by_name:
            return GroupRequestRefused(event.session, RefusalReason.NAME_IN_USE, event.name)
        self.sessions.begin(event.session, event.name, event.priority, event.impatient)
        return SessionConnected(event.session, private_group(event.name, self.daemon_name))

    def ask(self, event: JoinGroup | LeaveGroup) -> GroupRequestRefused | None:
        """A session asks to join or to leave a group."""
        session = self.sessions.by_number[event.session]
        assert self.accepts(event.session), "check accepts before a request"
        refusal = _refusal(session, event)
        if refusal is not None:
            return GroupRequestRefused(event.session, refusal, event.group)
        if isinstance(event, JoinGroup):
            session.wants.add(event.group)
            self.joins += 1
            # At once: the announcements of many joins share a message.
            self.own.want(event.group)
        else:
            session.wants.discard(event.group)
            self.joins -= 1
        self.sessions.put(session, event)
        self.sessions.hurry(session)
        return None

    def claim(self, event: ClaimLock) -> LockEnded | None:
        """A session asks for a lock of a group that it is in, or will be in by then."""
        session = self.sessions.by_number[event.session]
        assert self.accepts(event.session), "check accepts before a request"
        if event.group not in session.wants:
            return LockEnded(event.session, event.serial, event.group, event.lock, LockEnd.NOT_A_MEMBER)
        self.sessions.put(session, event)
        return None

    def release(self, event: ReleaseLock) -> None:
        """A session gives up a claim, or its lease has run out; one that ends gives up all of them anyway."""
        session = self.sessions.by_number.get(event.session)
        if session is not None and not session.ends:
            self.sessions.put(session, event)

    def send(self, event: Send) -> None:
        """Queues a bundle of a session."""
        assert self.accepts(event.session), "check accepts before a request"
        assert (event.key.daemon, event.key.session) == (self.daemon, event.session), (
            "bundles name their senders"
        )
        self.sessions.put(self.sessions.by_number[event.session], event)

    def disconnect(self, number: int, now_us: int) -> None:
        """Queues the session's end behind its requests; joins that wait for announcements are given up."""
        session = self.sessions.by_number[number]
        if session.ends:
            return
        session.ends = True
        self.joins -= len(session.wants)
        session.wants.clear()
        self.sessions.put(session, GroupKill())
        self.sessions.hurry(session)
        for group in self.sessions.give_up(session, self.own.known):
            self.mark_if_idle(group, now_us)

    def check_join(self, number: int, message: GroupJoin) -> None:
        """Checks that a JOIN in this daemon's name is one that its session asked for."""
        session = self.sessions.by_number.get(number)
        asked = session is not None and session.name == message.name
        if not asked or not self.sessions.joining.get(GroupName(message.group)):
            raise PeerError(Drop.FOREIGN_SENDER, f"JOIN of session {number} here, which did not ask for it")

    def check_kill(self, number: int) -> None:
        """Checks that a KILL in this daemon's name is of a session that ends, after all its requests."""
        session = self.sessions.by_number.get(number)
        if session is None or not session.ends or session.requests:
            raise PeerError(Drop.FOREIGN_SENDER, f"KILL of session {number} here, which does not end")

    def joined(self, group: GroupName) -> None:
        """A join of a session of this daemon is delivered."""
        self.sessions.joined(group)

    def mark_if_idle(self, group: GroupName, now_us: int) -> None:
        """Marks the interest in a group as idle if no session here needs it."""
        if not self.sessions.joining[group] and not self.table.local(group):
            self.own.idle(group, now_us)

    def next_submission(
        self, one_site: bool, queue_open: bool, bulk_open: bool
    ) -> GroupInterest | SubmitMessage | None:
        """The next INTEREST or message of a session, in state GOP; without priority it needs `bulk_open`."""
        if self.own.to_announce or self.own.to_withdraw:
            if one_site:
                self.sessions.unpark(self.own.agree_alone())
            message = self.own.next_message()
            if message is not None:
                return message
        return self.sessions.next_submission(self.own.known, bulk_open) if queue_open else None

    def known(self, groups: list[GroupName]) -> None:
        """All daemons know of the interest in these groups: joins that waited for it may go."""
        self.own.agree(groups)
        self.sessions.unpark(groups)


def _refusal(session: LocalSession, event: JoinGroup | LeaveGroup) -> RefusalReason | None:
    if not is_legal_group(event.group):
        return RefusalReason.ILLEGAL_GROUP
    member = event.group in session.wants
    if isinstance(event, JoinGroup):
        return RefusalReason.ALREADY_MEMBER if member else None
    return None if member else RefusalReason.NOT_A_MEMBER
