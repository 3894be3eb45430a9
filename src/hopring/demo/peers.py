"""`hop demo --engine rmp`: five peers are split three to two and healed; their traces are judged.

Below       peers as processes (local/), their traces (check/rmp/).
Above       the command, which prints the result.
Invariants  what is said of the run comes from views and messages that sessions have received, and the verdicts
            from the traces that the peers have written.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from hopring.check.properties.property import Verdict
from hopring.check.rmp.client_form import check_rings
from hopring.check.rmp.peer_events import PeerEvent
from hopring.check.rmp.peer_judge import check_peers
from hopring.check.rmp.peer_trace import (
    NONCE_SIGN,
    PeerTraceError,
    PeerTraceRow,
    peer_histories,
    read_peer_rows,
)
from hopring.client.aio import Session
from hopring.client.errors import NotPrimary
from hopring.client.events import MAJORITY, Event, Member, Message, Suspended, View
from hopring.demo.screen import DemoScreen
from hopring.errors import HopError
from hopring.local.aio_peers import Peers

TRADES: Final = "trades"
COUNT: Final = 5
SIDES: Final = (("p1", "p2", "p3"), ("p4", "p5"))
PERIOD_SECONDS: Final = 0.05
STEP_SECONDS: Final = 12.0
"""A step that takes longer, such as a view, has failed; a busy machine needs seconds for some."""

LOOK_SECONDS: Final = 0.02


class PeersResult(msgspec.Struct, frozen=True):
    """The result of a run."""

    ok: bool
    seconds: float
    messages: int  # That were sent.
    deliveries: int
    split_seconds: float | None  # Until the three had their view.
    suspended_seconds: float | None  # Until the two were suspended.
    healed_seconds: float | None  # Until all were in one view again.
    events: int  # In the traces.
    broken: dict[str, str]  # Properties with a witness.
    held: int  # Properties that hold.
    problems: list[str]
    traces: str


@dataclass(slots=True)
class DemoPeer:
    """The session of one peer, and what it has seen."""

    name: str
    session: Session[Any]
    sent: int = 0
    got: set[bytes] = field(default_factory=set)
    views: list[View] = field(default_factory=list)
    suspended: bool = False
    delivered_suspended: int = 0

    @property
    def members(self) -> list[str]:
        """The names in its last view; empty before it."""
        return _names(self.views[-1].members) if self.views else []

    def take(self, event: Event) -> None:
        """Notes an event of the session."""
        if isinstance(event, View):
            self.views.append(event)
            self.suspended = event.suspended
        elif isinstance(event, Suspended):
            self.suspended = True
        elif isinstance(event, Message):
            self.got.add(event.data)
            self.delivered_suspended += self.suspended

    async def play(self, until: asyncio.Event) -> None:
        """Sends at an even pace, every third message to a majority; the suspended side is refused those."""
        while not until.is_set():
            self.sent += 1
            resilience = MAJORITY if self.sent % 3 == 0 else 0
            with suppress(NotPrimary):
                await self.session.multicast(TRADES, f"{self.name} {self.sent}".encode(), resilience=resilience)
            await asyncio.sleep(PERIOD_SECONDS)


class PeersStory:
    """The course of the demonstration."""

    def __init__(self, peers: Peers, screen: DemoScreen, phase_seconds: float) -> None:
        self.members: dict[str, DemoPeer] = {}
        self.problems: list[str] = []
        self.split_seconds: float | None = None
        self.suspended_seconds: float | None = None
        self.healed_seconds: float | None = None
        self._peers, self._screen, self._phase_seconds = peers, screen, phase_seconds
        self._shown: set[object] = set()

    async def perform(self) -> None:
        """All phases; a step that takes too long is a problem, and the last one."""
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            others: list[asyncio.Task[None]] = []
            try:
                for name in self._peers.names:
                    await self._begin(name, tasks, others)
                await self._until(lambda: self._are_together(self._peers.names), "the five are in one view")
                self._screen.phase("together", True)
                loads = [tasks.create_task(one.play(stop)) for one in self.members.values()]
                others += loads
                await self._faults()
                stop.set()
                await self._until(lambda: all(load.done() for load in loads), "all messages are sent")
                await self._rest()
            except TimeoutError as late:
                self.problems.append(str(late))
            finally:
                stop.set()
                for task in others:
                    task.cancel()
        for one in self.members.values():
            with suppress(HopError):
                await one.session.close()

    async def _begin(self, name: str, tasks: asyncio.TaskGroup, others: list[asyncio.Task[None]]) -> None:
        session = await self._peers.connect(name, timeout_seconds=STEP_SECONDS)
        self.members[name] = DemoPeer(name, session)
        async with asyncio.timeout(STEP_SECONDS):
            await session.join(TRADES)
        others.append(tasks.create_task(self._listen(self.members[name])))

    async def _listen(self, member: DemoPeer) -> None:
        async for event in member.session:
            member.take(event)
            self._show(member, event)

    async def _faults(self) -> None:
        await asyncio.sleep(self._phase_seconds)
        self._screen.cut(" | ".join(" ".join(side) for side in SIDES))
        began = time.monotonic()
        await self._peers.partition(*SIDES)
        await self._until(lambda: self._are_together(SIDES[0]), "the three go on")
        self.split_seconds = time.monotonic() - began
        await self._until(lambda: all(self.members[one].suspended for one in SIDES[1]), "two are suspended")
        self.suspended_seconds = time.monotonic() - began
        self._screen.phase("apart", True)
        await asyncio.sleep(self._phase_seconds)
        self._screen.heal()
        began = time.monotonic()
        await self._peers.heal()
        await self._until(lambda: self._are_together(self._peers.names), "all are in one view again")
        self.healed_seconds = time.monotonic() - began
        self._screen.phase("together again", True)
        await asyncio.sleep(self._phase_seconds)

    async def _rest(self) -> None:
        """Waits until messages that all five have sent behind all others are everywhere."""
        for one in self.members.values():
            await one.session.multicast(TRADES, f"{one.name} last".encode())
        last = {f"{name} last".encode() for name in self.members}
        await self._until(lambda: all(last <= one.got for one in self.members.values()), "all is delivered")
        for name in SIDES[1]:
            if self.members[name].delivered_suspended:
                self.problems.append(f"{name} was shown ordered messages while it was suspended")
            if not self._came_back(name):
                self.problems.append(f"{name} did not come back as a new member")

    def _came_back(self, name: str) -> bool:
        """Whether a view after the split has this member together with nobody else: it is a new one."""
        return any(
            one.cause == "network" and _names(one.together) == [name] for one in self.members[name].views
        )

    def _are_together(self, names: tuple[str, ...]) -> bool:
        wanted = sorted(names)
        there = [self.members[name] for name in names if name in self.members]
        return len(there) == len(names) and all(
            one.members == wanted and one.views[-1].primary and not one.suspended for one in there
        )

    async def _until(self, condition: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + STEP_SECONDS
        while not condition():
            if time.monotonic() >= end:
                raise TimeoutError(f"waited in vain until {what}; is the machine busy?")
            await asyncio.sleep(LOOK_SECONDS)

    def _show(self, member: DemoPeer, event: Event) -> None:
        """Prints what the first member of each side learns."""
        if isinstance(event, Suspended):
            key: object = ("suspended", member.name)
            text = f"{member.name} is suspended: it reaches {' '.join(_names(event.members))} only"
        elif isinstance(event, View) and len(self.members) == COUNT:
            key = event.id
            kind = "primary" if event.primary else "not primary"
            text = f"{member.name} has the view {' '.join(_names(event.members))} ({event.cause}, {kind})"
        else:
            return
        if key not in self._shown:
            self._shown.add(key)
            self._screen.say(text)


def _names(members: tuple[Member, ...]) -> list[str]:
    return sorted([one.name for one in members])


def perform_with_peers(directory: Path, screen: DemoScreen, phase_seconds: float) -> PeersResult:
    """Runs the demonstration and judges its traces."""
    began = time.monotonic()

    async def run() -> PeersStory:
        async with Peers(COUNT, minimum=MAJORITY, directory=directory) as peers:
            story = PeersStory(peers, screen, phase_seconds)
            await story.perform()
            return story

    screen.doing("starting five peers")
    story = asyncio.run(run())
    screen.doing("judging the traces")
    events, verdicts = judge_peers(directory)
    broken = {one.property: one.witness for one in verdicts if not one}
    members = story.members.values()
    return PeersResult(
        ok=not broken and not story.problems,
        seconds=round(time.monotonic() - began, 1),
        messages=sum([one.sent for one in members]),
        deliveries=sum([len(one.got) for one in members]),
        split_seconds=story.split_seconds,
        suspended_seconds=story.suspended_seconds,
        healed_seconds=story.healed_seconds,
        events=events,
        broken=broken,
        held=len(verdicts) - len(broken),
        problems=story.problems,
        traces=str(directory),
    )


def has_peers(directory: Path) -> bool:
    """Whether a directory has the traces of such a run."""
    return (directory / "p1.jsonl").exists()


def judge_peers(directory: Path) -> tuple[int, list[Verdict]]:
    """The number of events in the traces of a run, and verdicts; PeerTraceError if there are none."""
    places: dict[str, str] = {}
    rows = list(_rows(directory, places))
    history: list[PeerEvent] = peer_histories(rows, places).get(TRADES, [])
    if not history:
        raise PeerTraceError(f"{directory} has no traces of peers")
    return len(history), [*check_peers(history, quiet_end=False), *check_rings(history, quiet_end=False)]


def _rows(directory: Path, places: dict[str, str]) -> Iterator[PeerTraceRow]:
    """The rows of all files; each file's name is that of its peer."""
    for path in sorted(directory.glob("p*.jsonl")):
        with path.open("rb") as file:
            for row in read_peer_rows(file):
                if "process" in row.event:
                    places[row.event["process"].partition(NONCE_SIGN)[0]] = path.stem
                yield row


def lines_of(facts: PeersResult) -> Iterator[str]:
    """The result as lines of text."""
    yield f"{facts.messages} messages, {facts.deliveries} deliveries at five peers"
    for seconds, what in (
        (facts.split_seconds, "until the three had their primary view"),
        (facts.suspended_seconds, "until the two were suspended"),
        (facts.healed_seconds, "from the heal until all were in one primary view"),
    ):
        if seconds is not None:
            yield f"{seconds:6.2f} s {what}"
    yield from [f"! {one}" for one in facts.problems]
    yield from [f"! {name} is broken: {witness}" for name, witness in facts.broken.items()]
    yield f"{facts.held} properties hold in {facts.events} events of all traces (R1 to R16, and EVS-C)"
    yield f"{'done' if facts.ok else 'FAILED'} in {facts.seconds:g} s; traces in {facts.traces}"
