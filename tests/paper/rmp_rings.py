"""Rings of RMP in virtual time for the paper's figures: idle or loaded, on paths or on one shared line."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from hopring.check.rmp.peer_events import DataShown, ListSeen, SlotsOrdered
from hopring.rmp.events import JoinRing
from hopring.rmp.options import PeerRingOptions
from hopring.services import Service
from hopring.sim.network import SentDatagram
from hopring.sim.path import Quality
from hopring.sim.rmp.peer import SimPeer
from hopring.sim.rmp.rings import SimRings

NAMES = ("ann", "bob", "cyd", "dan", "eve", "fay", "gus", "hal", "ivy")
MS, SECOND = 1_000, 1_000_000
BACKLOG_MAX = 100_000
"""No more is offered while so many bytes wait for the line: what is Unreliable has no window."""


@dataclass(slots=True)
class DatagramCounts:
    """What was sent, counted by datagrams."""

    multicasts: int = 0
    unicasts: int = 0

    def note(self, sent: SentDatagram) -> None:
        if sent.group is None:
            self.unicasts += 1
        else:
            self.multicasts += 1

    @property
    def all(self) -> int:
        return self.multicasts + self.unicasts


@dataclass(slots=True)
class FigureRing:
    """A ring of so many peers, all of which are members."""

    rings: SimRings
    counts: DatagramCounts = field(default_factory=DatagramCounts)

    @property
    def now_us(self) -> int:
        return self.rings.engine.now_us

    @property
    def peers(self) -> list[SimPeer]:
        return [self.rings.hosts[name] for name in sorted(self.rings.hosts)]

    def run_for(self, span_us: int) -> None:
        self.rings.engine.run_for(span_us)

    def count(self) -> DatagramCounts:
        """Counts datagrams from now on."""
        self.counts = DatagramCounts()
        self.rings.network.on_send = self.counts.note
        return self.counts

    @property
    def token_site(self) -> str:
        """Who has the token now; empty while it is under way."""
        return next((one.name for one in self.peers if one.ring.snapshot().token_here), "")

    def wait_for_token(self, name: str) -> None:
        """Lets time pass until the token has just come to this peer."""
        for here in (False, True):
            for _ in range(2_000):
                if (self.token_site == name) is here:
                    break
                self.run_for(500)
            assert (self.token_site == name) is here, "the token of an idle ring visits everybody"

    def shown(self, since: int = 0) -> list[DataShown]:
        return [one for one in self.rings.observer.events[since:] if isinstance(one, DataShown)]

    def lists(self, since: int = 0) -> list[ListSeen]:
        return [one for one in self.rings.observer.events[since:] if isinstance(one, ListSeen)]

    def new_lists(self, since: int = 0) -> int:
        """How many New Lists were made."""
        events = self.rings.observer.events[since:]
        return sum(isinstance(one, SlotsOrdered) and bool(one.members) for one in events)

    def begun(self) -> int:
        """The number of events so far."""
        return len(self.rings.observer.events)

    def latencies(
        self, sender: str, service: Service, resilience: int = 0, patience_us: int = SECOND
    ) -> dict[str, int]:
        """Sends one message, and says how long each of the others took to deliver it."""
        since, sent_us = self.begun(), self.now_us
        self.rings.hosts[sender].send(service, 100, resilience)
        self.run_for(patience_us)
        shown = self.shown(since)
        assert len(shown) == len(self.peers), "everybody delivers it once"
        return {one.process: one.at_us - sent_us for one in shown if one.process != sender}


def ring_of(
    members: int,
    delay_us: int,
    options: PeerRingOptions | None = None,
    minimum: int = 1,
    loss: float = 0.0,
    prepare: Callable[[SimRings], object] = lambda _rings: None,
) -> FigureRing:
    """A ring that has been idle for a while; loss and what `prepare` does begin with the ring."""
    names = NAMES[:members]
    wishes = {name: JoinRing(name, minimum, found=name == names[0]) for name in names}
    rings = SimRings(wishes, 1, Quality(delay_us=delay_us), options)
    for name in names:
        rings.start(name)
        rings.engine.run_for(SECOND // 5 + 20 * delay_us)
    ring = FigureRing(rings)
    assert all(peer.installed and len(peer.installed.list) == members for peer in ring.peers)
    ring.run_for(3 * SECOND)
    if loss:
        rings.network.shape_all(loss=loss)
    prepare(rings)
    return ring


def sender_at(ring: FigureRing, name: str, service: Service, size: int, period_us: float, count: int) -> None:
    """Lets a peer send that many messages, one each period."""
    peer = ring.rings.hosts[name]
    for number in range(count):
        ring.rings.engine.at(ring.now_us + int(number * period_us), peer.send, service, size)


def keep_sending(
    ring: FigureRing, names: Iterable[str], service: Service, size: int, until_us: int, resilience: int = 0
) -> None:
    """Keeps the queues of these peers full until then; what has no window is offered as the line takes it."""
    peers = [ring.rings.hosts[name] for name in names]

    def fill() -> None:
        line = ring.rings.network.line
        for peer in peers:
            while peer.ring.snapshot().queued < 8 and not (
                line and line.backlog_bytes(ring.now_us) > BACKLOG_MAX
            ):
                peer.send(service, size, resilience)
        if ring.now_us < until_us:
            ring.rings.engine.after(2 * MS, fill)

    fill()
