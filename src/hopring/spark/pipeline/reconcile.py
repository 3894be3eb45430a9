"""Reconcile: one table of messages across all spools. The second stage; what is missing where is in gaps.py.

A message is known by its place in the order of all daemons and its number in its bundle: two records with the
same are copies, in two spools or in the spools of two groups. Messages without a place, Unreliable ones and
those that programs wrote to spools themselves, cannot be told apart that way, and each record counts.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hopring.spark.pipeline.names import view_text
from hopring.spark.schema import SILVER, shaped

PLACED = "(place.counter <> 0 OR place.lts <> 0 OR place.nonce <> 0)"
_SHARED = ("sender", "groups", "service", "type", "size", "payload")


def messages(records: DataFrame) -> DataFrame:
    """Each message once, with the view of daemons that delivered it and the spools that hold it."""
    own = F.expr(f"CASE WHEN NOT {PLACED} THEN struct(spool, `group`, offset) END")
    keyed = records.where("kind = 'message'").withColumn("alone", own)
    # A message stands where it was stamped, and is delivered in that view or nowhere.
    keyed = keyed.withColumn("in_view", F.coalesce(view_text("place"), view_text("view")))
    found = keyed.groupBy("place", "number", "alone").agg(
        *[F.first(name).alias(name) for name in _SHARED],
        F.first("in_view", ignorenulls=True).alias("view"),
        F.min("timestamp").alias("received"),
        F.max("timestamp").alias("received_last"),
        F.count("*").alias("copies"),
        F.sort_array(F.collect_set("spool")).alias("spools"),
    )
    placed = F.concat_ws(":", "view", "place.lts", "place.site", "number")
    alone = F.expr("concat(alone.spool, '/', alone.`group`, '/', alone.offset)")
    named = found.withColumn("message", F.when(F.col("alone").isNull(), placed).otherwise(alone))
    return shaped(
        named.withColumns({"lts": F.col("place.lts"), "site": F.col("place.site")}), SILVER["messages"]
    )
