"""The audit with Spark agrees with the plain checker, on right and on wrong histories."""

from pathlib import Path
from typing import Any

import pytest
from tests.spark.histories import CATCHING, Histories

from hopring.check.judge import check_evs
from hopring.sim.campaign.bugs.planting import all_bugs
from hopring.spark.audit import NAMES, Ends, audit, read_trace
from hopring.spark.errors import ForeignInput

SAFE = "a:1 was delivered as safe in view 1"

pytestmark = pytest.mark.spark


def judged(spark: Any, histories: Histories) -> dict[str, set[str]]:
    report = audit(spark, read_trace(spark, str(histories.directory)), ends=histories.ends)
    return {run: report.broken(run) for run in histories.broken}


def test_the_properties_are_those_of_the_plain_checker_in_its_order() -> None:
    assert [verdict.property for verdict in check_evs([], True, [])] == list(NAMES)


@pytest.mark.slow
def test_both_checkers_agree_on_every_kind_of_alteration(spark: Any, tmp_path: Path) -> None:
    histories = Histories(tmp_path)
    histories.add_models(range(6))
    histories.add_mutants(of_each=1)

    assert judged(spark, histories) == histories.broken
    assert len(set().union(*histories.broken.values())) == len(NAMES)


@pytest.mark.interpreted
@pytest.mark.slow
def test_both_checkers_agree_on_worlds_with_and_without_planted_bugs(spark: Any, tmp_path: Path) -> None:
    histories = Histories(tmp_path)
    histories.add_campaign(range(1, 7))
    histories.add_bugs(["duplicates-held", "together-with-all", "safe-unstable", "holes-in-store"])

    assert judged(spark, histories) == histories.broken
    assert all(histories.broken[run] for run in histories.broken if run.startswith("bug-"))


@pytest.mark.interpreted
@pytest.mark.long
@pytest.mark.slow
def test_both_checkers_agree_on_a_campaign_all_planted_bugs_and_many_alterations(
    spark: Any, tmp_path: Path
) -> None:
    histories = Histories(tmp_path)
    histories.add_models(range(60))
    histories.add_mutants(of_each=8)
    histories.add_campaign(range(1, 61))
    histories.add_bugs(name for name in CATCHING if name in all_bugs())

    assert judged(spark, histories) == histories.broken


@pytest.mark.slow
def test_a_witness_names_processes_messages_and_places(spark: Any, tmp_path: Path) -> None:
    histories = Histories(tmp_path)
    histories.add_lines(
        """
        a: view 1 ab | send 1 safe | deliver a:1 | view 2 ab
        b: view 1 ab | view 2 ab
        """
    )

    report = audit(spark, read_trace(spark, str(tmp_path)), ends=histories.ends)

    assert report.broken("lines") == histories.broken["lines"]
    assert [(finding.property.split()[0], finding.witness) for finding in report.findings] == [
        ("2.7", "a delivered a:1 in view 1, and b, which moved with it to view 2, did not"),
        ("2.14(2)", f"{SAFE}, and b of its members neither delivered it nor ended there"),
    ]


@pytest.mark.slow
def test_incomplete_histories_and_foreign_files_are_refused(spark: Any, tmp_path: Path) -> None:
    spark.range(3).write.parquet(str(tmp_path / "foreign"))
    with pytest.raises(ForeignInput, match="this is not a trace, it has no column schema"):
        read_trace(spark, str(tmp_path / "foreign"))

    histories = Histories(tmp_path / "half")
    histories.add_lines("a: view 1 a | send 1 | deliver a:1")
    whole = read_trace(spark, str(histories.directory))
    with pytest.raises(
        ForeignInput, match=r"rows of a#0000000000000001/0 are missing or there twice; give all"
    ):
        audit(spark, whole.where("position <> 2"), "half")
    with pytest.raises(ForeignInput, match="a trace of schema 7, and this hopring reads schema 1"):
        audit(spark, whole.withColumn("schema", whole["schema"] + 6), "new")


@pytest.mark.slow
def test_without_a_quiet_end_liveness_is_not_judged(spark: Any, tmp_path: Path) -> None:
    histories = Histories(tmp_path)
    histories.add_lines("a: view 1 a | send 1", Ends())

    report = audit(spark, read_trace(spark, str(tmp_path)))

    assert report.holds
    assert [name for name in NAMES if name not in report.judged["lines"]] == [
        "2.15 self delivery",
        "2.17 termination of delivery",
        "2.16 membership precision",
    ]
