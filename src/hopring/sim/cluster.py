"""A cluster in virtual time: every daemon with its real membership, order and links, on a faulty network.

The run is recorded as events of `check.trace`, which the checkers of extended virtual synchrony judge.
"""

from collections import Counter, deque
from collections.abc import Mapping
from struct import Struct
from typing import Final, assert_never

from hopring.check import trace
from hopring.compiled import mypyc_attr
from hopring.config.model import Config
from hopring.engine import (
    Delivered,
    EngineState,
    Installed,
    Snapshot,
    Stalled,
    Stamped,
    Stop,
    SubmitMessage,
    TransitionalSignal,
    Withheld,
)
from hopring.errors import Drop, PeerError
from hopring.ids import NEVER, DaemonId, Generation, Incarnation, Process, SiteId, ViewId, named
from hopring.links.events import StreamEvent
from hopring.links.kinds import KINDS
from hopring.membership.current_network import LocalDaemon
from hopring.membership.events import (
    DaemonMessageReceived,
    Input,
    MarkPrimary,
    NetworkStarted,
    Output,
    PrimaryMarked,
    SendDaemonMessage,
)
from hopring.membership.events import NetworkOutput as FromNetwork
from hopring.membership.membership import Membership
from hopring.membership.messages import EpochMark, decode_daemon_message, encode_membership_message
from hopring.membership.options import MembershipOptions
from hopring.ordering.entry import OrderedMessage, Position
from hopring.routing.trees import topology_of
from hopring.sealing.keys import KEY_BYTES, ClusterKey, KeyRing
from hopring.sealing.packet import EVERYBODY, SealedHead, decode_head
from hopring.sealing.sealer import SealedCluster
from hopring.sealing.sealing import SECRET_BYTES, Sealing
from hopring.services import Service
from hopring.sim.attacker import Attacker
from hopring.sim.driver import Driver
from hopring.sim.engine import SimEngine, generator
from hopring.sim.faulty_daemon import FaultyDaemon, FaultyPlan
from hopring.sim.network import Address, SentDatagram, SimNetwork
from hopring.sim.path import Quality
from hopring.sim.tcp.links import SimTcpLinks
from hopring.stack_events import (
    DEFAULTS,
    Identity,
    ObserveStream,
    PacketReceived,
    SendSite,
    SendTo,
    StackOptions,
    StreamChanged,
    WriteTo,
)
from hopring.wire.header import Family, Header, encode_header
from hopring.wire.train import MEMBERSHIP_DATAGRAM_BYTES_MAX, Frame, LongDatagram, MembershipFrame, decode
from hopring.wire.train import encode as encode_frames

SealedPacket = tuple[DaemonId, Incarnation, int]
"""Sender, incarnation and counter."""

TreeParents = tuple[Mapping[SiteId, SiteId], ...]
CLUSTER: Final = 0x51AB1E
CLUSTER_KEY: Final = ClusterKey(b"k" * KEY_BYTES)
PORT: Final = 4892
EVENTS_MAX: Final = 20_000_000

# daemon, incarnation, number: a message's name, in front of its payload.
_NAME: Final = Struct("<HQI")
NAMELESS: Final = trace.MessageId("?", 0, 0)
"""Stands for a message that a faulty daemon has put together wrongly."""


class SimDaemon:
    """One run of a daemon on its simulated machine, from start to crash or stop."""

    def __init__(self, cluster: "SimCluster", name: str, incarnation: Incarnation) -> None:
        self.cluster = cluster
        self.name = name
        self.process = trace.ProcessName(name, incarnation)
        me = Process(cluster.numbers[name], incarnation)
        self.address = cluster.addresses[me.daemon]
        self.sent = 0
        self._heads: dict[tuple[Family, Generation], bytes] = {}
        self.me = me
        who = LocalDaemon(
            me,
            CLUSTER,
            cluster.topology,
            marked=cluster.mark_us is None or name in cluster.marks,
            mark=cluster.marks.get(name),
            has_disk=cluster.mark_us is not None,
        )
        now_us = cluster.engine.now_us
        cluster.note(trace.Recover(self.process, now_us))
        self.membership = self.make_membership(who)
        cluster.network.bind(self.address, self._receive)
        self._group = f"site {self.membership.site}"
        cluster.network.join(self._group, self.address)
        self._stream_events: deque[StreamChanged] = deque()  # One for each timer that hands over the next.
        self.streams: SimTcpLinks | None = None
        if any(KINDS[plan.protocol].over_stream for plan in cluster.topology.links.values()):
            self.streams = SimTcpLinks(cluster.network, me.daemon, CLUSTER, cluster.names, self._from_stream)
        self.refused: Counter[Drop] = Counter()  # By the sealing.
        self._opened: set[SealedPacket] = set()
        self._started_us = now_us
        self.sealing: Sealing | None = None
        if cluster.keys is not None:
            secret = generator(cluster.network.seed, f"secret {incarnation}").randbytes(SECRET_BYTES)
            self.sealing = Sealing(me, cluster.sealed, cluster.keys, secret)
        self.driver: Driver[Input, Output] = self.make_driver()
        cluster.network.host(name).stalled = self._stalled
        self._plan_counters()

    def state(self) -> EngineState:
        """The phase and the view of the daemon's engine."""
        return self.membership.state()

    def snapshot(self) -> Snapshot:
        """The state of the daemon's engine."""
        return self.membership.snapshot()

    def make_membership(self, who: LocalDaemon) -> Membership:
        """The membership of this daemon, without pruning: all bodies go to all sites."""
        cluster = self.cluster
        return Membership(
            who, cluster.counters[self.name], cluster.engine.now_us, cluster.options, cluster.stack_options
        )

    def make_driver(self) -> Driver[Input, Output]:
        """The driver of the membership."""
        return Driver(self.cluster.network, self.name, self.membership, self._carry_out)

    def submit(self, service: Service, size: int, session: int = 0, resilience: int = 0) -> None:
        """Submits a message with this service, size and resilience."""
        self.sent += 1
        name = _NAME.pack(self.me.daemon, self.me.incarnation, self.sent)
        self.driver.step(SubmitMessage(service, name + bytes(size), session, resilience))

    def _stalled(self, for_us: int) -> None:
        self.driver.step(Stalled(for_us))

    def _receive(self, _source: Address, datagram: bytes) -> None:
        if self.sealing is None:
            self._take_datagram(datagram)
            return
        for clear in self.sealing.open(memoryview(datagram), len(datagram), self.cluster.engine.now_us):
            if isinstance(clear, PeerError):
                self.refused[clear.reason] += 1
            else:
                self._check_opened(decode_head(datagram, CLUSTER))
                self._take_datagram(clear.whole if isinstance(clear, LongDatagram) else clear)
        replies, self.sealing.replies = self.sealing.replies, []
        for daemon, train in replies:
            self.cluster.network.send(self.address, self.cluster.addresses[daemon], train.buffer)

    def _check_opened(self, head: SealedHead) -> None:
        """Judges the sealing: a packet is opened once, and not if it was sealed before this daemon started."""
        packet = head.sender, head.incarnation, head.counter
        if packet in self._opened:
            self.cluster.opened_wrongly.append(f"{self.name} opened packet {packet} twice")
        if self.cluster.sealed_us.get(packet, NEVER) < self._started_us:
            self.cluster.opened_wrongly.append(f"{self.name} opened packet {packet} of a time before its start")
        self._opened.add(packet)

    def _take_datagram(self, datagram: bytes) -> None:
        try:
            packet = decode(datagram, CLUSTER)
            if packet.header.family is Family.MEMBERSHIP:
                sender = Process(packet.header.sender, packet.header.incarnation)
                for frame in packet.frames:
                    if isinstance(frame, MembershipFrame):
                        self.driver.step(DaemonMessageReceived(sender, decode_daemon_message(frame.payload)))
            else:
                if self.sealing is not None and packet.header.family is Family.RING:
                    self.sealing.saw_packets(packet.frames)
                self.driver.step(PacketReceived(packet))
        except PeerError as error:
            self.membership.drops[error.reason] += 1

    def _carry_out(self, output: Output) -> None:
        if isinstance(output, FromNetwork):
            self._send_frames(output.own, output.output)
        elif isinstance(output, SendDaemonMessage):
            self._say(output.to, encode_membership_message(output.message))
        elif isinstance(output, NetworkStarted):
            self._heads.clear()
            if self.sealing is not None:
                self.sealing.begin()
            if self.streams is not None:
                self.streams.begin(output.own, output.streams)
            self.cluster.counters[self.name] = max(self.cluster.counters[self.name], self.membership.counter)
        elif isinstance(output, MarkPrimary):
            assert self.cluster.mark_us is not None, "a daemon without a disk has no mark to write"
            due_us = self.cluster.engine.now_us + self.cluster.mark_us
            self.cluster.network.timer(self.name, due_us, self._mark_written, output.mark)
        elif isinstance(output, (Stamped, Delivered, Withheld, TransitionalSignal, Installed)):
            self.cluster.note(self._event(output))
            if isinstance(output, Installed):
                self._check_routes(output.view)

    def _mark_written(self, mark: EpochMark) -> None:
        self.cluster.marks[self.name] = mark
        self.driver.step(PrimaryMarked(durable=True))

    def _send_frames(self, own: Identity, output: object) -> None:
        if isinstance(output, SendTo):
            target = self.cluster.addresses[output.daemon]
            for datagram in self._datagrams(own, output.family, output.frames, output.daemon):
                self.cluster.network.send(self.address, target, datagram)
        elif isinstance(output, SendSite):
            for datagram in self._datagrams(own, Family.RING, output.frames, EVERYBODY):
                self.cluster.network.multicast(self.address, self._group, datagram)
        elif isinstance(output, WriteTo):
            assert self.streams is not None, "only TCP links write"
            self.streams.write(own.generation, output.neighbour, output.data)
        elif isinstance(output, ObserveStream):
            assert self.streams is not None, "only TCP links are observed"
            self.streams.observe(own.generation, output.neighbour)

    def _from_stream(self, generation: Generation, neighbour: DaemonId, event: StreamEvent) -> None:
        """Hands the event over by a timer of the same moment: outputs may still be carried out now."""
        self._stream_events.append(StreamChanged(generation, neighbour, event))
        self.cluster.network.timer(self.name, self.cluster.engine.now_us, self._next_stream_event)

    def _next_stream_event(self) -> None:
        # Timers of a host that is late come out of order when it is late no more; events of a stream do not.
        self.driver.step(self._stream_events.popleft())

    def _datagrams(self, own: Identity, family: Family, frames: tuple[Frame, ...], to: DaemonId) -> list[bytes]:
        if self.cluster.faulty is not None:
            frames = self.cluster.faulty.change_frames(self.name, frames)
        key = (family, own.generation)
        if key not in self._heads:
            self._heads[key] = encode_header(own.header(family))
        head, size = self._heads[key], self.cluster.stack_options.ring.segment_bytes
        if self.sealing is None:
            trains = encode_frames(head, frames, size)
        else:
            trains = self.sealing.seal_frames(head, family, frames, size, to)
        return [datagram for train in trains for datagram in train.datagrams()]

    def _say(self, to: tuple[DaemonId, ...], payload: bytes) -> None:
        if self.cluster.faulty is not None:
            payload = self.cluster.faulty.change_message(self.name, payload)
        head = membership_head(self.me)
        (train,) = encode_frames(head, (MembershipFrame(payload),), MEMBERSHIP_DATAGRAM_BYTES_MAX)
        for daemon in to:
            sealed = train if self.sealing is None else self.sealing.seal_datagram(train.buffer, daemon)
            self.cluster.network.send(self.address, self.cluster.addresses[daemon], sealed.buffer)

    # The trace.

    def _plan_counters(self) -> None:
        if self.cluster.link_counters_us:
            due_us = self.cluster.engine.now_us + self.cluster.link_counters_us
            self.cluster.network.timer(self.name, due_us, self._count_links)

    def _count_links(self) -> None:
        """Records the counters of the links of the present network."""
        self._plan_counters()
        network = self.snapshot().network
        if network is None:
            return
        for link in network.links:
            peer, seen = self.cluster.names[link.peer], link.counters
            name = f"{peer}@{network.generation:016x}"
            counts = seen.sent, seen.received, seen.lost, seen.nacks, seen.retransmissions, seen.round_trip_us
            self.cluster.note(trace.Counters(self.process, self.cluster.engine.now_us, name, *counts, peer))

    def _check_routes(self, view: ViewId) -> None:
        snapshot = self.snapshot()
        if snapshot.network is not None and snapshot.overlay is not None:
            self.cluster.routed(self.name, view, snapshot.overlay.tree_parents)

    def _event(self, output: Stamped | Delivered | Withheld | TransitionalSignal | Installed) -> trace.Event:
        at_us = self.cluster.engine.now_us
        view = view_name(output.view)
        if isinstance(output, Stamped):
            name, place = self._name(output.message), stamp(view, output.position)
            message = output.message
            sizes = len(message.payload), message.resilience
            return trace.MessageSent(self.process, at_us, view, name, message.service, place, *sizes)
        if isinstance(output, (Delivered, Withheld)):
            name = self._name(output.message)
            parts = self.process, at_us, view, name, output.message.service, stamp(view, output.position)
            return trace.MessageDelivered(*parts, isinstance(output, Withheld))
        if isinstance(output, TransitionalSignal):
            return trace.Signalled(self.process, at_us, view, self._processes(output.together))
        if isinstance(output, Installed):
            both = self._processes(output.members), self._processes(output.together)
            why = named(output.cause, self.cluster.names, self.cluster.site_names)
            return trace.ViewInstalled(self.process, at_us, view, *both, why, output.primary.value)
        assert_never(output)

    def _name(self, message: OrderedMessage) -> trace.MessageId:
        if self.cluster.faulty is not None and len(message.payload) < _NAME.size:
            return NAMELESS
        daemon, incarnation, number = _NAME.unpack_from(message.payload)
        if self.cluster.faulty is not None and daemon not in self.cluster.names:
            return NAMELESS
        return trace.MessageId(self.cluster.names[daemon], incarnation, number)

    def _processes(self, processes: tuple[Process, ...]) -> tuple[trace.ProcessName, ...]:
        names = self.cluster.names
        return tuple([trace.ProcessName(names[one.daemon], one.incarnation) for one in processes])


@mypyc_attr(allow_interpreted_subclasses=True)
class SimCluster:
    """All daemons of a configuration, starting, crashing and coming back."""

    def __init__(
        self,
        config: Config,
        seed: int,
        quality: Quality | None = None,
        options: MembershipOptions | None = None,
        stack_options: StackOptions = DEFAULTS,
        link_counters_us: int = 0,
        sealed: bool = False,
        faulty: FaultyPlan | None = None,
        mark_us: int | None = None,
    ) -> None:
        self.config = config
        # How long a disk takes to write the mark of a vote for a primary view; None: daemons have no disks.
        self.mark_us = mark_us
        self.keys = KeyRing([CLUSTER_KEY], CLUSTER_KEY.id) if sealed else None
        self.sealed = SealedCluster(config.cluster, CLUSTER, len(config.daemons))
        self.link_counters_us = link_counters_us  # The period in which links' counters are noted; 0 is never.
        self.topology = topology_of(config)
        self.options = options or MembershipOptions()
        self.stack_options = stack_options
        self.engine = SimEngine(events_max=EVENTS_MAX)
        # Without any delay a token would go round for ever in one instant.
        self.network = SimNetwork(self.engine, seed, quality or Quality(delay_us=100))
        self.names = {DaemonId(at): daemon.name for at, daemon in enumerate(config.daemons)}
        self.site_names = [site.name for site in config.sites]
        self.addresses = {daemon: Address(name, PORT) for daemon, name in self.names.items()}
        self.numbers = {name: daemon for daemon, name in self.names.items()}
        self.attacker: Attacker | None = None
        if sealed:
            clear_head = membership_head(Process(DaemonId(0), Incarnation(1)))
            self.attacker = Attacker(self.network, self.addresses, self.sealed, clear_head)
            self.network.on_send = self._sent
        self.faulty: FaultyDaemon | None = None
        if faulty is not None:
            segment_bytes = stack_options.ring.segment_bytes
            self.faulty = FaultyDaemon(self.engine, seed, faulty, len(self.numbers), segment_bytes)
        self.counters = dict.fromkeys(self.numbers, 0)  # View counters, which survive a crash on disk.
        self.marks: dict[
            str, EpochMark | None
        ] = {}  # Of votes for primary views, on disk; None: it is damaged.
        self.hosts: dict[str, SimDaemon] = {}
        self.history: list[trace.Event] = []
        self.sealed_us: dict[SealedPacket, int] = {}  # When each sealed packet was first sent.
        self.opened_wrongly: list[str] = []  # Packets that a daemon must not have opened.
        self.misrouted: list[str] = []  # Views whose members do not have the same trees.
        self._trees: dict[ViewId, tuple[str, TreeParents]] = {}
        self._lives = dict.fromkeys(self.numbers, 0)

    def _sent(self, sent: SentDatagram) -> None:
        assert self.attacker is not None, "only sealed clusters watch what is sent"
        if not self.attacker.acting and sent.source.port == PORT:  # Others are those of TCP.
            head = decode_head(sent.datagram, CLUSTER)
            self.sealed_us.setdefault((head.sender, head.incarnation, head.counter), self.engine.now_us)
            self.attacker.see(sent)

    def note(self, event: trace.Event) -> None:
        """Appends an event to the history."""
        self.history.append(event)

    def routed(self, name: str, view: ViewId, parents: TreeParents) -> None:
        """Records the trees that a daemon has in a view; all its members must have the same."""
        first, others = self._trees.setdefault(view, (name, parents))
        if parents != others:
            self.misrouted.append(f"{first} and {name} in view {view.counter}")

    def start(self, *names: str) -> None:
        """Starts these daemons, or all."""
        for name in names or sorted(self.numbers):
            self._lives[name] += 1
            incarnation = Incarnation(self.numbers[name] * 1000 + self._lives[name])
            self.hosts[name] = self.make_host(name, incarnation)

    def make_host(self, name: str, incarnation: Incarnation) -> SimDaemon:
        """Creates a daemon, which starts at once."""
        return SimDaemon(self, name, incarnation)

    def crash(self, name: str) -> None:
        """Ends a daemon at once; the others are not told."""
        host = self.hosts.pop(name)
        host.driver.stop()
        self.network.crash(name)
        self.note(trace.Crash(host.process, self.engine.now_us))

    def stop(self, name: str) -> None:
        """Ends a daemon in an orderly way: it announces that it leaves."""
        self.hosts[name].driver.step(Stop())
        self.crash(name)

    def restart(self, name: str) -> None:
        """Starts a daemon again, as another process."""
        self.network.restart(name)
        self.start(name)

    def forget(self, name: str) -> None:
        """Loses the view counter of a daemon that does not run."""
        self.counters[name] = 0

    def run_for(self, duration_us: int) -> None:
        """Runs the cluster for this span of virtual time."""
        self.engine.run_until(self.engine.now_us + duration_us)

    def settled(self) -> bool:
        """Whether all living daemons share one view."""
        seen = [host.state() for host in self.hosts.values()]
        alive = {one.me for one in seen}
        return len({one.view for one in seen}) == 1 and all(
            one.settled and set(one.members) == alive for one in seen
        )


def membership_head(me: Process) -> bytes:
    """The head of a process' messages of membership."""
    return encode_header(Header(Family.MEMBERSHIP, CLUSTER, me.daemon, me.incarnation, Generation(0)))


def view_name(view: ViewId) -> trace.ViewName:
    """The name of a view in the trace."""
    return trace.ViewName(*view)


def stamp(view: trace.ViewName, position: Position) -> trace.Ord:
    """A position in the order, as the trace records it."""
    return trace.Ord(position.lts, position.site, view)
