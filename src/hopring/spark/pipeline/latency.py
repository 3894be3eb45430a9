"""Latency: from the stamp of a message at its sender to its delivery, between sites and in groups.

Every delivery counts, that at the sender too. Times are of the wall clock of two machines, so a latency is only
as good as their clocks agree; what comes out below zero is counted apart.
"""

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from hopring.spark.pipeline.clock import of_daemons, site
from hopring.spark.pipeline.names import view_text
from hopring.spark.pipeline.reconcile import PLACED
from hopring.spark.schema import GOLD, RUN, shaped

EXACT_MAX: Final = 10_000_000
"""Above so many deliveries percentiles are estimated, each to within a ten-thousandth of the rank."""

LATENCY_US_MAX: Final = 2**31 - 1
_STAMP: Final = ("ord_view", "ord_lts", "ord_site")
_WHERE: Final = ("service", "from_site", "to_site")


def journeys(trace: DataFrame, sites: Mapping[str, str]) -> DataFrame:
    """A row for each delivery by a daemon of a message whose send is in the trace too."""
    own = trace.where(of_daemons())
    sends = own.where("kind = 'send'").select(
        RUN, "message", "service", *_STAMP, F.col("at_us").alias("sent_us"), F.col("daemon").alias("from")
    )
    got = own.where("kind = 'deliver'").select(RUN, "message", "at_us", F.col("daemon").alias("to"))
    both = got.join(sends, [RUN, "message"])
    return both.select(
        *_STAMP,
        "service",
        site("from", sites).alias("from_site"),
        site("to", sites).alias("to_site"),
        (F.col("at_us") - F.col("sent_us")).alias("latency_us"),
    )


def session_journeys(trace: DataFrame, sites: Mapping[str, str]) -> DataFrame:
    """The same from session to session, by group: once for each group of the message."""
    own = trace.where(F.col("groups").isNotNull())
    sends = own.where("kind = 'send'").select(
        RUN, "message", "service", F.col("at_us").alias("sent_us"), F.col("daemon").alias("from")
    )
    got = own.where("kind = 'deliver'").select(
        RUN, "message", "at_us", F.col("daemon").alias("to"), F.explode("groups").alias("in_group")
    )
    return got.join(sends, [RUN, "message"]).select(
        F.col("in_group").alias("group"),
        "service",
        site("from", sites).alias("from_site"),
        site("to", sites).alias("to_site"),
        (F.col("at_us") - F.col("sent_us")).alias("latency_us"),
    )


def in_groups(all_journeys: DataFrame, records: DataFrame) -> DataFrame:
    """The same by group: spools know which groups the messages at a place of the order were for."""
    placed = records.where(f"kind = 'message' AND {PLACED}")
    places = placed.select(
        view_text("place").alias("ord_view"),
        F.col("place.lts").alias("ord_lts"),
        F.col("place.site").cast("bigint").alias("ord_site"),
        "group",
    ).distinct()
    return all_journeys.join(places, list(_STAMP))


def latency(all_journeys: DataFrame, by_group: DataFrame, *, exact: bool) -> DataFrame:
    """Percentiles by service and sites: of all messages, and of each group by itself."""
    whole = all_journeys.withColumn("group", F.lit(""))
    columns = [*_WHERE, "group", "latency_us"]
    found = whole.select(*columns).unionByName(by_group.select(*columns))
    found = found.groupBy(*_WHERE, "group").agg(
        F.count("*").alias("messages"),
        _percentiles(exact).alias("percentiles"),
        F.max("latency_us").alias("max_us"),
        F.avg("latency_us").alias("mean_us"),
        F.count_if(F.col("latency_us") < 0).alias("negative"),
    )
    named = {f"p{name}_us": F.col("percentiles")[at] for at, name in enumerate((50, 90, 99))}
    return shaped(found.withColumns(named), GOLD["latency"])


def _percentiles(exact: bool) -> Column:
    ranks = "array(0.5D, 0.9D, 0.99D)"
    return F.expr(
        f"percentile(latency_us, {ranks})" if exact else f"percentile_approx(latency_us, {ranks}, 10000)"
    )


def latency_histogram(all_journeys: DataFrame) -> DataFrame:
    """How many took how long, in buckets of which two make a doubling; all below a microsecond are in one."""
    short = F.least(F.greatest("latency_us", F.lit(0)), F.lit(LATENCY_US_MAX))
    # In whole numbers: a logarithm may fall short of a border that is exactly reached.
    octave = F.expr("length(bin(us)) - 1")
    upper = F.expr("CASE WHEN us * us >= shiftleft(1L, CAST(2 * octave + 1 AS INT)) THEN 1 ELSE 0 END")
    found = all_journeys.withColumn("us", short).withColumn("octave", octave)
    found = found.withColumn("step", F.when(F.col("us") < 1, -1).otherwise(2 * F.col("octave") + upper))
    counted = found.groupBy(*_WHERE, "step").agg(F.count("*").alias("messages"))
    low = F.when(F.col("step") < 0, 0).otherwise(F.ceil(F.pow(F.lit(2.0), F.col("step") / 2)))
    high = F.when(F.col("step") < 0, 1).otherwise(F.ceil(F.pow(F.lit(2.0), (F.col("step") + 1) / 2)))
    return shaped(counted.withColumns({"low_us": low, "high_us": high}), GOLD["latency_histogram"])
