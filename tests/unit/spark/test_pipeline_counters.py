"""Counters of a pipeline: the page that Prometheus reads, and the lag of streams."""

import urllib.error
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.unit.spark.spooling import fill

from hopring.spark.audit.witness import AuditFinding, AuditReport
from hopring.spark.errors import SparkError

pytest.importorskip("pyspark", reason="needs Spark: make spark")

from hopring.spark.lag import GroupLag, lag_of
from hopring.spark.pipeline.counters import CountersPage, PipelineCounters
from hopring.spark.source.inventory import id_of

BROKEN = AuditReport(("",), (AuditFinding("", "2.5", 3, "twice"),), {"": ("2.5", "2.7")})


def samples(text: str) -> dict[tuple[str, ...], float]:
    found = [one for family in text_string_to_metric_families(text) for one in family.samples]
    return {(one.name, *one.labels.values()): one.value for one in found}


def test_the_page_has_all_figures_and_ends_with_its_block() -> None:
    counters = PipelineCounters()
    counters.batch("eu", 40)
    counters.batch("eu", 2)
    counters.lag("eu", {"gone": GroupLag(9, 1.0)})
    counters.lag("eu", {"a": GroupLag(7, 1.5), "b": GroupLag(3, None)})
    counters.audit(BROKEN)
    counters.gaps(2)
    counters.alerts(5)
    with CountersPage("0", counters) as page:
        url = f"http://127.0.0.1:{page.port}"
        with urllib.request.urlopen(f"{url}/metrics", timeout=60) as answer:
            assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
            found = samples(answer.read().decode())
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"{url}/", timeout=60)
        with pytest.raises(SparkError, match=r"Address already in use; choose another place for --metrics"):
            CountersPage(str(page.port), counters)
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"{url}/metrics", timeout=60)

    assert found == {
        ("hopring_pipeline_records_total", "eu"): 42,
        ("hopring_pipeline_batches_total", "eu"): 2,
        ("hopring_pipeline_lag_records", "eu", "a"): 7,
        ("hopring_pipeline_lag_records", "eu", "b"): 3,
        ("hopring_pipeline_lag_seconds", "eu", "a"): 1.5,
        ("hopring_pipeline_audits_total",): 1,
        ("hopring_pipeline_violations", "2.5"): 3,
        ("hopring_pipeline_violations", "2.7"): 0,
        ("hopring_pipeline_gaps_unexplained",): 2,
        ("hopring_pipeline_alerts_total",): 5,
    }
    assert counters.behind() == GroupLag(10, 1.5)


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        ("0.0.0.0:9464", "0.0.0.0 is not loopback, .*; give a port of loopback, and put a proxy"),
        ("here", "'here' is no ADDRESS:PORT"),
    ],
)
def test_a_page_beyond_loopback_is_refused(place: str, problem: str) -> None:
    with pytest.raises(SparkError, match=problem):
        CountersPage(place, PipelineCounters())


def test_the_lag_is_counted_in_records_and_in_the_time_between_appends(tmp_path: Path) -> None:
    spool = id_of(fill(tmp_path, "g", 40))  # Ten records an append, which are ten seconds apart.
    latest = {"g": {"offset": 40, "spool": spool}}

    def lag(offset: int, its: str = spool) -> GroupLag:
        return lag_of(tmp_path, {"g": {"offset": offset, "spool": its}}, latest)["g"]

    assert lag(40) == GroupLag(0, 0.0)
    assert lag(30) == GroupLag(10, 10.0)
    assert lag(5) == GroupLag(35, 30.0)
    assert lag(0) == GroupLag(40, 30.0)
    assert lag(20, "another") == GroupLag(40, None)
    assert lag_of(tmp_path, {}, latest) == {"g": GroupLag(40, None)}
    assert lag_of(tmp_path / "gone", {"g": 30}, latest) == {"g": GroupLag(10, None)}
