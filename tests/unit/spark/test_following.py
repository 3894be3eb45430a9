"""Files of traces that are read while they grow."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.unit.check.evs_notation import history

from hopring.check.trace_files import write_json_lines, write_parquet
from hopring.spark.errors import ForeignInput

pytest.importorskip("pyspark", reason="needs Spark: make spark")

import pyarrow.parquet as pq

from hopring.spark.pipeline.following import TraceFollower, merge_pieces, write_rows

TEXT = "a: view 1 ab | send 1 | deliver a:1\nb: view 1 ab | deliver a:1"


def follow(trace: Path, bytes_max: int = 1 << 20) -> Any:
    return TraceFollower(trace, bytes_max)


def lines_of(path: Path) -> list[bytes]:
    path.parent.mkdir(exist_ok=True)
    with path.open("wb") as file:
        write_json_lines(history(TEXT), file)
    return path.read_bytes().splitlines(keepends=True)


def rows_of(new: Any) -> list[tuple[str, int, str]]:
    """Directory, number and kind of each row."""
    return sorted(
        (directory, row["row"], row["kind"])
        for directory, tables in new.tables.items()
        for table in tables
        for row in table.to_pylist()
    )


def test_complete_lines_are_read_once_and_the_last_one_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "all.jsonl"
    lines = lines_of(path)
    follower = follow(tmp_path)
    path.write_bytes(b"".join(lines[:2]) + lines[2][:-5])

    first = follower.read({})
    assert [number for _, number, _ in rows_of(first)] == [0, 1]
    assert follower.read(first.files) is None
    path.write_bytes(b"".join(lines))
    rest = follower.read(first.files)
    assert sorted(number for _, number, _ in rows_of(rest)) == list(range(2, len(lines)))
    assert follower.read(rest.files) is None


def test_a_backlog_comes_in_pieces_and_an_end_that_was_set_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "run=x y" / "all.jsonl"
    lines = lines_of(path)
    follower = follow(tmp_path, max(map(len, lines)))
    ends = follower.sizes()
    with path.open("ab") as file:
        file.write(lines[0])

    done: Any = {}
    pieces = []
    while (new := follower.read(done, ends)) is not None:
        done = new.files
        pieces.append(rows_of(new))

    assert len(pieces) > 2
    assert sum(map(len, pieces)) == len(lines)
    assert {directory.partition("/")[0] for piece in pieces for directory, _, _ in piece} == {"run=x y"}


def test_a_parquet_file_is_read_when_it_is_complete_and_counts_before_the_lines_of_its_name(
    tmp_path: Path,
) -> None:
    path = tmp_path / "seed.parquet"
    lines_of(tmp_path / "seed.jsonl")
    write_parquet(history(TEXT), path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-3])
    follower = follow(tmp_path)
    assert follower.read({}) is None

    path.write_bytes(whole)
    found = follower.read({})
    assert list(found.files) == ["seed.parquet"]
    assert follower.read(found.files) is None


def test_many_small_pieces_become_one_with_the_same_rows(tmp_path: Path) -> None:
    lines_of(tmp_path / "run=x" / "all.jsonl")
    place, workshop = tmp_path / "out" / "trace", tmp_path / "out" / "workshop"
    workshop.mkdir(parents=True)
    follower, number = follow(tmp_path / "run=x", 400), 0
    done: Any = {}
    while (new := follower.read(done)) is not None:
        write_rows(new, place, f"piece-{number:08}")
        done, number = new.files, number + 1

    def rows() -> list[Any]:
        found = [pq.read_table(file, partitioning=None).to_pylist() for file in place.rglob("*.parquet")]
        return sorted([row for one in found for row in one], key=lambda row: row["row"])

    before, files = rows(), len(list(place.rglob("*.parquet")))
    assert merge_pieces(place, tmp_path / "out", workshop, files + 1) == 0
    assert merge_pieces(place, tmp_path / "out", workshop, 2) == files
    assert rows() == before
    assert len(list(place.rglob("*.parquet"))) == 2  # One for each daemon.
    assert list(workshop.iterdir()) == []


def test_the_wall_clock_of_each_life_is_found(tmp_path: Path) -> None:
    path = tmp_path / "eu1.jsonl"
    rows = [json.loads(line) for line in lines_of(path)]
    for row in rows:
        if row["kind"] == "recover":
            row["wall_us"] = row["time_us"] + 7_000
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))

    found = follow(path).read({})

    lives = {"a#0000000000000001", "b#0000000000000001"}
    assert found.lives == {"": lives}
    assert found.clocks == {"": dict.fromkeys(lives, 7_000)}


def test_files_that_shrink_change_or_are_no_traces_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "all.jsonl"
    lines = lines_of(path)
    follower = follow(tmp_path)
    done = follower.read({}).files

    path.write_bytes(b"".join(lines[:1]))
    with pytest.raises(ForeignInput, match="not the file that was read before"):
        follower.read(done)
    path.write_bytes(b"{}" * 1000)
    with pytest.raises(ForeignInput, match="give new histories new names"):
        follower.read(done)
    path.write_bytes(b"".join(lines) + b"nonsense\n")
    with pytest.raises(ForeignInput, match=rf"line {len(lines) + 1}: not a row of a trace"):
        follower.read(done)
