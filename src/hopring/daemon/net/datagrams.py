"""One daemon's datagrams: the socket of its own address, and the one of its site's group if there is one.

Frames of the present network and messages of membership go out, decoded packets come in. Everything that is no
packet of this cluster is dropped and counted under its reason. With cluster keys all of it is sealed.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
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
from hopring.sealing.keys import KeyRing
from hopring.sealing.packet import EVERYBODY, sender_bytes
from hopring.sealing.sealing import Opened, Sealing
from hopring.stack_events import Identity, SendSite, SendTo
from hopring.wire.data import SEGMENT_BYTES_DEFAULT
from hopring.wire.header import HEAD_BYTES, Family, Header, encode_header
from hopring.wire.ring import Token
from hopring.wire.train import (
    MEMBERSHIP_DATAGRAM_BYTES_MAX,
    Frame,
    MembershipFrame,
    Packet,
    Train,
    decode_train,
    decoded,
    encode,
    with_frames,
)

_RING: Final = Family.RING
_FOREIGN: Final = frozenset({Drop.CLUSTER, Drop.VERSION, Drop.CLEAR_TEXT, Drop.KEY, Drop.SEAL})
"""Refusals whose senders are reported: another configuration, another key, or none."""


def _nobody_asks(_address: Address, _detail: str) -> None:
    """The default: nobody is told of foreign senders."""


class Datagrams:
    """The sockets stay open from network to network; `begin` sets the present one."""

    def __init__(
        self,
        loop: Loop,
        config: Config,
        me: Process,
        ring_segment_bytes: int,
        on_packet: Callable[[Packet], None],
        sealing: Sealing | None = None,
    ) -> None:
        self.sealing: Final = sealing
        self.foreign: Callable[[Address, str], None] = _nobody_asks
        """Called with the address of senders with another configuration or key, and with the difference."""
        self.traffic = SocketCounters()
        """Counts only what was dropped here; the endpoints count the rest."""
        self.addresses: dict[DaemonId, Address] = {
            DaemonId(at): (daemon.address, daemon.port) for at, daemon in enumerate(config.daemons)
        }
        self._loop = loop
        self._me = me.daemon
        self._unheard = frozenset([me.daemon])  # A group sends us back what we sent.
        self._cluster = cluster_hash(config)
        self._on_packet = on_packet
        self._ring_segment_bytes = ring_segment_bytes
        self._hop_segment_bytes = _segments(config, me.daemon)
        own = config.daemons[me.daemon]
        with explain_bind_error(own, "UDP"):
            self.endpoint = UdpEndpoint(loop, (own.address, own.port), self._receive)
        # Randomness is for tests only: it is not used without a shape.
        self.shaper = DatagramShaper(loop, self.endpoint.send, Random(own.name))
        self.group = self._join_group(loop, config)
        header = Header(Family.MEMBERSHIP, self._cluster, me.daemon, me.incarnation, Generation(0))
        self._membership_head = encode_header(header)
        self._own_sender = sender_bytes(self._membership_head)
        self._ring_head = self._hop_head = b""
        self._site: list[Address] = []  # Where frames for the whole site go.

    def _join_group(self, loop: Loop, config: Config) -> UdpEndpoint | None:
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

    def change_keys(self, keys: KeyRing) -> None:
        """Seals and opens with these keys from now on; others are told which there are."""
        assert self.sealing is not None, "only a daemon that started with keys changes them"
        self.sealing.change_keys(keys, self._loop.now_us())
        self._send_replies(self.sealing)

    # Out.

    def begin(self, own: Identity, ring: Iterable[DaemonId]) -> None:
        """Another network begins, with these daemons of the site in it."""
        self._ring_head = encode_header(own.header(Family.RING))
        self._hop_head = encode_header(own.header(Family.HOP))
        if self.sealing is not None:
            self.sealing.begin()
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
        for train in self._trains(output.family, output.frames, size, output.daemon):
            self.shaper.send(train, address)

    def _trains(self, family: Family, frames: Sequence[Frame], segment_bytes: int, to: DaemonId) -> list[Train]:
        head = self._ring_head if family is Family.RING else self._hop_head
        if self.sealing is None:
            return encode(head, frames, segment_bytes)
        return self.sealing.seal_frames(head, family, frames, segment_bytes, to)

    def _send_site(self, output: SendSite, follows: SendTo | None) -> None:
        """A following frame for one member, mostly a token, shares the datagram if it fits."""
        joins = follows if self.group is None else None
        if joins is not None and self.sealing is not None and self._send_shared(self.sealing, output, joins):
            return
        trains = self._trains(Family.RING, output.frames, self._ring_segment_bytes, EVERYBODY)
        if joins is not None and self.sealing is None and self._send_joined(trains, output, joins):
            return
        for train in trains:
            self._send_everywhere(train)
        if follows is not None:
            self._send_to(follows)

    def _send_shared(self, sealing: Sealing, output: SendSite, follows: SendTo) -> bool:
        """Sends both in one datagram to all, which open what is for them; False if they do not fit in one."""
        size = self._ring_segment_bytes
        shared = sealing.seal_shared(self._ring_head, output.frames, follows.frames, size, follows.daemon)
        if shared is None:
            return False
        self._send_everywhere(shared)
        return True

    def _send_joined(self, trains: list[Train], output: SendSite, follows: SendTo) -> bool:
        """Sends both in one datagram to the daemon that gets both; False if they do not fit in one."""
        joined = with_frames(trains[0], output.frames, follows.frames) if len(trains) == 1 else None
        if joined is None:
            return False
        gets_both = self.addresses[follows.daemon]
        for address in self._site:
            self.shaper.send(joined if address == gets_both else trains[0], address)
        return True

    def _send_everywhere(self, train: Train) -> None:
        """Sends to the group of the site, or to each of its daemons."""
        if self.group is not None:
            self.group.send(train, self.group.address)
            return
        for address in self._site:
            self.shaper.send(train, address)

    def send_message(self, to: Iterable[DaemonId], payload: bytes) -> None:
        """Sends a message of membership, which belongs to no network."""
        for train in encode(self._membership_head, (MembershipFrame(payload),), MEMBERSHIP_DATAGRAM_BYTES_MAX):
            for daemon in to:
                sealed = train if self.sealing is None else self.sealing.seal_datagram(train.buffer, daemon)
                self.shaper.send(sealed, self.addresses[daemon])

    # In.

    def _receive(self, buffer: memoryview, segment_bytes: int, address: Address) -> None:
        if self.sealing is not None:
            self._receive_sealed(self.sealing, buffer, segment_bytes, address)
            return
        if self.group is not None and bytes(buffer[:HEAD_BYTES]) == self._ring_head:
            return  # Our own packet, sent to the group: not worth decoding.
        for packet in decode_train(buffer, segment_bytes, self._cluster):
            self._decoded(packet, address)

    def _receive_sealed(
        self, sealing: Sealing, buffer: memoryview, segment_bytes: int, address: Address
    ) -> None:
        if self.group is not None and sender_bytes(bytes(buffer[:HEAD_BYTES])) == self._own_sender:
            return  # Our own packet, sent to the group.
        if len(buffer) <= segment_bytes:
            one = sealing.open_datagram(buffer.tobytes(), self._loop.now_us())
            if one is not None:
                self._opened(one, address)
        else:
            for clear in sealing.open(buffer, segment_bytes, self._loop.now_us()):
                self._opened(clear, address)
        if sealing.replies:
            self._send_replies(sealing)

    def _opened(self, clear: Opened, address: Address) -> None:
        if isinstance(clear, bytes):
            packet = decoded(clear, self._cluster)
        else:
            packet = clear if isinstance(clear, PeerError) else decoded(clear, self._cluster)
        self._decoded(packet, address)

    def _send_replies(self, sealing: Sealing) -> None:
        replies, sealing.replies = sealing.replies, []
        for daemon, train in replies:
            self.shaper.send(train, self.addresses[daemon])

    def _decoded(self, packet: Packet | PeerError, address: Address) -> None:
        if not isinstance(packet, Packet):
            self.traffic.dropped[packet.reason] += 1
            if packet.reason in _FOREIGN:
                self.foreign(address, packet.detail)
        elif packet.header.sender not in self._unheard:
            if self.sealing is not None and packet.header.family is _RING:
                self.sealing.saw_packets(packet.frames)
            self._hand_up(packet)

    def _hand_up(self, packet: Packet) -> None:
        frames = packet.frames
        if not isinstance(frames[-1], Token):
            self._on_packet(packet)
            return
        if self.group is not None:
            # Packets sent before the token wait in another socket. Unread they would look lost.
            self.group.drain()
        if len(frames) > 1:
            # Frames before the token must be taken first, or the token would not account for them.
            self._on_packet(Packet(packet.header, frames[:-1]))
        self._on_packet(Packet(packet.header, frames[-1:]))


def _segments(config: Config, me: DaemonId) -> dict[DaemonId, int]:
    """The size of the datagrams of a Hop link with each daemon of another site."""
    links, mine = topology_of(config).links, config.site_of[me]
    sizes: dict[DaemonId, int] = {}
    for at, site in enumerate(config.site_of):
        plan = links.get(pair(mine, site)) if site != mine else None
        if plan is not None:
            sizes[DaemonId(at)] = plan.tuning.segment_bytes or SEGMENT_BYTES_DEFAULT
    return sizes
