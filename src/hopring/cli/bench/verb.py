"""`hop bench` and its commands."""

import click

from hopring.cli.bench.cpu_verb import cpu
from hopring.cli.bench.failover_verb import failover
from hopring.cli.bench.groups_verb import groups
from hopring.cli.bench.latency_verb import latency
from hopring.cli.bench.many_daemons_verb import daemons
from hopring.cli.bench.throughput_verb import throughput


@click.group()
def bench() -> None:
    """Measure throughput, latency and cost on this machine.

    Daemons and clients are started for it and end with it. Progress is on stderr, figures are on stdout.
    """


for _command in (throughput, latency, groups, daemons, failover, cpu):
    bench.add_command(_command)
