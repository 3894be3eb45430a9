"""Both engines of the audit agree with the plain checker and with each other, on right and wrong histories."""

from pathlib import Path
from typing import Any

import pytest
from tests.spark.histories import CATCHING, SHORT_CATCHING, Histories, JudgedRuns, jobs_of, work_of
from tests.unit.check.evs_notation import history

pytest.importorskip("numpy", reason="needs Spark: make spark")

from hopring.bench.suite.audit import PLANTED_FILE, AuditWish, verdict, write_daemons
from hopring.check.judge import check_evs
from hopring.sim.campaign.bugs.planting import all_bugs
from hopring.spark.audit import NAMES, AuditReport, Ends, audit, read_trace
from hopring.spark.errors import ForeignInput

SAFE = "a:1 was delivered as safe in view 1"

LINES = """
    a: view 1 ab | send 1 safe | deliver a:1 | view 2 ab
    b: view 1 ab | view 2 ab
"""
UNLIKE = """
    a: view 1 abc
    b: view 1 abc
    c: view 1 ab with c
"""
OTHER_SETS = """
    a: view 1 abc | view 2 abc with ab
    b: view 1 abc | view 2 abc with ab
    c: view 1 abc | view 2 abc
"""
FROM_NOBODY = """
    a: view 1 ab | deliver c:1 | deliver b:7 as agreed lts 9
    b: view 1 ab | deliver c:1
    c: view 1 abc | send 1
"""

pytestmark = pytest.mark.spark


def first_facts(report: AuditReport) -> dict[tuple[str, str], dict[str, Any]]:
    """By run and broken property: the names in its first witness."""
    return {(one.run, one.property): dict(one.facts) for one in report.violations if one.rank == 1}


def judged_by_both(spark: Any, histories: JudgedRuns) -> AuditReport:
    """The report of the queries; the kernel has the same verdicts and names the same events."""
    trace = read_trace(spark, str(histories.directory))
    queries, kernel = (
        audit(spark, trace, ends=histories.ends, engine=engine) for engine in ("queries", "kernel")
    )
    for report in (queries, kernel):
        assert {run: report.broken(run) for run in histories.broken} == histories.broken
    assert queries.judged == kernel.judged
    assert first_facts(queries) == first_facts(kernel)
    return queries


def witness_of(report: AuditReport, run: str, number: str) -> str:
    """The first witness of the property with this number."""
    return next(one.witness for one in report.findings if one.run == run and one.property.startswith(number))


def test_the_properties_are_those_of_the_plain_checker_in_its_order() -> None:
    assert [verdict.property for verdict in check_evs([], True, [])] == list(NAMES)


@pytest.mark.interpreted
@pytest.mark.slow
def test_both_engines_name_the_same_event_for_every_kind_of_fault(spark: Any, tmp_path: Path) -> None:
    histories = Histories(tmp_path)
    histories.add_models(range(3))
    histories.add_mutants(of_each=1)
    histories.add_campaign([20011, 20012, 20019])  # Short ones.
    histories.add_bugs(SHORT_CATCHING, SHORT_CATCHING)
    for run, text in (("unlike", UNLIKE), ("sets", OTHER_SETS), ("nobody", FROM_NOBODY), ("lines", LINES)):
        histories.add(run, history(text), Ends(True))

    report = judged_by_both(spark, histories)

    assert set().union(*histories.broken.values()) == set(NAMES)
    assert all(histories.broken[run] for run in histories.broken if run.startswith("bug-"))
    assert witness_of(report, "unlike", "2.20") == "a installed view 1 of {a b c}, c installed it of {a b}"
    assert witness_of(report, "nobody", "2.6") == "b:7 was delivered in view 1, but nobody sent it"
    sets = [one.witness for one in report.violations if (one.run, one.property[:3]) == ("sets", "2.4")]
    assert sets[-1] == (
        "(4) a installed view 2 with the transitional set {a b}, and from the same view came with another:"
        " c {a b c}"
    )
    lacking = "and b of its members neither delivered it nor ended there"
    assert witness_of(report, "lines", "2.14(2)") == f"{SAFE}, {lacking}"


BROKEN_WORK_MAX = 2.1
"""How many times the records of a sound history the queries of a broken one may read."""


@pytest.mark.long
@pytest.mark.slow
def test_the_queries_of_a_broken_history_read_at_most_twice_as_much_as_those_of_a_sound_one(
    spark: Any, tmp_path: Path
) -> None:
    read = {}
    for planted in (False, True):
        place = tmp_path / str(planted)
        place.mkdir()
        write_daemons(place, 50_000, AuditWish("queries", planted))
        before = jobs_of(spark)
        report = audit(spark, read_trace(spark, str(place)), engine="queries")
        read[planted] = work_of(spark, before)
        figures = verdict(report, place / PLANTED_FILE)  # Raises unless all five are found.

    print(f"records read: {read[False]} of a sound history, {read[True]} of one with five violations")
    assert figures["found"] == 5
    assert read[True] <= BROKEN_WORK_MAX * read[False]


@pytest.mark.interpreted
@pytest.mark.long
@pytest.mark.slow
def test_both_engines_agree_on_a_campaign_all_planted_bugs_and_many_alterations(
    spark: Any, tmp_path: Path
) -> None:
    histories = Histories(tmp_path)
    histories.add_models(range(60))
    histories.add_mutants(of_each=8)
    histories.add_campaign(range(1, 61))
    histories.add_bugs(name for name in CATCHING if name in all_bugs())

    judged_by_both(spark, histories)


@pytest.mark.slow
def test_the_kernel_judges_all_histories_in_one_job(spark: Any, tmp_path: Path) -> None:
    histories = Histories(tmp_path)
    histories.add_models(range(4))
    histories.add_lines(LINES)
    trace = read_trace(spark, str(tmp_path))
    before = jobs_of(spark)

    report = audit(spark, trace, ends=histories.ends)

    assert jobs_of(spark) - before == 1
    assert {run: report.broken(run) for run in histories.broken} == histories.broken
    assert [one.witness for one in report.findings] == [
        "a and b moved together from view 1 to view 2; a delivered a:1 at 3 us, b did not",
        "a delivered a:1 at 3 us in view 1, but b went on to view 2 without that message",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["kernel", "queries"])
def test_incomplete_histories_and_foreign_files_are_refused(spark: Any, tmp_path: Path, engine: Any) -> None:
    spark.range(3).write.parquet(str(tmp_path / "foreign"))
    with pytest.raises(ForeignInput, match="this is not a trace, it has no column schema"):
        read_trace(spark, str(tmp_path / "foreign"))

    histories = Histories(tmp_path / "half")
    histories.add_lines("a: view 1 a | send 1 | deliver a:1")
    whole = read_trace(spark, str(histories.directory))
    with pytest.raises(
        ForeignInput, match=r"rows of a#0000000000000001/0 are missing or there twice; give all"
    ):
        audit(spark, whole.where("position <> 2"), "half", engine=engine)
    with pytest.raises(ForeignInput, match="a trace of schema 7, and this hopring reads schema 1"):
        audit(spark, whole.withColumn("schema", whole["schema"] + 6), "new", engine=engine)


@pytest.mark.slow
def test_without_a_quiet_end_liveness_is_not_judged(users: Any, tmp_path: Path) -> None:
    histories = Histories(tmp_path)
    histories.add_lines("a: view 1 a | send 1", Ends())

    report = audit(users, read_trace(users, str(tmp_path)))

    assert report.holds
    assert [name for name in NAMES if name not in report.judged["lines"]] == [
        "2.15 self delivery",
        "2.17 termination of delivery",
        "2.16 membership precision",
    ]
