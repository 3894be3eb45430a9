"""`hop pipeline`: Spark jobs that audit traces and turn spools into tables and a report."""

from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from hopring.cli.pipeline.serve import serve
from hopring.cli.pipeline.table_options import check_tables, table_options, with_tables
from hopring.cli.progress import Steps
from hopring.cli.terminal import Exit, Failure, say, say_lines
from hopring.config import ConfigError, load_config
from hopring.errors import HopError
from hopring.local.plan import read_duration
from hopring.spark.audit.reading import Ends
from hopring.spark.audit.size import ENGINES, Engine
from hopring.spark.audit.witness import as_json_text, as_text

if TYPE_CHECKING:
    from hopring.spark.audit import AuditReport


_ENGINE_HELP = "kernel: one worker judges a history; queries: for histories beyond its memory; auto: by size."


@click.group()
def pipeline() -> None:
    """Run Spark jobs, on this machine or on a cluster. Needs the extras `spark` and, without Java, `jdk`."""


pipeline.add_command(serve)


@pipeline.command()
@click.option(
    "--trace",
    metavar="DIR",
    required=True,
    help="Parquet files or JSON lines of one history, or of many in directories run=NAME.",
)
@click.option("--quiet-end", is_flag=True, help="The trace ends at rest: check liveness too.")
@click.option(
    "--component",
    "components",
    metavar="A,B..",
    multiple=True,
    help="Daemons that could reach each other at the end; may be repeated. Checks 2.16 too.",
)
@click.option("--counters-lost", is_flag=True, help="A restarted daemon may have lost its counter of views.")
@click.option(
    "--sessions",
    is_flag=True,
    help="Daemons had several clients each: skip 2.11, which holds for each client by itself.",
)
@click.option("--engine", type=click.Choice(ENGINES), default="auto", show_default=True, help=_ENGINE_HELP)
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
    engine: Engine,
    master: str | None,
    remote: str | None,
    as_json: bool,
) -> None:
    """Check a trace against the properties of extended virtual synchrony, of daemons and of clients.

    The verdicts are those of `hop sim`. Exit code 1 means that a property is broken, and then a witness shows
    what happened and where in the trace.
    """
    if master and remote:
        raise click.UsageError("--master and --remote do not go together")
    parts = tuple(frozenset(filter(None, one.split(","))) for one in components) or None
    ends = Ends(quiet_end, parts, not counters_lost, sessions)
    try:
        report = _audit(trace, ends, engine, master, remote)
    except HopError as error:
        raise Failure(str(error)) from None
    if as_json:
        click.echo(as_json_text(report))
    else:
        say_lines(as_text(report))
    ctx.exit(Exit.OK if report.holds else Exit.FAILURE)


def _audit(trace: str, ends: Ends, engine: Engine, master: str | None, remote: str | None) -> "AuditReport":
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
            return judge(spark, found, trace, otherwise=ends, say=steps.say, engine=engine)
        finally:
            spark.stop()


if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hopring.spark.audit.witness import AuditReport
    from hopring.spark.pipeline.store import PipelineOptions


@pipeline.command()
@click.option(
    "--spool",
    "spools",
    metavar="[NAME=]DIR",
    multiple=True,
    help="Spools of one spooler; may be repeated. NAME defaults to that of the directory.",
)
@click.option("--trace", metavar="DIR", type=click.Path(path_type=Path), help="Traces of all daemons.")
@click.option(
    "--out",
    metavar="DIR",
    required=True,
    help="Directory for the tables; a URI for another file system, as hdfs://..",
)
@click.option("--config", metavar="FILE", type=click.Path(), help="Configuration, for the sites of daemons.")
@click.option("--stream", is_flag=True, help="Follow spools and trace until Ctrl-C; tables and report follow.")
@click.option("--until-idle", is_flag=True, help="With --stream: end when all that is there has been read.")
@click.option(
    "--late",
    "late_us",
    metavar="TIME",
    default="10min",
    show_default=True,
    callback=lambda _context, _parameter, text: _duration_us(text),
    help="With --stream: rows older than the newest by this are listed as late.",
)
@click.option("--quiet-end", is_flag=True, help="The trace ends at rest: check liveness too.")
@click.option("--component", "components", metavar="A,B..", multiple=True, help="As for hop pipeline audit.")
@click.option("--counters-lost", is_flag=True, help="A restarted daemon may have lost its counter of views.")
@click.option("--sessions", is_flag=True, help="Daemons had several clients each; implied by --spool.")
@click.option("--engine", type=click.Choice(ENGINES), default="auto", show_default=True, help=_ENGINE_HELP)
@click.option("--report/--no-report", default=True, help="Whether to make report.html.")
@table_options
@click.option("--master", metavar="URL", help="A cluster, as spark://HOST:7077. Default: this machine.")
@click.option("--remote", metavar="sc://..", help="A Spark Connect server.")
@click.pass_context
def run(
    ctx: click.Context,
    spools: tuple[str, ...],
    trace: Path | None,
    out: str,
    config: str | None,
    stream: bool,
    until_idle: bool,
    late_us: int,
    quiet_end: bool,
    components: tuple[str, ...],
    counters_lost: bool,
    sessions: bool,
    engine: Engine,
    report: bool,
    master: str | None,
    remote: str | None,
) -> None:
    """Make tables, an audit and a report of spools and traces.

    DIR then has bronze/ (the records as they came in), silver/ (one table of messages for all spools, and what
    is missing in which), gold/ (measurements), audit.json and report.html. Tables of an earlier run are
    replaced, each atomically. Exit code 1 means that a property is broken, and then a witness shows it.
    """
    if master and remote:
        raise click.UsageError("--master and --remote do not go together")
    if not spools and trace is None:
        raise click.UsageError("give --spool, --trace or both")
    if until_idle and not stream:
        raise click.UsageError("--until-idle goes with --stream")
    check_tables(stream=stream, out=out)
    parts = tuple(frozenset(filter(None, one.split(","))) for one in components) or None
    # Spoolers are sessions, and senders are others.
    ends = Ends(quiet_end, parts, not counters_lost, sessions or bool(spools))
    try:
        wish = with_tables(_wish(out, spools, trace, config, ends, stream, until_idle, report, engine, late_us))
        found = _run(wish, master, remote)
    except ConfigError:
        raise  # It has an exit code of its own.
    except HopError as error:
        raise Failure(str(error)) from None
    if found is not None:
        say_lines(as_text(found))
    say(f"tables in {out}" + (f", report in {out.rstrip('/')}/report.html" if report else ""))
    ctx.exit(Exit.OK if found is None or found.holds else Exit.FAILURE)


def _wish(
    out: str,
    spools: tuple[str, ...],
    trace: Path | None,
    config: str | None,
    ends: Ends,
    stream: bool,
    until_idle: bool,
    report: bool,
    engine: Engine,
    late_us: int,
) -> "PipelineOptions":
    from hopring.spark.audit.reading import must_be_there  # noqa: PLC0415  Help should not wait for it.
    from hopring.spark.session import must_be_installed  # noqa: PLC0415

    must_be_installed()
    from hopring.spark.pipeline.store import PipelineOptions, named_spools, sites_of  # noqa: PLC0415

    if trace is not None and not (stream and trace.is_dir()):  # Files of a stream may come later.
        must_be_there(str(trace))
    sites = {} if config is None else sites_of(load_config(config))
    wish = PipelineOptions(out, named_spools(spools), trace, sites, ends, stream, until_idle, report, engine)
    return msgspec.structs.replace(wish, late_seconds=late_us / 1_000_000)


def _duration_us(text: str) -> int:
    try:
        return read_duration(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _run(wish: "PipelineOptions", master: str | None, remote: str | None) -> "AuditReport | None":
    from hopring.spark import session  # noqa: PLC0415  Slow to load.
    from hopring.spark.errors import readable  # noqa: PLC0415
    from hopring.spark.pipeline import Store, output_files, run  # noqa: PLC0415
    from hopring.spark.pipeline.files import is_elsewhere  # noqa: PLC0415
    from hopring.spark.pipeline.store import on_disk  # noqa: PLC0415

    out = str(wish.out)
    made: list[SparkSession] = []

    def start() -> "SparkSession":
        made.append(session("hop pipeline run", master, remote))
        return made[0]

    def opened(spark: "SparkSession | None") -> Store:
        with on_disk(out), readable(out):
            store = Store(output_files(out, spark))
            if store.open():
                fate = "its stream goes on, if it is one" if wish.stream else "its tables are replaced"
                say(f"hop: {out} is of an earlier run: {fate}", err=True)
        return store

    # Only Spark reaches a directory elsewhere; here Spark starts while the trace is converted.
    store = None if is_elsewhere(out) else opened(None)
    with Steps() as steps:
        steps.say("starting Spark")
        try:
            if store is None:
                spark = start()
                return run(spark, wish, opened(spark), steps.say)
            return run(start, wish, store, steps.say)
        finally:
            for one in made:
                one.stop()
