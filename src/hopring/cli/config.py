"""`hop config`: is a configuration good, what would a good one look like, and what does Spread's become?"""

import json
from pathlib import Path

import click

from hopring.cli.exits import Failure
from hopring.cli.sample import SAMPLE
from hopring.config import Config, ConfigError, cluster_hash, dump_toml, import_spread_conf, load_config


@click.group()
def config() -> None:
    """Check, import and write configurations."""


@config.command()
@click.argument("file", type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of text.")
def check(file: str, as_json: bool) -> None:
    """Check FILE: show the cluster it describes, or its first mistake."""
    cluster = load_config(file)
    click.echo(json.dumps(_facts(cluster)) if as_json else _summary(cluster))


@config.command("import-spread")
@click.argument("file", metavar="SPREAD.CONF", type=click.Path())
@click.option("-o", "--output", metavar="FILE", type=click.Path(), help="Write to this file instead of stdout.")
@click.option("--cluster", default="spread", show_default=True, help="Name of the cluster.")
def import_spread(file: str, output: str | None, cluster: str) -> None:
    """Convert a configuration of Spread to TOML."""
    taken, notes = import_spread_conf(_read(file), file, cluster)
    for note in notes:
        click.echo(f"{file}: {note}", err=True)
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
        "weights": cluster.weights,
        "sites": {site.name: [daemon.name for daemon in site.daemons] for site in cluster.sites},
        "links": [
            {"between": link.sites, "weight": link.weight, "protocol": link.protocol}
            for link in cluster.all_links
        ],
    }


def _summary(cluster: Config) -> str:
    width = max(len(site.name) for site in cluster.sites)
    lines = [f"cluster {cluster.cluster}, hash {cluster_hash(cluster):08x}"]
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
    try:
        # Comments of old files may be in any encoding; what matters is ASCII.
        return Path(file).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        problem = f"cannot be read ({error.strerror or error})"
        raise ConfigError(file, "", problem, "check the path and its permissions") from None


def _write(file: str, text: str) -> None:
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise Failure(
            f"{file}: cannot be written ({error.strerror or error}); choose another file for -o"
        ) from None
