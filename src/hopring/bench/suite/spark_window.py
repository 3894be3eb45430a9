"""A windowed aggregation over a spool that grows, on Spark: the time of each batch.

    python -m hopring.bench.suite.spark_window [--records N] [--batches N]

It is the query of `docs/spark.md`: messages and bytes by second and sender, with a watermark, to another spool.
Each batch has N new records of ten senders in three seconds. The session is the one that users get, on two
cores.
"""

import argparse
import json
import shutil
import tempfile
from pathlib import Path
from statistics import median
from typing import Any, Final

from hopring.services import Service
from hopring.spark import register, session
from hopring.spool.record import RecordHeader, RecordKind, RecordRun, run_of
from hopring.spool.writer import SpoolOptions, SpoolWriter

BODY: Final = b"x" * 100
BUNDLE: Final = 10
SENDERS: Final = 10
SPAN_US: Final = 3_000_000
START_US: Final = 1_700_000_000_000_000


def runs(batch: int, records: int) -> list[RecordRun]:
    """The records of one batch, in bundles."""
    found = []
    for first in range(0, records, BUNDLE):
        at_us = START_US + batch * SPAN_US + first * SPAN_US // records
        sender = f"#s{first // BUNDLE % SENDERS}#eu1"
        header = RecordHeader(RecordKind.MESSAGE, at_us, sender, ("load",), Service.AGREED)
        found.append(run_of(header, [BODY] * min(BUNDLE, records - first)))
    return found


def started(spark: Any, root: Path) -> Any:
    """Starts the query of the page, from one spool to another."""
    trades = spark.readStream.format("hopring").option("groups", "load").load(str(root))
    sums = trades.where("kind = 'message'").withWatermark("timestamp", "10 seconds")
    sums = sums.selectExpr("window(timestamp, '1 second') AS second", "sender", "size")
    sums = sums.groupBy("second", "sender").agg({"*": "count", "size": "sum"})
    rows = sums.selectExpr("to_json(struct(*)) AS payload")
    writer = rows.writeStream.format("hopring").option("group", "sums").option("txnAppId", "bench")
    return writer.option("checkpointLocation", str(root / "checkpoint")).start(str(root))


def measure(root: Path, records: int, batches: int) -> dict[str, object]:
    """Runs the query, one batch after the other, and returns the seconds that Spark reports for each."""
    spark = session("bench", "local[2]")
    register(spark)
    taken: list[float] = []
    with SpoolWriter(root, "load", SpoolOptions(sync_seconds=0.0)) as writer:
        writer.append(runs(0, records))
        query = started(spark, root)
        try:
            for batch in range(1, batches + 1):
                query.processAllAvailable()
                found = [one for one in query.recentProgress if one["numInputRows"]]
                assert [one["numInputRows"] for one in found] == [records] * batch, "one batch for each append"
                taken.append(found[-1]["durationMs"]["triggerExecution"] / 1000)
                writer.append(runs(batch, records))
        finally:
            query.stop()
            spark.stop()
    later = taken[1:]
    return {
        "records": records,
        "first_s": taken[0],
        "median_s": round(median(later), 3),
        "max_s": max(later),
        "batches": batches,
    }


def main() -> None:
    """Prints the time of the first batch, and the median and the largest of the others."""
    parser = argparse.ArgumentParser(
        prog="python -m hopring.bench.suite.spark_window", description="Measure a windowed stream."
    )
    parser.add_argument("--records", type=int, default=3_000, help="records of a batch")
    parser.add_argument("--batches", type=int, default=10)
    wish = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="hopring-bench-window-"))
    try:
        print(json.dumps(measure(root, wish.records, max(2, wish.batches))))
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
