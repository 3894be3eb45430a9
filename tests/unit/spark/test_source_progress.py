"""Progress of streams and limits of batches, without Spark."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.spark.spooling import fill, remove

from hopring.spark.errors import DataLost
from hopring.spark.source.inventory import all_spools, chosen, id_of
from hopring.spark.source.options import LATEST, ReadOptions
from hopring.spark.source.progress import (
    Positions,
    SpoolPosition,
    bounded,
    bounded_by_bytes,
    ends,
    from_json,
    initial,
    latest,
    reach,
    shares,
    to_json,
    wanted,
)
from hopring.spool.archive import archive
from hopring.spool.files import bases

pytest.importorskip("pyarrow", reason="needs pyarrow: make arrow")


def options(root: Path, **given_options: Any) -> ReadOptions:
    return ReadOptions(path=str(root), **given_options)


@given(st.integers(1, 10**6), st.dictionaries(st.text("abc", max_size=5), st.integers(0, 10**9), min_size=1))
def test_shares_add_up_to_the_limit_and_none_is_above_what_waits(limit: int, waiting: dict[str, int]) -> None:
    dealt = shares(limit, waiting)

    assert sum(dealt.values()) == min(limit, sum(waiting.values()))
    assert all(0 <= dealt[name] <= waiting[name] for name in waiting)


def at(**offsets: int) -> Positions:
    """Positions in spools that all have the same id."""
    return {group: SpoolPosition(offset, "id") for group, offset in offsets.items()}


def in_spools(root: Path, **offsets: int) -> Positions:
    """Positions in the spools that are there."""
    return {group: SpoolPosition(offset, id_of(root / group)) for group, offset in offsets.items()}


def test_a_batch_is_bounded_over_all_groups() -> None:
    start, end = at(a=0, b=100), at(a=300, b=200, new=7)

    assert bounded(start, end, 40) == at(a=30, b=110, new=7)
    assert bounded(start, end, 1000) == end
    assert list(bounded(start, end, 1)) == ["a", "b", "new"]
    other = {"a": SpoolPosition(300, "other"), "b": SpoolPosition(200, "id")}
    assert bounded(start, other, 40) == {"a": SpoolPosition(300, "other"), "b": SpoolPosition(140, "id")}


def test_a_stream_begins_where_it_is_told(tmp_path: Path) -> None:
    fill(tmp_path, "b", 30)
    fill(tmp_path, "a", 20)

    def begin(**given_options: Any) -> dict[str, int]:
        its = options(tmp_path, **given_options)
        found = initial(chosen(its), its)
        assert found == in_spools(tmp_path, **{group: one.offset for group, one in found.items()})
        return {group: one.offset for group, one in found.items()}

    assert begin() == {"a": 0, "b": 0}
    assert list(begin()) == ["a", "b"]
    assert begin(starting=LATEST) == {"a": 20, "b": 30}
    assert begin(starting={"b": 7}) == {"a": 0, "b": 7}
    assert begin(starting_time_us=15_000_000) == {"a": 20, "b": 20}
    assert begin(starting_time_us={"b": 15_000_000}) == {"a": 0, "b": 20}


def test_a_group_that_appears_later_enters_without_records_at_its_earliest(tmp_path: Path) -> None:
    fill(tmp_path, "b", 20)
    its = options(tmp_path)
    late = fill(tmp_path, "a", 100)
    first = bases(late)[1]
    remove(late, bases(late)[:1])
    start = in_spools(tmp_path, b=0)

    end = latest(start, None, its)

    assert end == in_spools(tmp_path, a=first, b=20)
    assert list(end) == ["a", "b"]
    assert wanted(start, end, its) == {tmp_path / "b": range(20)}
    assert latest(end, None, its) == in_spools(tmp_path, a=100, b=20)


def test_a_query_ends_exactly_at_the_records_that_were_available(tmp_path: Path) -> None:
    fill(tmp_path, "a", 20)
    its = options(tmp_path)
    target = ends(its)
    fill(tmp_path, "a", 20)
    fill(tmp_path, "b", 20)

    def reached(**offsets: int) -> Positions:
        return latest(in_spools(tmp_path, **offsets), target, its)

    assert reached(a=0) == in_spools(tmp_path, a=20)
    assert reached(a=20) == in_spools(tmp_path, a=20)
    assert reached(a=30) == in_spools(tmp_path, a=30)  # Read before the restart.
    assert reached() == in_spools(tmp_path, a=0)


def test_a_missing_or_shorter_spool_is_a_loss(tmp_path: Path) -> None:
    fill(tmp_path, "a", 20)
    fill(tmp_path, "b", 20)
    its, careless = options(tmp_path), options(tmp_path, fail_on_data_loss=False)
    start, end = in_spools(tmp_path, a=7, b=0), in_spools(tmp_path, a=9, b=1)
    after = {**start, **in_spools(tmp_path, b=20)}
    beyond = in_spools(tmp_path, b=21)
    shutil.rmtree(tmp_path / "a")

    with pytest.raises(DataLost, match="the spool of 'a' is gone; start with a new checkpoint"):
        latest(start, None, its)
    with pytest.raises(DataLost, match="the spool of 'a' is gone"):
        wanted(start, end, its)
    assert latest(start, None, careless) == after
    assert wanted(start, end, careless) == {tmp_path / "b": range(1)}
    with pytest.raises(DataLost, match="it ends before 20, and the query has read up to 21"):
        latest(beyond, None, its)
    assert latest(beyond, None, careless) == beyond


def test_another_spool_in_the_place_of_the_one_that_was_read_is_a_loss(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    its, careless = options(tmp_path), options(tmp_path, fail_on_data_loss=False)
    fill(tmp_path, "a", 20)
    start, end = in_spools(tmp_path, a=10), in_spools(tmp_path, a=20)
    shutil.rmtree(tmp_path / "a")
    fill(tmp_path, "a", 30)

    for position in (start, end):
        with pytest.raises(DataLost, match=r"another spool is there .* than the one that the query has read"):
            latest(position, None, its)
    # A batch that was planned before the spool was replaced, and is planned again.
    with pytest.raises(DataLost, match="another spool is there"):
        wanted(start, end, its)
    assert not caplog.records

    entered = latest(end, None, careless)

    assert entered == in_spools(tmp_path, a=0)
    assert wanted(start, end, careless) == {}
    assert wanted(end, entered, careless) == {}
    assert latest(entered, None, careless) == in_spools(tmp_path, a=30)
    assert wanted(entered, in_spools(tmp_path, a=30), careless) == {tmp_path / "a": range(30)}
    # A query that ends at the records that were available ends, and with those of the new spool.
    assert latest(end, ends(careless), careless) == entered
    assert latest(entered, at(a=20), careless) == entered
    warned = [one.getMessage() for one in caplog.records]
    assert len(warned) == 1
    assert "another spool is there" in warned[0]


def test_a_checkpoint_without_ids_takes_those_that_are_there_once(tmp_path: Path) -> None:
    fill(tmp_path, "a", 20)
    its, careless = options(tmp_path), options(tmp_path, fail_on_data_loss=False)
    old = from_json({"a": 5})

    first = latest(old, None, its)

    assert first == in_spools(tmp_path, a=20)
    assert wanted(old, first, its) == {tmp_path / "a": range(5, 20)}
    assert wanted(from_json({"a": 5}), from_json({"a": 7}), its) == {tmp_path / "a": range(5, 7)}
    assert latest(from_json({"a": 20}), None, its) == first
    assert from_json(to_json(first)) == first
    assert to_json(from_json({"a": 5, "b": {"offset": 7, "spool": "x"}})) == {
        "a": 5,
        "b": {"offset": 7, "spool": "x"},
    }
    # It cannot be the spool that was read.
    with pytest.raises(DataLost, match="it ends before 20"):
        latest(from_json({"a": 21}), None, its)
    assert latest(from_json({"a": 21}), None, careless) == in_spools(tmp_path, a=0)
    shutil.rmtree(tmp_path / "a")
    fill(tmp_path, "a", 30)
    with pytest.raises(DataLost, match="another spool is there"):
        latest(first, None, its)


def test_a_group_that_is_no_longer_selected_keeps_its_offset(tmp_path: Path) -> None:
    fill(tmp_path, "a", 20)
    fill(tmp_path, "b", 20)

    start = in_spools(tmp_path, a=7, b=0)
    assert latest(start, None, options(tmp_path, groups=("b",))) == in_spools(tmp_path, a=7, b=20)


@pytest.mark.parametrize("archived", [False, True])
def test_a_batch_is_bounded_by_bytes_and_always_moves(tmp_path: Path, archived: bool) -> None:
    directory = fill(tmp_path, "a", 200)
    if archived:
        list(archive(directory))

    ahead = [reach(directory, 15, 200, bytes_max) for bytes_max in (1, 1000, 2000, 4000, 10**9)]

    assert ahead[0] == 16
    assert ahead == sorted(ahead)
    assert 16 < ahead[1] < ahead[2] < ahead[3] < 200
    assert ahead[-1] == 200
    spools = all_spools(tmp_path)
    assert bounded_by_bytes(spools, at(a=0), at(a=200), 1) == at(a=1)
    assert bounded_by_bytes(spools, at(a=200), at(a=200), 1) == at(a=200)
    assert bounded_by_bytes(spools, {}, at(a=0), 1) == at(a=0)
