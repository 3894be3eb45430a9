"""Reloads in a row while clients send with all services; the clients' traces are checked by EVS-C."""

import random
import threading
import time

import pytest
from tests.monitor.fleet import SECONDS_MAX, Fleet, wait

from hopring import sync
from hopring.check.judge import first_broken_c
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
QUIET_SECONDS = 2.0


class Player(threading.Thread):
    """A client that sends and receives, and records both."""

    def __init__(self, session: sync.Session, daemon: str, name: str, groups: list[str], seed: int) -> None:
        super().__init__(daemon=True)
        self.record = Recorder(daemon, name, session.private_group)
        self.sending = True
        self.problem: BaseException | None = None
        self._session = session
        self._groups = groups
        self._dice = random.Random(seed)

    def run(self) -> None:
        try:
            for group in self._groups:
                self.record.note_join(group)
                self._session.join(group)
            quiet_at = time.monotonic() + QUIET_SECONDS
            while self.sending or time.monotonic() < quiet_at:
                if self.sending and self.record.process is not None:
                    self._send()
                if self._take():
                    quiet_at = time.monotonic() + QUIET_SECONDS
        except BaseException as problem:
            self.problem = problem

    def _send(self) -> None:
        service, group = self._dice.choice(SERVICES), self._dice.choice(["all", "half"])
        self._session.multicast(group, self.record.note_send([group], service), service=service)

    def _take(self) -> bool:
        took = False
        while True:
            try:
                event = self._session.receive(timeout_seconds=0.01)
            except TimedOut:
                return took
            self.record.note_event(event)
            took = True


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
        for player in players:
            player.join(SECONDS_MAX)
            assert player.problem is None, player.problem
        told = [event for player in players for event in player.record.events]
        assert len(told) > 1_000
        verdict = first_broken_c(told, quiet_end=True)
        assert verdict is None, verdict
