"""The sockets between one daemon and the others: datagrams, and connections of TCP links if there are any."""

from collections.abc import Callable, Collection, Iterable

from hopring.config import Config, cluster_hash
from hopring.credentials.certificates import daemon_uri
from hopring.credentials.daemon_tls import DaemonTls
from hopring.daemon.loop.event_loop import Loop
from hopring.daemon.net.datagrams import Datagrams
from hopring.daemon.net.link_streams import LinkStreams, OnConnectionEvent
from hopring.daemon.net.shaper import Shape
from hopring.daemon.net.udp import Address
from hopring.ids import DaemonId, Process
from hopring.links.kinds import KINDS
from hopring.routing.trees import topology_of
from hopring.sealing.sealing import Sealing
from hopring.stack_events import Identity, ObserveStream, Sending, SendSite, SendTo, StackOptions, WriteTo
from hopring.wire.train import Packet


class PeerSockets:
    """The sockets stay open from network to network; `begin` sets the present one."""

    def __init__(
        self,
        loop: Loop,
        config: Config,
        me: Process,
        options: StackOptions,
        on_packet: Callable[[Packet], None],
        on_event: OnConnectionEvent,
        sealing: Sealing | None = None,
        tls: DaemonTls | None = None,
    ) -> None:
        self.datagrams = Datagrams(loop, config, me, options.ring.segment_bytes, on_packet, sealing)
        self._config = config
        self._streams: LinkStreams | None = None
        if uses_streams(config, me.daemon):
            own, addresses = config.daemons[me.daemon], self.datagrams.addresses
            uris = {DaemonId(at): daemon_uri(config.cluster, one.name) for at, one in enumerate(config.daemons)}
            try:
                self._streams = LinkStreams(
                    loop,
                    own,
                    me.daemon,
                    cluster_hash(config),
                    addresses,
                    on_event,
                    tls,
                    uris,
                    self.datagrams.traffic,
                )
            except BaseException:
                self.datagrams.close()
                raise

    def report_foreign(self, report: Callable[[Address, str], None]) -> None:
        """Reports senders of another configuration, with other keys or with another certificate."""
        self.datagrams.foreign = report
        if self._streams is not None:
            self._streams.foreign = report

    def change_tls(self, tls: DaemonTls) -> None:
        """Makes and accepts further connections with these certificates; present ones stay."""
        if self._streams is not None:
            self._streams.change_tls(tls)

    def begin(self, own: Identity, ring: Iterable[DaemonId], streams: Iterable[DaemonId]) -> None:
        """Another network begins: its members of the own site, and its neighbours over TCP."""
        self.datagrams.begin(own, ring)
        if self._streams is not None:
            self._streams.begin(own, streams)

    def send(self, outputs: Iterable[Sending]) -> None:
        """Sends the outputs of the present network."""
        datagrams: list[SendTo | SendSite] = []
        for output in outputs:
            if isinstance(output, WriteTo):
                assert self._streams is not None, "only TCP links write"
                self._streams.write(output.neighbour, output.data)
            elif isinstance(output, ObserveStream):
                assert self._streams is not None, "only TCP links are observed"
                self._streams.observe(output.neighbour)
            else:
                datagrams.append(output)
        self.datagrams.send(datagrams)

    def shape(self, daemon: str, shape: Shape) -> None:
        """Delays or loses packets to this daemon from now on; for tests and demonstrations."""
        to = self._config.daemon_id(daemon)
        self.datagrams.shaper.shape(self.datagrams.addresses[to], shape)
        if self._streams is not None:
            self._streams.shape(to, shape)

    def cut(self, daemons: Collection[str]) -> None:
        """Lets nothing pass to or from these daemons, and everything to and from all others."""
        self.cut_numbers([self._config.daemon_id(daemon) for daemon in daemons])

    def cut_numbers(self, daemons: Collection[DaemonId]) -> None:
        """As `cut`, for daemons given by their numbers."""
        self.datagrams.cut(daemons)
        if self._streams is not None:
            self._streams.cut(daemons)

    def close(self) -> None:
        """Closes all sockets of this daemon."""
        if self._streams is not None:
            self._streams.close()
        self.datagrams.close()


def uses_streams(config: Config, me: DaemonId) -> bool:
    """Whether a link of its site runs over a connection."""
    mine, links = config.site_of[me], topology_of(config).links
    return any(mine in ends and KINDS[plan.protocol].over_stream for ends, plan in links.items())
