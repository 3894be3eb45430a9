"""Events from columns are those that were written, whatever the order of the rows."""

from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.unit.check.client_literals import HOLDS
from tests.unit.check.evs_c_notation import client_history
from tests.unit.check.evs_model import run
from tests.unit.check.evs_notation import history

from hopring.check.trace import Counters, Event, MessageSent, ProcessName
from hopring.check.trace_columns import RowsMissing, events_of
from hopring.check.trace_files import TraceError, write_parquet

pa = pytest.importorskip("pyarrow", reason="needs pyarrow: make arrow")
pq = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow: make arrow")

COUNTED = Counters(ProcessName("a", 1), 9, "b@1", 1, 2, 3, 4, 5, 6, "b")
NO_COUNTS = Counters(ProcessName("a", 1), 9, "", 0, 0, 0, 0, 0, 0)


def table(events: list[Event], tmp_path: Path) -> Any:
    write_parquet(events, tmp_path / "trace.parquet")
    found = pq.read_table(tmp_path / "trace.parquet")
    rows = list(range(found.num_rows))
    found = found.append_column("file", pa.array(["trace.parquet"] * len(rows))).append_column("row", [rows])
    Random(1).shuffle(rows)
    return found.take(rows)


def by_process(events: list[Event]) -> dict[ProcessName, list[Event]]:
    found: dict[ProcessName, list[Event]] = {}
    for event in events:
        found.setdefault(event.process, []).append(event)
    return found


def test_events_of_daemons_and_sessions_are_those_that_were_written(tmp_path: Path) -> None:
    for events in (run(3).events, client_history(HOLDS[0][1]), history("a: view 1 a | send 1 unreliable")):
        found = events_of(table(list(events), tmp_path))

        assert len(found) == len(events) > 2
        assert list(by_process(found).items()) == list(by_process(list(events)).items())


def test_counters_keep_their_positions_and_lose_their_counts(tmp_path: Path) -> None:
    events = [*history("a: view 1 a"), COUNTED]

    assert events_of(table(events, tmp_path)) == [*events[:-1], NO_COUNTS]


def test_the_starts_of_a_daemon_are_in_the_order_of_their_rows(tmp_path: Path) -> None:
    # By its incarnation the second start would be the first.
    text = "a.2: view 1 a.2 | crash\na: view 2 a"

    assert [event.process.incarnation for event in events_of(table(history(text), tmp_path))] == [2, 2, 2, 1, 1]


def test_of_two_messages_with_one_stamp_the_first_row_comes_first(tmp_path: Path) -> None:
    a, b = (history(f"{name}: view 1 ab | send 1 lts 5") for name in "ab")
    mixed = [*a[:2], *b, a[2]]

    found = events_of(table(mixed, tmp_path))

    assert [event for event in found if isinstance(event, MessageSent)] == [b[2], a[2]]


@pytest.mark.parametrize("rows", [[0, 1, 3], [0, 1, 1, 2, 3], [1, 2, 3]])
def test_missing_and_repeated_rows_are_refused(tmp_path: Path, rows: list[int]) -> None:
    write_parquet(history("a: view 1 a | send 1 | deliver a:1"), tmp_path / "trace.parquet")
    whole = pq.read_table(tmp_path / "trace.parquet")

    with pytest.raises(RowsMissing, match="rows of a#0000000000000001/0 are missing or there twice"):
        events_of(whole.take(rows))


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("schema", 7, "row of schema 7, this is schema 1"),
        ("message", "nonsense", "message 'nonsense' cannot be read"),
        ("service", "swift", "service 'swift' cannot be read"),
        ("ord_lts", None, "a row without ord_lts, which its kind needs"),
        ("view", None, "a row without view, which its kind needs"),
        ("kind", "jump", "position 2 of a#0000000000000001/0: not a jump event"),
    ],
)
def test_a_wrong_value_is_named(tmp_path: Path, column: str, value: object, reason: str) -> None:
    write_parquet(history("a: view 1 a | send 1"), tmp_path / "trace.parquet")
    whole = pq.read_table(tmp_path / "trace.parquet")
    at = whole.column_names.index(column)
    values = [*whole.column(column).to_pylist()[:-1], value]
    wrong = whole.set_column(at, column, pa.array(values, whole.schema.field(column).type))

    with pytest.raises(TraceError, match=reason):
        events_of(wrong)
