"""The classes that Spark calls, called in the same way; needs PySpark, but no session."""

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.spark.spooling import fill

from hopring.spark.errors import SparkError
from hopring.spark.sink.options import WriteOptions
from hopring.spark.source.inventory import id_of
from hopring.spark.source.options import ReadOptions, WrongOption
from hopring.spool.reading import bounds
from hopring.spool.writer import SpoolWriter

pytest.importorskip("pyspark", reason="needs Spark: make spark")
pa = pytest.importorskip("pyarrow", reason="needs pyarrow: make arrow")

from pyspark.sql.datasource import EqualTo, GreaterThan, InputPartition  # noqa: E402
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows, ReadMinRows  # noqa: E402
from pyspark.sql.types import BinaryType, LongType, StructField, StructType  # noqa: E402

from hopring.spark.datasource import (  # noqa: E402  # noqa: E402
    SinkStreamWriter,
    SinkWriter,
    SpoolDataSource,
    SpoolPushReader,
    SpoolReader,
    SpoolStreamReader,
)

PAYLOADS = StructType([StructField("payload", BinaryType())])


def stream(root: Path, **options: Any) -> SpoolStreamReader:
    return SpoolStreamReader(ReadOptions(path=str(root), **options))


def offsets(reader: Any, partitions: Any) -> list[int]:
    """Offsets that executors read, each with a copy."""
    there = pickle.loads(pickle.dumps(reader))
    found = [pickle.loads(pickle.dumps(one)) for one in partitions]
    return [
        offset for one in found for batch in there.read(one) for offset in batch.column("offset").to_pylist()
    ]


def run(reader: SpoolStreamReader) -> list[list[int]]:
    """The batches of a query that reads everything available now, as Spark requests them."""
    reader.prepareForTriggerAvailableNow()
    start, batches = reader.initialOffset(), []
    while (end := reader.latestOffset(start, reader.getDefaultReadLimit())) != start:
        planned = reader.partitions(start, end)
        again = type(reader)(reader.options).partitions(start, end)
        assert [one.value for one in planned] == [one.value for one in again]
        batches.append(offsets(reader, planned))
        reader.commit(end)
        start = end
    assert reader.reportLatestOffset() == start
    return batches


def test_batches_are_within_the_limits_and_hold_everything_once(tmp_path: Path) -> None:
    fill(tmp_path, "g", 230)

    assert run(stream(tmp_path)) == [[*range(230)]]
    assert run(stream(tmp_path, offsets_max=100)) == [[*range(100)], [*range(100, 200)], [*range(200, 230)]]
    small = run(stream(tmp_path, bytes_max=2000))
    assert [offset for batch in small for offset in batch] == [*range(230)]
    assert 3 < len(small) < 30
    both = run(stream(tmp_path, bytes_max=2000, offsets_max=7))
    assert max(map(len, both)) == 7


def test_the_limit_is_that_of_the_options(tmp_path: Path) -> None:
    assert stream(tmp_path).getDefaultReadLimit() == ReadAllAvailable()
    assert stream(tmp_path, offsets_max=5).getDefaultReadLimit() == ReadMaxRows(5)
    assert stream(tmp_path, bytes_max=5).getDefaultReadLimit() == ReadMaxBytes(5)
    fill(tmp_path, "g", 30)
    assert stream(tmp_path, offsets_min=5).getDefaultReadLimit() == ReadMinRows(5)
    all_of_it = stream(tmp_path, offsets_max=5).latestOffset({"g": 0}, ReadAllAvailable())
    assert all_of_it == {"g": {"offset": 30, "spool": id_of(tmp_path / "g")}}


NOTHING: dict[str, dict[str, str]] = {
    "latest": {"startingOffsets": "latest"},
    "future": {"startingTimestamp": "2999-01-01T00:00:00Z"},
    "unmatched": {"groups": "zzz*"},
    "group": {},
    "beyond": {},
    "empty spool": {},
    "empty root": {},
}
"""Queries that have nothing to read, with their options; two of them have a filter."""


@pytest.mark.parametrize("push", ["true", "false"])
@pytest.mark.parametrize("case", NOTHING)
def test_nothing_to_read_gives_no_rows(tmp_path: Path, case: str, push: str) -> None:
    if case == "empty spool":
        SpoolWriter(tmp_path, "g").close()
    elif case != "empty root":
        fill(tmp_path, "g", 30)
    said = {"path": str(tmp_path), "pushFilters": push, **NOTHING[case]}
    source = SpoolDataSource(said)
    own = StructType([StructField(name, LongType()) for name in source_names(source)])
    reader = source.reader(own)
    if push == "true":
        filters = {"group": [EqualTo(("group",), "nobody")], "beyond": [GreaterThan(("offset",), 1_000_000)]}
        assert list(reader.pushFilters(filters.get(case, []))) == []

    planned = reader.partitions()

    assert (len(planned) == 0) == (push == "true" or case not in ("group", "beyond"))
    if not planned:
        assert offsets(reader, [InputPartition(None)]) == []  # As Spark plans it.
        assert isinstance(reader.read(InputPartition(None)), Iterator)
    streamed = SpoolDataSource(said).streamReader(own)
    assert isinstance(streamed, SpoolStreamReader)
    assert run(streamed) == ([[*range(30)]] if case in ("group", "beyond") else [])


def test_the_source_makes_the_readers_that_the_options_ask_for(tmp_path: Path) -> None:
    source = SpoolDataSource({"path": str(tmp_path)})
    own = StructType([StructField(name, LongType()) for name in source_names(source)])

    assert SpoolDataSource.name() == "hopring"
    assert type(source.reader(own)) is SpoolPushReader
    assert type(SpoolDataSource({"path": "/s", "pushFilters": "false"}).reader(own)) is SpoolReader
    assert "payload" not in SpoolDataSource({"path": "/s", "payload": "false"}).schema()
    with pytest.raises(WrongOption, match="maxOffsetsPerTrigger: it has no meaning without a stream"):
        SpoolDataSource({"path": "/s", "maxOffsetsPerTrigger": "3"}).reader(own)
    with pytest.raises(WrongOption, match="endingOffsets: it has no meaning in a stream"):
        SpoolDataSource({"path": "/s", "endingOffsets": "latest"}).streamReader(own)
    with pytest.raises(SparkError, match="a sink cannot overwrite"):
        source.writer(PAYLOADS, overwrite=True)
    with pytest.raises(WrongOption, match="txnAppId: it is missing"):
        SpoolDataSource({"path": "/s", "group": "g"}).streamWriter(PAYLOADS, overwrite=False)


def source_names(source: SpoolDataSource) -> list[str]:
    return [part.split("`")[1] for part in source.schema().split(", ")]


def test_a_sink_publishes_a_batch_once_and_nothing_of_one_that_failed(tmp_path: Path) -> None:
    options = WriteOptions(path=str(tmp_path), group="g", app="job")
    rows = pa.RecordBatch.from_pydict({"payload": [b"x" * 100_000] * 5})

    def staged(writer: Any) -> list[Any]:
        there = pickle.loads(pickle.dumps(writer))
        return [None, pickle.loads(pickle.dumps(there.write(iter([rows]))))]

    for batch in (0, 0, 1, 1):
        # Spark makes another writer for the end of each batch.
        SinkStreamWriter(options).commit(staged(SinkStreamWriter(options)), batch)
    SinkStreamWriter(options).abort(staged(SinkStreamWriter(options)), 2)
    once = SinkWriter(WriteOptions(path=str(tmp_path), group="g"))
    once.commit(staged(once))
    gone = SinkWriter(WriteOptions(path=str(tmp_path), group="g"))
    gone.abort(staged(gone))

    assert bounds(tmp_path / "g") == (0, 15)
    assert not [*(tmp_path / "g").rglob("*.arrow")]
