"""What links have counted, as far as it is news: for the trace, which is not to grow while nothing happens.

Links are made anew with every network. So the present network's are kept hold of until another one begins, and
what they counted last is told then.
"""

from collections.abc import Mapping
from typing import Final, Protocol

from hopring.ids import DaemonId
from hopring.links.events import LinkCounters
from hopring.stack_events import Identity
from hopring.value import Value

PERIOD_US: Final = 5_000_000
"""How often counters are told at most, while a network lasts."""


class Network(Protocol):
    """What of a stack matters here."""

    own: Identity

    def counters(self) -> Mapping[DaemonId, LinkCounters]:
        """What the links to other sites have seen so far."""


class LinkNews(Value, frozen=True):
    """What a link has counted since it was made."""

    generation: int
    peer: DaemonId
    counters: LinkCounters


class LinkCounts:
    """Remembers what was told."""

    def __init__(self) -> None:
        self._network: Network | None = None
        self._told: dict[DaemonId, tuple[int, ...]] = {}
        self._next_us = 0

    def due(self, now_us: int) -> bool:
        """Whether it is time to tell more."""
        return now_us >= self._next_us

    def news(self, network: Network | None, now_us: int) -> list[LinkNews]:
        """The links that have moved; those of the network before too, if this is another one."""
        self._next_us = now_us + PERIOD_US
        moved = self._moved()
        if network is not self._network:
            self._network, self._told = network, {}
            moved += self._moved()
        return moved

    def _moved(self) -> list[LinkNews]:
        network = self._network
        if network is None:
            return []
        moved = []
        for peer, seen in sorted(network.counters().items()):
            # The round trip is measured all the time, and is no reason to say anything.
            counts = seen.sent, seen.received, seen.lost, seen.nacks, seen.retransmissions
            if any(counts) and counts != self._told.get(peer):
                self._told[peer] = counts
                moved.append(LinkNews(network.own.generation, peer, seen))
        return moved
