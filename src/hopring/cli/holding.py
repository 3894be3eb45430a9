"""A local cluster that stays up: who is in which view, line by line, until it is interrupted."""

import time

import click

from hopring.local.blocking import Cluster
from hopring.local.error import ClusterError

LOOK_SECONDS = 0.5


def where(cluster: Cluster) -> dict[str, str]:
    """Where clients of each daemon connect."""
    return {name: cluster.url(name) for name in cluster.daemons}


def hold(cluster: Cluster) -> None:
    """Tells of views and of daemons that end, on stderr, until Ctrl-C; that is no failure."""
    shown: dict[str, object] = {}
    try:
        while True:
            for name in cluster.daemons:
                told = _look(cluster, name)
                if shown.get(name) != told:
                    shown[name] = told
                    click.echo(f"{time.strftime('%H:%M:%S')} {name}  {told}", err=True)
            time.sleep(LOOK_SECONDS)
    except KeyboardInterrupt:
        click.echo("hop: ending all daemons", err=True)


def _look(cluster: Cluster, name: str) -> str:
    if name not in cluster.living:
        return "is not there"
    try:
        status = cluster.status(name)
    except ClusterError as error:
        return error.problem
    return f"view of {len(status['members'])}: {' '.join(status['members'])}"
