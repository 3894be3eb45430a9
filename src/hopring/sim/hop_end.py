"""One end of a Hop link on a simulated host."""

from hopring.errors import Drop, PeerError
from hopring.ids import DaemonId, Incarnation
from hopring.links import hop
from hopring.links.events import Deliver, LinkFailed, Submit, Transmit
from hopring.sim.drive import Driver
from hopring.sim.ends import DatagramEnd, Place
from hopring.sim.host import Address
from hopring.wire.data import Data, Segment
from hopring.wire.hop import Ack, Nack
from hopring.wire.train import Frame


class HopEnd(DatagramEnd):
    """One end of a Hop link."""

    def __init__(self, place: Place, peer: Address, peers: dict[DaemonId, Incarnation], link: hop.Hop) -> None:
        super().__init__(place, peers, link.options.segment_bytes)
        self.link = link
        self._peer = peer
        self._driver: Driver[hop.Input, hop.Output] = Driver(
            place.network, place.address.host, link, self._carry_out
        )

    @property
    def object_bytes_max(self) -> int:
        """The largest encoded object that the link takes."""
        return self.link.object_bytes_max

    def close(self) -> None:
        """Stops the link and gives its port back."""
        self._driver.stop()
        self.place.network.unbind(self.place.address)

    def hand_in(self, submit: Submit) -> None:
        """Gives the link an object."""
        self._driver.step(submit)

    def take(self, _sender: DaemonId, frame: Frame) -> None:
        """Hands a frame of the Hop family to the link."""
        match frame:
            case Data() | Segment() | Ack() | Nack():
                self._driver.step(frame)
            case _:
                raise PeerError(Drop.UNKNOWN_TYPE, f"{type(frame).__name__} on a Hop link")

    def _carry_out(self, output: hop.Output) -> None:
        match output:
            case Transmit(frames=frames):
                for datagram in self.datagrams(frames):
                    self.place.network.send(self.place.address, self._peer, datagram)
            case Deliver(payload=payload):
                self.deliver(payload)
            case LinkFailed(reason=reason):
                self.fail(reason)
