"""The desk: all clients of a daemon, between their connections and the groups. The door of the room.

Implements  what clients are given by the technical report (section 2) and thesis chapter 3: connect, join,
            leave, multicast, receive.
Below       groups, and through them the membership: `take` gives what is to be submitted there.
Above       connections: bytes come in, `outgoing` gives bytes.
Invariants  whatever a client does wrong costs that client only; nobody waits for a client: one that does not
            take what is sent to it is dealt with by the policy that it chose (`slow.py`).
"""

from collections.abc import Mapping, Sequence

from hopring.errors import PeerError
from hopring.groups.events import (
    Connect,
    DeliverBundle,
    Disconnect,
    FromBelow,
    JoinGroup,
    LeaveGroup,
    LeftGroup,
    PresenceReport,
    Request,
    RequestRefused,
    Send,
    SessionConnected,
    SessionGone,
    ShowSignal,
    ShowView,
)
from hopring.groups.groups import Groups, renumber
from hopring.groups.names import SESSION_NAME_BYTES_MAX
from hopring.groups.payloads import is_group_message
from hopring.groups.sessions import REQUEST_COST_BYTES as QUEUED_COST_BYTES
from hopring.ids import DaemonId, GroupName, Process, SiteId
from hopring.links.events import Tick
from hopring.membership.events import (
    Delivered,
    Installed,
    Resume,
    Stamped,
    SubmitMessage,
    TransitionalSignal,
    Withdraw,
)
from hopring.ordering.entry import CONTROL_SESSION
from hopring.session import showing, shows
from hopring.session.backlog import Spills
from hopring.session.dialect import Admitted, Dialect, Said
from hopring.session.events import Input, Listen, Lost, Opened, Output, Pause, Received
from hopring.session.held import Held
from hopring.session.judging import judge
from hopring.session.native import Native
from hopring.session.options import (
    CREDIT_DELAY_US,
    CREDIT_PART,
    REQUEST_COST_BYTES,
    SLOW_RECEIVER,
    TOO_MANY_CLIENTS,
    SessionOptions,
    Slow,
)
from hopring.session.pace import Pace
from hopring.session.receipts import Receipts
from hopring.session.roll import Roll
from hopring.session.session import Session, State
from hopring.session.shows import Shown
from hopring.session.words import Ask, Credit, Error, Goodbye, Hello, Join, Leave, Quit, Receipt, Welcome, Word
from hopring.session.words import Refused as RefusedWord
from hopring.wire.bundle import bundle_bytes_of

assert REQUEST_COST_BYTES == QUEUED_COST_BYTES, "credits count what the groups count"


class Desk:
    """The clients of one daemon."""

    def __init__(
        self,
        groups: Groups,
        payload_bytes_max: int,
        options: SessionOptions | None = None,
        spills: Spills | None = None,
    ) -> None:
        """The limit is that of a message of the membership."""
        self.groups = groups
        self.options = options or SessionOptions()
        assert self.options.window_bytes <= groups.options.session_queue_bytes_max, "requests have to fit"
        self.bundle_bytes_max = payload_bytes_max - 1 - SESSION_NAME_BYTES_MAX
        # However many its groups and messages: with so much in its bodies a bundle fits, and its name too.
        self.message_bytes_max = self.bundle_bytes_max - bundle_bytes_of(0)
        assert self.message_bytes_max > 0, "a message has to fit"
        self._native = Native(groups, self.bundle_bytes_max, self.message_bytes_max)
        self._roll = Roll(groups, self.options, spills)
        self.sessions = self._roll.sessions
        self.queries = self._roll.queries
        self.slow = self._roll.slow
        self.ended = self._roll.ended
        self.pace = Pace()
        self._receipts = Receipts(groups)
        self._charged: set[int] = set()  # Sessions that wait for credit, or to be listened to again.
        self._owing_until_us: dict[int, int] = {}  # When clients are told what has gone out, at the latest.

    @property
    def wake_at_us(self) -> int:
        """When the next tick is due."""
        wake_us = min(self._roll.wake_at_us, self.groups.wake_at_us)
        wake_us = min(wake_us, self.pace.wake_at_us)
        for until_us in self._owing_until_us.values():
            return min(wake_us, until_us)  # The first is the oldest.
        return wake_us

    def tune(self, options: SessionOptions) -> None:
        """Other limits from now on, also for sessions that are there."""
        assert options.window_bytes == self.options.window_bytes, "sessions were told their window"
        self.options = options
        self.slow.tune(options, self.sessions.values())

    def renumber(self, me: Process, site_of: Mapping[DaemonId, SiteId], names: Sequence[str]) -> None:
        """Another configuration, while the daemon is alone in its view: all daemons have other numbers."""
        renumber(self.groups, me, site_of, names)
        self.queries.forget_views()

    def take(self, queue_open: bool, now_us: int) -> SubmitMessage | None:
        """The next message for the membership, if there is one; bulk only as long as it keeps the way short."""
        self.pace.look(now_us)
        submit = self.groups.take(queue_open and self.pace.passable, self.pace.open)
        if submit is not None and submit.session != CONTROL_SESSION:
            self.pace.submitted(len(submit.payload), now_us, not self.hurries(submit.session))
        return submit

    def outgoing(self, session: int, bytes_max: int) -> list[bytes | memoryview]:
        """The next bytes for a client; empty if there are none, or if it has to give credit first."""
        one = self.sessions.get(session)
        if one is None:
            return []
        out = one.outgoing(bytes_max)
        self.slow.taken(one)
        return out

    def hurries(self, session: int) -> bool:
        """Whether what there is for a client goes before all else."""
        one = self.sessions.get(session)
        return one is not None and one.priority

    def credit(self, now_us: int) -> list[Output]:
        """After `take`: tells clients what has gone out, and listens again to those that had to wait."""
        for number in sorted(self._charged):
            session = self.sessions.get(number)
            if session is None:
                self._charged.discard(number)
                continue
            queued_bytes = self._queued_bytes(number)
            if session.credit(queued_bytes, self.options.window_bytes):
                self._owe(session, now_us)
            if not session.charged_bytes:
                self._charged.discard(number)
            if session.paused and 2 * queued_bytes <= self.options.window_bytes:
                self._hear(session, now_us)
        return self._roll.flush()

    def _owe(self, session: Session, now_us: int) -> None:
        """Credits: much is told at once, little with whatever goes to the client next, or a while later."""
        window_bytes = self.options.window_bytes
        # What is not told never keeps the client from its next request.
        untold_bytes = min(
            window_bytes // CREDIT_PART, window_bytes - self.bundle_bytes_max - REQUEST_COST_BYTES
        )
        if session.credit_bytes >= untold_bytes:
            self._roll.ready(session)
        elif session.number not in self._owing_until_us:
            self._owing_until_us[session.number] = now_us + CREDIT_DELAY_US

    def _tell_credits(self, now_us: int) -> None:
        for number, until_us in list(self._owing_until_us.items()):
            if until_us > now_us:
                return  # They are in the order of time.
            del self._owing_until_us[number]
            if number in self.sessions:
                self._roll.ready(self.sessions[number])

    def _queued_bytes(self, number: int) -> int:
        return self.groups.queued_bytes(number) + self.queries.queued_bytes(number)

    def end_all(self, reason: str, remedy: str) -> list[Output]:
        """The daemon ends: so does every session, without a word to others."""
        for session in list(self.sessions.values()):
            self._roll.close(
                session, session.rest() + session.conversation.tell(Error(reason, "", remedy)), reason
            )
        return self._roll.flush()

    def step(self, event: Input, now_us: int) -> list[Output]:
        """Takes one event."""
        if isinstance(event, Opened):
            self._opened(event, now_us)
        elif isinstance(event, Received):
            self._received(event.session, event.chunk, now_us)
        elif isinstance(event, Lost):
            self._lost(event.session, now_us)
        elif isinstance(event, Tick):
            self._tick(now_us)
        elif isinstance(event, Delivered):
            self._ask(event, now_us)
            self._receipt(event, now_us)
        elif isinstance(event, Stamped) and not is_group_message(event.message.payload):
            pass  # Groups want to know of joins only.
        elif isinstance(event, TransitionalSignal):
            self._ask(event, now_us)
            for number, word in self._receipts.close():
                self._told(number, word, now_us)
        elif isinstance(event, Installed):
            self.queries.installed(event, now_us)
            self._ask(event, now_us)
        else:
            self._ask(event, now_us)
        return self._roll.flush()

    # Connections.

    def _opened(self, event: Opened, now_us: int) -> None:
        session = self._roll.come(event, self._native, now_us + self.options.hello_us)
        if len(self.sessions) > self.options.sessions_max:
            self._end(session, TOO_MANY_CLIENTS, "", "connect to another daemon, or later", now_us)
        elif (oldest := self._roll.one_too_many(self.options.strangers_max)) is not None:
            self._end(oldest, "no HELLO in time", "", "say HELLO at once", now_us)

    def _lost(self, number: int, now_us: int) -> None:
        session = self.sessions.get(number)
        if session is not None:
            self._roll.forget(session)
            if session.known:
                self._ask(Disconnect(number), now_us)

    def _tick(self, now_us: int) -> None:
        for session in self._roll.late(now_us):
            self._end(session, "no HELLO in time", "", "say HELLO at once", now_us)
        answered = self.queries.tick(self.sessions, now_us)
        if answered is not None:
            self._roll.ready(answered)
        self._tell_credits(now_us)
        for session, why in self.slow.late(self.sessions, now_us):
            self._too_slow(session, why, now_us)
        self._ask(Tick(), now_us)

    def _received(self, number: int, chunk: bytes, now_us: int) -> None:
        session = self.sessions.get(number)
        if session is not None:
            session.conversation.feed(chunk)
            self._hear(session, now_us)

    def _hear(self, session: Session, now_us: int) -> None:
        """All that it has said so far, or as much as its window has room for."""
        number, conversation = session.number, session.conversation
        try:
            while (full := self._full(session)) is False and (said := conversation.next()) is not None:
                judge(session, said, self.options.window_bytes)
                self._said(session, said, now_us)
                if number not in self.sessions:
                    return
        except PeerError as error:
            self._end(session, error.reason, error.detail, showing.remedy(error.reason), now_us)
            return
        if full is not session.paused:
            session.paused = full
            self._roll.out.append(Pause(number) if full else Listen(number))

    def _full(self, session: Session) -> bool:
        if session.dialect.native or session.charged_bytes < self.options.window_bytes:
            return False
        return self._queued_bytes(session.number) >= self.options.window_bytes

    # What clients say.

    def _said(self, session: Session, said: Said, now_us: int) -> None:
        number = session.number
        if isinstance(said, Send):
            self._request(said, now_us)
        elif isinstance(said, Join):
            self._request(JoinGroup(number, GroupName(said.group)), now_us)
        elif isinstance(said, Leave):
            self._request(LeaveGroup(number, GroupName(said.group)), now_us)
        elif isinstance(said, Credit):
            self._roll.ready(session)
        elif isinstance(said, Ask):
            self._charged.add(number)
            self.queries.ask(number, said)
        elif isinstance(said, Hello):
            self._hello(session, said, now_us)
        elif isinstance(said, Admitted):
            self._admitted(session, said, now_us)
        elif isinstance(said, Quit):
            session.state = State.ENDING
            self._ask(Disconnect(number), now_us)

    def _hello(self, session: Session, hello: Hello, now_us: int) -> None:
        policy = session.backlog.policy = Slow(hello.slow)
        session.name, session.window_bytes, session.membership = (
            hello.name,
            hello.window_bytes,
            hello.membership,
        )
        if not session.dialect.native or policy in self.slow.allowed():
            session.priority = hello.priority
            self._ask(Connect(session.number, hello.name, hello.priority), now_us)
        else:
            self._refused(session.number, showing.no_such_policy(policy, self.slow.allowed()), now_us)

    def _request(self, request: JoinGroup | LeaveGroup | Send, now_us: int) -> None:
        number = request.session
        self._charged.add(number)
        if isinstance(request, JoinGroup) and self.groups.wanted(number) >= self.options.groups_max:
            self._refused(number, showing.too_many_groups(request, self.options.groups_max), now_us)
        else:
            self._ask(request, now_us)
        if isinstance(request, JoinGroup) and number in self.sessions:
            self.slow.wants(self.sessions[number])

    # What comes of it.

    def _ask(self, event: Request | FromBelow | Tick, now_us: int) -> None:
        if isinstance(event, Delivered) and event.sender == self.groups.me:
            if event.message.session != CONTROL_SESSION:
                self.pace.delivered(len(event.message.payload), now_us)
        elif isinstance(event, Installed):
            self.pace.begin()
        for output in self.groups.step(event, now_us):
            if isinstance(output, (DeliverBundle, ShowView, ShowSignal, LeftGroup)):
                self._show(output, now_us)
            elif isinstance(output, SessionConnected):
                self._connected(self.sessions[output.session], output.private_group)
            elif isinstance(output, RequestRefused):
                self._refused(output.session, showing.refused(output), now_us)
            elif isinstance(output, SessionGone):
                self._gone(output.session)
            elif isinstance(output, PresenceReport):
                self._told(output.session, self._receipts.told(output), now_us)
            elif isinstance(output, (Resume, Withdraw)):
                self._roll.out.append(output)

    def _show(self, shown: Shown, now_us: int) -> None:
        """Written once in each dialect, for however many sessions."""
        written: dict[Dialect, Held] = {}
        for number in shows.numbers(shown):
            session = self.sessions.get(number)
            if session is None or not shows.wants(session, shown, self.groups.me):
                continue
            held = written.get(session.dialect)
            if held is None:
                held = written[session.dialect] = shows.write(session.dialect, shown)
            if why := self.slow.put(session, held, now_us):
                self._too_slow(session, why, now_us)
            else:
                self._roll.ready(session)
        self._shed(now_us)

    def _shed(self, now_us: int) -> None:
        while (biggest := self.slow.excess(self.sessions.values())) is not None:
            self._too_slow(
                biggest, f"the most of all waits for {biggest.name}, and all together too much", now_us
            )

    def _too_slow(self, session: Session, why: str, now_us: int) -> None:
        self._end(session, SLOW_RECEIVER, why, "take events faster, or send less to its groups", now_us)

    def _connected(self, session: Session, private_group: GroupName) -> None:
        session.known = True
        me = self.groups.me.daemon
        session.say(
            Welcome(
                self.groups.names[me],
                me,
                session.number,
                private_group,
                self.message_bytes_max,
                self.options.window_bytes,
            )
        )
        if session.conversation.admitted:
            self._roll.admit(session)
        self._roll.ready(session)

    def _admitted(self, session: Session, said: Admitted, now_us: int) -> None:
        session.put(said.answer)
        if said.refused:
            self._end(session, said.refused, "", "", now_us)
        else:
            self._roll.admit(session)
            self._roll.ready(session)

    def _refused(self, number: int, word: RefusedWord, now_us: int) -> None:
        session = self.sessions[number]
        if session.state is State.STRANGER:
            self._roll.close(session, session.rest() + session.conversation.tell(word), word.reason)
            return
        self._answer(session, word, now_us)

    def _answer(self, session: Session, word: Word, now_us: int) -> None:
        session.say(word)
        if why := self.slow.said(session):
            self._too_slow(session, why, now_us)
        else:
            self._roll.ready(session)

    def _gone(self, number: int) -> None:
        session = self.sessions.get(number)
        if session is not None:
            self._roll.close(session, session.rest() + session.conversation.tell(Goodbye()), "")

    def _receipt(self, event: Delivered, now_us: int) -> None:
        session = self.sessions.get(event.message.session) if event.sender == self.groups.me else None
        if (
            session is None
            or not session.conversation.wants_receipts
            or is_group_message(event.message.payload)
        ):
            return
        word = self._receipts.delivered(event)
        if word is not None:
            self._answer(session, word, now_us)

    def _told(self, number: int, word: Receipt | None, now_us: int) -> None:
        session = self.sessions.get(number)
        if session is not None and word is not None:
            self._answer(session, word, now_us)

    def _end(self, session: Session, reason: str, detail: str, remedy: str, now_us: int) -> None:
        """The client has to go; it is told why, and what it asked for before is still done."""
        word: Word = Error(reason, detail[:1024], remedy)
        # Only what it cannot do without: what waits for it may be what it did not take.
        last = session.words() + session.conversation.tell(word)
        self._roll.close(session, last, f"{reason}: {detail}" if detail else reason)
        if session.known and session.state is not State.ENDING:
            self._ask(Disconnect(session.number), now_us)
