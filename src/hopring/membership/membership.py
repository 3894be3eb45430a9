"""Membership: extended virtual synchrony among daemons. The door of the room.

Implements  thesis 6.1: the states OP, SEG, REP, GATHER, STATETRANS and EVS.
Below       datagrams for words; a network (stack) for each attempt, which becomes the view's.
Above       whoever wants messages and views, in one ordered stream.
Invariants  the installed view, its store and its promises change only by an installation, however many attempts
            fail; view ids only grow; nothing of another network than the present one is believed.
Deviations  see docs/protocols/membership.md.
"""

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from itertools import count

from hopring.errors import Drop, PeerError
from hopring.ids import NEVER, DaemonId, Process, SiteId, ViewId, mask_of
from hopring.links import hop, tcp
from hopring.links.events import Tick
from hopring.membership import gather as gathering
from hopring.membership.attempt import Attempt
from hopring.membership.events import (
    Arrived,
    Delivered,
    FromStream,
    Heard,
    Input,
    Installed,
    Network,
    NetworkStarted,
    Output,
    Say,
    Stamped,
    Submit,
    TransitionalSignal,
)
from hopring.membership.gather import Form, Gather, Rest
from hopring.membership.generation import generation_of
from hopring.membership.loose import NO_PLACE, loose_message, submit_loose
from hopring.membership.options import MembershipOptions
from hopring.membership.outbox import Outbox
from hopring.membership.suspicions import Suspicions
from hopring.membership.updates import Updates
from hopring.membership.view import View
from hopring.membership.words import Alive, Join, NewMemb, Refer, Told, check_word, decode_told, encode
from hopring.ordering.entry import MESSAGE_HEAD_BYTES, Entry, Message, decode_message, encode_message
from hopring.ordering.order import new_order
from hopring.routing.network import NetworkFailed
from hopring.routing.topology import Topology
from hopring.routing.trees import Pair, build_trees, islands, pair
from hopring.services import Service
from hopring.stack import Stack
from hopring.stack_events import Arrived as PacketArrived
from hopring.stack_events import FromStream as StreamHappened
from hopring.stack_events import (
    Identity,
    Multicast,
    MulticastLoose,
    Promise,
    Promised,
    Receive,
    ReceiveLoose,
    SendSite,
    SendTo,
    StackOptions,
    Tell,
    Visited,
    WishVisit,
    WriteTo,
)
from hopring.stack_events import Input as StackInput
from hopring.stack_events import Output as StackOutput
from hopring.stack_events import Told as WordTold


class Phase(Enum):
    """The states of the thesis; SEG, REP and GATHER are the search's own."""

    OP = "op"
    SEARCH = "search"
    STATETRANS = "statetrans"
    EVS = "evs"


@dataclass(frozen=True, slots=True)
class Who:
    """What a daemon knows of itself and of the cluster."""

    me: Process
    cluster: int
    topology: Topology


class Membership:
    """One daemon among the others."""

    def __init__(
        self, who: Who, counter: int, now_us: int, options: MembershipOptions, stack: StackOptions
    ) -> None:
        self.who = who
        self.options = options
        self.stack_options = stack
        self.site_of = {DaemonId(at): site for at, site in enumerate(who.topology.site_of)}
        self.site = self.site_of[who.me.daemon]
        self.counter = counter
        self.phase = Phase.SEARCH
        self.drops: Counter[Drop] = Counter()
        self.view = self._first_view()
        self.stack: Stack | None = None
        self.attempt: Attempt | None = None
        self.gather: Gather | None = None
        self.updates = Updates(options.update_delta_us, options.update_floor_us)
        self.outbox = Outbox(options.window_bytes, options.window_bundles, options.queue_bytes_max)
        self.shown_aru = 0  # The line that the token was last told of.
        self.highest = self.view.id  # Of all attempts accepted.
        self.deadline_us = NEVER
        self.repeat_at_us = NEVER
        self.probe_at_us = NEVER
        self.cause = "start"
        self.round_trip_us = options.round_trip_us
        self.suspicions = Suspicions(options.back_off_us, options.back_off_us_max)
        self.started_at_us = now_us  # The present network.
        self._progress = 0  # What it had carried when it was last looked at.
        self._pending: deque[StackInput] = deque()
        self._untold: deque[Told] = deque()
        # An earlier search's record must never outrank a later one's.
        self._record_numbers = count(1)
        self._out: list[Output] = []
        self._out.append(Installed(self.view.id, self.view.members, self.view.members, "start"))
        self._search(now_us)

    def _first_view(self) -> View:
        """Alone, and above every view of an earlier life."""
        self.counter += 1
        me = self.who.me
        view = View(ViewId(self.counter, me.daemon, me.incarnation), me, (me,), new_order([self.site], 0))
        view.break_up()
        return view

    @property
    def wake_at_us(self) -> int:
        """When the next tick is due."""
        if self._out:
            return 0
        parts = [self.deadline_us, self.repeat_at_us, self.probe_at_us]
        if self.gather is not None:
            parts.append(self.gather.wake_at_us)
        if self.stack is not None:
            parts.append(self.stack.wake_at_us)
            if self.phase is Phase.OP:
                parts.append(self.updates.wake_at_us)
        return min(parts)

    def step(self, event: Input, now_us: int) -> list[Output]:
        """Takes one event; what a peer should not have sent is dropped and counted."""
        try:
            self._take(event, now_us)
        except PeerError as error:
            self.drops[error.reason] += 1
        out, self._out = self._out, []
        return out

    def _take(self, event: Input, now_us: int) -> None:
        match event:
            case Submit():
                self._submit(event)
            case Arrived(packet):
                if self.stack is not None:
                    self._stack(PacketArrived(packet), now_us)
            case FromStream(neighbour, happening):
                if self.stack is not None:
                    self._stack(StreamHappened(neighbour, happening), now_us)
            case Heard(sender, word):
                self._heard(sender, word, now_us)
            case Tick():
                self._tick(now_us)
        self._feed(now_us)
        self._flush(now_us)

    # Messages.

    def _submit(self, event: Submit) -> None:
        room = self.stack_options.bundle_bytes_max - MESSAGE_HEAD_BYTES
        assert len(event.payload) <= room, "check the size where the message is made"
        self.outbox.put(Message(event.service, self.who.me.daemon, event.session, event.payload))

    @property
    def queue_open(self) -> bool:
        """Whether `Submit` may bring another message."""
        return self.outbox.open

    def _flush(self, now_us: int) -> None:
        """In a whole view: sends what the window lets through, delivers what has come to its turn."""
        while self._whole and self.outbox.ready:
            self._multicast(self.outbox.take(), now_us)
        if not self._whole or self.stack is None:
            return
        order = self.view.order
        self._deliver(order.deliver())
        self.outbox.stable(order.discard(), self.who.me.daemon)
        if self.outbox.loose:
            self.outbox.overtaken(order.aru)
        self.stack.local_aru = order.agreed_line
        self._wish(now_us)

    @property
    def _whole(self) -> bool:
        return self.phase is Phase.OP and self.stack is not None and not self.view.broken

    def _multicast(self, message: Message, now_us: int) -> None:
        assert self.stack is not None, "a whole view has its network"
        mask = mask_of(*self.stack.network.sites)
        if message.service is Service.UNRELIABLE:
            self._stack(submit_loose(message, mask, self.outbox, self.view.order), now_us)
            return
        self._stack(Multicast(mask, encode_message(message), message.session), now_us)

    def _deliver(self, entries: list[Entry]) -> None:
        for entry in entries:
            entry.delivered = True
            message = entry.message
            if message is not None:
                sender = self.view.processes[message.daemon]
                self._out.append(Delivered(self.view.id, message, sender, entry.position))

    # The present network.

    def _stack(self, event: StackInput, now_us: int) -> None:
        """Hands an event to the network; one that comes up while its outputs are carried out waits its turn.

        All that a step puts out is taken in before anything else happens, the network's failure last.
        """
        self._pending.append(event)
        if len(self._pending) > 1:
            return
        while self._pending and self.stack is not None:
            stack = self.stack
            failure = self._run(stack, self._pending[0], now_us)
            self._pending.popleft()
            if failure and self.stack is stack:
                self._lose(failure, now_us)
        self._pending.clear()

    def _run(self, stack: Stack, event: StackInput, now_us: int) -> str:
        """One step of the network; returns why it is over, if it is."""
        failure = ""
        for output in stack.step(event, now_us):
            if isinstance(output, NetworkFailed):
                failure = output.reason
                continue
            try:
                self._from_stack(stack, output, now_us)
            except PeerError as error:
                # What the network has acknowledged cannot be dropped: it would be a gap for ever.
                self.drops[error.reason] += 1
                failure = f"a member breaks the protocol: {error}"
        return failure

    def _from_stack(self, stack: Stack, output: StackOutput, now_us: int) -> None:
        match output:
            case SendTo() | SendSite() | WriteTo():
                self._out.append(Network(stack.own, output))
            case WordTold(daemon, word):
                self._told(daemon, word, now_us)
            case Receive() | Promised() if self.phase is not Phase.OP:
                self._early(output, now_us)
            case Receive():
                self._receive(output)
            case Promised(update):
                self.view.order.promise(update.source, update.seq, update.lts)
                self.view.order.stable(update.source, update.aru)
            case Visited() if self.phase is Phase.OP:
                self._visited(output, now_us)
            case ReceiveLoose():
                self._receive_loose(stack, output, now_us)

    def _receive(self, received: Receive) -> None:
        message = None if received.bundle is None else decode_message(received.bundle)
        if message is not None and message.daemon not in self.view.processes:
            raise PeerError(Drop.FOREIGN_SENDER, f"message of daemon {message.daemon}")
        early = self.view.order.hold(received.meta(), message)
        if message is not None and message.daemon == self.who.me.daemon:
            position = self.view.order.entries[received.source, received.seq].position
            self._out.append(Stamped(self.view.id, message, position))
        self._deliver(early)

    def _receive_loose(self, stack: Stack, received: ReceiveLoose, now_us: int) -> None:
        """Delivered in a whole view or not at all; a bad one is dropped, and so is as good as lost."""
        if stack is not self.stack:
            return
        if self.attempt is not None and self.attempt.bound:
            self._early(received, now_us)  # Who sent it knows that all are done.
            return
        try:
            message = loose_message(received)
        except PeerError as error:
            self.drops[error.reason] += 1
            return
        if not self._whole:
            return
        if message.daemon == self.who.me.daemon:
            self._out.append(Stamped(self.view.id, message, NO_PLACE))
        self._out.append(Delivered(self.view.id, message, self.view.processes[message.daemon], NO_PLACE))

    def _visited(self, visited: Visited, now_us: int) -> None:
        """The token was here: its word on the own site counts here at once, elsewhere by way of a promise."""
        order = self.view.order
        order.promise(self.site, visited.site_seq, visited.site_lts + 1)
        order.stable(self.site, visited.site_aru)
        stack = self.stack
        assert stack is not None, "a visit comes from a network"
        self.shown_aru = stack.local_aru
        if len(stack.network.sites) > 1 and stack.network.is_representative:
            update = self.updates.visited(self.site, visited, now_us)
            if update is not None:
                self._stack(Promise(update), now_us)

    def _wish(self, now_us: int) -> None:
        """A representative that owes the other sites a promise wants the token."""
        stack = self.stack
        if stack is None or len(stack.network.sites) == 1 or not stack.network.is_representative:
            return
        order = self.view.order
        wants = self.updates.wants(order.clock, order.agreed_line, now_us)
        # The ring takes two visits to agree on a line, so it should begin before a promise is due.
        if wants or order.agreed_line > self.shown_aru:
            self._stack(WishVisit(), now_us)

    # Words.

    def _heard(self, sender: DaemonId, word: Alive | Join | Refer | NewMemb, now_us: int) -> None:
        if not isinstance(word, NewMemb) and word.sender.daemon != sender:
            raise PeerError(Drop.FOREIGN_SENDER, f"daemon {sender} speaks as {word.sender.daemon}")
        check_word(word, self.site_of, self.counter + self.options.counter_ahead_max)
        match word:
            case NewMemb():
                self._newmemb(word, now_us)
            case Refer():
                pass
            case Alive() | Join():
                self._looks_around(word, now_us)

    def _looks_around(self, word: Alive | Join, now_us: int) -> None:
        self._accused(word, now_us)
        if word.sender in self.suspicions.left_out(now_us):
            return
        counter = word.counter if isinstance(word, Alive) else word.records[0].counter
        if self.attempt is not None:
            self._counter(counter)
            # Who knows of the attempt and still looks around has given it up.
            if word.sender in self.attempt.new.members and counter >= self.attempt.new.view.counter:
                self._lose(f"daemon {word.sender.daemon} gave the attempt up", now_us)
            return
        if self.phase is Phase.OP and word.sender in self.view.members:
            if counter >= self.view.id.counter and not (isinstance(word, Join) and word.active):
                self._lose(f"daemon {word.sender.daemon} lost the view", now_us)
            return
        self._counter(counter)
        if self.phase is Phase.OP and self.gather is None:
            self._asked(word, now_us)
        if self.gather is not None:
            self.gather.counter = max(self.gather.counter, self.counter)
            if isinstance(word, Alive):
                self._carry_out(self.gather.alive(word, now_us), now_us)
            else:
                self._carry_out(self.gather.join(word, now_us), now_us)
            self._counter(self.gather.counter if self.gather is not None else 0)

    def _accused(self, word: Alive | Join, now_us: int) -> None:
        """Some do not hear others of their site; a search that is under way leaves them out too."""
        if isinstance(word, Alive):
            self.suspicions.told(word.sender, word.suspects, now_us)
        else:
            left_out = [one for record in word.records for one in record.left_out if one != self.who.me]
            self.suspicions.leave_out(left_out, now_us)
        if self.gather is not None:
            self.gather.excluded = self.suspicions.left_out(now_us) - {self.who.me}

    def _asked(self, word: Alive | Join, now_us: int) -> None:
        """Somebody outside looks around while our view is whole."""
        if isinstance(word, Alive):
            return
        first = min(self.view.members).daemon
        if first == self.who.me.daemon:
            self._probe(now_us)
        else:
            self._out.append(Say((word.sender.daemon,), Refer(self.who.me, first)))

    def _counter(self, counter: int) -> None:
        self.counter = max(self.counter, counter)

    # Searching.

    def _search(self, now_us: int) -> None:
        self.phase = Phase.SEARCH
        self.deadline_us = self.repeat_at_us = self.probe_at_us = NEVER
        self.gather = self._new_gather(now_us)
        self._carry_out(self.gather.seek(now_us), now_us)

    def _probe(self, now_us: int) -> None:
        self.gather = self._new_gather(now_us)
        self._carry_out(self.gather.probe(self.view.members, now_us), now_us)

    def _new_gather(self, now_us: int) -> Gather:
        suspects = self.suspicions.suspects(now_us)
        self.suspicions.told(self.who.me, suspects, now_us)
        return Gather(
            me=self.who.me,
            site_of=self.site_of,
            weights=self.who.topology.weights,
            options=self.options,
            round_trip_us=self.round_trip_us,
            counter=self.counter,
            numbers=self._record_numbers,
            excluded=self.suspicions.left_out(now_us) - {self.who.me},
            suspects=suspects,
            cut=tuple(sorted({*self.suspicions.cut(now_us), *(() if self.view.broken else self.view.cut)})),
        )

    def _carry_out(self, outputs: list[gathering.Say | Form | Rest], now_us: int) -> None:
        for output in outputs:
            match output:
                case gathering.Say(to, word):
                    self._out.append(Say(to, word))
                case Rest():
                    self.gather = None
                    self.probe_at_us = now_us + self.options.probe_us
                case Form(members, cut):
                    self._counter(self.counter + 1)
                    view = ViewId(self.counter, self.who.me.daemon, self.who.me.incarnation)
                    self._newmemb(NewMemb(view, members, cut), now_us)

    # Attempts.

    def _newmemb(self, word: NewMemb, now_us: int) -> None:
        me = self.who.me
        if me not in word.members or word.view <= self.highest:
            return
        sites = {self.site_of[one.daemon] for one in word.members}
        if len(islands(build_trees(sites, self.who.topology.weights, _pairs(word.cut)))) > 1:
            raise PeerError(Drop.INCONSISTENT, "NEWMEMB of sites that do not reach each other")
        self._counter(word.view.counter)
        self.highest = word.view
        self._leave_view()
        self.phase = Phase.STATETRANS
        self.gather = None
        self.probe_at_us = NEVER
        self.attempt = Attempt(word, self.view, self.site_of, self.counter)
        self._spread(word)
        self._start_network(word, now_us)
        self._news(now_us)
        self.repeat_at_us = now_us + self.options.newmemb_us
        self._tell(self.attempt.start(), now_us)
        self._check_attempt(now_us)

    def _spread(self, word: NewMemb) -> None:
        """The representative tells all; the lowest of each site passes it on, in case the way was cut."""
        mine = [one.daemon for one in word.members if self.site_of[one.daemon] == self.site]
        if word.view.representative == self.who.me.daemon:
            to = [one.daemon for one in word.members]
        elif min(mine) == self.who.me.daemon:
            lowest = {self.site_of[one.daemon]: one.daemon for one in sorted(word.members, reverse=True)}
            to = [*mine, *lowest.values()]
        else:
            to = []
        others = tuple(sorted({one for one in to if one != self.who.me.daemon}))
        if others:
            self._out.append(Say(others, word))

    def _start_network(self, word: NewMemb, now_us: int) -> None:
        members = {one.daemon: one.incarnation for one in word.members}
        me = self.who.me
        own = Identity(me.daemon, me.incarnation, self.who.cluster, generation_of(word.view))
        cut = frozenset(_pairs(word.cut))
        self.stack = Stack(own, self.who.topology, members, cut, self.stack_options, now_us)
        self.started_at_us = now_us
        self._progress = self.stack.progress
        streams = tuple(one for one, link in sorted(self.stack.links.items()) if isinstance(link, tcp.Tcp))
        self._out.append(NetworkStarted(own, streams))

    def _tell(self, words: list[Told], now_us: int) -> None:
        self._untold.extend(words)
        self._feed(now_us)

    def _feed(self, now_us: int) -> None:
        """Tells as much as the network has room for; much may have to be sent again."""
        # While a step is under way, what was told in it has not reached the queues that tell of room.
        while self._untold and not self._pending and self.stack is not None and self.stack.word_room:
            self._stack(Tell(encode(self._untold.popleft())), now_us)

    def _told(self, daemon: DaemonId, payload: bytes, now_us: int) -> None:
        attempt = self.attempt
        if attempt is None:
            return
        self._news(now_us)
        self._tell(attempt.told(daemon, decode_told(payload)), now_us)
        if self.attempt is attempt:
            self._check_attempt(now_us)

    def _check_attempt(self, now_us: int) -> None:
        attempt = self.attempt
        if attempt is None:
            return
        if attempt.decision is not None:
            self.phase = Phase.EVS
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
        self.deadline_us = now_us + self.options.statetrans_us + 4 * self.round_trip_us

    def _install(self, now_us: int) -> None:
        attempt, stack = self.attempt, self.stack
        assert attempt is not None, "an attempt is complete"
        assert attempt.decision is not None, "and has decided"
        assert stack is not None, "over its network"
        old, decision = self.view, attempt.decision
        self._deliver(old.before_signal(decision))
        self._out.append(TransitionalSignal(old.id, decision.together))
        self._deliver(old.after_signal(decision))
        members = tuple(sorted(attempt.new.members))
        sites = {self.site_of[one.daemon] for one in members}
        order = new_order(sites, attempt.clock)
        self.view = View(attempt.new.view, self.who.me, members, order, _pairs(attempt.new.cut))
        stack.heard(attempt.clock)
        self.attempt = None
        self.phase = Phase.OP
        self.outbox.settle()
        self.shown_aru = 0
        self.updates = Updates(self.options.update_delta_us, self.options.update_floor_us)
        self.deadline_us = self.repeat_at_us = NEVER
        self.probe_at_us = NEVER
        if members[0] == self.who.me:
            self.probe_at_us = now_us + self.options.probe_us
        self._out.append(Installed(self.view.id, members, decision.together, self.cause))
        self.cause = "merge"

    # Losing.

    def _leave_view(self) -> None:
        """Freezes the view, and takes back what nobody else can have."""
        if self.stack is not None and not self.view.broken:
            queued = [event.bundle for event in self._pending if isinstance(event, Multicast | MulticastLoose)]
            unsent = [*[bundle for _, bundle in self.stack.take_back()], *queued]
            self.outbox.put_back([decode_message(bundle) for bundle in unsent])
        if self.stack is not None:
            self._measure(self.stack)
        self._untold.clear()
        self.view.break_up()
        self.stack = None

    def _measure(self, stack: Stack) -> None:
        """Takes the longest of the links' least round trips: the smoothed ones include pauses and queues."""
        least = [link.state.round_trip.least_us for link in stack.links.values() if isinstance(link, hop.Hop)]
        if any(least):
            self.round_trip_us = 3 * max(least) // 2

    def _lose(self, reason: str, now_us: int) -> None:
        self.cause = reason
        self._blame(now_us)
        self._leave_view()
        self.attempt = None
        self._search(now_us)

    def _blame(self, now_us: int) -> None:
        """Remembers which links fail as soon as they are used."""
        if self.stack is None or now_us - self.started_at_us > self.options.flap_us:
            return
        failed = [daemon for daemon, link in sorted(self.stack.links.items()) if link.state.failure]
        for neighbour in sorted({*failed, *self.stack.stuck}):
            self.suspicions.blame(pair(self.site, self.site_of[neighbour]), now_us)
        suspect = self.stack.ring.suspect
        members = self.view.members if self.attempt is None else self.attempt.new.members
        for process in members:
            if process.daemon == suspect and process != self.who.me:
                self.suspicions.accuse(process, now_us)

    def _tick(self, now_us: int) -> None:
        if now_us >= self.deadline_us:
            self._late(now_us)
        if now_us >= self.repeat_at_us:
            self._repeat(now_us)
        if now_us >= self.probe_at_us:
            self.probe_at_us = NEVER
            self._probe(now_us)
        if self.gather is not None and now_us >= self.gather.wake_at_us:
            self._carry_out(self.gather.tick(now_us), now_us)
        if self.stack is not None and now_us >= self.stack.wake_at_us:
            self._stack(Tick(), now_us)

    def _late(self, now_us: int) -> None:
        """An attempt without news is given up, unless its network is still busy with what was missing."""
        progress = 0 if self.stack is None else self.stack.progress
        if progress > self._progress and now_us - self.started_at_us < self.options.attempt_us_max:
            self._progress = progress
            self._news(now_us)
        else:
            self._lose("the attempt took too long", now_us)

    def _repeat(self, now_us: int) -> None:
        """NEWMEMB again for those that have not answered."""
        self.repeat_at_us = NEVER
        attempt = self.attempt
        if attempt is None or attempt.new.view.representative != self.who.me.daemon:
            return
        silent = tuple(one.daemon for one in attempt.silent)
        if silent:
            self._out.append(Say(silent, attempt.new))
            self.repeat_at_us = now_us + self.options.newmemb_us


def _pairs(cut: Iterable[tuple[int, int]]) -> tuple[Pair, ...]:
    return tuple([(SiteId(one), SiteId(other)) for one, other in cut])
