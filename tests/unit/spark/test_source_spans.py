"""Planning and reading spools without Spark."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.unit.spark.spooling import fill, remove

from hopring.spark.errors import DataLost, ForeignInput
from hopring.spark.schema import RECORDS, check_records
from hopring.spark.source.inventory import (
    Part,
    all_spools,
    checked,
    chosen,
    earliest_of,
    parts_of,
    ranges_of,
    start_of,
)
from hopring.spark.source.native import native_part
from hopring.spark.source.options import ReadOptions, WrongOption
from hopring.spark.source.spans import ReadSpan, cut, read_span, spans_of
from hopring.spool.archive import archive
from hopring.spool.arrow import COLUMNS, schema
from hopring.spool.errors import NoSpool, NotASpool, OffsetMissing, SpoolDamaged
from hopring.spool.files import archive_path, bases, log_path

pa = pytest.importorskip("pyarrow", reason="needs pyarrow: make arrow")


def read(spans: list[ReadSpan], *, payload: bool = True, fail: bool = True) -> list[dict[str, Any]]:
    return [
        row
        for span in spans
        for batch in read_span(span, payload=payload, fail=fail)
        for row in batch.to_pylist()
    ]


def numbers(spans: list[ReadSpan], *, fail: bool = True) -> list[int]:
    rows = read(spans, fail=fail)
    assert [int(row["payload"]) for row in rows] == [row["offset"] for row in rows]
    return [row["offset"] for row in rows]


def of(directory: Path, start: int, end: int, *, fail: bool = True, **options: Any) -> list[ReadSpan]:
    return spans_of({directory: range(start, end)}, fail=fail, **options)


def as_sql(kind: Any) -> str:
    """An Arrow type as SQL writes it."""
    if pa.types.is_struct(kind):
        return f"struct<{','.join(f'{field.name}:{as_sql(field.type)}' for field in kind)}>"
    if pa.types.is_list(kind):
        return f"array<{as_sql(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{as_sql(kind.key_type)},{as_sql(kind.item_type)}>"
    if pa.types.is_timestamp(kind):
        assert (kind.unit, kind.tz) == ("us", "UTC")
        return "timestamp"
    return {"int64": "bigint", "int32": "int"}.get(str(kind), str(kind))


def test_the_columns_are_those_of_a_spool_in_their_order_and_types() -> None:
    assert tuple(RECORDS) == COLUMNS
    assert {field.name: as_sql(field.type) for field in schema(pa)} == RECORDS
    without = tuple([name for name in COLUMNS if name != "payload"])
    assert tuple(schema(pa, payload=False).names) == without
    check_records(COLUMNS)
    check_records(without)
    with pytest.raises(ForeignInput, match=r"leave \.schema"):
        check_records(["offset"])


def test_portions_end_at_segments_and_are_about_equal() -> None:
    parts = [Part(0, 10), Part(10, 20, archived=True), Part(20, 30)]

    spans = list(cut(Path("/g"), "id", parts, range(5, 22), 4))

    assert [(span.base, span.start, span.end, span.archived) for span in spans] == [
        (0, 5, 7, False),
        (0, 7, 10, False),
        (10, 10, 13, True),
        (10, 13, 16, True),
        (10, 16, 20, True),
        (20, 20, 22, False),
    ]


def test_every_record_is_read_once_whether_it_is_archived_or_not(tmp_path: Path) -> None:
    directory = fill(tmp_path, "g", 100)
    plain = read(of(directory, 0, 100))
    list(archive(directory))
    spans = of(directory, 0, 100)

    assert len(bases(directory)) > 2
    assert {span.archived for span in spans} == {True, False}
    assert read(spans) == plain
    assert [row["offset"] for row in plain] == list(range(100))
    assert numbers(of(directory, 13, 57, records_max=4)) == list(range(13, 57))


def test_without_payload_there_are_sizes(tmp_path: Path) -> None:
    directory = fill(tmp_path, "g", 60)
    list(archive(directory))

    rows = read(of(directory, 0, 60), payload=False)

    assert [row["size"] for row in rows] == [8] * 60
    assert "payload" not in rows[0]


def test_more_partitions_are_made_if_they_are_wanted(tmp_path: Path) -> None:
    directory = fill(tmp_path, "g", 100, segment_bytes=10**6)

    assert len(of(directory, 0, 100)) == 1
    spans = of(directory, 0, 100, partitions_min=8)

    assert len(spans) == 8
    assert numbers(spans) == list(range(100))
    assert len(of(directory, 0, 3, partitions_min=8)) == 3


def test_records_that_only_the_archive_has_are_read_from_it(tmp_path: Path) -> None:
    directory = fill(tmp_path, "g", 100)
    list(archive(directory))
    there = bases(directory)
    spans = of(directory, 0, 100)
    remove(directory, there[:2])

    assert earliest_of(directory) == 0
    assert numbers(of(directory, 0, 100)) == list(range(100))
    assert numbers(spans) == list(range(100))  # A plan that was made before.
    assert [part.base for part in parts_of(directory, there[1] + 1)] == there[1:]


def test_an_archive_before_a_gap_does_not_count(tmp_path: Path) -> None:
    directory = fill(tmp_path, "g", 100)
    list(archive(directory))
    there = bases(directory)
    remove(directory, there[:2])
    archive_path(directory, there[1]).unlink()

    assert earliest_of(directory) == there[2]
    with pytest.raises(OffsetMissing, match=f"offset 0 was removed by retention; begin at {there[2]}"):
        of(directory, 0, 100)
    assert numbers(of(directory, 0, 100, fail=False)) == list(range(there[2], 100))


def test_missing_records_at_the_end_are_a_loss_too(tmp_path: Path) -> None:
    directory = fill(tmp_path, "g", 20)

    with pytest.raises(OffsetMissing, match="offset 29 is not written yet"):
        of(directory, 10, 30)
    assert numbers(of(directory, 10, 30, fail=False)) == list(range(10, 20))
    assert checked(directory, range(0), [], fail=True) == range(20, 0)


def test_retention_after_the_plan_is_an_error_or_passed_over(tmp_path: Path) -> None:
    directory = fill(tmp_path, "g", 100)
    spans = of(directory, 0, 100)
    there = bases(directory)
    remove(directory, there[:1])

    with pytest.raises(OffsetMissing):
        numbers(spans)
    assert numbers(spans, fail=False) == list(range(there[1], 100))


def test_damage_is_an_error_or_passed_over_and_an_archive_hides_none(tmp_path: Path) -> None:
    directory = fill(tmp_path, "g", 100)
    log = log_path(directory, 0)
    whole = bytearray(log.read_bytes())
    whole[-3] ^= 1  # In the last block of the segment.
    log.write_bytes(whole)
    end = bases(directory)[1]
    kept = [*range(end - 10), *range(end, 100)]

    with pytest.raises(SpoolDamaged):
        numbers(of(directory, 0, 100))
    assert numbers(of(directory, 0, 100, fail=False), fail=False) == kept
    list(archive(directory, skip_damaged=True))
    with pytest.raises(SpoolDamaged, match="they are not in its files"):
        numbers(of(directory, 0, 100))
    assert numbers(of(directory, 0, 100, fail=False), fail=False) == kept


def test_groups_are_chosen_by_name_glob_or_pattern(tmp_path: Path) -> None:
    for group in ("trades.eu", "trades.us", "alarms", "a/b"):
        fill(tmp_path, group, 10)

    def groups(**options: Any) -> list[str]:
        return list(chosen(ReadOptions(path=str(tmp_path), **options)))

    assert groups() == ["a/b", "alarms", "trades.eu", "trades.us"]
    assert groups(groups=("trades.*", "a/b")) == ["a/b", "trades.eu", "trades.us"]
    assert groups(group_pattern=r"trades\.(eu|fr)") == ["trades.eu"]
    assert list(all_spools(tmp_path / "alarms")) == ["alarms"]
    with pytest.raises(NoSpool, match=r"there is no spool of 'news'; list"):
        groups(groups=("news",))
    with pytest.raises(NoSpool, match="there is no such directory"):
        all_spools(tmp_path / "nowhere")


def test_a_batch_has_the_given_start_and_end(tmp_path: Path) -> None:
    for group in ("a", "b"):
        fill(tmp_path, group, 30)
    there = all_spools(tmp_path)

    def ranges(**options: Any) -> dict[str, range]:
        return ranges_of(there, ReadOptions(path=str(tmp_path), **options))

    assert ranges() == {"a": range(30), "b": range(30)}
    assert ranges(starting={"b": 7}, ending={"a": 9}) == {"a": range(9), "b": range(7, 30)}
    assert ranges(starting=-1) == {"a": range(30, 30), "b": range(30, 30)}
    with pytest.raises(WrongOption, match="'c' is not among the groups that are read"):
        ranges(starting={"c": 1})


def test_a_start_time_means_the_first_append_since_then_even_in_the_archive(tmp_path: Path) -> None:
    directory = fill(tmp_path, "g", 100)

    def start(seconds: int) -> int:
        return start_of(directory, "g", ReadOptions(path=str(tmp_path), starting_time_us=seconds * 1_000_000))

    asked = (0, 9, 10, 21, 25, 30, 95)
    from_logs = [start(one) for one in asked]
    assert from_logs == [0, 10, 10, 30, 30, 30, 100]
    list(archive(directory))
    remove(directory, bases(directory)[:2])
    assert bases(directory)[0] > 25
    assert [start(one) for one in asked] == from_logs


def test_an_end_time_leaves_out_the_appends_since_then(tmp_path: Path) -> None:
    for group in ("a", "b"):
        fill(tmp_path, group, 100)
    there = all_spools(tmp_path)

    def ranges(**options: Any) -> dict[str, range]:
        return ranges_of(there, ReadOptions(path=str(tmp_path), **options))

    second = 1_000_000
    assert ranges(ending_time_us=20 * second) == {"a": range(20), "b": range(20)}
    assert ranges(starting_time_us=10 * second, ending_time_us={"a": 30 * second}) == {
        "a": range(10, 30),
        "b": range(10, 100),
    }
    assert ranges(ending_time_us=0)["a"] == range(0)
    with pytest.raises(WrongOption, match="endingOffsetsByTimestamp: 'c' is not among the groups"):
        ranges(ending_time_us={"c": 1})


def test_a_span_of_a_spool_that_was_replaced_is_a_loss(tmp_path: Path) -> None:
    directory = fill(tmp_path, "g", 30)
    spans = of(directory, 0, 30)
    shutil.rmtree(directory)
    fill(tmp_path, "g", 40)

    with pytest.raises(DataLost, match="another spool took its place while it was read; start the query again"):
        read(spans)
    assert numbers(spans, fail=False) == []


def test_the_archive_of_a_spool_that_was_removed_is_not_taken_for_that_of_the_next_one(tmp_path: Path) -> None:
    directory = fill(tmp_path, "g", 60)
    list(archive(directory))
    old = bases(directory)
    remove(directory, old)
    fill(tmp_path, "g", 60, shift=1000)

    assert bases(directory) == old
    assert [int(row["payload"]) for row in read(of(directory, 0, 60))] == [*range(1000, 1060)]
    with pytest.raises(NotASpool, match="it is the archive of another spool of this group; move the directory"):
        list(archive(directory))
    remove(directory, old[:1])
    with pytest.raises(OffsetMissing, match="offset 0 was removed by retention"):
        of(directory, 0, 60)


def test_spark_itself_reads_the_archive_up_to_the_first_segment_that_is_not_there(tmp_path: Path) -> None:
    some, none, foreign = [fill(tmp_path, group, 100) for group in ("some", "none", "foreign")]
    for directory in (some, foreign):
        list(archive(directory))
    first, second, third = bases(some)[:3]
    archive_path(some, third).unlink()
    remove(some, [first])
    remove(foreign, bases(foreign))
    fill(tmp_path, "foreign", 100)

    found = native_part(tmp_path)

    assert found.files == (archive_path(some, first), archive_path(some, second))
    assert found.ends == {"foreign": 0, "none": 0, "some": third}
    assert none.exists()


@pytest.mark.parametrize("fail", [True, False])
def test_an_archive_with_records_twice_is_damage(tmp_path: Path, fail: bool) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    directory = fill(tmp_path, "trades", 30)
    list(archive(directory))
    base = bases(directory)[0]
    path = archive_path(directory, base)
    rows = parquet.read_table(path)
    parquet.write_table(pa.concat_tables([rows.slice(0, 2), rows.slice(0, 2), rows.slice(4)]), path)

    with pytest.raises(SpoolDamaged, match="twice or out of order"):
        numbers(of(directory, base, base + rows.num_rows), fail=fail)
