"""The third stage, measure: the gold tables of throughput, latency, links, membership, group views and totals.

Time        a daemon's times count from the start of its machine, and its `recover` row has the wall clock of
            that moment. Without it, as in the simulator, all times are of one clock already. A session's times
            are those of its daemon's machine, because clients that record a trace run there.
Latency     counts from the stamp of a message at its sender to each delivery, that at the sender included. It
            compares the wall clocks of two machines, so it is as exact as these agree; negative values are
            counted separately.
Limit       a wall clock that is set while a daemon runs is not noticed: its times keep their offset.
"""

from collections.abc import Mapping
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from hopring.spark.pipeline.reconcile import PLACED, view_text
from hopring.spark.schema import GOLD, LATENCIES, MOVES, RUN, shaped

EXACT_MAX: Final = 10_000_000
"""Above this number of rows of the trace percentiles are estimated, to a ten-thousandth of the rank."""

LATENCY_US_MAX: Final = 2**31 - 1

_STAMP: Final = ("ord_view", "ord_lts", "ord_site")

_WHERE: Final = ("service", "from_site", "to_site")

_RANKS: Final = "array(0.5D, 0.9D, 0.99D)"

_COUNTS = ("sent", "received", "lost", "nacks", "retransmissions", "round_trip_us")

Tables = Mapping[str, DataFrame]


def on_the_wall(trace: DataFrame) -> DataFrame:
    """The trace with wall clock times: `at_us` in microseconds since 1970, and `at` as a timestamp."""
    return shifted(trace, clocks(trace))


def clocks(trace: DataFrame) -> DataFrame:
    """By life of a daemon: the wall clock minus its own, in microseconds."""
    anchors = trace.where("kind = 'recover' AND wall_us IS NOT NULL")
    return anchors.groupBy(RUN, _life().alias("life")).agg(
        F.min(F.col("wall_us") - F.col("time_us")).alias("shift")
    )


def shifted(trace: DataFrame, shifts: DataFrame) -> DataFrame:
    """The trace with wall clock times, by the clocks of all lives in it."""
    placed = trace.withColumn("life", _life()).join(F.broadcast(shifts), [RUN, "life"], "left")
    at_us = F.col("time_us") + F.coalesce("shift", F.lit(0))
    return placed.withColumn("at_us", at_us).withColumn("at", F.timestamp_micros("at_us")).drop("shift")


def _life() -> Column:
    return F.substring_index("process", "/", 1)


def of_daemons() -> Column:
    """A condition: the send or delivery was recorded by a daemon and not by one of its sessions."""
    return (F.col("group") == "") & F.col("groups").isNull()


def site(daemon: str, sites: Mapping[str, str]) -> Column:
    """A daemon's site: from the configuration, or its name without the digits at the end."""
    name = F.col(daemon)
    bare = F.regexp_replace(name, "[0-9]+$", "")
    if not sites:
        return bare
    known = F.create_map(*[F.lit(text) for pair in sorted(sites.items()) for text in pair])
    return F.coalesce(F.try_element_at(known, name), bare)


def throughput(trace: DataFrame, sites: Mapping[str, str]) -> DataFrame:
    """Messages sent and delivered, and bytes sent, by second, daemon and service."""
    sent = F.col("kind") == "send"
    moved = trace.where(of_daemons() & F.col("kind").isin("send", "deliver"))
    found = moved.groupBy(RUN, F.date_trunc("second", "at").alias("second"), "daemon", "service").agg(
        F.count_if(sent).alias("sent"),
        F.count_if(~sent).alias("delivered"),
        F.coalesce(F.sum(F.when(sent, F.col("size"))), F.lit(0)).alias("bytes"),
    )
    return shaped(found.withColumn("site", site("daemon", sites)), GOLD["throughput"])


def added(tables: DataFrame) -> DataFrame:
    """The sums of throughput tables of parts of a trace."""
    keys = (RUN, "second", "daemon", "site", "service")
    sums = [F.sum(name).alias(name) for name in ("sent", "delivered", "bytes")]
    return shaped(tables.groupBy(*keys).agg(*sums), GOLD["throughput"])


def moves(trace: DataFrame) -> DataFrame:
    """The sends and deliveries of daemons."""
    return shaped(trace.where(of_daemons() & F.col("kind").isin("send", "deliver")), MOVES)


def journeys(trace: DataFrame, sites: Mapping[str, str]) -> DataFrame:
    """The latency of each delivery by a daemon, if the send of its message is in the trace."""
    return matched(moves(trace), sites)


def matched(moves: DataFrame, sites: Mapping[str, str]) -> DataFrame:
    """The latency of each delivery whose send is among these."""
    sends = moves.where("kind = 'send'").select(
        RUN, "message", "service", *_STAMP, F.col("at_us").alias("sent_us"), F.col("daemon").alias("from")
    )
    got = moves.where("kind = 'deliver'").select(RUN, "message", "at_us", F.col("daemon").alias("to"))
    both = got.join(sends, [RUN, "message"])
    return both.select(
        RUN,
        *_STAMP,
        "service",
        site("from", sites).alias("from_site"),
        site("to", sites).alias("to_site"),
        "sent_us",
        (F.col("at_us") - F.col("sent_us")).alias("latency_us"),
    )


def waiting(moves: DataFrame) -> DataFrame:
    """The moves that later ones may belong to: all sends, and deliveries whose send is not there yet."""
    sends = moves.where("kind = 'send'")
    keys = sends.select(RUN, "message").distinct()
    return sends.unionByName(moves.where("kind = 'deliver'").join(keys, [RUN, "message"], "left_anti"))


def session_journeys(trace: DataFrame, sites: Mapping[str, str]) -> DataFrame:
    """The latency of each delivery to a session, with one row for each group of the message."""
    own = trace.where(F.col("groups").isNotNull())
    sends = own.where("kind = 'send'").select(
        RUN, "message", "service", F.col("at_us").alias("sent_us"), F.col("daemon").alias("from")
    )
    got = own.where("kind = 'deliver'").select(
        RUN, "message", "at_us", F.col("daemon").alias("to"), F.explode("groups").alias("in_group")
    )
    return got.join(sends, [RUN, "message"]).select(
        RUN,
        F.col("in_group").alias("group"),
        "service",
        site("from", sites).alias("from_site"),
        site("to", sites).alias("to_site"),
        (F.col("at_us") - F.col("sent_us")).alias("latency_us"),
    )


def in_groups(all_journeys: DataFrame, records: DataFrame) -> DataFrame:
    """The deliveries with the groups of their messages, which records have for each place in the order."""
    placed = records.where(f"kind = 'message' AND {PLACED}")
    places = placed.select(
        view_text("place").alias("ord_view"),
        F.col("place.lts").alias("ord_lts"),
        F.col("place.site").cast("bigint").alias("ord_site"),
        "group",
    ).distinct()
    return all_journeys.join(places, list(_STAMP))


def latency(all_journeys: DataFrame, by_group: DataFrame, *, exact: bool) -> DataFrame:
    """Percentiles by service and pair of sites: of all messages, and of each group."""
    whole = all_journeys.withColumn("group", F.lit(""))
    columns = [RUN, *_WHERE, "group", "latency_us"]
    found = whole.select(*columns).unionByName(by_group.select(*columns))
    found = found.groupBy(RUN, *_WHERE, "group").agg(
        F.count("*").alias("messages"),
        _percentiles(exact).alias("percentiles"),
        F.max("latency_us").alias("max_us"),
        F.avg("latency_us").alias("mean_us"),
        F.count_if(F.col("latency_us") < 0).alias("negative"),
    )
    return shaped(_named_percentiles(found), GOLD["latency"])


def _percentiles(exact: bool) -> Column:
    return F.expr(
        f"percentile(latency_us, {_RANKS})" if exact else f"percentile_approx(latency_us, {_RANKS}, 10000)"
    )


def latencies(all_journeys: DataFrame) -> DataFrame:
    """How often each latency occurred, by the minute of the send."""
    minute = F.date_trunc("minute", F.timestamp_micros("sent_us"))
    keyed = all_journeys.withColumns({"minute": minute, "deliveries": F.lit(1).cast("bigint")})
    return counted(shaped(keyed, LATENCIES))


def counted(tables: DataFrame) -> DataFrame:
    """The sums of tables of latencies."""
    keys = [name for name in LATENCIES if name != "deliveries"]
    return shaped(tables.groupBy(*keys).agg(F.sum("deliveries").alias("deliveries")), LATENCIES)


def latency_by_minute(counts: DataFrame) -> DataFrame:
    """Percentiles by the minute of the send, service and pair of sites."""
    many = F.col("deliveries")
    found = counts.groupBy(RUN, "minute", *_WHERE).agg(
        F.sum(many).alias("messages"),
        F.expr(f"percentile(latency_us, {_RANKS}, deliveries)").alias("percentiles"),
        F.max("latency_us").alias("max_us"),
        (F.sum(F.col("latency_us") * many) / F.sum(many)).alias("mean_us"),
        F.sum(F.when(F.col("latency_us") < 0, many).otherwise(0)).alias("negative"),
    )
    return shaped(_named_percentiles(found), GOLD["latency_by_minute"])


def _named_percentiles(found: DataFrame) -> DataFrame:
    return found.withColumns({f"p{name}_us": F.col("percentiles")[at] for at, name in enumerate((50, 90, 99))})


def latency_histogram(all_journeys: DataFrame) -> DataFrame:
    """A histogram with two buckets for each factor of two; values below a microsecond share one."""
    short = F.least(F.greatest("latency_us", F.lit(0)), F.lit(LATENCY_US_MAX))
    # In integers: a logarithm may be slightly below a border that is reached exactly.
    octave = F.expr("length(bin(us)) - 1")
    upper = F.expr("CASE WHEN us * us >= shiftleft(1L, CAST(2 * octave + 1 AS INT)) THEN 1 ELSE 0 END")
    found = all_journeys.withColumn("us", short).withColumn("octave", octave)
    found = found.withColumn("step", F.when(F.col("us") < 1, -1).otherwise(2 * F.col("octave") + upper))
    counted = found.groupBy(RUN, *_WHERE, "step").agg(F.count("*").alias("messages"))
    low = F.when(F.col("step") < 0, 0).otherwise(F.ceil(F.pow(F.lit(2.0), F.col("step") / 2)))
    high = F.when(F.col("step") < 0, 1).otherwise(F.ceil(F.pow(F.lit(2.0), (F.col("step") + 1) / 2)))
    return shaped(counted.withColumns({"low_us": low, "high_us": high}), GOLD["latency_histogram"])


def links(trace: DataFrame) -> DataFrame:
    """The last counters of each link of each daemon; every network has new links."""
    last = trace.where("kind = 'counters'").groupBy(RUN, "process", "daemon", "link")
    found = last.agg(
        F.max_by("peer", "position").alias("named"),
        *[F.max_by(name, "position").alias(name) for name in _COUNTS],
    )
    # Older files have no column for the peer; the link's name begins with it.
    peer = F.coalesce("named", F.substring_index("link", "@", 1))
    ratio = F.when(F.col("received") > 0, F.col("lost") / F.col("received")).otherwise(0.0)
    return shaped(found.withColumns({"peer": peer, "loss_ratio": ratio}), GOLD["links"])


def _names(processes: str) -> Column:
    """The names of daemons, from processes with names like `name#incarnation/0`."""
    return F.transform(processes, lambda one: F.substring_index(one, "#", 1))


def membership(trace: DataFrame) -> DataFrame:
    """The stays of daemons in views, until the next view or a crash; the end is null if neither came."""
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
    """The stays of sessions in group views, from the trace and from spools; a spooler has its spool's name."""
    return _of_sessions(trace).unionByName(_of_spools(bodies))


def _of_sessions(trace: DataFrame) -> DataFrame:
    order = Window.partitionBy(RUN, "process", "group").orderBy("position")
    # A session that is gone has left all its groups; the trace has one row for that.
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
        # Spools have no run.
        found.withColumn(RUN, F.lit(""))
        .withColumnRenamed("spool", "session")
        .withColumnRenamed("timestamp", "installed"),
        GOLD["group_views"],
    )


def summary(tables: Tables) -> DataFrame:
    """The totals of a run, from its other tables by name."""
    parts = [
        _row(
            tables["throughput"],
            {
                "messages sent": F.sum("sent"),
                "messages delivered": F.sum("delivered"),
                "bytes sent": F.sum("bytes"),
            },
        ),
        _row(
            tables["daemons"],
            {"daemons": F.count_distinct("daemon"), "sites": F.count_distinct("site")},
        ),
        _row(tables["membership"], {"views": F.count_distinct("view")}),
        _row(tables["records"], {"spools": F.count_distinct("spool"), "records": F.count("*")}),
        _row(
            tables["messages"],
            {"messages spooled": F.count("*"), "duplicates removed": F.sum(F.col("copies") - 1)},
        ),
        _row(tables["gaps"], {"gaps": F.count("*"), "gaps unexplained": F.count_if(~F.col("explained"))}),
    ]
    return shaped(reduce(DataFrame.unionByName, parts), GOLD["summary"])


def _row(table: DataFrame, figures: Mapping[str, object]) -> DataFrame:
    one = table.agg(*[F.coalesce(what, F.lit(0)).alias(name) for name, what in figures.items()])
    entries = [
        F.struct(F.lit(name).alias("name"), F.col(f"`{name}`").cast("double").alias("value"))
        for name in figures
    ]
    return one.select(F.inline(F.array(*entries)))
