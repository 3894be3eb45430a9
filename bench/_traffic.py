"""What the daemons of a simulated cluster send, by what it is and by whom."""

from collections import Counter
from dataclasses import dataclass, field

from hopring.sim.cluster import CLUSTER
from hopring.sim.network import Sending
from hopring.wire.data import Data
from hopring.wire.header import Family
from hopring.wire.ring import Token
from hopring.wire.train import decode


@dataclass(slots=True)
class Traffic:
    """What was sent in some time: a multicast is one send, and a datagram for each who hears it."""

    duration_us: int = 0
    datagrams: int = 0
    kinds: Counter[str] = field(default_factory=Counter)  # Sends, by what they hold.
    busy: Counter[str] = field(default_factory=Counter)  # By daemon: what it sent and what was for it.

    def note(self, sending: Sending) -> None:
        """One more."""
        packet = decode(sending.datagram, CLUSTER)
        self.kinds[_kind(packet.header.family, {type(frame) for frame in packet.frames})] += 1
        self.datagrams += len(sending.fates)
        self.busy[sending.source.host] += 1
        self.busy.update([host for host, _ in sending.fates])

    def each_message(self, messages: int, idle: "Traffic") -> dict[str, float]:
        """What each message took, above what silence takes in the same time."""
        silence = self.duration_us / idle.duration_us
        kinds = {kind: self.kinds[kind] - idle.kinds[kind] * silence for kind in sorted(self.kinds)}
        busiest = max([self.busy[name] - idle.busy[name] * silence for name in self.busy])
        figures = {"datagrams": self.datagrams - idle.datagrams * silence, "busiest_daemon": busiest}
        return {name: round(count / messages, 1) for name, count in (figures | kinds).items()}

    def each_second(self) -> dict[str, float]:
        """Of silence."""
        figures = {"datagrams": self.datagrams, "busiest_daemon": max(self.busy.values())}
        return {
            name: round(count * 1e6 / self.duration_us, 1) for name, count in (figures | self.kinds).items()
        }


def _kind(family: Family, frames: set[type]) -> str:
    if family is Family.RING:
        return "tokens" if frames == {Token} else "on_rings" if Data in frames else "of_tokens"
    if family is Family.MEMBERSHIP:
        return "words"
    return "on_links" if Data in frames else "acks"
