"""The session server: serves all clients of a daemon, between their connections and the groups.

Implements  the client interface of the technical report (section 2) and of thesis chapter 3: connect, join,
            leave, multicast, receive.
Below       groups, and through them the engine: `next_submission` returns the next message to submit there.
Above       connections: `step` handles their bytes, `outgoing` returns bytes for them.
Invariants  an error of a client ends that client only; nothing waits for a client: a slow one is handled by
            the policy that it chose (`slow.py`).
"""

from hopring.engine import (
    Delivered,
    Installed,
    Resume,
    Stamped,
    SubmitMessage,
    TransitionalSignal,
    Withdraw,
    Withheld,
)
from hopring.errors import PeerError
from hopring.groups.events import (
    Connect,
    DeliverBundle,
    Disconnect,
    FromBelow,
    GroupRequestRefused,
    JoinGroup,
    LeaveGroup,
    LeftGroup,
    OwnDelivered,
    PresenceReport,
    Request,
    Send,
    SessionConnected,
    SessionGone,
    SessionRequest,
    ShowRetained,
    ShowSignal,
    ShowView,
)
from hopring.groups.interface import GroupsInterface
from hopring.groups.names import SESSION_NAME_BYTES_MAX
from hopring.groups.payloads import is_group_message
from hopring.groups.sessions import REQUEST_COST_BYTES as QUEUED_COST_BYTES
from hopring.ids import NEVER, GroupName
from hopring.links.events import Tick
from hopring.ordering.entry import DAEMON_SESSION
from hopring.session import lock_frames, refusals, render
from hopring.session.access import Authenticator, ClientAccess
from hopring.session.backlog import SharedFrame, Spills
from hopring.session.dialect import Admitted, ClientRequest, Dialect, SendWithin
from hopring.session.events import (
    AccessNote,
    BytesReceived,
    ConnectionLost,
    ConnectionOpened,
    Input,
    Listen,
    Output,
    Pause,
)
from hopring.session.grants import GrantsTable
from hopring.session.native import Native
from hopring.session.options import (
    CREDIT_DELAY_US,
    CREDIT_PART,
    DENIALS,
    NOT_ALLOWED,
    RATE_CHECK_US,
    REQUEST_COST_BYTES,
    SLOW_RECEIVER,
    TOO_MANY_CLIENTS,
    SessionOptions,
)
from hopring.session.pace import Pace
from hopring.session.protocol import (
    AuthRequest,
    ChallengeReply,
    ControlMessage,
    Credit,
    ErrorNotice,
    GoodbyeReply,
    HelloRequest,
    JoinRequest,
    LeaveRequest,
    LockRequest,
    ProofRequest,
    QueryReply,
    QueryRequest,
    QuitRequest,
    RefusedReply,
    UnlockedNotice,
    UnlockRequest,
    encode_answer,
)
from hopring.session.queries import Queries
from hopring.session.receipts import Receipts
from hopring.session.render import GroupAnswer, GroupOutput
from hopring.session.session import ConnectedSession, SessionPhase, SessionRegistry, check_and_charge
from hopring.session.slow import SlowReceivers
from hopring.wire.bundle import bundle_bytes_of

assert REQUEST_COST_BYTES == QUEUED_COST_BYTES, "credits count what the groups count"


class SessionServer:
    """Serves the clients of one daemon."""

    def __init__(
        self,
        groups: GroupsInterface,
        payload_bytes_max: int,
        options: SessionOptions | None = None,
        spills: Spills | None = None,
    ) -> None:
        """The limit is that of one message of the membership."""
        self.groups = groups
        self.options = options or SessionOptions()
        assert self.options.window_bytes <= groups.session_queue_bytes_max, "requests have to fit"
        self.bundle_bytes_max = payload_bytes_max - 1 - SESSION_NAME_BYTES_MAX
        # Bodies up to this size fit into a bundle together with any groups, messages and sender's name.
        self.message_bytes_max = self.bundle_bytes_max - bundle_bytes_of(0)
        assert self.message_bytes_max > 0, "a message has to fit"
        self._native = Native(groups, self.bundle_bytes_max, self.message_bytes_max)
        self._registry = SessionRegistry()
        self.sessions, self.ended = self._registry.sessions, self._registry.ended
        self.access = ClientAccess(groups)
        self.queries = Queries(groups, self.access.rights)
        self.slow = SlowReceivers(groups, self.options, spills)
        self.pace = Pace()
        self._receipts = Receipts(groups)
        self._charged: set[int] = set()  # Sessions that are owed credit, or whose input is paused.
        self._rates_at_us = NEVER
        self._owing_until_us: dict[int, int] = {}  # When credit and receipts of a session go at the latest.

    @property
    def wake_at_us(self) -> int:
        """When the next tick is due."""
        wake_us = min(self._registry.wake_at_us, self.groups.wake_at_us)
        wake_us = min(wake_us, self.pace.wake_at_us, self.queries.wake_at_us)
        wake_us = min(wake_us, self.slow.wake_at_us, self._rates_at_us)
        for until_us in self._owing_until_us.values():
            return min(wake_us, until_us)  # The first is the earliest.
        return wake_us

    def grant(
        self, grants: GrantsTable | None, authenticator: Authenticator | None, now_us: int
    ) -> list[Output]:
        """Applies other grants and users from now on, to existing sessions too.

        A session is ended if its user or key is gone, if its certificate is among `access.revoked`, or if it
        may not have its name any more; a group that it may not join any more is left.
        """
        self.access.grants, self.access.authenticator = grants, authenticator
        for session in [one for one in self.sessions.values() if one.phase is SessionPhase.OPEN]:
            if why := self.access.lost(session):
                self._note_refusal(session, "hello", session.name, NOT_ALLOWED)
                self._end(session, NOT_ALLOWED, why, "ask the operator of the daemon", now_us)
                continue
            rights = self.access.rights(session)
            if rights is not None:
                session.priority = session.priority and rights.priority
                for group in sorted(self.groups.groups_wanted(session.number)):
                    if not rights.may_join(group):
                        self._note_refusal(session, "join", group, NOT_ALLOWED)
                        self._step_groups(LeaveGroup(session.number, group), now_us)
        return self._registry.flush()

    def tune(self, options: SessionOptions) -> None:
        """Applies other limits from now on, to existing sessions too."""
        assert options.window_bytes == self.options.window_bytes, "sessions were told their window"
        self.options = options
        self.slow.tune(options, self.sessions.values())

    def next_submission(self, queue_open: bool, now_us: int) -> SubmitMessage | None:
        """Takes the next message for the engine, if there is one; bulk only while the pace allows it."""
        self.pace.update(now_us)
        queue_open = queue_open and self.pace.priority_open
        submit = self.groups.next_submission(queue_open, self.pace.bulk_open, now_us)
        if self.groups.has_dropped:
            for number, notice in refusals.dropped(self.groups):
                self._notify(number, notice, now_us)
        if submit is not None and submit.session != DAEMON_SESSION:
            self.pace.submitted(len(submit.payload), now_us, not self.has_priority(submit.session))
        return submit

    def outgoing(self, session: int, bytes_max: int) -> list[bytes | memoryview]:
        """The next bytes for a client; empty if there are none, or if its window is full."""
        one = self.sessions.get(session)
        if one is None:
            return []
        out = one.outgoing(bytes_max)
        self.slow.events_taken(one)
        return out

    def has_priority(self, session: int) -> bool:
        """Whether a session has priority."""
        return session in self.sessions and self.sessions[session].priority

    def credit(self, now_us: int) -> list[Output]:
        """After `next_submission`: gives credit for requests that went out, and resumes paused clients."""
        for number in sorted(self._charged):
            session = self.sessions.get(number)
            if session is None:
                self._charged.discard(number)
                continue
            queued_bytes = self._queued_bytes(number) + self.access.debt_bytes(session, now_us)
            if session.credit(queued_bytes, self.options.window_bytes):
                self._owe_credit(session, now_us)
            if not session.charged_bytes:
                self._charged.discard(number)
            if session.paused and 2 * queued_bytes <= self.options.window_bytes:
                self._handle_input(session, now_us)
        self._rates_at_us = now_us + RATE_CHECK_US if self.access.in_debt and self._charged else NEVER
        return self._registry.flush()

    def _owe_credit(self, session: ConnectedSession, now_us: int) -> None:
        """Sends a large credit at once, a small one with the next frame or after a delay."""
        window_bytes = self.options.window_bytes
        room_bytes = window_bytes - self.bundle_bytes_max - REQUEST_COST_BYTES
        # Credit below this never blocks the client's next request.
        harmless_bytes = min(window_bytes // CREDIT_PART, room_bytes)
        if session.credit_bytes >= harmless_bytes:
            self._registry.ready(session)
        else:
            self._owing_until_us.setdefault(session.number, now_us + CREDIT_DELAY_US)

    def _send_due_credits(self, now_us: int) -> None:
        for number, until_us in list(self._owing_until_us.items()):
            if until_us > now_us:
                return  # They are ordered by time.
            del self._owing_until_us[number]
            if number in self.sessions:
                self._registry.ready(self.sessions[number])

    def _queued_bytes(self, number: int) -> int:
        return self.groups.queued_bytes(number) + self.queries.queued_bytes(number)

    def end_all(self, reason: str, remedy: str) -> list[Output]:
        """Ends every session because the daemon ends; the groups are not informed."""
        for session in list(self.sessions.values()):
            self._close(
                session, session.rest() + session.conversation.encode(ErrorNotice(reason, "", remedy)), reason
            )
        return self._registry.flush()

    def step(self, event: Input, now_us: int) -> list[Output]:
        """Handles one event; returns the outputs for the driver."""
        if isinstance(event, ConnectionOpened):
            self._opened(event, now_us)
        elif isinstance(event, BytesReceived):
            self._received(event.session, event.chunk, now_us)
        elif isinstance(event, ConnectionLost):
            self._lost(event.session, now_us)
        elif isinstance(event, Tick):
            self._tick(now_us)
        elif isinstance(event, Delivered):
            self._step_groups(event, now_us)
            self._answer_tickets(event, now_us)
        elif isinstance(event, Stamped) and not is_group_message(event.message.payload):
            pass  # Groups need only the stamps of joins.
        elif isinstance(event, Withheld):
            self._withheld(event, now_us)
        elif isinstance(event, TransitionalSignal):
            self._step_groups(event, now_us)
            for number, notice in self._receipts.close():
                self._notify(number, notice, now_us)
        else:
            if isinstance(event, Installed):
                self.queries.installed(event, now_us)
            self._step_groups(event, now_us)
        return self._registry.flush()

    # Connections.

    def _opened(self, event: ConnectionOpened, now_us: int) -> None:
        number, dialect = event.session, event.dialect or self._native
        conversation = dialect.converse(number, event.address)
        backlog = self.slow.backlog(number, conversation.encode)
        session = ConnectedSession(number, dialect, conversation, now_us + self.options.hello_us, backlog)
        session.identify(event)
        self._registry.add(session)
        if len(self.sessions) > self.options.sessions_max:
            self._end(session, TOO_MANY_CLIENTS, "", "connect to another daemon, or later", now_us)
        elif (oldest := self._registry.one_too_many(self.options.strangers_max)) is not None:
            self._end(oldest, "no HELLO in time", "", "say HELLO at once", now_us)

    def _lost(self, number: int, now_us: int) -> None:
        session = self.sessions.get(number)
        if session is not None:
            self._registry.remove(session)
            self._forget(session)
            if session.known:
                self._step_groups(Disconnect(number), now_us)

    def _tick(self, now_us: int) -> None:
        for session, reason, remedy in self._registry.late(now_us):
            self._end(session, reason, "", remedy, now_us)
        if (answered := self.queries.tick(self.sessions, now_us)) is not None:
            self._registry.ready(answered)
        self._send_due_credits(now_us)
        for session, why in self.slow.check_deadlines(self.sessions, now_us):
            self._too_slow(session, why, now_us)
        self._step_groups(Tick(), now_us)

    def _received(self, number: int, chunk: bytes, now_us: int) -> None:
        session = self.sessions.get(number)
        if session is not None:
            session.conversation.feed(chunk)
            self._handle_input(session, now_us)

    def _handle_input(self, session: ConnectedSession, now_us: int) -> None:
        """Handles all requests received so far, or as many as the window has room for."""
        number, conversation = session.number, session.conversation
        try:
            while (full := self._full(session, now_us)) is False and (
                request := conversation.next()
            ) is not None:
                check_and_charge(session, request, self.options.window_bytes)
                self._handle(session, request, now_us)
                if number not in self.sessions:
                    return
        except PeerError as error:
            self._end(session, error.reason, error.detail, render.remedy(error.reason), now_us)
            return
        if full is not session.paused:
            session.paused = full
            self._registry.out.append(Pause(number) if full else Listen(number))

    def _full(self, session: ConnectedSession, now_us: int) -> bool:
        if session.dialect.native or session.charged_bytes < self.options.window_bytes:
            return False
        queued_bytes = self._queued_bytes(session.number) + self.access.debt_bytes(session, now_us)
        return queued_bytes >= self.options.window_bytes

    # Requests of clients.

    def _handle(self, session: ConnectedSession, request: ClientRequest, now_us: int) -> None:
        number = session.number
        if isinstance(request, Send):
            self._send(session, request, now_us)
        elif isinstance(request, SendWithin):
            self._send(session, request.send.replace(deadline_us=now_us + request.ttl_us), now_us)
        elif isinstance(request, JoinRequest):
            self._join(session, request, now_us)
        elif isinstance(request, LeaveRequest):
            self._request(LeaveGroup(number, GroupName(request.group)), now_us)
        elif isinstance(request, (LockRequest, UnlockRequest)):
            self._lock(session, request, now_us)
        elif isinstance(request, Credit):
            self._registry.ready(session)
        elif isinstance(request, QueryRequest):
            self._charged.add(number)
            self._ask(session, request, now_us)
        elif isinstance(request, HelloRequest):
            self._hello(session, request, now_us)
        elif isinstance(request, (AuthRequest, ProofRequest)):
            self._authenticate(session, request, now_us)
        elif isinstance(request, Admitted):
            self._admitted(session, request, now_us)
        elif isinstance(request, QuitRequest):
            session.phase = SessionPhase.ENDING
            self._step_groups(Disconnect(number), now_us)

    def _hello(self, session: ConnectedSession, hello: HelloRequest, now_us: int) -> None:
        session.introduce(hello)
        limits = self.access, self.slow, self.options, self.sessions.values(), self.groups.is_primary(None)
        if refused := refusals.refuse_hello(session, hello, *limits):
            self._refused(session.number, refused, now_us)
            return
        # A client of another dialect cannot be told why it is refused, and is served without priority.
        session.priority = hello.priority and self.access.may_have_priority(session, self.options.allow)
        impatient = hello.when_suspended == "fail"
        self._step_groups(Connect(session.number, hello.name, session.priority, impatient), now_us)

    def _authenticate(
        self, session: ConnectedSession, request: AuthRequest | ProofRequest, now_us: int
    ) -> None:
        answer: ChallengeReply | RefusedReply | None
        if isinstance(request, AuthRequest):
            answer = self.access.begin(session, request, now_us)
        else:
            answer = self.access.prove(session, request)
        if isinstance(answer, RefusedReply):
            self._refused(session.number, answer, now_us)
        elif answer is not None:
            self._send_control(session, answer, now_us)

    def _join(self, session: ConnectedSession, request: JoinRequest, now_us: int) -> None:
        refused = self.access.refuse_join(session, request, self.sessions)
        if refused is None:
            self._request(JoinGroup(session.number, GroupName(request.group), request.minimum), now_us)
        else:
            self._charged.add(session.number)
            self._refused(session.number, refused, now_us)

    def _lock(self, session: ConnectedSession, request: LockRequest | UnlockRequest, now_us: int) -> None:
        claim = lock_frames.claim_of(session.number, request, self.access.rights(session))
        if not isinstance(claim, UnlockedNotice):
            self._request(claim, now_us)
        elif isinstance(request, LockRequest):
            self._charged.add(session.number)
            self._note_refusal(session, "lock", request.group, NOT_ALLOWED)
            self._send_control(session, claim, now_us)

    def _ask(self, session: ConnectedSession, request: QueryRequest, now_us: int) -> None:
        refused = self.access.refuse_query(session, request)
        if refused is None:
            self.queries.ask(session.number, request)
            return
        self._note_refusal(session, request.what, request.name, refused.reason)
        self._send_control(session, QueryReply(request.serial, encode_answer(refused)), now_us)

    def _send(self, session: ConnectedSession, request: Send, now_us: int) -> None:
        """Sends the part of a bundle for which the session has the right, unless it is too resilient."""
        resilient = request.key.resilience
        if self.access.grants is None and not resilient:
            self._request(request, now_us)
            return
        allowed, denied = self.access.filter_send(session, request)
        if resilient and denied is None:
            denied = refusals.too_resilient(self.groups, request)
            allowed = allowed if denied is None else None
        self._charged.add(session.number)
        if denied is not None:
            self._note_refusal(session, "send", denied.name, denied.reason)
            self._send_control(session, denied, now_us)
        if allowed is not None and session.number in self.sessions:
            self.access.sent(session, len(allowed.bundle), now_us)
            self._request(allowed, now_us)

    def _request(self, request: SessionRequest, now_us: int) -> None:
        number = request.session
        self._charged.add(number)
        refused = None
        if isinstance(request, JoinGroup):
            refused = refusals.too_many_groups(self.groups, self.options, request)
        if refused is not None:
            self._refused(number, refused, now_us)
        else:
            self._step_groups(request, now_us)
        if isinstance(request, JoinGroup) and number in self.sessions:
            self.slow.joined(self.sessions[number])

    # Outputs of the groups.

    def _step_groups(self, event: Request | FromBelow | Tick, now_us: int) -> None:
        if isinstance(event, Delivered) and event.sender == self.groups.me:
            if event.message.session != DAEMON_SESSION:
                self.pace.delivered(len(event.message.payload), now_us)
        elif isinstance(event, Installed):
            self.pace.begin()
        for output in self.groups.step(event, now_us):
            if isinstance(output, (DeliverBundle, ShowView, ShowSignal, LeftGroup, ShowRetained)):
                self._queue_output(output, now_us)
            elif isinstance(output, OwnDelivered):
                self._answer_tickets(output.event, now_us)
            elif isinstance(output, PresenceReport):
                self._notify(output.session, self._receipts.reported(output), now_us)
            elif isinstance(output, (Resume, Withdraw)):
                self._registry.out.append(output)
            else:
                self._answer(output, now_us)

    def _answer(self, output: GroupAnswer, now_us: int) -> None:
        """Answers a request of one session."""
        if isinstance(output, SessionConnected):
            self._connected(self.sessions[output.session], output.private_group)
        elif isinstance(output, GroupRequestRefused):
            self._refused(output.session, render.refused(output), now_us)
        elif isinstance(output, SessionGone):
            self._goodbye(output.session)
        elif output.session in self.sessions:
            message = render.answer(output)
            self._send_control(self.sessions[output.session], message, now_us)

    def _queue_output(self, output: GroupOutput, now_us: int) -> None:
        """Queues an output for its sessions, rendered once in each dialect."""
        rendered: dict[Dialect, SharedFrame] = {}
        for number in render.receivers_of(output):
            session = self.sessions.get(number)
            if session is None or not render.is_wanted(session, output, self.groups.me):
                continue
            frame = rendered.get(session.dialect)
            if frame is None:
                frame = rendered[session.dialect] = render.render_output(session.dialect, output)
            if why := self.slow.put(session, frame, now_us):
                self._too_slow(session, why, now_us)
            else:
                self._registry.ready(session)
        self._shed(now_us)

    def _shed(self, now_us: int) -> None:
        while (biggest := self.slow.shed_excess(self.sessions.values())) is not None:
            self._too_slow(
                biggest, f"the backlogs exceed their common limit, and {biggest.name} has the longest", now_us
            )

    def _too_slow(self, session: ConnectedSession, why: str, now_us: int) -> None:
        self._end(session, SLOW_RECEIVER, why, "take events faster, or send less to its groups", now_us)

    def _connected(self, session: ConnectedSession, private_group: GroupName) -> None:
        session.known = True
        self._registry.out.append(AccessNote(session.number, "connect", session.identity, session.name))
        limits = self.message_bytes_max, self.options.window_bytes
        session.send_control(render.welcome(self.groups, session.number, private_group, *limits))
        if session.conversation.admitted:
            self._registry.admit(session)
        self._registry.ready(session)

    def _admitted(self, session: ConnectedSession, request: Admitted, now_us: int) -> None:
        session.put(request.answer)
        if request.refused:
            self._end(session, request.refused, "", "", now_us)
        else:
            self._registry.admit(session)
            self._registry.ready(session)

    def _refused(self, number: int, message: RefusedReply, now_us: int) -> None:
        session = self.sessions[number]
        if message.reason in DENIALS:
            self._note_refusal(session, message.request, message.name, message.reason)
        if session.phase is SessionPhase.STRANGER:
            self._close(session, session.rest() + session.conversation.encode(message), message.reason)
            return
        self._send_control(session, message, now_us)

    def _note_refusal(self, session: ConnectedSession, request: str, subject: str, reason: str) -> None:
        """Counts a refused request, and reports it for the audit."""
        self.access.refusals[request] += 1
        of = session.number, "refused", session.identity, session.name
        self._registry.out.append(AccessNote(*of, request, subject, reason))

    def _send_control(
        self, session: ConnectedSession, message: ControlMessage, now_us: int, may_wait: bool = False
    ) -> None:
        session.send_control(message)
        if why := self.slow.check_control(session):
            self._too_slow(session, why, now_us)
        elif may_wait:
            self._owing_until_us.setdefault(session.number, now_us + CREDIT_DELAY_US)
        else:
            self._registry.ready(session)

    def _goodbye(self, number: int) -> None:
        session = self.sessions.get(number)
        if session is not None:
            self._close(session, session.rest() + session.conversation.encode(GoodbyeReply()), "")

    def _answer_tickets(self, event: Delivered, now_us: int) -> None:
        session = self.sessions.get(event.message.session) if event.sender == self.groups.me else None
        if (
            session is None
            or not (session.conversation.wants_receipts or self.groups.suspended)
            or is_group_message(event.message.payload)
        ):
            return
        try:
            if self.groups.suspended and (denied := refusals.undelivered(self.groups, event)) is not None:
                self._send_control(session, denied, now_us)
            message = self._receipts.delivered(event)
        except PeerError:
            return  # The groups have refused the bundle and counted it.
        if message is not None:
            # Replies of the servers that it lists take it along: the client wakes up once.
            self._send_control(session, message, now_us, may_wait=bool(message.listed))

    def _withheld(self, event: Withheld, now_us: int) -> None:
        if event.sender != self.groups.me:
            return
        self.pace.delivered(len(event.message.payload), now_us)
        self._notify(event.message.session, refusals.withheld(event), now_us)

    def _notify(self, number: int, message: ControlMessage | None, now_us: int) -> None:
        session = self.sessions.get(number)
        if session is not None and message is not None:
            self._send_control(session, message, now_us)

    def _close(self, session: ConnectedSession, last: bytes, reason: str) -> None:
        """Ends a session with its last bytes."""
        self._registry.close(session, last, reason)
        self._forget(session)

    def _forget(self, session: ConnectedSession) -> None:
        """Drops the queries and the backlog of a session that has ended."""
        self.queries.forget(session.number)
        self.slow.forget(session)

    def _end(self, session: ConnectedSession, reason: str, detail: str, remedy: str, now_us: int) -> None:
        """Ends a session because of an error; its earlier requests are still carried out."""
        message: ControlMessage = ErrorNotice(reason, detail[:1024], remedy)
        # Control frames only: a client that takes no events would not take the backlog either.
        last = session.control_frames() + session.conversation.encode(message)
        self._close(session, last, f"{reason}: {detail}" if detail else reason)
        if session.known and session.phase is not SessionPhase.ENDING:
            self._step_groups(Disconnect(session.number), now_us)
