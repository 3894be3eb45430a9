"""Upkeep of a stream's records on Spark: merged files have the same rows, and old records go."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.spark.growing import lines_of
from tests.unit.spark.spooling import fill

from hopring.check.trace import (
    Event,
    MessageDelivered,
    MessageId,
    MessageSent,
    Ord,
    ProcessName,
    Recover,
    ViewName,
)
from hopring.services import Service
from hopring.spark.session import suited_to

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SECOND_US = 1_000_000
GROUPS = ("trades/eu", "1", "a b")


def test_merged_files_have_the_same_rows_and_old_records_are_removed(users: Any, tmp_path: Path) -> None:
    from hopring.spark.pipeline.ingest import bronze_records  # noqa: PLC0415  Needs the extra.
    from hopring.spark.pipeline.store import Store  # noqa: PLC0415
    from hopring.spark.pipeline.upkeep import SpoolUpkeep, UpkeepLimits  # noqa: PLC0415

    store = Store(tmp_path / "out")
    store.open()
    place = store.place("bronze", "records") / "spool=eu"
    for group in GROUPS:
        fill(tmp_path / "eu", group, 60)
    read = users.read.format("hopring").load(str(tmp_path / "eu"))
    for number in range(4):
        batch = read.where(f"offset div 20 = {number} and (`group` <> 'a b' or offset >= 20)")
        batch.write.partitionBy("group").parquet(f"file://{place}/batch={number}")

    def found() -> list[Any]:
        return sorted(bronze_records(users, store).collect(), key=repr)

    def files() -> int:
        return len(list(place.rglob("*.parquet")))

    def keep_up(before: int, now_seconds: float, **limits: Any) -> None:
        upkeep = SpoolUpkeep(store.out, "bronze/records/spool=eu", store.workshop, UpkeepLimits(**limits))
        upkeep.keep_up(users, before, round(now_seconds * SECOND_US))

    whole = found()
    assert (len(whole), files()) == (160, 8)

    keep_up(3, 0, batches_max=4)
    assert files() == 8
    keep_up(2, 0, batches_max=2)
    assert (found(), files()) == (whole, 6)  # Two of each group, and the later batch stays apart.
    assert sorted(path.name for path in place.iterdir()) == ["batch=1", "batch=2"]

    # In a group whose records are all in small files, the oldest go; appends are ten seconds apart.
    keep_up(3, 60, batches_max=1, retain_seconds=30.0)
    left = found()
    assert sorted({(row["group"], row["offset"]) for row in left}) == sorted(
        (group, offset) for group in GROUPS for offset in range(30, 60)
    )
    assert left == [row for row in whole if row["offset"] >= 30]
    assert files() == 3

    keep_up(3, 100, batches_max=1, retain_seconds=30.0)
    assert found() == []
    assert place.exists()


def test_a_stream_forgets_old_sends_and_counts_and_counts_the_others_on(users: Any, tmp_path: Path) -> None:
    from pyarrow import parquet  # noqa: PLC0415  Needs the extra.

    from hopring.spark.pipeline.following import TraceFollower  # noqa: PLC0415
    from hopring.spark.pipeline.passes import Passes  # noqa: PLC0415
    from hopring.spark.pipeline.store import Store  # noqa: PLC0415

    store = Store(tmp_path / "out")
    store.open()
    passes = Passes(users, store, {}, late_us=600 * SECOND_US)
    passes.open()
    follower = TraceFollower(tmp_path / "trace")
    own = store.checkpoints / "_tables"

    def take(daemon: str, *events: Event) -> None:
        file = tmp_path / "trace" / f"{daemon}.jsonl"
        file.parent.mkdir(exist_ok=True)
        with file.open("ab") as lines:
            lines.writelines(lines_of(list(events)))
        rows = follower.read(passes.ledger.files)
        assert rows is not None
        assert passes.take_trace(rows)

    def minutes() -> dict[int, int]:
        """The deliveries that were measured, by minute."""
        table = parquet.read_table(store.place("gold", "latency_by_minute")).to_pylist()
        found: Counter[int] = Counter()
        for one in table:  # A row for each pair of sites.
            found[round(one["minute"].timestamp()) // 60] += one["messages"]
        return dict(found)

    def kept() -> tuple[int, int]:
        return tuple(len(list((own / name).glob("*.parquet"))) for name in ("moves", "latencies"))  # type: ignore[return-value]

    with suited_to(users, 0, 2):
        take("a", Recover(A, 0, 0), sent(1, 30), sent(20_000, 3_600), got(A, 1, 31), got(A, 20_000, 3_601))
        assert minutes() == {0: 1, 60: 1}
        assert kept() == (2, 2)
        left_behind = next((own / "latencies").glob("0.parquet")).read_bytes()

        passes.forget_before(599 * SECOND_US)
        assert kept() == (2, 2)
        passes.forget_before(1_300 * SECOND_US)
        assert kept() == (1, 1)

        # A delivery of the forgotten send, and one of the other: both come late.
        take("b", Recover(B, 0, 0), got(B, 1, 32), got(B, 20_000, 3_602))
        assert minutes() == {0: 1, 60: 2}
        assert kept() == (1, 1)
        # The stream was killed before it had removed a file, and goes on.
        (own / "latencies" / "0.parquet").write_bytes(left_behind)
        again = Passes(users, store, {}, late_us=600 * SECOND_US)
        again.open()
        again.forget_before(0)
        assert (kept(), again.ledger.forgotten_us) == ((1, 1), 1_200 * SECOND_US)


A, B, VIEW = ProcessName("a", 1), ProcessName("b", 2), ViewName(1, 0, 1)


def sent(number: int, seconds: int) -> MessageSent:
    message, stamp = MessageId("a", 1, number), Ord(number, 0, VIEW)
    return MessageSent(A, seconds * SECOND_US, VIEW, message, Service.SAFE, stamp, 100)


def got(process: ProcessName, number: int, seconds: int) -> MessageDelivered:
    message, stamp = MessageId("a", 1, number), Ord(number, 0, VIEW)
    return MessageDelivered(process, seconds * SECOND_US, VIEW, message, Service.SAFE, stamp)
