"""`hop demo`: the network layer at work, on this machine, in well under a minute."""

import shutil
import tempfile
import time
from pathlib import Path
from typing import Final

import click
import msgspec

from hopring import __version__
from hopring.cli.demo import show
from hopring.cli.demo.cluster import Cluster, ClusterError, PortTaken
from hopring.cli.demo.director import Director
from hopring.cli.demo.facts import Demo
from hopring.cli.demo.history import judge
from hopring.cli.demo.stage import Stage
from hopring.cli.demo.words import Happening, encode_line
from hopring.cli.demo.world import make_config
from hopring.cli.exits import Exit, Failure

PORT_ATTEMPTS: Final = 5


@click.command()
@click.option(
    "--seconds-per-phase",
    "seconds",
    type=click.FloatRange(0.1, 60),
    default=4.0,
    show_default=True,
    help="How long traffic flows in each phase.",
)
@click.option(
    "--loss",
    "loss_percent",
    metavar="PERCENT",
    type=click.FloatRange(0, 30),
    default=5.0,
    show_default=True,
    help="Datagrams lost between sites in the second phase.",
)
@click.option(
    "--out", metavar="DIR", type=click.Path(file_okay=False), help="For the trace; default: a temporary one."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of text.")
@click.pass_context
def demo(ctx: click.Context, seconds: float, loss_percent: float, out: str | None, as_json: bool) -> None:
    """Multicast reliably between three sites on real sockets.

    Six daemons run as processes of their own; delays between the sites are made in front of their sockets.
    Links are clean, then lossy, then one of them is cut. At the end the trace of all daemons is judged. Exit
    code 1 means that something was lost, doubled or invented.
    """
    directory = _directory(out)
    with Stage(quiet=as_json) as stage:
        try:
            facts = _perform(stage, directory, seconds, loss_percent)
        except (ClusterError, OSError) as error:
            raise Failure(str(error)) from None
        except KeyboardInterrupt:
            if out is None:
                shutil.rmtree(directory)
            raise
    if as_json:
        click.echo(msgspec.json.encode(facts))
    ctx.exit(Exit.OK if facts.ok else Exit.FAILURE)


def _perform(stage: Stage, directory: Path, seconds: float, loss_percent: float) -> Demo:
    began_s = time.monotonic()
    stage.show(show.opening())
    stage.progress("starting six daemons")
    with _open_cluster(directory) as cluster:
        director = Director(cluster, stage, seconds)
        director.open()
        clean = director.clean()
        stage.show(show.clean(clean))
        lossy = director.lossy(loss_percent)
        stage.show(show.lossy(lossy, clean))
        pruned = director.pruned()
        stage.show(show.pruned(pruned))
        rerouted = director.rerouted()
        stage.show(show.rerouted(rerouted))
        stage.progress("judging the trace")
    history = cluster.history
    # The first network ends with the cut, and nothing is promised for a network that ends. So what was before
    # is judged by itself too.
    verdicts = judge(history.before(director.cut_mark), history.all())
    facts = Demo(
        ok=all(verdicts) and director.total.lost == 0 and director.total.duplicates == 0,
        version=__version__,
        seconds=round(time.monotonic() - began_s, 1),
        clean=clean,
        loss=lossy,
        pruning=pruned,
        cut=rerouted,
        total=director.total,
        verdicts=verdicts,
        restarts=director.restarts,
        trace=_write_trace(directory, history.all()),
    )
    stage.show(show.closing(facts))
    return facts


def _open_cluster(directory: Path) -> Cluster:
    """The daemons, on ports that nobody else took in the meantime."""
    for _ in range(PORT_ATTEMPTS - 1):
        try:
            return Cluster(make_config(), directory).open()
        except PortTaken:
            continue
    return Cluster(make_config(), directory).open()


def _directory(out: str | None) -> Path:
    try:
        if out is None:
            return Path(tempfile.mkdtemp(prefix="hop-demo-"))
        Path(out).mkdir(parents=True, exist_ok=True)
        return Path(out)
    except OSError as error:
        raise Failure(f"{out}: no directory can be made there ({error.strerror or error})") from None


def _write_trace(directory: Path, happenings: list[Happening]) -> str:
    file = directory / "trace.jsonl"
    file.write_bytes(b"".join(map(encode_line, happenings)))
    return str(file)
