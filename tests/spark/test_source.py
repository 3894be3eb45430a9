"""Spools that are read as tables of Spark."""

from pathlib import Path
from typing import Any

import pytest
from tests.unit.spark.spooling import fill

from hopring.spark.errors import SparkError, readable
from hopring.spool.archive import archive

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def table(spark: Any, path: Path, **options: Any) -> Any:
    return spark.read.format("hopring").options(**options).load(str(path))


def test_a_spool_is_read_with_its_archive_and_its_tail(hopring: Any, tmp_path: Path) -> None:
    directory = fill(tmp_path, "trades.eu", 100)
    fill(tmp_path, "trades.us", 30)
    list(archive(directory))

    found = table(hopring, tmp_path)
    rows = found.orderBy("group", "offset").collect()

    assert [(row.group, row.offset) for row in rows] == [
        *[("trades.eu", offset) for offset in range(100)],
        *[("trades.us", offset) for offset in range(30)],
    ]
    assert [int(row.payload) for row in rows] == [row.offset for row in rows]
    one = rows[17]
    assert (one.kind, one.sender, one.service, one.type, one.size) == ("message", "#anna#eu1", "safe", 0, 8)
    assert one.groups == ["trades.eu", "other"]
    assert (one.place.lts, one.place.site, one.place.counter) == (10, 4, 3)
    assert one.place.nonce == -(2**63) + 5  # All 64 bits, shown signed.
    assert found.selectExpr("unix_micros(timestamp) as at").where("at = 10000000").count() == 20


def test_filters_that_are_pushed_down_give_the_same_rows_as_in_spark(hopring: Any, tmp_path: Path) -> None:
    for group in ("a", "b"):
        list(archive(fill(tmp_path, group, 100)))
    condition = "offset >= 20 and offset < 60 and group = 'b' and type = 3"

    pushed = table(hopring, tmp_path, payload="false").where(condition)
    plain = table(hopring, tmp_path, payload="false", pushFilters="false").where(condition)

    assert pushed.rdd.getNumPartitions() < plain.rdd.getNumPartitions()
    assert sorted(pushed.collect()) == sorted(plain.collect())
    assert {row.group for row in pushed.collect()} == {"b"}
    assert "payload" not in pushed.columns


def test_errors_are_one_line_of_text(hopring: Any, tmp_path: Path) -> None:
    fill(tmp_path, "a", 10)

    neither = r"reading: option payload: 'no' is neither true nor false; write true"
    with pytest.raises(SparkError, match=neither), readable("reading"):
        table(hopring, tmp_path, payload="no").count()
    missing = r"reading: .*offset 19 is not written yet; the spool ends before 10"
    with pytest.raises(SparkError, match=missing), readable("reading"):
        table(hopring, tmp_path, endingOffsets='{"a": 20}').count()
