"""`hop bench throughput`: how many messages a second reach the slowest receiver."""

import json

import click
import msgspec

from hopring.cli.asking import json_option
from hopring.cli.at_daemon import service_option
from hopring.cli.bench.crew import of_runs
from hopring.cli.bench.daemons import Daemons, sites_of
from hopring.cli.bench.job import Case
from hopring.cli.bench.options import (
    receivers_option,
    runs_option,
    seconds_option,
    size_option,
    topology_options,
)
from hopring.cli.bench.summary import Figures, spread_percent, summary
from hopring.cli.bench.throughput import measure_throughput
from hopring.cli.exits import Exit
from hopring.cli.progress_line import Steps


@click.command()
@topology_options
@receivers_option(3)
@size_option(1024)
@service_option
@click.option("--senders", type=click.IntRange(1, 8), default=1, show_default=True, help="Sending processes.")
@click.option(
    "--groups",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="Number of groups; messages go to them in turn.",
)
@click.option("--single", is_flag=True, help="Write each message alone, so that no bundle has two.")
@click.option("--each", is_flag=True, help="Receive one message at a time instead of batches.")
@click.option(
    "--bundle",
    type=click.IntRange(0, 4096),
    default=0,
    help="Messages in one `multicast_many`.  [default: as many as make 62 KB]",
)
@click.option("--by-one", is_flag=True, help="Send each message with a `multicast` of its own.")
@click.option(
    "--window", type=click.IntRange(0), default=0, help="Messages in flight.  [default: 4 MiB, within limits]"
)
@seconds_option(2.0)
@runs_option
@json_option
@click.pass_context
def throughput(
    context: click.Context, /, daemons: int, sites: int, runs: int, as_json: bool, **wishes: object
) -> None:
    """Messages per second that reach the slowest receiver.

    Senders send as fast as they can. It is checked that nothing is lost and that all receive in one order.
    Each daemon and client is a process on this machine. Exit code 1 means that a message was lost or swapped.
    """
    case = msgspec.convert(wishes, Case)
    if case.bundle and not case.many:
        raise click.UsageError("many at once go to one group: --bundle is not for --single, --by-one, --groups")
    with Steps(plain=True) as steps, Daemons(sites_of(daemons, min(sites, daemons)), say=steps.say) as system:
        results = []
        for number in range(runs):
            say = of_runs(steps.say, number, runs)
            results.append(msgspec.to_builtins(measure_throughput(system, case, f"flood{number}", say=say)))
    figures: Figures = {"bench": "throughput", "daemons": daemons, "sites": sites, **msgspec.to_builtins(case)}
    figures |= summary(results)
    rates = [one["messages_per_second"] for one in results]
    figures |= {"spread_percent": spread_percent(rates), "runs": rates}
    click.echo(json.dumps(figures) if as_json else _text(figures))
    if figures["lost"] or not figures["order_ok"]:
        context.exit(Exit.FAILURE)


def _text(figures: Figures) -> str:
    order = "ok" if figures["order_ok"] else "WRONG"
    cpu = " ".join([f"{name} {one:.2f}" for name, one in figures["daemon_cpu_us_per_message"].items()])
    return "\n".join(
        [
            f"{figures['messages_per_second']:,.0f} messages/s of {figures['size_bytes']} B, "
            f"{figures['service']}: {figures['megabytes_per_second']:,.1f} MB/s, "
            f"spread {figures['spread_percent']} %",
            f"lost {figures['lost']} of {figures['sent']:,.0f}, order {order}",
            f"CPU us per message: daemons {cpu}, sender {figures['sender_cpu_us_per_message']:.2f}, "
            f"each receiver {figures['receiver_cpu_us_per_message']:.2f}; "
            f"others took {figures['others_cpu_share']:.0%} of the machine",
        ]
    )
