"""`hop demo`: groups across three sites through a partition and a merge, in under a minute."""

import asyncio
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final, NoReturn

import click
import msgspec

from hopring import __version__
from hopring.check.rmp.peer_trace import PeerTraceError
from hopring.check.trace_files import TraceError
from hopring.cli.terminal import Exit, Failure, say
from hopring.cli.up import hold, where
from hopring.demo import summary
from hopring.demo.figures import DemoFigures, DemoResult, changes
from hopring.demo.peers import has_peers, judge_peers, lines_of, perform_with_peers
from hopring.demo.scenario import DELAYS, PATIENCE, SITES
from hopring.demo.screen import DemoScreen
from hopring.demo.story import DemoStory
from hopring.demo.summary import (
    LEFT_OUT,
    TRACE_FILE,
    DemoRecord,
    StartingSession,
    judge,
    judge_again,
    lacking,
    run_pipeline,
    write_down,
)
from hopring.errors import HopError
from hopring.local.blocking import Cluster
from hopring.local.ports import tcp_free
from hopring.local.process import ClusterError
from hopring.session.frames import CLIENT_PORT_DEFAULT
from hopring.spark.audit.reading import Ends

LIMIT_SECONDS_DEFAULT: Final = 48.0
"""With phases of the default length; longer ones add to it."""

PHASE_SECONDS_DEFAULT: Final = 4.0


@click.command()
@click.option(
    "--seconds-per-phase",
    "seconds",
    type=click.FloatRange(0.5, 60),
    default=PHASE_SECONDS_DEFAULT,
    show_default=True,
    help="Length of each calm phase: together, apart, together again.",
)
@click.option(
    "--limit-seconds",
    "limit",
    type=click.FloatRange(1, 600),
    help=f"Time limit of the whole run.  [default: {LIMIT_SECONDS_DEFAULT:g}, and more for longer phases]",
)
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory for traces and logs.  [default: out/demo-TIME]",
)
@click.option(
    "--engine",
    type=click.Choice(["hop", "rmp"]),
    default="hop",
    show_default=True,
    help="Daemons in three sites, or five peers without daemons, which are split three to two.",
)
@click.option("--no-spark", is_flag=True, help="Leave out the pipeline on Spark and its report.")
@click.option("--hold", "holds", is_flag=True, help="Keep the cluster up afterwards, until Ctrl-C.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of text.")
@click.option(
    "--judge",
    "judged",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Run nothing; check the trace of an earlier run in DIR.",
)
@click.pass_context
def demo(
    ctx: click.Context,
    seconds: float,
    limit: float | None,
    out: Path | None,
    engine: str,
    no_spark: bool,
    holds: bool,
    as_json: bool,
    judged: Path | None,
) -> None:
    """Split and merge three sites, or five peers, and judge what was seen.

    Six daemons run as processes of their own; packets between the sites are delayed in front of their sockets.
    A client at each of them sends Agreed and Safe messages to groups. The network is cut, and healed again. At
    the end the histories of clients and daemons are judged by the properties of extended virtual synchrony.
    Exit code 1 means that one is broken, or that views did not come in time.

    With --engine rmp five peers form a group that needs a majority. Three go on after a split, and two are
    suspended until they come back as new members. The traces of all are judged by the properties of rings.

    Then the pipeline on Spark makes a report of what was recorded: one page, with pictures. It takes about a
    minute more; where Spark or Java is not installed, it says what to install.
    """
    if judged is not None:
        ctx.exit(_judge_peers_again(judged, as_json) if has_peers(judged) else _judge_again(judged, as_json))
    directory = _directory(out)
    if engine == "rmp":
        if holds:
            raise click.UsageError("--hold is for daemons: peers end with their programs")
        ctx.exit(_demonstrate_peers(directory, seconds, as_json))
    began_seconds = time.monotonic()
    limit = limit or LIMIT_SECONDS_DEFAULT + 3 * max(0.0, seconds - PHASE_SECONDS_DEFAULT)
    with DemoScreen(quiet=as_json) as screen:
        screen.show(summary.opening())
        screen.doing("starting six daemons")
        port = CLIENT_PORT_DEFAULT if holds and tcp_free(CLIENT_PORT_DEFAULT) else None
        cluster = Cluster(SITES, DELAYS, directory=directory, patience=PATIENCE, client_port=port)
        why_not = LEFT_OUT if no_spark else lacking()
        with ExitStack() as stack:
            try:
                with cluster:
                    story = _perform(cluster, screen, seconds, began_seconds, limit)
                    # Java starts while the daemons still run, but after all that is measured of them.
                    starting = None if why_not else StartingSession()
                    if starting is not None:
                        stack.callback(starting.stop)
                    facts = _judged(cluster, screen, story, began_seconds)
                    screen.show(summary.closing(facts))
                    if holds:
                        facts = _report(facts, screen, why_not, starting, as_json)
                        _hold(cluster)
            except ClusterError as error:
                raise Failure(str(error)) from None
            if not holds:  # Spark has the machine for itself when the daemons have ended.
                facts = _report(facts, screen, why_not, starting, as_json)
    ctx.exit(Exit.OK if facts.ok else Exit.FAILURE)


def _demonstrate_peers(directory: Path, seconds: float, as_json: bool) -> Exit:
    with DemoScreen(quiet=as_json) as screen:
        try:
            facts = perform_with_peers(directory, screen, seconds)
        except* HopError as errors:
            raise Failure(str(errors.exceptions[0])) from None
        if not as_json:
            screen.show(*lines_of(facts))
    if as_json:
        click.echo(msgspec.json.encode(facts))
    return Exit.OK if facts.ok else Exit.FAILURE


def _judge_peers_again(directory: Path, as_json: bool) -> Exit:
    try:
        events, verdicts = judge_peers(directory)
    except PeerTraceError as error:
        raise Failure(str(error)) from None
    broken = {one.property: one.witness for one in verdicts if not one}
    if as_json:
        click.echo(
            msgspec.json.encode({"events": events, "held": len(verdicts) - len(broken), "broken": broken})
        )
    else:
        for name, witness in broken.items():
            say(f"! {name} is broken: {witness}")
        say(f"{len(verdicts) - len(broken)} properties hold in {events} events of all traces")
    return Exit.FAILURE if broken else Exit.OK


def _perform(
    cluster: Cluster, screen: DemoScreen, seconds: float, began_seconds: float, limit: float
) -> DemoStory:
    story = DemoStory(cluster, screen, seconds, began_seconds + limit - time.monotonic())
    try:
        asyncio.run(story.perform())
    except* HopError as errors:
        _tell(cluster, errors)
    return story


def _judged(cluster: Cluster, screen: DemoScreen, story: DemoStory, began_seconds: float) -> DemoResult:
    screen.doing("judging what was recorded")
    recorded = DemoRecord(cluster.daemons, story.quiet, story.marks)
    file = write_down(cluster.directory, story.history, recorded)
    judged = judge(story.history, story.quiet, cluster.daemons)
    figures = DemoFigures(story.seen_by_clients, story.marks)
    return DemoResult(
        ok=all(one.good for one in judged) and not story.problems,
        version=__version__,
        seconds=round(time.monotonic() - began_seconds, 1),
        flows=figures.flows(),
        latencies=figures.latencies(),
        changes=changes(story.arrivals, story.primary),
        reached=figures.reached(),
        clients=figures.clients(),
        judged=judged,
        trace=str(file),
        spools={site: str(one.root) for site, one in story.spoolers.items()},
        problems=story.problems,
    )


def _report(
    facts: DemoResult,
    screen: DemoScreen,
    why_not: str | None,
    starting: StartingSession | None,
    as_json: bool,
) -> DemoResult:
    """Runs the pipeline, if wanted and possible, and prints the last lines."""
    if starting is not None:
        facts = _with_report(facts, screen, starting)
    else:
        facts = replace(facts, pipeline=why_not or "")
    if as_json:
        click.echo(msgspec.json.encode(facts))
    screen.show(summary.last_line(facts))
    return facts


def _with_report(facts: DemoResult, screen: DemoScreen, starting: StartingSession) -> DemoResult:
    daemons = frozenset(one.daemon for one in facts.clients)
    ends = Ends(quiet=True, components=(daemons,)) if not facts.problems else Ends()
    spools = {site: Path(directory) for site, directory in facts.spools.items()}
    trace = Path(facts.trace)
    began_seconds = time.monotonic()
    try:
        with screen.steps() as say:
            say("starting Spark")
            outcome = run_pipeline(spools, trace, trace.parent, ends, say, starting)
    except HopError as error:
        return replace(facts, ok=False, pipeline=f"the pipeline failed: {error}")
    verdict = "all properties hold" if outcome.holds else "a property is broken: see the report"
    told = f"pipeline on Spark: {verdict}; took {time.monotonic() - began_seconds:.0f} s"
    return replace(facts, ok=facts.ok and outcome.holds, report=str(outcome.report), pipeline=told)


def _tell(cluster: Cluster, errors: BaseExceptionGroup[HopError]) -> NoReturn:
    """Raises the failure; a daemon that has ended is the reason for all other errors."""
    cluster.check()
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    raise Failure(str(error)) from None


def _judge_again(directory: Path, as_json: bool) -> Exit:
    try:
        judged = judge_again(directory)
    except TraceError as error:
        raise Failure(str(error)) from None
    if as_json:
        click.echo(msgspec.json.encode(judged))
    else:
        with DemoScreen(quiet=False) as screen:
            screen.show(*[line for one in judged for line in summary.judged(one)])
    return Exit.OK if all(one.good for one in judged) else Exit.FAILURE


def _hold(cluster: Cluster) -> None:
    try:
        for name, url in where(cluster).items():
            say(f"hop: {name} is at {url}", err=True)
        ours = any(url.endswith(f":{CLIENT_PORT_DEFAULT}") for url in where(cluster).values())
        option = "" if ours else f" --at {cluster.url(cluster.daemons[0])}"
        say(f"hop: try `hop sub news{option}` and `hop pub news hello{option}`; Ctrl-C ends it", err=True)
        hold(cluster)
    except KeyboardInterrupt:
        say("hop: ending all daemons", err=True)


def _directory(out: Path | None) -> Path:
    directory = Path("out") / f"demo-{time.strftime('%Y%m%d-%H%M%S')}" if out is None else out
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or error
        raise Failure(
            f"{directory}: no directory can be made there ({reason}); choose another with --out"
        ) from None
    if (directory / TRACE_FILE).exists() or any(directory.glob("*.jsonl")):
        raise Failure(f"{directory} has the trace of an earlier run; choose another with --out")
    return directory
