"""Slow receivers: queues every event of a client, and applies its policy if it does not take them.

Invariants  a client is warned before its policy acts; senders wait for a blocked receiver only as long as it
            takes events; the memory of all backlogs together is bounded.
"""

from collections.abc import Callable, Collection, Mapping

from hopring.groups.interface import GroupsInterface
from hopring.groups.private_groups import private_group
from hopring.ids import NEVER, GroupName
from hopring.session.backlog import Backlog, Pool, SharedFrame, Spills
from hopring.session.options import STALLED_US, SessionOptions, Slow
from hopring.session.protocol import ControlMessage, WarningNotice
from hopring.session.session import ConnectedSession


class SlowReceivers:
    """The backlogs of one daemon, and the senders that wait for receivers."""

    def __init__(self, groups: GroupsInterface, options: SessionOptions, spills: Spills | None) -> None:
        """Without a factory of spills no client may choose SPILL."""
        self.pool = Pool()
        self.step_due = False
        """Whether a step is due, because a client took events or its spill failed since the last one."""
        self._groups = groups
        self._options = options
        self._spills = spills
        self._blocked: dict[int, tuple[GroupName, ...]] = {}  # The groups whose senders wait, by receiver.
        self._take_by_us: dict[int, int] = {}  # Deadlines to take something, by receiver.
        self._broken: set[int] = set()

    @property
    def wake_at_us(self) -> int:
        """The earliest deadline of a receiver."""
        return min(self._take_by_us.values()) if self._take_by_us else NEVER

    def tune(self, options: SessionOptions, sessions: Collection[ConnectedSession]) -> None:
        """Applies other limits from now on."""
        self._options = options
        for session in sessions:
            session.backlog.options = options

    def allowed(self, may_block: bool) -> list[Slow]:
        """The policies that a client may choose at this daemon; BLOCK is a right of its own."""
        allowed = [one for one in Slow if one in self._options.slow_allowed]
        if self._spills is None:
            allowed = [one for one in allowed if one is not Slow.SPILL]
        if not may_block:
            allowed = [one for one in allowed if one is not Slow.BLOCK]
        return allowed

    def backlog(self, number: int, encode: Callable[[ControlMessage], bytes]) -> Backlog:
        """Makes the backlog of a new client."""
        return Backlog(number, self.pool, self._options, self._spills, encode=encode)

    def put(self, session: ConnectedSession, frame: SharedFrame, now_us: int) -> str:
        """Queues an event for a client; returns the reason to end the client, if there is one."""
        backlog = session.backlog
        problem = backlog.put(frame)
        if problem:
            return f"{problem} for {session.name}"
        limit_bytes = backlog.pop_warning()
        if limit_bytes:
            session.send_control(WarningNotice(backlog.waiting_bytes, limit_bytes, backlog.policy.value))
        if backlog.policy is Slow.BLOCK and not backlog.blocks and backlog.size_bytes > backlog.limit_bytes:
            self._block(session, now_us)
        if self._crowded(session) and session.number not in self._take_by_us:
            backlog.moved = False
            self._take_by_us[session.number] = now_us + STALLED_US
        return ""

    def _crowded(self, session: ConnectedSession) -> bool:
        """Whether more messages wait than are allowed for a client that takes nothing.

        Only for dialects without credits, in which a slow client cannot be distinguished from a stopped one.
        """
        backlog = session.backlog
        counts = not session.dialect.native and backlog.policy is Slow.KICK
        return counts and backlog.messages > self._options.spread_messages_max

    def check_control(self, session: ConnectedSession) -> str:
        """Checks the control frames of a client; returns the reason to end it, if there is one."""
        limit_bytes = self._options.backlog_bytes_max
        if session.control_bytes <= limit_bytes:
            return ""
        return f"more than {limit_bytes} bytes of answers wait for {session.name}"

    def events_taken(self, session: ConnectedSession) -> None:
        """Unblocks senders after a client took events, or notes that its spill is broken."""
        backlog = session.backlog
        if backlog.problem:
            self._broken.add(session.number)
            self.step_due = True
        elif backlog.blocks and 2 * backlog.size_bytes <= backlog.limit_bytes:
            self._unblock(session)
            self.step_due = True

    def joined(self, session: ConnectedSession) -> None:
        """After a request to join of a blocked receiver: senders to the new group wait too."""
        before = self._blocked.get(session.number)
        if before is not None:
            self._blocked[session.number] = self._groups_of(session)
            self._groups.block(self._blocked[session.number])
            self._groups.unblock(before)

    def forget(self, session: ConnectedSession) -> None:
        """Releases everything after a client's end."""
        if session.backlog.blocks:
            self._unblock(session)
        self._take_by_us.pop(session.number, None)
        self._broken.discard(session.number)
        session.backlog.close()

    def check_deadlines(
        self, sessions: Mapping[int, ConnectedSession], now_us: int
    ) -> list[tuple[ConnectedSession, str]]:
        """Returns the clients to end because of a deadline or a broken spill, with reasons.

        A client that took something since the last check gets another deadline.
        """
        self.step_due = False
        out = [
            (sessions[one], f"{sessions[one].backlog.problem} for {sessions[one].name}")
            for one in sorted(self._broken)
        ]
        for number in [one for one, at_us in self._take_by_us.items() if at_us <= now_us]:
            session = sessions[number]
            backlog = session.backlog
            if not backlog.blocks:
                if why := self._stalled(session, now_us):
                    out.append((session, why))
            elif backlog.moved:
                backlog.moved = False
                self._take_by_us[number] = now_us + self._options.block_us
            else:
                seconds = self._options.block_us / 1e6
                out.append(
                    (session, f"{session.name} took nothing for {seconds:g} s while others waited for it")
                )
        return out

    def _stalled(self, session: ConnectedSession, now_us: int) -> str:
        """The reason to end a client with too many waiting messages, if it took none of them."""
        number, backlog = session.number, session.backlog
        del self._take_by_us[number]
        if not self._crowded(session):
            return ""
        if not backlog.moved:
            limit = self._options.spread_messages_max
            return f"more than {limit} messages wait for {session.name}, which takes none"
        backlog.moved = False
        self._take_by_us[number] = now_us + STALLED_US
        return ""

    def shed_excess(self, sessions: Collection[ConnectedSession]) -> ConnectedSession | None:
        """The client to end if all backlogs together are too large; with DROP it loses messages first."""
        if self.pool.size_bytes <= self._options.backlogs_bytes_max:
            return None
        biggest = max(sessions, key=lambda one: one.backlog.size_bytes, default=None)
        if biggest is not None and biggest.backlog.policy is Slow.DROP:
            before = biggest.backlog.size_bytes
            biggest.backlog.shed()
            if biggest.backlog.size_bytes < before:
                return self.shed_excess(sessions)
        return biggest

    # Senders that wait for a receiver.

    def _groups_of(self, session: ConnectedSession) -> tuple[GroupName, ...]:
        own = private_group(session.name, self._groups.names[self._groups.me.daemon])
        return (own, *sorted(self._groups.groups_wanted(session.number)))

    def _block(self, session: ConnectedSession, now_us: int) -> None:
        session.backlog.blocks, session.backlog.moved = True, False
        self._blocked[session.number] = self._groups_of(session)
        self._take_by_us[session.number] = now_us + self._options.block_us
        self._groups.block(self._blocked[session.number])

    def _unblock(self, session: ConnectedSession) -> None:
        session.backlog.blocks = False
        del self._take_by_us[session.number]
        self._groups.unblock(self._blocked.pop(session.number))
