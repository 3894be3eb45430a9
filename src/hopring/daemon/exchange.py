"""The exchange: which port a datagram is for, and what becomes of one that is for none.

Every datagram is judged by its own header, in this order: cluster, sender, generation, incarnation. What a
correct peer of the present view would not have sent is counted under its reason and forgotten.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from hopring.daemon.traffic import Traffic
from hopring.daemon.udp_socket import Address
from hopring.errors import Drop, PeerError
from hopring.ids import DaemonId, Generation, Incarnation
from hopring.wire.header import Family, Header
from hopring.wire.train import Frame, Packet, decode_train


class Receiver(Protocol):
    """A port for datagrams."""

    def receive(self, sender: DaemonId, frames: Sequence[Frame]) -> None:
        """Takes a packet's frames in; raises PeerError if they cannot be."""


@dataclass(slots=True)
class _Seat:
    """Where packets of one sender and one family go, and which ones are not stale."""

    port: Receiver
    incarnation: Incarnation | None
    generation: Generation


class Exchange:
    """Takes in what the endpoints of one daemon receive; its `receive` is their callback."""

    def __init__(self, own: DaemonId, cluster: int) -> None:
        self.traffic = Traffic()
        """Counts only what was dropped here; the endpoints count the rest."""
        self._own = own
        self._cluster = cluster
        self._seats: dict[tuple[Family, DaemonId], _Seat] = {}

    def attach(
        self,
        port: Receiver,
        family: Family,
        generation: Generation,
        senders: Mapping[DaemonId, Incarnation | None],
    ) -> None:
        """Sends these daemons' packets of this generation to the port, and no longer to an older one.

        Where an incarnation is not known yet, the first packet tells it.
        """
        for sender, incarnation in senders.items():
            self._seats[family, sender] = _Seat(port, incarnation, generation)

    def detach(self, port: Receiver) -> None:
        """Sends nothing more to the port."""
        self._seats = {key: seat for key, seat in self._seats.items() if seat.port is not port}

    def receive(self, buffer: memoryview, segment_bytes: int, _address: Address) -> None:
        """Sorts a buffer of datagrams."""
        for packet in decode_train(buffer, segment_bytes, self._cluster):
            try:
                self._hand_over(packet)
            except PeerError as error:
                self.traffic.dropped[error.reason] += 1

    def _hand_over(self, packet: Packet | PeerError) -> None:
        if isinstance(packet, PeerError):
            raise packet
        header = packet.header
        if header.sender != self._own:  # A group sends us back what we sent.
            self._port_for(header).receive(header.sender, packet.frames)

    def _port_for(self, header: Header) -> Receiver:
        seat = self._seats.get((header.family, header.sender))
        if seat is None:
            raise PeerError(Drop.FOREIGN_SENDER, f"no {header.family.name} link to daemon {header.sender}")
        if seat.generation != header.generation:
            raise PeerError(Drop.STALE_GENERATION, f"generation {header.generation:#x}")
        if seat.incarnation is None:
            seat.incarnation = header.incarnation
        if seat.incarnation != header.incarnation:
            raise PeerError(Drop.STALE_INCARNATION, f"incarnation {header.incarnation:#x}")
        return seat.port
