"""Throughput: by second, daemon and service, what was sent and delivered."""

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hopring.spark.pipeline.clock import of_daemons, site
from hopring.spark.schema import GOLD, shaped


def throughput(trace: DataFrame, sites: Mapping[str, str]) -> DataFrame:
    """Of daemons; the bytes are those that were sent."""
    sent = F.col("kind") == "send"
    moved = trace.where(of_daemons() & F.col("kind").isin("send", "deliver"))
    found = moved.groupBy(F.date_trunc("second", "at").alias("second"), "daemon", "service").agg(
        F.count_if(sent).alias("sent"),
        F.count_if(~sent).alias("delivered"),
        F.coalesce(F.sum(F.when(sent, F.col("size"))), F.lit(0)).alias("bytes"),
    )
    return shaped(found.withColumn("site", site("daemon", sites)), GOLD["throughput"])
