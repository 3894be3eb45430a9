"""`hop request` and `hop reply`: ask the servers of a group; serve a group with a command."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

import click

from hopring.cli.completion import group_names
from hopring.cli.daemon_session import (
    LOOK_SECONDS,
    ConnectionWatch,
    at_daemon,
    client_errors,
    give_up_option,
    identity,
    json_option,
    reconnect_of,
    timeout_option,
)
from hopring.cli.pubsub import data_fields
from hopring.cli.terminal import say, say_payload
from hopring.client.blocking import Session, connect
from hopring.client.events import Quorum, Reconnected, Reply, Request
from hopring.errors import HopError

ERROR_CHARACTERS_MAX: Final = 200


class CommandFailed(HopError):
    """The command of `hop reply` could not do a request; the caller gets the text."""


def _wait_of(_context: click.Context, _parameter: click.Parameter, value: str) -> int | Quorum:
    """Option callback: a number, majority or all; or BadParameter."""
    text = value.lower()
    if text in ("majority", "all"):
        return Quorum(text)
    if not text.isascii() or not text.isdigit() or not int(text):
        raise click.BadParameter(f"{value!r} is not 1 or more, majority or all")
    return int(text)


@click.command()
@click.argument("group", shell_complete=group_names)
@click.argument("data")
@at_daemon
@click.option(
    "--wait",
    callback=_wait_of,
    default="1",
    show_default=True,
    metavar="N|majority|all",
    help="How many servers have to reply.",
)
@click.option("--to-group", is_flag=True, help="Replies go to all members of the group, too.")
@timeout_option
@json_option
def request(
    group: str,
    data: str,
    url: str,
    name: str | None,
    wait: int | Quorum,
    to_group: bool,
    seconds: float,
    as_json: bool,
) -> None:
    """Send DATA as a request to the servers of GROUP and print their replies, one line each.

    With - as DATA, the request is what stdin has. It fails at once if nobody serves GROUP, and names the
    servers that are missing if too few reply.
    """
    body = sys.stdin.buffer.read() if data == "-" else data.encode()
    with client_errors(), connect(url, name=name, membership=False, **identity()) as session:
        replies = session.request(
            group, body, wait=wait, reply_to="group" if to_group else "caller", timeout_seconds=seconds
        )
    for reply in replies:
        _show(reply, as_json, len(replies) > 1)


def _show(reply: Reply, as_json: bool, with_server: bool) -> None:
    if as_json:
        click.echo(json.dumps({"server": reply.server, "again": reply.again, **data_fields(reply.data)}))
    else:
        say_payload(reply.data, f"{reply.server}: " if with_server else "")


@click.command(context_settings={"ignore_unknown_options": False})
@click.argument("group", shell_complete=group_names)
@click.argument("command", nargs=-1, required=True)
@at_daemon
@click.option("--count", type=click.IntRange(1), help="End after this many requests.")
@click.option(
    "--command-timeout",
    "command_seconds",
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True),
    default=60.0,
    show_default=True,
    help="Time for the command; after that it is killed, and the request fails.",
)
@give_up_option(None)
def reply(
    group: str,
    command: tuple[str, ...],
    url: str,
    name: str | None,
    count: int | None,
    command_seconds: float,
    give_up_seconds: float | None,
) -> None:
    """Serve GROUP: run COMMAND for each request, one after the other, until interrupted.

    The command gets the request on stdin, and its stdout is the reply. If it exits with another code than 0,
    the request fails with the last line of its stderr. HOP_REQUEST_GROUP, HOP_REQUEST_CALLER and
    HOP_REQUEST_AGAIN are in its environment. Write -- before COMMAND.
    """
    options = {"membership": False, "reconnect": reconnect_of(give_up_seconds), **identity()}
    with client_errors(), connect(url, name=name, **options) as session:
        done = 0

        def run(request: Request) -> bytes:
            nonlocal done
            done += 1
            return _run(command, request, command_seconds)

        session.serve(group, run)
        say(f"hop: {session.private_group} serves {group}", err=True)
        watch = ConnectionWatch(session)
        while count is None or done < count:
            session.handle_requests(timeout_seconds=LOOK_SECONDS, max_requests=1)
            _watch(session, watch)


def _watch(session: Session, watch: ConnectionWatch) -> None:
    watch.look()
    while session.poll():
        event = session.receive()
        if isinstance(event, Reconnected):
            watch.back(event)


def _run(command: Sequence[str], request: Request, seconds: float) -> bytes:
    facts = {
        "HOP_REQUEST_GROUP": request.group,
        "HOP_REQUEST_CALLER": request.caller,
        "HOP_REQUEST_AGAIN": "1" if request.again else "0",
    }
    try:
        ended = subprocess.run(
            command,
            input=request.data,
            capture_output=True,
            env=os.environ | facts,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise CommandFailed(f"it took more than {seconds:g} s") from None
    except OSError as error:
        raise CommandFailed(f"{command[0]}: {error.strerror}") from None
    if ended.returncode:
        lines = ended.stderr.decode(errors="replace").strip().splitlines()
        last = f": {lines[-1][:ERROR_CHARACTERS_MAX]}" if lines else ""
        raise CommandFailed(f"exit code {ended.returncode}{last}")
    return ended.stdout
