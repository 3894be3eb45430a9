"""The roll: all sessions of a daemon from their connections to their ends, and what is to be done for them.

Strangers are those whose handshake is not done: they have a while for it, and are not too many.
"""

from collections import Counter

from hopring.groups.groups import Groups
from hopring.session.backlog import Spills
from hopring.session.dialect import Dialect
from hopring.session.events import Close, Opened, Output, Ready
from hopring.session.options import SessionOptions
from hopring.session.queries import Queries
from hopring.session.session import Session, State
from hopring.session.slow import SlowReceivers


class Roll:
    """The sessions of one daemon."""

    def __init__(self, groups: Groups, options: SessionOptions, spills: Spills | None) -> None:
        self.sessions: dict[int, Session] = {}
        self.queries = Queries(groups)
        self.slow = SlowReceivers(groups, options, spills)
        self.ended: Counter[str] = Counter()
        """How often a client had to go, by reason."""
        self.out: list[Output] = []
        self._strangers: dict[int, Session] = {}  # The oldest first.

    @property
    def wake_at_us(self) -> int:
        """When somebody has had its time."""
        wake_us = min(self.queries.wake_at_us, self.slow.wake_at_us)
        for oldest in self._strangers.values():
            return min(wake_us, oldest.hello_by_us)
        return wake_us

    def flush(self) -> list[Output]:
        """What is to be done."""
        out, self.out = self.out, []
        return out

    def come(self, event: Opened, native: Dialect, hello_by_us: int) -> Session:
        """A connection."""
        number, dialect = event.session, event.dialect or native
        conversation = dialect.converse(number, event.address)
        backlog = self.slow.backlog(number, conversation.tell)
        session = Session(number, dialect, conversation, hello_by_us, backlog)
        self.sessions[number] = self._strangers[number] = session
        return session

    def one_too_many(self, strangers_max: int) -> Session | None:
        """The oldest stranger, if they are more than that."""
        return next(iter(self._strangers.values())) if len(self._strangers) > strangers_max else None

    def late(self, now_us: int) -> list[Session]:
        """Strangers that have had their time."""
        return [one for one in self._strangers.values() if one.hello_by_us <= now_us]

    def admit(self, session: Session) -> None:
        """Its handshake is done."""
        session.state = State.OPEN
        self._strangers.pop(session.number, None)

    def ready(self, session: Session) -> None:
        """There may be something for it."""
        if session.has_output:
            self.out.append(Ready(session.number))

    def close(self, session: Session, last: bytes, reason: str) -> None:
        """The daemon ends it."""
        self.forget(session)
        if reason:
            self.ended[reason.partition(":")[0]] += 1
        refused = session.state is State.STRANGER
        self.out.append(Close(session.number, last, reason, session.name, refused))

    def forget(self, session: Session) -> None:
        """It has ended."""
        del self.sessions[session.number]
        self._strangers.pop(session.number, None)
        self.queries.forget(session.number)
        self.slow.forget(session)
