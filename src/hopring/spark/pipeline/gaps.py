"""What is missing in which spool, and why: the other half of reconcile.

Four kinds of gaps. `offsets`: numbers that a spool does not have, because retention or damage took them.
`away`: what the spooler itself wrote down that it could not hear. `views`: messages of a view that others of
the group's spools were in and this one was not. `messages`: those of a view that it was in, and that another
spool in that view has. Only the last may be left unexplained, and then a promise was broken: in one view all
hold the same Causal, Agreed and Safe messages.
"""

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from hopring.services import services_with
from hopring.spark.pipeline.reconcile import PLACED, group_view_text
from hopring.spark.schema import SILVER, shaped

KEY = ("group", "view")


def gaps(records: DataFrame, bodies: DataFrame) -> DataFrame:
    """All of them; `bodies` are those of the same records."""
    seen = records.withColumn("view", group_view_text())
    # Both are small and are looked at many times.
    stays = _kept(_stays(seen))
    away = _kept(recorded(bodies))
    found = [holes(records), away, absent(stays, away), lacking(seen, stays, away)]
    return reduce(DataFrame.unionByName, [_filled(one) for one in found])


def _kept(table: DataFrame) -> DataFrame:
    """A table that is made now. Its columns are new: Spark would confuse them with those it was made of."""
    made = table.localCheckpoint()
    return made.toDF(*made.columns)


def holes(records: DataFrame) -> DataFrame:
    """Offsets that are not there: those before the oldest, and those between two that are."""
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
    """What spoolers say they could not hear."""
    found = bodies.where("kind = 'gap'").withColumn("explanation", F.col("cause"))
    found = found.withColumns({"from_offset": F.col("offset"), "to_offset": F.col("offset")})
    # What is in these columns of a gap is not about it.
    found = found.drop("view", "members", "cause")
    return found.withColumns({"kind": F.lit("away"), "explained": F.lit(True)})


def _stays(seen: DataFrame) -> DataFrame:
    """A spool in a view of its group: from when to when, how many messages, whether it saw it closing."""
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
    """Views with messages that some spools of a group were in and others were not."""
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
    """Messages that one spool in a view has and another one in it has not."""
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
    """From when to when a spool has records of a group."""
    return stays.groupBy("spool", "group").agg(
        F.min("since").alias("begins"), F.max("until").alias("ends"), F.max("last_offset").alias("last")
    )


def _with_reason(found: DataFrame, away: DataFrame) -> DataFrame:
    """With the reason why the spooler was away at that time, if it said so."""
    said = away.select(
        *[F.col(name).alias(f"away_{name}") for name in ("spool", "group", "since", "until")],
        F.col("explanation").alias("reason"),
    )
    same = "spool = away_spool AND `group` = away_group AND away_since <= until AND away_until >= since"
    names = found.columns
    joined = found.join(said, F.expr(same), "left")
    return joined.groupBy(*names).agg(F.min("reason").alias("reason"))


def _filled(found: DataFrame) -> DataFrame:
    """With all columns of the table, empty where a kind has none."""
    missing = {name: kind for name, kind in SILVER["gaps"].items() if name not in found.columns}
    return shaped(
        found.withColumns({name: F.lit(None).cast(kind) for name, kind in missing.items()}), SILVER["gaps"]
    )
