"""`hop config`: checks a configuration, prints an example, converts one of Spread."""

import json
from pathlib import Path
from typing import Final

import click

from hopring.cli.terminal import Failure, say, say_lines
from hopring.config import Config, cluster_hash, config_digest, dump_toml, import_spread_conf, load_config
from hopring.config.error import read_limited

SAMPLE: Final = """\
# One file describes the whole cluster. Every daemon gets the same file and finds itself in it by name.

cluster = "example"          # Daemons of another cluster, or with another file, are not listened to.
default_weight = "80ms"      # Of links that give none. A duration counts in microseconds.

# How soon silent sites let messages of others go on, and more; docs/configuration.md has all keys.
# [membership]
# update_delta = "20ms"

# The admin channel, for `hop monitor`; without it there is none.
# [admin]
# socket = "/run/hopring/{name}.admin"
# allow = ["cut", "window", "reload", "terminate"]

# A site is a set of daemons on one local network. They share a ring.

[sites.eu]
# On a network with multicast the ring sends once instead of to each daemon:
# multicast = { group = "239.192.7.1", port = 4890 }

[[sites.eu.daemons]]
name = "eu1"
address = "10.1.0.11"        # By which all other daemons reach it; IPv4 or IPv6.
port = 4892                  # UDP, and TCP for links that use it; this is the default.

[[sites.eu.daemons]]
name = "eu2"
address = "10.1.0.12"

[sites.us]

[[sites.us.daemons]]
name = "us1"
address = "10.2.0.11"

[sites.ap]

[[sites.ap.daemons]]
name = "ap1"
address = "10.3.0.11"

# Every pair of sites is a link; with `mesh = false` (at the top) only those listed here are. Bundles take the
# way with the smallest sum of weights: try `hop routes` on this file.

[[links]]
between = ["eu", "us"]
weight = "40ms"
# rate = "200Mbit"           # Without it, congestion control that is fair to TCP.
# silence = "2s"             # How long the other end may be silent before the link has failed.

[[links]]
between = ["us", "ap"]
weight = "60ms"
# protocol = "tcp"           # Where UDP does not get through; the default is "hop".
"""


@click.group()
def config() -> None:
    """Check, import and write configurations."""


@config.command()
@click.argument("file", type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of text.")
def check(file: str, as_json: bool) -> None:
    """Check FILE: print the cluster it describes, or its first mistake."""
    cluster = load_config(file)
    if as_json:
        click.echo(json.dumps(_facts(cluster)))
    else:
        say_lines(_summary(cluster))


@config.command("import-spread")
@click.argument("file", metavar="SPREAD.CONF", type=click.Path())
@click.option("-o", "--output", metavar="FILE", type=click.Path(), help="Write to this file instead of stdout.")
@click.option("--cluster", default="spread", show_default=True, help="Name of the cluster.")
def import_spread(file: str, output: str | None, cluster: str) -> None:
    """Convert a configuration of Spread to TOML."""
    taken, notes = import_spread_conf(_read(file), file, cluster)
    for note in notes:
        say(f"{file}: {note}", err=True)
    if output is None:
        click.echo(dump_toml(taken), nl=False)
    else:
        _write(output, dump_toml(taken))


@config.command()
def example() -> None:
    """Print a commented example configuration."""
    click.echo(SAMPLE, nl=False)


def _facts(cluster: Config) -> dict[str, object]:
    return {
        "cluster": cluster.cluster,
        "hash": f"{cluster_hash(cluster):08x}",
        "digest": config_digest(cluster),
        "weights": cluster.weights,
        "sites": {site.name: [daemon.name for daemon in site.daemons] for site in cluster.sites},
        "links": [
            {"between": link.sites, "weight": link.weight, "protocol": link.protocol}
            for link in cluster.all_links
        ],
    }


def _summary(cluster: Config) -> str:
    width = max(len(site.name) for site in cluster.sites)
    lines = [f"cluster {cluster.cluster}, hash {cluster_hash(cluster):08x}, digest {config_digest(cluster)}"]
    lines.append(f"{_count(len(cluster.sites), 'site')}, {_count(len(cluster.daemons), 'daemon')}")
    for site in cluster.sites:
        lines.append(f"  {site.name:{width}}  {' '.join(daemon.name for daemon in site.daemons)}")
    lines.append(f"{_count(len(cluster.all_links), 'link')}")
    for link in cluster.all_links:
        one, other = link.sites
        lines.append(f"  {one:{width}}  {other:{width}}  weight {link.weight}, {link.protocol}")
    return "\n".join(lines)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _read(file: str) -> str:
    # Comments of old files may be in any encoding; what matters is ASCII.
    return read_limited(file).decode(errors="replace")


def _write(file: str, text: str) -> None:
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise Failure(
            f"{file}: cannot be written ({error.strerror or error}); choose another file for -o"
        ) from None
