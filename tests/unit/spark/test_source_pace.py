"""When a stream makes a batch, and what it reports to retention, without Spark."""

from pathlib import Path
from typing import Any

import pytest
from tests.unit.spark.spooling import fill

from hopring.spark.errors import SparkError
from hopring.spark.source.inventory import id_of
from hopring.spark.source.options import TRIGGER_DELAY_SECONDS_DEFAULT, ReadOptions
from hopring.spark.source.pace import BatchPace, StreamConsumer
from hopring.spark.source.progress import Positions, SpoolPosition
from hopring.spool.files import CONSUMERS, Disk, bases
from hopring.spool.retention import Retention, consumers, permit, retain

pytest.importorskip("pyarrow", reason="needs pyarrow: make arrow")


def at(**offsets: int) -> Positions:
    return {group: SpoolPosition(offset, "id") for group, offset in offsets.items()}


def pace(**options: Any) -> BatchPace:
    return BatchPace(ReadOptions(path="/s", **options))


def test_without_a_minimum_every_batch_is_due() -> None:
    assert pace().is_due(at(a=0), at(a=1), 0.0)


def test_a_batch_waits_for_enough_records_or_for_its_delay() -> None:
    its = pace(offsets_min=10, delay_seconds=60.0)

    assert its.is_due(at(a=0), at(a=1), 1000.0)  # The first one: the last batch may be long ago.
    assert not its.is_due(at(a=1), at(a=10), 1001.0)
    assert its.is_due(at(a=1), at(a=11), 1002.0)
    assert not its.is_due(at(a=11), at(a=12), 1061.9)
    assert its.is_due(at(a=11), at(a=12), 1062.0)
    assert not its.is_due(at(a=12), at(a=12), 9999.0)  # There is nothing to read.
    assert its.is_due(at(a=12, b=0), at(a=17, b=5), 1062.1)  # The records of all groups count.


def test_the_delay_has_a_default() -> None:
    its = pace(offsets_min=10)

    assert its.is_due(at(a=0), at(a=1), 0.0)
    assert not its.is_due(at(a=1), at(a=2), TRIGGER_DELAY_SECONDS_DEFAULT - 0.1)
    assert its.is_due(at(a=1), at(a=2), TRIGGER_DELAY_SECONDS_DEFAULT)


def test_a_group_enters_without_waiting_since_its_records_count_only_then() -> None:
    its = pace(offsets_min=10)
    assert its.is_due(at(a=0), at(a=10), 0.0)

    assert its.is_due(at(a=10), at(a=10, b=0), 1.0)
    assert its.is_due({"a": SpoolPosition(10, "old")}, at(a=0), 2.0)
    assert not its.is_due(at(a=10, b=0), at(a=10, b=9), 3.0)


def test_retention_waits_for_the_query_that_reports_its_progress(tmp_path: Path) -> None:
    directory = fill(tmp_path, "a", 100)
    other = fill(tmp_path, "b", 10)
    its = StreamConsumer(ReadOptions(path=str(tmp_path), consumer="report"))
    spool = id_of(directory)
    limit = Retention(bytes_max=1)

    its.report({"a": SpoolPosition(0, spool), "gone": SpoolPosition(0, "x"), "b": SpoolPosition(5)})
    assert (consumers(directory), consumers(other)) == ({"report": 0}, {})
    assert retain(directory, limit, 0, Disk()) == []

    second = bases(directory)[1]
    its.report({"a": SpoolPosition(second, spool)})
    assert retain(directory, limit, 0, Disk()) == [0]
    permit(directory, "report", 0)
    its.report({"a": SpoolPosition(second, spool)})
    assert consumers(directory) == {"report": 0}  # Nothing has changed, so nothing is written.
    its.report({"a": SpoolPosition(50, "another spool")})
    assert consumers(directory) == {"report": 0}


def test_without_the_option_nothing_is_reported(tmp_path: Path) -> None:
    directory = fill(tmp_path, "a", 10)

    StreamConsumer(ReadOptions(path=str(tmp_path))).report({"a": SpoolPosition(5, id_of(directory))})

    assert not (directory / CONSUMERS).exists()


def test_a_spool_that_cannot_be_written_to_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    directory = fill(tmp_path, "a", 10)
    (directory / CONSUMERS).write_text("a file is in the way")

    with pytest.raises(
        SparkError, match=r"a: .*; let the driver write there, or leave out the option consumer"
    ):
        StreamConsumer(ReadOptions(path=str(tmp_path), consumer="x")).report(
            {"a": SpoolPosition(5, id_of(directory))}
        )
