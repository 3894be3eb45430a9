"""One process on a simulated host that calls the ring without being a member.

Below       the stranger of the engine, datagrams of the simulated network.
Above       the workload, which lets it call; the run, which asks what has not ended.
Invariants  every call has a ticket and ends once; what it sends is noted before it leaves.
"""

from collections import Counter
from typing import TYPE_CHECKING, Final

from hopring.check.rmp.observer import body_of
from hopring.errors import PeerError
from hopring.rmp.calls.events import (
    CallAcknowledged,
    CallAnswered,
    CallFailed,
    StrangerInput,
    StrangerOutput,
    SubmitCall,
)
from hopring.rmp.calls.stranger import Stranger, StrangerOptions
from hopring.rmp.events import RingEffect
from hopring.rmp.flow.flow import SenderFlow
from hopring.rmp.packing import Packer, Unpacker
from hopring.services import Service
from hopring.sim.driver import Driver
from hopring.sim.engine import generator
from hopring.sim.network import Address
from hopring.sim.rmp.peer import CLUSTER, GROUP_PATH
from hopring.wire.rmp.ids import PeerProcess
from hopring.wire.rmp.packets import NO_HANDLER, NonMemberData
from hopring.wire.train import decode

if TYPE_CHECKING:
    from hopring.sim.rmp.rings import SimRings

STRANGER_PORT: Final = 4894


class SimStranger:
    """One life of a process that calls, from its start to its crash."""

    def __init__(self, rings: "SimRings", name: str, life: int, via: tuple[PeerProcess, ...]) -> None:
        """`via` has the members that are asked to send its packets on; empty: it sends to the group."""
        self.rings = rings
        self.name = name
        self.label = name if life == 1 else f"{name}.{life}"
        nonce = generator(rings.network.seed, f"nonce {name} {life}").getrandbits(63) | 1
        self.process = PeerProcess(rings.host_number(name), STRANGER_PORT, nonce)
        self.address = Address(name, STRANGER_PORT)
        self.drops: list[PeerError] = []
        self.open: dict[int, SubmitCall] = {}  # By ticket: calls that have not ended.
        self.ended: Counter[str] = Counter()  # How calls have ended.
        self._tickets = 0
        self._effects: list[RingEffect] = []
        self._packer = Packer(CLUSTER, nonce)
        self._unpacker = Unpacker(nonce)
        self.core = Stranger(self.process, "ring", StrangerOptions(via=via), SenderFlow())
        self._name_life()
        self.driver: Driver[StrangerInput, StrangerOutput] = Driver(
            rings.network, name, self.core, self._carry_out, self._flush
        )
        rings.network.bind(self.address, self._receive)

    def _name_life(self) -> None:
        """The engine's lives have names of their own: their packets are numbered anew."""
        label = f"{self.label}-{self.core.lives}" if self.core.lives else self.label
        self.rings.observer.name_stranger(self.core.life, label)

    def call(self, service: Service, size: int, timeout_us: int, resilience: int, handler: int) -> None:
        """Calls the group; with a handler its holder is to answer."""
        self._tickets += 1
        body = body_of(f"call {self._tickets} of {self.label}", size)
        wish = SubmitCall(service, body, timeout_us, resilience, handler, ticket=self._tickets)
        if not service.loose:
            self.open[self._tickets] = wish
        self.driver.step(wish)

    @property
    def may_call(self) -> bool:
        """Whether the engine takes another call."""
        return self.core.open

    @property
    def unfinished(self) -> int:
        """How many calls have not ended, or are still sent again for the sake of those behind them."""
        return len(self.open) + sum([one.told for one in self.core.calls.values()])

    def _receive(self, source: Address, datagram: bytes) -> None:
        try:
            decoded = decode(datagram, CLUSTER)
        except PeerError as error:
            self.drops.append(error)
            return
        for one in self._unpacker.unpack(decoded, self.rings.host_number(source.host), source.port):
            if isinstance(one, PeerError):
                self.drops.append(one)
            else:
                self.driver.step(one)

    def _carry_out(self, output: StrangerOutput) -> None:
        match output:
            case CallAcknowledged(ticket=ticket):
                self.ended["acknowledged"] += 1
                if ticket in self.open and self.open[ticket].handler == NO_HANDLER:
                    del self.open[ticket]
            case CallAnswered(ticket=ticket):
                self.ended["answered"] += 1
                self.open.pop(ticket, None)
            case CallFailed(ticket=ticket):
                self.ended["failed"] += 1
                self.open.pop(ticket, None)
            case _:
                self._name_life()
                if isinstance(output.packet, NonMemberData):
                    self.rings.observer.called(output.packet)
                self._effects.append(output)

    def _flush(self) -> None:
        effects, self._effects = self._effects, []
        network = self.rings.network
        for one in self._packer.pack(effects):
            for datagram in [datagram for train in one.trains() for datagram in train.datagrams()]:
                if one.to is None:
                    network.multicast(self.address, GROUP_PATH, datagram)
                else:
                    target = Address(self.rings.host_of(one.to), one.to.port)
                    network.send(self.address, target, datagram)

    def crash(self) -> None:
        """Ends the process at once; its calls end with it."""
        self.driver.stop()
