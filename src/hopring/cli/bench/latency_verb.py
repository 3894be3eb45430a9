"""`hop bench latency`: how long a message takes there and back."""

import json

import click
import msgspec

from hopring.cli.asking import json_option
from hopring.cli.at_daemon import service_option
from hopring.cli.bench.crew import of_runs, part_of
from hopring.cli.bench.daemons import Daemons, sites_of
from hopring.cli.bench.job import Case
from hopring.cli.bench.latency import Probing, measure_latency
from hopring.cli.bench.options import receivers_option, runs_option, size_option, topology_options
from hopring.cli.bench.summary import Figures, spread_percent, summary
from hopring.cli.bench.throughput import measure_throughput
from hopring.cli.progress_line import Steps

LOAD = Case(size_bytes=1024, seconds=1.0, warm_seconds=0.5)


@click.command()
@topology_options
@receivers_option(1)
@size_option(100)
@service_option
@click.option("--probes", type=click.IntRange(100), default=2000, show_default=True, help="Probes in each run.")
@click.option(
    "--every-ms", type=click.FloatRange(0), default=0.0, show_default=True, help="Pause between two probes."
)
@click.option("--half-load", is_flag=True, help="Meanwhile send 1 KB messages at half of the highest rate.")
@click.option(
    "--load",
    "load_per_second",
    type=click.IntRange(0),
    default=0,
    help="Meanwhile send this many 1 KB messages a second.",
)
@runs_option
@json_option
def latency(
    daemons: int,
    sites: int,
    receivers: int,
    size_bytes: int,
    service: str,
    probes: int,
    every_ms: float,
    half_load: bool,
    load_per_second: int,
    runs: int,
    as_json: bool,
) -> None:
    """Round-trip times, one message at a time.

    pong: to a client of another daemon that answers. own: until a member receives its own message. p50_us and
    p99_us are those of pong.
    """
    case = Case(size_bytes=size_bytes, service=service, receivers=receivers)
    with Steps(plain=True) as steps, Daemons(sites_of(daemons, min(sites, daemons)), say=steps.say) as system:
        if half_load:
            most = measure_throughput(system, LOAD, "most", say=part_of(steps.say, "full load"))
            load_per_second = int(most.messages_per_second / 2)
        # The flood itself at a lower rate: sent as it comes, in smaller bundles, it would be another load.
        load = LOAD.but(pace_per_second=load_per_second, bundle=LOAD.at_once) if load_per_second else None
        results: list[Figures] = []
        for number in range(runs):
            trips, say = {}, of_runs(steps.say, number, runs)
            for kind in ("pong", "own"):
                probing = Probing(probes, int(every_ms * 1000), kind == "own", load)
                trip = measure_latency(system, case, probing, f"{kind}{number}", say)
                trips[kind] = msgspec.to_builtins(trip)
            results.append(trips)
    figures: Figures = {
        "bench": "latency",
        **{"daemons": daemons, "sites": sites, "size_bytes": size_bytes, "service": service},
        "load_per_second": load_per_second,
        **summary([one["pong"] for one in results]),
        "spread_percent": spread_percent([one["pong"]["p50_us"] for one in results]),
        **summary(results),
    }
    click.echo(json.dumps(figures) if as_json else _text(figures))


def _text(figures: Figures) -> str:
    lines = []
    for kind, words in (("pong", "answered at another daemon"), ("own", "own messages")):
        trip = figures[kind]
        lines.append(
            f"{words}: p50 {trip['p50_us']:,.0f} us, p99 {trip['p99_us']:,.0f} us, max {trip['max_us']:,.0f} us"
        )
    lines.append(
        f"{figures['service']}, {figures['size_bytes']} B, beside {figures['load_per_second']:,} messages/s"
    )
    return "\n".join(lines)
