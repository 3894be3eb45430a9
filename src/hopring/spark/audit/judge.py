"""The audit: every property of extended virtual synchrony as a query over a trace, and what comes of it."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from hopring.check.evs.order import AGREEMENT
from hopring.spark.audit import agreed, integrity, liveness, order, shape, synchrony, views
from hopring.spark.audit.circle import circles
from hopring.spark.audit.ends import Ends
from hopring.spark.audit.masks import Masks
from hopring.spark.audit.property import Property
from hopring.spark.audit.tables import Say, Tables
from hopring.spark.audit.words import Words, circle_words
from hopring.spark.errors import readable
from hopring.value import Value

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FAMILIES: Final = {
    "the shape of the trace": shape.PROPERTIES,
    "views": views.PROPERTIES,
    "deliveries": (*integrity.PROPERTIES, integrity.SAME_VIEW),
    "order": order.PROPERTIES,
    "those who move together": (*synchrony.PROPERTIES, *agreed.PROPERTIES),
    "the end": liveness.PROPERTIES,
}
PROPERTIES: Final = tuple(one for family in FAMILIES.values() for one in family)

# Causes before effects, as the plain checker has them.
_AFTER_AGREED: Final = [one.name for one in PROPERTIES].index(order.PROPERTIES[-1].name) + 1
NAMES: Final = (
    *[one.name for one in PROPERTIES[:_AFTER_AGREED]],
    AGREEMENT,
    *[one.name for one in PROPERTIES[_AFTER_AGREED:]],
)


class Finding(Value, frozen=True):
    """One property that is broken in one history."""

    run: str
    property: str
    violations: int
    witness: str


class Report(Value, frozen=True):
    """What an audit found."""

    runs: tuple[str, ...]
    findings: tuple[Finding, ...]  # By run, and in it the nearest to the cause first.
    judged: Mapping[str, tuple[str, ...]]  # By run: the properties.

    @property
    def holds(self) -> bool:
        """Whether nothing is broken."""
        return not self.findings

    def broken(self, run: str = "") -> set[str]:
        """The properties that are broken in one history."""
        return {finding.property for finding in self.findings if finding.run == run}


def audit(
    spark: "SparkSession",
    trace: "DataFrame",
    where: str = "trace",
    ends: Mapping[str, Ends] | None = None,
    otherwise: Ends = Ends(),  # noqa: B008  It never changes.
    say: Say = lambda _words: None,
) -> Report:
    """Judges every history in the trace, which `read_trace` gives; `ends` says by run how they ended."""
    known = ends or {}
    tables = Tables(spark, say)
    with readable(where):
        try:
            tables.make(trace, where, known, otherwise)
            found = []
            for family, properties in FAMILIES.items():
                say(family)
                found += violations(spark, properties, tables.masks)
            turning = circles(spark)
            return _report(spark, known, otherwise, found, turning)
        finally:
            tables.drop()


def violations(spark: "SparkSession", family: tuple[Property, ...], masks: Masks) -> list[dict[str, Any]]:
    """By property and run that break: how many, and the least of them. One job for a whole family."""
    queries = [
        f"""SELECT {number} AS property, run, count(*) AS violations, to_json(min(struct(*))) AS facts
            FROM ({one.query(masks)}) GROUP BY run"""
        for number, one in enumerate(family)
    ]
    rows = spark.sql(" UNION ALL ".join(queries)).collect()
    return [row.asDict() | {"property": family[row["property"]]} for row in rows]


def _report(
    spark: "SparkSession",
    ends: Mapping[str, Ends],
    otherwise: Ends,
    found: list[dict[str, Any]],
    turning: dict[str, list[str]],
) -> Report:
    runs = tuple(sorted(row["run"] for row in spark.sql("SELECT DISTINCT run FROM audit_lives").collect()))
    judged = {run: tuple(_judged(ends.get(run, otherwise))) for run in runs}
    words = Words(spark, [json.loads(one["facts"]) | {"run": one["run"]} for one in found], sorted(turning))
    findings = [
        Finding(
            one["run"],
            one["property"].name,
            one["violations"],
            words.witness(one["property"].witness, json.loads(one["facts"]) | {"run": one["run"]}),
        )
        for one in found
        if one["property"].name in judged[one["run"]]
    ]
    findings += [
        Finding(run, AGREEMENT, 1, circle_words([words.message(run, one) for one in messages]))
        for run, messages in turning.items()
    ]
    findings.sort(key=lambda finding: (finding.run, NAMES.index(finding.property)))
    return Report(runs, tuple(findings), judged)


def _judged(ends: Ends) -> list[str]:
    """The properties that can be judged of a history that ended so."""
    left_out = {one.name for one in PROPERTIES if one.when_quiet and not ends.quiet}
    left_out |= {one.name for one in PROPERTIES if one.per_session and ends.many_sessions}
    if ends.components is None:
        left_out |= {one.name for one in PROPERTIES if one.with_components}
    return [name for name in NAMES if name not in left_out]
