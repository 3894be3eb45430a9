"""Two ends of TCP links between daemons, each on its own loop."""

from hopring.config import Daemon
from hopring.credentials.daemon_tls import DaemonTls
from hopring.daemon.loop.event_loop import Loop
from hopring.daemon.net.link_streams import LinkStreams
from hopring.daemon.net.tcp import ConnectionEvent
from hopring.daemon.net.udp import Address, SocketCounters
from hopring.ids import DaemonId, Generation, Incarnation
from hopring.links.events import StreamReceived
from hopring.stack_events import Identity
from hopring.wire.header import Family
from hopring.wire.stream import encode_greeting

CLUSTER = 0xC1


LOW, HIGH = DaemonId(1), DaemonId(2)
URIS = {daemon: f"hopring://local/d{daemon}" for daemon in (LOW, HIGH)}


def identity(me: DaemonId, generation: int) -> Identity:
    return Identity(me, Incarnation(me), CLUSTER, Generation(generation))


def greeting(me: DaemonId, generation: int) -> bytes:
    return encode_greeting(identity(me, generation).header(Family.TCP))


class End:
    """The streams of a daemon, and their events."""

    def __init__(self, loop: Loop, me: DaemonId, port: int, tls: DaemonTls | None = None) -> None:
        self.told: list[tuple[int, int, ConnectionEvent]] = []
        self.me = me
        own = Daemon(f"d{me}", "127.0.0.1", port + me)
        addresses = {daemon: ("127.0.0.1", port + daemon) for daemon in (LOW, HIGH)}
        self.traffic = SocketCounters()
        self.foreign: list[tuple[Address, str]] = []
        self.streams = LinkStreams(
            loop, own, me, CLUSTER, addresses, lambda *what: self.told.append(what), tls, URIS, self.traffic
        )
        self.streams.foreign = lambda *what: self.foreign.append(what)

    def begin(self, generation: int, *neighbours: DaemonId) -> None:
        self.streams.begin(identity(self.me, generation), neighbours)

    def kinds(self, generation: int) -> list[type[ConnectionEvent]]:
        return [type(what) for which, _, what in self.told if which == generation]

    def heard(self, generation: int) -> bytes:
        chunks = [
            what.chunk
            for which, _, what in self.told
            if which == generation and isinstance(what, StreamReceived)
        ]
        return b"".join(chunks)
