"""A cluster in namespaces with recording clients, whose traces the checkers judge."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Final

from tests.hopd.daemon_processes import DaemonProcesses
from tests.netns.recording_clients import RecordingClient
from tests.netns.three_sites import HOSTS, ThreeSites, everybody, make_config
from tests.support.waiting import comes

from hopring import ConnectError, connect
from hopring.check import trace
from hopring.check.judge import first_broken_c
from hopring.check.properties.property import Verdict
from hopring.config import Config
from hopring.local.recorder import now_us

LONG: Final = os.environ.get("HOPRING_LONG") == "1"
LOOK_SECONDS: Final = 0.05
STORY_SECONDS: Final = 1_200.0 if LONG else 240.0
WAIT_SECONDS: Final = 60.0

ALL, RED, BLUE, LONE = "all", "red", "blue", "lone"
GROUPS_OF: Final = {"a": (ALL, RED), "b": (ALL, BLUE)}
TARGETS: Final = (
    (ALL,),
    (ALL,),
    (RED,),
    (BLUE,),
    (RED, BLUE),
    (ALL, RED),
    (LONE,),
    ("#a#eu1",),
    ("#b#us2", BLUE),
)
"""Groups are open.

Each client sends to all of them, also to those that it is not in. Only one site has members of `lone`.
"""

TALK_SECONDS: Final = 0.2


def seconds(short: float, full: float) -> float:
    """A duration: the full one with HOPRING_LONG=1, otherwise the short one."""
    return full if LONG else short


def messages(short: int, full: int) -> int:
    """A duration as a number of messages that each client gets meanwhile, about 40 per second."""
    return full if LONG else short


class JudgedCluster:
    """Six daemons with two clients each: `a` is in all and red, `b` in all and blue."""

    def __init__(self, world: ThreeSites, daemons: DaemonProcesses, directory: Path) -> None:
        self.world = world
        self.daemons = daemons
        self.players: list[RecordingClient] = []  # All clients, including those that have ended.
        self._directory = directory
        self._crashes: list[trace.Crash] = []
        self._ended: set[trace.ProcessName] = set()

    # Clients.

    async def connect_all(self) -> None:
        """Connects all clients and waits until each sees all others."""
        casting = [
            self.connect_client(host, name, *groups) for host in HOSTS for name, groups in GROUPS_OF.items()
        ]
        await asyncio.gather(*casting)
        await self.client_of("ap1", "a").join(LONE)
        await self.until(self.met)

    async def connect_client(self, host: str, name: str, *groups: str) -> RecordingClient:
        """Connects a client and joins groups; retries while the daemon starts or the name is still taken."""
        url = f"hop+unix://{self._directory}/lab.{host}.sock"
        end = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                player = RecordingClient(await connect(url, name=name, reconnect=False), seed=len(self.players))
                break
            except ConnectError:
                if time.monotonic() > end:
                    raise
                await asyncio.sleep(LOOK_SECONDS)
        self.players.append(player)
        await asyncio.gather(*[player.join(group) for group in groups])
        return player

    def start_sending(self, every_seconds: float = TALK_SECONDS, hosts: Iterable[str] = HOSTS) -> None:
        """All clients at these hosts begin to send."""
        for player in self.at(*hosts):
            player.start_sending(TARGETS, every_seconds)

    def at(self, *hosts: str) -> list[RecordingClient]:
        """The present clients at these hosts."""
        return [one for one in self.living if one.daemon in hosts]

    def client_of(self, host: str, name: str) -> RecordingClient:
        """The client with this name at this host."""
        (player,) = [one for one in self.at(host) if one.recorder.name == name]
        return player

    @property
    def living(self) -> list[RecordingClient]:
        """The clients that have not ended."""
        return [
            one
            for one in self.players
            if one.ended is None
            and not one.died
            and one.recorder.process is not None
            and one.process._replace(session=0) not in self._ended
        ]

    def wanted_members(self, group: str, among: Iterable[str] = HOSTS) -> set[trace.ProcessName]:
        """The present clients at these hosts whose last request was to join this group."""
        wanted: set[trace.ProcessName] = set()
        for player in self.at(*among):
            asks = [one for one in player.recorder.events if isinstance(one, trace.AsksJoin | trace.AsksLeave)]
            last = [one for one in asks if one.group == group][-1:]
            wanted |= {player.process for one in last if isinstance(one, trace.AsksJoin)}
        return wanted

    def met(self, hosts: Iterable[str] = HOSTS) -> bool:
        """Whether each client at these hosts sees exactly the wanted members in each of its groups."""
        hosts = tuple(hosts)
        for group in (ALL, RED, BLUE, LONE):
            wanted = self.wanted_members(group, hosts)
            if any(one.members(group) != wanted for one in self.at(*hosts) if one.process in wanted):
                return False
        return True

    # Daemons.

    def kill(self, host: str) -> None:
        """Kills a daemon; its clients end with it."""
        self.daemons.kill(host)
        self._record_crash(host)

    async def stop(self, host: str) -> None:
        """Ends a daemon with SIGTERM."""
        await asyncio.to_thread(self.daemons.stop, host)
        self._record_crash(host)

    def signal(self, number: int, *hosts: str) -> None:
        """Sends a signal to the daemons themselves, not to the processes that started them."""
        for host in hosts:
            self.daemons.processes[host].send_signal(number)

    def _record_crash(self, host: str) -> None:
        here = {one.process._replace(session=0) for one in self.players if one.daemon == host}
        for process in here - self._ended:
            self._ended.add(process)
            self._crashes.append(trace.Crash(process, now_us()))

    # Waits and checks.

    async def until(self, condition: Callable[[], bool], seconds: float = WAIT_SECONDS) -> None:
        """Waits for a condition; fails at the deadline or when a daemon ends."""

        def met() -> bool:
            dead = [name for name, one in self.daemons.processes.items() if one.poll() is not None]
            assert not dead, f"{dead} ended by themselves"
            return condition()

        await comes(met, self._last_views, seconds, LOOK_SECONDS)

    async def until_more(self, players: Iterable[RecordingClient], more: int) -> None:
        """Waits until each client has received this many more messages."""
        goals = [(one, len(one.seen) + more) for one in players]
        await self.until(lambda: all(len(one.seen) >= goal for one, goal in goals), STORY_SECONDS)

    def verdict(self, quiet_end: bool = True, without: trace.Event | None = None) -> Verdict | None:
        """The first broken property of EVS-C, optionally without an event.

        A quiet end means one view and no traffic.
        """
        history: list[trace.Event] = [*self._crashes]
        for player in self.players:
            player.recorder.note_due_leaves()
            history += [one for one in player.recorder.events if one is not without]
            if player.died and any(one.saw_end_of(player.process) for one in self.players):
                history.append(trace.Gone(player.process, now_us()))
        return first_broken_c(history, quiet_end, [sorted(self.daemons.processes)])

    async def good_end(self, seconds: float = WAIT_SECONDS) -> None:
        """Stops all senders and waits until no property is broken; fails with the verdict at the deadline."""
        for player in self.players:
            await player.stop_sending()
        await self.until(self.met, seconds)
        members = self.wanted_members(ALL)
        speaker, listener = [one for one in self.living if one.process in members][:2]
        last = await speaker.send(ALL, b"last")
        await comes(lambda: self.verdict() is None, self.verdict, seconds, look_seconds=0.5)
        # A checker that accepts everything would prove nothing: without one delivery it must find a violation.
        (heard,) = [one for one in listener.messages() if one.message == last]
        assert self.verdict(without=heard) is not None

    def _last_views(self) -> str:
        sizes = {
            f"{one.recorder.name}@{one.daemon}": {group: len(view.members) for group, view in one.views.items()}
            for one in self.living
        }
        return f"members in the last views: {sizes}"


def play(
    world: ThreeSites,
    directory: Path,
    story: Callable[[JudgedCluster], Awaitable[None]],
    config: Config | None = None,
) -> None:
    """Starts the daemons, connects all clients, and runs the story."""
    with everybody(world.lab, directory, config or make_config(), "hopring.daemon.hopd") as daemons:
        scene = JudgedCluster(world, daemons, directory)

        async def tell() -> None:
            async with asyncio.timeout(STORY_SECONDS):
                try:
                    await scene.connect_all()
                    await story(scene)
                finally:
                    for player in scene.players:
                        await player.stop_sending()
                        await player.stop_reading()
                        player.session.abort()

        asyncio.run(tell())
        for process in daemons.processes.values():
            process.kill()  # How daemons end is tested elsewhere.
