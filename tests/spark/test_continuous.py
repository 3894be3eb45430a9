"""Continuous pipelines: their tables are those of a run over the same input, however often they were killed."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.spark.growing import START_US, Growing, lines_of, placed
from tests.spark.literals import record, records
from tests.spark.server_process import Server
from tests.support.waiting import until
from tests.unit.check.evs_notation import history

pytest.importorskip("pyspark", reason="needs Spark: make spark")
pytest.importorskip("grpc", reason="needs Spark Connect: make spark")

from pyarrow import parquet
from tests.manual.compare_runs import compare

from hopring.spark.pipeline import Store
from hopring.spark.pipeline import run as run_pipeline
from hopring.spark.pipeline.ingest import last_committed
from hopring.spark.pipeline.ledger import StreamLedger
from hopring.spark.pipeline.passes import Passes
from hopring.spark.session import suited_to
from hopring.spool.writer import SpoolOptions, SpoolWriter

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SECONDS_MAX = 120.0
SERVED_SECONDS_MAX = 280.0
REPOSITORY = Path(__file__).parents[2]


def run(spark: Any, options: Any) -> Any:
    store = Store(options.out)
    store.open()
    return run_pipeline(spark, options, store)


def ledger_of(growing: Growing) -> StreamLedger:
    file = growing.out / "checkpoints" / "_tables" / "ledger.json"
    return msgspec.json.decode(file.read_bytes(), type=StreamLedger) if file.exists() else StreamLedger()


def to_be_repeated(growing: Growing) -> set[tuple[str, int]]:
    """Spools and batches that were taken in and that Spark will repeat, because it has not committed them."""
    taken = ledger_of(growing).batches.items()
    return {(spool, batch) for spool, batch in taken if batch > last_committed(Store(growing.out), spool)}


def process(growing: Growing, refresh_seconds: float, *server: str) -> subprocess.Popen[str]:
    """The stream as a process, here or at a server, which has opened its directory."""
    code = f"{REPOSITORY / 'src'}:{REPOSITORY}"
    places = {"PYTHONPATH": code, "SPARK_LOCAL_DIRS": str(growing.directory / "java")}
    words = [str(growing.directory), str(refresh_seconds), *server]
    started = subprocess.Popen(
        [sys.executable, "-P", "-m", "tests.spark.growing", *words],
        env={**os.environ, **places},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert started.stdout is not None
    assert started.stdout.readline() == "begins\n"
    return started


def killed(growing: Growing, after: str, seconds: float, refresh_seconds: float, *server: str) -> bool:
    """Starts the stream as a process and kills it; returns whether it was at work.

    The seconds count from its start, from its next pass, or from its next pass of records.
    """
    before = ledger_of(growing)
    started = process(growing, refresh_seconds, *server)
    if after != "start":
        changed = attrgetter(after)
        until(lambda: changed(ledger_of(growing)) != changed(before), seconds=SECONDS_MAX, look_seconds=0.001)
    time.sleep(seconds)
    at_work = started.poll() is None
    os.killpg(started.pid, signal.SIGKILL)
    started.communicate()
    return at_work


def check(spark: Any, root: Path, kills: int, seconds_max: float, refresh_seconds: float, seed: int) -> None:
    """Kills a stream whose input grows, lets the last one end, and compares its tables with those of a run."""
    growing, dice = Growing(root), random.Random(seed)
    at_work = moved = 0
    repeated: set[tuple[str, int]] = set()  # A batch may be left so by several kills, and counts once.
    for step in range(kills):
        growing.grow(step, kills + 1)
        before = ledger_of(growing).passes
        # Right after records were taken in, Spark has not yet committed their batch.
        after, most = (("batches", 0.0), ("passes", 2.0), ("start", seconds_max))[step % 3]
        at_work += killed(growing, after, dice.uniform(0.0, most), refresh_seconds)
        moved += ledger_of(growing).passes > before
        repeated |= to_be_repeated(growing)
    growing.grow(kills, kills + 1)
    run(spark, growing.options())
    whole = growing.options(out=root / "whole", stream=False, until_idle=False)
    run(spark, whole)

    print(
        f"{at_work} of {kills} streams killed at work, {moved} after a pass; batches repeated: {len(repeated)}"
    )
    assert at_work == kills
    assert repeated
    assert compare(growing.out, whole.out) == []


def test_a_stream_that_was_killed_makes_the_tables_of_a_run(users: Any, tmp_path: Path) -> None:
    check(users, tmp_path, kills=1, seconds_max=6.0, refresh_seconds=60.0, seed=1)


@pytest.mark.long
def test_a_stream_at_a_server_whose_client_was_killed_makes_the_tables_of_a_run(
    users: Any, tmp_path: Path
) -> None:
    """Its queries go on at the server until the next client takes over."""
    growing, server = Growing(tmp_path), Server()
    try:
        growing.grow(0, 2)
        assert killed(growing, "batches", 0.0, 60.0, server.url)
        growing.grow(1, 2)
        last = process(growing, 60.0, server.url)
        said, _ = last.communicate(timeout=SERVED_SECONDS_MAX)
    finally:
        server.end(signal.SIGKILL)
    assert (last.returncode, said) == (0, "through\n")
    whole = growing.options(out=tmp_path / "whole", stream=False, until_idle=False)
    run(users, whole)

    assert compare(growing.out, whole.out) == []
    assert not (growing.out / "stream.json").read_text().count('"running":true')


def test_late_records_are_in_the_tables_and_listed_with_a_reason(users: Any, tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.open()
    passes = Passes(users, store, {}, late_us=600_000_000)
    passes.open()

    def take(batch: int, *found: Any) -> bool:
        place = store.place("bronze", "records") / "spool=eu" / f"batch={batch}"
        table = records(users, found).drop("spool")
        table.write.mode("overwrite").partitionBy("group").parquet(str(place))
        return passes.take_records("eu", batch)

    again = record("eu", 2, place=(10, 0), seconds=30), record("eu", 3, place=(12, 0), seconds=3500)
    with suited_to(users, 0, 2):
        assert take(0, record("eu", 0, place=(10, 0), seconds=0), record("eu", 1, place=(11, 0), seconds=3600))
        assert take(1, *again)
        assert not take(1, *again)  # Spark repeats a batch after a crash.

    messages = parquet.read_table(store.place("silver", "messages")).to_pylist()
    assert sorted((one["lts"], one["copies"]) for one in messages) == [(10, 2), (11, 1), (12, 1)]
    late = parquet.read_table(store.place("gold", "late")).to_pylist()
    assert [(one["name"], one["group"], one["rows"], one["late_seconds"]) for one in late] == [
        ("eu", "g", 1, 3600 - 600 - 30)
    ]
    assert late[0]["reason"].startswith("out of order")


@pytest.mark.long
def test_a_spool_that_lags_in_a_stream_lacks_nothing_and_a_lost_record_is_an_alert(
    users: Any, tmp_path: Path
) -> None:
    """Both spools are in one view; the second one is behind, and then it lacks a message in the middle."""
    growing = Growing(tmp_path)

    def write(site: str, numbers: Iterable[int]) -> None:
        with SpoolWriter(growing.spool(site), "g", SpoolOptions(1000.0)) as writer:
            for number in numbers:
                writer.append([placed(number, START_US + number)])

    def unexplained() -> list[tuple[str, int]]:
        run(users, growing.options(trace=None, report=False))
        counted = (growing.out / "metrics.prom").read_text()
        gaps = parquet.read_table(growing.out / "silver" / "gaps").to_pylist()
        found = [(one["spool"], one["messages"]) for one in gaps if not one["explained"]]
        assert f"hopring_pipeline_gaps_unexplained {len(found)}\n" in counted
        return found

    write("eu", range(30))
    write("us", range(12))
    assert unexplained() == []
    write("us", [number for number in range(12, 25) if number != 20])
    assert unexplained() == [("us", 10)]


def test_a_violation_is_in_tables_and_report_while_the_stream_runs(
    users: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message is delivered to one of two that move together; their view is closed when both have moved."""
    for name in ("TRACE_SECONDS", "REFRESH_PAUSE"):
        monkeypatch.setattr(f"hopring.spark.pipeline.continuous.{name}", 0.1)
    options = Growing(tmp_path).options(spools=(), until_idle=False, refresh_seconds=0.1)
    options.trace.mkdir()
    lines = {
        "a": lines_of(history("a: view 1 ab | send 1 safe | deliver a:1 | view 2 ab")),
        "b": lines_of(history("b: view 1 ab | view 2 ab")),
    }
    seen: list[str] = []

    def write(counts: dict[str, int]) -> None:
        for daemon, count in counts.items():
            (options.trace / f"{daemon}.jsonl").write_bytes(b"".join(lines[daemon][:count]))

    def page() -> str:
        return (options.out / "report.html").read_text() if (options.out / "report.html").exists() else ""

    def watch() -> None:
        """Waits for the page of an open view, closes the view, waits for the next page, and ends the stream."""
        try:
            until(lambda: "No view is closed yet" in page(), seconds=SECONDS_MAX)
            seen.append(page())
            write({"a": len(lines["a"]), "b": len(lines["b"])})
            until(lambda: "properties are broken" in page(), seconds=SECONDS_MAX)
            seen.append(page())
            seen.extend(
                one["property"] for one in parquet.read_table(options.out / "gold/violations").to_pylist()
            )
        finally:
            os.kill(os.getpid(), signal.SIGINT)

    write({"a": len(lines["a"]), "b": 2})
    watching = threading.Thread(target=watch)
    watching.start()
    try:
        report = run(users, options)
    except KeyboardInterrupt:
        pytest.fail("the stream was interrupted before it took the signal for its end")
    watching.join()

    assert 'http-equiv="refresh"' in seen[0]
    assert "1 are closed and audited" in seen[1]
    assert "2.7 virtual synchrony" in seen[2:]
    assert not report.holds
    assert 'http-equiv="refresh"' not in page()


@pytest.mark.long
def test_twenty_kills_lose_nothing_and_count_nothing_twice(users: Any, tmp_path: Path) -> None:
    seed = int(os.environ.get("HOPRING_SEED", "4711"))
    check(users, tmp_path, kills=20, seconds_max=15.0, refresh_seconds=2.0, seed=seed)
