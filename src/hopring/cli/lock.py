"""`hop lock`: run a command while this session holds a lock of a group."""

import os
import subprocess
import time
from contextlib import suppress
from typing import Final

import click

from hopring.cli.completion import group_names
from hopring.cli.daemon_session import Late, at_daemon, client_errors, identity, timeout_option
from hopring.cli.terminal import Exit, Failure, say
from hopring.client.blocking import connect
from hopring.client.errors import LockLost, LockTimedOut, NotPrimary
from hopring.client.locks.handles import BlockingLocking

LOOK_SECONDS: Final = 0.05
END_SECONDS: Final = 2.0
"""A command whose lock is lost gets SIGTERM, and SIGKILL after this time."""


class OutsidePrimary(Failure):
    """The daemon's view is not primary."""

    exit_code = int(Exit.NOT_PRIMARY)


@click.command(context_settings={"ignore_unknown_options": False})
@click.argument("group", shell_complete=group_names)
@click.argument("lock_name", metavar="NAME")
@click.argument("command", nargs=-1, required=True)
@at_daemon
@click.option("--partial", is_flag=True, help="Also on a side without a primary view.")
@timeout_option
def lock(
    group: str,
    lock_name: str,
    command: tuple[str, ...],
    url: str,
    name: str | None,
    partial: bool,
    seconds: float,
) -> None:
    """Run COMMAND while holding the lock NAME of GROUP; put -- before COMMAND.

    The command has the fence in HOP_FENCE, and the group and the lock in HOP_LOCK_GROUP and HOP_LOCK. If the
    lock is lost, it gets SIGTERM, and SIGKILL 2 s later. The exit code is that of the command.
    """
    with client_errors(), connect(url, name=name, membership=False, **identity()) as session:
        joined = session.join(group, timeout_seconds=seconds)
        locking = joined.lock(lock_name, timeout_seconds=seconds, partial=partial)
        try:
            with locking as fence:
                words = {"HOP_FENCE": str(fence), "HOP_LOCK_GROUP": group, "HOP_LOCK": lock_name}
                code = _run(command, {**os.environ, **words}, locking)
        except LockTimedOut as error:
            raise Late(str(error)) from None
        except NotPrimary as error:
            raise OutsidePrimary(str(error)) from None
        except LockLost as error:
            raise Failure(f"{error}; the command was ended") from None
    raise SystemExit(code)


def _run(command: tuple[str, ...], environment: dict[str, str], locking: BlockingLocking) -> int:
    """Runs the command to its end, or until the lock is lost; returns its exit code."""
    try:
        process = subprocess.Popen(command, env=environment)
    except OSError as error:
        raise Failure(f"{command[0]}: {error.strerror or error}") from None
    try:
        while process.poll() is None:
            if not locking.held:
                say("hop: the lock is lost", err=True)
                break
            time.sleep(LOOK_SECONDS)
    finally:
        if process.poll() is None:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(END_SECONDS)
            process.kill()
    code = process.wait()
    return code if code >= 0 else 128 - code
