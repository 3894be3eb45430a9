"""The audit of clients agrees with the plain checker of EVS-C, on right and on wrong histories."""

from pathlib import Path
from typing import Any

import pytest
from tests.campaign.caught import CAUGHT
from tests.spark.client_histories import QUIET, ClientHistories
from tests.spark.histories import Histories
from tests.unit.check.evs_c_notation import client_history

from hopring.check.judge import check_evs_c
from hopring.spark.audit import CLIENT_NAMES, AuditReport, Ends, audit, audit_clients, read_trace

VS = "EVS-C 2.7 virtual synchrony"
WITHOUT = """
    a: view red 1.1 ab | send 1 | got a:1 | view red 1.2 abc
    b: view red 1.1 ab | view red 1.2 abc | got a:1
"""

pytestmark = pytest.mark.spark


def judged(spark: Any, histories: ClientHistories) -> dict[str, set[str]]:
    """The properties of clients that the queries find broken; the kernel names the same events."""
    trace = read_trace(spark, str(histories.directory))
    report = audit_clients(spark, trace, ends=histories.ends)
    assert of_clients(audit(spark, trace, ends=histories.ends, engine="kernel")) == of_clients(report)
    return {run: report.broken(run) for run in histories.broken}


def of_clients(report: AuditReport) -> list[tuple[str, str, dict[str, str | int]]]:
    """The first violation of each broken property of clients."""
    return [
        (one.run, one.property, dict(one.facts))
        for one in report.violations
        if one.property in CLIENT_NAMES and one.rank == 1
    ]


def test_the_properties_are_those_of_the_plain_checker_in_its_order() -> None:
    assert [verdict.property for verdict in check_evs_c([], True, [])] == list(CLIENT_NAMES)


@pytest.mark.slow
def test_both_checkers_agree_on_handwritten_histories(spark: Any, tmp_path: Path) -> None:
    histories = ClientHistories(tmp_path)
    histories.add_by_hand()

    assert judged(spark, histories) == histories.broken
    assert set().union(*histories.broken.values()) == set(CLIENT_NAMES)


@pytest.mark.long
@pytest.mark.slow
def test_both_checkers_agree_on_handwritten_histories_in_one_report_with_daemons(
    spark: Any, tmp_path: Path
) -> None:
    histories, daemons = ClientHistories(tmp_path), Histories(tmp_path)
    histories.add_by_hand()
    histories.add("clients", client_history(WITHOUT), QUIET)
    daemons.add_lines("a: view 1 ab | send 1 | deliver a:1 | view 2 ab\nb: view 1 ab | view 2 ab", Ends())

    trace, ends = read_trace(spark, str(tmp_path)), histories.ends | daemons.ends
    report = audit(spark, trace, ends=ends, engine="queries")
    kernel = audit(spark, trace, ends=ends, engine="kernel")

    assert of_clients(kernel) == of_clients(report)
    assert {one.run: kernel.broken(one.run) for one in kernel.findings} == {
        one.run: report.broken(one.run) for one in report.findings
    }
    assert kernel.judged == report.judged
    found = {run: report.broken(run) & set(CLIENT_NAMES) for run in histories.broken}
    assert found == histories.broken
    assert set().union(*found.values()) == set(CLIENT_NAMES)
    assert report.broken("lines") == daemons.broken["lines"] != set()
    assert [name for name in report.judged["lines"] if name in CLIENT_NAMES] == []
    assert [name for name in report.judged["clients"] if name in CLIENT_NAMES] == list(CLIENT_NAMES)
    assert "2.11 FIFO messages" not in report.judged["clients"]
    (witness,) = [
        finding.witness for finding in report.findings if (finding.run, finding.property) == ("clients", VS)
    ]
    assert witness == "a/1:1 was delivered in red 1.1, and b/1, moving along from there, did not"


@pytest.mark.interpreted
@pytest.mark.long
@pytest.mark.slow
def test_both_checkers_agree_on_a_campaign_with_clients_and_all_planted_bugs(
    spark: Any, tmp_path: Path
) -> None:
    histories = ClientHistories(tmp_path)
    histories.add_campaign(range(1, 21))
    histories.add_bugs(sorted(CAUGHT))

    assert judged(spark, histories) == histories.broken
    assert all(CAUGHT[name][1] in histories.broken[f"bug-{name}"] for name in CAUGHT)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("seed", [3, 5, 12, 27])
def test_both_checkers_agree_on_every_kind_of_alteration(spark: Any, tmp_path: Path, seed: int) -> None:
    histories = ClientHistories(tmp_path)
    histories.add_altered([seed], of_each=4)

    assert judged(spark, histories) == histories.broken


@pytest.mark.slow
def test_the_loss_of_an_executor_does_not_spoil_the_audit(spark: Any, tmp_path: Path) -> None:
    histories = ClientHistories(tmp_path)
    histories.add("clients", client_history(WITHOUT), QUIET)
    steps: list[str] = []

    def say(step: str) -> None:
        steps.append(step)
        if step == "holders of messages" and steps.count(step) == 1:
            lose_kept_blocks(spark)

    report = audit_clients(spark, read_trace(spark, str(tmp_path)), ends=histories.ends, say=say)

    assert steps.count("once more: an executor was lost") == 1
    assert report.broken("clients") == histories.broken["clients"] != set()


def lose_kept_blocks(spark: Any) -> None:
    """Drops all that executors keep, as if they had ended."""
    for number in list(spark.sparkContext._jsc.getPersistentRDDs()):
        spark.sparkContext._jsc.sc().unpersistRDD(number, True)
