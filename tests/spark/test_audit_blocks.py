"""Records of locks, calls, view synchrony and state: both engines agree with the plain checks and on events."""

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.spark.histories import JudgedRuns
from tests.unit.check.block_mutants import BLOCK_MUTANTS, edited

from hopring.check.block_kinds import BLOCK_PROPERTIES, noted_all, records_of
from hopring.check.block_record import verdicts
from hopring.check.locks import LOCK_PROPERTIES
from hopring.check.properties.property import Verdict
from hopring.check.trace import BlockNoted, Event
from hopring.sim.campaign.runner import WorldOutcome, run_seed
from hopring.sim.campaign.world import WorldKind
from hopring.spark.audit import CLIENT_NAMES, NAMES, AuditReport, Ends, audit, read_trace
from hopring.spark.audit.witness import as_text
from hopring.spark.errors import ForeignInput

SEEDS = {"calls": 8, "flush": 4, "handlers": 2, "locks": 6, "minimum": 4, "state": 6, "values": 6}
QUIET = Ends(True)
BLOCK_NAMES = {one.name for one in BLOCK_PROPERTIES}
LOCK_NAMES = {one.name for one in LOCK_PROPERTIES}
HOLDING = f"{len(NAMES) - 2} properties of daemons, {len(CLIENT_NAMES) - 1} of clients and 5 of blocks"

pytestmark = pytest.mark.spark


class BlockHistories(JudgedRuns):
    """Runs with records of blocks."""

    def verdicts(self, events: list[Event], ends: Ends) -> list[Verdict]:
        records = records_of(events, ends.quiet)
        return [one for block, record in records for one in verdicts(block.properties, record)]

    def add_record(self, run: str, block: str, events: Iterable[object], ends: Ends = QUIET) -> None:
        """Adds a history that has nothing but this record."""
        self.add(run, noted_all({block: events}), ends)

    def add_mutants(self, of_each: int) -> None:
        """Adds records with this many alterations of each kind."""
        dice = Random(1)
        for mutant, (block, _name) in BLOCK_MUTANTS.items():
            events = world(block).records[block]
            edits = list(mutant(events))
            for number, edit in enumerate(dice.sample(edits, min(len(edits), of_each))):
                self.add_record(f"{mutant.__name__}-{number}", block, edited(events, edit))


@cache
def world(block: str) -> WorldOutcome:
    """A world with agents of this kind, and a quiet end."""
    return run_seed(SEEDS[block], WorldKind(clients=True, blocks=(block,)))


def judged_by_both(spark: Any, histories: BlockHistories) -> AuditReport:
    """The report of the queries; the kernel has the same verdicts and the same violations."""
    trace = read_trace(spark, str(histories.directory))
    queries, kernel = (
        audit(spark, trace, ends=histories.ends, engine=engine) for engine in ("queries", "kernel")
    )
    for report in (queries, kernel):
        assert {run: report.broken(run) for run in histories.broken} == histories.broken
    assert queries.judged == kernel.judged
    assert [named(one) for one in queries.violations] == [named(one) for one in kernel.violations]
    assert [(one.run, one.property, one.violations) for one in queries.findings] == [
        (one.run, one.property, one.violations) for one in kernel.findings
    ]
    return queries


def named(violation: Any) -> tuple[Any, ...]:
    return violation.run, violation.property, violation.rank, dict(violation.facts)


@pytest.mark.interpreted
@pytest.mark.slow
def test_both_engines_name_the_same_events_for_every_alteration_of_a_record(spark: Any, tmp_path: Path) -> None:
    histories = BlockHistories(tmp_path)
    for block in SEEDS:
        histories.add_record(f"right-{block}", block, world(block).records[block])
    histories.add_mutants(of_each=1)

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
    histories.add_mutants(of_each=8)

    judged_by_both(spark, histories)


@pytest.mark.interpreted
@pytest.mark.slow
def test_a_history_is_judged_with_its_daemons_its_clients_and_its_records(spark: Any, tmp_path: Path) -> None:
    histories = BlockHistories(tmp_path)
    locks = world("locks")
    histories.add("whole", locks.trace, QUIET)
    histories.add("hasty", locks.trace, Ends())
    assert any(isinstance(event, BlockNoted) for event in locks.trace)

    trace = read_trace(spark, str(tmp_path))
    for engine in ("queries", "kernel"):
        report = audit(spark, trace, ends=histories.ends, engine=engine)

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
