"""Queries of a stream at a server: their batches are taken in once, and upkeep runs between two of them."""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from tests.unit.spark.spooling import fill

pytest.importorskip("pyspark", reason="needs Spark: make spark")

from pyspark.errors import PySparkException

from hopring.spark.pipeline import PipelineOptions, Store, named_spools
from hopring.spark.pipeline.queries import STARTS_MAX, ServedQueries, fenced
from hopring.spark.pipeline.upkeep import SpoolUpkeep


class Query:
    """A query that runs until it is stopped, or has failed."""

    def __init__(self, seen: list[str]) -> None:
        self.isActive = True
        self.error: Exception | None = None
        self._seen = seen
        seen.append("start")

    def stop(self) -> None:
        self.isActive = False
        self._seen.append("stop")

    def exception(self) -> Exception | None:
        return self.error

    def awaitTermination(self) -> None:
        if self.error is not None:
            raise self.error


def streamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: list[str], due: set[int]
) -> tuple[ServedQueries, list[Query], Callable[[int], None]]:
    """Queries of one spool, those that were started, and what commits a batch."""
    started: list[Query] = []

    def start(_self: Any, _spool: Any) -> Query:
        started.append(Query(seen))
        return started[-1]

    def commit(batch: int) -> None:
        commits = tmp_path / "out" / "checkpoints" / "eu" / "commits"
        commits.mkdir(parents=True, exist_ok=True)
        (commits / str(batch)).touch()

    monkeypatch.setattr(ServedQueries, "_started", start)
    monkeypatch.setattr(SpoolUpkeep, "is_due", lambda _self, batch: batch in due)
    monkeypatch.setattr(
        SpoolUpkeep, "keep_up", lambda _self, _spark, batch, _now: seen.append(f"upkeep {batch}")
    )
    fill(tmp_path / "eu", "g", 3)
    store = Store(tmp_path / "out")
    store.open()
    options = PipelineOptions(store.out, named_spools([str(tmp_path / "eu")]), stream=True)
    nothing: Any = None

    def take(spool: str, batch: int) -> None:
        seen.append(f"{spool} {batch}")

    return ServedQueries(nothing, options, store, "me", nullcontext(), take), started, commit


def test_batches_are_taken_once_and_no_query_runs_during_upkeep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    queries, started, commit = streamed(tmp_path, monkeypatch, seen, due={3})

    queries.look()
    commit(0)
    queries.look()
    queries.look()
    commit(1)
    commit(2)
    assert not queries.are_idle()
    queries.look()
    started[-1].isActive = False
    assert queries.are_idle()
    started[-1].error = RuntimeError("it failed")
    with pytest.raises(RuntimeError, match="it failed"):
        queries.look()

    assert seen == ["start", "eu 0", "eu 2", "stop", "upkeep 3", "start"]


def test_a_query_whose_process_did_not_start_in_time_is_started_again_a_few_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    queries, started, commit = streamed(tmp_path, monkeypatch, seen, due=set())

    def fail(times: int) -> None:
        for _ in range(times):
            started[-1].isActive = False
            started[-1].error = PySparkException("Python worker failed to connect back.")
            assert not queries.are_idle()
            queries.look()

    fail(STARTS_MAX - 1)
    commit(0)
    queries.look()
    fail(STARTS_MAX - 1)
    with pytest.raises(PySparkException, match="connect back"):
        fail(1)

    assert seen == ["start"] * STARTS_MAX + ["eu 0"] + ["start"] * (STARTS_MAX - 1)


def test_a_query_that_another_stream_has_followed_writes_nothing(tmp_path: Path) -> None:
    own = tmp_path / "_owner"
    own.write_text("another")
    nothing: Any = None

    with pytest.raises(RuntimeError, match="another stream writes into this directory now"):
        fenced(str(tmp_path), str(own), "me")(nothing, 1)
