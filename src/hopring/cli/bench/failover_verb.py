"""`hop bench failover`: how long a killed daemon holds up the others' clients."""

import json

import click
import msgspec

from hopring.cli.asking import json_option
from hopring.cli.at_daemon import service_option
from hopring.cli.bench.crew import of_runs
from hopring.cli.bench.daemons import Daemons, sites_of
from hopring.cli.bench.failover import measure_failover
from hopring.cli.bench.job import Case
from hopring.cli.bench.options import runs_option, seconds_option, size_option
from hopring.cli.bench.summary import Figures, summary
from hopring.cli.exits import Exit
from hopring.cli.progress_line import Steps


@click.command()
@click.option("--daemons", type=click.IntRange(2, 8), default=3, show_default=True, help="Number of daemons.")
@click.option("--sites", type=click.IntRange(1, 8), default=1, show_default=True, help="Number of sites.")
@size_option(1024)
@service_option
@click.option(
    "--load",
    "pace_per_second",
    type=click.IntRange(0),
    default=2000,
    show_default=True,
    help="Messages a second; 0 is as fast as possible.",
)
@seconds_option(0.5)
@runs_option
@json_option
@click.pass_context
def failover(
    context: click.Context, /, daemons: int, sites: int, runs: int, as_json: bool, **wishes: object
) -> None:
    """Time to a new view after a daemon is killed under load.

    The daemon is killed with SIGKILL; nothing that clients of the others sent may be lost.
    All figures are those of the slowest client at a daemon that lives on. The daemon then starts again; that
    takes from the start of its process to a view of all. Exit code 1 means that a message was lost or swapped.
    """
    case = msgspec.convert(wishes, Case)
    with Steps(plain=True) as steps, Daemons(sites_of(daemons, min(sites, daemons)), say=steps.say) as system:
        results = []
        for number in range(runs):
            say = of_runs(steps.say, number, runs)
            results.append(msgspec.to_builtins(measure_failover(system, case, f"fault{number}", say)))
    figures: Figures = {"bench": "failover", "daemons": daemons, "sites": sites, **msgspec.to_builtins(case)}
    figures |= summary(results) | {"runs": results}
    click.echo(json.dumps(figures) if as_json else _text(figures))
    if figures["lost"] or not figures["order_ok"]:
        context.exit(Exit.FAILURE)


def _text(figures: Figures) -> str:
    order = "ok" if figures["order_ok"] else "WRONG"
    return "\n".join(
        [
            f"new view at all clients after {figures['view_ms']:,.0f} ms, "
            f"messages again after {figures['resumed_ms']:,.0f} ms",
            f"lost {figures['lost']} of {figures['sent']:,.0f}, order {order}",
            f"the daemon started again: in a view of all after {figures['rejoined_ms']:,.0f} ms",
        ]
    )
