"""The time of the trace on one clock, and the sites of daemons: what all measures begin with.

A daemon's times count from the start of its machine, and its `recover` row says what the wall clock showed
then. Where it says nothing, as in the simulator, times are of one clock already. A session's times are those of
its daemon's machine: clients that record a trace are on it.

Limit       a wall clock that is set while a daemon runs is not noticed: its times stay on that of its start.
"""

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from hopring.spark.schema import RUN


def on_the_wall(trace: DataFrame) -> DataFrame:
    """The trace with `at_us` and `at`, in microseconds since 1970 and as a moment."""
    life = F.substring_index("process", "/", 1)
    anchors = trace.where("kind = 'recover' AND wall_us IS NOT NULL").groupBy(RUN, life.alias("life"))
    shifts = anchors.agg(F.min(F.col("wall_us") - F.col("time_us")).alias("shift"))
    placed = trace.withColumn("life", life).join(F.broadcast(shifts), [RUN, "life"], "left")
    at_us = F.col("time_us") + F.coalesce("shift", F.lit(0))
    return placed.withColumn("at_us", at_us).withColumn("at", F.timestamp_micros("at_us")).drop("shift")


def of_daemons() -> Column:
    """Whether a row of a send or delivery is a daemon's own, and not of one of its sessions."""
    return (F.col("group") == "") & F.col("groups").isNull()


def site(daemon: str, sites: Mapping[str, str]) -> Column:
    """A daemon's site: what the configuration says, or else its name without the digits behind it."""
    name = F.col(daemon)
    bare = F.regexp_replace(name, "[0-9]+$", "")
    if not sites:
        return bare
    known = F.create_map(*[F.lit(text) for pair in sorted(sites.items()) for text in pair])
    return F.coalesce(F.try_element_at(known, name), bare)
