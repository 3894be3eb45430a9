"""`hop bench`: the group of its commands."""

import click

from hopring.bench.cpu import cpu
from hopring.bench.engines import engines
from hopring.bench.failover import failover
from hopring.bench.groups import groups
from hopring.bench.latency import latency
from hopring.bench.many_daemons import daemons
from hopring.bench.pipeline import pipeline
from hopring.bench.throughput import throughput
from hopring.bench.wide.command import wide


@click.group()
def bench() -> None:
    """Measure throughput, latency and cost on this machine.

    Daemons and clients are started for the measurement and end with it. Progress is on stderr, figures are on
    stdout.
    """


for _command in (throughput, latency, groups, daemons, engines, failover, cpu, pipeline, wide):
    bench.add_command(_command)
