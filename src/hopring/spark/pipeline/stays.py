"""Who was in which view, from when to when: daemons, and sessions in their groups."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from hopring.spark.schema import GOLD, RUN, shaped


def _names(processes: str) -> Column:
    """The daemons of processes, which are written as `name#incarnation/0`."""
    return F.transform(processes, lambda one: F.substring_index(one, "#", 1))


def membership(trace: DataFrame) -> DataFrame:
    """Daemons in views, until the next view or their own end; null if neither came."""
    order = Window.partitionBy(RUN, "process").orderBy("position")
    own = trace.where((F.col("group") == "") & F.col("kind").isin("view", "crash"))
    stays = own.withColumn("ended", F.lead("at").over(order)).where("kind = 'view'")
    signals = trace.where("`group` = '' AND kind = 'transitional'")
    signals = signals.groupBy(RUN, "process", "view").agg(F.min("at").alias("signalled"))
    found = stays.join(signals, [RUN, "process", "view"], "left").withColumns(
        {
            "installed": F.col("at"),
            "seconds": F.expr("(unix_micros(ended) - unix_micros(at)) / 1000000.0D"),
            "members": _names("members"),
            "transitional": _names("transitional_set"),
        }
    )
    return shaped(found, GOLD["membership"])


def group_views(trace: DataFrame, bodies: DataFrame) -> DataFrame:
    """The views of groups that sessions were shown; a spooler has the name of its spool."""
    return _of_sessions(trace).unionByName(_of_spools(bodies))


def _of_sessions(trace: DataFrame) -> DataFrame:
    order = Window.partitionBy(RUN, "process", "group").orderBy("position")
    # A session that is gone has left all its groups; that it is gone is written down once.
    groups = trace.where("kind = 'view' AND `group` <> ''").select(RUN, "process", "group").distinct()
    gone = trace.where("kind = 'gone'").drop("group").join(groups, [RUN, "process"])
    own = trace.where("kind IN ('view', 'left') AND `group` <> ''").unionByName(gone)
    found = own.withColumn("ended", F.lead("at").over(order)).where("kind = 'view'")
    return shaped(
        found.withColumnRenamed("process", "session").withColumnRenamed("at", "installed"), GOLD["group_views"]
    )


def _of_spools(bodies: DataFrame) -> DataFrame:
    order = Window.partitionBy("spool", "group").orderBy("offset")
    found = bodies.where("kind = 'view'").withColumn("ended", F.lead("timestamp").over(order))
    return shaped(
        found.withColumnRenamed("spool", "session").withColumnRenamed("timestamp", "installed"),
        GOLD["group_views"],
    )
