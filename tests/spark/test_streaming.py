"""Spools as streams of Spark and as sinks: no record is lost, and none is stored twice."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.spark.piping import SOURCE, TARGET, pipe
from tests.spark.stream_tables import copied, expected
from tests.unit.spark.spooling import fill

from hopring.spark.errors import SparkError, readable
from hopring.spool.archive import archive
from hopring.spool.reading import bounds
from hopring.spool.reading import read as read_records
from hopring.spool.retention import consumers

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def progress(query: Any) -> list[int]:
    return [its["numInputRows"] for its in query.recentProgress if its["numInputRows"]]


def test_a_stream_is_copied_once_even_if_its_last_batch_is_repeated(hopring: Any, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    list(archive(fill(tmp_path, SOURCE, 250)))

    def run(app: str = "pipe") -> list[int]:
        query = pipe(hopring, str(tmp_path), str(checkpoint), 100, app)
        query.awaitTermination()
        return progress(query)

    assert run() == [100, 100, 50]
    assert copied(tmp_path) == expected(250)
    fill(tmp_path, SOURCE, 30)
    assert run() == [30]

    # Killed between the append and Spark's commit: Spark makes the batch again.
    last = max(
        [path for path in (checkpoint / "commits").iterdir() if path.name.isdecimal()],
        key=lambda p: int(p.name),
    )
    last.unlink()
    (last.parent / f".{last.name}.crc").unlink(missing_ok=True)
    assert run() == [30]
    assert copied(tmp_path) == expected(280)

    # Another checkpoint under the same name would have its batches dropped, so it is refused.
    other = pipe(hopring, str(tmp_path), str(tmp_path / "other"), 100)
    behind = "batch 0 of 'pipe' comes after batch 3; a query with another checkpoint"
    with pytest.raises(SparkError, match=behind), readable("copying"):
        other.awaitTermination()
    assert copied(tmp_path) == expected(280)


def numbers(root: Path) -> list[int]:
    return [int(payload) for _, payload in copied(root)]


def test_a_spool_that_was_made_anew_is_never_taken_for_the_old_one(users: Any, tmp_path: Path) -> None:
    fill(tmp_path, SOURCE, 100)

    def run(**options: str) -> None:
        with readable("copying"):
            pipe(users, str(tmp_path), str(tmp_path / "checkpoint"), 1000, **options).awaitTermination()

    run()
    shutil.rmtree(tmp_path / SOURCE)
    fill(tmp_path, SOURCE, 150, shift=1000)
    another = r"copying: .*another spool is there .*; start with a new checkpoint, or continue without these"
    with pytest.raises(SparkError, match=another):
        run()
    assert numbers(tmp_path) == [*range(100)]

    run(failOnDataLoss="false")

    assert numbers(tmp_path) == [*range(100), *range(1000, 1150)]


def test_a_new_checkpoint_under_the_name_of_another_query_is_an_error(users: Any, tmp_path: Path) -> None:
    fill(tmp_path, SOURCE, 30)

    def run(checkpoint: str, app: str) -> None:
        with readable("copying"):
            pipe(users, str(tmp_path), str(tmp_path / checkpoint), 1000, app).awaitTermination()

    run("one", "copy")
    belongs = (
        "copying: txnAppId 'copy' belongs to a query with another checkpoint .*; give this query a txnAppId"
    )
    for _ in range(2):
        with pytest.raises(SparkError, match=belongs):
            run("two", "copy")
    assert numbers(tmp_path) == [*range(30)]
    run("three", "again")
    assert numbers(tmp_path) == [*range(30)] * 2


def test_a_batch_waits_for_enough_records_and_retention_waits_for_the_query(users: Any, tmp_path: Path) -> None:
    directory = fill(tmp_path, SOURCE, 10)
    options = {"groups": SOURCE, "minOffsetsPerTrigger": "15", "maxTriggerDelay": "1h", "consumer": "report"}
    read = users.readStream.format("hopring").options(**options).load(str(tmp_path))
    query = read.writeStream.format("noop").trigger(processingTime="100 milliseconds").start()
    try:
        seen = []
        for more in (0, 10, 10):
            fill(tmp_path, SOURCE, more)
            query.processAllAvailable()  # Returns after a trigger that found nothing to do.
            seen.append((progress(query), consumers(directory)))
    finally:
        query.stop()

    assert seen == [([10], {"report": 10}), ([10], {"report": 10}), ([10, 20], {"report": 30})]


def test_rows_of_a_stream_go_to_the_groups_that_they_name(users: Any, tmp_path: Path) -> None:
    fill(tmp_path, SOURCE, 30)
    read = users.readStream.format("hopring").option("groups", SOURCE).load(str(tmp_path))
    named = read.selectExpr("payload", "if(offset < 20, concat('g', offset % 2), null) as group")
    query = (
        named.writeStream.format("hopring")
        .options(group="rest", txnAppId="split", checkpointLocation=str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path))
    )
    query.awaitTermination()

    def found(group: str) -> list[int]:
        directory = tmp_path / group
        return [int(record.data) for record in read_records(directory, 0, bounds(directory).end)]

    assert found("g0") == [*range(0, 20, 2)]
    assert found("g1") == [*range(1, 20, 2)]
    assert found("rest") == [*range(20, 30)]


def test_a_table_is_written_to_a_spool_once_by_its_version(hopring: Any, tmp_path: Path) -> None:
    rows = hopring.range(0, 3000, 1, 3).selectExpr("repeat(cast(id as string), 100) as payload", "1 as type")

    def write(version: int) -> None:
        its = {"group": TARGET, "txnAppId": "job", "txnVersion": version}
        rows.write.format("hopring").options(**its).mode("append").save(str(tmp_path))

    write(0)
    write(0)
    assert copied(tmp_path) == [(1, str(at).encode() * 100) for at in range(3000)]
    write(1)
    assert len(copied(tmp_path)) == 6000
    assert not [*(tmp_path / TARGET / "staging").rglob("*.arrow")]
