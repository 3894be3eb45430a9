"""`hop request` and `hop reply`: ask the servers of a group; serve a group with a command."""

import base64
import json
import os
import select
import subprocess
import sys
import time
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
from hopring.client.features.requests import ReplyTo
from hopring.errors import HopError
from hopring.groups.names import HANDLERS_MAX

ERROR_CHARACTERS_MAX: Final = 200
REPLY_BYTES_MAX: Final = 1 << 20
"""The longest line of a command that was started; the limit of messages is far below."""


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


handler_option = click.option(
    "--handler",
    metavar="N",
    type=click.IntRange(1, HANDLERS_MAX),
    help="The number of a handler: of its servers, the holder of its lock replies.",
)


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
@handler_option
@click.option("--to-group", is_flag=True, help="Replies go to all members of the group, too.")
@timeout_option
@json_option
def request(
    group: str,
    data: str,
    url: str,
    name: str | None,
    wait: int | Quorum,
    handler: int | None,
    to_group: bool,
    seconds: float,
    as_json: bool,
) -> None:
    """Send DATA as a request to the servers of GROUP and print their replies, one line each.

    With - as DATA, the request is what stdin has. It fails at once if nobody serves GROUP, and names the
    servers that are missing if too few reply. With --handler, the holder of this handler's lock replies.
    """
    if handler is not None and wait != 1:
        raise click.UsageError("--handler and --wait do not go together: one server replies")
    to: ReplyTo = "group" if to_group else "caller"
    body = sys.stdin.buffer.read() if data == "-" else data.encode()
    with client_errors(), connect(url, name=name, membership=False, **identity()) as session:
        replies = session.request(group, body, wait=wait, handler=handler, reply_to=to, timeout_seconds=seconds)
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
@click.option(
    "--start",
    "starts",
    is_flag=True,
    help="Start COMMAND with the first request, and keep it: a line of JSON for each request and each reply.",
)
@handler_option
@give_up_option(None)
def reply(
    group: str,
    command: tuple[str, ...],
    url: str,
    name: str | None,
    count: int | None,
    command_seconds: float,
    starts: bool,
    handler: int | None,
    give_up_seconds: float | None,
) -> None:
    """Serve GROUP: run COMMAND for each request, one after the other, until interrupted.

    The command gets the request on stdin, and its stdout is the reply. If it exits with another code than 0,
    the request fails with the last line of its stderr. HOP_REQUEST_GROUP, HOP_REQUEST_CALLER and
    HOP_REQUEST_AGAIN are in its environment. Write -- before COMMAND. With --handler, only requests for this
    handler come, while this session holds the handler's lock, whose fence is in HOP_FENCE.

    With --start the first request starts COMMAND, which stays. It reads lines such as {"caller": "#ann#eu1",
    "again": false, "data": "..."}, and answers each with a line: {"data": "..."} or {"error": "..."}, with
    data_base64 for bytes that are no text. If it ends, the request fails, and the next one starts it again.
    """
    options = {"membership": False, "reconnect": reconnect_of(give_up_seconds), **identity()}
    with client_errors(), connect(url, name=name, **options) as session:
        done = 0
        started = StartedCommand(command, command_seconds)

        def run(request: Request) -> bytes:
            nonlocal done
            done += 1
            return started.answer(request) if starts else _run(command, request, command_seconds)

        session.serve(group, run, handler=handler)
        say(f"hop: {session.private_group} serves {group}", err=True)
        watch = ConnectionWatch(session)
        try:
            while count is None or done < count:
                session.handle_requests(timeout_seconds=LOOK_SECONDS, max_requests=1)
                _watch(session, watch)
        finally:
            started.end()


def _watch(session: Session, watch: ConnectionWatch) -> None:
    watch.look()
    while session.poll():
        event = session.receive()
        if isinstance(event, Reconnected):
            watch.back(event)


class StartedCommand:
    """A command that the first request starts, and that answers one line with one line."""

    def __init__(self, command: Sequence[str], seconds: float) -> None:
        self._command, self._seconds = command, seconds
        self._process: subprocess.Popen[bytes] | None = None

    def answer(self, request: Request) -> bytes:
        """The reply of the command; CommandFailed if it gives none in time, or ends."""
        facts: dict[str, object] = {"caller": request.caller, "again": request.again}
        if request.fence is not None:
            facts["fence"] = request.fence
        line = json.dumps({"group": request.group, **facts, **data_fields(request.data)}).encode() + b"\n"
        process = self._running()
        assert process.stdin is not None
        try:
            process.stdin.write(line)
            process.stdin.flush()
            return _data_of(self._line(process))
        except OSError as error:
            self.end()
            raise CommandFailed(f"it has ended ({error.strerror})") from None
        except CommandFailed:
            self.end()
            raise

    def _running(self) -> "subprocess.Popen[bytes]":
        if self._process is None or self._process.poll() is not None:
            self.end()
            pipe = subprocess.PIPE
            try:
                self._process = subprocess.Popen(self._command, stdin=pipe, stdout=pipe, bufsize=0)
            except OSError as error:
                raise CommandFailed(f"{self._command[0]}: {error.strerror}") from None
        return self._process

    def _line(self, process: "subprocess.Popen[bytes]") -> bytes:
        assert process.stdout is not None
        end_seconds = time.monotonic() + self._seconds
        line = b""
        while not line.endswith(b"\n"):
            left_seconds = end_seconds - time.monotonic()
            if left_seconds <= 0 or not select.select([process.stdout], [], [], left_seconds)[0]:
                raise CommandFailed(f"it took more than {self._seconds:g} s")
            chunk = os.read(process.stdout.fileno(), REPLY_BYTES_MAX)
            if not chunk:
                raise CommandFailed("it has ended without a reply")
            line += chunk
            if len(line) > REPLY_BYTES_MAX:
                raise CommandFailed(f"its reply is longer than {REPLY_BYTES_MAX} bytes")
        return line

    def end(self) -> None:
        """Ends the command, if it runs."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()


def _data_of(line: bytes) -> bytes:
    """The data in a line of a started command; CommandFailed with its error, or if it is no reply."""
    try:
        told = json.loads(line)
        if "error" in told:
            raise CommandFailed(str(told["error"])[:ERROR_CHARACTERS_MAX])
        if "data_base64" in told:
            return base64.b64decode(told["data_base64"], validate=True)
        return str(told["data"]).encode()
    except (ValueError, TypeError, KeyError):
        raise CommandFailed('its reply is no line such as {"data": "..."}') from None


def _run(command: Sequence[str], request: Request, seconds: float) -> bytes:
    facts = {
        "HOP_REQUEST_GROUP": request.group,
        "HOP_REQUEST_CALLER": request.caller,
        "HOP_REQUEST_AGAIN": "1" if request.again else "0",
    }
    if request.fence is not None:
        facts["HOP_FENCE"] = str(request.fence)
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
