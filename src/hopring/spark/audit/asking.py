"""Asks Spark which properties are broken, and for the violations: the same for daemons, clients and blocks."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from hopring.check.properties.property import PropertyInstance
from hopring.check.properties.sql import Masks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOGETHER_MAX: Final = 5
"""Broken properties whose violations are one query; Spark takes far longer to analyse one for twenty."""

MESSAGE: Final = "message"

AnyInstance = PropertyInstance[Any]


def broken(spark: "SparkSession", promises: Sequence[AnyInstance], masks: Masks) -> dict[AnyInstance, set[int]]:
    """Those of the properties that are broken in any history. One job for all of these.

    With the places of the patterns that break it, if it is about messages and holdings are of patterns.
    """
    queries = [
        f"SELECT DISTINCT {number} AS promise, {_place(one)} AS place FROM ({one.query(masks)})"
        for number, one in enumerate(promises)
    ]
    found: dict[AnyInstance, set[int]] = {}
    for row in spark.sql(" UNION ALL ".join(queries)).collect():
        places = found.setdefault(promises[row["promise"]], set())
        if row["place"] is not None:
            places.add(row["place"])
    return {one: found[one] for one in promises if one in found}


def _place(promise: AnyInstance) -> str:
    # The name of a message is never a number, and the place of a pattern is one.
    return f"try_cast({MESSAGE} AS BIGINT)" if MESSAGE in promise.names else "CAST(NULL AS BIGINT)"


def violations(
    spark: "SparkSession", promises: Sequence[AnyInstance], masks: Masks, most: int
) -> list[dict[str, Any]]:
    """The violations of broken properties, by property and run: the first by their facts, and how many."""
    queries = [
        f"""
        SELECT {number} AS promise, run, rank, violations, to_json(found) AS facts
        FROM (SELECT run, found, count(*) OVER (PARTITION BY run) AS violations,
                     row_number() OVER (PARTITION BY run ORDER BY {_facts(one, "found.")}) AS rank
              FROM (SELECT run, min(struct(*)) AS found FROM ({one.query(masks)})
                    GROUP BY run, {_facts(one)}))
        WHERE rank <= {most}
        """
        for number, one in enumerate(promises)
    ]
    parts = [queries[first : first + TOGETHER_MAX] for first in range(0, len(queries), TOGETHER_MAX)]
    rows = [row for part in parts for row in spark.sql(" UNION ALL ".join(part)).collect()]
    return [row.asDict() | {"promise": promises[row["promise"]]} for row in rows]


def _facts(promise: AnyInstance, table: str = "") -> str:
    return ", ".join([f"{table}{name}" for name in promise.names])
