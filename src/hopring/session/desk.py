"""The desk: all clients of a daemon, between their connections and the groups. The door of the room.

Implements  what clients are given by the technical report (section 2) and thesis chapter 3: connect, join,
            leave, multicast, receive.
Below       groups, and through them the membership: `take` gives what is to be submitted there.
Above       connections: bytes come in, `outgoing` gives bytes.
Invariants  whatever a client does wrong costs that client only; nobody waits for a client: one that does not
            take what is sent to it is dealt with by the policy that it chose (`slow.py`).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from hopring.errors import Drop, PeerError
from hopring.groups.events import (
    Connect,
    Connected,
    Deliver,
    Disconnect,
    FromBelow,
    Gone,
    JoinGroup,
    LeaveGroup,
    Left,
    Refused,
    Request,
    Send,
    ShowSignal,
    ShowView,
)
from hopring.groups.groups import Groups, GState
from hopring.groups.names import SESSION_NAME_BYTES_MAX
from hopring.groups.renumber import renumber
from hopring.groups.sessions import REQUEST_COST_BYTES as QUEUED_COST_BYTES
from hopring.groups.words import is_word
from hopring.ids import NEVER, DaemonId, GroupName, Process, SiteId
from hopring.links.events import Tick
from hopring.membership.events import Delivered, Installed, Resume, Submit, Withdraw
from hopring.ordering.entry import CONTROL_SESSION
from hopring.session import showing
from hopring.session.backlog import Spills
from hopring.session.events import Close, Input, Lost, Opened, Output, Ready, Received
from hopring.session.frames import Frame, Reader
from hopring.session.held import Held
from hopring.session.judging import Judge
from hopring.session.options import (
    REQUEST_COST_BYTES,
    SLOW_RECEIVER,
    SessionOptions,
    Slow,
)
from hopring.session.pace import Pace
from hopring.session.queries import Queries
from hopring.session.receipts import receipt_of
from hopring.session.session import Session, State
from hopring.session.slow import SlowReceivers
from hopring.session.words import (
    Ask,
    Credit,
    Error,
    Goodbye,
    Hello,
    Join,
    Leave,
    Quit,
    Welcome,
    Word,
    encode_word,
)
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
        self._judge = Judge(groups.me.daemon, self.message_bytes_max, self.options.window_bytes)
        self.sessions: dict[int, Session] = {}
        self.queries = Queries(groups)
        self.slow = SlowReceivers(groups, self.options, spills)
        self.pace = Pace()
        self.ended: Counter[str] = Counter()
        """How often a client had to go, by reason."""
        self._strangers: dict[int, None] = {}  # The oldest first.
        self._charged: set[int] = set()  # Sessions that wait for credit.
        self._out: list[Output] = []

    @property
    def wake_at_us(self) -> int:
        """When the next tick is due."""
        oldest = next(iter(self._strangers), None)
        hello_by_us = NEVER if oldest is None else self.sessions[oldest].hello_by_us
        waits = self.groups.wake_at_us, self.queries.wake_at_us, self.slow.wake_at_us, self.pace.wake_at_us
        return min(hello_by_us, *waits)

    def tune(self, options: SessionOptions) -> None:
        """Other limits from now on, also for sessions that are there."""
        assert options.window_bytes == self.options.window_bytes, "sessions were told their window"
        self.options = options
        self.slow.tune(options, self.sessions.values())

    def renumber(self, me: Process, site_of: Mapping[DaemonId, SiteId], names: Sequence[str]) -> None:
        """Another configuration, while the daemon is alone in its view: all daemons have other numbers."""
        old, former = self.groups.me.daemon, self._judge.former
        renumber(self.groups, me, site_of, names)
        # Clients were told the number with which they were welcomed.
        former = {one: former.get(one, old) for one in self.sessions if one not in self._strangers}
        self._judge = replace(self._judge, daemon=me.daemon, former=former)
        self.queries.forget_views()

    def take(self, queue_open: bool, now_us: int) -> Submit | None:
        """The next message for the membership, if there is one; bulk only as long as it keeps the way short."""
        self.pace.look(now_us)
        submit = self.groups.take(queue_open and self.pace.passable, self.pace.open)
        if submit is not None and submit.session != CONTROL_SESSION:
            self.pace.submitted(len(submit.payload), now_us, not self.hurries(submit.session))
        return submit

    def outgoing(self, session: int, bytes_max: int) -> list[bytes]:
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

    def credit(self) -> list[Output]:
        """After `take`: tells clients what has gone out."""
        for number in sorted(self._charged):
            session = self.sessions.get(number)
            if session is None:
                self._charged.discard(number)
            elif session.credit(self._queued_bytes(number), self.options.window_bytes):
                self._ready(session)
                if not session.charged_bytes:
                    self._charged.discard(number)
        return self._flush()

    def _queued_bytes(self, number: int) -> int:
        return self.groups.queued_bytes(number) + self.queries.queued_bytes(number)

    def end_all(self, reason: str, remedy: str) -> list[Output]:
        """The daemon ends: so does every session, without a word to others."""
        for session in list(self.sessions.values()):
            self._close(session, session.rest() + encode_word(Error(reason, "", remedy)), reason)
        return self._flush()

    def step(self, event: Input, now_us: int) -> list[Output]:
        """Takes one event."""
        match event:
            case Opened(number):
                self._opened(number, now_us)
            case Received(number, chunk):
                self._received(number, chunk, now_us)
            case Lost(number):
                self._lost(number, now_us)
            case Tick():
                self._tick(now_us)
            case Delivered():
                self._ask(event, now_us)
                self._receipt(event, now_us)
            case Installed():
                self.queries.installed(event, now_us)
                self._ask(event, now_us)
            case _:
                self._ask(event, now_us)
        return self._flush()

    def _flush(self) -> list[Output]:
        out, self._out = self._out, []
        return out

    # Connections.

    def _opened(self, number: int, now_us: int) -> None:
        hello_by_us = now_us + self.options.hello_us
        session = Session(number, Reader(self.bundle_bytes_max), hello_by_us, self.slow.backlog(number))
        self.sessions[number] = session
        self._strangers[number] = None
        if len(self.sessions) > self.options.sessions_max:
            self._end(session, "too many clients", "", "connect to another daemon, or later", now_us)
        elif len(self._strangers) > self.options.strangers_max:
            oldest = self.sessions[next(iter(self._strangers))]
            self._end(oldest, "no HELLO in time", "", "say HELLO at once", now_us)

    def _lost(self, number: int, now_us: int) -> None:
        session = self.sessions.pop(number, None)
        if session is None:
            return
        self._strangers.pop(number, None)
        self.queries.forget(number)
        self.slow.forget(session)
        if session.state is not State.STRANGER:
            self._ask(Disconnect(number), now_us)

    def _tick(self, now_us: int) -> None:
        for number in list(self._strangers):
            session = self.sessions[number]
            if session.hello_by_us <= now_us:
                self._end(session, "no HELLO in time", "", "say HELLO at once", now_us)
        answered = self.queries.tick(self.sessions, now_us)
        if answered is not None:
            self._ready(answered)
        for session, why in self.slow.late(self.sessions, now_us):
            self._too_slow(session, why, now_us)
        self._ask(Tick(), now_us)

    def _received(self, number: int, chunk: bytes, now_us: int) -> None:
        session = self.sessions.get(number)
        if session is None:
            return
        session.reader.feed(chunk)
        try:
            while number in self.sessions and (frame := session.reader.next()) is not None:
                self._frame(session, frame, now_us)
        except PeerError as error:
            self._end(session, error.reason, error.detail, _REMEDIES.get(error.reason, _REMEDY), now_us)

    # What clients say.

    def _frame(self, session: Session, frame: Frame, now_us: int) -> None:
        number = session.number
        said = self._judge.said(session, frame)
        match said:
            case Send():
                self._request(said, now_us)
            case Join(group):
                self._request(JoinGroup(number, GroupName(group)), now_us)
            case Leave(group):
                self._request(LeaveGroup(number, GroupName(group)), now_us)
            case Credit():
                self._ready(session)
            case Ask():
                self._charged.add(number)
                self.queries.ask(number, said)
            case Hello():
                self._hello(session, said, now_us)
            case Quit():
                session.state = State.ENDING
                self._ask(Disconnect(number), now_us)

    def _hello(self, session: Session, hello: Hello, now_us: int) -> None:
        policy = session.backlog.policy = Slow(hello.slow)
        session.name, session.window_bytes, session.membership = (
            hello.name,
            hello.window_bytes,
            hello.membership,
        )
        if policy in self.slow.allowed():
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
            match output:
                case Deliver(sessions):
                    self._show(sessions, showing.messages(output), now_us)
                case ShowView():
                    self._show(self._wanting(output), Held(showing.view(output, self.groups.names)), now_us)
                case ShowSignal(sessions):
                    wanting = [one for one in sessions if self._wants(one)]
                    self._show(wanting, Held(showing.signal(output, self.groups.names)), now_us)
                case Left(number):
                    self._show((number,), Held(showing.left(output)), now_us)
                case Connected(number, private_group):
                    self._connected(self.sessions[number], private_group)
                case Refused(number):
                    self._refused(number, showing.refused(output), now_us)
                case Gone(number):
                    self._gone(number)
                case Resume() | Withdraw():
                    self._out.append(output)

    def _wants(self, number: int) -> bool:
        return number in self.sessions and self.sessions[number].membership

    def _wanting(self, output: ShowView) -> list[int]:
        """Who does not want views still gets the one of its own join, which tells that it is a member."""
        who = output.view.who
        own = who.session if who is not None and who.process == self.groups.me else None
        return [one for one in output.sessions if self._wants(one) or one == own]

    def _show(self, numbers: tuple[int, ...] | list[int], event: Held, now_us: int) -> None:
        for number in numbers:
            session = self.sessions.get(number)
            if session is None:
                continue
            why = self.slow.put(session, event, now_us)
            if why:
                self._too_slow(session, why, now_us)
            else:
                self._ready(session)
        while (biggest := self.slow.excess(self.sessions.values())) is not None:
            self._too_slow(
                biggest, f"the most of all waits for {biggest.name}, and all together too much", now_us
            )

    def _too_slow(self, session: Session, why: str, now_us: int) -> None:
        self._end(session, SLOW_RECEIVER, why, "take events faster, or send less to its groups", now_us)

    def _connected(self, session: Session, private_group: GroupName) -> None:
        session.state = State.OPEN
        self._strangers.pop(session.number, None)
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
        self._ready(session)

    def _refused(self, number: int, word: RefusedWord, now_us: int) -> None:
        session = self.sessions[number]
        if session.state is State.STRANGER:
            self._close(session, session.rest() + encode_word(word), word.reason)
            return
        self._answer(session, word, now_us)

    def _answer(self, session: Session, word: Word, now_us: int) -> None:
        session.say(word)
        if why := self.slow.said(session):
            self._too_slow(session, why, now_us)
        else:
            self._ready(session)

    def _gone(self, number: int) -> None:
        session = self.sessions.get(number)
        if session is not None:
            self._close(session, session.rest() + encode_word(Goodbye()), "")

    def _receipt(self, event: Delivered, now_us: int) -> None:
        session = self.sessions.get(event.message.session) if event.sender == self.groups.me else None
        if session is None or not session.wants_receipts or is_word(event.message.payload):
            return
        word = receipt_of(event, self.groups.state in (GState.GTRANS, GState.GGT))
        if word is not None:
            self._answer(session, word, now_us)

    def _ready(self, session: Session) -> None:
        if session.has_output:
            self._out.append(Ready(session.number))

    def _end(self, session: Session, reason: str, detail: str, remedy: str, now_us: int) -> None:
        """The client has to go; it is told why, and what it asked for before is still done."""
        word: Word = Error(reason, detail[:1024], remedy)
        # Only what it cannot do without: what waits for it may be what it did not take.
        last = b"".join(session.control) + encode_word(word)
        self._close(session, last, f"{reason}: {detail}" if detail else reason)
        if session.state is State.OPEN:
            self._ask(Disconnect(session.number), now_us)

    def _close(self, session: Session, last: bytes, reason: str) -> None:
        del self.sessions[session.number]
        self._strangers.pop(session.number, None)
        self.queries.forget(session.number)
        self.slow.forget(session)
        if reason:
            self.ended[reason.partition(":")[0]] += 1
        self._out.append(Close(session.number, last, reason))


_REMEDY = "use a client library of this version"
_REMEDIES = {
    Drop.MAGIC: "this port is for clients of hopring",
    Drop.VERSION: "use a client library of the daemon's version, or upgrade the daemon",
    Drop.OUT_OF_WINDOW: "keep to the credits",
    Drop.LIMIT: "keep to the limits that WELCOME tells",
}
