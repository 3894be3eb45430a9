"""The course of the demonstration: together, a partition, both sides on their own, the merge, and rest."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from hopring.check import trace
from hopring.client.events import Event, Transition, View
from hopring.demo.clients import DemoClient, daemons_of
from hopring.demo.scenario import (
    AGAIN,
    APART,
    CALM,
    GROUPS,
    MERGING,
    QUIET,
    SIDES,
    SPLITTING,
    TOGETHER,
    TRADES,
    side_of,
    site_of,
)
from hopring.demo.screen import DemoScreen
from hopring.demo.spoolers import SiteSpooler, site_spoolers
from hopring.local.blocking import Cluster
from hopring.local.recorder import now_us

LOOK_SECONDS: Final = 0.02
SHOW_SECONDS: Final = 0.25
CALM_SECONDS_MIN: Final = 1.0
CHANGE_SECONDS: Final = 8.0
"""Reserve for each coming view change, and for the rest at the end."""

Marks = list[tuple[str, int]]
"""The phases, each with the moment when it began."""


class DemoTimeout(Exception):
    """A step took longer than the demonstration has time for."""


class DemoStory:
    """One run of the demonstration."""

    def __init__(self, cluster: Cluster, screen: DemoScreen, phase_seconds: float, seconds_max: float) -> None:
        self.clients: list[DemoClient] = []
        self.spoolers = site_spoolers(cluster)  # By site.
        self.marks: Marks = []
        self.arrivals: dict[str, dict[str, int]] = {SPLITTING: {}, MERGING: {}}  # When each side had its view.
        self.primary: dict[str, dict[str, bool]] = {
            SPLITTING: {},
            MERGING: {},
        }  # Whether a side's views are.
        self.problems: list[str] = []
        self.history: list[trace.Event] = []
        """The events of all daemons and clients while all clients were there, one trace after the other."""
        self._cluster = cluster
        self._screen = screen
        self._phase_seconds = phase_seconds
        self._end_us = now_us() + int(seconds_max * 1e6)
        self._told: set[object] = set()  # Views and signals already shown.

    @property
    def quiet(self) -> bool:
        """Whether the run came to its quiet end."""
        return bool(self.marks) and self.marks[-1][0] == QUIET and not self.problems

    async def perform(self) -> None:
        """Runs all phases; steps that took too long are in `problems`."""
        try:
            await self._perform()
        finally:
            for spooler in self.spoolers.values():
                spooler.leave()

    @property
    def _receivers(self) -> list[DemoClient | SiteSpooler]:
        return [*self.clients, *self.spoolers.values()]

    @property
    def seen_by_clients(self) -> list[trace.Event]:
        """The history without the spoolers, which are members but not counted as clients."""
        spooling = {one.process for one in self.spoolers.values()}
        return [event for event in self.history if event.process not in spooling]

    async def _perform(self) -> None:
        stop = asyncio.Event()
        for spooler in self.spoolers.values():
            spooler.start()
        for daemon in self._cluster.daemons:
            self.clients.append(await DemoClient.connect(self._cluster.url(daemon), self._seen))
        async with asyncio.TaskGroup() as tasks:
            others = [tasks.create_task(client.listen()) for client in self.clients]
            others.append(tasks.create_task(self._keep_showing()))
            loads: list[asyncio.Task[None]] = []
            with self._in_time():
                await self._meet()
                loads += [tasks.create_task(client.play(stop)) for client in self.clients]
                await self._phases()
            stop.set()
            with self._in_time():
                for load in loads:
                    await self._until(load.done, "all messages are sent")
                await self._rest()
                self._mark(QUIET)
            for task in (*loads, *others):
                task.cancel()
        for spooler in self.spoolers.values():
            await asyncio.to_thread(spooler.stop)
        # Traces are read one after the other. If it is not quiet, things go on meanwhile: up to one moment of
        # the one clock they fit together, because a send is written down before it leaves.
        until_us = now_us()
        told = await asyncio.to_thread(self._cluster.traces)
        self.history = [event for event in told if event.at_us <= until_us]
        for client in self.clients:
            self.history += client.recorder.events
            client.leave()
        for spooler in self.spoolers.values():
            self.history += spooler.events

    async def _meet(self) -> None:
        self._screen.doing("clients join")
        for client in self.clients:
            joining = asyncio.create_task(client.join())
            await self._until(joining.done, "all clients have joined")
            await joining
        everybody = set(self._cluster.daemons)
        await self._until(
            lambda: all(one.is_with(everybody) for one in self._receivers),
            "all clients are together",
        )

    async def _phases(self) -> None:
        self._mark(TOGETHER)
        self._screen.say(f"{len(self.clients)} clients are in one view of each group, and send")
        await self._calm(calm_phases_left=3)
        self._mark(SPLITTING)
        self._screen.cut(" | ".join(" ".join(side) for side in SIDES))
        await asyncio.to_thread(self._cluster.partition, *SIDES)
        await self._arrive(SPLITTING, side_of)
        self._mark(APART)
        await self._calm(calm_phases_left=2)
        self._note_primary(SPLITTING)
        self._mark(MERGING)
        self._screen.heal()
        await asyncio.to_thread(self._cluster.heal)
        await self._arrive(MERGING, lambda _daemon: tuple(site for side in SIDES for site in side))
        self._mark(AGAIN)
        await self._calm(calm_phases_left=1)
        self._note_primary(MERGING)

    async def _arrive(self, phase: str, side: Callable[[str], tuple[str, ...]]) -> None:
        """Waits until each client is in one view with its side, and records when each side was complete."""
        sides = {side(daemon): set[str]() for daemon in self._cluster.daemons}
        for daemon in self._cluster.daemons:
            sides[side(daemon)].add(daemon)
        began_us = self.marks[-1][1]

        def complete() -> bool:
            for name, daemons in sides.items():
                there = [one for one in self.clients if one.daemon in daemons]
                if all(one.is_with(daemons) for one in there):
                    self.arrivals[phase].setdefault(" ".join(name), now_us() - began_us)
            return len(self.arrivals[phase]) == len(sides)

        await self._until(complete, f"the views after {phase}")

    def _note_primary(self, phase: str) -> None:
        """Records which sides are primary after a phase: all of the views of all of their clients."""
        for side in self.arrivals[phase]:
            there = [one for one in self.clients if site_of(one.daemon) in side.split()]
            self.primary[phase][side] = all(one.primary(group) for one in there for group in GROUPS)

    async def _rest(self) -> None:
        """Waits until every message is delivered everywhere, in one view of all."""
        self._screen.doing("waiting until all is delivered")
        everybody = set(self._cluster.daemons)

        def at_rest() -> bool:
            complete = all(one.has_all_of(other) for one in self._receivers for other in self.clients)
            return complete and all(one.is_with(everybody) for one in self.clients)

        await self._until(at_rest, "everything is delivered everywhere")

    # Time.

    async def _calm(self, calm_phases_left: int) -> None:
        """Waits for one calm phase, shortened if the start or the views took long."""
        left_seconds = (self._end_us - now_us()) / 1e6 - CHANGE_SECONDS * calm_phases_left
        seconds = min(self._phase_seconds, max(CALM_SECONDS_MIN, left_seconds / calm_phases_left))
        await asyncio.sleep(seconds)

    def _mark(self, phase: str) -> None:
        self.marks.append((phase, now_us()))
        self._screen.phase(phase, phase in CALM)

    @contextmanager
    def _in_time(self) -> Iterator[None]:
        try:
            yield
        except DemoTimeout as late:
            self.problems.append(str(late))
            self._screen.say(f"! {late}")

    async def _until(self, condition: Callable[[], bool], what: str) -> None:
        while not condition():
            for error in [one.error for one in self.spoolers.values() if one.error is not None]:
                raise error
            if now_us() >= self._end_us:
                raise DemoTimeout(
                    f"waited in vain until {what}; a busy machine may need a longer --limit-seconds"
                )
            await asyncio.sleep(LOOK_SECONDS)

    # Output.

    def _seen(self, client: DemoClient, event: Event) -> None:
        """Shows a view or signal once, when the first client has it; one group stands for both."""
        if not isinstance(event, View | Transition) or event.group != TRADES or not self.marks:
            return
        members = daemons_of(event.members)
        key = type(event), event.id, tuple(members)
        if key in self._told:
            return
        self._told.add(key)
        if isinstance(event, Transition):
            self._screen.signal(client.daemon, members)
        elif isinstance(event, View):
            self._screen.view(client.daemon, members, daemons_of(event.together), event.primary)

    async def _keep_showing(self) -> None:
        while True:
            self._screen.show_clients(self.clients)
            await asyncio.sleep(SHOW_SECONDS)
