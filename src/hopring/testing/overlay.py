"""A whole overlay in virtual time: every daemon of a configuration with its real stack.

Replaces the membership: `start` gives all daemons the same members, cut links and generation (ninit). `trace`
records the events of the thesis' network specification (2.2.6).
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from itertools import count

from hopring.config.model import Config
from hopring.errors import PeerError
from hopring.ids import DaemonId, Generation, Incarnation, SiteId, SiteMask, mask_of, named
from hopring.links.events import StreamEvent
from hopring.routing.network import NetworkFailed
from hopring.routing.trees import Pair, pair, topology_of
from hopring.sim.driver import Driver
from hopring.sim.engine import SimEngine
from hopring.sim.network import Address, SimNetwork
from hopring.sim.path import Quality
from hopring.sim.tcp.links import SimTcpConnection, SimTcpHost
from hopring.stack import Stack
from hopring.stack_events import (
    DEFAULTS,
    Identity,
    Input,
    Multicast,
    MulticastLoose,
    ObserveStream,
    Output,
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
from hopring.testing.network_check import NetworkEvent, NetworkTrace, Ninit, Nlinkfailed, Nmcast, Nreceive
from hopring.wire.header import Family, encode_header
from hopring.wire.train import Frame, decode, encode

DATAGRAM_PORT = 4892
STREAM_PORT = 4892
CLUSTER = 0x51AB1E


@dataclass(frozen=True, slots=True)
class OverlayDelivery:
    """A bundle received by a daemon, with the time of its sending."""

    at_us: int
    sent_at_us: int
    daemon: str
    bundle: bytes


class OverlayDaemon:
    """One daemon on its host: a stack, and the connections of its TCP links."""

    def __init__(self, world: "Overlay", name: str, stack: Stack) -> None:
        self.world = world
        self.name = name
        self.stack = stack
        self.site = stack.network.site
        self._heads = {family: encode_header(stack.own.header(family)) for family in (Family.HOP, Family.RING)}
        self._address = Address(name, DATAGRAM_PORT)
        self._streams: dict[DaemonId, SimTcpConnection] = {}
        self._stream_host: SimTcpHost | None = None
        world.network.bind(self._address, self._receive)
        world.network.join(f"site {self.site}", self._address)
        self.driver: Driver[Input, Output] = Driver(world.network, name, stack, self._carry_out)
        self._open_streams()

    def _receive(self, _source: Address, datagram: bytes) -> None:
        try:
            packet = decode(datagram, self.stack.own.cluster)
        except PeerError as error:
            self.stack.drops[error.reason] += 1
            return
        self.driver.step(PacketReceived(packet))

    def _carry_out(self, output: Output) -> None:
        network = self.world.network
        match output:
            case SendTo(daemon=daemon, family=family, frames=frames):
                target = Address(self.world.names[daemon], DATAGRAM_PORT)
                for datagram in self._datagrams(family, frames):
                    network.send(self._address, target, datagram)
            case SendSite(frames=frames):
                for datagram in self._datagrams(Family.RING, frames):
                    network.multicast(self._address, f"site {self.site}", datagram)
            case WriteTo(neighbour=neighbour, data=data):
                self._streams[neighbour].write(data)
            case ObserveStream(neighbour=neighbour):
                self._streams[neighbour].observe()
            case Receive():
                self.world.received(self.name, output)
            case NetworkFailed(reason=reason):
                self.world.failed(self.name, named(reason, self.world.names))
            case ReceiveLoose():
                self.world.loose[self.name, output.bundle] += 1
            case ReceiveControl() | Promised() | Visited():
                pass  # There is no ordering layer here.

    def _datagrams(self, family: Family, frames: tuple[Frame, ...]) -> Iterable[bytes]:
        for train in encode(self._heads[family], frames, self.stack.options.ring.segment_bytes):
            yield from train.datagrams()

    def _open_streams(self) -> None:
        """The lower daemon of a pair connects; the higher one listens."""
        links = self.stack.stream_neighbours
        if not links:
            return
        host = self._stream_host = SimTcpHost(self.world.network, self.name)
        self._streams = {daemon: SimTcpConnection(partial(self._from_stream, daemon)) for daemon in links}
        host.listen(STREAM_PORT, lambda remote: self._streams[self.world.numbers[remote]])
        for daemon in links:
            if self.stack.own.me < daemon:
                host.connect(self.world.names[daemon], STREAM_PORT, self._streams[daemon])

    def _from_stream(self, daemon: DaemonId, event: StreamEvent) -> None:
        self.driver.step(StreamChanged(self.stack.own.generation, daemon, event))

    def stop(self) -> None:
        """Takes the stack off its host."""
        self.driver.stop()
        if self._stream_host is not None:
            self._stream_host.close()
        self.world.network.unbind(self._address)
        self.world.network.leave(f"site {self.site}", self._address)


class Overlay:
    """All daemons of a configuration on one network."""

    def __init__(self, config: Config, seed: int, quality: Quality | None = None) -> None:
        self.config = config
        self.engine = SimEngine()
        # Without any delay a token would rotate endlessly at one moment.
        self.network = SimNetwork(self.engine, seed, quality or Quality(delay_us=100))
        self.names = {DaemonId(at): daemon.name for at, daemon in enumerate(config.daemons)}
        self.numbers = {name: daemon for daemon, name in self.names.items()}
        self.daemons: dict[str, OverlayDaemon] = {}
        self.trace: NetworkTrace = []
        self.deliveries: list[OverlayDelivery] = []
        self.metas: Counter[tuple[str, SiteId, int]] = Counter()  # By receiver, source and sequence.
        self.loose: Counter[tuple[str, bytes]] = Counter()  # Unreliable bundles, by receiver.
        self._topology = topology_of(config)
        self._generations = count(1)
        self._sent_at_us: dict[bytes, int] = {}

    def shape_sites(self, one: str, other: str, **changes: object) -> None:
        """Changes the paths between all daemons of two sites, in both directions."""
        sites = {site.name: [daemon.name for daemon in site.daemons] for site in self.config.sites}
        for near in sites[one]:
            for far in sites[other]:
                self.network.shape_both(near, far, **changes)

    def start(
        self,
        members: Iterable[str] | None = None,
        cut: Iterable[tuple[str, str]] = (),
        options: StackOptions = DEFAULTS,
    ) -> None:
        """Gives these daemons, or all, a new network (ninit); it ends the one before."""
        names = sorted(self.numbers if members is None else members)
        generation = Generation(next(self._generations))
        incarnations = {self.numbers[name]: Incarnation(1000 + self.numbers[name]) for name in names}
        for daemon in self.daemons.values():
            daemon.stop()
        self.daemons = {}
        for name in names:
            me = self.numbers[name]
            own = Identity(me, incarnations[me], CLUSTER, generation)
            stack = Stack(own, self._topology, incarnations, self._pairs(cut), options, self.engine.now_us)
            self._note(Ninit(self.engine.now_us, name, tuple(names), generation))
            self.daemons[name] = OverlayDaemon(self, name, stack)

    def _pairs(self, cut: Iterable[tuple[str, str]]) -> frozenset[Pair]:
        site_id = self.config.site_id
        return frozenset(pair(site_id(one), site_id(other)) for one, other in cut)

    def mask(self, *sites: str) -> SiteMask:
        """These sites, or all of them, as a mask."""
        names = sites or [site.name for site in self.config.sites]
        return mask_of(*[self.config.site_id(name) for name in names])

    def multicast(self, name: str, bundle: bytes, mask: SiteMask | None = None) -> None:
        """Sends a bundle, which must be unlike any other, from a daemon to the sites of the mask."""
        assert bundle not in self._sent_at_us, "bundles are told apart by their content"
        self._sent_at_us[bundle] = self.engine.now_us
        mask = self.mask() if mask is None else mask
        self._note(Nmcast(self.engine.now_us, name, bundle, self._wanted_by(mask)))
        self.daemons[name].driver.step(Multicast(mask, bundle))

    def multicast_loose(self, name: str, bundle: bytes, mask: SiteMask | None = None) -> None:
        """Sends an Unreliable bundle; the trace does not record it."""
        self.daemons[name].driver.step(MulticastLoose(self.mask() if mask is None else mask, bundle))

    def _wanted_by(self, mask: SiteMask) -> tuple[str, ...]:
        site_of = self._topology.site_of
        return tuple(name for name in sorted(self.daemons) if mask >> site_of[self.numbers[name]] & 1)

    def run(self, until_us: int) -> None:
        """Runs until this virtual time."""
        self.engine.run_until(until_us)

    def received(self, name: str, output: Receive) -> None:
        """Records a bundle at a daemon; meta-data alone is not a receipt."""
        if output.bundle is None:
            self.metas[name, output.source, output.seq] += 1
            return
        at_us, bundle = self.engine.now_us, bytes(output.bundle)
        self._note(Nreceive(at_us, name, bundle))
        self.deliveries.append(OverlayDelivery(at_us, self._sent_at_us[bundle], name, bundle))

    def failed(self, name: str, reason: str) -> None:
        """Records the end of a network at a daemon."""
        self._note(Nlinkfailed(self.engine.now_us, name, reason))

    def _note(self, event: NetworkEvent) -> None:
        self.trace.append(event)
