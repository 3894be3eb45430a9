"""The director: what happens in the demonstration, in which order, and what is to be learnt from it.

Stands in for membership, which is to come: it decides which daemons and links make a network, and counts the
generations. Nothing is judged by the clock: times are shown, delivery is judged.
"""

from collections.abc import Callable
from typing import Final, Protocol, TypeVar

from hopring.cli.demo.cluster import ANSWER_SECONDS, Cluster, NetworkEnded
from hopring.cli.demo.facts import Clean, Latency, Lossy, Pruned, Rerouted, Tally
from hopring.cli.demo.figures import difference, latencies_of, losses_of, tally_of
from hopring.cli.demo.history import Mark
from hopring.cli.demo.words import Happening, Received, Send, Sent, Shape, Start
from hopring.cli.demo.world import CUT, DELAYS_MS, DETOUR, SITES, delay_ms

EVERY_US: Final = 40_000
EVERY_PRUNED_US: Final = 5_000
WARM_UP_BUNDLES: Final = 10
DELIVERY_SECONDS: Final = 30.0
NOTICE_SECONDS: Final = 30.0
BOTH_ENDS_SECONDS: Final = 1.0
ATTEMPTS_MAX: Final = 3

Result = TypeVar("Result")


class Audience(Protocol):
    """Whoever watches."""

    def progress(self, doing: str, done: int = 0, total: int = 0) -> None:
        """Something moves."""

    def note(self, text: str) -> None:
        """Something out of the ordinary."""


class Director:
    """Runs the phases, each to be called once, in their order."""

    def __init__(self, cluster: Cluster, audience: Audience, seconds: float) -> None:
        self.total = Tally()
        self.restarts: list[str] = []
        self.cut_mark: Mark = {}
        self._cluster = cluster
        self._history = cluster.history
        self._audience = audience
        self._seconds = seconds
        self._generation = 0
        self._next_number = 1
        self._cut: list[tuple[str, str]] = []

    def open(self) -> None:
        """The wide area comes to be, and the first network on it."""
        self._shape_all()
        self._start()
        self._steadily(self._warm_up)

    def clean(self) -> Clean:
        """All daemons multicast to all."""
        happenings = self._steadily(lambda: self._all_send("clean links"))
        return Clean(self._latencies(happenings), self._tally(happenings))

    def lossy(self, loss_percent: float) -> Lossy:
        """The same while datagrams between sites get lost."""

        def phase() -> Lossy:
            before = self._cluster.count()
            happenings = self._all_send(f"{loss_percent:g} % loss")
            counts = difference(self._cluster.count(), before)
            links = losses_of(counts, self._cluster.site_of, DELAYS_MS)
            return Lossy(loss_percent, self._latencies(happenings), links, self._tally(happenings))

        self._shape_all(loss_percent / 100)
        facts = self._steadily(phase)
        self._shape_all()
        return facts

    def pruned(self) -> Pruned:
        """One site multicasts for another one only."""
        source, wanted, unwanted = SITES
        senders = [name for name, site in self._cluster.site_of.items() if site == source]

        def phase() -> Pruned:
            before = self._cluster.count()
            count = max(1, int(self._seconds * 500_000 / EVERY_PRUNED_US))
            happenings = self._send("bundles for one site", senders, count, EVERY_PRUNED_US, [wanted])
            counts = difference(self._cluster.count(), before)
            bytes_to = {
                self._cluster.site_of[far]: count.bytes
                for (near, far), count in counts.items()
                if near in senders
            }
            share = 100 * bytes_to[unwanted] / bytes_to[wanted]
            return Pruned(
                source,
                wanted,
                bytes_to[wanted],
                unwanted,
                bytes_to[unwanted],
                round(share, 1),
                self._tally(happenings),
            )

        return self._steadily(phase)

    def rerouted(self) -> Rerouted:
        """A link is cut; the daemons at its ends notice; the next network goes around."""
        self.cut_mark = self._history.mark()
        cut_at_us = self._cluster.now_us()
        self._shape_all(cut=True)
        noticed_ms = self._await_notice(cut_at_us)
        self._cut = [CUT]
        self._start()
        self._steadily(self._warm_up)
        flowing_us = self._first_crossing_us()
        happenings = self._steadily(lambda: self._all_send(f"around by {DETOUR}"))
        return Rerouted(
            between=CUT,
            noticed_ms=noticed_ms,
            generation=self._generation,
            flowing_ms=round((flowing_us - cut_at_us) / 1_000, 1),
            latencies=self._latencies(happenings, detour=True),
            tally=self._tally(happenings),
        )

    # The parts of phases.

    def _start(self) -> None:
        self._generation += 1
        self._cluster.tell_all(Start(self._generation, self._cluster.incarnations, self._cut))
        everybody = len(self._cluster.site_of)
        running = self._history.running
        self._cluster.wait(
            lambda: running[self._generation] == everybody,
            ANSWER_SECONDS,
            f"network {self._generation} to start",
        )

    def _steadily(self, phase: Callable[[], Result]) -> Result:
        """Runs a phase; if its network ends under it, does what membership would do and runs it again."""
        for _ in range(ATTEMPTS_MAX - 1):
            try:
                return phase()
            except NetworkEnded as ended:
                self.restarts.append(str(ended))
                self._audience.note(f"{ended}; once more on a new network")
                self._start()
        return phase()

    def _warm_up(self) -> None:
        everybody = list(self._cluster.site_of)
        self._tally(self._send("warming up", everybody, WARM_UP_BUNDLES, EVERY_US, list(SITES)))

    def _all_send(self, doing: str) -> list[Happening]:
        count = max(1, int(self._seconds * 1_000_000 / EVERY_US))
        return self._send(doing, list(self._cluster.site_of), count, EVERY_US, list(SITES))

    def _send(
        self, doing: str, senders: list[str], count: int, every_us: int, sites: list[str]
    ) -> list[Happening]:
        """Lets the senders send and waits until all has come, or for very long."""
        history = self._history
        mark, sent, received = history.mark(), history.sent, history.received
        for at, name in enumerate(senders):
            self._cluster.tell(
                name, Send(self._next_number, count, every_us, at * every_us // len(senders), sites)
            )
        self._next_number += count
        planned = count * len(senders)
        wanted = planned * sum(site in sites for site in self._cluster.site_of.values())
        # Whoever sends has its own bundle at once, even one that is for other sites only.
        wanted += sum(count for name in senders if self._cluster.site_of[name] not in sites)

        def look() -> None:
            self._audience.progress(doing, history.received - received, wanted)
            self._check_network()

        def done() -> bool:
            return history.sent - sent == planned and history.received - received >= wanted

        self._cluster.listen(done, count * every_us / 1_000_000 + DELIVERY_SECONDS, look)
        return history.since(mark)

    def _check_network(self) -> None:
        for name, ended in sorted(self._history.ended.items()):
            raise NetworkEnded(f"network {self._generation} ended at {name}: {ended.reason}")

    def _await_notice(self, cut_at_us: int) -> dict[str, float]:
        ended = self._history.ended

        def look() -> None:
            self._audience.progress("waiting for the cut to be noticed")

        self._cluster.wait(lambda: bool(ended), NOTICE_SECONDS, "the cut to be noticed", look)
        # The other end is about to notice too. One report is enough to act on, so nothing depends on it.
        self._cluster.listen(lambda: len(ended) >= 2, BOTH_ENDS_SECONDS, look)
        return {name: round((one.at_us - cut_at_us) / 1_000, 1) for name, one in sorted(ended.items())}

    def _first_crossing_us(self) -> int:
        """When the first bundle since the cut came from one of the cut link's sites to the other."""
        site_of = self._cluster.site_of
        origins: dict[str, str] = {}
        for one in self._history.since(self.cut_mark):
            if isinstance(one, Sent):
                origins[one.bundle] = site_of[one.daemon]
            elif isinstance(one, Received) and {origins.get(one.bundle), site_of[one.daemon]} == set(CUT):
                return one.at_us
        raise NetworkEnded(f"nothing came from {CUT[0]} to {CUT[1]}")

    def _shape_all(self, loss: float = 0.0, cut: bool = False) -> None:
        site_of = self._cluster.site_of
        for near, one in site_of.items():
            for far, other in site_of.items():
                if one != other:
                    gone = cut and {one, other} == set(CUT)
                    self._cluster.tell(near, Shape(far, delay_ms(one, other) * 1_000, 1.0 if gone else loss))

    def _latencies(self, happenings: list[Happening], detour: bool = False) -> list[Latency]:
        wire_ms = dict(DELAYS_MS)
        if detour:
            wire_ms[CUT] = delay_ms(CUT[0], DETOUR) + delay_ms(DETOUR, CUT[1])
        return latencies_of(happenings, self._cluster.site_of, wire_ms)

    def _tally(self, happenings: list[Happening]) -> Tally:
        tally = tally_of(happenings)
        self.total += tally
        return tally
