"""The lag of a stream by group, as Spark's progress tells it."""

from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.support.waiting import until
from tests.unit.spark.spooling import fill

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_counters_follow_the_progress_of_a_stream(users: Any, tmp_path: Path) -> None:
    from hopring.spark.pipeline.counters import PipelineCounters, query_name, watched  # noqa: PLC0415  Extra.
    from hopring.spark.pipeline.store import SpoolRoot  # noqa: PLC0415

    fill(tmp_path, "one", 40)
    fill(tmp_path, "two", 20)
    counters = PipelineCounters()
    rows: list[int] = []

    def figures() -> dict[str, float]:
        families = text_string_to_metric_families(counters.text())
        return {
            f"{one.name.removeprefix('hopring_pipeline_')} {' '.join(one.labels.values())}": one.value
            for family in families
            for one in family.samples
        }

    def note(records: Any, _number: int) -> None:
        rows.append(records.count())

    with watched(users, [SpoolRoot("eu", str(tmp_path))], counters):
        read = users.readStream.format("hopring").option("maxOffsetsPerTrigger", 30).load(str(tmp_path))
        query = read.writeStream.queryName(query_name("eu")).foreachBatch(note).trigger(availableNow=True)
        other = read.writeStream.queryName("other").format("noop").trigger(availableNow=True).start()
        query.start().awaitTermination()
        other.awaitTermination()
        until(lambda: figures().get("batches_total eu") == 2)
        until(lambda: counters.behind().records == 0)

    found = figures()
    assert found["records_total eu"] == 60
    assert {name: value for name, value in found.items() if name.startswith("lag")} == {
        "lag_records eu one": 0,
        "lag_records eu two": 0,
        "lag_seconds eu one": 0,
        "lag_seconds eu two": 0,
    }
    assert rows == [30, 30]
