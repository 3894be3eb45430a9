"""`hop wide up`: clusters of this machine, with their daemons and members, until interrupted."""

import os
import time
from pathlib import Path
from typing import Any, Final

import click

from hopring.cli.terminal import Failure, say
from hopring.cli.wide.options import is_private, up_place
from hopring.local.process import ClusterError
from hopring.wide.clusters_file import FILE_NAME, dump_clusters
from hopring.wide.local_clusters.blocking import LocalWide
from hopring.wide.local_clusters.processes import NotReady

LOOK_SECONDS: Final = 1.0
CLUSTERS_EXAMPLE: Final = "hub=1,norway=1,sandiego=1"


def read_clusters(_context: click.Context, _parameter: click.Parameter, text: str) -> dict[str, int]:
    """Parses `hub=1,norway=1`: the number of daemons of each cluster."""
    found: dict[str, int] = {}
    for part in text.split(","):
        name, _, count = part.strip().partition("=")
        if not name or name in found or not (count or "1").isdecimal() or int(count or "1") < 1:
            raise click.BadParameter(f"{part.strip()!r} is no cluster; write it as {CLUSTERS_EXAMPLE}")
        found[name] = int(count or "1")
    if len(found) < 2:
        raise click.BadParameter(f"one cluster alone; write them as {CLUSTERS_EXAMPLE}")
    return found


@click.command()
@click.option(
    "--clusters",
    metavar="NAME=COUNT,...",
    default=CLUSTERS_EXAMPLE,
    show_default=True,
    callback=read_clusters,
    help="Clusters, and the number of daemons of each.",
)
@click.option(
    "--members",
    type=click.Choice(["1", "3", "5"]),
    default="1",
    show_default=True,
    help="Members of the service in each cluster.",
)
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep the clusters file, keys and logs in this directory; it must not have any yet.",
)
def up(clusters: dict[str, int], members: str, out: Path | None) -> None:
    """Run several clusters on this machine, joined by the long-haul service, until interrupted (Ctrl-C).

    Other commands of `hop wide` find them without --file, as long as they run. All connections are by TLS, with
    keys of their own.
    """
    count = len(clusters) * int(members)
    say(f"hop: starting {sum(clusters.values())} daemons and {count} members ...", err=True)
    try:
        with LocalWide(clusters, members=int(members), directory=out) as world:
            place = _leave_file(world)
            try:
                _announce(world, found=place is not None)
                _hold(world)
            except KeyboardInterrupt:
                say("hop: ending all members and daemons", err=True)
            finally:
                if place is not None and place.exists() and place.read_text().startswith(_mark()):
                    place.unlink()
    except (ClusterError, NotReady, ValueError) as error:
        raise Failure(str(error)) from None


def _leave_file(world: LocalWide) -> Path | None:
    """The clusters file for other commands; None if there is no place that is this user's alone."""
    place = up_place()
    try:
        place.mkdir(mode=0o700, exist_ok=True)
    except OSError:
        return None
    if not is_private(place):
        return None
    path = place / FILE_NAME
    path.write_text(_mark() + dump_clusters(world.file))
    return path


def _mark() -> str:
    return f"# Of `hop wide up`, process {os.getpid()}.\n"


def _announce(world: LocalWide, *, found: bool) -> None:
    for name in world.clusters:
        status: list[dict[str, Any]] = world.status(name)
        open_links = [one["cluster"] for one in status[0]["links"] if one["open"]] if status else []
        here = ", ".join([str(one["member"]) for one in status])
        say(f"{name}  {here}  at {world.url(name)}  linked to {', '.join(open_links) or 'nobody'}")
    first, option = world.clusters[0], "" if found else f" --file {world.path}"
    where = f"--cluster {first}{option}"
    say(f"hop: try `hop wide sub news {where}` and `hop wide send news hello {where}`", err=True)
    say(f"hop: watch it with `hop wide status{option}`", err=True)
    say(f"hop: files are in {world.path.parent}; Ctrl-C ends everything", err=True)


def _hold(world: LocalWide) -> None:
    """Tells of members that have ended, until Ctrl-C is raised."""
    told: set[str] = set()
    while True:
        for name in world.ended():
            if name not in told:
                told.add(name)
                say(f"hop: {name} has ended: see {world.path.parent / (name + '.log')}", err=True)
        time.sleep(LOOK_SECONDS)
