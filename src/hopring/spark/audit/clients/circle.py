"""There is one order that the agreed deliveries of all sessions follow, whatever their stamps say.

The way to it is that of `audit/circle`: only what lies between the lowest and the highest place at which
somebody steps back is looked at, and only in histories where somebody does.
"""

from typing import TYPE_CHECKING, Final

from hopring.check.properties.sql import TOTAL
from hopring.spark.audit.circle import EDGES_MAX, Circles, find_circles
from hopring.spark.errors import SparkError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SUSPECTS: Final = "SELECT DISTINCT run FROM audit_missteps WHERE agreed"

_EDGES: Final = f"""
WITH course AS (
  SELECT s.run, s.process, m.place, min(d.position) AS position
  FROM audit_deliveries d JOIN audit_messages m ON m.key = d.key JOIN audit_sessions s ON s.id = d.session_id
       JOIN ({_SUSPECTS}) u ON u.run = s.run
  WHERE d.head AND m.service IN {TOTAL} GROUP BY s.run, s.process, m.place),
steps AS (
  SELECT run, place, lag(place) OVER (PARTITION BY run, process ORDER BY position) AS before FROM course),
back AS (SELECT run, min(place) AS low, max(before) AS high FROM steps WHERE place < before GROUP BY run),
between AS (
  SELECT c.* FROM course c JOIN back b ON b.run = c.run AND c.place BETWEEN b.low AND b.high)
SELECT DISTINCT run, place, before
FROM (SELECT run, place, lag(place) OVER (PARTITION BY run, process ORDER BY position) AS before FROM between)
WHERE before IS NOT NULL
"""


def circles(spark: "SparkSession") -> Circles:
    """By run that has one: the messages of a circle, each before the next at one session or another."""
    if spark.sql(_SUSPECTS).isEmpty():
        return {}
    edges = spark.sql(_EDGES).limit(EDGES_MAX + 1).collect()
    if len(edges) > EDGES_MAX:
        raise SparkError(
            "sessions get agreed messages in different orders over too long a stretch to look for a circle",
            "cut the trace in pieces, or look at what else is broken first",
        )
    found = find_circles((row["run"], row["before"], row["place"]) for row in edges)
    return {run: _names(spark, run, places) for run, places in found.items()}


def _names(spark: "SparkSession", run: str, places: list[int]) -> list[str]:
    rows = spark.sql(
        "SELECT place, message FROM audit_messages WHERE run = :run AND array_contains(:places, place)",
        {"run": run, "places": places},
    ).collect()
    names = {row["place"]: row["message"] for row in rows}
    return [names[place] for place in places]
