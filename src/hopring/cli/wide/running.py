"""`hop wide run`: one member of the long-haul service as this process."""

import asyncio
import os
import signal
from pathlib import Path
from threading import Thread
from typing import Final

import click

from hopring.blocks.log.errors import NotAMember
from hopring.cli.daemon_session import client_errors, identity
from hopring.cli.terminal import BadConfiguration, Failure
from hopring.cli.wide.options import chosen_cluster, chosen_file, cluster_option, file_option, urls_of
from hopring.client.arguments import parse_urls
from hopring.daemon.admin.http_server import parse_place
from hopring.daemon.log import DaemonLog
from hopring.spool.errors import SpoolError
from hopring.wide.clusters_file import AccessPoint
from hopring.wide.process.member_process import MemberEnded, MemberProcess, MemberSetup
from hopring.wide.process.transport_security import (
    check_metrics_exposure,
    check_wide_exposure,
    load_wide_tls,
)

_READ_BYTES: Final = 4_096
_STDIN: Final = 0


def read_listen(_context: click.Context, _parameter: click.Parameter, text: str | None) -> AccessPoint | None:
    """Parses an address with its port."""
    if text is None:
        return None
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise click.BadParameter(f"{text!r} is no address and port; write it as 0.0.0.0:4990")
    return AccessPoint(host.removeprefix("[").removesuffix("]"), int(port))


def read_metrics(
    _context: click.Context, _parameter: click.Parameter, text: str | None
) -> tuple[str, int] | None:
    """Parses an address with its port, or a port of loopback."""
    try:
        return None if text is None else parse_place(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command()
@file_option
@click.option("--member", metavar="NAME", help="Which member of the cluster this is.  [default: the only one]")
@click.option(
    "--state",
    metavar="DIR",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory of this member's part of the log, and of what waits; never a copy of another one.",
)
@click.option(
    "--files",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where files that came are put, in a directory for each set.  [default: files below --state]",
)
@click.option(
    "--listen", metavar="ADDRESS:PORT", callback=read_listen, help="Instead of the access point of the file."
)
@click.option(
    "--metrics",
    metavar="ADDRESS:PORT",
    callback=read_metrics,
    help="Serve /metrics, /healthz and /readyz by HTTP, on loopback; a port alone is enough.",
)
@click.option("--dangerous", is_flag=True, help="Let tests cut links to other clusters.")
@click.option(
    "--cut", "cut_names", metavar="CLUSTER", multiple=True, help="Begin with the link to it cut; for tests."
)
@click.option("--end-with-stdin", is_flag=True, help="End when stdin is closed.")
@cluster_option
def run(
    path: Path | None,
    member: str | None,
    state: Path,
    files: Path | None,
    listen: AccessPoint | None,
    metrics: tuple[str, int] | None,
    dangerous: bool,
    cut_names: tuple[str, ...],
    end_with_stdin: bool,
    cluster_name: str | None,
    url: str | None,
) -> None:
    """Run one member of the long-haul service, until it is ended.

    It has a session at a daemon of its cluster, its part of the cluster's log in --state, and connections to
    members in other clusters, by TLS 1.3 or on loopback.
    """
    file, path = chosen_file(path)
    cluster = chosen_cluster(file, path, cluster_name)
    member = cluster.members[0] if member is None and len(cluster.members) == 1 else member
    if member not in cluster.members:
        raise Failure(f"--member: choose of {', '.join(cluster.members)}, the members of {cluster.name}")
    check_wide_exposure(file, str(path), listen)
    if metrics is not None:
        check_metrics_exposure(metrics)
    tls = load_wide_tls(file, cluster.name)
    urls = tuple(parse_urls(urls_of(cluster, url)))
    cut = frozenset([chosen_cluster(file, path, one).id for one in cut_names])
    if cut and not dangerous:
        raise click.UsageError("--cut is for tests: give --dangerous, too")
    where = state, urls, tls, listen, identity()
    setup = MemberSetup(file, cluster, member, *where, dangerous, cut, metrics, files)
    try:
        with client_errors():
            asyncio.run(_run(setup, end_with_stdin))
    except (asyncio.CancelledError, KeyboardInterrupt):
        pass


async def _run(setup: MemberSetup, end_with_stdin: bool) -> None:
    loop = asyncio.get_running_loop()
    process = MemberProcess(setup, DaemonLog(f"{setup.cluster.name}/{setup.member}"))
    running = asyncio.create_task(process.run())
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, running.cancel)
    if end_with_stdin:
        Thread(target=_watch_stdin, args=(loop, running), daemon=True).start()
    try:
        await running
    except asyncio.CancelledError:
        return
    except MemberEnded as error:
        raise (BadConfiguration if error.setup else Failure)(str(error)) from None
    except NotAMember as error:
        raise BadConfiguration(str(error)) from None
    except SpoolError as error:
        raise Failure(str(error)) from None


def _watch_stdin(loop: asyncio.AbstractEventLoop, running: "asyncio.Task[None]") -> None:
    while os.read(_STDIN, _READ_BYTES):
        pass
    loop.call_soon_threadsafe(running.cancel)
