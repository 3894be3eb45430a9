"""An attacker on the simulated network: reads every datagram, and sends copies, changed ones and its own.

It has no cluster key. Copies arrive late, at their receiver, at their sender or at another daemon; changed ones
have one flipped bit; its own are clear text, or sealed with a key that the cluster does not have.
"""

from collections import deque
from typing import Final

from hopring.ids import DaemonId, Incarnation, Process
from hopring.sealing.keys import ClusterKey, KeyRing
from hopring.sealing.sealer import SealedCluster
from hopring.sealing.sealing import SECRET_BYTES, Sealing
from hopring.sim.engine import generator
from hopring.sim.network import Address, SentDatagram, SimNetwork

KEPT_MAX: Final = 256
SHARE: Final = 0.05
"""The share of datagrams that make the attacker act."""

LATE_US: Final = (0, 2_000, 50_000, 500_000, 3_000_000)
FOREIGN_KEY: Final = ClusterKey(bytes(32))


class Attacker:
    """Watches a network, and acts after a share of the datagrams."""

    def __init__(
        self, network: SimNetwork, addresses: dict[DaemonId, Address], cluster: SealedCluster, clear_head: bytes
    ) -> None:
        self.acts = 0
        self.acting = False
        """Whether what is being sent right now is its own."""
        self._network = network
        self._addresses = addresses
        self._cluster = cluster
        self._clear_head = clear_head
        self._dice = generator(network.seed, "attacker")
        self._kept: deque[SentDatagram] = deque(maxlen=KEPT_MAX)

    def see(self, sent: SentDatagram) -> None:
        """Looks at a datagram, and perhaps acts after it."""
        if not sent.fates or self._dice.random() >= SHARE:
            return
        self._kept.append(sent)
        when_us = self._network.engine.now_us + self._dice.choice(LATE_US)
        self._network.engine.at(when_us, self._act)

    def _act(self) -> None:
        dice, sent = self._dice, self._dice.choice(self._kept)
        self.acts += 1
        targets = sorted(self._addresses.values())
        receiver = Address(dice.choice(sent.fates)[0], sent.source.port)
        target = dice.choice([receiver, receiver, receiver, sent.source, dice.choice(targets)])
        match dice.randrange(6):
            case 0 | 1 | 2:
                datagram = sent.datagram
            case 3 | 4:
                changed = bytearray(sent.datagram)
                changed[dice.randrange(len(changed))] ^= 1 << dice.randrange(8)
                datagram = bytes(changed)
            case _:
                datagram = self._own(sent)
        # The source is forged; the receiver does not look at it.
        self.acting = True
        self._network.send(sent.source, target, datagram)
        self.acting = False

    def _own(self, sent: SentDatagram) -> bytes:
        """A packet that says what a real one could say, in the clear or under a foreign key."""
        body = self._clear_head + sent.datagram[-20:]
        if self._dice.random() < 0.5:
            return body
        daemon = self._dice.choice(sorted(self._addresses))
        secret, ring = bytes(SECRET_BYTES), KeyRing([FOREIGN_KEY], FOREIGN_KEY.id)
        liar = Sealing(Process(daemon, Incarnation(self._dice.getrandbits(64))), self._cluster, ring, secret)
        to = self._dice.choice(sorted(self._addresses))
        return liar.seal_datagram(body, to).buffer
