"""Slow receivers: what a daemon does about clients that do not take what waits for them.

Invariants  a client is warned before its policy acts; whoever waits for a blocked receiver waits no longer than
            that one takes events; the memory of all backlogs together is bounded.
"""

from collections.abc import Callable, Collection, Mapping

from hopring.groups.groups import Groups
from hopring.groups.private_groups import private_group
from hopring.ids import NEVER, GroupName
from hopring.session.backlog import Backlog, Spills
from hopring.session.held import Held, Pool
from hopring.session.options import STALLED_US, SessionOptions, Slow
from hopring.session.session import Session
from hopring.session.words import Warning, Word


class SlowReceivers:
    """The backlogs of one daemon."""

    def __init__(self, groups: Groups, options: SessionOptions, spills: Spills | None) -> None:
        """Without a place for spills, nobody may spill."""
        self.pool = Pool()
        self.stirred = False
        """Outside of a step something came up that the next one has to look at."""
        self._groups = groups
        self._options = options
        self._spills = spills
        self._blocked: dict[int, tuple[GroupName, ...]] = {}  # Receivers, and the groups that wait for them.
        self._look_at_us: dict[int, int] = {}  # By then they have to have taken something.
        self._broken: set[int] = set()

    @property
    def wake_at_us(self) -> int:
        """When the next look is due."""
        return min(self._look_at_us.values()) if self._look_at_us else NEVER

    def tune(self, options: SessionOptions, sessions: Collection[Session]) -> None:
        """Other limits from now on."""
        self._options = options
        for session in sessions:
            session.backlog.options = options

    def allowed(self) -> list[Slow]:
        """The policies that a client may choose here."""
        return [
            one for one in Slow if one in self._options.slow_allowed and (self._spills or one is not Slow.SPILL)
        ]

    def backlog(self, number: int, tell: Callable[[Word], bytes]) -> Backlog:
        """For a new client."""
        return Backlog(number, self.pool, self._options, self._spills, tell=tell)

    def put(self, session: Session, held: Held, now_us: int) -> str:
        """An event for a client; returns why it has to go, if it has to."""
        backlog = session.backlog
        problem = backlog.put(held)
        if problem:
            return f"{problem} for {session.name}"
        limit_bytes = backlog.warns()
        if limit_bytes:
            session.say(Warning(backlog.waiting_bytes, limit_bytes, backlog.policy.value))
        if backlog.policy is Slow.BLOCK and not backlog.blocks and backlog.size_bytes > backlog.limit_bytes:
            self._block(session, now_us)
        if self._crowded(session) and session.number not in self._look_at_us:
            backlog.moved = False
            self._look_at_us[session.number] = now_us + STALLED_US
        return ""

    def _crowded(self, session: Session) -> bool:
        """Whether more messages wait than a client may have that takes nothing: of a dialect without credits,
        whoever is slow looks like whoever has gone to sleep.
        """
        backlog = session.backlog
        counts = not session.dialect.native and backlog.policy is Slow.KICK
        return counts and backlog.messages > self._options.spread_messages_max

    def said(self, session: Session) -> str:
        """A word for a client was added; returns why it has to go, if it has to."""
        limit_bytes = self._options.backlog_bytes_max
        if session.control_bytes <= limit_bytes:
            return ""
        return f"more than {limit_bytes} bytes of answers wait for {session.name}"

    def taken(self, session: Session) -> None:
        """The client has taken something, or could not."""
        backlog = session.backlog
        if backlog.problem:
            self._broken.add(session.number)
            self.stirred = True
        elif backlog.blocks and 2 * backlog.size_bytes <= backlog.limit_bytes:
            self._unblock(session)
            self.stirred = True

    def wants(self, session: Session) -> None:
        """The client asked for a group; if others wait for it, they wait there too."""
        before = self._blocked.get(session.number)
        if before is not None:
            self._blocked[session.number] = self._groups_of(session)
            self._groups.block(self._blocked[session.number])
            self._groups.unblock(before)

    def forget(self, session: Session) -> None:
        """The client is gone."""
        if session.backlog.blocks:
            self._unblock(session)
        self._look_at_us.pop(session.number, None)
        self._broken.discard(session.number)
        session.backlog.close()

    def late(self, sessions: Mapping[int, Session], now_us: int) -> list[tuple[Session, str]]:
        """Who has to go because of time or its disk, and why."""
        self.stirred = False
        out = [
            (sessions[one], f"{sessions[one].backlog.problem} for {sessions[one].name}")
            for one in sorted(self._broken)
        ]
        for number in [one for one, at_us in self._look_at_us.items() if at_us <= now_us]:
            session = sessions[number]
            backlog = session.backlog
            if not backlog.blocks:
                if why := self._stalled(session, now_us):
                    out.append((session, why))
            elif backlog.moved:
                backlog.moved = False
                self._look_at_us[number] = now_us + self._options.block_us
            else:
                seconds = self._options.block_us / 1e6
                out.append(
                    (session, f"{session.name} took nothing for {seconds:g} s while others waited for it")
                )
        return out

    def _stalled(self, session: Session, now_us: int) -> str:
        """Why a client has to go that had too many messages waiting, if it has to."""
        number, backlog = session.number, session.backlog
        del self._look_at_us[number]
        if not self._crowded(session):
            return ""
        if not backlog.moved:
            limit = self._options.spread_messages_max
            return f"more than {limit} messages wait for {session.name}, which takes none"
        backlog.moved = False
        self._look_at_us[number] = now_us + STALLED_US
        return ""

    def excess(self, sessions: Collection[Session]) -> Session | None:
        """If all backlogs together are too big: who has to go; who drops loses messages first."""
        if self.pool.size_bytes <= self._options.backlogs_bytes_max:
            return None
        biggest = max(sessions, key=lambda one: one.backlog.size_bytes, default=None)
        if biggest is not None and biggest.backlog.policy is Slow.DROP:
            before = biggest.backlog.size_bytes
            biggest.backlog.shed()
            if biggest.backlog.size_bytes < before:
                return self.excess(sessions)
        return biggest

    # Senders that wait.

    def _groups_of(self, session: Session) -> tuple[GroupName, ...]:
        own = private_group(session.name, self._groups.names[self._groups.me.daemon])
        return (own, *sorted(self._groups.wants(session.number)))

    def _block(self, session: Session, now_us: int) -> None:
        session.backlog.blocks, session.backlog.moved = True, False
        self._blocked[session.number] = self._groups_of(session)
        self._look_at_us[session.number] = now_us + self._options.block_us
        self._groups.block(self._blocked[session.number])

    def _unblock(self, session: Session) -> None:
        session.backlog.blocks = False
        del self._look_at_us[session.number]
        self._groups.unblock(self._blocked.pop(session.number))
