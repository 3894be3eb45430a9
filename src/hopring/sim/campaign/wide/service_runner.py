"""Runs a world of clusters with members, judges it by W1 to W17, and tells its story."""

from collections.abc import Iterable
from hashlib import sha256
from typing import Final

from hopring.blocks.log.member import LogSizes
from hopring.check.properties.property import Verdict, broken
from hopring.check.wide.history import WideSeen
from hopring.check.wide.judge import check_wide
from hopring.haul.ids import ClusterId, Talk, clusters_in, clusters_mask, is_in, without
from hopring.haul.link.channel import FRAME_COST_BYTES, WINDOW_BYTES
from hopring.haul.link.frames import WideFile
from hopring.haul.link.links import LinkOptions
from hopring.haul.link.schedule import LinkSchedule, OnDemand, Windows
from hopring.haul.managed_set import SetOptions
from hopring.haul.member import MemberOptions
from hopring.haul.order.events import CastKind, Parcel
from hopring.sim.campaign.fault_schedule import Fault
from hopring.sim.campaign.runner import BUDGET, NO_CRASH, last_line
from hopring.sim.campaign.story import StoryLine, align
from hopring.sim.campaign.wide.outcome import WideOutcome
from hopring.sim.campaign.wide.service_world import (
    CHAOS_US,
    PAUSE_US,
    SMALL_BYTES,
    SWITCH,
    ServiceWorld,
)
from hopring.sim.campaign.wide.wide_world import CUT, directions_of
from hopring.sim.engine import BudgetSpent, generator
from hopring.sim.wide.clients import SimUpload, SimWideClient
from hopring.sim.wide.service import SimService, SimServiceCluster

ANSWER_US_MAX: Final = 3_000_000
ENTRIES: Final = 4
ENTRIES_WAITED_MAX: Final = 1_600
"""How often the end is put off while an entry is on its way: longer than a disk is full."""

CLIENTS: Final = 2
BODY_BYTES: Final = 60
FILE_WINDOW_BYTES, FILE_PIECE_BYTES = 1_000, 400
SPOILED: Final = 0.2
"""The probability that a file changes while it is brought."""

UPLOAD_US: Final = 60_000_000
"""A file that no parcel names is given up after this time."""


class ServiceRun:
    """One run of a world of clusters with members."""

    def __init__(self, world: ServiceWorld) -> None:
        self.world = world
        self.service = SimService(world.seed, len(world.members), world.quality.delay_us, world.life_us)
        self.service.sets = dict(world.sets)
        self.service.body_bytes = BODY_BYTES
        self.service.durable = world.durable
        self.service.watches_limits = world.spool_bytes_max == SMALL_BYTES
        self.service.when_seen = self._seen
        self.service.in_window = self._in_window
        self._dice = generator(world.seed, "service clients")
        self._file_dice = generator(world.seed, "service files sent")
        self._call_dice = generator(world.seed, "service calls")
        self._uploads = 0
        self._window_bytes = SMALL_BYTES if world.spool_bytes_max == SMALL_BYTES else WINDOW_BYTES
        for cluster, count in zip(world.every, world.members, strict=True):
            home = self.service.add(cluster, count, self._options(cluster))
            if world.founded:
                home.found()

    def _options(self, me: ClusterId) -> MemberOptions:
        world = self.world
        others = [one for one in world.every if one != me]
        both = world.both_dial or world.on_demand
        dials = clusters_mask([one for one in others if both or one > me])
        schedules: dict[ClusterId, LinkSchedule] = {
            other: windows for one, peer, windows in world.windows for other in (one, peer) if me in (one, peer)
        }
        if world.on_demand:
            schedules |= {one: OnDemand(1_500, 8_000_000) for one in others if one not in schedules}
        windows = self._window_bytes, FILE_WINDOW_BYTES, FILE_PIECE_BYTES
        links = LinkOptions("sim", bytes(32), dials, dict(schedules), *windows)
        sets = SetOptions(spool_bytes_max=world.spool_bytes_max, upload_us=UPLOAD_US)
        return MemberOptions(sets, links, LogSizes(world.compact_entries, 10_000_000, 0))

    def _in_window(self, one: ClusterId, other: ClusterId) -> bool:
        windows = self._windows(one, other)
        return windows is None or windows.is_open(self.service.engine.now_us)

    def _windows(self, one: ClusterId, other: ClusterId) -> Windows | None:
        return next((of for *pair, of in self.world.windows if set(pair) == {one, other}), None)

    def live(self) -> None:
        """Runs the world: chaos, a pause, the heal, and a quiet end."""
        world, service = self.world, self.service
        engine = service.engine
        for cluster in service.clusters.values():
            for name in cluster.names:
                engine.at(self._dice.randrange(2_000_000), cluster.start, name)
            for number in range(1, CLIENTS + 1):
                engine.at(self._dice.randrange(4_000_000), cluster.start_client, f"c{cluster.me}k{number}")
        for _ in range(world.load.per_second * CHAOS_US // 60_000_000):
            engine.at(self._dice.randrange(4_000_000, CHAOS_US), self._send_from_any)
        for fault in world.schedule:
            engine.at(fault.at_us, self._happen, fault)
        engine.at(CHAOS_US, self._repair)
        engine.run_until(CHAOS_US + PAUSE_US)
        service.note_waiting()
        service.streams.heal()
        engine.run_until(world.end_us)
        # Connections still come and go: entries about them may be on their way at any moment.
        for _ in range(ENTRIES_WAITED_MAX):
            if not service.writes:
                break
            engine.run_for(5_000)
        service.note_end(self._limits())

    def _limits(self) -> dict[str, int]:
        one = BODY_BYTES + FRAME_COST_BYTES
        spool, clusters = self.world.spool_bytes_max, len(self.world.members)
        return {
            # One that is just below the limit, and its next one.
            "bytes under way to a peer": spool + one,
            # What all clusters together may have under way to this one.
            "bytes for the group": (clusters + 1) * (spool + one),
            "bytes on a connection": self._window_bytes + one,
            "bytes of files on a connection": FILE_WINDOW_BYTES,
        }

    # Faults.

    def _happen(self, fault: Fault) -> None:
        if fault.kind == CUT:
            directions = directions_of(fault)
            self.service.streams.cut(directions)
            if fault.number and fault.at_us + self._for_us(fault) < CHAOS_US:
                self._later(fault, self.service.streams.mend, directions)
            return
        cluster = self.service.clusters[ClusterId(int(fault.what[0]))]
        match fault.kind:
            case "crash":
                cluster.crash(fault.what[1])
                self._later(fault, cluster.start, fault.what[1])
            case "crash-cluster":
                cluster.crash_all()
                for name in cluster.names:
                    self._later(fault, cluster.start, name)
            case "split":
                cluster.split({host: int(side) for host, side in (one.split("=") for one in fault.what[1:])})
                self._later(fault, cluster.split, {})
            case "client":
                cluster.crash_client(fault.what[1])
                self._later(fault, cluster.start_client, fault.what[1])
            case "switch":
                drain = int(fault.number) % 3 == 0
                self._switch(cluster, ClusterId(int(fault.what[1])), on=False, drain=drain)
                self._later(fault, self._switch_on, cluster, ClusterId(int(fault.what[1])))
            case "disk":
                cluster.lose_disk(fault.what[1])
                self._later(fault, cluster.start, fault.what[1])
            case "burst":
                for client in list(cluster.clients.values()):
                    self._send(client)
            case "session" if fault.what[1] in cluster.processes:
                cluster.lose_session(fault.what[1])

    @staticmethod
    def _for_us(fault: Fault) -> int:
        return int(fault.number * 1_000)

    def _later(self, fault: Fault, action: object, *args: object) -> None:
        assert callable(action), "something to do"
        at_us = min(fault.at_us + self._for_us(fault), CHAOS_US)
        self.service.engine.at(max(at_us, self.service.engine.now_us), action, *args)

    def _switch(self, cluster: SimServiceCluster, peer: ClusterId, *, on: bool, drain: bool = False) -> None:
        client = next(iter(cluster.clients.values()), None)
        if client is not None:
            client.switch(peer, on=on, drain=drain)

    def _switch_on(self, cluster: SimServiceCluster, peer: ClusterId) -> None:
        self._switch(cluster, peer, on=True)

    def _repair(self) -> None:
        """All run, and every LAN is whole; cuts between clusters last."""
        for cluster in self.service.clusters.values():
            cluster.split({})
            for name in cluster.names:
                cluster.start(name)
            for number in range(1, CLIENTS + 1):
                cluster.start_client(f"c{cluster.me}k{number}")
            for peer in clusters_in(cluster.peers):
                if any(
                    one.kind == SWITCH and one.what == (str(cluster.me), str(peer))
                    for one in self.world.schedule
                ):
                    self._switch_on(cluster, peer)

    # Clients.

    def _send_from_any(self) -> None:
        cluster = self.service.clusters[self._dice.choice(self.world.every)]
        clients = [one for _, one in sorted(cluster.clients.items())]
        if clients:
            self._send(self._dice.choice(clients))

    def _send(self, client: SimWideClient) -> None:
        dice, world = self._dice, self.world
        me = client.home.me
        theirs = [one for one in world.talks if is_in(me, one[1].participants)]
        if not theirs or not client.runs:
            return
        name, talk = dice.choice(theirs)
        if world.calls and self._call_dice.random() < world.calls:
            client.calls.ask(name, talk, self._call_dice.choice(list(clusters_in(talk.participants))))
            return
        kind = CastKind.ABCAST if dice.random() < world.abcasts else CastKind.CBCAST
        others = list(clusters_in(without(talk.participants, me)))
        single = kind is CastKind.CBCAST and others and dice.random() < world.single
        to = dice.choice(others) if single else ClusterId(0)
        of = name, talk, kind, dice.randrange(ENTRIES), to
        notify = dice.random() < 0.7
        if world.with_files and self._file_dice.random() < world.with_files:
            client.upload(self._upload(of))
        else:
            client.send(*of, notify=notify)

    def _upload(self, send: tuple[str, Talk, CastKind, int, ClusterId]) -> SimUpload:
        """A file for a fixed place, which senders share or not, or for any; some names are impossible."""
        dice = self._file_dice
        self._uploads += 1
        # Some contents come several times.
        content = f"file {dice.choice([self._uploads, 1])} ".encode() * dice.choice([0, 1, 60, 400])
        names = ["", "", f"seg/{self._uploads}", "latest", "../latest", "/etc/seg"]
        file = WideFile(dice.choice(names), len(content), sha256(content).digest())
        return SimUpload(file, content, dice.random() < SPOILED, send)

    def _seen(self, client: SimWideClient, _name: str, parcel: Parcel) -> None:
        """A client got a message, and perhaps sends something because of it."""
        chance = self.world.answers / (CLIENTS * len(self.world.members))
        engine = self.service.engine
        if parcel.id.sender != client.home.me and self._dice.random() < chance:
            at_us = engine.now_us + self._dice.randrange(ANSWER_US_MAX)
            if at_us < CHAOS_US:
                engine.at(at_us, self._send, client)

    def outcome(self, wrong: Iterable[Verdict]) -> WideOutcome:
        """The outcome with these broken properties."""
        events, faults = self.service.engine.events, len(self.world.schedule)
        return WideOutcome(self.world.seed, events, tuple(wrong), [], faults, wide=tuple(self.service.history))


def run_service_world(world: ServiceWorld) -> WideOutcome:
    """Runs a world of clusters with members and judges it."""
    run = ServiceRun(world)
    try:
        run.live()
        return run.outcome([verdict for verdict in check_wide(run.service.history) if not verdict.holds])
    except BudgetSpent as spent:
        return run.outcome([broken(BUDGET, str(spent))])
    except Exception as error:  # Any exception of the code under test is a finding.
        return run.outcome([broken(NO_CRASH, last_line(error))])


def service_story(world: ServiceWorld, outcome: WideOutcome) -> list[str]:
    """The story of a run as lines of text: its faults, and what broke."""
    talks = [
        f"{name}: {' '.join(map(str, clusters_in(one.participants)))} {one.name}".rstrip()
        for name, one in world.talks
    ]
    lines = [
        f"seed {world.seed}: {len(world.members)} clusters of {' '.join(map(str, world.members))} members,"
        f" {world.load.per_second} messages a minute, delays of up to {world.quality.delay_us / 1000:g} ms",
        f"talks of {'; '.join(talks)}",
        "",
        *align([StoryLine(one.at_us, "world", _text(one)) for one in world.schedule]),
        "",
    ]
    for verdict in outcome.broken:
        lines += [f"broken: {verdict.property}", f"  {verdict.witness}"]
    if not outcome.broken:
        seen = sum(isinstance(event, WideSeen) for event in outcome.wide)
        lines.append(f"nothing is broken: {outcome.events} events, {seen} items seen")
    return lines


def _text(fault: Fault) -> str:
    until = f" for {fault.number:g} ms" if fault.number else ""
    return f"{fault.kind}{until}: {' '.join(fault.what)}"
