"""Which records are missing in which spool, and why: the silver table of gaps.

offsets   Offsets that the spool does not have, because of retention or damage.
away      A time in which the spooler could not receive, by its own record.
views     Messages of a view that other spools of the group were in and this one was not.
messages  Messages of a view that this spool was in, which another spool in that view has.

Only the last kind may stay unexplained. A promise was then broken: in one view all spools have the same Causal,
Agreed and Safe messages.
"""

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from hopring.services import services_with
from hopring.spark.pipeline.reconcile import PLACED, group_view_text
from hopring.spark.schema import SILVER, shaped

KEY = ("group", "view")


def gaps(records: DataFrame, bodies: DataFrame) -> DataFrame:
    """All gaps of these records, whose decoded bodies are `bodies`."""
    seen = records.withColumn("view", group_view_text())
    # Both are small and are used several times.
    stays = _kept(_stays(seen))
    away = _kept(recorded(bodies))
    found = [holes(records), away, absent(stays, away), lacking(seen, stays, away)]
    return reduce(DataFrame.unionByName, [_filled(one) for one in found])


def _kept(table: DataFrame) -> DataFrame:
    """The table, computed now, with new columns: Spark would confuse them with those of its origin."""
    made = table.localCheckpoint()
    return made.toDF(*made.columns)


def holes(records: DataFrame) -> DataFrame:
    """Gaps in the offsets of a spool: before its oldest record, and between two records."""
    order = Window.partitionBy("spool", "group").orderBy("offset")
    before = records.select(
        "spool",
        "group",
        F.col("offset").alias("to_offset"),
        F.col("timestamp").alias("until"),
        (F.coalesce(F.lag("offset").over(order), F.lit(-1)) + 1).alias("from_offset"),
        F.lag("timestamp").over(order).alias("since"),
    )
    why = F.expr(
        "CASE WHEN from_offset = 0 THEN 'retention has removed them' ELSE 'damaged, or not in the archive' END"
    )
    found = before.where("to_offset > from_offset").withColumn("explanation", why)
    return found.withColumns({"kind": F.lit("offsets"), "explained": F.lit(True)})


def recorded(bodies: DataFrame) -> DataFrame:
    """Gaps that spoolers recorded themselves."""
    found = bodies.where("kind = 'gap'").withColumn("explanation", F.col("cause"))
    found = found.withColumns({"from_offset": F.col("offset"), "to_offset": F.col("offset")})
    # These columns describe the record and not the gap.
    found = found.drop("view", "members", "cause")
    return found.withColumns({"kind": F.lit("away"), "explained": F.lit(True)})


def _stays(seen: DataFrame) -> DataFrame:
    """The stays of spools in views of their groups: times, number of messages, whether the view was closing."""
    return (
        seen.where("view IS NOT NULL")
        .groupBy("spool", *KEY)
        .agg(
            F.min("timestamp").alias("since"),
            F.max("timestamp").alias("until"),
            F.max("offset").alias("last_offset"),
            F.count_if(F.col("kind") == "message").alias("messages"),
            F.bool_or(F.col("kind") == "transition").alias("closing"),
        )
    )


def absent(stays: DataFrame, away: DataFrame) -> DataFrame:
    """Views with messages that some spools of a group were in and this one was not."""
    spools = stays.groupBy("group").agg(F.collect_set("spool").alias("all"))
    views = stays.groupBy(*KEY).agg(
        F.sort_array(F.collect_set("spool")).alias("others"),
        F.min("since").alias("since"),
        F.max("until").alias("until"),
        F.max("messages").alias("messages"),
    )
    missing = F.explode(F.array_except("all", "others"))
    found = views.where("messages > 0").join(spools, "group").withColumn("spool", missing).drop("all")
    found = _with_reason(found.join(_extents(stays), ["spool", "group"]), away)
    why = F.expr(
        """
        CASE WHEN until < begins THEN 'the spool begins later'
             WHEN since > ends THEN 'the spool ends before'
             WHEN reason IS NOT NULL THEN concat('it was away: ', reason)
             ELSE 'it was in other views then: on the other side of a split, or not a member' END
        """
    )
    return found.withColumns({"kind": F.lit("views"), "explanation": why, "explained": F.lit(True)})


def lacking(seen: DataFrame, stays: DataFrame, away: DataFrame) -> DataFrame:
    """Messages that a spool lacks and another spool in the same view has."""
    present = stays.groupBy(*KEY).agg(F.collect_set("spool").alias("present")).where("size(present) > 1")
    held = seen.where(f"kind = 'message' AND {PLACED} AND view IS NOT NULL")
    held = held.groupBy(*KEY, "place", "number").agg(
        F.collect_set("spool").alias("holders"),
        F.min("timestamp").alias("at"),
        F.first("service").isin(*[one.name.lower() for one in services_with("total")]).alias("promised"),
    )
    missing = F.explode(F.array_except("present", "holders"))
    single = held.join(F.broadcast(present), list(KEY)).where("size(holders) < size(present)")
    found = (
        single.withColumn("spool", missing)
        .groupBy("spool", *KEY, "promised")
        .agg(
            F.min("at").alias("since"),
            F.max("at").alias("until"),
            F.count("*").alias("messages"),
            F.sort_array(F.array_distinct(F.flatten(F.collect_set("holders")))).alias("others"),
        )
    )
    its = stays.select("spool", *KEY, "closing", "last_offset")
    found = found.join(its, ["spool", *KEY]).join(_extents(stays), ["spool", "group"])
    why = _why_lacking()
    found = _with_reason(found, away).withColumns({"kind": F.lit("messages"), "explanation": why})
    unexplained = "no reason is known: messages of this service are promised to all in a view"
    explained = F.col("explanation").isNotNull()
    return found.withColumns(
        {"explained": explained, "explanation": F.coalesce("explanation", F.lit(unexplained))}
    )


def _why_lacking() -> Column:
    return F.expr(
        """
        CASE WHEN reason IS NOT NULL THEN concat('it was away: ', reason)
             WHEN last_offset = last THEN 'the spool ends in this view'
             WHEN closing THEN 'the view was closing: the other side of a split delivered them'
             WHEN NOT promised THEN 'Reliable and FIFO messages may stand in another view' END
        """
    )


def _extents(stays: DataFrame) -> DataFrame:
    """The time from the first to the last record of each spool and group."""
    return stays.groupBy("spool", "group").agg(
        F.min("since").alias("begins"), F.max("until").alias("ends"), F.max("last_offset").alias("last")
    )


def _with_reason(found: DataFrame, away: DataFrame) -> DataFrame:
    """Adds the reason why the spooler was away at that time, if it recorded one."""
    recorded_away = away.select(
        *[F.col(name).alias(f"away_{name}") for name in ("spool", "group", "since", "until")],
        F.col("explanation").alias("reason"),
    )
    same = "spool = away_spool AND `group` = away_group AND away_since <= until AND away_until >= since"
    names = found.columns
    joined = found.join(recorded_away, F.expr(same), "left")
    return joined.groupBy(*names).agg(F.min("reason").alias("reason"))


def _filled(found: DataFrame) -> DataFrame:
    """Adds the columns that this kind of gap does not have, as nulls."""
    missing = {name: kind for name, kind in SILVER["gaps"].items() if name not in found.columns}
    return shaped(
        found.withColumns({name: F.lit(None).cast(kind) for name, kind in missing.items()}), SILVER["gaps"]
    )
