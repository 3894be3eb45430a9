"""A `txnAppId` belongs to one query: a new checkpoint under it is an error, and nothing is dropped."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.unit.spark.batches import batch

from hopring.spark.errors import DataLost, ForeignInput, SparkError
from hopring.spark.sink.claims import claim, claim_of_live, claim_of_spool
from hopring.spark.sink.spools import publish, publish_all
from hopring.spark.sink.staging import GROUPS_MAX, INLINE_BYTES_MAX, on_disk, stage
from hopring.spool.encode import AppendMark
from hopring.spool.errors import SpoolFull
from hopring.spool.reading import bounds, read

pa = pytest.importorskip("pyarrow", reason="needs pyarrow: make arrow")


def test_the_first_batch_of_another_query_is_refused_even_if_the_first_query_made_only_one(
    tmp_path: Path,
) -> None:
    staged = [stage([batch("a")], tmp_path)]
    publish(tmp_path, "g", "me", staged, AppendMark("app", 0), "query 1")
    # Killed before Spark's commit: the same checkpoint makes the batch again.
    assert publish(tmp_path, "g", "me", staged, AppendMark("app", 0), "query 1").replayed

    for number in (0, 1):
        with pytest.raises(
            DataLost, match=r"txnAppId 'app' belongs to a query with another checkpoint .*; give"
        ):
            publish(tmp_path, "g", "me", staged, AppendMark("app", number), "query 2")

    publish(tmp_path, "g", "me", staged, AppendMark("app", 1), "query 1")
    publish(tmp_path, "g", "me", staged, AppendMark("other", 0), "query 2")
    assert bounds(tmp_path / "g").end == 3


def test_a_spool_of_an_earlier_version_takes_the_query_that_comes_once(tmp_path: Path) -> None:
    staged = [stage([batch("a")], tmp_path)]
    publish(tmp_path, "g", "me", staged, AppendMark("app", 0))

    publish(tmp_path, "g", "me", staged, AppendMark("app", 1), "query 1")
    with pytest.raises(DataLost, match="another checkpoint"):
        publish(tmp_path, "g", "me", staged, AppendMark("app", 2), "query 2")


def test_a_claim_without_a_batch_gives_way(tmp_path: Path) -> None:
    """A query that was killed after its claim has published nothing."""
    claim(claim_of_spool(tmp_path / "g", "app"), "app", "query 1")

    publish(tmp_path, "g", "me", [stage([batch("a")], tmp_path)], AppendMark("app", 0), "query 2")

    assert bounds(tmp_path / "g").end == 1


def test_claims_of_live_groups_are_by_cluster_and_application(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    one = claim_of_live(home, "cluster 1", "../app")

    claim(one, "app", "query 1")

    assert one.parent == tmp_path / ".local" / "state" / "hopring" / "sinks"
    assert {one} == {claim_of_live({"XDG_STATE_HOME": str(tmp_path / ".local/state")}, "cluster 1", "../app")}
    assert len({one, claim_of_live(home, "cluster 2", "../app"), claim_of_live(home, "cluster 1", "app")}) == 3
    with pytest.raises(DataLost, match="another checkpoint"):
        claim(one, "app", "query 2")
    assert [path.name for path in one.parent.iterdir()] == [one.name]


@contextmanager
def disk_of(size_bytes: int) -> Iterator[None]:
    """Lets no file grow beyond this size, which is how a full disk looks to a program."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_one_line_with_its_remedy(tmp_path: Path) -> None:
    big = batch(bytes(INLINE_BYTES_MAX * 4))

    with (
        pytest.raises(
            SparkError, match=r"File too large; free some space there, then start the query again"
        ) as one,
        disk_of(100_000),
        on_disk(tmp_path / "staging"),
    ):
        stage([big], tmp_path / "staging")
    assert "\n" not in str(one.value)

    staged = [stage([big], tmp_path / "staging")]
    with (
        pytest.raises(SpoolFull, match="not appended: disk error: File too large; free some space"),
        disk_of(100_000),
    ):
        publish(tmp_path, "g", "me", staged, AppendMark("app", 0), "query")
    publish(tmp_path, "g", "me", staged, AppendMark("app", 0), "query")
    assert bounds(tmp_path / "g").end == 1


def grouped(*rows: tuple[str | None, bytes]) -> Any:
    groups, payloads = zip(*rows, strict=True)
    return pa.RecordBatch.from_pydict({"group": pa.array(groups, pa.string()), "payload": list(payloads)})


def payloads(root: Path, group: str) -> list[bytes]:
    return [record.data for record in read(root / group, 0, bounds(root / group).end)]


def test_rows_go_to_the_groups_that_they_name_and_a_repeated_batch_is_completed(tmp_path: Path) -> None:
    tasks = [
        stage([grouped(("a", b"1"), ("b", b"2"), (None, b"3"))], tmp_path, "rest"),
        stage([grouped(("b", b"4"), ("a", b"5"))], tmp_path, "rest"),
    ]
    # Killed between two appends.
    publish(tmp_path, "a", "me", tasks, AppendMark("app", 0), "query")

    for _ in range(2):
        publish_all(tmp_path, "rest", "me", tasks, AppendMark("app", 0), "query")
    publish_all(
        tmp_path, "rest", "me", [stage([grouped(("b", b"6"))], tmp_path)], AppendMark("app", 1), "query"
    )

    assert {group: payloads(tmp_path, group) for group in ("a", "b", "rest")} == {
        "a": [b"1", b"5"],
        "b": [b"2", b"4", b"6"],
        "rest": [b"3"],
    }


def test_wrong_groups_of_rows_are_refused_before_anything_is_published(tmp_path: Path) -> None:
    with pytest.raises(ForeignInput, match="a group is null; filter those rows out, or give the option group"):
        stage([grouped((None, b"1"))], tmp_path)
    with pytest.raises(ForeignInput, match="'#a' in the column group is not a legal name"):
        stage([grouped(("a", b"1"), ("#a", b"1"))], tmp_path)
    many = stage([grouped(*[(f"g{at}", b"") for at in range(GROUPS_MAX + 1)])], tmp_path)
    with pytest.raises(SparkError, match=f"a batch has more than {GROUPS_MAX} groups; make batches smaller"):
        publish_all(tmp_path, "", "me", [many], None)
    assert list(tmp_path.iterdir()) == []
