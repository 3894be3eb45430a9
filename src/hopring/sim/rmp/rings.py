"""The peers of a world in virtual time: every one with its real ring, on a faulty network.

Below       rings, their drivers, the simulated network.
Above       the campaign, which starts and crashes peers, and tests that measure what a ring sends.
Invariants  the run depends on the seed alone; a peer that starts again is another process.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from hopring.check.rmp.observer import RingObserver
from hopring.rmp.events import JoinRing, RemovedFromRing, RingOutput
from hopring.rmp.options import PeerRingOptions
from hopring.sim.engine import SimEngine
from hopring.sim.network import SimNetwork
from hopring.sim.path import Quality
from hopring.sim.rmp.peer import PEER_PORT, SimPeer
from hopring.sim.rmp.stranger import SimStranger
from hopring.wire.rmp.ids import PeerProcess

EVENTS_MAX: Final = 4_000_000
"""A world of five seconds takes some ten thousand; many more mean an endless loop."""

NOWHERE: Final = "nowhere"
"""The name of a host where no process is."""

_FIRST_ADDRESS: Final = 10 << 24


class SimRings:
    """Peers by name; one group."""

    def __init__(
        self,
        wishes: Mapping[str, JoinRing],
        seed: int,
        quality: Quality,
        options: PeerRingOptions | None = None,
        callers: Mapping[str, tuple[PeerProcess, ...]] | None = None,
    ) -> None:
        """`wishes` has the peers by name, with what each asks for when it joins.

        `callers` has processes that call the ring without joining it, with the members that send on for each.
        """
        self.engine = SimEngine(EVENTS_MAX)
        self.network = SimNetwork(self.engine, seed, quality)
        self.observer = RingObserver(self.engine)
        self.options = options or PeerRingOptions()
        self.wishes = wishes
        self.callers = callers or {}
        self.numbers = {name: number for number, name in enumerate(sorted(wishes), start=1)}
        self.one_host = False  # Whether all peers are processes of one machine: only loopback joins them.
        self._addressed = [*sorted(wishes), *self.callers]
        self.hosts: dict[str, SimPeer] = {}
        self.strangers: dict[str, SimStranger] = {}
        self.lives = dict.fromkeys(self._addressed, 0)
        self.when_ended: Callable[[SimPeer, RingOutput], None] = join_again

    def host_number(self, host: str) -> int:
        """The IPv4 address of a host."""
        return _FIRST_ADDRESS + self._addressed.index(host) + 1

    def host_of(self, process: PeerProcess) -> str:
        """The host of a process; a host without any for an address that nobody has, as forged packets name."""
        place = process.address - _FIRST_ADDRESS - 1
        return self._addressed[place] if 0 <= place < len(self._addressed) else NOWHERE

    def start(self, *names: str) -> None:
        """Starts peers on hosts that are up, and lets them join."""
        for name in names:
            self.lives[name] += 1
            self.hosts[name] = SimPeer(self, name, self.lives[name])
            self.hosts[name].join()

    def crash(self, name: str) -> None:
        """Takes the host of a peer down."""
        self.hosts.pop(name).crash()
        self.network.crash(name)

    def restart(self, name: str) -> None:
        """Boots a host, and starts its peer as another process."""
        self.network.restart(name)
        self.start(name)

    def start_caller(self, name: str) -> None:
        """Starts a process that calls, or another life of it after its crash."""
        if name in self.strangers:
            self.strangers.pop(name).crash()
            self.network.crash(name)
            self.network.restart(name)
        self.lives[name] += 1
        self.strangers[name] = SimStranger(self, name, self.lives[name], self.callers[name])

    def ended(self, peer: SimPeer, news: RingOutput) -> None:
        """A ring has told its process that it is in no list, or that its join has failed."""
        self.when_ended(peer, news)


def process_at(names: Sequence[str], name: str) -> PeerProcess:
    """Where to ask a peer, among the sorted names of all; which life of it will answer is not known."""
    return PeerProcess(_FIRST_ADDRESS + names.index(name) + 1, PEER_PORT, 0)


def join_again(peer: SimPeer, news: RingOutput) -> None:
    """Who was removed joins again at once, as a process would that wants to be a member."""
    if isinstance(news, RemovedFromRing) and peer.wants:
        peer.rings.engine.after(0, _join, peer)


def _join(peer: SimPeer) -> None:
    if peer.rings.hosts.get(peer.name) is peer and peer.wants and peer.installed is None:
        peer.join()
