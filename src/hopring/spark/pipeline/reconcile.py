"""Ids in records as the text that the trace has for them, so that the two can be joined."""

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


def _hex(number: str, digits: int) -> str:
    return f"lpad(lower(hex({number})), {digits}, '0')"


def view_text(struct: str) -> Column:
    """A view of daemons; null where a record has none. It is `check.trace_names.view_text`."""
    parts = [_hex(f"{struct}.counter", 16), _hex(f"{struct}.representative", 4), _hex(f"{struct}.nonce", 16)]
    return F.expr(f"CASE WHEN {struct}.counter <> 0 THEN concat_ws('.', {', '.join(parts)}) END")


def group_view_text() -> Column:
    """The view of its group that a record is in, as far as records carry it: of a closing one not the way."""
    step = F.expr(f"concat(CASE WHEN view.step < 0 THEN '/..-' ELSE '-' END, {_hex('abs(view.step)', 8)})")
    return F.concat(view_text("view"), step)


_KEYS = ("spool", "group", "offset", "timestamp", "kind")
_TYPES = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "array<string>": pa.list_(pa.string()),
}
_ARROW = pa.schema([(name, _TYPES[kind]) for name, kind in BODIES.items()])


def bodies(records: DataFrame) -> DataFrame:
    """Views, transitions and gaps, with what is in them."""
    others = records.where("kind <> 'message'").select(*_KEYS, "payload")
    return others.mapInArrow(_decoded, ddl(BODIES))


def _decoded(batches: Iterable[Any]) -> Iterator[Any]:
    for batch in batches:
        rows = [row | body_columns(row["kind"], row.pop("payload")) for row in batch.to_pylist()]
        yield pa.RecordBatch.from_pylist(rows, schema=_ARROW)


def body_columns(kind: str, data: bytes) -> dict[str, Any]:
    """The columns that one body fills."""
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
    way = tuple([ViewName(*one) for one in view.path])
    return group_view_name(GroupViewName(ViewName(*view.view), way, view.step))


def _members(members: Iterable[RecordedMember]) -> list[str]:
    return [private_group(one.name, one.daemon) for one in members]


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
