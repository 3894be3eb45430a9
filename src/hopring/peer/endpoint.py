"""The sockets of a peer: one for unicasts, from which everything is sent, and one for each group's multicasts.

Multicasts leave from the unicast socket, so their source names the process. They are looped back: other
processes of this host hear them, and the peer drops its own (Whetten, Montgomery, Kaplan, 3.4, trap of
forwarding with loopback off). A group whose multicasts cannot be heard is reported as such.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from ipaddress import IPv4Address
from random import Random
from typing import TYPE_CHECKING, Final

from hopring.client.peer_url import PeerUrl
from hopring.daemon.loop.event_loop import Loop
from hopring.daemon.net.multicast import MulticastGroup, interface_of
from hopring.daemon.net.udp import Address, SocketCounters, UdpEndpoint
from hopring.errors import ChannelRefused, Drop, PeerError
from hopring.ids import GroupName
from hopring.rmp.events import PacketArrived, RingEffect
from hopring.rmp.naming import GroupAddress, group_address
from hopring.rmp.packing import Addressed, Packer, Unpacker, cluster_of
from hopring.wire.rmp.ids import PeerProcess
from hopring.wire.train import Packet, decode_train

if TYPE_CHECKING:
    from hopring.sealing.keys import KeyRing
    from hopring.sealing.peer_sealing import PeerSealing

_REMEDY: Final = "give an address of this host and a free port, or leave them out"

OnPacket = Callable[[GroupName, PacketArrived], None]


@dataclass(slots=True)
class GroupSocket:
    """What a peer has for one group; without an endpoint it hears no multicasts."""

    name: GroupName
    at: GroupAddress
    packer: Packer
    unpacker: Unpacker
    endpoint: UdpEndpoint | None


class PeerEndpoint:
    """Sends what rings send, and hands up packets of the groups that are open."""

    def __init__(
        self, loop: Loop, url: PeerUrl, nonce: int, on_packet: OnPacket, keys: "KeyRing | None" = None
    ) -> None:
        """Opens the unicast socket; ChannelRefused says why it cannot. With keys everything is sealed."""
        self.traffic = SocketCounters()
        """Counts only what was dropped here; the endpoints count the rest."""
        self.cut: frozenset[Address] = frozenset()
        """Nothing is sent to these processes by unicast, or taken from them: for tests of faults."""
        self.loss = 0.0
        """The share of datagrams that is lost on arrival: for tests of faults."""
        self._random = Random(nonce)
        self._loop, self._url, self._on_packet = loop, url, on_packet
        self._groups: dict[GroupName, GroupSocket] = {}
        self._by_cluster: dict[int, GroupSocket] = {}
        try:
            self._interface = url.interface or interface_of(url.address)
            self._unicast = UdpEndpoint(loop, (url.address, url.port), self._receive)
        except OSError as error:
            reason = f"{url.address}:{url.port}: {error.strerror or error}"
            raise ChannelRefused(reason, _REMEDY) from None
        self._ttl = url.ttl
        self._nonce = nonce
        self._sealing: PeerSealing | None = None
        if keys is not None:
            # Peers without keys do without the package that has ciphers.
            self._sealing = import_module("hopring.sealing.peer_sealing").PeerSealing(
                self.process, url.domain, keys
            )
        try:
            self._unicast.send_to_groups(MulticastGroup("239.0.0.0", 1, self._interface, url.ttl))
        except OSError as error:
            self._unicast.close()
            reason = f"interface {self._interface}: {error.strerror or error}"
            raise ChannelRefused(reason, "give &interface= one that `ip link` shows") from None

    @property
    def process(self) -> PeerProcess:
        """The process as packets name it."""
        return PeerProcess(int(IPv4Address(self._url.address)), self._unicast.address[1], self._nonce)

    @property
    def counters(self) -> SocketCounters:
        """The counters of all sockets that are open, and what was dropped here."""
        total = SocketCounters()
        heard = [one.endpoint for one in self._groups.values() if one.endpoint is not None]
        for traffic in (self.traffic, self._unicast.traffic, *[one.traffic for one in heard]):
            total.add(traffic)
        return total

    @property
    def buffers_bytes(self) -> tuple[int, int]:
        """The buffers of the unicast socket for sending and receiving, as the kernel has granted them."""
        return self._unicast.send_buffer_bytes, self._unicast.receive_buffer_bytes

    def hears(self, name: GroupName) -> bool:
        """Whether the multicasts of an open group are heard here."""
        return name in self._groups and self._groups[name].endpoint is not None

    def open(self, name: GroupName) -> bool:
        """Opens a group; returns whether its multicasts are heard here."""
        at = group_address(self._url.domain, name)
        endpoint = None
        try:
            if not self._url.multicast:
                raise OSError("multicast=no")
            group = MulticastGroup(at.host, at.port, self._interface, self._url.ttl)
            endpoint = UdpEndpoint(self._loop, group, self._receive)
        except OSError:
            pass  # It is told to the others, which send it unicasts.
        packer, unpacker = Packer(at.cluster, self._nonce), Unpacker(self._nonce)
        found = GroupSocket(name, at, packer, unpacker, endpoint)
        self._groups[name] = self._by_cluster[at.cluster] = found
        return endpoint is not None

    def keep(self, names: Iterable[GroupName]) -> None:
        """Closes all groups but these."""
        kept = set(names)
        for name in [one for one in self._groups if one not in kept]:
            found = self._groups.pop(name)
            if self._by_cluster.get(found.at.cluster) is found:
                del self._by_cluster[found.at.cluster]
            if found.endpoint is not None:
                found.endpoint.close()

    def close(self) -> None:
        """Closes all sockets of the peer."""
        self.keep(())
        self._unicast.close()

    def send(
        self, name: GroupName, effects: Iterable[RingEffect], ttl: int, members: Iterable[PeerProcess] = ()
    ) -> None:
        """Sends the packets of one turn of a group's ring.

        Who does not hear the multicasts of the group may not be heard by multicast either: its packets go to
        each of `members`, too.
        """
        group = self._groups[name]
        copies = [_address(one) for one in members if one != self.process] if group.endpoint is None else []
        for addressed in group.packer.pack(effects):
            self._transmit(group, addressed, ttl, copies)

    def send_onward(self, name: GroupName, ttl: int, deaf: Iterable[PeerProcess] | None) -> None:
        """Sends packets on for others to the group, and to members that hear no multicast; None drops them."""
        group = self._groups.get(name)
        if group is None or not group.unpacker.onward:
            return
        waiting, group.unpacker.onward[:] = list(group.unpacker.onward), []
        if deaf is None:
            return
        others = [one for one in deaf if one != self.process]
        for one in waiting:
            for addressed in group.packer.pack_onward(one, others):
                self._transmit(group, addressed, ttl, [])

    def use_keys(self, keys: "KeyRing") -> None:
        """Seals with other keys from now on; only a peer that has had keys gets any."""
        assert self._sealing is not None, "whether a peer seals is decided when it begins"
        self._sealing.use(keys)

    def _transmit(self, group: GroupSocket, addressed: Addressed, ttl: int, copies: list[Address]) -> None:
        trains = addressed.trains()
        if self._sealing is not None:
            trains = [sealed for one in trains for sealed in self._sealing.seal_train(group.at.cluster, one)]
        targets = [_address(addressed.to)] if addressed.to is not None else copies
        if addressed.to is None:
            self._use_ttl(ttl)
            targets = [(group.at.host, group.at.port), *targets]
        for address in targets:
            if address not in self.cut:
                for train in trains:
                    self._unicast.send(train, address)

    def _use_ttl(self, ttl: int) -> None:
        if ttl != self._ttl:
            self._ttl = ttl
            self._unicast.send_to_groups(MulticastGroup("239.0.0.0", 1, self._interface, ttl))

    def _receive(self, buffer: memoryview, segment_bytes: int, address: Address) -> None:
        """Datagrams end to end; those of other groups than the first one's are taken one by one."""
        if address[:2] in self.cut:
            return
        starts = range(0, len(buffer), segment_bytes)
        if self.loss:
            for start in starts:
                one = buffer[start : start + segment_bytes]
                if self._random.random() >= self.loss:
                    self._receive_train(one, len(one), address, cluster_of(one))
            return
        clusters = {cluster_of(buffer[start : start + segment_bytes]) for start in starts}
        if len(clusters) == 1:
            self._receive_train(buffer, segment_bytes, address, clusters.pop())
            return
        for start in starts:
            one = buffer[start : start + segment_bytes]
            self._receive_train(one, len(one), address, cluster_of(one))

    def _receive_train(self, buffer: memoryview, segment_bytes: int, address: Address, cluster: int) -> None:
        group = self._by_cluster.get(cluster)
        if group is None:
            self.traffic.dropped[Drop.CLUSTER] += 1
            return
        host, port = int(IPv4Address(address[0])), address[1]
        for packet in self._decoded(buffer, segment_bytes, cluster, host, port):
            if isinstance(packet, PeerError):
                self.traffic.dropped[packet.reason] += 1
                continue
            for one in group.unpacker.unpack(packet, host, port):
                if isinstance(one, PeerError):
                    self.traffic.dropped[one.reason] += 1
                else:
                    self._on_packet(group.name, one)

    def _decoded(
        self, buffer: memoryview, segment_bytes: int, cluster: int, host: int, port: int
    ) -> Iterator[Packet | PeerError]:
        """The packets of a train, which is opened first if this peer has keys."""
        if self._sealing is None:
            yield from decode_train(buffer, segment_bytes, cluster)
            return
        for start in range(0, len(buffer), segment_bytes):
            try:
                clear = self._sealing.open(bytes(buffer[start : start + segment_bytes]), host, port)
            except PeerError as error:
                yield error
                continue
            yield from decode_train(memoryview(clear), len(clear), cluster)


def _address(process: PeerProcess) -> Address:
    return str(IPv4Address(process.address)), process.port
