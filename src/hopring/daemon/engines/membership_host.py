"""A member: one daemon's membership on real sockets. The core of `hopd`.

Below       the wires: datagrams for words and frames, connections for TCP links.
Above       one callback, `up`: at the end of each turn it gets what came out for the layer above, in its order;
            that layer sends with `submit`.
Invariants  nothing of a step is sent before `note` was told what the step put out: so a trace has every send
            that others can have seen, however the process ends.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Final

from hopring.config import Config, cluster_hash
from hopring.config.model import LinkProtocol
from hopring.daemon.loop.event_loop import Loop
from hopring.daemon.loop.layer_driver import LayerDriver
from hopring.daemon.net.peer_sockets import PeerSockets
from hopring.daemon.net.tcp import ConnectionEvent
from hopring.engine.events import (
    Delivered,
    Installed,
    Resume,
    Rift,
    Stalled,
    Stamped,
    Stop,
    SubmitMessage,
    TransitionalSignal,
    Withdraw,
)
from hopring.errors import PeerError
from hopring.ids import DaemonId, Generation, Process
from hopring.links.ring_options import RingOptions
from hopring.membership.current_network import LocalDaemon
from hopring.membership.events import (
    ControlReceived,
    Input,
    NetworkOutput,
    NetworkStarted,
    Output,
    PacketReceived,
    SendControl,
    StreamChanged,
)
from hopring.membership.membership import LEAVE_COPIES, Membership
from hopring.membership.messages import DaemonLeave, decode_daemon_message, encode_control
from hopring.membership.options import MembershipOptions
from hopring.membership.snapshot import MembershipPhase
from hopring.naming import named
from hopring.ordering.destinations import Destinations
from hopring.ordering.entry import MESSAGE_HEAD_BYTES
from hopring.routing.topology import topology_of
from hopring.services import Service
from hopring.stack_events import Sending, StackOptions
from hopring.wire.data import SEGMENT_BYTES_DEFAULT, packet_bytes_of
from hopring.wire.header import Family
from hopring.wire.train import Packet
from hopring.wire.word import Word

Upward = Stamped | Delivered | Rift | TransitionalSignal | Installed
"""What membership puts out for the layer above."""


Up = Callable[[Sequence[Upward]], None]


def _nothing(_said: object) -> None:
    """For those who do not want to know."""


class MembershipHost:
    """One life of one daemon of a configuration."""

    def __init__(
        self,
        loop: Loop,
        config: Config,
        me: Process,
        up: Up,
        *,
        counter: int = 0,  # No view of an earlier life had a higher one.
        note: Up = _nothing,
        reached: Callable[[int], None] = _nothing,  # Told of the view counter when an attempt begins.
        options: MembershipOptions | None = None,  # Those of the configuration, unless a test says else.
        destinations: Destinations | None = None,  # Of a layer above that prunes; it also has to say `Resume`.
    ) -> None:
        self._loop = loop
        self._up = up
        self._note = note
        self._reached = reached
        self._options = options
        self._upward: list[Upward] = []  # For the end of this turn.
        self.paused = False
        """Whether the layer above has to wait with messages, because the configuration is about to change."""
        self._build(config, me, counter, 0, destinations)

    def _build(
        self, config: Config, me: Process, counter: int, clock: int, destinations: Destinations | None
    ) -> None:
        stack = stack_options(config, me.daemon)
        self.payload_bytes_max = stack.bundle_bytes_max - MESSAGE_HEAD_BYTES
        self.sockets = PeerSockets(self._loop, config, me, stack, self._arrived, self._happened)
        who = LocalDaemon(me, cluster_hash(config), topology_of(config))
        now_us = self._loop.now_us()
        options = self._options or membership_options(config)
        self.membership = Membership(who, counter, now_us, options, stack, destinations, clock)
        self._port: LayerDriver[Input, Output] = LayerDriver(self._loop, self.membership, self._carry_out)
        self._closed = False
        self._names = {DaemonId(at): daemon.name for at, daemon in enumerate(config.daemons)}
        self._sites = [site.name for site in config.sites]
        self._loop.on_stall.append(self._stalled)

    # Above.

    @property
    def cause(self) -> str:
        """Why the view is not whole, or why the next one will come about; daemons by name."""
        return named(self.membership.cause, self._names, self._sites)

    @property
    def queue_open(self) -> bool:
        """Whether `submit` may bring another message."""
        return not self.paused and self.membership.queue_open

    def submit(self, service: Service, payload: bytes, session: int = 0) -> None:
        """Sends a message to all daemons of the view; look at `queue_open` and `payload_bytes_max` first."""
        self._port.give(SubmitMessage(service, payload, session))

    def give(self, event: SubmitMessage | Resume | Withdraw) -> None:
        """Hands down what groups put out; look at `queue_open` before a Submit of a session."""
        self._port.give(event)

    @property
    def drained(self) -> bool:
        """Whether everything that was submitted is at every daemon of the view."""
        return self.membership.drained

    def leave(self) -> None:
        """Says to the others that it goes, and takes no further part; best once it is `drained`."""
        self._port.give(Stop())

    # Another configuration.

    def part(self, others: Collection[DaemonId], cause: str) -> None:
        """Leaves all others, who are told, and forms a view alone; it hears nobody until `renew`."""
        membership, me = self.membership, self.membership.local.me
        attempt = membership.attempt
        met = sorted({*membership.view.members, *(() if attempt is None else attempt.new.members)} - {me})
        for _ in range(LEAVE_COPIES):
            self.sockets.datagrams.say([one.daemon for one in met], encode_control(DaemonLeave(me)))
        self.sockets.part(others)
        for one in met:
            # To the membership it is all the same who of them goes.
            self._port.give(ControlReceived(one, DaemonLeave(one)))
        membership.cause = cause

    @property
    def alone(self) -> bool:
        """Whether it is in a whole view by itself, and all that was submitted and put out is dealt with."""
        membership = self.membership
        outbox = membership.flow.window
        whole = membership.phase is MembershipPhase.OP and membership.view.members == (membership.local.me,)
        return whole and membership.drained and not outbox.control and not outbox.held and not self._upward

    def renew(self, config: Config, me: Process, destinations: Destinations | None) -> TransitionalSignal:
        """Begins anew with another configuration, while it is `alone`; Unusable if there are no such sockets.

        Counter and clock go on. Returns what the layer above is to be told before the first view.
        """
        before, wires, cause = self.membership, self.sockets, self.cause
        self._reached(before.counter + 1)
        self.close()
        self._build(config, me, before.counter, before.view.order.clock, destinations)
        self.membership.discovery.follow(before.discovery)
        self.membership.cause = cause
        self.sockets.datagrams.take_over(wires.datagrams)
        return TransitionalSignal(before.view.id, (me,), self.membership.view.id)

    def hand_up(self, signal: TransitionalSignal) -> None:
        """The layer above is told, before anything else comes up."""
        self._note([signal])
        self._up([signal])

    def close(self) -> None:
        """Falls silent and gives all sockets back."""
        if not self._closed:
            self._closed = True
            self._loop.on_stall.remove(self._stalled)
            self._port.close()
            self.sockets.close()

    def _hand_up(self) -> None:
        upward, self._upward = self._upward, []
        self._up(upward)

    # In.

    def _stalled(self, for_us: int) -> None:
        self._port.give(Stalled(for_us))

    def _arrived(self, packet: Packet) -> None:
        if packet.header.family is Family.MEMBERSHIP:
            self._heard(packet)
        else:
            self._port.give(PacketReceived(packet))

    def _heard(self, packet: Packet) -> None:
        sender = Process(packet.header.sender, packet.header.incarnation)
        for frame in packet.frames:
            if not isinstance(frame, Word):
                continue
            try:
                word = decode_daemon_message(frame.payload)
            except PeerError as error:
                self.membership.drops[error.reason] += 1
            else:
                self._port.give(ControlReceived(sender, word))

    def _happened(self, generation: Generation, neighbour: DaemonId, happening: ConnectionEvent) -> None:
        self._port.give(StreamChanged(generation, neighbour, happening))

    # Out.

    def _named(self, event: Upward) -> Upward:
        """The layers above, logs and traces know daemons by name."""
        if isinstance(event, Installed):
            return event.replace(cause=named(event.cause, self._names, self._sites))
        return event

    def _carry_out(self, outputs: Sequence[Output]) -> None:
        upward = [
            self._named(output)
            for output in outputs
            if isinstance(output, (Stamped, Delivered, Rift, TransitionalSignal, Installed))
        ]
        if upward:
            self._note(upward)
            if not self._upward:
                self._loop.call_soon(self._hand_up)
            self._upward += upward
        sendings: list[Sending] = []
        for output in outputs:
            if isinstance(output, NetworkOutput):
                sendings.append(output.output)
            elif isinstance(output, SendControl):
                self.sockets.datagrams.say(output.to, encode_control(output.message))
            elif isinstance(output, NetworkStarted):
                self.sockets.send(sendings)
                sendings = []
                self._reached(self.membership.counter)
                self.sockets.begin(output.own, output.ring, output.streams)
        self.sockets.send(sendings)


REST_PART: Final = 3
"""The part of `token_loss` for which an idle token may rest, as a divisor."""


def stack_options(config: Config, me: DaemonId) -> StackOptions:
    """The options of its stacks; those of links are in the topology."""
    tuning = config.sites[config.site_of[me]].ring
    ring = replace(RingOptions(), **tuning.given())
    if tuning.hold_us is None:
        # An idle daemon sleeps more; a host that wakes up late needs the rest of the time.
        ring = replace(ring, rest_us_max=ring.token_loss_us // REST_PART)
    return StackOptions(ring=ring, object_bytes_max=_object_bytes_max(config))


def _object_bytes_max(config: Config) -> int:
    """What fits in one packet of every ring and link: an object crosses several, and is cut only once."""
    rings = [
        replace(RingOptions(), **site.ring.given()).among(len(site.daemons)).packet_bytes
        for site in config.sites
    ]
    segments = [link.tuning.segment_bytes for link in config.all_links if link.protocol is LinkProtocol.HOP]
    return min([*rings, *[packet_bytes_of(one or SEGMENT_BYTES_DEFAULT) for one in segments]])


def membership_options(config: Config) -> MembershipOptions:
    """The options of its membership."""
    return replace(MembershipOptions(), **config.membership.given())
