"""`hop up`: a cluster on this machine, without a configuration file, until interrupted."""

import json
import time
from pathlib import Path

import click

from hopring.cli.terminal import Failure, say
from hopring.config.spread_conf import SPREAD_PORT_DEFAULT
from hopring.local.blocking import Cluster
from hopring.local.plan import SITES_DEFAULT, read_duration
from hopring.local.ports import tcp_free
from hopring.local.process import ClusterError
from hopring.session.frames import CLIENT_PORT_DEFAULT

LOOK_SECONDS = 0.5
DAEMONS_MAX = 64


def read_sites(_context: click.Context, _parameter: click.Parameter, text: str | None) -> dict[str, int]:
    """Parses `eu=2,us=2`: the number of daemons of each site."""
    if text is None:
        return dict(SITES_DEFAULT)
    sites: dict[str, int] = {}
    for part in text.split(","):
        name, _, count = part.strip().partition("=")
        if not name or name in sites or not (count or "1").isdecimal() or int(count or "1") < 1:
            raise click.BadParameter(f"{part.strip()!r} is no site; write it as eu=2,us=2")
        sites[name] = int(count or "1")
    if sum(sites.values()) > DAEMONS_MAX:
        raise click.BadParameter(f"more than {DAEMONS_MAX} daemons; choose fewer")
    return sites


def read_links(texts: tuple[str, ...], sites: dict[str, int]) -> dict[tuple[str, str], str]:
    """Parses `eu-us=40ms`: delays by pair of sites; names may contain dashes."""
    links: dict[tuple[str, str], str] = {}
    for text in texts:
        ends, _, delay = text.partition("=")
        pairs = [(one, other) for one in sites for other in sites if one != other and f"{one}-{other}" == ends]
        if not pairs:
            raise click.BadParameter(f"{text!r} names no two sites of {', '.join(sites)}; write eu-us=40ms")
        try:
            read_duration(delay)
        except ValueError as error:
            raise click.BadParameter(f"{text!r}: {error}") from None
        links[pairs[0]] = delay
    return links


@click.command()
@click.option(
    "--sites",
    metavar="NAME=COUNT,...",
    callback=read_sites,
    help="Sites, and the number of daemons of each.  [default: one site of three]",
)
@click.option(
    "--link",
    "links",
    metavar="A-B=DELAY",
    multiple=True,
    help="Delay between two sites, as eu-us=40ms; may be repeated.",
)
@click.option(
    "--port",
    type=click.IntRange(1, 65_535),
    default=CLIENT_PORT_DEFAULT,
    show_default=True,
    help="Client port of the first daemon; the others get free ones.",
)
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep configuration, logs and traces in this directory.",
)
@click.option(
    "--keys",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Encrypt with the keys that `hop keys new` made there.  [default: keys for this cluster alone]",
)
@click.option("--spread", is_flag=True, help="Serve Spread clients too.")
@click.option(
    "--spread-port",
    type=click.IntRange(1, 65_535),
    default=SPREAD_PORT_DEFAULT,
    show_default=True,
    help="Spread port of the first daemon; the others get free ones.",
)
@click.option(
    "--spool",
    "patterns",
    metavar="PATTERN",
    multiple=True,
    help="Group that the first daemon of each site writes to a spool; may be repeated.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the URLs of the daemons as one JSON object.")
def up(
    sites: dict[str, int],
    links: tuple[str, ...],
    port: int,
    out: Path | None,
    keys: Path | None,
    spread: bool,
    spread_port: int,
    patterns: tuple[str, ...],
    as_json: bool,
) -> None:
    """Run a cluster on this machine until interrupted (Ctrl-C).

    The first daemon listens where `hop pub` and `hop sub` look for one. Delays between sites are simulated in
    front of the daemons' sockets; nothing needs root.
    """
    delays = read_links(links, sites)
    wanted = {"--port": port} | ({"--spread-port": spread_port} if spread else {})
    for option, number in wanted.items():
        if not tcp_free(number):
            problem = f"port {number} of 127.0.0.1 is taken, perhaps by another `hop up` or hopd"
            raise Failure(f"{problem}; end that, or choose another with {option}")
    count = sum(sites.values())
    say(f"hop: starting {count} daemon{'s' * (count > 1)} ...", err=True)
    try:
        with Cluster(
            sites,
            delays,
            directory=out,
            trace=out is not None,
            client_port=port,
            spread=spread_port if spread else False,
            keys=keys,
            spool=patterns,
        ) as cluster:
            # Once somebody can know that the daemons run, Ctrl-C is the usual end.
            try:
                _announce(cluster, as_json, spread, port, f"{next(iter(sites))}1")
                hold(cluster)
            except KeyboardInterrupt:
                say("hop: ending all daemons", err=True)
    except ClusterError as error:
        raise Failure(str(error)) from None


def _announce(cluster: Cluster, as_json: bool, spread: bool, port: int, first: str) -> None:
    if as_json:
        click.echo(json.dumps(where(cluster)))
    else:
        for name, url in sorted(where(cluster).items()):
            say(f"{name}  {url}" + (f"  {cluster.spread(name)}" if spread else ""))
    option = "" if port == CLIENT_PORT_DEFAULT else f" --at {cluster.url(first)}"
    say(f"hop: try `hop sub news{option}` and `hop pub news hello{option}`", err=True)
    say(f"hop: watch it with `hop monitor --admin {cluster.admin_directory}`", err=True)
    if cluster.config.spool.directory is not None:
        say(f"hop: spools are in {cluster.spool_directory(first)}", err=True)
    say(f"hop: files are in {cluster.directory}; Ctrl-C ends all daemons", err=True)


def where(cluster: Cluster) -> dict[str, str]:
    """The client URL of each daemon."""
    return {name: cluster.url(name) for name in cluster.daemons}


def hold(cluster: Cluster) -> None:
    """Prints changes of views and ended daemons on stderr, until Ctrl-C is raised."""
    shown: dict[str, object] = {}
    while True:
        for name in cluster.daemons:
            told = _look(cluster, name)
            if shown.get(name) != told:
                shown[name] = told
                say(f"{time.strftime('%H:%M:%S')} {name}  {told}", err=True)
        time.sleep(LOOK_SECONDS)


def _look(cluster: Cluster, name: str) -> str:
    if name not in cluster.living:
        return "is not there"
    try:
        status = cluster.status(name)
    except ClusterError as error:
        return error.problem
    return f"view of {len(status['members'])}: {' '.join(status['members'])}"
