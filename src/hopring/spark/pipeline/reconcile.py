"""The second stage, reconcile: deduplicates records into one table of messages. Gaps are in `gaps.py`.

A message is identified by its place in the order of all daemons and its number in its bundle: records with the
same pair are copies, in two spools or in the spools of two groups. Messages without a place, namely Unreliable
ones and those that programs wrote to spools themselves, cannot be compared in this way, and each of their
records counts.

This module also decodes the bodies of views, transitions and gaps, and formats ids as the trace does, so that
records and trace can be joined.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from hopring.check.trace import GroupViewName, ViewName
from hopring.check.trace_row import group_view_text as group_view_name
from hopring.groups.names import GroupViewId
from hopring.groups.private_groups import private_group
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

_SHARED = ("sender", "groups", "service", "type", "size", "payload")


def _hex(number: str, digits: int) -> str:
    return f"lpad(lower(hex({number})), {digits}, '0')"


def view_text(struct: str) -> Column:
    """The name of a view of daemons, as `check.trace_names.view_text` has it; null where a record has none."""
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
