import sys
from io import BytesIO
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.unit.check.evs_model import run
from tests.unit.check.evs_notation import history

from hopring.check.trace import (
    Counters,
    Event,
    MessageDelivered,
    MessageId,
    MessageSent,
    Ord,
    ProcessName,
    ViewName,
)
from hopring.check.trace_files import (
    SCHEMA_VERSION,
    TraceError,
    TraceRow,
    events,
    read_json_lines,
    read_parquet,
    rows,
    write_json_lines,
    write_parquet,
)
from hopring.services import Service

LAST_NONCE = 2**64 - 1


def all_kinds() -> list[Event]:
    """A run of the model, counters of a link, and unusual names."""
    awkward = ProcessName("nyc#1/rack:2", LAST_NONCE, session=3)
    view = ViewName(2**40, 4095, LAST_NONCE)
    message = MessageId(*awkward[:2], number=7, session=3)
    return [
        *run(3).events,
        Counters(awkward, 5, "sjc@0000000000000007", 1, 2, 3, 4, 5, 60_000, "sjc"),
        MessageSent(awkward, 6, view, message, Service.SAFE, Ord(2**62, 63, view, 9), size=0),
        MessageDelivered(awkward, 7, view, message, Service.SAFE, Ord(2**62, 63, view, 9)),
    ]


def json_lines(history: list[Event]) -> bytes:
    file = BytesIO()
    write_json_lines(history, file)
    return file.getvalue()


def test_json_lines_come_back_as_they_were() -> None:
    assert read_json_lines(BytesIO(json_lines(all_kinds()))) == all_kinds()


@pytest.mark.slow  # The import of pyarrow is slow.
def test_parquet_comes_back_as_it_was(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="needs pyarrow: make arrow")
    write_parquet(all_kinds(), tmp_path / "trace.parquet")

    assert read_parquet(tmp_path / "trace.parquet") == all_kinds()


@pytest.mark.slow  # The import of pyarrow is slow.
def test_a_file_of_a_version_without_a_column_is_read(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow: make arrow")
    write_parquet(all_kinds(), tmp_path / "new.parquet")
    parquet.write_table(parquet.read_table(tmp_path / "new.parquet").drop(["peer"]), tmp_path / "old.parquet")

    without = [replace(one, peer="") if isinstance(one, Counters) else one for one in all_kinds()]
    assert read_parquet(tmp_path / "old.parquet") == without


def test_counters_without_a_peer_are_read_too() -> None:
    line = (
        b'{"schema":1,"kind":"counters","process":"a#0000000000000001/0","daemon":"a","position":0,"time_us":1,'
        b'"link":"b","sent":1,"received":2,"lost":3,"nacks":4,"retransmissions":5,"round_trip_us":6}\n'
    )

    assert read_json_lines(BytesIO(line)) == [Counters(ProcessName("a", 1), 1, "b", 1, 2, 3, 4, 5, 6)]


def test_an_empty_history_is_a_file_too(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="needs pyarrow: make arrow")
    write_parquet([], tmp_path / "trace.parquet")

    assert read_parquet(tmp_path / "trace.parquet") == []
    assert read_json_lines(BytesIO(json_lines([]))) == []


def test_a_row_is_flat_and_its_ids_sort_as_the_views_do() -> None:
    recover, view, sent = rows(history("a: view 10b ab | send 1"))

    assert (recover.kind, recover.position, recover.time_us) == ("recover", 0, 0)
    assert view == TraceRow(
        schema=SCHEMA_VERSION,
        kind="view",
        process="a#0000000000000001/0",
        daemon="a",
        position=1,
        time_us=1,
        view="000000000000000a.0001.0000000000000000",
        members=["a#0000000000000001/0", "b#0000000000000001/0"],
        transitional_set=["a#0000000000000001/0"],
        cause="",
    )
    assert (sent.kind, sent.message, sent.sender) == ("send", "a#0000000000000001/0:1", "a#0000000000000001/0")
    assert (sent.service, sent.ord_lts, sent.ord_site, sent.ord_view, sent.ord_place) == (
        "agreed",
        1,
        0,
        view.view,
        0,
    )


def test_empty_columns_are_left_out_of_json() -> None:
    line = json_lines(history("a: recover"))

    assert line == (
        b'{"schema":1,"kind":"recover","process":"a#0000000000000001/0","daemon":"a","position":0,"time_us":1}\n'
    )


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"schema": 99}, "row of schema 99, this is schema 1"),
        ({"position": 2}, "position 2 of a#0000000000000001/0: rows are missing or out of order, 1 was next"),
        ({"kind": "dance"}, "not a dance event: unknown kind"),
        ({"groups": ["seismic"]}, "a column that it needs is empty"),
        ({"view": "7"}, "position 1 of a#0000000000000001/0: not a send event"),
        ({"size": None}, "a column that it needs is empty"),
        ({"service": "best"}, "not a send event: 'BEST'"),
    ],
)
def test_an_invalid_row_is_named(change: dict[str, object], problem: str) -> None:
    recover, sent = rows(history("a: send 1 in 1"))

    with pytest.raises(TraceError) as error:
        list(events([recover, replace(sent, **change)]))

    assert problem in str(error.value)


def test_an_invalid_line_is_named() -> None:
    with pytest.raises(TraceError, match=r"line 2: "):
        read_json_lines(BytesIO(json_lines(history("a: recover")) + b"{}\n"))


def test_a_file_that_is_not_a_trace_is_named(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow: make arrow")
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow: make arrow")
    parquet.write_table(pyarrow.table({"schema": [1]}), tmp_path / "other.parquet")

    with pytest.raises(TraceError, match="not a trace: there is no column kind"):
        read_parquet(tmp_path / "other.parquet")


def test_without_pyarrow_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)

    with pytest.raises(TraceError, match=r"pip install 'hopring\[arrow\]'"):
        write_parquet([], tmp_path / "trace.parquet")
