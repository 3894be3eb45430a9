"""Runs a world of clusters, judges it by W1 to W17, and tells its story."""

from collections.abc import Iterable
from typing import Final

from hopring.check.properties.property import Verdict, broken
from hopring.check.wide.history import WideSeen
from hopring.check.wide.judge import check_wide
from hopring.haul.ids import clusters_in, is_in, without
from hopring.haul.order.events import Cast, CastKind, Parcel
from hopring.sim.campaign.fault_schedule import Fault
from hopring.sim.campaign.runner import BUDGET, NO_CRASH, last_line
from hopring.sim.campaign.story import StoryLine, align
from hopring.sim.campaign.wide.outcome import WideOutcome
from hopring.sim.campaign.wide.wide_world import PAUSE_US, WIDE_CHAOS_US, WideWorld, directions_of
from hopring.sim.engine import BudgetSpent, generator
from hopring.sim.wide.clusters import SimWideCluster, SimWideClusters

ANSWER_US_MAX: Final = 50_000
ENTRIES: Final = 4


class WideRun:
    """One run of a world of clusters."""

    def __init__(self, world: WideWorld) -> None:
        self.world = world
        self.clusters = SimWideClusters(world.clusters, world.seed, world.quality.delay_us)
        self.clusters.when_delivered = self._delivered
        self._dice = generator(world.seed, "wide clients")

    def live(self) -> None:
        """Runs the world: chaos, a pause, the heal, and a quiet end."""
        world, engine = self.world, self.clusters.engine
        for _ in range(world.load.per_second * WIDE_CHAOS_US // 1_000_000):
            engine.at(self._dice.randrange(WIDE_CHAOS_US), self._send_from_any)
        for fault in world.schedule:
            engine.at(fault.at_us, self._cut, fault)
        engine.run_until(WIDE_CHAOS_US + PAUSE_US)
        self.clusters.note_waiting()
        self.clusters.heal()
        engine.run_until(world.end_us)
        self.clusters.note_rest()

    def _cut(self, fault: Fault) -> None:
        directions = directions_of(fault)
        self.clusters.cut(directions)
        # What would end within the pause lasts through it.
        end_us = fault.at_us + int(fault.number * 1_000)
        if fault.number and end_us < WIDE_CHAOS_US:
            self.clusters.engine.at(end_us, self.clusters.mend, directions)

    def _send_from_any(self) -> None:
        self._send(self.clusters.clusters[self._dice.choice(self.world.every)])

    def _send(self, cluster: SimWideCluster) -> None:
        dice, world = self._dice, self.world
        talk = dice.choice([one for one in world.talks if is_in(cluster.me, one.participants)])
        if dice.random() < world.abcasts:
            cluster.cast(Cast(talk, CastKind.ABCAST, dice.randrange(ENTRIES)))
            return
        others = list(clusters_in(without(talk.participants, cluster.me)))
        to = dice.choice(others) if dice.random() < world.single else None
        cluster.cast(Cast(talk, CastKind.CBCAST, dice.randrange(ENTRIES), to))

    def _delivered(self, cluster: SimWideCluster, parcel: Parcel) -> None:
        """A client got a parcel, and perhaps sends something because of it."""
        engine = self.clusters.engine
        chance = self.world.answers / self.world.clusters
        if parcel.id.sender != cluster.me and self._dice.random() < chance:
            at_us = engine.now_us + self._dice.randrange(ANSWER_US_MAX)
            if at_us < WIDE_CHAOS_US:
                engine.at(at_us, self._send, cluster)

    def outcome(self, wrong: Iterable[Verdict]) -> WideOutcome:
        """The outcome with these broken properties; files of a history have no form for it."""
        events, faults = self.clusters.engine.events, len(self.world.schedule)
        return WideOutcome(self.world.seed, events, tuple(wrong), [], faults, wide=tuple(self.clusters.history))


def run_wide_world(world: WideWorld) -> WideOutcome:
    """Runs a world of clusters and judges it."""
    run = WideRun(world)
    try:
        run.live()
        return run.outcome([verdict for verdict in check_wide(run.clusters.history) if not verdict.holds])
    except BudgetSpent as spent:
        return run.outcome([broken(BUDGET, str(spent))])
    except Exception as error:  # Any exception of the code under test is a finding.
        return run.outcome([broken(NO_CRASH, last_line(error))])


def wide_story(world: WideWorld, outcome: WideOutcome) -> list[str]:
    """The story of a run as lines of text: its cuts, and what broke."""
    talks = [f"{' '.join(map(str, clusters_in(one.participants)))} {one.name}".rstrip() for one in world.talks]
    lines = [
        f"seed {world.seed}: {world.clusters} clusters, {world.load.per_second} parcels a second,"
        f" delays of up to {world.quality.delay_us / 1000:g} ms",
        f"talks of {'; '.join(talks)}",
        "",
        *align([StoryLine(one.at_us, "channels", _cut_text(one)) for one in world.schedule]),
        "",
    ]
    for verdict in outcome.broken:
        lines += [f"broken: {verdict.property}", f"  {verdict.witness}"]
    if not outcome.broken:
        delivered = sum(isinstance(event, WideSeen) and event.parcel is not None for event in outcome.wide)
        lines.append(f"nothing is broken: {outcome.events} events, {delivered} parcels delivered")
    return lines


def _cut_text(fault: Fault) -> str:
    until = f"for {fault.number:g} ms" if fault.number else "until the heal"
    return f"cut {until}: {' '.join(fault.what)}"
