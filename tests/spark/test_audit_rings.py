"""Records of rings of peers: both engines agree with the plain checks of R1 to R17, and on events."""

from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.campaign.caught_rings import CAUGHT_RINGS
from tests.spark.block_histories import BlockHistories, judged_by_both
from tests.unit.check.block_mutants import edited
from tests.unit.check.rmp.peer_notation import peers
from tests.unit.check.rmp.peers_by_hand import RIGHT, WRONG
from tests.unit.check.rmp.random_peers import random_history
from tests.unit.check.rmp.ring_mutants import RING_MUTANTS

from hopring.check.rmp.ring_block import RING_PROPERTIES
from hopring.sim.campaign.bugs.planting import all_bugs, plant
from hopring.sim.campaign.rmp.ring_runner import run_ring_world
from hopring.sim.campaign.rmp.ring_world import draw_ring_world

RINGS = "rings"
SEEDS = (120, 90)
"""Short worlds in which locks are held and processes call; the second one has what the first one lacks."""

NUMBERS = [one.name.split()[0] for one in RING_PROPERTIES]

pytestmark = pytest.mark.spark


def add_by_hand(histories: BlockHistories) -> None:
    """All histories by hand; the name of each begins with the property that it is about."""
    for kind, texts in (("right", RIGHT), ("wrong", WRONG)):
        for number, some in texts.items():
            for at, text in enumerate(some):
                histories.add_record(f"{number}-{kind}-{at}", RINGS, peers(text))


def add_random(histories: BlockHistories, seed: int, count: int) -> None:
    dice = Random(seed)
    for number in range(count):
        histories.add_record(f"random-{number}", RINGS, random_history(dice))


def add_altered(histories: BlockHistories) -> None:
    """A world, and one alteration of each kind of its history, or of that of another one."""
    dice, worlds = Random(1), [run_ring_world(draw_ring_world(seed)).peers for seed in SEEDS]
    histories.add_record("world", RINGS, worlds[0])
    for mutant in RING_MUTANTS:
        found = [(events, edits) for events in worlds if (edits := list(islice(mutant(events), 300)))]
        events, edits = found[0]
        histories.add_record(mutant.__name__, RINGS, edited(events, dice.choice(edits)))


@pytest.mark.slow
def test_both_engines_name_the_same_events_of_rings(spark: Any, tmp_path: Path) -> None:
    """Of histories by hand, at random, and of a world with alterations: one audit, since Spark plans long."""
    histories = BlockHistories(tmp_path)
    add_by_hand(histories)
    add_random(histories, 1, 60)
    add_altered(histories)

    report = judged_by_both(spark, histories)

    broken = {run: {name.split()[0] for name in names} for run, names in histories.broken.items()}
    for run, numbers in broken.items():
        number, kind, _ = f"{run}--".split("-", 2)
        assert kind not in ("right", "wrong") or (number in numbers) is (kind == "wrong"), run
    assert set().union(*broken.values()) == set(NUMBERS)
    assert all("{" not in one.witness for one in report.violations)
    assert broken["world"] == set()
    assert [name.split()[0] for name in report.judged["world"]] == NUMBERS
    assert all(number in broken[mutant.__name__] for mutant, number in RING_MUTANTS.items())


@pytest.mark.interpreted
@pytest.mark.long
@pytest.mark.slow
def test_both_engines_agree_on_many_random_histories_and_on_planted_bugs(spark: Any, tmp_path: Path) -> None:
    histories = BlockHistories(tmp_path)
    add_random(histories, 2, 1_000)
    for name, (seed, _property) in CAUGHT_RINGS.items():
        with plant(all_bugs()[name]):
            history = run_ring_world(draw_ring_world(seed)).peers
        histories.add_record(f"bug-{name}", RINGS, history)

    judged_by_both(spark, histories)

    broken = {run: names for run, names in histories.broken.items() if run.startswith("bug-")}
    ring = {
        name: one for name, (_seed, one) in CAUGHT_RINGS.items() if one.startswith("R") and one[:3] != "R15"
    }
    assert all(one in broken[f"bug-{name}"] for name, one in ring.items())
