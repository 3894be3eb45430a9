"""Events of clients as rows of traces, and back."""

from io import BytesIO
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.unit.check.evs_c_notation import client_history, group_view
from tests.unit.check.evs_notation import history

from hopring.check.judge import check_evs, check_evs_c
from hopring.check.trace import ClientDelivered, Event, GroupSignal
from hopring.check.trace_files import (
    TraceError,
    TraceRow,
    events,
    read_json_lines,
    read_parquet,
    rows,
    write_json_lines,
    write_parquet,
)
from hopring.check.trace_row import group_view_text, read_group_view

CLIENTS = """
    a: view red 1.1 a | view red 1.2 ab | send 1 safe to red,#x#b discard | leave red | left red | join green
    b: view red 1.2 ab | got a:1 | signal red b | view red 1.-1>2>3 b by network | disconnect | gone
"""


def both() -> list[Event]:
    """Daemons and clients in one trace."""
    return [*history("a: view 1 ab | send 1 | deliver a:1"), *client_history(CLIENTS)[1:]]


def test_json_lines_come_back_as_they_were() -> None:
    file = BytesIO()
    write_json_lines(both(), file)

    assert read_json_lines(BytesIO(file.getvalue())) == both()


@pytest.mark.slow  # The import of pyarrow is slow.
def test_parquet_comes_back_as_it_was(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="needs pyarrow: make arrow")
    write_parquet(both(), tmp_path / "trace.parquet")

    assert read_parquet(tmp_path / "trace.parquet") == both()


@pytest.mark.slow  # The import of pyarrow is slow.
def test_a_file_of_a_version_without_clients_is_read(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow: make arrow")
    daemons = history("a: view 1 ab | send 1")
    write_parquet(daemons, tmp_path / "new.parquet")
    table = parquet.read_table(tmp_path / "new.parquet").drop(["groups", "self_discard", "name"])
    parquet.write_table(table, tmp_path / "old.parquet")

    assert read_parquet(tmp_path / "old.parquet") == daemons


def test_each_checker_skips_events_of_the_other_kind() -> None:
    daemons = history("a: view 1 a | send 1 | deliver a:1")

    assert check_evs([*daemons, *client_history(CLIENTS)[1:]], False) == check_evs(daemons, False)
    assert check_evs_c([*daemons, *client_history(CLIENTS)], False) == check_evs_c(
        client_history(CLIENTS), False
    )


def test_a_row_of_a_client_names_its_group() -> None:
    told = {row.kind: row for row in rows(client_history(CLIENTS)) if row.process.startswith("b#")}

    assert told["connect"] == TraceRow(
        1, "connect", "b#0000000000000001/1", "b", 0, 0, groups=["#x#b"], name="x"
    )
    assert (told["view"].group, told["view"].cause) == ("red", "network")
    assert told["view"].view == (
        "0000000000000001.0000.0000000000000000"
        "/0000000000000002.0000.0000000000000000"
        "/0000000000000003.0000.0000000000000000-00000001"
    )
    assert told["deliver"].groups == ["red", "#x#b"]
    assert (told["deliver"].view, told["deliver"].message) == (None, "a#0000000000000001/1:1")


def test_ids_of_group_views_sort_as_text() -> None:
    ids = [group_view(text) for text in ("1.1", "1.2", "1.11", "1.-1>2", "1.-2>2", "1.-1>2>3", "1.-1>3", "2.1")]

    assert sorted(ids) == ids
    assert sorted(group_view_text(one) for one in ids) == [group_view_text(one) for one in ids]
    assert [read_group_view(group_view_text(one)) for one in ids] == ids


@pytest.mark.parametrize(
    ("kind", "change", "problem"),
    [
        (ClientDelivered, {"ord_lts": None}, "a column that it needs is empty"),
        (ClientDelivered, {"message": None}, "a column that it needs is empty"),
        (GroupSignal, {"group": "", "groups": ["red"]}, "it names no group"),
        (GroupSignal, {"kind": "dance"}, "unknown kind"),
        (GroupSignal, {"view": "7"}, "not a transitional event"),
    ],
)
def test_an_invalid_row_is_named(kind: type, change: dict[str, object], problem: str) -> None:
    (event,) = [one for one in client_history(CLIENTS) if isinstance(one, kind)]
    (row,) = rows([event])

    with pytest.raises(TraceError, match=problem):
        list(events([replace(row, **change)]))
