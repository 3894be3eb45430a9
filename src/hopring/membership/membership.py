"""Membership: extended virtual synchrony among daemons. It is the main class of the package.

Implements  thesis 6.1: the states OP, SEG, REP, GATHER, STATETRANS and EVS.
Below       datagrams for each `DaemonMessage`; a network (stack) for each attempt, which becomes the view's.
Above       a layer that wants messages and views in one ordered stream.
Invariants  the installed view, its store and its promises change only by an installation, however many attempts
            fail; view ids only grow; packets of any network but the current one are ignored.
Deviations  see docs/protocols/membership.md.

A view is *whole* from its installation until it breaks (phase OP). An *attempt* is the work from a NEWMEMB to
the installation of its view; it has a network of its own.
"""

from collections import Counter, deque

from hopring.engine import (
    Engine,
    EngineState,
    ForcePrimary,
    Resume,
    Snapshot,
    Stalled,
    Stop,
    SubmitMessage,
    Withdraw,
)
from hopring.errors import Drop, PeerError
from hopring.ids import NEVER, DaemonId, Process, ViewId
from hopring.links.events import Tick
from hopring.membership.current_network import CurrentNetwork, LocalDaemon, sender_of
from hopring.membership.discovery import Discovery
from hopring.membership.events import (
    DaemonMessageReceived,
    DriverEffect,
    DriverEvent,
    Input,
    MarkPrimary,
    NetworkOutput,
    Output,
    PrimaryMarked,
    SendDaemonMessage,
)
from hopring.membership.gather import FormView, GatherOutput, KeepView
from hopring.membership.message_flow import close_view, message_flow
from hopring.membership.messages import (
    CLOCK_AHEAD_MAX,
    DaemonAlive,
    DaemonDecline,
    DaemonJoin,
    DaemonLeave,
    DaemonMessage,
    DaemonRefer,
    NewMemb,
    RecoveryMessage,
    check_received,
    decode_recovery_message,
    encode_membership_message,
    has_heard,
    newmemb,
    pairs,
)
from hopring.membership.options import LEAVE_COPIES, REFUSALS_MAX, TIMEOUTS_MAX, MembershipOptions
from hopring.membership.primary import PrimaryVoter
from hopring.membership.reasons import LossReasons
from hopring.membership.snapshot import MembershipPhase, snapshot_of, state_of
from hopring.membership.view import ViewAttempt, first_view
from hopring.membership.view_counter import ViewCounter
from hopring.ordering.destinations import Destinations
from hopring.ordering.entry import MESSAGE_HEAD_BYTES_MAX
from hopring.reason import NO_FACTS, LossFacts, ReasonKind
from hopring.routing.network import NetworkFailed
from hopring.routing.trees import build_trees, islands
from hopring.stack import Stack
from hopring.stack_events import Input as StackInput
from hopring.stack_events import (
    MulticastControl,
    ObserveStream,
    PacketReceived,
    Promised,
    Receive,
    ReceiveControl,
    ReceiveLoose,
    SendSite,
    SendTo,
    StackOptions,
    StreamChanged,
    Visited,
    WriteTo,
)
from hopring.stack_events import Output as StackOutput


class Membership(Engine[DriverEvent, DriverEffect]):
    """The membership protocol at one daemon."""

    def __init__(
        self,
        local: LocalDaemon,
        counter: int,
        now_us: int,
        options: MembershipOptions,
        stack: StackOptions,
        destinations: Destinations | None = None,
        clock: int = 0,
    ) -> None:
        """A layer above that passes in `destinations` also has to `Resume` clients' messages in each view.

        A process that restarts the membership with another configuration passes in its counter and clock.
        """
        self.local = local
        self.options = options
        self.site_of = {DaemonId(at): site for at, site in enumerate(local.topology.site_of)}
        self.site = self.site_of[local.me.daemon]
        self._views = ViewCounter(counter + 1, options.counter_ahead_max)
        self.phase = MembershipPhase.SEARCH
        self.drops: Counter[Drop] = Counter()
        self.view = first_view(ViewId(counter + 1, *local.me), local.me, self.site, clock)
        everywhere = destinations or Destinations()
        self.network = CurrentNetwork(local, options, stack, self.site_of, everywhere)
        self.reasons = LossReasons(local.me.daemon, self.network)
        self.discovery = Discovery(local, self.site_of, self.network)
        holds = destinations is not None
        self.flow = message_flow(local.me.daemon, self.site_of, options, self.view.order, everywhere, holds)
        self.attempt: ViewAttempt | None = None
        self.voter = PrimaryVoter(local.electorate, local.marked, local.mark, local.has_disk)
        self.highest = self.view.id  # The highest id of an accepted attempt.
        self.deadline_us = NEVER  # When the attempt is given up, unless it makes progress.
        self.repeat_at_us = NEVER  # When NEWMEMB is sent again.
        self.timeouts = 0  # The number of consecutive attempts that timed out.
        self._refusals = 0  # Recovery messages refused since the last view of several members.
        self._unsent: deque[RecoveryMessage] = deque()
        self._out: list[Output] = [self.view.beginning(self.reasons.own)]
        self._search(now_us)

    @property
    def counter(self) -> int:
        """The highest view counter that this daemon knows or believes."""
        return self._views.value

    @property
    def stack(self) -> Stack | None:
        """The stack of the current network, if there is one."""
        return self.network.stack

    @property
    def wake_at_us(self) -> int:
        """When the next tick is due."""
        if self._out:
            return 0
        stack = self.network.stack
        wake_us = min(self.deadline_us, self.repeat_at_us, self.discovery.wake_at_us)
        if stack is not None:
            wake_us = min(wake_us, stack.wake_at_us)
            wake_us = min(wake_us, self.network.measuring.wake_at_us)
            if self.phase is MembershipPhase.OP:
                wake_us = min(wake_us, self.flow.updates.wake_at_us)
        return wake_us

    def step(self, event: Input, now_us: int) -> list[Output]:
        """Takes one event; a peer's mistake is dropped and counted."""
        try:
            self._handle(event, now_us)
        except PeerError as error:
            self.drops[error.reason] += 1
        out, self._out = self._out, []
        return out

    def _handle(self, event: Input, now_us: int) -> None:
        if self.phase is MembershipPhase.GONE:
            return
        if isinstance(event, (PacketReceived, StreamChanged)):
            self._step_stack(event, now_us)
        elif isinstance(event, Tick):
            self._tick(now_us)
        elif isinstance(event, SubmitMessage):
            self._submit(event)
        elif isinstance(event, Resume) and event.view == self.view.id:
            self.flow.window.held = False
        elif isinstance(event, Withdraw):
            self.flow.window.own_messages.clear()
        elif isinstance(event, DaemonMessageReceived):
            self._daemon_message_received(event.sender, event.message, now_us)
        elif isinstance(event, Stalled):
            self.network.stalled(event.for_us, now_us)
        elif isinstance(event, PrimaryMarked):
            self._mark_written(event.durable, now_us)
        elif isinstance(event, ForcePrimary):
            self.voter.force()
            self._lose(ReasonKind.OPERATOR, "an operator makes the view primary", now_us)
        elif isinstance(event, Stop):
            self._stop(now_us)
        self._send_recovery(now_us)
        self._flush(now_us)

    def _tick(self, now_us: int) -> None:
        discovery = self.discovery
        if now_us >= self.deadline_us:
            self._late(now_us)
        if now_us >= self.repeat_at_us:
            self._send_newmemb(now_us)
        if now_us >= discovery.report_at_us:
            whole = self.view if self.phase is MembershipPhase.OP else None
            self._carry_out(discovery.report(self.counter, whole, now_us), now_us)
        if now_us >= discovery.probe_at_us:
            discovery.probe_at_us = NEVER
            self._carry_out(discovery.probe(self.counter, self.view, now_us), now_us)
        gather = discovery.gather
        if gather is not None and now_us >= gather.wake_at_us:
            discovery.refresh(now_us)
            self._carry_out(gather.tick(now_us), now_us)
        if self.stack is not None and now_us >= self.network.measuring.wake_at_us:
            self._step_stack(self.network.sample(now_us), now_us)
        if self.stack is not None and now_us >= self.stack.wake_at_us:
            self._step_stack(Tick(), now_us)

    def state(self) -> EngineState:
        """The phase and the view, for readers that ask often."""
        return state_of(self)

    def snapshot(self) -> Snapshot:
        """The state of the membership at this moment."""
        return snapshot_of(self)

    # Messages of the layer above.

    def _submit(self, event: SubmitMessage) -> None:
        payload_bytes_max = self.network.stack_options.bundle_bytes_max - MESSAGE_HEAD_BYTES_MAX
        assert len(event.payload) <= payload_bytes_max, "check the size where the message is made"
        self.flow.submit(event)

    @property
    def queue_open(self) -> bool:
        """Whether another `SubmitMessage` is accepted."""
        return self.flow.window.open

    @property
    def drained(self) -> bool:
        """Whether every submitted message is stable, or this daemon is alone."""
        window = self.flow.window
        return not window.waiting and not window.out_bundles

    def _flush(self, now_us: int) -> None:
        """Sends messages that the window admits; in a whole view, delivers those that the order releases."""
        self._send(now_us)
        stack = self.stack
        if self.phase is not MembershipPhase.OP or stack is None:
            return
        self._out.extend(self.flow.deliver_and_discard(self.view, stack))
        # Stable messages have left the window, and the next event may be far off.
        self._send(now_us)
        wish = None if self.stack is not stack else self.flow.wish(self.view, stack, now_us)
        if wish is not None:
            self._step_stack(wish, now_us)

    def _send(self, now_us: int) -> None:
        stack, window = self.stack, self.flow.window
        # Sending may end the network.
        while window.ready and self.phase is MembershipPhase.OP and stack is not None and self.stack is stack:
            self._step_stack(self.flow.send(self.view, stack), now_us)

    # The current network.

    def _step_stack(self, event: StackInput, now_us: int) -> None:
        """Hands an event to the stack, if there is one, and handles its outputs.

        An event that arises while outputs are handled waits in a queue until they all are. A failure of the
        network is handled last.
        """
        network = self.network
        if network.stack is None:
            return
        network.pending.append(event)
        if len(network.pending) > 1:
            return  # The call that handles the first event of the queue handles this one too.
        failure: NetworkFailed | None = None
        while network.pending and failure is None:
            failure = self._handle_stack_event(network.stack, network.pending[0], now_us)
            network.pending.popleft()
        if failure is not None:
            self._blame(now_us)
            self._lose(failure.kind, failure.reason, now_us, failure.facts)
            if self._refusals >= REFUSALS_MAX and len(self.view.members) > 1:
                self._close_alone(now_us)

    def _handle_stack_event(self, stack: Stack, event: StackInput, now_us: int) -> NetworkFailed | None:
        """Steps the stack and handles its outputs; returns the failure of the network, if it has failed."""
        failure: NetworkFailed | None = None
        for output in stack.step(event, now_us):
            if isinstance(output, NetworkFailed):
                failure = output
                continue
            try:
                self._from_stack(stack, output, now_us)
            except PeerError as error:
                # The network has acknowledged it: dropping it would leave a gap for ever.
                self.drops[error.reason] += 1
                failure = NetworkFailed(f"a member breaks the protocol: {error}")
                self._refuse(output, now_us)
        if self.network.refused:
            self._out = [output for output in self._out if not isinstance(output, NetworkOutput)]
        return failure

    def _refuse(self, output: StackOutput, now_us: int) -> None:
        """The view has no place for this output: a member that breaks the protocol would do so again."""
        if isinstance(output, Receive) and output.own:
            # A false bundle of another member has its place. It goes out in the next view, and not in this one.
            assert output.bundle is not None, "own bundles have bodies"
            self.network.refused.append(bytes(output.bundle))
            return
        self._refusals += isinstance(output, ReceiveControl)
        daemon = sender_of(output, {} if self.stack is None else self.stack.network.representatives)
        for process in self._members:
            if process.daemon == daemon:
                self.discovery.leave_out(process, now_us)

    def _from_stack(self, stack: Stack, output: StackOutput, now_us: int) -> None:
        if isinstance(output, (SendTo, SendSite, WriteTo, ObserveStream)):
            self._out.append(NetworkOutput(stack.own, output))
        elif isinstance(output, Receive) and self.phase is MembershipPhase.OP:
            self._out.extend(self.flow.receive(self.view, output, now_us))
        elif isinstance(output, Visited):
            if self.phase is MembershipPhase.OP:
                promise = self.flow.visited(self.view, stack, output, now_us)
                if promise is not None:
                    self._step_stack(promise, now_us)
        elif isinstance(output, Promised) and self.phase is MembershipPhase.OP:
            self.flow.promised(self.view, output, now_us)
        elif isinstance(output, ReceiveControl):
            self._recovery_received(output.daemon, output.message, now_us)
        elif isinstance(output, ReceiveLoose):
            self._receive_loose(output, now_us)
        elif isinstance(output, (Receive, Promised)):
            self._install_by_data(output, now_us)

    def _receive_loose(self, received: ReceiveLoose, now_us: int) -> None:
        """Delivers an Unreliable bundle in a whole view, or drops it; a malformed one is dropped too."""
        if self.attempt is not None and self.attempt.bound:
            self._install_by_data(received, now_us)
        elif self.phase is MembershipPhase.OP:
            try:
                self._out.extend(self.flow.receive_loose(self.view, received))
            except PeerError as error:
                self.drops[error.reason] += 1

    @property
    def _members(self) -> tuple[Process, ...]:
        """The members of the attempt or, without one, of the view."""
        return self.view.members if self.attempt is None else self.attempt.new.members

    # Messages of other daemons, by datagram.

    def _daemon_message_received(self, sender: Process, message: DaemonMessage, now_us: int) -> None:
        check_received(sender, message, self.local.me, self.local.topology, self.site_of)
        gather = self.discovery.gather
        if isinstance(message, NewMemb):
            if self.local.me in message.members:
                self._views.check(message.view.counter, now_us)
            self._newmemb(message, now_us)
        elif isinstance(message, (DaemonAlive, DaemonJoin)):
            self._search_heard(message, now_us)
        elif isinstance(message, DaemonLeave):
            self._left(message.sender, now_us)
        elif isinstance(message, DaemonRefer):
            if gather is not None:
                gather.refer(message)
        elif isinstance(message, DaemonDecline) and gather is not None:
            self._carry_out(gather.decline(message, now_us), now_us)

    def _search_heard(self, message: DaemonAlive | DaemonJoin, now_us: int) -> None:
        """Another daemon searches, or reports which daemons it hears."""
        discovery, sender = self.discovery, message.sender
        discovery.note_suspects(message, now_us)
        if discovery.is_left_out(sender, now_us):
            return
        discovery.connectivity.heard(message, now_us)
        counter = message.counter if isinstance(message, DaemonAlive) else message.records[0].counter
        met = has_heard(message, self.local.me)
        if isinstance(message, DaemonAlive) and message.active:
            self._views.heard(counter, met, now_us)
            return
        if self.attempt is not None:
            self._views.heard(counter, met, now_us)
            # A member that knows of the attempt and still searches has given it up.
            if sender in self.attempt.new.members and counter >= self.attempt.new.view.counter:
                self._left_by(sender, "gave the attempt up", now_us)
            return
        probes = isinstance(message, DaemonJoin) and message.active
        whole = self.phase is MembershipPhase.OP
        if whole and sender in self.view.members and not probes:
            if counter >= self.view.id.counter:
                self._left_by(sender, "lost the view", now_us)
            return
        self._views.heard(counter, met, now_us)
        if whole and sender not in self.view.members:
            discovery.searched_by(sender, now_us)
        if whole and isinstance(message, DaemonJoin):
            self._carry_out(discovery.answer(message, self.counter, self.view, now_us), now_us)
        gather = discovery.gather
        if gather is not None:
            if isinstance(message, DaemonJoin):
                self._views.heard(max(record.counter for record in message.records), False, now_us)
            gather.counter = self.counter
            self._carry_out(gather.heard(message, now_us), now_us)

    def _left(self, sender: Process, now_us: int) -> None:
        """A daemon stops in an orderly way."""
        self.discovery.forget(sender)
        if sender in self._members and (self.attempt is not None or self.phase is MembershipPhase.OP):
            facts = LossFacts(sender.daemon)
            self._lose(ReasonKind.LEAVE, f"daemon {sender.daemon} leaves", now_us, facts)

    # Searches.

    def _search(self, now_us: int) -> None:
        self.phase = MembershipPhase.SEARCH
        self.deadline_us = self.repeat_at_us = NEVER
        self._carry_out(self.discovery.seek(self.counter, now_us), now_us)

    def _carry_out(self, outputs: list[GatherOutput], now_us: int) -> None:
        for output in outputs:
            if isinstance(output, SendDaemonMessage):
                self._out.append(output)
            elif isinstance(output, KeepView):
                self.discovery.end_search(self.view, now_us)
            elif isinstance(output, FormView):
                self._form_view(output, now_us)

    def _form_view(self, form: FormView, now_us: int) -> None:
        """Begins an attempt with this daemon as the representative."""
        self._views.value += 1
        view = ViewId(self.counter, self.local.me.daemon, self.local.me.incarnation)
        sites = {self.site_of[one.daemon] for one in form.members}
        weights = self.network.measuring.agree(form.reports, sites)
        self._newmemb(newmemb(view, form.members, form.cut, weights), now_us)

    # Attempts.

    def _newmemb(self, message: NewMemb, now_us: int) -> None:
        """Accepts an attempt with a higher id than all before."""
        me = self.local.me
        if me not in message.members or message.view <= self.highest:
            return
        sites = {self.site_of[one.daemon] for one in message.members}
        if len(islands(build_trees(sites, self.local.topology.weights, pairs(message.cut)))) > 1:
            raise PeerError(Drop.INCONSISTENT, "NEWMEMB of sites that do not reach each other")
        self._views.heard(message.view.counter, True, now_us)
        self.highest = message.view
        self._leave_view(now_us)
        self.phase = MembershipPhase.STATETRANS
        self.discovery.stop()
        ahead = CLOCK_AHEAD_MAX * (1 + self._refusals)
        self.attempt = ViewAttempt(message, self.view, self.site_of, self.counter, self.voter, ahead)
        self._send_newmemb(now_us)
        self._out.append(self.network.start(message, now_us))
        self._extend_deadline(now_us)
        self._queue_recovery(self.attempt.start(self.reasons.report(now_us)), now_us)
        self._check_attempt(now_us)

    def _send_newmemb(self, now_us: int) -> None:
        """Sends NEWMEMB, repeatedly, to members that have not answered."""
        assert self.attempt is not None, "there is an attempt"
        to = self.attempt.newmemb_targets
        if to:
            self._out.append(SendDaemonMessage(tuple(to), self.attempt.new))
        self.repeat_at_us = now_us + self.options.newmemb_us if to else NEVER

    def _queue_recovery(self, messages: list[RecoveryMessage], now_us: int) -> None:
        self._unsent.extend(messages)
        self._send_recovery(now_us)

    def _send_recovery(self, now_us: int) -> None:
        """Sends recovery messages while the network's queues are open; there may be many to resend."""
        while self._unsent and self.network.control_open:
            self._step_stack(MulticastControl(encode_membership_message(self._unsent.popleft())), now_us)

    def _recovery_received(self, daemon: DaemonId, payload: bytes, now_us: int) -> None:
        attempt = self.attempt
        if attempt is None:
            return
        self._extend_deadline(now_us)
        self._queue_recovery(attempt.receive(daemon, decode_recovery_message(payload)), now_us)
        if self.attempt is attempt:
            self._check_attempt(now_us)

    def _check_attempt(self, now_us: int) -> None:
        attempt = self.attempt
        if attempt is None:
            return
        if attempt.decision is not None:
            self._views.heard(attempt.counter, True, now_us)
            if self.stack is not None:
                self.stack.expect(attempt.clock)
            self.phase = MembershipPhase.EVS
            self.repeat_at_us = NEVER
            if (mark := attempt.begin_mark()) is not None:
                self._out.append(MarkPrimary(mark))
        if attempt.complete:
            self._install(now_us)

    def _mark_written(self, durable: bool, now_us: int) -> None:
        """The mark is on disk; if it cannot be, the members have to judge anew without this daemon's vote."""
        self.voter.mark_written(durable)
        if self.attempt is not None and not durable:
            self._lose(ReasonKind.DISK, f"daemon {self.local.me.daemon} cannot write its mark", now_us)
        elif self.attempt is not None:
            self._queue_recovery(self.attempt.advance(), now_us)
            self._check_attempt(now_us)

    def _install_by_data(self, output: Receive | Promised | ReceiveLoose, now_us: int) -> None:
        """Data of the new view arrives: its sender knows that all members are done, so this daemon installs."""
        attempt = self.attempt
        if attempt is None or not attempt.bound:
            raise PeerError(Drop.INCONSISTENT, "data of a view that is not agreed on")
        self._install(now_us)
        stack = self.stack
        assert stack is not None, "the installed view has its network"
        self._from_stack(stack, output, now_us)

    def _extend_deadline(self, now_us: int) -> None:
        """The attempt makes progress: it gets time for a few round trips, more after timeouts."""
        assert self.attempt is not None, "there is an attempt"
        round_trip_us = self.network.round_trip_to_us(self.attempt.new.members)
        self.deadline_us = now_us + ((self.options.statetrans_us + 4 * round_trip_us) << self.timeouts)

    def _late(self, now_us: int) -> None:
        """Gives up an attempt without progress, unless its network still carries missing bundles."""
        age_us = now_us - self.network.started_at_us
        if self.network.check_progress() and age_us < self.options.attempt_us_max:
            self._extend_deadline(now_us)
        else:
            self.timeouts = min(self.timeouts + 1, TIMEOUTS_MAX)
            self._blame(now_us, late=True)
            self._lose(ReasonKind.LATE, "the attempt took too long", now_us, LossFacts(absence=True))

    def _install(self, now_us: int) -> None:
        attempt, stack = self.attempt, self.stack
        assert attempt is not None, "an attempt is complete"
        assert attempt.decision is not None, "and has decided"
        assert attempt.judgement is not None, "also whether the view is primary"
        assert stack is not None, "over its network"
        decision = attempt.decision
        primary = bool(attempt.judgement.basis)
        self._out += close_view(self.view, decision, self.site, attempt.new.view, primary)
        self.voter.install(attempt.judgement, attempt.new.view)
        reason, own = self.reasons.end(attempt.states.values(), self.view.members, now_us)
        self.view = attempt.make_view(self.options.in_flight_max(len(attempt.new.members)))
        stack.heard(attempt.clock)
        self.attempt = None
        self.phase = MembershipPhase.OP
        self.timeouts = 0
        if len(self.view.members) > 1:
            self._refusals = 0
        self.network.stall_until_us = 0
        self.flow.begin(self.options, self.view.order)
        self.network.measuring.installed(now_us)
        self.deadline_us = self.repeat_at_us = NEVER
        self.discovery.end_search(self.view, now_us)
        self._out.append(self.view.installation(decision, reason, own))

    # Losses.

    def _leave_view(self, now_us: int) -> None:
        """Ends the network and freezes the view; messages that are not stamped return to the queue."""
        whole = not self.view.broken
        unsent = self.network.end(now_us)
        if whole:
            self.flow.window.put_back(unsent)
        self._unsent.clear()
        self.view.break_up()

    def _lose(self, kind: ReasonKind, detail: str, now_us: int, facts: LossFacts = NO_FACTS) -> None:
        self.reasons.note(kind, detail, now_us, facts)
        self._leave_view(now_us)
        self.attempt = None
        self._search(now_us)

    def _close_alone(self, now_us: int) -> None:
        """Ends the old view alone, as in a partition: its members, told different things, refuse each other."""
        self._form_view(FormView((self.local.me,), ()), now_us)

    def _left_by(self, sender: Process, how: str, now_us: int) -> None:
        self._lose(ReasonKind.LOST, f"daemon {sender.daemon} {how}", now_us, LossFacts(sender.daemon, 0, True))

    def _blame(self, now_us: int, late: bool = False) -> None:
        """Blames only failures seen here: other daemons know best why they gave up."""
        debtors = self.attempt.debtors(self.timeouts) if late and self.attempt is not None else []
        self.discovery.blame(self._members, now_us, late, debtors)

    def _stop(self, now_us: int) -> None:
        """Sends LEAVE, so that the others need not detect the silence, and ends."""
        met = [] if self.discovery.gather is None else self.discovery.gather.met()
        others = tuple(sorted({one.daemon for one in [*self._members, *met]} - {self.local.me.daemon}))
        if others:
            self._out.extend([SendDaemonMessage(others, DaemonLeave(self.local.me))] * LEAVE_COPIES)
        self._leave_view(now_us)
        self.attempt = None
        self.discovery.stop()
        self.discovery.report_at_us = NEVER
        self.deadline_us = self.repeat_at_us = NEVER
        self.phase = MembershipPhase.GONE
