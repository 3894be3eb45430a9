"""One daemon's datagrams: the socket of its own address, and the one of its site's group if there is one.

Frames of the present network and messages of membership go out, decoded packets come in. Everything that is no
packet of this cluster is dropped and counted under its reason.
"""

from collections.abc import Callable, Collection, Iterable
from random import Random
from typing import Final

from hopring.config import Config, cluster_hash
from hopring.daemon.loop.event_loop import Loop
from hopring.daemon.net.bind_errors import explain_bind_error, explain_join_error
from hopring.daemon.net.multicast import MulticastGroup, interface_of
from hopring.daemon.net.shaper import DatagramShaper
from hopring.daemon.net.udp import Address, SocketCounters, UdpEndpoint
from hopring.errors import Drop, PeerError
from hopring.ids import DaemonId, Generation, Process
from hopring.routing.trees import pair, topology_of
from hopring.stack_events import Identity, SendSite, SendTo
from hopring.wire.data import SEGMENT_BYTES_DEFAULT
from hopring.wire.header import HEAD_BYTES, Family, Header, encode_header
from hopring.wire.ring import Token
from hopring.wire.train import (
    MEMBERSHIP_DATAGRAM_BYTES_MAX,
    MembershipFrame,
    Packet,
    Train,
    decode_train,
    encode,
    with_riders,
)

_FAMILIES: Final = (Family.HOP, Family.RING)


def _nobody_asks(_address: Address, _detail: str) -> None:
    """The default: nobody is told of foreign senders."""


class Datagrams:
    """The sockets stay open from network to network; `begin` sets the present one."""

    def __init__(
        self, loop: Loop, config: Config, me: Process, ring_segment_bytes: int, take: Callable[[Packet], None]
    ) -> None:
        self.foreign: Callable[[Address, str], None] = _nobody_asks
        """Called with the address and the hash of senders with another configuration."""
        self.traffic = SocketCounters()
        """Counts only what was dropped here; the endpoints count the rest."""
        self.addresses: dict[DaemonId, Address] = {
            DaemonId(at): (daemon.address, daemon.port) for at, daemon in enumerate(config.daemons)
        }
        self._me = me.daemon
        self._unheard = frozenset([me.daemon])  # A group sends us back what we sent.
        self._cluster = cluster_hash(config)
        self._take = take
        self._ring_segment_bytes = ring_segment_bytes
        self._hop_segment_bytes = _segments(config, me.daemon)
        own = config.daemons[me.daemon]
        with explain_bind_error(own, "UDP"):
            self.endpoint = UdpEndpoint(loop, (own.address, own.port), self._receive)
        # Randomness is for tests only: it is not used without a shape.
        self.shaper = DatagramShaper(loop, self.endpoint.send, Random(own.name))
        self.group = self._join(loop, config)
        header = Header(Family.MEMBERSHIP, self._cluster, me.daemon, me.incarnation, Generation(0))
        self._word_head = encode_header(header)
        self._heads: dict[Family, bytes] = {}
        self._site: list[Address] = []  # Where frames for the whole site go.

    def _join(self, loop: Loop, config: Config) -> UdpEndpoint | None:
        site = config.sites[config.site_of[self._me]]
        if site.multicast is None:
            return None
        own = config.daemons[self._me]
        try:
            with explain_join_error(site, own):
                to = site.multicast
                group = MulticastGroup(to.group, to.port, interface_of(own.address), to.ttl)
                return UdpEndpoint(loop, group, self._receive)
        except BaseException:
            self.endpoint.close()
            raise

    def take_over(self, earlier: "Datagrams") -> None:
        """Goes on counting where other sockets of the same daemon ended."""
        self.traffic.add(earlier.traffic)
        self.endpoint.traffic.add(earlier.endpoint.traffic)
        if earlier.group is not None:
            (self.endpoint if self.group is None else self.group).traffic.add(earlier.group.traffic)

    def close(self) -> None:
        """Closes the sockets of this daemon."""
        self.endpoint.close()
        if self.group is not None:
            self.group.close()

    def cut(self, daemons: Collection[DaemonId]) -> None:
        """Neither sends to these daemons nor hears them; multicast still leaves."""
        self._unheard = frozenset([self._me, *daemons])
        self.shaper.cut([self.addresses[daemon] for daemon in daemons])

    # Out.

    def begin(self, own: Identity, ring: Iterable[DaemonId]) -> None:
        """Another network begins, with these daemons of the site in it."""
        self._heads = {family: encode_header(own.header(family)) for family in _FAMILIES}
        if self.group is not None:
            self._site = [self.group.address]
        else:
            self._site = [self.addresses[daemon] for daemon in ring if daemon != self._me]

    def send(self, outputs: Iterable[SendTo | SendSite]) -> None:
        """Sends frames of the present network; to each daemon those of the ring in their order."""
        site: SendSite | None = None  # Not sent yet.
        for output in outputs:
            if isinstance(output, SendSite):
                if site is not None:
                    self._send_site(site, None)
                site = output
            elif output.family is Family.RING and site is not None:
                self._send_site(site, output)
                site = None
            else:
                self._send_to(output)
        if site is not None:
            self._send_site(site, None)

    def _send_to(self, output: SendTo) -> None:
        size = self._ring_segment_bytes
        if output.family is Family.HOP:
            size = self._hop_segment_bytes[output.daemon]
        address = self.addresses[output.daemon]
        for train in encode(self._heads[output.family], output.frames, size):
            self.shaper.send(train, address)

    def _send_site(self, output: SendSite, follows: SendTo | None) -> None:
        """A following frame for one member, mostly a token, shares the datagram if it fits."""
        trains = encode(self._heads[Family.RING], output.frames, self._ring_segment_bytes)
        if self.group is not None:
            for train in trains:
                self.group.send(train, self.group.address)
        elif self._ridden(trains, output, follows):
            return
        else:
            for train in trains:
                for address in self._site:
                    self.shaper.send(train, address)
        if follows is not None:
            self._send_to(follows)

    def _ridden(self, trains: list[Train], output: SendSite, follows: SendTo | None) -> bool:
        if follows is None or len(trains) > 1:
            return False
        riding = with_riders(trains[0], output.frames, follows.frames)
        if riding is None:
            return False
        rides = self.addresses[follows.daemon]
        for address in self._site:
            self.shaper.send(riding if address == rides else trains[0], address)
        return True

    def say(self, to: Iterable[DaemonId], word: bytes) -> None:
        """Sends a message of membership, which belongs to no network."""
        for train in encode(self._word_head, (MembershipFrame(word),), MEMBERSHIP_DATAGRAM_BYTES_MAX):
            for daemon in to:
                self.shaper.send(train, self.addresses[daemon])

    # In.

    def _receive(self, buffer: memoryview, segment_bytes: int, address: Address) -> None:
        if self.group is not None and bytes(buffer[:HEAD_BYTES]) == self._heads.get(Family.RING):
            return  # Our own packet, sent to the group: not worth decoding.
        for packet in decode_train(buffer, segment_bytes, self._cluster):
            if isinstance(packet, PeerError):
                self.traffic.dropped[packet.reason] += 1
                if packet.reason is Drop.CLUSTER:
                    self.foreign(address, packet.detail)
            elif packet.header.sender not in self._unheard:
                self._heard(packet)

    def _heard(self, packet: Packet) -> None:
        frames = packet.frames
        if not isinstance(frames[-1], Token):
            self._take(packet)
            return
        if self.group is not None:
            # Packets sent before the token wait in another socket. Unread they would look lost.
            self.group.drain()
        if len(frames) > 1:
            # Frames before the token must be taken first, or the token would not account for them.
            self._take(Packet(packet.header, frames[:-1]))
        self._take(Packet(packet.header, frames[-1:]))


def _segments(config: Config, me: DaemonId) -> dict[DaemonId, int]:
    """The size of the datagrams of a Hop link with each daemon of another site."""
    links, mine = topology_of(config).links, config.site_of[me]
    sizes: dict[DaemonId, int] = {}
    for at, site in enumerate(config.site_of):
        plan = links.get(pair(mine, site)) if site != mine else None
        if plan is not None:
            sizes[DaemonId(at)] = plan.tuning.segment_bytes or SEGMENT_BYTES_DEFAULT
    return sizes
