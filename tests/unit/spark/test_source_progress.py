"""Progress of streams and limits of batches, without Spark."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.spark.spooling import fill, remove

from hopring.spark.errors import DataLost
from hopring.spark.source.inventory import all_spools, chosen
from hopring.spark.source.options import LATEST, ReadOptions
from hopring.spark.source.progress import (
    bounded,
    bounded_by_bytes,
    ends,
    initial,
    latest,
    reach,
    shares,
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


def test_a_batch_is_bounded_over_all_groups() -> None:
    start, end = {"a": 0, "b": 100}, {"a": 300, "b": 200, "new": 7}

    assert bounded(start, end, 40) == {"a": 30, "b": 110, "new": 7}
    assert bounded(start, end, 1000) == end
    assert list(bounded(start, end, 1)) == ["a", "b", "new"]


def test_a_stream_begins_where_it_is_told(tmp_path: Path) -> None:
    fill(tmp_path, "b", 30)
    fill(tmp_path, "a", 20)

    def begin(**given_options: Any) -> dict[str, int]:
        its = options(tmp_path, **given_options)
        return initial(chosen(its), its)

    assert begin() == {"a": 0, "b": 0}
    assert list(begin()) == ["a", "b"]
    assert begin(starting=LATEST) == {"a": 20, "b": 30}
    assert begin(starting={"b": 7}) == {"a": 0, "b": 7}
    assert begin(starting_time_us=15_000_000) == {"a": 20, "b": 20}


def test_a_group_that_appears_later_enters_without_records_at_its_earliest(tmp_path: Path) -> None:
    fill(tmp_path, "b", 20)
    its = options(tmp_path)
    late = fill(tmp_path, "a", 100)
    first = bases(late)[1]
    remove(late, bases(late)[:1])

    end = latest({"b": 0}, None, its)

    assert end == {"a": first, "b": 20}
    assert list(end) == ["a", "b"]
    assert wanted({"b": 0}, end, its) == {tmp_path / "b": range(20)}
    assert latest(end, None, its) == {"a": 100, "b": 20}


def test_a_query_ends_exactly_at_the_records_that_were_available(tmp_path: Path) -> None:
    fill(tmp_path, "a", 20)
    its = options(tmp_path)
    target = ends(its)
    fill(tmp_path, "a", 20)
    fill(tmp_path, "b", 20)

    assert latest({"a": 0}, target, its) == {"a": 20}
    assert latest({"a": 20}, target, its) == {"a": 20}
    assert latest({"a": 30}, target, its) == {"a": 30}  # Read before the restart.
    entered = latest({}, target, its)
    assert entered == {"a": 0}
    assert latest(entered, target, its) == {"a": 20}


def test_a_missing_or_replaced_spool_is_a_loss(tmp_path: Path) -> None:
    fill(tmp_path, "a", 20)
    fill(tmp_path, "b", 20)
    its, careless = options(tmp_path), options(tmp_path, fail_on_data_loss=False)
    shutil.rmtree(tmp_path / "a")

    with pytest.raises(DataLost, match="the spool of 'a' is gone; start with a new checkpoint"):
        latest({"a": 7, "b": 0}, None, its)
    with pytest.raises(DataLost, match="the spool of 'a' is gone"):
        wanted({"a": 7, "b": 0}, {"a": 9, "b": 0}, its)
    assert latest({"a": 7, "b": 0}, None, careless) == {"a": 7, "b": 20}
    assert wanted({"a": 7, "b": 0}, {"a": 9, "b": 1}, careless) == {tmp_path / "b": range(1)}
    with pytest.raises(DataLost, match="it ends before 20, and the query has read up to 21"):
        latest({"b": 21}, None, its)
    assert latest({"b": 21}, None, careless) == {"b": 21}


def test_a_group_that_is_no_longer_selected_keeps_its_offset(tmp_path: Path) -> None:
    fill(tmp_path, "a", 20)
    fill(tmp_path, "b", 20)

    assert latest({"a": 7, "b": 0}, None, options(tmp_path, groups=("b",))) == {"a": 7, "b": 20}


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
    assert bounded_by_bytes(spools, {"a": 0}, {"a": 200}, 1) == {"a": 1}
    assert bounded_by_bytes(spools, {"a": 200}, {"a": 200}, 1) == {"a": 200}
    assert bounded_by_bytes(spools, {}, {"a": 0}, 1) == {"a": 0}
