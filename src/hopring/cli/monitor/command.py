"""`hop monitor` and its subcommands; without one, the screen on a terminal or a table elsewhere."""

import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from hopring.cli.completion import daemon_names, side_names
from hopring.cli.daemon_session import Unreachable, json_option, timeout_option
from hopring.cli.monitor import actions
from hopring.cli.monitor.actions import Sides, in_force, read_sides, show_sides
from hopring.cli.monitor.admin_client import AdminClient, AdminReply, Fleet, choose, default_places
from hopring.cli.monitor.event_lines import event_text, read_event
from hopring.cli.monitor.screen import MonitorScreen, read_cut_time, words
from hopring.cli.monitor.table import KEY_HEADS, key_rows, plain_rows, plain_table
from hopring.cli.terminal import Failure, confirm, say, say_lines, yes_option
from hopring.config.units import DURATION, SIZE

SETTLE_SECONDS: Final = 30.0

Command = TypeVar("Command", bound=Callable[..., Any])


def _wait_options(command: Command) -> Command:
    wait = click.option("--wait", is_flag=True, help="Wait until all asked daemons are in the expected views.")
    seconds = click.option(
        "--wait-timeout",
        "wait_seconds",
        metavar="SECONDS",
        type=click.FloatRange(min=0, min_open=True),
        default=SETTLE_SECONDS,
        show_default=True,
        help="With --wait: how long to wait; after it the exit code is 4.",
    )
    return wait(seconds(command))


@click.group(invoke_without_command=True)
@click.option(
    "--admin",
    "places",
    metavar="PATH",
    multiple=True,
    envvar="HOP_ADMIN",
    show_envvar=True,
    type=click.Path(path_type=Path),
    help="An admin socket of a daemon, or a directory of them (*.admin); may be repeated.  "
    "[default: /run/hopring and $XDG_RUNTIME_DIR/hopring]",
)
@timeout_option
@click.pass_context
def monitor(context: click.Context, places: tuple[Path, ...], seconds: float) -> None:
    """Watch running daemons and act on them.

    Without a subcommand: on a terminal a live screen that takes commands, elsewhere the status as a table.
    Daemons are asked over their admin sockets (`socket` of [admin] in the configuration, or `hopd --admin`).
    Subcommands that change something have to be allowed there (`allow` of [admin], or `hopd --dangerous`), need
    the daemon's own user or root, and ask for confirmation, except `heal`.
    """
    context.obj = AdminClient(list(places) or default_places(), seconds)
    if context.invoked_subcommand is None:
        if sys.stdin.isatty() and sys.stdout.isatty():
            MonitorScreen(context.obj).run()
        else:
            context.invoke(status)


@monitor.command()
@json_option
@click.option(
    "--every",
    "every_s",
    type=click.FloatRange(min=0.05),
    help="Show it again after this many seconds, until interrupted.",
)
@click.option("--count", type=click.IntRange(1), help="With --every: end after this many times.")
@click.pass_obj
def status(admin: AdminClient, as_json: bool, every_s: float | None, count: int | None) -> None:
    """Show the state of every daemon.

    Columns: state, view, packets, retransmissions, token rounds, deliveries, sessions, windows, key and cuts.
    """
    shown = 0
    while True:
        fleet = admin.look()
        _warn(fleet)
        if as_json:
            click.echo(json.dumps({one.name: one.status for one in fleet.seen}))
        elif fleet.seen:
            say_lines(plain_table(plain_rows(fleet)))
        shown += 1
        if every_s is None or shown == count:
            _end(fleet)
            return
        time.sleep(every_s)


@monitor.command()
@json_option
@click.pass_obj
def keys(admin: AdminClient, as_json: bool) -> None:
    """Show the cluster keys of every daemon by their ids.

    Columns: the key that it seals with, the one that its file says, all that it opens with, the daemons of its
    view that lack the wanted one, and packets that were refused, by reason.
    """
    fleet = _look(admin)
    if as_json:
        click.echo(json.dumps({one.name: one.status.get("keys") for one in fleet.seen}))
    else:
        say_lines(plain_table(key_rows(fleet), KEY_HEADS))


@monitor.command()
@click.argument("daemons", nargs=-1, shell_complete=daemon_names)
@click.option(
    "--after", type=click.IntRange(0), help="Also show the events behind this number.  [default: none]"
)
@click.option("--count", type=click.IntRange(1), help="End after this many events.")
@click.option("--kept", is_flag=True, help="Show the events that daemons keep, and end.")
@json_option
@click.pass_obj
def watch(
    admin: AdminClient,
    daemons: tuple[str, ...],
    after: int | None,
    count: int | None,
    kept: bool,
    as_json: bool,
) -> None:
    """Show events of DAEMONS, or of all, as they come, until interrupted.

    Events are what daemons log, signals, and links that come up or go down. Each daemon numbers its
    own, and keeps the last 1,000 over restarts.
    """
    fleet = _look(admin)
    shown = 0
    for line in actions.watch(choose(fleet, daemons), admin.seconds, after, kept):
        event = read_event(line)
        if event is None:
            continue
        if as_json:
            click.echo(json.dumps(json.loads(line)))
        else:
            say(event_text(event))
        shown += 1
        if shown == count:
            return


def _duration(_context: click.Context, _parameter: click.Parameter, text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return read_cut_time(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@monitor.command()
@click.argument("sides", nargs=-1, required=True, shell_complete=side_names)
@click.option("--dry-run", is_flag=True, help="Only print the sides.")
@click.option(
    "--for",
    "for_us",
    metavar="DURATION",
    callback=_duration,
    help="Time after which each daemon removes its cuts by itself, as 30s.  [default: until heal]",
)
@_wait_options
@yes_option
@json_option
@click.pass_obj
def partition(
    admin: AdminClient,
    sides: tuple[str, ...],
    dry_run: bool,
    for_us: int | None,
    wait: bool,
    wait_seconds: float,
    yes: bool,
    as_json: bool,
) -> None:
    """Cut the network between SIDES of daemons.

    SIDES are daemons and sites with | between the sides, as 'eu1 eu2 | us'. Daemons that are not named form one
    more side. The command shows the sides and asks for confirmation.
    """
    fleet = _look(admin)
    try:
        parts = read_sides(" ".join(sides), fleet.sites)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    if not dry_run:
        how_long = "until `heal`" if for_us is None else f"for {DURATION.write(for_us)}"
        confirm(f"cut all traffic between the sides {show_sides(parts)}, {how_long}", yes)
        answers = actions.send_partition(admin, fleet, parts, for_us)
        _told(answers, as_json, undo="heal")
    if as_json:
        click.echo(json.dumps([sorted(side) for side in parts]))
    else:
        say(show_sides(parts))
    if wait and not dry_run:
        _wait_for(admin, parts, answers, wait_seconds)


def _wait_for(admin: AdminClient, sides: Sides, asked: Mapping[str, AdminReply], seconds: float) -> None:
    taken = actions.wait_for_sides(admin, sides, asked, seconds)
    say(f"hop: all daemons asked are in the views expected, after {taken:.1f} s", err=True)


@monitor.command()
@json_option
@click.pass_obj
def review(admin: AdminClient, as_json: bool) -> None:
    """Show the partition that is in force: one side if there is none."""
    sides = in_force(_look(admin))
    if as_json:
        click.echo(json.dumps([sorted(side) for side in sides]))
    else:
        say(show_sides(sides))


@monitor.command()
@_wait_options
@json_option
@click.pass_obj
def heal(admin: AdminClient, wait: bool, wait_seconds: float, as_json: bool) -> None:
    """Cancel the partition: all daemons reach each other again."""
    fleet = _look(admin)
    answers = actions.heal(admin, fleet)
    _told(answers, as_json)
    if wait:
        _wait_for(admin, actions.one_side(fleet), answers, wait_seconds)


def _size(_context: click.Context, _parameter: click.Parameter, text: str | None) -> int | None:
    if text is None or text.isdecimal():
        return None if text is None else int(text)
    try:
        return SIZE.read(text)
    except ValueError as error:
        raise click.BadParameter(f"{text!r} {error}; write it as {SIZE.example}") from None


@monitor.command()
@click.argument("daemons", nargs=-1, shell_complete=daemon_names)
@click.option(
    "--personal",
    "personal_segments",
    type=int,
    help="Segments that a daemon may send in one visit of the token.",
)
@click.option(
    "--global", "global_segments", type=int, help="Segments that all may send in one rotation of the token."
)
@click.option("--packet", "packet_segments", type=int, help="Segments of one packet of the ring.")
@click.option(
    "--bytes",
    "some_bytes",
    metavar="SIZE",
    callback=_size,
    help="Size of own messages not yet known to have reached all.",
)
@click.option("--bundles", type=int, help="Number of own bundles not yet known to have reached all.")
@yes_option
@json_option
@click.pass_obj
def window(
    admin: AdminClient,
    daemons: tuple[str, ...],
    personal_segments: int | None,
    global_segments: int | None,
    packet_segments: int | None,
    some_bytes: int | None,
    bundles: int | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Show or set the windows of flow control.

    Without options it shows those of DAEMONS, or of all daemons.
    """
    wanted = {
        "personal_segments": personal_segments,
        "global_segments": global_segments,
        "packet_segments": packet_segments,
        "bytes": some_bytes,
        "bundles": bundles,
    }
    given = {key: value for key, value in wanted.items() if value is not None}
    fleet = _look(admin)
    if given:
        confirm(f"set windows at {_whom(fleet, daemons)}", yes)
        answers = actions.set_windows(admin, fleet, daemons, given)
    else:
        answers = {
            one.name: AdminReply(True, {"result": one.status["window"]}) for one in choose(fleet, daemons)
        }
    _told(answers, as_json)


@monitor.command()
@click.argument("daemons", nargs=-1, shell_complete=daemon_names)
@click.option("--no-wait", is_flag=True, help="Do not wait until the daemons share a view again.")
@yes_option
@json_option
@click.pass_obj
def reload(admin: AdminClient, daemons: tuple[str, ...], no_wait: bool, yes: bool, as_json: bool) -> None:
    """Make daemons read their configuration again.

    Without DAEMONS all of them do. Daemons and sites may have been added or removed.
    """
    fleet = _look(admin)
    confirm(f"reload the configuration of {_whom(fleet, daemons)}", yes)
    answers = actions.reload(admin, fleet, daemons)
    _told(answers, as_json)
    if not no_wait:
        actions.wait_until_settled(admin, answers, SETTLE_SECONDS)


@monitor.command()
@click.argument("daemons", nargs=-1, shell_complete=daemon_names)
@click.option("--all", "everyone", is_flag=True, help="All daemons that answer.")
@yes_option
@json_option
@click.pass_obj
def terminate(admin: AdminClient, daemons: tuple[str, ...], everyone: bool, yes: bool, as_json: bool) -> None:
    """Stop DAEMONS in an orderly way, as SIGTERM does."""
    if bool(daemons) == everyone:
        raise click.UsageError("name daemons, or --all")
    fleet = _look(admin)
    confirm(f"terminate {_whom(fleet, daemons)}", yes)
    answers = actions.terminate(admin, fleet, daemons)
    _told(answers, as_json)
    actions.wait_until_gone(admin, answers, SETTLE_SECONDS)


@monitor.command()
@click.argument("daemon", shell_complete=daemon_names)
@yes_option
@json_option
@click.pass_obj
def primary(admin: AdminClient, daemon: str, yes: bool, as_json: bool) -> None:
    """Make the view of DAEMON primary, when the last primary view is gone for good.

    The daemon forms its view anew with all that it reaches, and that view is primary whatever its votes. Do
    this only if no other side goes on as the primary one: nothing can prevent two primaries then.
    """
    fleet = _look(admin)
    others = [one.name for one in fleet.seen if one.status.get("primary")]
    if others:
        raise Failure(f"the view of {', '.join(others)} is primary; heal the network instead")
    unseen = f", and {', '.join(fleet.missing)} cannot be asked" if fleet.missing else ""
    confirm(f"make the view of {daemon} primary{unseen}; there must be no primary view elsewhere", yes)
    status = actions.make_primary(admin, fleet, daemon, SETTLE_SECONDS)
    if as_json:
        click.echo(json.dumps({"daemon": daemon, "primary": status["primary"], "members": status["members"]}))
    else:
        members = status["members"]
        assert isinstance(members, list), "as the daemon says"
        say(f"{daemon}  primary by {status['primary']}: {' '.join(members)}")


def _whom(fleet: Fleet, names: tuple[str, ...]) -> str:
    """The daemons that a command acts on; Failure if one of them did not answer."""
    return ", ".join([one.name for one in choose(fleet, names)])


def _look(admin: AdminClient) -> Fleet:
    """The fleet; Failure if no daemon answers."""
    fleet = admin.look()
    _warn(fleet)
    if not fleet.seen:
        _end(fleet)
    return fleet


def _warn(fleet: Fleet) -> None:
    for path, why in fleet.unheard:
        say(f"hop: {path}: {why}", err=True)
    if fleet.missing:
        say(f"hop: cannot be asked from here: {', '.join(fleet.missing)}", err=True)


def _end(fleet: Fleet) -> None:
    if fleet.denied and not fleet.seen:
        raise actions.Denied("no daemon lets us ask; call as the daemons' own user, or as root")
    if not fleet.seen:
        raise Unreachable(
            "no daemon answers; start hopd with an admin socket, or name another one with --admin"
        )


def _told(answers: Mapping[str, AdminReply], as_json: bool, undo: str = "") -> None:
    """Prints the answers, unless another result is printed; Failure if a daemon refused."""
    quiet = bool(undo)
    if as_json and not quiet:
        click.echo(json.dumps({name: answer.words for name, answer in answers.items()}))
    refused = {name: answer for name, answer in answers.items() if not answer.ok}
    if not as_json and not quiet:
        for name, answer in answers.items():
            if answer.ok:
                say(f"{name}  {words(answer.words.get('result', {}))}")
    for name, answer in refused.items():
        say(f"hop: {name}: {answer.why}", err=True)
    others = (
        f"; the others have done it, `{undo}` takes it back" if undo and len(refused) < len(answers) else ""
    )
    if any(answer.denied for answer in refused.values()):
        raise actions.Denied(f"refused by {', '.join(refused)}{others}")
    if refused:
        raise Failure(f"refused by {', '.join(refused)}{others}")
