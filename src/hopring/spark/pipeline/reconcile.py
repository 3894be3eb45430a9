"""The second stage, reconcile: deduplicates records into one table of messages, and finds gaps.

A message is identified by its place in the order of all daemons and its number in its bundle: records with the
same pair are copies, in two spools or in the spools of two groups. Messages without a place, namely Unreliable
ones and those that programs wrote to spools themselves, cannot be compared in this way, and each of their
records counts.

This module also decodes the bodies of views, transitions and gaps, and formats ids as the trace does, so that
records and trace can be joined.

The silver table of gaps says which records are missing in which spool, and why:

offsets   Offsets that the spool does not have, because of retention or damage.
away      A time in which the spooler could not receive, by its own record.
views     Messages of a view that other spools of the group were in and this one was not.
messages  Messages of a view that this spool was in, which another spool in that view has.

Only the last kind may stay unexplained. A promise was then broken: in one view all spools have the same Causal,
Agreed and Safe messages.
"""

from collections.abc import Iterable, Iterator
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from hopring.check.trace import GroupViewName, ViewName
from hopring.check.trace_row import group_view_text as group_view_name
from hopring.groups.names import GroupViewId
from hopring.groups.private_groups import private_group
from hopring.services import services_with
from hopring.spark.schema import BODIES, SILVER, ddl, shaped
from hopring.spool.record import RecordedGap, RecordedMember, RecordedTransition, RecordedView, decode_body

_KEYS = ("spool", "group", "offset", "timestamp", "kind")

_TYPES = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "array<string>": pa.list_(pa.string()),
}

_ARROW = pa.schema([(name, _TYPES[kind]) for name, kind in BODIES.items()])

PLACED = "(place.counter <> 0 OR place.lts <> 0 OR place.nonce <> 0)"

_SHARED = ("sender", "groups", "service", "type", "size", "payload", "headers", "key")


def _hex(number: str, digits: int) -> str:
    return f"lpad(lower(hex({number})), {digits}, '0')"


def view_text(struct: str) -> Column:
    """The name of a view of daemons, as `check.trace_row.view_text` has it; null where a record has none."""
    parts = [_hex(f"{struct}.counter", 16), _hex(f"{struct}.representative", 4), _hex(f"{struct}.nonce", 16)]
    return F.expr(f"CASE WHEN {struct}.counter <> 0 THEN concat_ws('.', {', '.join(parts)}) END")


def group_view_text() -> Column:
    """The name of a record's group view; that of a closing view without its path, which records lack."""
    step = F.expr(f"concat(CASE WHEN view.step < 0 THEN '/..-' ELSE '-' END, {_hex('abs(view.step)', 8)})")
    return F.concat(view_text("view"), step)


def bodies(records: DataFrame) -> DataFrame:
    """The records of views, transitions and gaps with their decoded bodies."""
    others = records.where("kind <> 'message'").select(*_KEYS, "payload")
    return others.mapInArrow(_decoded, ddl(BODIES))


def _decoded(batches: Iterable[Any]) -> Iterator[Any]:
    for batch in batches:
        rows = [row | body_columns(row["kind"], row.pop("payload")) for row in batch.to_pylist()]
        yield pa.RecordBatch.from_pylist(rows, schema=_ARROW)


def body_columns(kind: str, data: bytes) -> dict[str, Any]:
    """The values of one decoded body, by column."""
    match kind:
        case "view":
            view = decode_body(data, RecordedView)
            return {"view": _view(view.id), "members": _members(view.members), "cause": view.cause}
        case "transition":
            signal = decode_body(data, RecordedTransition)
            return {"view": _view(signal.id), "members": _members(signal.members)}
        case _:
            gap = decode_body(data, RecordedGap)
            since = {"since": gap.from_us, "until": gap.to_us, "messages": gap.messages}
            return {"cause": gap.reason, **since}


def _view(view: GroupViewId) -> str:
    path = tuple([ViewName(*one) for one in view.path])
    return group_view_name(GroupViewName(ViewName(*view.view), path, view.step))


def _members(members: Iterable[RecordedMember]) -> list[str]:
    return [private_group(one.name, one.daemon) for one in members]


def messages(records: DataFrame) -> DataFrame:
    """Each message once, with the daemons' view that delivered it and the spools that contain it."""
    own = F.expr(f"CASE WHEN NOT {PLACED} THEN struct(spool, `group`, offset) END")
    keyed = records.where("kind = 'message'").withColumn("alone", own)
    # A message is delivered in the view in which it was stamped, or not at all.
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


def joined(tables: DataFrame) -> DataFrame:
    """Tables of the messages of parts of the records as one: each message once."""
    same = ("view", "lts", "site", "number", *_SHARED)
    found = tables.groupBy("message").agg(
        *[F.first(name).alias(name) for name in same],
        F.min("received").alias("received"),
        F.max("received_last").alias("received_last"),
        F.sum("copies").alias("copies"),
        F.sort_array(F.array_distinct(F.flatten(F.collect_list("spools")))).alias("spools"),
    )
    return shaped(found, SILVER["messages"])


KEY = ("group", "view")

_PLACES = ("first_place", "last_place")
_STAY = ("spool", *KEY, "since", "until", "first_offset", "last_offset", *_PLACES, "messages", "closing")
_AWAY = (
    "spool",
    "group",
    "kind",
    "since",
    "until",
    "messages",
    *("from_offset", "to_offset"),
    "explanation",
    "explained",
)
_OFFSETS = ("from_offset", "to_offset")
_EXTENT = ("begins", "ends", "first", "last")


def _is_promised() -> Column:
    """A condition: the record is of a message that all spools of a view have."""
    return F.col("service").isin(*[one.name.lower() for one in services_with("total")])


def _in_order() -> Column:
    """The place of a message in its view."""
    return F.struct("place.lts", "place.site", "number")


def gaps(records: DataFrame, bodies: DataFrame) -> DataFrame:
    """All gaps of these records, whose decoded bodies are `bodies`."""
    seen = records.withColumn("view", group_view_text())
    stays, away = _apart(_stays(seen), _STAY), _apart(recorded(bodies), _AWAY)
    found = [
        _filled(holes(records), "view", "messages", "others"),
        _filled(away, "view", "others"),
        _filled(absent(stays, away), *_OFFSETS),
        _filled(lacking(seen, stays, away), *_OFFSETS),
    ]
    return reduce(DataFrame.unionByName, found)


def _apart(table: DataFrame, columns: Iterable[str]) -> DataFrame:
    """The table with new columns: Spark confuses them with those of its origin where the two are joined."""
    return table.select(*[F.col(name).alias(name) for name in columns])


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
            F.min("offset").alias("first_offset"),
            F.max("offset").alias("last_offset"),
            # In a view promised messages come in the order of their places.
            F.min(F.when(_is_promised(), _in_order())).alias("first_place"),
            F.max(F.when(_is_promised(), _in_order())).alias("last_place"),
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
    found = found.join(_extents(stays), ["spool", "group"])
    names = ("spool", *KEY, "others", "since", "until", "messages", *_EXTENT)
    found = _with_reason(found, names, away)
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
        F.bool_or(_is_promised()).alias("promised"),
    )
    missing = F.explode(F.array_except("present", "holders"))
    single = held.join(F.broadcast(present), list(KEY)).where("size(holders) < size(present)")
    its = stays.select("spool", *KEY, "closing", "first_offset", "last_offset", *_PLACES)
    single = single.withColumn("spool", missing).join(its, ["spool", *KEY])
    single = single.join(_extents(stays), ["spool", "group"])
    # Other spools may still have what retention has removed here.
    before = F.coalesce(_in_order() < F.col("first_place"), F.lit(True))
    single = single.withColumn("removed", F.expr("first > 0 AND first_offset = first") & before)
    # A spool that ends here may be behind; a message before one that it has is lost all the same.
    after = F.coalesce(_in_order() > F.col("last_place"), F.lit(True))
    single = single.withColumn("behind", F.expr("last_offset = last") & after)
    keys = ("spool", *KEY, "promised", "closing", "removed", "behind", *_EXTENT)
    found = single.groupBy(*keys).agg(
        F.min("at").alias("since"),
        F.max("at").alias("until"),
        F.count("*").alias("messages"),
        F.sort_array(F.array_distinct(F.flatten(F.collect_set("holders")))).alias("others"),
    )
    names = (*keys, "since", "until", "messages", "others")
    found = _with_reason(found, names, away)
    found = found.withColumns({"kind": F.lit("messages"), "explanation": _why_lacking()})
    unexplained = "no reason is known: messages of this service are promised to all in a view"
    explained = F.col("explanation").isNotNull()
    return found.withColumns(
        {"explained": explained, "explanation": F.coalesce("explanation", F.lit(unexplained))}
    )


def _why_lacking() -> Column:
    return F.expr(
        """
        CASE WHEN reason IS NOT NULL THEN concat('it was away: ', reason)
             WHEN removed THEN 'retention has removed the first records of this view'
             WHEN behind THEN 'the spool ends in this view, before these messages'
             WHEN closing THEN 'the view was closing: the other side of a split delivered them'
             WHEN NOT promised THEN 'Reliable and FIFO messages may stand in another view' END
        """
    )


def _extents(stays: DataFrame) -> DataFrame:
    """The time from the first to the last record of each spool and group."""
    return stays.groupBy("spool", "group").agg(
        F.min("since").alias("begins"),
        F.max("until").alias("ends"),
        F.min("first_offset").alias("first"),
        F.max("last_offset").alias("last"),
    )


def _with_reason(found: DataFrame, names: Iterable[str], away: DataFrame) -> DataFrame:
    """These columns, and the reason why the spooler was away at that time, if it recorded one."""
    recorded_away = away.select(
        *[F.col(name).alias(f"away_{name}") for name in ("spool", "group", "since", "until")],
        F.col("explanation").alias("reason"),
    )
    same = "spool = away_spool AND `group` = away_group AND away_since <= until AND away_until >= since"
    joined = found.join(recorded_away, F.expr(same), "left")
    return joined.groupBy(*names).agg(F.min("reason").alias("reason"))


def _filled(found: DataFrame, *missing: str) -> DataFrame:
    """Adds the columns that this kind of gap does not have, as nulls."""
    nulls = {name: F.lit(None).cast(SILVER["gaps"][name]) for name in missing}
    return shaped(found.withColumns(nulls), SILVER["gaps"])
