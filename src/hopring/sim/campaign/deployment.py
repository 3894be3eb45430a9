"""Worlds of whole deployments: drawn as those with clients, run with real processes, judged where users stand.

A world has the daemons, paths, faults and load of the world with clients of the same seed. What differs is who
acts: `hopd` and programs with the client library run on a simulated kernel (sim/deployment), and the history is
what daemons wrote to their traces and programs got from their sessions.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from hopring.check.judge import check_evs, check_evs_c
from hopring.check.properties.property import Verdict, broken
from hopring.check.trace import Event, MessageDelivered, MessageSent, ViewInstalled
from hopring.config.model import Config, Daemon, MembershipTuning, RingTuning, SecurityTuning, Site
from hopring.daemon.engines.membership_host import membership_options
from hopring.groups.private_groups import private_group
from hopring.membership.options import MembershipOptions
from hopring.services import Service
from hopring.sim.campaign.fault_injector import FaultInjector
from hopring.sim.campaign.fault_schedule import BREAKS, CHAOS_US, Fault
from hopring.sim.campaign.runner import BUDGET, CONVERGENCE, NO_CRASH, WorldOutcome, last_line
from hopring.sim.campaign.workload import BURST_SPAN_US, FIRST_US, NAMES
from hopring.sim.campaign.world import (
    DEPLOYMENT_WORLD,
    HEALED_US,
    MEMBERSHIP,
    RING,
    WITH_CLIENTS,
    ClientLoad,
    SimWorld,
    WorldKind,
    draw_world,
)
from hopring.sim.deployment.clients import ClientProgram
from hopring.sim.deployment.daemons import Deployment, socket_path
from hopring.sim.engine import BudgetSpent, generator
from hopring.system.kernel import simulated

NO_PROBLEM: Final = "I18 no program ends with an error of the library"
COUNTERS_RISE: Final = "I19 the views of a daemon's processes rise, also over a loss of power"
CLIENT_PORT: Final = 4_803
WINDOWS_BYTES: Final = (4_096, 65_536, 1 << 20)
SLOW_US: Final = (0, 0, 0, 2_000)
"""How long programs take for an event; with the small window some of them wait for the daemon often."""

KILLED: Final = 0.3
"""The share of the ends of programs in which they are killed."""


def draw_deployment(seed: int, kind: WorldKind) -> SimWorld:
    """The world of a seed."""
    assert kind.world == DEPLOYMENT_WORLD, "nothing is added to a deployment"
    world = draw_world(seed, WITH_CLIENTS)
    config = _deployed(world.config)
    options = replace(membership_options(config), round_trip_us=world.membership.round_trip_us)
    tuning = replace(config.membership, round_trip_us=options.round_trip_us)
    # Everything heals in the end here.
    return replace(world, config=replace(config, membership=tuning), membership=options, lasting=())


def _deployed(config: Config) -> Config:
    """The same daemons, each on a machine of its own, with the timers of a short world."""
    ring = RingTuning(
        token_loss_us=RING.token_loss_us,
        token_resend_us=RING.token_resend_us,
        hold_us=RING.hold_us_max,
        hurry_resend_us=RING.hurry_resend_us,
    )
    sites: list[Site] = []
    for number, site in enumerate(config.sites):
        daemons = [
            Daemon(one.name, f"10.0.{number}.{at}", client_port=CLIENT_PORT)
            for at, one in enumerate(site.daemons, 1)
        ]
        sites.append(replace(site, daemons=tuple(daemons), ring=ring))
    security = SecurityTuning(insecure=True)
    return replace(config, sites=tuple(sites), membership=_tuned(MEMBERSHIP), security=security)


def _tuned(options: MembershipOptions) -> MembershipTuning:
    return MembershipTuning(
        update_delta_us=options.update_delta_us,
        update_floor_us=options.update_floor_us,
        probe_us=options.probe_us,
        statetrans_us=options.statetrans_us,
        flap_us=options.flap_us,
        back_off_us=options.back_off_us,
        back_off_us_max=options.back_off_us_max,
    )


class DeploymentRun:
    """One run of a world."""

    def __init__(self, world: SimWorld) -> None:
        assert world.clients is not None, "a world with clients"
        self.world = world
        self.deployment = Deployment(world.config, world.seed, world.quality)
        self.injector = FaultInjector(self.deployment)
        self._load: ClientLoad = world.clients
        self._dice = generator(world.seed, "load")
        self._acts = generator(world.seed, "acts of programs")
        self._programs = 0
        self._late_views = ""
        self._rested = False
        for link in world.config.links:
            self._shape(link.sites, world.wide_delay_us)

    def _shape(self, ends: tuple[str, str], delay_us: int) -> None:
        sites = {site.name: site.daemons for site in self.world.config.sites}
        for near in sites[ends[0]]:
            for far in sites[ends[1]]:
                self.deployment.network.shape_both(near.name, far.name, delay_us=delay_us)

    def live(self) -> None:
        """Runs the world: faults until the heal, then a quiet time."""
        world, deployment = self.world, self.deployment
        engine = deployment.engine
        late = dict(world.starts_us)
        deployment.start(*[name for name in sorted(deployment.numbers) if name not in late])
        for name, at_us in world.starts_us:
            engine.at(at_us, self.injector.start, name)
        for fault in world.schedule:
            if fault.kind != "speak":
                self.injector.plan(fault)
        for path in world.paths:
            engine.at(path.at_us, self._shape, path.sites, path.delay_us)
        engine.at(CHAOS_US, self._heal)
        engine.at(CHAOS_US + world.settle_us, self._look)
        engine.at(CHAOS_US + world.healed_us - world.rest_us, self._rest)
        self._plan_load()
        engine.run_until(CHAOS_US + world.healed_us)

    def _heal(self) -> None:
        for name, daemon in sorted(self.deployment.hosts.items()):
            if daemon.leaving:
                self.deployment.crash(
                    name
                )  # Otherwise it might still be about to end, and nobody starts it again.
        self.injector.end()

    def _look(self) -> None:
        if not self._settled():
            self._late_views = self._views_now()

    def _rest(self) -> None:
        self._rested = self._settled()

    def _settled(self) -> bool:
        hosts = self.deployment.hosts
        if set(hosts) != set(self.deployment.numbers):
            return False
        seen = [host.state() for host in hosts.values()]
        return set(seen[0].members) == {one.me for one in seen} and all(
            one.view == seen[0].view and one.settled for one in seen
        )

    def _views_now(self) -> str:
        seen = [(name, host.state()) for name, host in sorted(self.deployment.hosts.items())]
        return "; ".join(
            f"{name} is {one.phase} in view {one.view.counter} of {len(one.members)}" for name, one in seen
        )

    # The load.

    def _plan_load(self) -> None:
        if not self.world.load.per_second:
            return
        dice = generator(self.world.seed, "first sessions")
        engine = self.deployment.engine
        for name in sorted(self.deployment.numbers):
            for _ in range(self._load.sessions):
                engine.at(dice.randint(FIRST_US // 8, FIRST_US), self._come, name)
        self._plan_next()
        for fault in self.world.schedule:
            if fault.kind in BREAKS and not fault.moment:
                self._plan_burst(fault)

    def _plan_burst(self, fault: Fault) -> None:
        dice = generator(self.world.seed, f"burst {fault}")
        for _ in range(self.world.load.burst):
            self.deployment.engine.at(fault.at_us - dice.randint(0, BURST_SPAN_US), self._act)

    def _plan_next(self) -> None:
        now_us = self.deployment.engine.now_us
        rate = self.world.load.per_second / (1 if now_us < CHAOS_US else 3)
        at_us = now_us + int(self._dice.expovariate(rate) * 1_000_000)
        if at_us < CHAOS_US + HEALED_US // 2:
            self.deployment.engine.at(at_us, self._act_and_plan)

    def _act_and_plan(self) -> None:
        self._act()
        self._plan_next()

    def _come(self, name: str) -> None:
        if not self.deployment.runs(name):
            return
        self._programs += 1
        who = f"{self._acts.choice(NAMES)}{self._programs}"
        by_tcp = self._acts.random() < 0.5
        url = f"hop://127.0.0.1:{CLIENT_PORT}" if by_tcp else f"hop+unix://{socket_path(name)}"
        window_bytes, slow_us = self._acts.choice(WINDOWS_BYTES), self._acts.choice(SLOW_US)
        program = ClientProgram(self.deployment, name, who, url, window_bytes, slow_us)
        self.deployment.clients.append(program)
        for group in self._acts.sample(
            self._load.groups, min(len(self._load.groups), self._acts.choice([1, 1, 2]))
        ):
            program.join(group)

    def _act(self) -> None:
        dice = self._acts
        name = dice.choice(sorted(self.deployment.numbers))
        if not self.deployment.runs(name):
            return
        here = [one for one in self.deployment.clients if one.daemon == name and one.ready]
        if not here or (len(here) < self._load.sessions and dice.random() < self._load.changes):
            self._come(name)
            return
        program = dice.choice(here)
        if dice.random() < self._load.changes:
            self._change(program)
        else:
            self._send(program)

    def _change(self, program: ClientProgram) -> None:
        dice = self._acts
        others = [group for group in self._load.groups if group not in program.groups]
        chance = dice.random()
        if others and (chance < 0.5 or not program.groups):
            program.join(dice.choice(others))
        elif chance < 0.8 and len(program.groups) > 1:
            program.leave(dice.choice(sorted(program.groups)))
        elif dice.random() < KILLED:
            program.kill()
        else:
            program.close()

    def _send(self, program: ClientProgram) -> None:
        dice, load = self._acts, self.world.load
        count = min(len(self._load.groups), dice.choice([1, 1, 2, 3]))
        groups = [*dice.sample(self._load.groups, count)]
        if dice.random() < 0.1:
            # A program is in no history before its first view.
            known = [one for one in self.deployment.clients if one.known]
            if known:
                other = dice.choice(known)
                groups.append(private_group(other.name, other.daemon))
        service = dice.choice([one for one in load.services if one is not Service.UNRELIABLE])
        program.send(tuple(groups), service, dice.choice(load.sizes), dice.random() < 0.1)

    # The verdict.

    def judge(self) -> WorldOutcome:
        """The verdicts on the history."""
        settled = self._settled()
        quiet = settled and self._rested
        components = [sorted(self.deployment.numbers)]
        forgets = any(fault.kind == "forget" for fault in self.world.schedule)
        history = self.deployment.history()
        # Messages that nobody wants are pruned, which the checks of daemons do not know; those of clients do.
        views = [one for one in history if not isinstance(one, MessageSent | MessageDelivered)]
        verdicts = check_evs(views, quiet_end=quiet, components=components, counters_survive=not forgets)
        wrong = [one for one in verdicts if not one]
        wrong += [one for one in check_evs_c(history, quiet, components) if not one]
        if not forgets:
            wrong += [broken(COUNTERS_RISE, one) for one in _repeated(views)[:1]]
        wrong += [broken(NO_PROBLEM, problem) for problem in self._problems()[:1]]
        if not settled:
            wrong.append(broken(CONVERGENCE, f"at the end {self._views_now()}"))
        elif self._late_views:
            after = f"{self.world.settle_us / 1_000:g} ms after the heal"
            wrong.append(broken(CONVERGENCE, f"{after} {self._late_views}"))
        return self._outcome(wrong)

    def _problems(self) -> list[str]:
        return [f"{one.name}: {what}" for one in self.deployment.clients for what in one.problems]

    def cut_short(self, verdict: Verdict) -> WorldOutcome:
        """The outcome of a world that did not come to its end."""
        return self._outcome([verdict])

    def _outcome(self, wrong: list[Verdict]) -> WorldOutcome:
        events, faults = self.deployment.engine.events, len(self.world.schedule)
        return WorldOutcome(self.world.seed, events, tuple(wrong), self.deployment.history(), faults)


def _repeated(views: Sequence[Event]) -> list[str]:
    """First views of processes that are not above all views of earlier processes of the same daemon."""
    found: list[str] = []
    highest: dict[str, tuple[int, int]] = {}  # By daemon: the highest counter, and the process that had it.
    for event in views:
        if isinstance(event, ViewInstalled):
            name, incarnation = event.process.daemon, event.process.incarnation
            before, process = highest.get(name, (0, incarnation))
            if event.view.counter <= before and process != incarnation:
                found.append(f"{name} came back with view {event.view.counter}, and had been in view {before}")
            highest[name] = max(before, event.view.counter), incarnation
    return found


def run_deployment(world: SimWorld) -> WorldOutcome:
    """Runs a world and judges it."""
    run = DeploymentRun(world)
    with simulated(run.deployment.kernel):
        try:
            run.live()
            return run.judge()
        except BudgetSpent as spent:
            return run.cut_short(broken(BUDGET, str(spent)))
        except Exception as error:  # Any exception of the code under test is a finding.
            return run.cut_short(broken(NO_CRASH, last_line(error)))
