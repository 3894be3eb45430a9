"""Membership: extended virtual synchrony among daemons. The door of the room.

Implements  thesis 6.1: the states OP, SEG, REP, GATHER, STATETRANS and EVS.
Below       datagrams for words; a network (stack) for each attempt, which becomes the view's.
Above       whoever wants messages and views, in one ordered stream.
Invariants  the installed view, its store and its promises change only by an installation, however many attempts
            fail; view ids only grow; nothing of another network than the present one is believed.
Deviations  see docs/protocols/membership.md.
"""

from collections import Counter, deque
from contextlib import suppress

from hopring.engine.events import Installed, Resume, Stalled, Stop, SubmitMessage, TransitionalSignal, Withdraw
from hopring.engine.interface import Engine
from hopring.engine.snapshot import Snapshot
from hopring.errors import Drop, PeerError
from hopring.ids import NEVER, NUMBER_MAX, DaemonId, Process, ViewId
from hopring.links.events import Tick
from hopring.membership.aru_updates import aru_updates
from hopring.membership.connectivity import lowest_of_sites
from hopring.membership.current_network import CurrentNetwork, LocalDaemon, pairs
from hopring.membership.discovery import Discovery
from hopring.membership.events import (
    ControlReceived,
    DriverEffect,
    DriverEvent,
    Input,
    NetworkOutput,
    Output,
    PacketReceived,
    SendControl,
    StreamChanged,
)
from hopring.membership.gather import FormView, GatherOutput, KeepView
from hopring.membership.message_flow import MessageFlow, SendWindow, closing, delivered
from hopring.membership.messages import (
    DaemonAlive,
    DaemonDecline,
    DaemonJoin,
    DaemonLeave,
    DaemonMessage,
    DaemonRefer,
    NewMemb,
    RecoveryMessage,
    check_daemon_message,
    check_weights,
    decode_recovery_message,
    encode_control,
    newmemb,
)
from hopring.membership.options import MembershipOptions
from hopring.membership.snapshot import MembershipPhase, snapshot_of
from hopring.membership.view import DaemonView
from hopring.membership.view_attempt import ViewAttempt
from hopring.ordering.destinations import Destinations
from hopring.ordering.entry import MESSAGE_HEAD_BYTES, Message, decode_message
from hopring.ordering.order import new_order
from hopring.routing.network import NetworkFailed
from hopring.routing.trees import build_trees, islands
from hopring.stack import Stack
from hopring.stack_events import Arrived as PacketArrived
from hopring.stack_events import FromStream as StreamHappened
from hopring.stack_events import Input as StackInput
from hopring.stack_events import (
    ObserveStream,
    Promised,
    Receive,
    ReceiveLoose,
    SendSite,
    SendTo,
    StackOptions,
    Tell,
    Visited,
    WriteTo,
)
from hopring.stack_events import Output as StackOutput
from hopring.stack_events import Told as WordTold

LEAVE_COPIES = 3
"""Datagrams may be lost."""

PATIENCE_MAX = 4
"""So often an attempt's time is doubled, if attempts keep ending for want of it."""


STALL_PATIENCES = 2
"""For so many times a link's patience after a stall, the loss of the view is put down to the stall."""


class Membership(Engine[DriverEvent, DriverEffect]):
    """One daemon among the others."""

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
        """With destinations of its own, the layer above also says in each view when clients may go on.

        A process that begins anew with another configuration goes on with its counter and its clock.
        """
        self.local = local
        self.options = options
        self.site_of = {DaemonId(at): site for at, site in enumerate(local.topology.site_of)}
        self.site = self.site_of[local.me.daemon]
        self.counter = counter
        self.phase = MembershipPhase.SEARCH
        self.drops: Counter[Drop] = Counter()
        self.view = self._first_view(clock)
        everywhere = destinations or Destinations()
        self.network = CurrentNetwork(local, options, stack, self.site_of, everywhere)
        self.discovery = Discovery(local, self.site_of, self.network)
        self.flow = MessageFlow(
            local.me.daemon,
            self.site,
            self.site_of,
            SendWindow(options.window_bytes, options.window_bundles, options.queue_bytes_max),
            aru_updates(options, self.site, (self.site,), self.view.order.agreed_line),
            everywhere,
            holds=destinations is not None,
        )
        self.attempt: ViewAttempt | None = None
        self.highest = self.view.id  # Of all attempts accepted.
        self.deadline_us = NEVER
        self.repeat_at_us = NEVER
        self.probe_at_us = NEVER
        self.hears_at_us = NEVER  # When to say next whom of the site this daemon hears,
        self.hears_until_us = 0  # and until when.
        self.cause = "start"
        self.patience = 0  # How many attempts in a row ended for want of time.
        self.stall_us = 0  # For how long this daemon did not run,
        self.stall_until_us = 0  # and until when the view may be lost because of that.
        self._untold: deque[RecoveryMessage] = deque()
        self._out: list[Output] = []
        self._out.append(Installed(self.view.id, self.view.members, self.view.members, "start"))
        self._search(now_us)

    def _first_view(self, clock: int) -> DaemonView:
        """Alone, and above every view of an earlier life."""
        self.counter += 1
        me = self.local.me
        view = DaemonView(
            ViewId(self.counter, me.daemon, me.incarnation), me, (me,), new_order([self.site], clock)
        )
        view.break_up()
        return view

    @property
    def stack(self) -> Stack | None:
        """The present network, if there is one."""
        return self.network.stack

    @property
    def wake_at_us(self) -> int:
        """When the next tick is due."""
        if self._out:
            return 0
        wake_us = min(self.deadline_us, self.repeat_at_us)
        wake_us = min(wake_us, self.probe_at_us)
        wake_us = min(wake_us, self.hears_at_us)
        gather, stack = self.discovery.gather, self.network.stack
        if gather is not None:
            wake_us = min(wake_us, gather.wake_at_us)
        if stack is not None:
            wake_us = min(wake_us, stack.wake_at_us)
            wake_us = min(wake_us, self.network.measuring.wake_at_us)
            if self.phase is MembershipPhase.OP:
                wake_us = min(wake_us, self.flow.updates.wake_at_us)
        return wake_us

    def step(self, event: Input, now_us: int) -> list[Output]:
        """Takes one event; what a peer should not have sent is dropped and counted."""
        try:
            self._take(event, now_us)
        except PeerError as error:
            self.drops[error.reason] += 1
        out, self._out = self._out, []
        return out

    def _take(self, event: Input, now_us: int) -> None:
        if self.phase is MembershipPhase.GONE:
            return
        if isinstance(event, PacketReceived):
            if self.stack is not None:
                self._stack(PacketArrived(event.packet), now_us)
        elif isinstance(event, Tick):
            self._tick(now_us)
        elif isinstance(event, SubmitMessage):
            self._submit(event)
        elif isinstance(event, Resume) and event.view == self.view.id:
            self.flow.window.held = False
        elif isinstance(event, Withdraw):
            self.flow.window.control.clear()
        elif isinstance(event, ControlReceived):
            self._heard(event.sender, event.message, now_us)
        elif isinstance(event, StreamChanged):
            if self.stack is not None and self.stack.own.generation == event.generation:
                self._stack(StreamHappened(event.neighbour, event.event), now_us)
        elif isinstance(event, Stalled):
            self._stalled(event.for_us, now_us)
        elif isinstance(event, Stop):
            self._go(now_us)
        self._feed(now_us)
        self._flush(now_us)

    # Messages.

    def _submit(self, event: SubmitMessage) -> None:
        room = self.network.stack_options.bundle_bytes_max - MESSAGE_HEAD_BYTES
        assert len(event.payload) <= room, "check the size where the message is made"
        message = Message(event.service, self.local.me.daemon, event.session, event.payload)
        self.flow.window.put(message)

    @property
    def queue_open(self) -> bool:
        """Whether `Submit` may bring another message."""
        return self.flow.window.open

    def _flush(self, now_us: int) -> None:
        """In a whole view: sends what the window lets through, delivers what has come to its turn."""
        self._send(now_us)
        stack = self.stack
        if self.phase is not MembershipPhase.OP or stack is None:
            return
        self._out.extend(self.flow.turn(self.view, stack))
        # What became stable has opened the window, and the next event may be long in coming.
        self._send(now_us)
        wish = None if self.stack is not stack else self.flow.wish(self.view, stack, now_us)
        if wish is not None:
            self._stack(wish, now_us)

    def _send(self, now_us: int) -> None:
        stack = self.stack
        # Sending may show that the network is over.
        while (
            self.flow.window.ready
            and self.phase is MembershipPhase.OP
            and stack is not None
            and self.stack is stack
        ):
            self._stack(self.flow.send(self.view, stack), now_us)

    # The present network.

    def _stack(self, event: StackInput, now_us: int) -> None:
        """Hands an event to the network; one that comes up while its outputs are carried out waits its turn.

        All that a step puts out is taken in before anything else happens, the network's failure last.
        """
        more = self.network.put(event)
        while more:
            failure = self._run(now_us)
            more = self.network.ran()
            if failure is not None:
                self._blame(now_us)
                if failure.absence:
                    self._miss(failure.reason, now_us)
                else:
                    self._lose(failure.reason, now_us)
                return

    def _run(self, now_us: int) -> NetworkFailed | None:
        """One step of the network; returns why it is over, if it is."""
        stack = self.stack
        failure: NetworkFailed | None = None
        assert stack is not None, "events go to a network"
        for output in self.network.run(now_us):
            if isinstance(output, NetworkFailed):
                failure = output
                continue
            try:
                self._from_stack(stack, output, now_us)
            except PeerError as error:
                # What the network has acknowledged cannot be dropped: it would be a gap for ever.
                self.drops[error.reason] += 1
                failure = NetworkFailed(f"a member breaks the protocol: {error}")
                self._suspect_sender(output, now_us)
        return failure

    def _from_stack(self, stack: Stack, output: StackOutput, now_us: int) -> None:
        if isinstance(output, (SendTo, SendSite, WriteTo, ObserveStream)):
            self._out.append(NetworkOutput(stack.own, output))
        elif isinstance(output, Receive) and self.phase is MembershipPhase.OP:
            self._out.extend(self.flow.receive(self.view, output, now_us))
        elif isinstance(output, Visited):
            if self.phase is MembershipPhase.OP:
                promise = self.flow.visited(self.view, stack, output, now_us)
                if promise is not None:
                    self._stack(promise, now_us)
        elif isinstance(output, Promised) and self.phase is MembershipPhase.OP:
            self.flow.promised(self.view, output, now_us)
        elif isinstance(output, WordTold):
            self._told(output.daemon, output.word, now_us)
        elif isinstance(output, ReceiveLoose):
            self._receive_loose(output, now_us)
        elif isinstance(output, (Receive, Promised)):
            self._early(output, now_us)

    def _receive_loose(self, received: ReceiveLoose, now_us: int) -> None:
        """Delivered in a whole view or not at all; a bad one is dropped, and so is as good as lost."""
        if self.attempt is not None and self.attempt.bound:
            self._early(received, now_us)
        elif self.phase is MembershipPhase.OP:
            try:
                self._out.extend(self.flow.receive_loose(self.view, received))
            except PeerError as error:
                self.drops[error.reason] += 1

    def _suspect_sender(self, output: StackOutput, now_us: int) -> None:
        """Who says what cannot be would say it again in the next view."""
        daemon = sender_of(output)
        for process in self.view.members if self.attempt is None else self.attempt.new.members:
            if process.daemon == daemon:
                self.discovery.leave_out(process, now_us)

    # Words.

    def _heard(self, sender: Process, word: DaemonMessage, now_us: int) -> None:
        if sender.daemon == self.local.me.daemon:
            raise PeerError(Drop.FOREIGN_SENDER, "somebody speaks as this daemon")
        if not isinstance(word, NewMemb) and word.sender != sender:
            raise PeerError(
                Drop.FOREIGN_SENDER, f"daemon {sender.daemon} speaks as daemon {word.sender.daemon}"
            )
        check_daemon_message(word, self.site_of, self.counter + self.options.counter_ahead_max)
        if isinstance(word, NewMemb | DaemonJoin):
            check_weights(word, self.local.topology)
        if isinstance(word, NewMemb):
            self._newmemb(word, now_us)
        elif isinstance(word, (DaemonAlive, DaemonJoin)):
            self._looks_around(word, now_us)
        elif isinstance(word, DaemonLeave):
            self._left(word.sender, now_us)
        elif isinstance(word, DaemonRefer):
            if self.discovery.gather is not None:
                self.discovery.gather.refer(word)
        elif isinstance(word, DaemonDecline) and self.discovery.gather is not None:
            self._carry_out(self.discovery.gather.decline(word, now_us), now_us)

    def _looks_around(self, word: DaemonAlive | DaemonJoin, now_us: int) -> None:
        self.discovery.accused(word, now_us)
        if self.discovery.is_left_out(word.sender, now_us):
            return
        self.discovery.connectivity.take(word, now_us)
        counter = word.counter if isinstance(word, DaemonAlive) else word.records[0].counter
        if isinstance(word, DaemonAlive) and word.active:
            self._counter(counter)
            return
        if self.attempt is not None:
            self._counter(counter)
            # Who knows of the attempt and still looks around has given it up.
            if word.sender in self.attempt.new.members and counter >= self.attempt.new.view.counter:
                self._miss(f"daemon {word.sender.daemon} gave the attempt up", now_us)
            return
        companion = isinstance(word, DaemonJoin) and word.active
        if self.phase is MembershipPhase.OP and word.sender in self.view.members and not companion:
            if counter >= self.view.id.counter:
                self._miss(f"daemon {word.sender.daemon} lost the view", now_us)
            return
        self._counter(counter)
        if self.phase is MembershipPhase.OP and word.sender not in self.view.members:
            self._is_searched(word.sender, now_us)
        if self.phase is MembershipPhase.OP and isinstance(word, DaemonJoin):
            self._asked(word, now_us)
        gather = self.discovery.gather
        if gather is not None:
            gather.counter = max(gather.counter, self.counter)
            said = gather.alive(word, now_us) if isinstance(word, DaemonAlive) else gather.join(word, now_us)
            self._counter(gather.counter)
            self._carry_out(said, now_us)

    def _left(self, sender: Process, now_us: int) -> None:
        self.discovery.forget(sender)
        members = self.attempt.new.members if self.attempt is not None else self.view.members
        if sender in members and (self.attempt is not None or self.phase is MembershipPhase.OP):
            self._lose(f"daemon {sender.daemon} leaves", now_us)

    def _is_searched(self, sender: Process, now_us: int) -> None:
        """A daemon of the site outside of our whole view looks around: does it hear us all, and we it?"""
        if self.site_of[sender.daemon] == self.site:
            self.hears_until_us = now_us + self.options.represented_us
            self.hears_at_us = min(self.hears_at_us, now_us)

    def _say_whom_i_hear(self, now_us: int) -> None:
        """Again and again as long as somebody of the site searches, for a word may be lost."""
        if self.phase is not MembershipPhase.OP or now_us >= self.hears_until_us:
            self.hears_at_us = NEVER
            return
        self.hears_at_us = now_us + self.options.alive_us
        outside = [one for one in self.discovery.connectivity.others if one not in self.view.processes]
        to = tuple(sorted({*outside, self._first} - {self.local.me.daemon}))
        hears = self.discovery.connectivity.hears(now_us)
        self._out.append(SendControl(to, DaemonAlive(self.local.me, self.counter, hears=hears, active=True)))

    @property
    def _first(self) -> DaemonId:
        """The lowest of our site in the view."""
        return min(one for one in self.view.processes if self.site_of[one] == self.site)

    def _asked(self, word: DaemonJoin, now_us: int) -> None:
        """While our view is whole, somebody outside looks around, or a companion has heard of somebody."""
        first = self._first
        if first != self.local.me.daemon:
            if self.site_of[word.sender.daemon] == self.site:
                return  # It has to be heard by all of the site.
            self._out.append(SendControl((word.sender.daemon,), DaemonRefer(self.local.me, first)))
        elif self.discovery.gather is None and self.discovery.concerns(word, self.view, now_us):
            self._carry_out(self.discovery.probe(self.counter, self.view, now_us, wide=True), now_us)

    def _counter(self, counter: int) -> None:
        self.counter = max(self.counter, counter)

    # Searching.

    def _search(self, now_us: int) -> None:
        self.phase = MembershipPhase.SEARCH
        self.deadline_us = self.repeat_at_us = self.probe_at_us = NEVER
        self._carry_out(self.discovery.seek(self.counter, now_us), now_us)

    def _carry_out(self, outputs: list[GatherOutput], now_us: int) -> None:
        for output in outputs:
            if isinstance(output, SendControl):
                self._out.append(output)
            elif isinstance(output, KeepView):
                self._rest(now_us)
            elif isinstance(output, FormView):
                self._counter(self.counter + 1)
                view = ViewId(self.counter, self.local.me.daemon, self.local.me.incarnation)
                sites = {self.site_of[one.daemon] for one in output.members}
                weights = self.network.measuring.agree(output.reports, sites)
                self._newmemb(newmemb(view, output.members, output.cut, weights), now_us)

    def _rest(self, now_us: int) -> None:
        """The view is whole and nobody new is there; its lowest daemon looks again after a while."""
        self.discovery.rest(now_us)
        first = self.view.members[0] == self.local.me
        self.probe_at_us = now_us + self.options.probe_us if first else NEVER

    # Attempts.

    def _newmemb(self, word: NewMemb, now_us: int) -> None:
        me = self.local.me
        if me not in word.members or word.view <= self.highest:
            return
        sites = {self.site_of[one.daemon] for one in word.members}
        if len(islands(build_trees(sites, self.local.topology.weights, pairs(word.cut)))) > 1:
            raise PeerError(Drop.INCONSISTENT, "NEWMEMB of sites that do not reach each other")
        self._counter(word.view.counter)
        self.highest = word.view
        self._leave_view(now_us)
        self.phase = MembershipPhase.STATETRANS
        self.discovery.stop()
        self.probe_at_us = NEVER
        counter_max = min(self.counter + self.options.counter_ahead_max, NUMBER_MAX)
        self.attempt = ViewAttempt(word, self.view, self.site_of, self.counter, counter_max)
        self._spread(now_us)
        self._out.append(self.network.start(word, now_us))
        self._news(now_us)
        self._tell(self.attempt.start(), now_us)
        self._check_attempt(now_us)

    def _spread(self, now_us: int) -> None:
        """NEWMEMB, and again, for those who have not answered.

        The representative tells all; the lowest of each site passes it on, in case the way was cut.
        """
        attempt = self.attempt
        assert attempt is not None, "somebody is to be told of an attempt"
        me, members = self.local.me.daemon, [one.daemon for one in attempt.new.members]
        lowest = lowest_of_sites(members, self.site_of)
        silent = [one.daemon for one in attempt.silent if one.daemon != me]
        if attempt.new.view.representative == me:
            to = silent
        elif me in lowest:
            to = [one for one in silent if self.site_of[one] == self.site or one in lowest]
        else:
            to = []
        if to:
            self._out.append(SendControl(tuple(to), attempt.new))
        self.repeat_at_us = now_us + self.options.newmemb_us if to else NEVER

    def _tell(self, words: list[RecoveryMessage], now_us: int) -> None:
        self._untold.extend(words)
        self._feed(now_us)

    def _feed(self, now_us: int) -> None:
        """Tells as much as the network has room for; much may have to be sent again."""
        while self._untold and self.network.word_room:
            self._stack(Tell(encode_control(self._untold.popleft())), now_us)

    def _told(self, daemon: DaemonId, payload: bytes, now_us: int) -> None:
        attempt = self.attempt
        if attempt is None:
            return
        self._news(now_us)
        self._tell(attempt.told(daemon, decode_recovery_message(payload)), now_us)
        if self.attempt is attempt:
            self._check_attempt(now_us)

    def _check_attempt(self, now_us: int) -> None:
        attempt = self.attempt
        if attempt is None:
            return
        if attempt.decision is not None:
            self._counter(attempt.counter)
            self.phase = MembershipPhase.EVS
            self.repeat_at_us = NEVER
        if attempt.complete:
            self._install(now_us)

    def _early(self, output: Receive | Promised | ReceiveLoose, now_us: int) -> None:
        """Data of the new view: who sent it knows that all are done, so we may install too."""
        attempt = self.attempt
        if attempt is None or not attempt.bound:
            raise PeerError(Drop.INCONSISTENT, "data of a view that is not agreed on")
        self._install(now_us)
        stack = self.stack
        assert stack is not None, "the installed view has its network"
        self._from_stack(stack, output, now_us)

    def _news(self, now_us: int) -> None:
        """The attempt gets on: there is time for a few round trips, for more if that was not enough before."""
        assert self.attempt is not None, "news are of an attempt"
        round_trip_us = self.network.round_trip_to_us(self.attempt.new.members)
        self.deadline_us = now_us + ((self.options.statetrans_us + 4 * round_trip_us) << self.patience)

    def _install(self, now_us: int) -> None:
        attempt, stack = self.attempt, self.stack
        assert attempt is not None, "an attempt is complete"
        assert attempt.decision is not None, "and has decided"
        assert stack is not None, "over its network"
        old, decision = self.view, attempt.decision
        self._out.extend(closing(old, decision, self.site_of[self.local.me.daemon], attempt.new.view))
        self._out.append(TransitionalSignal(old.id, decision.together, attempt.new.view))
        self._out.extend(delivered(old, old.after_signal(decision)))
        members = tuple(sorted(attempt.new.members))
        order = new_order({self.site_of[one.daemon] for one in members}, attempt.clock)
        self.view = DaemonView(attempt.new.view, self.local.me, members, order, pairs(attempt.new.cut))
        stack.heard(attempt.clock)
        self.attempt = None
        self.phase = MembershipPhase.OP
        self.patience = 0
        self.stall_until_us = 0
        self.flow.begin(self.options, order)
        self.network.measuring.installed(now_us)
        self.deadline_us = self.repeat_at_us = NEVER
        self._rest(now_us)
        self._out.append(Installed(self.view.id, members, decision.together, self.cause, decision.uneven))
        self.cause = "merge"

    # Losing.

    def _leave_view(self, now_us: int) -> None:
        """Freezes the view, and takes back what nobody else can have."""
        whole = not self.view.broken
        unsent = self.network.end(now_us)
        if whole:
            self.flow.window.put_back(unsent)
        self._untold.clear()
        self.view.break_up()

    def _lose(self, reason: str, now_us: int) -> None:
        self.cause = reason
        self._leave_view(now_us)
        self.attempt = None
        self._search(now_us)

    def _miss(self, reason: str, now_us: int) -> None:
        """Somebody was not heard, or has given up: if this daemon itself did not run, that is the cause."""
        stalled = now_us <= self.stall_until_us
        self._lose(f"this daemon did not run for {self.stall_us / 1e6:.1f} s" if stalled else reason, now_us)

    def _stalled(self, for_us: int, now_us: int) -> None:
        """Only a stall of about a neighbour's patience can have cost the view.

        Half of it, because the neighbour counts from what it heard last, and the driver from when it was due.
        """
        if self.stack is None:
            return
        self.stack.stalled(now_us)
        patiences_us = self.stack.patiences_us
        if not patiences_us or 2 * for_us < min(patiences_us):
            return
        again = now_us <= self.stall_until_us
        self.stall_us = max(for_us, self.stall_us) if again else for_us
        self.stall_until_us = now_us + STALL_PATIENCES * max(patiences_us)

    def _blame(self, now_us: int, late: bool = False) -> None:
        """Only what failed here is to blame: others know best why they gave something up."""
        members = self.view.members if self.attempt is None else self.attempt.new.members
        self.discovery.blame(members, now_us, late)

    def _go(self, now_us: int) -> None:
        """The others need not wait until the silence is noticed; if they all miss the word, they do."""
        members = self.attempt.new.members if self.attempt is not None else self.view.members
        met = [] if self.discovery.gather is None else self.discovery.gather.met()
        others = tuple(sorted({one.daemon for one in [*members, *met]} - {self.local.me.daemon}))
        if others:
            self._out.extend([SendControl(others, DaemonLeave(self.local.me))] * LEAVE_COPIES)
        self._leave_view(now_us)
        self.attempt = None
        self.discovery.stop()
        self.deadline_us = self.repeat_at_us = self.probe_at_us = self.hears_at_us = NEVER
        self.phase = MembershipPhase.GONE

    @property
    def drained(self) -> bool:
        """Whether everything that was submitted is at every daemon, or nobody else is there."""
        outbox = self.flow.window
        return not outbox.waiting and not outbox.out_bundles

    def snapshot(self) -> Snapshot:
        """The state of the membership at this moment."""
        return snapshot_of(self)

    def _tick(self, now_us: int) -> None:
        if now_us >= self.deadline_us:
            self._late(now_us)
        if now_us >= self.repeat_at_us:
            self._spread(now_us)
        if now_us >= self.hears_at_us:
            self._say_whom_i_hear(now_us)
        if now_us >= self.probe_at_us:
            self.probe_at_us = NEVER
            self._carry_out(self.discovery.probe(self.counter, self.view, now_us), now_us)
        gather = self.discovery.gather
        if gather is not None and now_us >= gather.wake_at_us:
            self.discovery.refresh(now_us)
            self._carry_out(gather.tick(now_us), now_us)
        if self.stack is not None and now_us >= self.network.measuring.wake_at_us:
            self._stack(self.network.sample(now_us), now_us)
        if self.stack is not None and now_us >= self.stack.wake_at_us:
            self._stack(Tick(), now_us)

    def _late(self, now_us: int) -> None:
        """An attempt without news is given up, unless its network is still busy with what was missing."""
        age_us = now_us - self.network.started_at_us
        if self.network.moves() and age_us < self.options.attempt_us_max:
            self._news(now_us)
        else:
            self.patience = min(self.patience + 1, PATIENCE_MAX)
            self._blame(now_us, late=True)
            self._miss("the attempt took too long", now_us)


def sender_of(output: StackOutput) -> DaemonId | None:
    """Whose word or message this is, as far as it can be told."""
    if isinstance(output, WordTold):
        return output.daemon
    if isinstance(output, Receive) and output.bundle is not None:
        with suppress(PeerError):
            return decode_message(output.bundle).daemon
    return None
