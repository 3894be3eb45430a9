"""Daemons of one site with real sockets, and a layer above them that stamps one by one."""

from collections.abc import Sequence

from hopring.daemon.exchange import Exchange
from hopring.daemon.loop import Loop
from hopring.daemon.multicast import Group
from hopring.daemon.ports import Outlet, RingPort
from hopring.daemon.udp import UdpEndpoint
from hopring.ids import DaemonId, Generation, Incarnation
from hopring.links.events import Deliver, LinkFailed
from hopring.links.ring import open_ring
from hopring.links.ring_events import Passed, Release, Visit, Wish
from hopring.links.ring_options import RingOptions
from hopring.wire.header import Family, Header

GENERATION = Generation(7)


class Member:
    """A daemon of one site. What it has to send goes out at its next visit, stamped one by one."""

    def __init__(self, loop: Loop, me: int, cluster: int, group: Group | None, host: str = "127.0.0.1") -> None:
        self.loop = loop
        self.me = DaemonId(me)
        self.cluster = cluster
        self.group = group
        self.exchange = Exchange(self.me, cluster)
        self.endpoint = UdpEndpoint(loop, (host, 0), self.exchange.receive)
        self.group_endpoint = UdpEndpoint(loop, group, self.exchange.receive) if group else None
        self.to_send: list[bytes] = []
        self.delivered: list[bytes] = []
        self.failures: list[str] = []

    def open(self, members: "Sequence[Member]") -> None:
        """Joins the ring; the token starts at the first member."""
        others = [member for member in members if member is not self]
        ids = tuple(sorted(member.me for member in members))
        own = Header(Family.RING, self.cluster, self.me, Incarnation(self.me), GENERATION)
        group_out, drain = None, None
        if self.group is not None and self.group_endpoint is not None:
            group_out = Outlet(self.group_endpoint.send, self.group.address)
            drain = self.group_endpoint.drain
        self.port = RingPort(
            self.loop,
            open_ring(self.me, ids, RingOptions(), 0, self.loop.now_us()),
            own,
            members={other.me: Outlet(self.endpoint.send, other.endpoint.address) for other in others},
            group=group_out,
            drain=drain,
            up=self.up,
        )
        senders = {other.me: Incarnation(other.me) for other in others}
        self.exchange.attach(self.port, Family.RING, GENERATION, senders)

    def send(self, payload: bytes) -> None:
        """Sends at the next visit."""
        self.to_send.append(payload)
        self.port.give(Wish())

    def up(self, effect: Deliver | LinkFailed | Visit | Passed) -> None:
        match effect:
            case Deliver(payload):
                self.delivered.append(payload)
            case LinkFailed(reason):
                self.failures.append(reason)
            case Visit():
                objects, self.to_send = tuple(self.to_send), []
                assert sum(map(len, objects)) <= effect.room_bytes, "the test sends little"
                last = effect.site_seq + len(objects)
                self.port.give(Release(last, effect.site_lts + len(objects), last, objects))
            case Passed():
                pass

    def close(self) -> None:
        self.exchange.detach(self.port)
        self.endpoint.close()
        if self.group_endpoint is not None:
            self.group_endpoint.close()


def open_all(members: Sequence[Member]) -> None:
    """Makes one ring of them."""
    for member in members:
        member.open(members)


def send_round(members: Sequence[Member], tag: str) -> None:
    """A hundred short objects from each."""
    for member in members:
        for number in range(100):
            member.send(f"{tag} {member.me} {number:02d};".encode())


def everything_arrived(members: Sequence[Member]) -> bool:
    """Whether each has the round of all others."""
    return all(b"".join(member.delivered).count(b";") >= 200 for member in members)
