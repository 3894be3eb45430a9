"""Options that the commands of `hop wide` share: the clusters file, the cluster, and the daemon."""

import os
import stat
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from hopring.cli.daemon_session import checked_url, identity, identity_options
from hopring.cli.terminal import Failure
from hopring.client.aio import Session, connect
from hopring.client.arguments import URL_DEFAULT
from hopring.wide.clusters_file import FILE_NAME, ClustersFile, WideCluster, load_clusters

Command = TypeVar("Command", bound=Callable[..., Any])

PLACE: Final = "hopring-wide"
"""The directory with the clusters file of the `hop wide up` of this user that was started last."""


def up_place() -> Path:
    """Where `hop wide up` leaves its clusters file for other commands of this user."""
    run = os.environ.get("XDG_RUNTIME_DIR")
    return Path(run) / PLACE if run else Path(tempfile.gettempdir()) / f"{PLACE}-{os.getuid()}"


def file_option(command: Command) -> Command:
    """Adds the option --file with the clusters file."""
    return click.option(
        "--file",
        "path",
        metavar="FILE",
        envvar="HOP_CLUSTERS",
        show_envvar=True,
        type=click.Path(dir_okay=False, path_type=Path),
        help=f"Clusters file.  [default: {FILE_NAME} here, or that of the `hop wide up` that runs]",
    )(command)


def cluster_option(command: Command) -> Command:
    """Adds the options --cluster, --at, and those for TLS and credentials."""
    cluster = click.option(
        "--cluster", "cluster_name", metavar="NAME", help="Cluster of the file.  [default: the first, by id]"
    )
    at = click.option(
        "--at",
        "url",
        metavar="URL",
        envvar="HOP_WIDE_URL",
        show_envvar=True,
        callback=checked_url,
        help=f"Daemon of that cluster.  [default: `daemons` of the file, or {URL_DEFAULT}]",
    )
    return cluster(at(identity_options(command)))


def chosen_file(path: Path | None) -> tuple[ClustersFile, Path]:
    """The clusters file that is meant, and its path."""
    if path is None:
        here = Path(FILE_NAME)
        running = up_place() / FILE_NAME
        path = here if here.exists() or not is_ours(running) else running
        if not path.exists():
            remedy = "name one with --file, or start clusters of this machine with `hop wide up`"
            raise Failure(f"there is no {FILE_NAME} here; {remedy}")
    return load_clusters(path), path


def is_ours(path: Path) -> bool:
    """Whether a file is there and this user's, in a directory that nobody else can write."""
    return is_private(path.parent) and path.is_file() and path.lstat().st_uid == os.getuid()


def is_private(place: Path) -> bool:
    """Whether a directory is this user's, and nobody else can write in it."""
    try:
        found = place.lstat()
    except OSError:
        return False
    others = stat.S_IMODE(found.st_mode) & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not others


def chosen_cluster(file: ClustersFile, path: Path, name: str | None) -> WideCluster:
    """The cluster that is meant."""
    found = file.clusters[0] if name is None else file.cluster(name)
    if found is None:
        known = ", ".join([one.name for one in file.clusters])
        raise Failure(f"there is no cluster {name} in {path}; choose of {known}")
    return found


@asynccontextmanager
async def session_at(
    path: Path | None, cluster_name: str | None, url: str | None
) -> AsyncIterator[Session[bytes]]:
    """A session at a daemon of the cluster that is meant."""
    file, path = chosen_file(path)
    cluster = chosen_cluster(file, path, cluster_name)
    at = urls_of(cluster, url)
    async with connect(at, membership=False, **identity()) as session:
        yield session


def urls_of(cluster: WideCluster, url: str | None) -> str:
    """The daemons of a cluster, as `connect` takes them."""
    return url or ",".join(cluster.daemons) or URL_DEFAULT
