"""Reloads in a row while clients send with all services; the clients' traces are checked by EVS-C."""

import random
import threading

import pytest
from tests.monitor.fleet import SECONDS_MAX, Fleet, wait
from tests.support.waiting import until

from hopring import sync
from hopring.check.judge import first_broken_c
from hopring.check.properties.property import Verdict
from hopring.client.errors import TimedOut
from hopring.local.recorder import Recorder
from hopring.services import Service

pytestmark = pytest.mark.slow

NAMES = ["eu1", "eu2", "us1"]
# Only three of these run; the others come and go in the file and change everybody's numbers.
FILES = [
    {"eu": ["eu1", "eu2"], "us": ["us1"]},
    {"asia": ["asia1"], "eu": ["eu1", "eu2"], "us": ["us0", "us1"]},
    {"eu": ["eu0", "eu1", "eu1a", "eu2"], "la": ["la1"], "us": ["us1"]},
    {"asia": ["asia1"], "eu": ["eu1"], "us": ["eu2", "us1"]},
]
SERVICES = [Service.RELIABLE, Service.FIFO, Service.CAUSAL, Service.AGREED, Service.SAFE]


class Player(threading.Thread):
    """A client that sends and receives, and records both."""

    def __init__(self, session: sync.Session, daemon: str, name: str, groups: list[str], seed: int) -> None:
        super().__init__(daemon=True)
        self.record = Recorder(daemon, name, session.private_group)
        self.sending = self.taking = True
        self.problem: BaseException | None = None
        self._session = session
        self._groups = groups
        self._dice = random.Random(seed)

    def run(self) -> None:
        try:
            for group in self._groups:
                self.record.note_join(group)
                self._session.join(group)
            while self.taking:
                if self.sending and self.record.process is not None:
                    self._send()
                self._take()
        except BaseException as problem:
            self.problem = problem

    def _send(self) -> None:
        service, group = self._dice.choice(SERVICES), self._dice.choice(["all", "half"])
        self._session.multicast(group, self.record.note_send([group], service), service=service)

    def _take(self) -> None:
        while True:
            try:
                event = self._session.receive(timeout_seconds=0.01)
            except TimedOut:
                return
            self.record.note_event(event)


def more_events(players: list[Player], count: int) -> None:
    """Waits until all of them together have recorded this many more events."""
    begin = sum(len(one.record.events) for one in players)
    wait(lambda: sum(len(one.record.events) for one in players) >= begin + count)


@pytest.mark.parametrize("seed", [1])
def test_clients_keep_their_guarantees_through_reloads(seed: int) -> None:
    dice = random.Random(seed)
    with Fleet() as fleet:
        fleet.write(FILES[0])
        fleet.start(*NAMES)
        fleet.meet(*NAMES)
        players = []
        for number, daemon in enumerate(NAMES * 2):
            name = f"c{number}"
            groups = ["all", "half"] if number % 2 else ["all"]
            players.append(Player(fleet.connect(daemon, name=name), daemon, name, groups, seed * 100 + number))
        for player in players:
            player.start()
        for at in range(6):
            fleet.write(FILES[(at + 1) % len(FILES)])
            # Either all at once or one after the other.
            for name in [NAMES, dice.sample(NAMES, 3)][at % 2]:
                result = fleet.hop("reload", "--no-wait", name)
                assert result.exit_code == 0, result.output
                more_events(players, dice.randrange(200) if at % 2 else 0)
            more_events(players, dice.randrange(50, 1000))
        fleet.meet(*NAMES)
        for player in players:
            player.sending = False
        # Until then messages are on their way, for longer on a busy machine.
        until(lambda: verdict_on(players) is None, lambda: verdict_on(players), look_seconds=1.0)
        for player in players:
            player.taking = False
        for player in players:
            player.join(SECONDS_MAX)
            assert player.problem is None, player.problem
        assert sum(len(player.record.events) for player in players) > 1_000
        assert verdict_on(players) is None


def verdict_on(players: list[Player]) -> Verdict | None:
    """The first broken property, if nothing more came."""
    told = [event for player in players for event in tuple(player.record.events)]
    return first_broken_c(told, quiet_end=True)
