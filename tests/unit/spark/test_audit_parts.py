"""Parts of the audit that need no Spark."""

from pathlib import Path

import pytest
from tests.unit.check.evs_notation import history

from hopring.check.properties.order import circle_sentence
from hopring.check.properties.sql import Masks
from hopring.check.trace_files import read_parquet, write_json_lines
from hopring.spark.audit.reading import as_parquet, must_be_there
from hopring.spark.audit.runner import find_circles
from hopring.spark.audit.tables import partitions
from hopring.spark.errors import ForeignInput


def test_a_set_of_up_to_64_is_one_column_and_a_larger_one_several() -> None:
    assert Masks(1).beyond("owed", "got") == "((owed0 & ~(got0)) <> 0)"
    assert Masks(2).overlap("a", "b") == "((a0 & b0) <> 0 OR (a1 & b1) <> 0)"
    assert Masks(2).columns("x.self") == "x.self0, x.self1"


def test_a_cycle_is_described_from_its_lowest_message() -> None:
    edges = [("one", 5, 3), ("one", 3, 4), ("one", 4, 5), ("other", 1, 2), ("other", 2, 3)]

    assert find_circles(edges) == {"one": [3, 4, 5]}


def test_of_a_long_cycle_only_the_ends_are_shown() -> None:
    words = circle_sentence([f"a:{number}" for number in range(20)])

    assert words == (
        "each before the next, at one process or another: a:0, a:1, a:2, a:3, a:4, a:5, 13 more, a:19, a:0"
    )


@pytest.mark.parametrize(("rows", "pieces"), [(0, 2), (10_000_000, 25), (10**12, 2_000)])
def test_a_trace_is_cut_into_as_many_pieces_as_it_is_long(rows: int, pieces: int) -> None:
    assert partitions(rows) == pieces


def test_lines_become_parquet_under_their_names(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="needs pyarrow: make arrow")
    events = history("a: view 1 a | send 1 | deliver a:1")
    (tmp_path / "run=x").mkdir()
    with (tmp_path / "run=x" / "a.jsonl").open("wb") as file:
        write_json_lines(events, file)

    with as_parquet(tmp_path) as directory:
        assert directory is not None
        assert read_parquet(directory / "run=x" / "a.parquet") == events
    assert not directory.exists()


def test_an_invalid_line_is_named(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="needs pyarrow: make arrow")
    (tmp_path / "a.jsonl").write_text('{"schema": 1}\n')

    with pytest.raises(ForeignInput, match=r"a\.jsonl, line 1: not a row of a trace"), as_parquet(tmp_path):
        pass


def test_lines_that_exist_as_parquet_too_are_not_read_twice(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").touch()
    (tmp_path / "a.parquet").touch()

    with as_parquet(tmp_path) as directory:
        assert directory is None


def test_a_missing_input_is_an_error_before_java_starts(tmp_path: Path) -> None:
    with pytest.raises(ForeignInput, match="not there; give a directory"):
        must_be_there(str(tmp_path / "nothing"))
    with pytest.raises(ForeignInput, match="holds no trace"):
        must_be_there(str(tmp_path))
    must_be_there("hdfs://somewhere/traces")
