"""Requests: what sessions ask for, judged at once and carried out when the order takes it.

Below       `take` gives the messages for the membership, one by one.
Above       sessions. A request that nothing will come of is refused at once; any other is carried out, in the
            order in which its session asked.
"""

from dataclasses import dataclass, field

from hopring.groups.events import (
    Connect,
    JoinGroup,
    LeaveGroup,
    RefusalReason,
    RequestRefused,
    Send,
    SessionConnected,
)
from hopring.groups.group_table import GroupTable
from hopring.groups.interest import OwnInterest
from hopring.groups.messages import GroupInterest, GroupKill
from hopring.groups.names import is_legal_group, is_legal_session
from hopring.groups.private_groups import private_group
from hopring.groups.sessions import LocalSession, LocalSessions
from hopring.ids import DaemonId, GroupName
from hopring.membership.events import SubmitMessage
from hopring.ordering.entry import CONTROL_SESSION


@dataclass(slots=True)
class Requests:
    """The sessions of this daemon, and the interest that follows from what they want."""

    daemon: DaemonId
    daemon_name: str
    queue_bytes_max: int  # For each session.
    table: GroupTable
    own: OwnInterest
    sessions: LocalSessions = field(default_factory=LocalSessions)

    def accepts(self, number: int) -> bool:
        """Whether this session may ask for more; an end is always accepted."""
        session = self.sessions.by_number[number]
        return not session.ends and session.queued_bytes < self.queue_bytes_max

    def queued_bytes(self, number: int) -> int:
        """What of this session waits here."""
        session = self.sessions.by_number.get(number)
        return 0 if session is None else session.queued_bytes

    @property
    def idle(self) -> bool:
        """Whether nothing waits here."""
        sessions = self.sessions
        return not (sessions.turn or sessions.expedited or sessions.parked or sessions.held)

    def connect(self, event: Connect) -> SessionConnected | RequestRefused:
        """A session begins, if its name is legal and free."""
        assert 0 <= event.session < CONTROL_SESSION, "no such number"
        assert event.session not in self.sessions.by_number, "numbers are not used twice"
        if not is_legal_session(event.name, self.daemon_name):
            return RequestRefused(event.session, RefusalReason.ILLEGAL_NAME, event.name)
        if event.name in self.sessions.by_name:
            return RequestRefused(event.session, RefusalReason.NAME_IN_USE, event.name)
        self.sessions.begin(event.session, event.name, event.priority)
        return SessionConnected(event.session, private_group(event.name, self.daemon_name))

    def ask(self, event: JoinGroup | LeaveGroup) -> RequestRefused | None:
        """A session wants to join or to leave."""
        session = self.sessions.by_number[event.session]
        assert self.accepts(event.session), "look at accepts before asking for more"
        refusal = _refusal(session, event)
        if refusal is not None:
            return RequestRefused(event.session, refusal, event.group)
        if isinstance(event, JoinGroup):
            session.wants.add(event.group)
            # At once: the announcements of many joins travel together.
            self.own.want(event.group)
        else:
            session.wants.discard(event.group)
        self.sessions.put(session, event)
        return None

    def send(self, event: Send) -> None:
        """A session's bundle."""
        assert self.accepts(event.session), "look at accepts before asking for more"
        assert (event.run.daemon, event.run.session) == (self.daemon, event.session), (
            "bundles name their senders"
        )
        self.sessions.put(self.sessions.by_number[event.session], event)

    def disconnect(self, number: int, now_us: int) -> None:
        """The session's end waits behind all that it asked for, but for joins that wait themselves."""
        session = self.sessions.by_number[number]
        if session.ends:
            return
        session.ends = True
        session.wants.clear()
        self.sessions.put(session, GroupKill())
        for group in self.sessions.give_up(session, self.own.known):
            self.look_idle(group, now_us)

    def joined(self, group: GroupName) -> None:
        """A join of a session here is delivered."""
        self.sessions.joined(group)

    def look_idle(self, group: GroupName, now_us: int) -> None:
        """Perhaps nobody here needs this group any more."""
        if not self.sessions.joining[group] and not self.table.local(group):
            self.own.idle(group, now_us)

    def take(self, one_site: bool, queue_open: bool, bulk_open: bool) -> GroupInterest | SubmitMessage | None:
        """The next thing to be sent in a view in which all is settled; bulk is all without priority."""
        if self.own.wanted or self.own.over:
            if one_site:
                self.sessions.unpark(self.own.alone())
            word = self.own.word()
            if word is not None:
                return word
        return self.sessions.take(self.own.known, bulk_open) if queue_open else None

    def known(self, groups: list[GroupName]) -> None:
        """Everybody knows that these groups are wanted here."""
        self.own.agree(groups)
        self.sessions.unpark(groups)


def _refusal(session: LocalSession, event: JoinGroup | LeaveGroup) -> RefusalReason | None:
    if not is_legal_group(event.group):
        return RefusalReason.ILLEGAL_GROUP
    member = event.group in session.wants
    if isinstance(event, JoinGroup):
        return RefusalReason.ALREADY_MEMBER if member else None
    return None if member else RefusalReason.NOT_A_MEMBER
