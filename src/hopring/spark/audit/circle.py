"""There is one order that the agreed deliveries of all processes follow, whatever their stamps say.

Where every process delivers agreed messages in the order of their places, there is. Elsewhere the messages go
round in a circle only between the lowest and the highest place at which somebody steps back, so only what lies
between is looked at: each process's successors there, as edges of one graph.
"""

from collections.abc import Iterable
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Final

from hopring.check.properties.sql import TOTAL
from hopring.spark.errors import SparkError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EDGES_MAX: Final = 2_000_000

SUSPECTS: Final = """
SELECT DISTINCT run FROM audit_courses WHERE unsorted OR lowest_agreed < carried_agreed
"""

_COURSES: Final = f"""
WITH course AS (
  SELECT s.run, s.process, d.place, min(d.position) AS position
  FROM audit_deliveries d JOIN audit_stays s ON s.id = d.stay_id JOIN audit_suspects u ON u.run = s.run
  WHERE d.service IN {TOTAL} GROUP BY s.run, s.process, d.place),
steps AS (
  SELECT run, place, lag(place) OVER (PARTITION BY run, process ORDER BY position) AS before FROM course),
back AS (SELECT run, min(place) AS low, max(before) AS high FROM steps WHERE place < before GROUP BY run),
between AS (
  SELECT c.* FROM course c JOIN back b ON b.run = c.run AND c.place BETWEEN b.low AND b.high)
SELECT DISTINCT run, place, before
FROM (SELECT run, place, lag(place) OVER (PARTITION BY run, process ORDER BY position) AS before FROM between)
WHERE before IS NOT NULL
"""

Circles = dict[str, list[str]]


def circles(spark: "SparkSession") -> Circles:
    """By run that has one: the messages of a circle, each before the next at one process or another."""
    if spark.sql(SUSPECTS).isEmpty():
        return {}
    spark.sql(SUSPECTS).createOrReplaceTempView("audit_suspects")
    edges = spark.sql(_COURSES).limit(EDGES_MAX + 1).collect()
    if len(edges) > EDGES_MAX:
        raise SparkError(
            "agreed messages come in different orders over too long a stretch to look for a circle",
            "cut the trace in pieces, or look at what else is broken first",
        )
    found = find_circles((row["run"], row["before"], row["place"]) for row in edges)
    return {run: _names(spark, run, places) for run, places in found.items()}


def find_circles(edges: Iterable[tuple[str, int, int]]) -> dict[str, list[int]]:
    """By run: the places of one circle, beginning with the lowest."""
    graphs: dict[str, TopologicalSorter[int]] = {}
    for run, before, place in edges:
        graphs.setdefault(run, TopologicalSorter()).add(place, before)
    found: dict[str, list[int]] = {}
    for run, graph in sorted(graphs.items()):
        try:
            graph.prepare()
        except CycleError as error:
            circle: list[int] = error.args[1][1:]
            lowest = circle.index(min(circle))
            found[run] = [*circle[lowest:], *circle[:lowest]]
    return found


def _names(spark: "SparkSession", run: str, places: list[int]) -> list[str]:
    rows = spark.sql(
        "SELECT place, message FROM audit_named WHERE run = :run AND array_contains(:places, place)",
        {"run": run, "places": places},
    ).collect()
    names = {row["place"]: row["message"] for row in rows}
    return [names[place] for place in places]
