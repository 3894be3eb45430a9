"""A member of a ring on a simulated host, with a stand-in for the layer that stamps.

Objects wait here for the token, as they do in the ordering layer, and leave with the `Release` that answers a
`Visit`; urgent ones go in by `Submit`. The stand-in's stamps count objects and nothing else.
"""

from collections import deque

from hopring.errors import Drop, PeerError
from hopring.ids import DaemonId, Incarnation
from hopring.links import ring
from hopring.links.events import Deliver, LinkFailed, Submit, Transmit
from hopring.links.ring_events import FromMember, Passed, Release, TransmitTo, Visit, Wish
from hopring.links.ring_packing import Room
from hopring.sim.drive import Driver
from hopring.sim.ends import DatagramEnd, Place
from hopring.sim.host import Address
from hopring.wire.data import Data, Segment
from hopring.wire.ring import Held, Hurry, Token
from hopring.wire.train import Frame


class RingMember(DatagramEnd):
    """One member; the others are reached by multicast to the ring, or each by itself."""

    def __init__(
        self,
        place: Place,
        addresses: dict[DaemonId, Address],
        peers: dict[DaemonId, Incarnation],
        link: ring.Ring,
    ) -> None:
        super().__init__(place, peers, link.options.segment_bytes)
        self.link = link
        self.site_aru = 0
        self._addresses = addresses
        self._unstamped: deque[bytes] = deque()
        place.network.join(place.link, place.address)
        self._driver: Driver[ring.Input, ring.Output] = Driver(
            place.network, place.address.host, link, self._carry_out
        )

    @property
    def object_bytes_max(self) -> int:
        """The largest encoded object that goes in one packet of this member."""
        return self.link.packet_bytes

    def close(self) -> None:
        """Stops the link and gives its port and its place in the group back."""
        self._driver.stop()
        self.place.network.unbind(self.place.address)
        self.place.network.leave(self.place.link, self.place.address)

    def hand_in(self, submit: Submit) -> None:
        """Gives the ring an urgent object at once, and others when the token is here."""
        if submit.urgent:
            self._driver.step(submit)
            return
        self._unstamped.append(submit.payload)
        self._driver.step(Wish())

    def take(self, sender: DaemonId, frame: Frame) -> None:
        """Hands a frame of the Ring family to the ring."""
        match frame:
            case Data() | Segment() | Token() | Hurry() | Held():
                self._driver.step(FromMember(sender, frame))
            case _:
                raise PeerError(Drop.UNKNOWN_TYPE, f"{type(frame).__name__} on a ring")

    def _carry_out(self, output: ring.Output) -> None:
        place = self.place
        match output:
            case Transmit(frames=frames):
                for datagram in self.datagrams(frames):
                    place.network.multicast(place.address, place.link, datagram)
            case TransmitTo(member=member, frames=frames):
                for datagram in self.datagrams(frames):
                    place.network.send(place.address, self._addresses[member], datagram)
            case Deliver(payload=payload):
                self.deliver(payload)
            case Visit():
                self._release(output)
            case Passed(number=_number, site_aru=site_aru):
                self.site_aru = site_aru
            case LinkFailed(reason=reason):
                self.fail(reason)

    def _release(self, visit: Visit) -> None:
        """Stamps what fits in the visit and wishes for another if something is left."""
        objects: list[bytes] = []
        options = self.link.options
        room = Room(visit.room_segments, options.packet_bytes, options.chunk_bytes)
        while self._unstamped and room.takes(len(self._unstamped[0]), len(self._unstamped[0])):
            objects.append(self._unstamped.popleft())
        stamp = visit.site_lts + len(objects)
        left = bool(self._unstamped)
        self._driver.step(
            Release(visit.site_seq + len(objects), stamp, local_aru=stamp, objects=tuple(objects), busy=left)
        )
