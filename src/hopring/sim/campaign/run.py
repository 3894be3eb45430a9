"""One world, run and judged: chaos by schedule, then all is healed, and all must come together again."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from random import Random
from traceback import extract_tb

from hopring.check.evs import check_evs
from hopring.check.trace import Event, Installed, Sent
from hopring.check.verdict import Verdict, broken
from hopring.services import Service
from hopring.sim.campaign.draw import BREAKS, CHAOS_US, HEALED_US, Fault, World, draw_world
from hopring.sim.chance import generator
from hopring.sim.cluster import Cluster
from hopring.sim.engine import BudgetSpent
from hopring.sim.host import HostState

CONVERGENCE = "I7 all daemons share one view after the heal"
SELF_SENDING = "I5 what a daemon takes it sends"
BUDGET = "I8 the world comes to its end"
NO_CRASH = "the code keeps its own assertions"
SERVICES = tuple(Service)
SIZES = (10, 100, 100, 1_000, 5_000)
BURST_SPAN_US = 25_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a seed."""

    seed: int
    events: int
    broken: tuple[Verdict, ...]
    history: list[Event]
    faults: int

    @property
    def views(self) -> int:
        """How many views were installed, at all daemons together."""
        return sum(isinstance(event, Installed) for event in self.history)


def run_seed(seed: int) -> Outcome:
    """The world of a seed, from start to verdict."""
    return run_world(draw_world(seed))


def run_world(world: World, link_counters_us: int = 0) -> Outcome:
    """A world, from start to verdict; with a period, its history has the links' counters too."""
    run = Run(world, link_counters_us)
    try:
        run.live()
        return run.judge()
    except BudgetSpent as spent:
        return run.cut_short(broken(BUDGET, str(spent)))
    except Exception as error:  # Whatever the code raises is a finding: that is what a campaign is for.
        return run.cut_short(broken(NO_CRASH, _last_line(error)))


def _last_line(error: Exception) -> str:
    frames = extract_tb(error.__traceback__)
    where = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}, " if frames else ""
    return f"{where}{type(error).__name__}: {error}"


class Run:
    """A world in motion."""

    def __init__(self, world: World, link_counters_us: int = 0) -> None:
        self.world = world
        parts = world.config, world.seed, world.quality, world.membership, world.stack
        self.cluster = Cluster(*parts, link_counters_us=link_counters_us)
        self.load = generator(world.seed, "load")
        for link in world.config.links:
            self._shape(*link.sites)

    def _shape(self, one: str, other: str) -> None:
        sites = {site.name: site.daemons for site in self.world.config.sites}
        for near in sites[one]:
            for far in sites[other]:
                delay_us = self.world.wide_delay_us
                self.cluster.network.shape_both(near.name, far.name, delay_us=delay_us)

    def live(self) -> None:
        """Chaos, then quiet."""
        cluster = self.cluster
        engine = cluster.engine
        cluster.start()
        for fault in self.world.schedule:
            engine.at(fault.at_us, self._happen, fault)
            if fault.kind in BREAKS:
                self._plan_burst(fault)
        engine.at(CHAOS_US, self._heal)
        self._plan_load()
        engine.run_until(CHAOS_US + HEALED_US)

    def cut_short(self, verdict: Verdict) -> Outcome:
        """The outcome of a world that did not come to its end."""
        cluster = self.cluster
        return Outcome(
            self.world.seed, cluster.engine.events, (verdict,), cluster.history, len(self.world.schedule)
        )

    def judge(self) -> Outcome:
        """The verdicts on what happened."""
        cluster = self.cluster
        up = [sorted(cluster.hosts)]
        verdicts = check_evs(cluster.history, quiet_end=cluster.settled(), components=up)
        wrong = [verdict for verdict in verdicts if not verdict]
        if not cluster.settled():
            wrong.insert(0, broken(CONVERGENCE, self._who_is_where()))
        else:
            wrong.extend(self._unstamped())
        events = cluster.engine.events
        return Outcome(self.world.seed, events, tuple(wrong), cluster.history, len(self.world.schedule))

    def _unstamped(self) -> list[Verdict]:
        """Messages that a living daemon took and never sent: no property of the order can see them."""
        stamped = Counter(event.process for event in self.cluster.history if isinstance(event, Sent))
        return [
            broken(SELF_SENDING, f"{name} took {host.sent} messages and sent {stamped[host.process]}")
            for name, host in sorted(self.cluster.hosts.items())
            if stamped[host.process] != host.sent
        ]

    def _who_is_where(self) -> str:
        return "; ".join(
            f"{name} is {host.membership.phase.value} in view {host.membership.view.id.counter}"
            f" of {len(host.membership.view.members)}"
            for name, host in sorted(self.cluster.hosts.items())
        )

    # Load.

    def _plan_load(self) -> None:
        if not self.world.load_per_second:
            return
        wait_us = int(self.load.expovariate(self.world.load_per_second) * 1_000_000)
        at_us = self.cluster.engine.now_us + wait_us
        if at_us < CHAOS_US + HEALED_US // 2:
            self.cluster.engine.at(at_us, self._send)

    def _send(self) -> None:
        self._submit(self.load)
        self._plan_load()

    def _plan_burst(self, fault: Fault) -> None:
        """A break is only worth something if there is something under way."""
        # A generator for each: with one fault less, the luck of the others stays.
        dice = generator(self.world.seed, f"burst {fault}")
        for _ in range(self.world.burst if self.world.load_per_second else 0):
            self.cluster.engine.at(fault.at_us - dice.randint(0, BURST_SPAN_US), self._submit, dice)

    def _submit(self, dice: Random) -> None:
        name = dice.choice(sorted(self.cluster.numbers))
        service, size = dice.choice(SERVICES), dice.choice(SIZES)
        host = self.cluster.hosts.get(name)
        if host is not None and self.cluster.network.host(name).state is HostState.RUNNING:
            host.submit(service, size)

    # Faults.

    def _happen(self, fault: Fault) -> None:
        network = self.cluster.network
        match fault.kind:
            case "crash" if fault.what[0] in self.cluster.hosts:
                self.cluster.crash(fault.what[0])
            case "restart" if fault.what[0] not in self.cluster.hosts:
                self.cluster.restart(fault.what[0])
            case "partition":
                sides: dict[str, list[str]] = {}
                for word in fault.what:
                    name, side = word.split("=")
                    sides.setdefault(side, []).append(name)
                network.partition(*sides.values())
            case "sever":
                network.cut_both(*fault.what)
            case "one_way":
                network.cut(*fault.what)
            case "pause":
                if network.host(fault.what[0]).state is HostState.RUNNING:
                    network.pause(fault.what[0], int(fault.number * 1_000))
            case "loss":
                network.shape_all(loss=fault.number)
            case "heal":
                network.heal()

    def _heal(self) -> None:
        network = self.cluster.network
        network.heal()
        network.shape_all(loss=0.0, duplicate=0.0, reorder=0.0)
        for name in sorted(self.cluster.numbers):
            if network.host(name).state is HostState.PAUSED:
                network.resume(name)
            if name not in self.cluster.hosts:
                self.cluster.restart(name)
