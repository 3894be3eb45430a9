"""The data source on Spark beside Parquet as Spark reads it itself: the same records, turn by turn in one run.

    python -m hopring.bench.suite.spark_source [--records N] [--directory DIR] [--turns N]

Records are messages of 1 KB, in bundles of 200, that do not compress. `tail` is a spool as it is written,
`archive` the same in its archive (zstd), `parquet` the same columns as uncompressed Parquet, a file for each
segment. All columns are read and dropped; files are in the page cache. A stream reads 100000 records in a
batch; its time includes the start and the end of the query.

`ingest` is the pipeline's first stage over a spool whose segments are archived, all but the last, beside the
same records as Parquet with the compression of the archive: read and dropped, and copied to a table.
"""

import argparse
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, Final

from hopring.bench.suite.spool import BATCH, BODY_BYTES, batch_of
from hopring.spark import register, session
from hopring.spool.archive import COMPRESSION, archive
from hopring.spool.arrow import load_arrow, read_batches, schema
from hopring.spool.files import bases
from hopring.spool.reading import bounds, plan
from hopring.spool.writer import SpoolOptions, SpoolWriter

PER_BATCH: Final = 100_000


def make_spool(root: Path, records: int) -> Path:
    """Writes a spool of this many records."""
    with SpoolWriter(root, "load", SpoolOptions(sync_seconds=1000.0)) as writer:
        for number in range(records // BATCH):
            whole = os.urandom(BATCH * BODY_BYTES)
            bodies = [whole[at : at + BODY_BYTES] for at in range(0, len(whole), BODY_BYTES)]
            writer.append(batch_of(number, bodies))
    return writer.directory


def make_parquet(directory: Path, target: Path, compression: str = "none") -> None:
    """Writes the same as Parquet, a file for each segment."""
    import pyarrow.parquet  # noqa: PLC0415  An extra.

    target.mkdir()
    arrow = load_arrow(str(directory))
    known = bounds(directory)
    for base in bases(directory):
        portions = [one for one in plan(directory, known.start, known.end) if one.base == base]
        path = target / f"{base}.parquet"
        with pyarrow.parquet.ParquetWriter(path, schema(arrow), compression=compression) as file:
            for portion in portions:
                for batch in read_batches(portion, batch_bytes=16 * 1024 * 1024):
                    file.write_batch(batch)


def seconds_of(act: Callable[[], None]) -> float:
    """The duration of a call."""
    begin = time.perf_counter()
    act()
    return time.perf_counter() - begin


def batch_reads(spark: Any, root: Path, records: int, turns: int) -> dict[str, object]:
    """Rates of each way of reading, in turn; the first round does not count."""

    def drain(found: Any) -> None:
        found.write.format("noop").mode("overwrite").save()

    def load(place: str, **options: str) -> Callable[[], None]:
        reader = spark.read.format("hopring").options(**options)
        return lambda: drain(reader.load(str(root / place)))

    native = str(root / "parquet")
    ways: dict[str, Callable[[], None]] = {
        "parquet": lambda: drain(spark.read.parquet(native)),
        "tail": load("tail"),
        "archive": load("archived"),
        "tail_no_payload": load("tail", payload="false"),
        "parquet_no_payload": lambda: drain(spark.read.parquet(native).drop("payload")),
    }
    taken = in_turn(ways, turns)
    return {
        **rates_of(records, taken),
        "tail_to_parquet": ratio(taken, "tail", "parquet"),
        "archive_to_parquet": ratio(taken, "archive", "parquet"),
    }


Taken = dict[str, list[float]]
"""Seconds of each turn, by the name of what was done."""


def in_turn(ways: dict[str, Callable[[], None]], turns: int) -> Taken:
    """Does all of them in each turn; the first turn does not count."""
    taken: Taken = {name: [] for name in ways}
    for turn in range(turns + 1):
        for name, way in ways.items():
            seconds = seconds_of(way)
            if turn:
                taken[name].append(seconds)
    return taken


def rates_of(records: int, taken: Taken) -> dict[str, object]:
    """Rows a second: the median of all turns, and the least."""
    return {
        **{f"{name}_rows_per_s": round(records / median(its)) for name, its in taken.items()},
        **{f"{name}_least": round(records / max(its)) for name, its in taken.items()},
    }


def ratio(taken: Taken, one: str, other: str) -> float:
    """How fast one is, as a part of the other."""
    return round(median(taken[other]) / median(taken[one]), 2)


def ingests(spark: Any, root: Path, records: int, turns: int) -> dict[str, object]:
    """Rates of the pipeline's first stage over archived segments, and of Parquet of the same compression."""
    from hopring.spark.pipeline import Store, named_spools  # noqa: PLC0415  Slow to load.
    from hopring.spark.pipeline.ingest import read_records, write_records  # noqa: PLC0415

    spools = named_spools([f"bench={root / 'archived'}"])
    store = Store(root / "out")
    store.open()
    native, copied = str(root / "compressed"), str(root / "copied")

    def drain(found: Any) -> None:
        found.write.format("noop").mode("overwrite").save()

    taken = in_turn(
        {
            "read": lambda: drain(read_records(spark, spools)),
            "parquet": lambda: drain(spark.read.parquet(native)),
            "ingest": lambda: write_records(read_records(spark, spools), store),
            "copy": lambda: (
                spark.read.parquet(native).write.partitionBy("group").mode("overwrite").parquet(copied)
            ),
        },
        turns,
    )
    return {
        **rates_of(records, taken),
        "read_to_parquet": ratio(taken, "read", "parquet"),
        "ingest_to_copy": ratio(taken, "ingest", "copy"),
    }


def stream_reads(spark: Any, root: Path, records: int, turns: int) -> dict[str, object]:
    """Rates of reading all of the tail as a stream, without a sink."""

    def run(turn: int) -> None:
        reader = spark.readStream.format("hopring").option("maxOffsetsPerTrigger", PER_BATCH)
        writer = reader.load(str(root / "tail")).writeStream.format("noop")
        writer = writer.option("checkpointLocation", str(root / f"checkpoint-{turn}"))
        writer.trigger(availableNow=True).start().awaitTermination()

    taken = [seconds_of(lambda turn=turn: run(turn)) for turn in range(turns + 1)][1:]  # type: ignore[misc]
    return {
        "rows_per_s": round(records / median(taken)),
        "least": round(records / max(taken)),
        "batches": -(-records // PER_BATCH),
    }


def main() -> None:
    """Prints the figures of all three."""
    parser = argparse.ArgumentParser(
        prog="python -m hopring.bench.suite.spark_source", description="Measure the data source."
    )
    parser.add_argument("--records", type=int, default=500_000)
    parser.add_argument("--directory", type=Path, default=None, help="directory on the disk to be measured")
    parser.add_argument("--turns", type=int, default=5)
    wish = parser.parse_args()
    records = wish.records // BATCH * BATCH
    root = Path(tempfile.mkdtemp(prefix="hopring-bench-spark-", dir=wish.directory))
    try:
        directory = make_spool(root / "tail", records)
        make_parquet(directory, root / "parquet")
        shutil.copytree(root / "tail", root / "archived")
        list(archive(root / "archived" / directory.name))
        make_parquet(directory, root / "compressed", COMPRESSION)
        spark = session("bench", "local[2]")
        register(spark)
        print(json.dumps({"case": "batch", **batch_reads(spark, root, records, wish.turns)}), flush=True)
        found = stream_reads(spark, root, records, wish.turns)
        print(json.dumps({"case": f"stream, {PER_BATCH} a batch", **found}), flush=True)
        print(json.dumps({"case": "ingest, archived", **ingests(spark, root, records, wish.turns)}), flush=True)
        spark.stop()
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
