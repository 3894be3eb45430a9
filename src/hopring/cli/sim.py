"""`hop sim`: the fault campaign. Each seed is a cluster on a faulty network, and its history is checked."""

import json
import os
import sys
import time
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Final

import click
from rich import progress as rich

from hopring import compiled
from hopring.check.trace_files import TraceError, write_json_lines, write_parquet
from hopring.cli.progress import ProgressLine
from hopring.cli.terminal import Exit, Failure, say
from hopring.sim.blocks.kinds import KINDS
from hopring.sim.campaign.bugs.planting import Bug, MisplacedBug, all_bugs, plant
from hopring.sim.campaign.parallel import CampaignTotals, SeedReport, WorkerEnded, run_many
from hopring.sim.campaign.runner import WorldOutcome
from hopring.sim.campaign.shrink import Shrinker, Shrunk
from hopring.sim.campaign.story import schedule_lines
from hopring.sim.campaign.world import CALLS_ONLY, DAEMONS_WORLD, WorldKind
from hopring.sim.campaign.worlds import WORLDS, CampaignWorld, aimed_first


def count(number: int, noun: str) -> str:
    """A number with its noun."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def render_bugs(known: Iterable[Bug], as_json: bool) -> str:
    """The list of bugs that can be planted."""
    if as_json:
        return json.dumps(
            {"bugs": [{"name": one.name, "breaks": one.breaks, "story": one.story} for one in known]}
        )
    rows = [(one.name, one.breaks, one.story) for one in known]
    names, rules = (max(len(row[at]) for row in rows) for at in (0, 1))
    return "\n".join(f"{name:{names}}  {breaks:{rules}}  {what}" for name, breaks, what in rows)


def render_campaign(
    tally: CampaignTotals, seeds: range, kind: WorldKind, bug: Bug | None, seconds: float, as_json: bool
) -> str:
    """The result of many seeds."""
    if as_json:
        return json.dumps(_campaign_facts(tally, seeds, kind, bug, seconds))
    lines: list[str] = []
    for report in tally.failed:
        first = report.broken[0]
        lines += [f"seed {report.seed}  {first.property}", f"  {first.witness}"]
    if bug is not None:
        lines.append(_caught(tally, bug))
    lines.append(
        f"{count(tally.seeds, 'seed')}, {count(tally.violations, 'violation')}, {tally.events} events,"
        f" {tally.views} views, {seconds:.0f} s, {_code()}"
    )
    if tally.failed:
        planted = f" --bug {bug.name}" if bug else kind.options
        lines.append(f"see it again: hop sim{planted} --seed {tally.failed[0].seed}")
    return "\n".join(lines)


def _code() -> str:
    return "compiled" if compiled.active() else "interpreted"


def _caught(tally: CampaignTotals, bug: Bug) -> str:
    if tally.failed:
        by = tally.failed[0].broken[0].property
        return f"{bug.name} was caught after {count(tally.seeds, 'seed')} by {by}"
    ran = f"its code ran {tally.planted_runs} times" if tally.planted_runs else "its code never ran"
    return f"{bug.name} was not caught; {ran}"


def _campaign_facts(
    tally: CampaignTotals, seeds: range, kind: WorldKind, bug: Bug | None, seconds: float
) -> dict[str, object]:
    facts: dict[str, object] = {
        "seeds": tally.seeds,
        "start": seeds.start,
        "world": kind.world,
        "clients": kind.clients,
        "sealed": kind.sealed,
        "calls": kind.calls,
        "blocks": list(kind.blocks),
        "resilient": kind.resilient,
        "violations": tally.violations,
        "failed_seeds": [one.seed for one in tally.failed],
        "failures": [_failure(one) for one in tally.failed],
        "events": tally.events,
        "views": tally.views,
        "seconds": round(seconds, 1),
        "compiled": compiled.active(),
    }
    if bug is not None:
        caught = tally.failed[0].broken[0].property if tally.failed else None
        facts |= {"bug": bug.name, "caught_by": caught, "planted_runs": tally.planted_runs}
    return facts


def _failure(one: SeedReport | WorldOutcome) -> dict[str, object]:
    broken = [{"property": verdict.property, "witness": verdict.witness} for verdict in one.broken]
    return {"seed": one.seed, "broken": broken}


def render_one_json(outcome: WorldOutcome, seconds: float, files: list[str]) -> str:
    """The result of one seed as JSON."""
    return json.dumps(_one_facts(outcome, seconds, files))


def _one_facts(outcome: WorldOutcome, seconds: float, files: list[str]) -> dict[str, object]:
    failed = bool(outcome.broken)
    return {
        "seeds": 1,
        "violations": len(outcome.broken),
        "failed_seeds": [outcome.seed] if failed else [],
        "failures": [_failure(outcome)] if failed else [],
        "events": outcome.events,
        "views": outcome.views,
        "seconds": round(seconds, 1),
        "compiled": compiled.active(),
        "trace": files,
    }


def render_not_shrunk(seed: int, seconds: float, as_json: bool) -> str:
    """The result for a seed that does not fail."""
    if as_json:
        facts = {"seeds": 1, "violations": 0, "failed_seeds": [], "events": 0, "seconds": round(seconds, 1)}
        return json.dumps(facts | {"compiled": compiled.active()})
    return f"seed {seed} does not fail"


def render_shrunk(small: Shrunk, told: list[str], seconds: float, files: list[str], as_json: bool) -> str:
    """The smallest failing world that was found."""
    world = small.world
    if as_json:
        facts = _one_facts(small.outcome, seconds, files)
        schedule = [[one.at_us, one.kind, list(one.what), one.number] for one in world.schedule]
        return json.dumps(facts | {"schedule": schedule, "load_per_second": world.load.per_second})
    return "\n".join(
        [
            *told,
            "",
            f"{count(len(world.schedule), 'fault')} of {small.faults_before} are needed"
            f" ({count(small.runs, 'run')}, {seconds:.0f} s, {_code()})",
            *schedule_lines(world.schedule),
        ]
    )


ALL_KINDS: Final = "all"
SEEDS_DEFAULT: Final = 100
SEEDS_DEFAULT_WITH_BUG: Final = 2_000
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
@click.option(
    "--world",
    "world_name",
    metavar="WORLD",
    type=click.Choice(sorted(WORLDS)),
    default=DAEMONS_WORLD,
    help="What runs in the worlds: " + "; ".join(f"{name}, {row.about}" for name, row in WORLDS.items()) + ".",
)
@click.option("--clients", is_flag=True, help="Add clients: sessions that join groups and send to them.")
@click.option("--calls", is_flag=True, help="Add clients, some of which send requests to each other.")
@click.option(
    "--blocks",
    metavar="KIND,...",
    is_flag=False,
    flag_value=ALL_KINDS,
    help=f"Add clients, and agents of some of these kinds, drawn by each world; without a list of all kinds:"
    f" {', '.join(KINDS)}.",
)
@click.option(
    "--sealed", is_flag=True, help="Seal all datagrams, with an attacker who has no key on the network."
)
@click.option(
    "--resilient", is_flag=True, help="Let messages ask for holders: 1 to 3 lost daemons, or a majority."
)
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
    world_name: str,
    clients: bool,
    calls: bool,
    blocks: str | None,
    sealed: bool,
    resilient: bool,
    bug_name: str | None,
    bugs: bool,
    as_json: bool,
) -> None:
    """Run the fault campaign in the simulator.

    A seed draws a cluster, a network, a load and a schedule of crashes, cuts, pauses and loss. The daemons'
    real membership runs in it, in virtual time, and the history is judged by the properties of extended
    virtual synchrony. The same seed always gives the same history. With --clients the world is the same, and
    its load is sessions that connect, join groups, send to them, leave and end; a bug in groups implies it.
    With --sealed daemons have a cluster key; an attacker copies, changes and makes up datagrams. TCP links of
    the simulator are not encrypted. With --resilient messages wait for holders, which is judged, too.

    With --world deployment daemons and clients are the processes that users run, on a simulated kernel with
    clocks, sockets and disks of its own, and are judged by what programs get from their sessions.

    With --world rmp there are no daemons: peers form rings of RMP among themselves, send with all services,
    join, leave and claim locks, and R1 to R17 are judged besides.

    Exit code 1 means that something is broken. That holds for planted bugs too: 1 says that the bug was caught,
    as it should be, and 0 that it was not.
    """
    _check_usage(seeds, seed, shrink, bugs, bug_name, trace)
    bug = _bug(bug_name)
    kinds = _kinds(calls, blocks, bug)
    kind = WorldKind(
        clients or bool(kinds) or (bug is not None and bug.clients),
        sealed or (bug is not None and bug.sealed),
        kinds,
        resilient or (bug is not None and bug.resilient),
        world_name if bug is None or bugs else bug.world,
    )
    _check_kind(kind, bug, world_name)
    if trace is not None and WORLDS[kind.world].run_traced is None:
        raise click.UsageError(f"--trace writes no histories of --world {kind.world}")
    if bug is not None and compiled.active():
        _again_interpreted()
    if bugs:
        click.echo(render_bugs([one for one in all_bugs().values() if one.world == world_name], as_json))
    elif seed is not None:
        ctx.exit(_replay(seed, kind, bug, trace, as_json))
    elif shrink is not None:
        ctx.exit(_shrink(shrink, kind, bug, trace, as_json))
    else:
        count = seeds or (SEEDS_DEFAULT_WITH_BUG if bug else SEEDS_DEFAULT)
        jobs = jobs or os.cpu_count() or 1
        ctx.exit(_campaign(range(start, start + count), jobs, kind, bug, as_json))


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


def _check_kind(kind: WorldKind, bug: Bug | None, world_name: str) -> None:
    """Peers have no daemons to add clients to, and a bug shows in one kind of world."""
    if kind.world != DAEMONS_WORLD and (kind.clients or kind.sealed or kind.resilient):
        raise click.UsageError(
            f"--clients, --calls, --blocks, --sealed and --resilient are for --world {DAEMONS_WORLD},"
            f" not for {kind.world}"
        )
    if bug is not None and world_name not in (DAEMONS_WORLD, bug.world):
        raise click.UsageError(f"{bug.name} is a bug of --world {bug.world}")


def _bug(name: str | None) -> Bug | None:
    if name is None:
        return None
    if name not in all_bugs():
        raise click.BadParameter(f"no bug {name!r}; hop sim --bugs lists them", param_hint="--bug")
    return all_bugs()[name]


def _kinds(calls: bool, blocks: str | None, bug: Bug | None) -> tuple[str, ...]:
    """The kinds of agents among which worlds draw."""
    if calls and blocks is not None:
        raise click.UsageError("--calls and --blocks do not go together")
    if calls:
        return CALLS_ONLY
    if blocks is None:
        return (bug.block,) if bug is not None and bug.block else ()
    if blocks == ALL_KINDS:
        return tuple(KINDS)
    names = tuple(dict.fromkeys(blocks.split(",")))
    for name in names:
        if name not in KINDS:
            raise click.BadParameter(f"no kind {name!r}; there are {', '.join(KINDS)}", param_hint="--blocks")
    return names


def _again_interpreted() -> None:
    """Runs the command again in this process on the sources: a bug cannot be planted in compiled code."""
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], os.environ | {"HOPRING_PURE": "1"})


def _campaign(seeds: range, jobs: int, kind: WorldKind, bug: Bug | None, as_json: bool) -> Exit:
    began_s = time.monotonic()
    tally = CampaignTotals()
    order = seeds if bug is None else aimed_first(seeds, kind.world, bug.aim)
    many = run_many(order, jobs, bug.name if bug else None, kind)
    with CampaignProgress(len(seeds)) as progress, closing(many) as reports:
        try:
            for report in reports:
                tally.add(report)
                progress.done(report)
                if bug is not None and report.failed:
                    break
        except (MisplacedBug, WorkerEnded) as error:
            raise Failure(str(error)) from None
        except KeyboardInterrupt:
            progress.note(f"{count(tally.seeds, 'seed')} were run, {len(tally.failed)} failed")
            raise
    seconds = time.monotonic() - began_s
    click.echo(render_campaign(tally, seeds, kind, bug, seconds, as_json))
    return Exit.FAILURE if tally.failed else Exit.OK


def story(row: CampaignWorld, world: object, outcome: WorldOutcome) -> list[str]:
    """The story of a run, as its kind of world tells it."""
    return row.tell(world, outcome)


def _replay(seed: int, kind: WorldKind, bug: Bug | None, trace: Path | None, as_json: bool) -> Exit:
    began_s = time.monotonic()
    row = WORLDS[kind.world]
    world = row.draw(seed, kind)
    with plant(bug):
        outcome = row.run(world) if trace is None or row.run_traced is None else row.run_traced(world)
    files = _write_trace(trace, outcome)
    seconds = time.monotonic() - began_s
    if as_json:
        click.echo(render_one_json(outcome, seconds, files))
    else:
        click.echo("\n".join(story(row, world, outcome)))
    return Exit.FAILURE if outcome.broken else Exit.OK


def _shrink(seed: int, kind: WorldKind, bug: Bug | None, trace: Path | None, as_json: bool) -> Exit:
    began_s = time.monotonic()
    with plant(bug), CampaignProgress(None) as progress:
        row = WORLDS[kind.world]
        shrunk = Shrinker(row.draw(seed, kind), progress.shrinking, row.run).shrink()
    seconds = time.monotonic() - began_s
    if shrunk is None:
        click.echo(render_not_shrunk(seed, seconds, as_json))
        return Exit.OK
    files = _write_trace(trace, shrunk.outcome)
    click.echo(render_shrunk(shrunk, row.tell(shrunk.world, shrunk.outcome), seconds, files, as_json))
    return Exit.FAILURE


def _write_trace(directory: Path | None, outcome: WorldOutcome) -> list[str]:
    if directory is None:
        return []
    lines = directory / f"seed-{outcome.seed}.jsonl"
    columns = directory / f"seed-{outcome.seed}.parquet"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with lines.open("wb") as file:
            write_json_lines(outcome.trace, file)
        files = [str(lines)]
        try:
            write_parquet(outcome.trace, columns)
            files.append(str(columns))
        except TraceError:
            pass  # Parquet is an extra; the lines say the same.
    except OSError as error:
        raise Failure(f"{directory}: cannot be written ({error.strerror or error})") from None
    for name in files:
        say(f"hop: wrote {name}", err=True)
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
