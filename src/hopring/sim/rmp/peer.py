"""One process with a ring on a simulated host: it packs what the ring sends, and unpacks what arrives.

Below       the ring of one group, datagrams of the simulated network.
Above       the peers of a world, which start, crash and stop them; the workload, which asks for things.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from hopring.check.rmp.observer import body_of
from hopring.check.rmp.peer_events import (
    AskedToJoin,
    AskedToLeave,
    DataLeft,
    DataSent,
    PacketSentAgain,
    PeerStarted,
    RingStayEnded,
    WindowSeen,
)
from hopring.errors import PeerError
from hopring.links.events import Tick
from hopring.rmp.events import (
    AnswerRequested,
    JoinFailed,
    LeaveRing,
    ListInstalled,
    MulticastPacket,
    PacketArrived,
    RemovedFromRing,
    RingEffect,
    RingInput,
    RingLeft,
    RingLockEnded,
    RingLockGranted,
    RingOutput,
    RingStalled,
    RingSuspended,
    SubmitData,
    SubmitReply,
    UnicastPacket,
)
from hopring.rmp.lists.locks import first_fence
from hopring.rmp.packing import Addressed, Packer, Unpacker
from hopring.rmp.ring import open_ring
from hopring.services import Service
from hopring.sim.driver import Driver
from hopring.sim.engine import generator
from hopring.sim.network import Address
from hopring.wire.rmp.ids import DataId, PeerProcess
from hopring.wire.rmp.lists import MINIMUM_MAJORITY
from hopring.wire.rmp.packets import (
    NO_HANDLER,
    AckPacket,
    ConfirmPacket,
    DataPacket,
    NewListKind,
    NewListPacket,
    NonMemberData,
    RecoveryAbort,
    RmpPacket,
)
from hopring.wire.train import decode

if TYPE_CHECKING:
    from hopring.sim.rmp.rings import SimRings

PEER_PORT: Final = 4893
GROUP_PATH: Final = "ring"
"""The multicast group of the simulated network."""

CLUSTER: Final = 0x51AB1E


@dataclass(slots=True)
class PeerClaims:
    """The claims of locks of a peer: what it has asked for, and what it holds."""

    serial: int = 0
    open: dict[int, str] = field(default_factory=dict)  # By serial: the lock.
    held: dict[int, str] = field(default_factory=dict)


class SimPeer:
    """One life of a peer, from its start to its crash."""

    def __init__(self, rings: "SimRings", name: str, life: int) -> None:
        self.rings = rings
        self.name = name
        self.label = name if life == 1 else f"{name}.{life}"
        nonce = generator(rings.network.seed, f"nonce {name} {life}").getrandbits(63) | 1
        self.process = PeerProcess(rings.host_number(name), PEER_PORT, nonce)
        self.address = Address(name, PEER_PORT)
        self.wish = rings.wishes[name]
        self.installed: ListInstalled | None = None
        self.wants = False  # Whether it has asked to be in the ring.
        self.leaving = False
        self.suspended = False
        self.claims = PeerClaims()
        self.datagrams = 0
        self.drops: list[PeerError] = []
        self._numbers = {True: 0, False: 0}  # Of the last message, loose or not.
        self._effects: list[RingEffect] = []
        self._packer = Packer(CLUSTER, nonce)
        self._unpacker = Unpacker(nonce)
        self._again: dict[object, int] = {}  # Own Data packets: how often a timer has sent them.
        self._in_tick = False
        self._sent = {True: 0, False: 0}  # Of the last own packet that has left, loose or not.
        self._has_sent = False
        self.observer = rings.observer
        self.observer.names[self.process] = self.label
        self.observer.note(PeerStarted(self.label, rings.engine.now_us))
        dice = generator(rings.network.seed, f"ring of {self.label}")
        self.ring = open_ring(self.process, "ring", rings.options, dice)
        self.driver: Driver[RingInput, RingOutput] = Driver(
            rings.network, name, self, self._carry_out, self._flush
        )
        rings.network.bind(self.address, self._receive)
        if self.wish.capable:
            rings.network.join(GROUP_PATH, self.address)
        rings.network.host(name).stalled = self._stalled

    # The layer that the driver runs: the ring, with a note whether a timer has come due.

    @property
    def wake_at_us(self) -> int:
        """The time of the ring's next Tick."""
        return self.ring.wake_at_us

    def step(self, event: RingInput | Tick, now_us: int) -> Sequence[RingOutput]:
        """Hands an event to the ring."""
        self._in_tick = isinstance(event, Tick)
        return self.ring.step(event, now_us)

    # Requests.

    def join(self) -> None:
        """Asks to be in the ring; where founding has to be asked for, only its first life and join does."""
        if self.wants or self.label != self.name:
            self.wish = replace(self.wish, found=self.wish.found and self.wish.minimum < MINIMUM_MAJORITY)
        # The clock of the run is the wall clock of all.
        self.wish = replace(self.wish, fence=first_fence(self.rings.engine.now_us // 1_000))
        self.wants = True
        self.leaving = False
        self.observer.note(AskedToJoin(self.label, self.rings.engine.now_us, self.wish.minimum))
        self.driver.step(self.wish)

    def leave(self) -> None:
        """Asks to leave the ring that it is in."""
        assert self.installed is not None, "only a member leaves"
        self.wants = False
        self.leaving = True
        self.observer.note(AskedToLeave(self.label, self.rings.engine.now_us))
        self.driver.step(LeaveRing())

    def send(self, service: Service, size: int, resilience: int = 0, handler: int = NO_HANDLER) -> None:
        """Sends a message that names itself; with a handler its holder is asked to answer."""
        self._numbers[service.loose] += 1
        number = self._numbers[service.loose]
        message = f"{self.label}:{'u' if service.loose else ''}{number}"
        self.observer.note(DataSent(self.label, self.rings.engine.now_us, message, service, resilience))
        self.driver.step(SubmitData(service, body_of(message, size), resilience, handler, number))

    @property
    def may_send(self) -> bool:
        """Whether it is a member and means to stay, and its ring takes more."""
        return self.installed is not None and not self.leaving and self.ring.queue_open

    # Between the ring and the network.

    def _receive(self, source: Address, datagram: bytes) -> None:
        try:
            decoded = decode(datagram, CLUSTER)
        except PeerError as error:
            self.drops.append(error)
            return
        for one in self._unpacker.unpack(decoded, self.rings.host_number(source.host), source.port):
            if isinstance(one, PeerError):
                self.drops.append(one)
                continue
            if isinstance(one.packet, NonMemberData):
                self._send_on()
            self._answered(one)
            self.observer.arrived(self.process, one.packet, one.epoch)
            before = self.ring.snapshot() if isinstance(one.packet, RecoveryAbort) else None
            try:
                self.driver.step(one)
            except PeerError as error:
                self.drops.append(error)
            if before is not None and isinstance(one.packet, RecoveryAbort):
                self.observer.aborted(self.label, one.packet, before, self.ring.snapshot())

    def _send_on(self) -> None:
        """Sends packets of others on to the group, and to members that hear no multicast."""
        waiting, self._unpacker.onward[:] = list(self._unpacker.onward), []
        members = () if self.installed is None else self.installed.list.members
        deaf = [one.process for one in members if not one.capable and one.process != self.process]
        for one in waiting:
            self.observer.sent_on(self.process, one.packet)
            self._transmit(self._packer.pack_onward(one, deaf))

    def _answered(self, arrived: PacketArrived) -> None:
        """Somebody is there who can be waited for, so packets may be sent anew."""
        if isinstance(arrived.packet, AckPacket | NewListPacket | ConfirmPacket):
            self._again.clear()

    def _carry_out(self, output: RingOutput) -> None:
        if isinstance(output, MulticastPacket | UnicastPacket):
            self.observer.sent(self.process, output.packet, output.epoch)
            packet = output.packet
            if isinstance(packet, NewListPacket) and packet.kind is NewListKind.RECOVERED:
                self.observer.proposed(self.process, packet, self.ring.snapshot().members)
            elif isinstance(packet, RecoveryAbort):
                self.observer.aborts(self.process, packet, self.ring.snapshot())
            self._note_leaving(packet)
            self._count(output)
            self._effects.append(output)
            return
        before = self.installed
        if isinstance(output, ListInstalled):
            self.installed, self.suspended = output, False
            self._again.clear()
        # What is delivered comes in the list before, also what ends the stay in it.
        self.observer.told(self.process, output, before if before is not None else self.installed)
        match output:
            case RingLeft() | RemovedFromRing():
                self.installed = None
                self.suspended = False
                self.claims = PeerClaims(self.claims.serial)
                self.rings.ended(self, output)
            case JoinFailed():
                self.rings.ended(self, output)
            case RingSuspended():
                self.suspended = True
            case AnswerRequested(stranger=True):
                # Some programs take their time to answer, and some answers come when the caller is gone.
                think_us = 200 * (output.timestamp % 40)
                answer_us = self.rings.engine.now_us + think_us
                self.rings.network.timer(self.name, answer_us, self._answer, output.id)
            case RingLockGranted():
                self.claims.held[output.serial] = output.lock
            case RingLockEnded():
                self.claims.open.pop(output.serial, None)
                self.claims.held.pop(output.serial, None)
            case _:
                pass

    def _answer(self, call: DataId) -> None:
        if self.rings.hosts.get(self.name) is self:
            self.driver.step(SubmitReply(call, body_of(f"reply of {self.label}", 40)))

    def _count(self, output: RingEffect) -> None:
        """How often timers send one Data packet; members that lack it ask for it as often as they like."""
        packet = output.packet
        if not (self._in_tick and isinstance(packet, DataPacket) and isinstance(output, MulticastPacket)):
            return
        times = self._again[packet.id] = self._again.get(packet.id, 0) + 1
        allowed = self.rings.options.tries_max + 1
        if packet.id.source == self.process and times > allowed:
            what, now_us = f"Data {packet.id.seq}", self.rings.engine.now_us
            self.observer.note(PacketSentAgain(self.label, now_us, what, times, allowed))

    def _flush(self) -> None:
        effects, self._effects = self._effects, []
        if not effects:
            return
        self._note_window()
        self._transmit(self._packer.pack(effects))

    def _transmit(self, packed: Iterable[Addressed]) -> None:
        network = self.rings.network
        for one in packed:
            datagrams = [datagram for train in one.trains() for datagram in train.datagrams()]
            self.datagrams += len(datagrams)
            target = None if one.to is None else Address(self.rings.host_of(one.to), one.to.port)
            for datagram in datagrams:
                if target is None:
                    network.multicast(self.address, GROUP_PATH, datagram)
                else:
                    network.send(self.address, target, datagram)

    def _note_leaving(self, packet: RmpPacket) -> None:
        """Notes own Data that leaves for the first time."""
        if not isinstance(packet, DataPacket) or packet.id.source != self.process:
            return
        if packet.id.seq > self._sent[packet.service.loose]:
            self._sent[packet.service.loose] = packet.id.seq
            message = self.observer.message(packet.id, packet.service)
            self.observer.note(DataLeft(self.label, self.rings.engine.now_us, message))
            self._has_sent = self._has_sent or not packet.service.loose

    def _note_window(self) -> None:
        """What is under way after own Data has left."""
        if self._has_sent:
            self._has_sent = False
            flow = self.ring.snapshot().flow
            now_us = self.rings.engine.now_us
            self.observer.note(WindowSeen(self.label, now_us, flow.flight_bytes, flow.window_bytes))

    def _stalled(self, for_us: int) -> None:
        self._again.clear()  # Others could not answer while this host stood still.
        self.driver.step(RingStalled(for_us))

    def crash(self) -> None:
        """Ends the process at once, without a word to anybody."""
        self.driver.stop()
        self.observer.note(RingStayEnded(self.label, self.rings.engine.now_us, "crash"))
