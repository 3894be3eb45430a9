"""Records of locks, calls, view synchrony and state: both engines agree with the plain checks and on events."""

from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.spark.block_histories import QUIET, BlockHistories, judged_by_both
from tests.unit.check.block_mutants import BLOCK_MUTANTS, edited

from hopring.check.block_kinds import BLOCK_PROPERTIES
from hopring.check.locks import LOCK_PROPERTIES
from hopring.check.rmp.ring_block import RING_PROPERTIES
from hopring.check.trace import BlockNoted
from hopring.sim.campaign.runner import WorldOutcome, run_seed
from hopring.sim.campaign.world import WorldKind
from hopring.spark.audit import CLIENT_NAMES, NAMES, Ends, audit, read_trace
from hopring.spark.audit.witness import as_text
from hopring.spark.errors import ForeignInput

SEEDS = {"calls": 25, "flush": 1, "handlers": 1, "locks": 6, "minimum": 7, "state": 17, "values": 37}
"""Of short worlds in which every alteration has its place."""
BLOCK_NAMES = {one.name for one in BLOCK_PROPERTIES if one not in RING_PROPERTIES}
LOCK_NAMES = {one.name for one in LOCK_PROPERTIES}
HOLDING = f"{len(NAMES) - 2} properties of daemons, {len(CLIENT_NAMES) - 1} of clients and 5 of blocks"

pytestmark = pytest.mark.spark


@cache
def world(block: str) -> WorldOutcome:
    """A world with agents of this kind, and a quiet end."""
    return run_seed(SEEDS[block], WorldKind(clients=True, blocks=(block,)))


def add_mutants(histories: BlockHistories, of_each: int) -> None:
    """Adds records with this many alterations of each kind."""
    dice = Random(1)
    for mutant, (block, _name) in BLOCK_MUTANTS.items():
        events = world(block).records[block]
        edits = list(mutant(events))
        for number, edit in enumerate(dice.sample(edits, min(len(edits), of_each))):
            histories.add_record(f"{mutant.__name__}-{number}", block, edited(events, edit))


@pytest.mark.interpreted
@pytest.mark.slow
def test_both_engines_name_the_same_events_for_every_alteration_of_a_record(spark: Any, tmp_path: Path) -> None:
    histories = BlockHistories(tmp_path)
    for block in SEEDS:
        histories.add_record(f"right-{block}", block, world(block).records[block])
    add_mutants(histories, of_each=1)

    report = judged_by_both(spark, histories)

    assert set().union(*histories.broken.values()) == BLOCK_NAMES
    assert [run for run in histories.broken if run.startswith("right-") and histories.broken[run]] == []
    assert {name for names in report.judged.values() for name in names} == BLOCK_NAMES
    for mutant, (_block, name) in BLOCK_MUTANTS.items():
        assert name in report.broken(f"{mutant.__name__}-0")
    assert all("{" not in one.witness for one in report.violations)


@pytest.mark.interpreted
@pytest.mark.long
@pytest.mark.slow
def test_both_engines_agree_on_many_alterations_of_records(spark: Any, tmp_path: Path) -> None:
    histories = BlockHistories(tmp_path)
    add_mutants(histories, of_each=8)

    judged_by_both(spark, histories)


@pytest.mark.interpreted
@pytest.mark.slow
@pytest.mark.parametrize("engine", ["kernel", pytest.param("queries", marks=pytest.mark.long)])
def test_a_history_is_judged_with_its_daemons_its_clients_and_its_records(
    spark: Any, tmp_path: Path, engine: Any
) -> None:
    histories = BlockHistories(tmp_path)
    locks = world("locks")
    histories.add("whole", locks.trace, QUIET)
    histories.add("hasty", locks.trace, Ends())
    assert any(isinstance(event, BlockNoted) for event in locks.trace)

    report = audit(spark, read_trace(spark, str(tmp_path)), ends=histories.ends, engine=engine)

    # Not judged: 2.11 of daemons with several sessions each, and 2.16 without components.
    assert as_text(report) == f"2 histories: all {HOLDING} hold"
    assert {name for name in report.judged["whole"] if name in BLOCK_NAMES} == LOCK_NAMES


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["kernel", "queries"])
def test_records_that_cannot_be_read_are_refused(spark: Any, tmp_path: Path, engine: Any) -> None:
    histories = BlockHistories(tmp_path / "right")
    histories.add_record("locks", "locks", world("locks").records["locks"])
    (event, *_more) = [one for one in world("calls").trace if isinstance(one, BlockNoted)]
    trace = read_trace(spark, str(histories.directory))
    other = trace.where("position = 0").withColumn("kind", trace["kind"].substr(1, 0))

    with pytest.raises(ForeignInput, match="an event of the kind , which is not known here"):
        audit(spark, trace.where("position > 0").unionByName(other), "odd", engine=engine)
    assert event.kind == "call_made"
