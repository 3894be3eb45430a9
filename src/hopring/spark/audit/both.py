"""The audit of a whole trace: daemons by extended virtual synchrony, and the sessions in it by EVS-C."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from hopring.spark.audit import judge
from hopring.spark.audit.clients.judge import audit_clients
from hopring.spark.audit.clients.read import has_daemons, runs_with_sessions
from hopring.spark.audit.ends import Ends
from hopring.spark.audit.judge import Report
from hopring.spark.audit.tables import Say
from hopring.spark.errors import readable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def audit(
    spark: "SparkSession",
    trace: "DataFrame",
    where: str = "trace",
    ends: Mapping[str, Ends] | None = None,
    otherwise: Ends = Ends(),  # noqa: B008  It never changes.
    say: Say = lambda _words: None,
) -> Report:
    """Judges every history in the trace, which `read_trace` gives; `ends` says by run how they ended.

    Each is judged by what is in it: rows of daemons, of sessions, or of both.
    """
    known = dict(ends or {})
    with readable(where):
        with_sessions = runs_with_sessions(trace)
        alone = bool(with_sessions) and not has_daemons(trace)
    if not with_sessions:
        return judge.audit(spark, trace, where, known, otherwise, say)
    clients = audit_clients(spark, trace, where, known, otherwise, say)
    if alone:
        return clients
    # Where daemons have clients, 2.11 is promised to each of these by itself.
    of_daemons = known | {run: replace(known.get(run, otherwise), many_sessions=True) for run in with_sessions}
    return together(judge.audit(spark, trace, where, of_daemons, otherwise, say), clients)


def together(daemons: Report, clients: Report) -> Report:
    """Both in one; of a history, what its daemons broke comes first, being nearer to the cause."""
    runs = tuple(sorted({*daemons.runs, *clients.runs}))
    judged = {run: (*daemons.judged.get(run, ()), *clients.judged.get(run, ())) for run in runs}
    findings = sorted((*daemons.findings, *clients.findings), key=lambda finding: finding.run)
    return Report(runs, tuple(findings), judged)
