"""Links: what each of them counted in all, from the last word of each end."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hopring.spark.schema import GOLD, RUN, shaped

_COUNTS = ("sent", "received", "lost", "nacks", "retransmissions", "round_trip_us")


def links(trace: DataFrame) -> DataFrame:
    """One row for each link of each daemon; a link is made anew for every network."""
    last = trace.where("kind = 'counters'").groupBy(RUN, "process", "daemon", "link")
    found = last.agg(
        F.max_by("peer", "position").alias("named"),
        *[F.max_by(name, "position").alias(name) for name in _COUNTS],
    )
    # Files from before there was a column for the peer have it in the link's name.
    peer = F.coalesce("named", F.substring_index("link", "@", 1))
    ratio = F.when(F.col("received") > 0, F.col("lost") / F.col("received")).otherwise(0.0)
    return shaped(found.withColumns({"peer": peer, "loss_ratio": ratio}), GOLD["links"])
