"""Spools as streams of Spark and as sinks: no record is lost, and none is stored twice."""

from pathlib import Path
from typing import Any

import pytest
from tests.spark.piping import SOURCE, TARGET, pipe
from tests.spark.stream_tables import copied, expected
from tests.unit.spark.spooling import fill

from hopring.spark.errors import SparkError, readable
from hopring.spool.archive import archive

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
