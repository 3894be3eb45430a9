"""The audit of clients: every property of EVS-C as a query over the rows of sessions."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from hopring.check.evs.order import AGREEMENT
from hopring.check.evs_c.words import EVS_C
from hopring.spark.audit.clients import agreed, integrity, liveness, order, shape, synchrony, views
from hopring.spark.audit.clients.circle import circles
from hopring.spark.audit.clients.tables import ClientTables
from hopring.spark.audit.clients.words import ClientWords
from hopring.spark.audit.ends import Ends
from hopring.spark.audit.judge import Finding, Report, violations
from hopring.spark.audit.tables import Say
from hopring.spark.audit.words import circle_words
from hopring.spark.errors import readable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FAMILIES: Final = {
    "the shape of what sessions wrote": shape.PROPERTIES,
    "views of groups": views.PROPERTIES,
    "deliveries to sessions": integrity.PROPERTIES,
    "order at sessions": order.PROPERTIES,
    "sessions that move together": (*synchrony.PROPERTIES, *agreed.PROPERTIES),
    "what sessions asked for": liveness.PROPERTIES[:2],
    "the end of sessions": liveness.PROPERTIES[2:],
}
PROPERTIES: Final = tuple(one for family in FAMILIES.values() for one in family)

# Causes before effects, as the plain checker has them.
_AFTER_AGREED: Final = [one.name for one in PROPERTIES].index(order.PROPERTIES[-1].name) + 1
NAMES: Final = (
    *[one.name for one in PROPERTIES[:_AFTER_AGREED]],
    EVS_C + AGREEMENT,
    *[one.name for one in PROPERTIES[_AFTER_AGREED:]],
)


def audit_clients(
    spark: "SparkSession",
    trace: "DataFrame",
    where: str = "trace",
    ends: Mapping[str, Ends] | None = None,
    otherwise: Ends = Ends(),  # noqa: B008  It never changes.
    say: Say = lambda _words: None,
) -> Report:
    """Judges what sessions did and saw in every history of the trace; the arguments are those of `audit`."""
    known = ends or {}
    tables = ClientTables(spark, say)
    with readable(where):
        try:
            tables.make(trace, where, known, otherwise)
            found = []
            judged = {name for run in tables.runs for name in _judged(known.get(run, otherwise))}
            for family, properties in FAMILIES.items():
                say(family)
                found += violations(spark, tuple(one for one in properties if one.name in judged), tables.masks)
            return _report(spark, tables.runs, known, otherwise, found, circles(spark))
        finally:
            tables.drop()


def _report(
    spark: "SparkSession",
    runs: tuple[str, ...],
    ends: Mapping[str, Ends],
    otherwise: Ends,
    found: list[dict[str, Any]],
    turning: dict[str, list[str]],
) -> Report:
    judged = {run: tuple(_judged(ends.get(run, otherwise))) for run in runs}
    facts = [json.loads(one["facts"]) | {"run": one["run"]} for one in found]
    words = ClientWords(spark, facts, sorted(turning))
    findings = [
        Finding(
            one["run"],
            one["property"].name,
            one["violations"],
            words.witness(one["property"].witness, fact),
        )
        for one, fact in zip(found, facts, strict=True)
        if one["property"].name in judged[one["run"]]
    ]
    findings += [
        Finding(run, EVS_C + AGREEMENT, 1, circle_words([words.message(run, one) for one in messages]))
        for run, messages in turning.items()
    ]
    findings.sort(key=lambda finding: (finding.run, NAMES.index(finding.property)))
    return Report(runs, tuple(findings), judged)


def _judged(ends: Ends) -> list[str]:
    """The properties that can be judged of a history that ended so."""
    left_out = {one.name for one in PROPERTIES if one.when_quiet and not ends.quiet}
    if ends.components is None:
        left_out |= {one.name for one in PROPERTIES if one.with_components}
    return [name for name in NAMES if name not in left_out]
