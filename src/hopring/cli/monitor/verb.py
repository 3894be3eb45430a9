"""`hop monitor`: its verbs for scripts, and without one the screen or a table."""

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import click

from hopring.cli.asking import json_option, timeout_option
from hopring.cli.at_daemon import Unreachable
from hopring.cli.exits import Failure
from hopring.cli.monitor import deeds
from hopring.cli.monitor.channels import Answer, Channels, Sight, choose, default_places
from hopring.cli.monitor.orders import words
from hopring.cli.monitor.partition import in_force, read_sides, show_sides
from hopring.cli.monitor.screen import Screen
from hopring.cli.monitor.table import plain_rows, plain_table
from hopring.config.units import SIZE

SETTLE_SECONDS = 30.0


@click.group(invoke_without_command=True)
@click.option(
    "--admin",
    "places",
    metavar="PATH",
    multiple=True,
    envvar="HOP_ADMIN",
    show_envvar=True,
    type=click.Path(path_type=Path),
    help="An admin socket of a daemon, or a directory of them (*.admin); several times for several.  "
    "[default: /run/hopring and $XDG_RUNTIME_DIR/hopring]",
)
@timeout_option
@click.pass_context
def monitor(context: click.Context, places: tuple[Path, ...], seconds: float) -> None:
    """Watch running daemons and act on them: partitions, windows, reload, terminate.

    Without a verb: on a terminal a screen that moves and takes commands, elsewhere the status as a table.
    Daemons are asked over their admin sockets (`hopd --admin PATH`); whatever changes something needs
    `hopd --dangerous`, and the daemon's own user or root.
    """
    context.obj = Channels(list(places) or default_places(), seconds)
    if context.invoked_subcommand is None:
        if sys.stdin.isatty() and sys.stdout.isatty():
            Screen(context.obj).run()
        else:
            context.invoke(status)


@monitor.command()
@json_option
@click.option(
    "--every", "every_s", type=click.FloatRange(min=0.05), help="Again and again, after so many seconds."
)
@click.option("--count", type=click.IntRange(1), help="With --every: end after so many times.")
@click.pass_obj
def status(channels: Channels, as_json: bool, every_s: float | None, count: int | None) -> None:
    """Show every daemon: state, view, packets, retransmissions, token rounds, deliveries, sessions, windows."""
    shown = 0
    while True:
        sight = channels.look()
        _warn(sight)
        if as_json:
            click.echo(json.dumps({one.name: one.status for one in sight.seen}))
        else:
            click.echo(plain_table(plain_rows(sight)))
        shown += 1
        if every_s is None or shown == count:
            _end(sight)
            return
        time.sleep(every_s)


@monitor.command()
@click.argument("sides", nargs=-1, required=True)
@click.option("--dry-run", is_flag=True, help="Only say what would be cut.")
@json_option
@click.pass_obj
def partition(channels: Channels, sides: tuple[str, ...], dry_run: bool, as_json: bool) -> None:
    """Part the daemons: 'eu1 eu2 | us', of daemons and sites; those that are not named are one more side."""
    sight = _look(channels)
    try:
        parts = read_sides(" ".join(sides), sight.sites)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    if not dry_run:
        _told(deeds.send_partition(channels, sight, parts), as_json, undo="heal")
    if as_json:
        click.echo(json.dumps([sorted(side) for side in parts]))
    else:
        click.echo(show_sides(parts))


@monitor.command()
@json_option
@click.pass_obj
def review(channels: Channels, as_json: bool) -> None:
    """Show the partition that is in force: one side if there is none."""
    sides = in_force(_look(channels))
    if as_json:
        click.echo(json.dumps([sorted(side) for side in sides]))
    else:
        click.echo(show_sides(sides))


@monitor.command()
@json_option
@click.pass_obj
def heal(channels: Channels, as_json: bool) -> None:
    """Cancel the partition: all daemons reach each other again."""
    _told(deeds.heal(channels, _look(channels)), as_json)


def _size(_context: click.Context, _parameter: click.Parameter, text: str | None) -> int | None:
    if text is None or text.isdecimal():
        return None if text is None else int(text)
    try:
        return SIZE.read(text)
    except ValueError as error:
        raise click.BadParameter(f"{text!r} {error}; write it as {SIZE.example}") from None


@monitor.command()
@click.argument("daemons", nargs=-1)
@click.option(
    "--personal", "personal_segments", type=int, help="Of the ring: segments of one daemon in one visit."
)
@click.option("--global", "global_segments", type=int, help="Of the ring: segments of all in one rotation.")
@click.option("--packet", "packet_segments", type=int, help="Of the ring: segments of one packet.")
@click.option("--bytes", "some_bytes", metavar="SIZE", callback=_size, help="Own bundles that are not stable.")
@click.option("--bundles", type=int, help="The same as a number.")
@json_option
@click.pass_obj
def window(
    channels: Channels,
    daemons: tuple[str, ...],
    personal_segments: int | None,
    global_segments: int | None,
    packet_segments: int | None,
    some_bytes: int | None,
    bundles: int | None,
    as_json: bool,
) -> None:
    """Set the windows of flow control at DAEMONS, or at all; without options, show them."""
    wanted = {
        "personal_segments": personal_segments,
        "global_segments": global_segments,
        "packet_segments": packet_segments,
        "bytes": some_bytes,
        "bundles": bundles,
    }
    given = {key: value for key, value in wanted.items() if value is not None}
    sight = _look(channels)
    if given:
        answers = deeds.set_windows(channels, sight, daemons, given)
    else:
        answers = {one.name: Answer(True, {"result": one.status["window"]}) for one in choose(sight, daemons)}
    _told(answers, as_json)


@monitor.command()
@click.argument("daemons", nargs=-1)
@click.option("--no-wait", is_flag=True, help="Do not wait until the daemons are together again.")
@json_option
@click.pass_obj
def reload(channels: Channels, daemons: tuple[str, ...], no_wait: bool, as_json: bool) -> None:
    """Let DAEMONS, or all, read their configuration again; daemons and sites may have come or gone."""
    answers = deeds.reload(channels, _look(channels), daemons)
    _told(answers, as_json)
    if not no_wait:
        deeds.wait_until_settled(channels, answers, SETTLE_SECONDS)


@monitor.command()
@click.argument("daemons", nargs=-1)
@click.option("--all", "everyone", is_flag=True, help="All daemons that answer.")
@json_option
@click.pass_obj
def terminate(channels: Channels, daemons: tuple[str, ...], everyone: bool, as_json: bool) -> None:
    """End DAEMONS in an orderly way, as a signal would."""
    if bool(daemons) == everyone:
        raise click.UsageError("name daemons, or --all")
    answers = deeds.terminate(channels, _look(channels), daemons)
    _told(answers, as_json)
    deeds.wait_until_gone(channels, answers, SETTLE_SECONDS)


def _look(channels: Channels) -> Sight:
    """Failure if nobody answers."""
    sight = channels.look()
    _warn(sight)
    if not sight.seen:
        _end(sight)
    return sight


def _warn(sight: Sight) -> None:
    for path, why in sight.unheard:
        click.echo(f"hop: {path}: {why}", err=True)
    if sight.missing:
        click.echo(f"hop: cannot be asked from here: {', '.join(sight.missing)}", err=True)


def _end(sight: Sight) -> None:
    if sight.denied and not sight.seen:
        raise deeds.Denied("no daemon lets us ask")
    if not sight.seen:
        raise Unreachable("no daemon answers")


def _told(answers: Mapping[str, Answer], as_json: bool, undo: str = "") -> None:
    """Shows what came of it, if nothing else is shown of it; Failure if a daemon refused."""
    quiet = bool(undo)
    if as_json and not quiet:
        click.echo(json.dumps({name: answer.words for name, answer in answers.items()}))
    refused = {name: answer for name, answer in answers.items() if not answer.ok}
    if not as_json and not quiet:
        for name, answer in answers.items():
            if answer.ok:
                click.echo(f"{name}  {words(answer.words.get('result', {}))}")
    for name, answer in refused.items():
        click.echo(f"hop: {name}: {answer.why}", err=True)
    others = (
        f"; the others have done it, `{undo}` takes it back" if undo and len(refused) < len(answers) else ""
    )
    if any(answer.denied for answer in refused.values()):
        raise deeds.Denied(f"refused by {', '.join(refused)}{others}")
    if refused:
        raise Failure(f"refused by {', '.join(refused)}{others}")
