"""Runs that are records of blocks, and the judgement of both engines on them."""

from collections.abc import Iterable
from typing import Any

from tests.spark.histories import JudgedRuns

from hopring.check.block_kinds import noted_all, records_of
from hopring.check.block_record import verdicts
from hopring.check.properties.property import Verdict
from hopring.check.trace import Event
from hopring.spark.audit import AuditReport, Ends, audit, read_trace

QUIET = Ends(True)


class BlockHistories(JudgedRuns):
    """Runs with records of blocks."""

    def verdicts(self, events: list[Event], ends: Ends) -> list[Verdict]:
        records = records_of(events, ends.quiet)
        return [one for block, record in records for one in verdicts(block.properties, record)]

    def add_record(self, run: str, block: str, events: Iterable[object], ends: Ends = QUIET) -> None:
        """Adds a history that has nothing but this record."""
        self.add(run, noted_all({block: events}), ends)


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
