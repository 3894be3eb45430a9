"""Whole daemons in the simulator with groups on top: the real order, membership, links and ring below."""

from collections import deque
from typing import Any

from tests.unit.groups.book import Book

from hopring.config.model import Config
from hopring.groups.events import Connect, Connected, Disconnect, JoinGroup, LeaveGroup, Request, Send
from hopring.groups.groups import Groups
from hopring.ids import GroupName, Incarnation
from hopring.membership.events import (
    Delivered,
    Installed,
    Output,
    Resume,
    Stamped,
    TransitionalSignal,
    Withdraw,
)
from hopring.services import Service
from hopring.sim.cluster import Cluster, Host
from hopring.wire.bundle import Run, encode_bundle


class GroupHost(Host):
    """A daemon with groups; what is to go down waits until the step that brought it is over."""

    def __init__(self, cluster: "GroupCluster", name: str, incarnation: Incarnation) -> None:
        super().__init__(cluster, name, incarnation)
        self.book = cluster.book
        names = [cluster.names[one] for one in sorted(cluster.names)]
        self.groups = Groups(self.me, self.membership.site_of, names)
        # What Membership(..., destinations=groups.interest) does.
        self.membership.present.destinations = self.groups.interest
        self.membership.traffic.destinations = self.groups.interest
        self.membership.traffic.holds = True
        self._down: deque[Resume | Withdraw] = deque()
        self._planned = False

    def ask(self, event: Request) -> None:
        """A request of a session."""
        self._take(event)

    def _carry_out(self, output: Output) -> None:
        match output:
            case Stamped() | Delivered() | TransitionalSignal() | Installed():
                self._take(output)
            case _:
                super()._carry_out(output)

    def _take(self, event: Any) -> None:
        outputs = self.groups.step(event, self.cluster.engine.now_us)
        if isinstance(event, Connect) and isinstance(outputs[0], Connected):
            self.book.begin(self.me, outputs[0], event.name)
        self.book.record(self.me, outputs)
        self._down.extend([one for one in outputs if isinstance(one, Resume | Withdraw)])
        if not self._planned:
            self._planned = True
            self.cluster.network.timer(self.name, self.cluster.engine.now_us, self._pump)

    def _pump(self) -> None:
        self._planned = False
        while self._down:
            self.driver.step(self._down.popleft())
        while (submit := self.groups.take(self.membership.queue_open)) is not None:
            self.driver.step(submit)


class GroupCluster(Cluster):
    """A cluster whose clients are written into a book."""

    def __init__(self, config: Config, seed: int, **more: Any) -> None:
        super().__init__(config, seed, **more)
        self.book = Book()
        self.sessions = 0
        self.labels = 0
        self.members: dict[str, GroupHost] = {}

    def start(self, *names: str) -> None:
        for name in names or sorted(self.numbers):
            self._lives[name] += 1
            incarnation = Incarnation(self.numbers[name] * 1000 + self._lives[name])
            self.hosts[name] = self.members[name] = GroupHost(self, name, incarnation)

    def crash(self, name: str) -> None:
        self.book.crashed(self.hosts[name].me)
        super().crash(name)

    def connect(self, at: str, name: str) -> int:
        self.sessions += 1
        self.members[at].ask(Connect(self.sessions, name))
        return self.sessions

    def request(self, at: str, event: JoinGroup | LeaveGroup | Disconnect) -> None:
        self.book.asked(self.members[at].me, event)
        self.members[at].ask(event)

    def send(self, at: str, session: int, service: Service, *groups: str) -> bytes:
        self.labels += 1
        label = b"m%d" % self.labels
        run = Run(self.members[at].me.daemon, session, service, tuple([GroupName(name) for name in groups]))
        self.book.sent(self.members[at].me, run, label)
        self.members[at].ask(Send(session, run, encode_bundle(run, [label], [0], [0])))
        return label
