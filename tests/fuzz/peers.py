"""Fuzzes peers with spoiled real packets: `python -m tests.fuzz.peers --seed N --packets 1000000`.

Worlds of the campaign run with their faults, load and callers, and everything between peers is sealed with a
key. Half of the packets come from an attacker without the key: changed copies of sealed datagrams, clear text,
and datagrams under a key of its own. The other half is sealed rightly and wrong inside, in bytes or in one
field of a packet, in the name of whichever process has sent it.

Required    nothing but PeerError comes of any packet, no world goes on for ever, and memory stays flat. What
            the attacker sends is refused, and worlds under its packets keep all properties. Peers with sockets
            go on under them. Most of what is sealed rightly is decoded. Who has the key may end a group, so
            there is no verdict on those worlds; in a part of them all peers share one ring in the end.
"""

import argparse
import sys
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final

from tests.fuzz.harness import Meter, memory_bytes
from tests.fuzz.peer_packets import PacketSpoiler, packets_of
from tests.fuzz.peer_sockets import fuzz_sockets

from hopring.check.properties.property import Verdict
from hopring.errors import PeerError
from hopring.rmp.packing import cluster_of
from hopring.sealing.keys import ClusterKey, KeyRing
from hopring.sealing.peer_sealing import PeerSealing
from hopring.sim.campaign.fault_schedule import CHAOS_US
from hopring.sim.campaign.rmp.ring_runner import RingRun
from hopring.sim.campaign.rmp.ring_world import draw_ring_world
from hopring.sim.engine import generator
from hopring.sim.network import Address, SentDatagram
from hopring.sim.rmp.peer import CLUSTER, SimPeer
from hopring.sim.rmp.stranger import SimStranger
from hopring.wire.rmp.ids import PeerProcess

DOMAIN: Final = "fuzz"
KEPT_MAX: Final = 128
LATE_US: Final = (0, 0, 300, 5_000, 100_000, 1_000_000)
EACH: Final = (1, 2)
"""Draws of the wrong packets that follow each right one."""

DECODED_SHARE_MIN: Final = 0.5
ONE_RING_SHARE_MIN: Final = 0.25

_SECRETS: Final = ClusterKey(bytes(range(32))), ClusterKey(bytes(32))
KEYS, FOREIGN_KEYS = (KeyRing([one], one.id) for one in _SECRETS)


class FuzzFailed(Exception):
    """A requirement is not met."""


@dataclass(slots=True)
class Gate:
    """The sealed end of one process."""

    process: PeerProcess
    receive: Callable[[Address, bytes], None]
    sealing: PeerSealing
    refused: Counter[str]

    def take(self, source: Address, place: PeerProcess, sealed: bytes) -> bool:
        """Opens a datagram, and hands it up; returns whether it could be opened."""
        try:
            clear = self.sealing.open(sealed, place.address, place.port)
        except PeerError as error:
            self.refused[error.reason] += 1
            return False
        self.receive(source, clear)
        return True


@dataclass(slots=True)
class PeerFuzzTotals:
    """What all worlds of a run have shown."""

    packets: Counter[bool] = field(default_factory=Counter)  # Whether they were sealed rightly.
    decoded: int = 0
    refused: Counter[str] = field(default_factory=Counter)  # By the seal.
    worlds: Counter[bool] = field(default_factory=Counter)
    rejoined: int = 0  # Worlds with packets that were sealed rightly, whose peers shared one ring in the end.

    @property
    def decoded_share(self) -> float:
        """The share of rightly sealed packets that decoders accept."""
        return self.decoded / max(1, self.packets[True])

    @property
    def one_ring_share(self) -> float:
        """The share of worlds under rightly sealed packets that came to one ring."""
        return self.rejoined / max(1, self.worlds[True])


class FuzzedWorld:
    """One world of peers, under packets of one kind."""

    def __init__(self, seed: int, inside: bool, totals: PeerFuzzTotals) -> None:
        self.run = RingRun(draw_ring_world(seed))
        self._inside, self._totals = inside, totals
        self._dice = generator(seed, "wrong packets")
        self._spoiler = PacketSpoiler(self._dice)
        self._gates: dict[Address, Gate] = {}
        self._kept: deque[tuple[Address, bytes, bytes]] = deque(maxlen=KEPT_MAX)
        self.run.rings.network.on_send = self._see

    def live(self) -> list[Verdict]:
        """Runs the world to its end; returns the broken properties, if nobody lied."""
        self.run.live()
        return [] if self._inside else list(self.run.judge().broken)

    @property
    def in_one_ring(self) -> bool:
        """Whether all peers share a list."""
        hosts = self.run.rings.hosts.values()
        lists = {None if one.installed is None else one.installed.list.id for one in hosts}
        first = next(iter(hosts)).installed
        here = {one.process for one in hosts}
        return len(lists) == 1 and first is not None and here <= set(first.list.processes)

    def _see(self, sent: SentDatagram) -> None:
        """A right datagram is sent: a few wrong ones follow it."""
        self._close_gates()
        engine, dice = self.run.rings.engine, self._dice
        if sent.source not in self._gates or engine.now_us > CHAOS_US:
            return
        sealed = self._gates[sent.source].sealing.seal(CLUSTER, sent.datagram)
        self._kept.append((sent.source, sent.datagram, sealed))
        self._spoiler.see(sent.datagram)
        for _ in range(dice.choice(EACH)):
            engine.after(dice.choice(LATE_US), self._forge if self._inside else self._attack)

    def _close_gates(self) -> None:
        """Every process that has begun gets its seal, and opens what comes."""
        rings = self.run.rings
        for one in self._living():
            known = self._gates.get(one.address)
            if known is None or known.process != one.process:
                ports = rings.network.host(one.name).ports
                sealing = PeerSealing(one.process, DOMAIN, KEYS)
                gate = Gate(one.process, ports[one.address.port], sealing, self._totals.refused)
                self._gates[one.address] = gate
                ports[one.address.port] = self._sealed_end(gate)

    def _living(self) -> list[SimPeer | SimStranger]:
        rings = self.run.rings
        return [*rings.hosts.values(), *rings.strangers.values()]

    def _sealed_end(self, gate: Gate) -> Callable[[Address, bytes], None]:
        def receive(source: Address, datagram: bytes) -> None:
            sender = self._gates[source]
            opened = gate.take(source, sender.process, sender.sealing.seal(CLUSTER, datagram))
            assert opened, "what was sealed rightly can be opened"

        return receive

    def _targets(self) -> list[Address]:
        """Those that run; one in five packets comes to all of them."""
        rings = self.run.rings
        living = [one.address for one in self._living()]
        living = [
            one for one in living if one in self._gates and one.port in rings.network.host(one.host).ports
        ]
        return living if self._dice.random() < 0.2 else self._dice.sample(living, min(1, len(living)))

    def _forge(self) -> None:
        """A wrong packet, sealed by the process that sent the right one."""
        source, datagram, _ = self._dice.choice(self._kept)
        by_field = self._dice.random() < 0.7
        wrong = self._spoiler.field_of(datagram) if by_field else [self._spoiler.bytes_of(datagram)]
        for one in wrong:
            self._totals.packets[True] += 1
            self._totals.decoded += bool(packets_of(one))
            sender = self._gates[source]
            for target in self._targets():
                taken = self._gates[target].take(source, sender.process, sender.sealing.seal(CLUSTER, one))
                assert taken, "what was sealed rightly can be opened"

    def _attack(self) -> None:
        """A packet of somebody without the key."""
        source, datagram, sealed = self._dice.choice(self._kept)
        sender = self._gates[source].process
        kind = self._dice.randrange(4)
        if kind == 0:
            wrong = datagram if self._dice.random() < 0.5 else self._spoiler.bytes_of(datagram)
        elif kind == 1:
            wrong = PeerSealing(sender, DOMAIN, FOREIGN_KEYS).seal(CLUSTER, datagram)
        elif kind == 2:
            wrong, sender = sealed, sender._replace(port=sender.port ^ 1)
        else:
            wrong = self._spoiler.bytes_of(sealed)
        self._totals.packets[False] += 1
        cluster_of(wrong)  # By this a socket finds the group.
        for target in self._targets():
            if self._gates[target].take(source, sender, wrong) and wrong != sealed:
                raise FuzzFailed(f"a datagram of an attacker was taken: {wrong.hex()}")


def fuzz_world(seed: int, inside: bool, totals: PeerFuzzTotals) -> None:
    """Runs one world; FuzzFailed names the seed, and what went wrong."""
    world = FuzzedWorld(seed, inside, totals)
    totals.worlds[inside] += 1
    try:
        verdicts = world.live()
    except Exception as error:
        raise FuzzFailed(
            f"seed {seed}, {'sealed rightly' if inside else 'without the key'}: {error!r}"
        ) from error
    names = [one.property for one in verdicts]
    if not inside and names:
        raise FuzzFailed(f"seed {seed}: packets without the key break {names}: {verdicts[0].witness}")
    totals.rejoined += inside and world.in_one_ring


def fuzz_peers(seed: int, packets: int) -> PeerFuzzTotals:
    """As many packets as asked for, over as many worlds as that takes."""
    totals, dice = PeerFuzzTotals(), Random(seed)
    meter = Meter("peers", packets, memory_bytes)
    inside = False
    while (done := totals.packets.total()) < packets:
        fuzz_world(dice.randrange(1, 1_000_000), inside, totals)
        inside = not inside
        meter.check(done)
    return totals


def main() -> int:
    """Reads the command line; the exit code is 1 if a requirement is not met."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.peers", description="Fuzzes peers.")
    parser.add_argument("--packets", type=int, default=1_000_000)
    parser.add_argument("--socket-packets", type=int, default=50_000, help="for peers with sockets")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    try:
        totals = fuzz_peers(arguments.seed, arguments.packets)
        refused = fuzz_sockets(arguments.seed, arguments.socket_packets)
    except FuzzFailed as failed:
        print(f"\nseed {arguments.seed}: {failed}", file=sys.stderr)
        return 1
    told = f"{totals.packets[False]} without the key, {totals.packets[True]} sealed rightly"
    shares = (
        f"{totals.decoded_share:.0%} of these decoded, {totals.one_ring_share:.0%} of their worlds in one ring"
    )
    print(f"\npeers: {told}; {shares}; refused: {dict(totals.refused)}", file=sys.stderr)
    print(f"sockets: {arguments.socket_packets} packets without the key; refused: {refused}", file=sys.stderr)
    enough = totals.decoded_share >= DECODED_SHARE_MIN and totals.one_ring_share >= ONE_RING_SHARE_MIN
    return 0 if enough else 1


if __name__ == "__main__":
    sys.exit(main())
