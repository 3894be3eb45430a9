"""The audit of blocks by queries: locks, calls, view synchrony and state, over tables of their records.

A record has few rows beside the messages of daemons and sessions, and all queries work on one table for each
block. Names in witnesses are those that the records have.
"""

import json
from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hopring.check.block_kinds import BLOCK_OF, BLOCKS, Block, columns_of
from hopring.check.block_record import BlockInstance
from hopring.check.properties.sql import Masks
from hopring.spark.audit.asking import broken, violations
from hopring.spark.audit.reading import EXTENT, Ends, check_extent, of_blocks
from hopring.spark.audit.tables import Say, Tables, partitions
from hopring.spark.audit.witness import AuditReport, AuditViolation, report_of, witnesses_max
from hopring.spark.errors import ForeignInput, readable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class BlockTables(Tables):
    """The tables of one audit of blocks: `audit_locks`, `audit_calls` and so on, of those that have records."""

    def __init__(self, spark: "SparkSession", say: Say) -> None:
        super().__init__(spark, say)
        self.blocks_of_runs: dict[str, list[Block]] = {}
        """By run: the blocks that it has records of, in the order of the table of blocks."""

    def make(self, trace: "DataFrame", where: str, _ends: Mapping[str, Ends], _otherwise: Ends) -> None:
        """Makes a table of the events of each block, with a column for each field."""
        self.say("records of blocks")
        self._put("trace", of_blocks(trace))
        self._cut_into(partitions(0))
        self._keep_rare("extent", EXTENT)
        check_extent(self.spark, where)
        self._find_blocks()
        for block in {one: None for blocks in self.blocks_of_runs.values() for one in blocks}:
            columns = columns_of(block)
            text = ", ".join([f"`{name}` {kind}" for name, kind in columns.items()])
            kinds = ", ".join([f"'{kind}'" for kind in block.kinds])
            self._keep(
                block.table,
                f"""
                SELECT run, process AS record, position, kind, time_us AS at_us, found.*
                FROM (SELECT *, from_json(fields, '{text}', map('mode', 'FAILFAST')) AS found
                      FROM audit_trace WHERE kind IN ({kinds}))
                """,
            )
            for name, query in block.tables.items():
                self._keep(name, query)

    def _find_blocks(self) -> None:
        rows = self.spark.sql("SELECT DISTINCT run, process, kind FROM audit_trace").collect()
        found: dict[str, set[Block]] = {}
        by_record: dict[tuple[str, str], set[Block]] = {}
        for row in rows:
            found.setdefault(row["run"], set()).add(BLOCK_OF[row["kind"]])
            by_record.setdefault((row["run"], row["process"]), set()).add(BLOCK_OF[row["kind"]])
        for (_run, record), blocks in by_record.items():
            if len(blocks) > 1:
                raise ForeignInput(f"the record {record} has events of several blocks", "write one for each")
        self.blocks_of_runs = {run: [one for one in BLOCKS if one in blocks] for run, blocks in found.items()}


def blocks_judged(blocks: list[Block], ends: Ends) -> list[BlockInstance]:
    """The properties of these blocks that are judged of a history that ended so."""
    return [one for block in blocks for one in block.properties if one.is_judged(ends.quiet, True)]


def audit_blocks(
    spark: "SparkSession", trace: "DataFrame", where: str, ends: Mapping[str, Ends], otherwise: Ends, say: Say
) -> AuditReport:
    """Judges the records of every history of the trace."""
    tables = BlockTables(spark, say)
    with readable(where):
        try:
            tables.make(trace, where, ends, otherwise)
            blocks = tables.blocks_of_runs.items()
            judged = {run: blocks_judged(its, ends.get(run, otherwise)) for run, its in blocks}
            return _report(spark, judged)
        finally:
            tables.drop()


def _report(spark: "SparkSession", judged: Mapping[str, list[BlockInstance]]) -> AuditReport:
    asked = list(dict.fromkeys(one for promises in judged.values() for one in promises))
    masks = Masks(1)
    found = list(broken(spark, asked, masks)) if asked else []
    rows = violations(spark, found, masks, witnesses_max(len(judged))) if found else []
    rows = [row for row in rows if row["promise"] in judged[row["run"]]]
    shown = [_violation(row) for row in rows]
    counts = {(row["run"], row["promise"].name): row["violations"] for row in rows}
    names = {run: tuple([one.name for one in promises]) for run, promises in judged.items()}
    return report_of(names, shown, counts)


def _violation(row: Mapping[str, Any]) -> AuditViolation:
    promise, facts = row["promise"], json.loads(row["facts"])
    identified = {name: facts[name] for name in promise.names}
    witness = promise.sentence.format_map(defaultdict(str, facts))
    return AuditViolation(row["run"], promise.name, row["rank"], witness, identified)
