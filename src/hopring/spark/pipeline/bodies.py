"""What records say that are no messages: their bodies, decoded where they lie."""

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from hopring.check.trace import GroupViewName, ViewName
from hopring.check.trace_names import group_view_text
from hopring.groups.names import GroupViewId
from hopring.groups.private import private_group
from hopring.spark.schema import BODIES, ddl
from hopring.spool.record import GapBody, MemberBody, TransitionBody, ViewBody, decode_body

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
            view = decode_body(data, ViewBody)
            return {"view": _view(view.id), "members": _members(view.members), "cause": view.cause}
        case "transition":
            signal = decode_body(data, TransitionBody)
            return {"view": _view(signal.id), "members": _members(signal.members)}
        case _:
            gap = decode_body(data, GapBody)
            since = {"since": gap.from_us, "until": gap.to_us, "messages": gap.messages}
            return {"cause": gap.reason, **since}


def _view(view: GroupViewId) -> str:
    way = tuple([ViewName(*one) for one in view.path])
    return group_view_text(GroupViewName(ViewName(*view.view), way, view.step))


def _members(members: Iterable[MemberBody]) -> list[str]:
    return [private_group(one.name, one.daemon) for one in members]
