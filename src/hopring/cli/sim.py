"""`hop sim`: the fault campaign. Each seed is a cluster on a faulty network, and its history is checked."""

import os
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Final

import click
from rich import progress as rich

from hopring import compiled
from hopring.check.trace_files import TraceError, write_json_lines, write_parquet
from hopring.cli import sim_output as show
from hopring.cli.exits import Exit, Failure
from hopring.cli.progress import ProgressLine
from hopring.sim.campaign.bugs.planting import Bug, MisplacedBug, all_bugs, plant
from hopring.sim.campaign.parallel import CampaignTotals, SeedReport, run_many
from hopring.sim.campaign.runner import WorldOutcome, run_world
from hopring.sim.campaign.shrink import Shrinker
from hopring.sim.campaign.story import story
from hopring.sim.campaign.world import draw_world

SEEDS_DEFAULT: Final = 100
SEEDS_DEFAULT_WITH_BUG: Final = 2_000
LINK_COUNTERS_US: Final = 100_000
"""How often the links' counters are in a history that is written to a file."""

_Seed = click.IntRange(min=0)


@click.command()
@click.option(
    "--seeds",
    metavar="N",
    type=click.IntRange(min=1),
    help=f"Number of worlds to run, {SEEDS_DEFAULT} by default; with --bug at most this many, by default"
    f" {SEEDS_DEFAULT_WITH_BUG}.",
)
@click.option("--start", metavar="S", type=_Seed, default=1, show_default=True, help="The first seed.")
@click.option("--jobs", metavar="J", type=click.IntRange(min=1), help="Processes; default: one per processor.")
@click.option("--seed", metavar="S", type=_Seed, help="Run one world and print its events.")
@click.option(
    "--trace",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="With --seed or --shrink: write the history there, as JSON lines, and with pyarrow as Parquet.",
)
@click.option("--shrink", metavar="S", type=_Seed, help="Find the fewest faults that still break this world.")
@click.option("--clients", is_flag=True, help="Add clients: sessions that join groups and send to them.")
@click.option("--bug", "bug_name", metavar="NAME", help="Plant a bug first, and stop when it is caught.")
@click.option("--bugs", is_flag=True, help="List the bugs that can be planted.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of text.")
@click.pass_context
def sim(
    ctx: click.Context,
    seeds: int | None,
    start: int,
    jobs: int | None,
    seed: int | None,
    trace: Path | None,
    shrink: int | None,
    clients: bool,
    bug_name: str | None,
    bugs: bool,
    as_json: bool,
) -> None:
    """Run the fault campaign in the simulator.

    A seed draws a cluster, a network, a load and a schedule of crashes, cuts, pauses and loss. The daemons'
    real membership runs in it, in virtual time, and the history is judged by the properties of extended
    virtual synchrony. The same seed always gives the same history. With --clients the world is the same, and
    its load is sessions that connect, join groups, send to them, leave and end; a bug in groups implies it.

    Exit code 1 means that something is broken. That holds for planted bugs too: 1 says that the bug was caught,
    which is what one wants to see, and 0 that it got away.
    """
    _check_usage(seeds, seed, shrink, bugs, bug_name, trace)
    bug = _bug(bug_name)
    clients = clients or (bug is not None and bug.clients)
    if bug is not None and compiled.active():
        _again_interpreted()
    if bugs:
        click.echo(show.bugs(all_bugs().values(), as_json))
    elif seed is not None:
        ctx.exit(_replay(seed, clients, bug, trace, as_json))
    elif shrink is not None:
        ctx.exit(_shrink(shrink, clients, bug, trace, as_json))
    else:
        count = seeds or (SEEDS_DEFAULT_WITH_BUG if bug else SEEDS_DEFAULT)
        jobs = jobs or os.cpu_count() or 1
        ctx.exit(_campaign(range(start, start + count), jobs, clients, bug, as_json))


def _check_usage(
    seeds: int | None,
    seed: int | None,
    shrink: int | None,
    bugs: bool,
    bug_name: str | None,
    trace: Path | None,
) -> None:
    chosen = [
        name
        for name, given in {
            "--seeds": seeds is not None,
            "--seed": seed is not None,
            "--shrink": shrink is not None,
            "--bugs": bugs,
        }.items()
        if given
    ]
    if len(chosen) > 1:
        raise click.UsageError(f"{chosen[0]} and {chosen[1]} do not go together")
    if bugs and bug_name is not None:
        raise click.UsageError("--bugs and --bug do not go together")
    if trace is not None and seed is None and shrink is None:
        raise click.UsageError("--trace needs --seed or --shrink")


def _bug(name: str | None) -> Bug | None:
    if name is None:
        return None
    if name not in all_bugs():
        raise click.BadParameter(f"no bug {name!r}; hop sim --bugs lists them", param_hint="--bug")
    return all_bugs()[name]


def _again_interpreted() -> None:
    """Runs the command again in this process on the sources: a bug cannot be planted in compiled code."""
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], os.environ | {"HOPRING_PURE": "1"})


def _campaign(seeds: range, jobs: int, clients: bool, bug: Bug | None, as_json: bool) -> Exit:
    began_s = time.monotonic()
    tally = CampaignTotals()
    many = run_many(seeds, jobs, bug.name if bug else None, clients)
    with CampaignProgress(len(seeds)) as progress, closing(many) as reports:
        try:
            for report in reports:
                tally.add(report)
                progress.done(report)
                if bug is not None and report.failed:
                    break
        except MisplacedBug as error:
            raise Failure(str(error)) from None
        except KeyboardInterrupt:
            progress.note(f"{show.count(tally.seeds, 'seed')} were run, {len(tally.failed)} failed")
            raise
    seconds = time.monotonic() - began_s
    click.echo(show.campaign(tally, seeds, clients, bug, seconds, as_json))
    return Exit.FAILURE if tally.failed else Exit.OK


def _replay(seed: int, clients: bool, bug: Bug | None, trace: Path | None, as_json: bool) -> Exit:
    began_s = time.monotonic()
    world = draw_world(seed, clients)
    with plant(bug):
        outcome = run_world(world, 0 if trace is None else LINK_COUNTERS_US)
    files = _write_trace(trace, outcome)
    seconds = time.monotonic() - began_s
    if as_json:
        click.echo(show.one_json(outcome, seconds, files))
    else:
        click.echo("\n".join(story(world, outcome)))
    return Exit.FAILURE if outcome.broken else Exit.OK


def _shrink(seed: int, clients: bool, bug: Bug | None, trace: Path | None, as_json: bool) -> Exit:
    began_s = time.monotonic()
    with plant(bug), CampaignProgress(None) as progress:
        shrunk = Shrinker(draw_world(seed, clients), progress.shrinking).shrink()
    seconds = time.monotonic() - began_s
    if shrunk is None:
        click.echo(show.not_shrunk(seed, seconds, as_json))
        return Exit.OK
    files = _write_trace(trace, shrunk.outcome)
    click.echo(show.shrunk(shrunk, seconds, files, as_json))
    return Exit.FAILURE


def _write_trace(directory: Path | None, outcome: WorldOutcome) -> list[str]:
    if directory is None:
        return []
    lines = directory / f"seed-{outcome.seed}.jsonl"
    columns = directory / f"seed-{outcome.seed}.parquet"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with lines.open("wb") as file:
            write_json_lines(outcome.history, file)
        files = [str(lines)]
        try:
            write_parquet(outcome.history, columns)
            files.append(str(columns))
        except TraceError:
            pass  # Parquet is an extra; the lines say the same.
    except OSError as error:
        raise Failure(f"{directory}: cannot be written ({error.strerror or error})") from None
    for name in files:
        click.echo(f"hop: wrote {name}", err=True)
    return files


class CampaignProgress(ProgressLine):
    """Progress of a campaign, or of the runs that shrink one world."""

    def __init__(self, total: int | None) -> None:
        # It is drawn only when a world is done: a thread of its own would take time from the worlds.
        super().__init__(rich.TextColumn("[dim]{task.fields[words]}[/dim]"), auto_refresh=False)
        self._task = self._line.add_task("worlds", total=total, words="")
        self._failed = 0

    def done(self, report: SeedReport) -> None:
        """One world is done; a failed one is printed at once."""
        self._failed += report.failed
        if report.failed:
            self._err.print(f"seed {report.seed}: {report.broken[0].property}", style="red", markup=False)
        words = f"seed {report.seed}, {self._failed} failed"
        self._line.update(self._task, advance=1, words=words, refresh=True)

    def shrinking(self, runs: int, faults: int) -> None:
        """A smaller world is being tried."""
        self._line.update(self._task, advance=1, words=f"run {runs}, {faults} faults left", refresh=True)

    def note(self, text: str) -> None:
        """Prints a line below the progress line."""
        self._line.stop()
        self._err.print(f"hop: {text}", markup=False)
