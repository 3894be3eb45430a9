"""`hop pipeline`: the jobs on Spark."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from hopring.cli.exits import Exit, Failure
from hopring.cli.pipeline_run import run
from hopring.cli.progress_line import Steps
from hopring.errors import HopError
from hopring.spark.audit.findings import as_json_text, as_text
from hopring.spark.audit.reading import Ends

if TYPE_CHECKING:
    from hopring.spark.audit import AuditReport


@click.group()
def pipeline() -> None:
    """Jobs on Spark, on this machine or on a cluster. Needs the extras `spark` and, without Java, `jdk`."""


pipeline.add_command(run)


@pipeline.command()
@click.option(
    "--trace",
    metavar="DIR",
    required=True,
    help="Parquet files or JSON lines of one history, or of many in directories run=NAME.",
)
@click.option("--quiet-end", is_flag=True, help="All had come to rest at the end: judge liveness too.")
@click.option(
    "--component",
    "components",
    metavar="A,B..",
    multiple=True,
    help="Daemons that could reach each other at the end; may be repeated. Judges 2.16 too.",
)
@click.option("--counters-lost", is_flag=True, help="A restarted daemon may have lost its counter of views.")
@click.option(
    "--sessions",
    is_flag=True,
    help="Daemons had several clients each: leave out 2.11, which each of these is promised by itself.",
)
@click.option("--master", metavar="URL", help="A cluster, as spark://HOST:7077. Default: this machine.")
@click.option("--remote", metavar="sc://..", help="A Spark Connect server.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of text.")
@click.pass_context
def audit(
    ctx: click.Context,
    trace: str,
    quiet_end: bool,
    components: tuple[str, ...],
    counters_lost: bool,
    sessions: bool,
    master: str | None,
    remote: str | None,
    as_json: bool,
) -> None:
    """Judge a trace by the properties of extended virtual synchrony, daemons and clients alike.

    Each property is a query that returns its violations; the verdicts are those that `hop sim` gives. Exit
    code 1 means that one is broken, and then there is a witness: what happened, and where in the trace.
    """
    if master and remote:
        raise click.UsageError("--master and --remote do not go together")
    parts = tuple(frozenset(filter(None, one.split(","))) for one in components) or None
    ends = Ends(quiet_end, parts, not counters_lost, sessions)
    try:
        report = _audit(trace, ends, master, remote)
    except HopError as error:
        raise Failure(str(error)) from None
    click.echo(as_json_text(report) if as_json else as_text(report))
    ctx.exit(Exit.OK if report.holds else Exit.FAILURE)


def _audit(trace: str, ends: Ends, master: str | None, remote: str | None) -> "AuditReport":
    from hopring.spark import session  # noqa: PLC0415  Slow to load, and help should not wait for it.
    from hopring.spark.audit import audit as judge  # noqa: PLC0415
    from hopring.spark.audit.reading import (  # noqa: PLC0415
        as_parquet,
        must_be_there,
        read_trace,
    )

    must_be_there(trace)
    with Steps() as steps, as_parquet(Path(trace)) as files:
        steps.say("starting Spark")
        spark = session("hop pipeline audit", master, remote)
        try:
            found = read_trace(spark, str(files) if files else trace)
            return judge(spark, found, trace, otherwise=ends, say=steps.say)
        finally:
            spark.stop()
