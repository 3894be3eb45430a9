"""Spools that are read as tables of Spark."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.unit.spark.spooling import fill

from hopring.spark import decoded
from hopring.spark.errors import SparkError, readable
from hopring.spool.archive import archive
from hopring.spool.reading import bounds
from hopring.spool.record import RecordHeader, RecordKind, run_of
from hopring.spool.writer import SpoolWriter

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


FUTURE = "2999-01-01T00:00:00Z"


@pytest.mark.parametrize("push", ["true", "false"])
def test_nothing_to_read_gives_no_rows(users: Any, tmp_path: Path, push: str) -> None:
    fill(tmp_path / "full", "g", 20)
    (tmp_path / "nothing").mkdir()
    SpoolWriter(tmp_path / "empty", "g").close()

    def full(**options: str) -> Any:
        return table(users, tmp_path / "full", pushFilters=push, **options)

    tables = {
        "empty spool": table(users, tmp_path / "empty", pushFilters=push),
        "empty root": table(users, tmp_path / "nothing", pushFilters=push),
        "filter beyond the end": full().where("offset > 1000000"),
        "no such group": full().where("group = 'nobody'"),
        "glob without a match": full(groups="zzz*"),
        "latest": full(startingOffsets="latest"),
        "future": full(startingTimestamp=FUTURE),
    }

    assert {name: its.collect() for name, its in tables.items()} == {name: [] for name in tables}
    assert full().count() == 20


def test_a_stream_with_nothing_to_read_ends_without_rows(users: Any, tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    fill(tmp_path / "full", "g", 20)

    for name, options in (
        ("nothing", {}),
        ("full", {"groups": "zzz*"}),
        ("full", {"startingTimestamp": FUTURE, "pushFilters": "false"}),
    ):
        reader = users.readStream.format("hopring").options(**options).load(str(tmp_path / name))
        query = reader.writeStream.format("noop").trigger(availableNow=True).start()
        query.awaitTermination()
        assert sum([its["numInputRows"] for its in query.recentProgress]) == 0


def test_a_table_of_the_catalog_is_read_by_sql_also_in_another_session(
    users: Any, hopring: Any, tmp_path: Path
) -> None:
    root = tmp_path / "it's here"
    fill(root, "a", 20)
    fill(root, "b", 30)
    path = str(root).replace("'", "\\'")
    users.sql(f"CREATE TABLE spooled USING hopring OPTIONS (path '{path}', groups 'b', payload 'false')")
    try:
        for session in (users, hopring):
            assert session.sql("SELECT count(*) FROM spooled WHERE offset >= 10").first()[0] == 20
            assert "payload" not in session.table("spooled").columns
            assert session.sql("SELECT DISTINCT group FROM spooled").collect() == [("b",)]
        assert users.read.option("startingOffsets", "latest").table("spooled").count() == 0
    finally:
        users.sql("DROP TABLE spooled")
    assert bounds(root / "b").end == 30


SQL = """
import sys
from hopring.spark import register, session

place, statement = sys.argv[1:]
settings = {
    "spark.sql.catalogImplementation": "hive",
    "spark.sql.warehouse.dir": place,
    "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={place}/catalog;create=true",
}
spark = session("sql", settings=settings)
register(spark)
print(*[row[0] for row in spark.sql(statement).collect()])
spark.stop()
"""


@pytest.mark.long
def test_a_table_of_a_catalog_on_disk_is_read_after_the_session_restarted(tmp_path: Path) -> None:
    fill(tmp_path / "spool", "a", 20)

    def run(statement: str) -> str:
        command = [sys.executable, "-c", SQL, str(tmp_path), statement]
        return subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path).stdout.strip()

    run(f"CREATE TABLE spooled USING hopring OPTIONS (path '{tmp_path / 'spool'}')")
    assert run("SELECT count(*) FROM spooled WHERE offset >= 5") == "15"


def test_payloads_become_columns_by_group_and_type(users: Any, tmp_path: Path) -> None:
    def write(group: str, rows: list[tuple[int, bytes]]) -> None:
        header = RecordHeader(RecordKind.MESSAGE, 1_000_000, "#anna#eu1", (group,))
        with SpoolWriter(tmp_path, group) as writer:
            writer.append([run_of(header, [data for _, data in rows], [kind for kind, _ in rows])])

    good, bad = b'{"symbol": "A", "price": 1.5}', b'{"symbol": "A", "price": "dear"}'
    write("trades.eu", [(0, good), (0, bad), (0, b"\xff{"), (1, b"hello"), (1, b"\xff"), (2, b"?")])
    write("other", [(0, good), (3, b"7,8"), (3, b"x,8")])
    schemas = [
        {
            **{"name": "trade", "groups": ["trades.*"], "types": [0], "format": "json"},
            "columns": "symbol string, price double",
        },
        {"name": "note", "groups": ["trades.eu"], "types": [1], "format": "text"},
        {"name": "pair", "groups": ["*"], "types": [3], "format": "csv", "columns": "a int, b int"},
    ]
    (tmp_path / "schema.json").write_text(json.dumps(schemas))

    found = table(users, tmp_path).transform(decoded, tmp_path).orderBy("group", "offset")

    shown = [
        (row.trade and tuple(row.trade), row.note, row.pair and tuple(row.pair), row.malformed)
        for row in found.collect()
    ]
    nothing = (None, None, None, False)
    broken = (None, None, None, True)
    assert shown[:3] == [nothing, (None, None, (7, 8), False), broken]
    assert shown[3:] == [
        (("A", 1.5), None, None, False),
        broken,
        broken,
        (None, "hello", None, False),
        broken,
        nothing,
    ]
    assert found.selectExpr("trade.price").where("price > 1").count() == 1
