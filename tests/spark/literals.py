"""Small handwritten tables for the stages of the pipeline."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from hopring.check.trace import Event
from hopring.check.trace_files import rows
from hopring.spark.schema import BODIES, BRONZE, TRACE, ddl

Ids = tuple[int, int, int]


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def record(
    spool: str,
    offset: int,
    view: tuple[int, int] = (1, 0),  # The daemons' view, and the step of the group's view in it.
    place: tuple[int, int] | None = None,  # Stamp and number, in the same view.
    kind: str = "message",
    group: str = "g",
    service: str = "agreed",
    seconds: float | None = None,
) -> tuple[Any, ...]:
    """A record; its time is its offset by default."""
    message = kind == "message"
    ids = (view[0], 1, -5) if view[0] else (0, 0, 0)
    lts, number = place or (0, 0)
    stamp = (*(ids if place else (0, 0, 0)), lts, 0)
    moment = at(offset if seconds is None else seconds)
    facts = ("#anna#eu1", [group], service) if message else (None, [group], None)
    body = bytearray(b"body" if message else b"")
    return (
        spool,
        group,
        offset,
        moment,
        kind,
        *facts,
        0,
        (*ids, view[1]),
        stamp,
        number,
        len(body),
        body,
        None,
        None,
    )


def records(spark: Any, found: Iterable[tuple[Any, ...]]) -> Any:
    return spark.createDataFrame(list(found), ddl(BRONZE["records"]))


def gap(spool: str, offset: int, since: float, until: float, reason: str, group: str = "g") -> tuple[Any, ...]:
    """A gap record of a spooler."""
    return (spool, group, offset, at(until), "gap", None, None, reason, at(since), at(until), None)


def shown(spool: str, offset: int, view: str, members: list[str], group: str = "g") -> tuple[Any, ...]:
    """A view record of a spooler."""
    return (spool, group, offset, at(offset), "view", view, members, "join", None, None, None)


def bodies(spark: Any, found: Iterable[tuple[Any, ...]]) -> Any:
    return spark.createDataFrame(list(found), ddl(BODIES))


def trace(spark: Any, history: Sequence[Event]) -> Any:
    """A history as rows of the bronze table."""
    made = [
        ("", *[getattr(row, name) for name in TRACE], "file", number)
        for number, row in enumerate(rows(history))
    ]
    return spark.createDataFrame(made, ddl(BRONZE["trace"]))


def values(table: Any, *columns: str) -> list[tuple[Any, ...]]:
    """Rows of these columns, sorted as texts."""
    return sorted([tuple(row) for row in table.select(*columns).collect()], key=repr)
