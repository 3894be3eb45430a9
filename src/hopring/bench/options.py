"""Options that the commands of `hop bench` share."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from hopring.bench.harness.workload import CLIENTS_MAX, TAG_BYTES

Command = TypeVar("Command", bound=Callable[..., Any])

_MESSAGE_BYTES_MAX = 144 * 1024


def topology_options(command: Command) -> Command:
    """Adds the options --daemons and --sites."""
    daemons = click.option(
        "--daemons", type=click.IntRange(1, 26), default=3, show_default=True, help="Number of daemons."
    )
    sites = click.option(
        "--sites",
        type=click.IntRange(1, 26),
        default=1,
        show_default=True,
        help="Number of sites; with as many sites as daemons, all traffic is over Hop links.",
    )
    return daemons(sites(command))


def size_option(default: int) -> Callable[[Command], Command]:
    """A decorator that adds the option --size."""

    def add(command: Command) -> Command:
        size = click.IntRange(TAG_BYTES, _MESSAGE_BYTES_MAX)
        return click.option(
            "--size",
            "size_bytes",
            metavar="BYTES",
            type=size,
            default=default,
            show_default=True,
            help="Size of a message.",
        )(command)

    return add


def receivers_option(default: int) -> Callable[[Command], Command]:
    """A decorator that adds the option --receivers."""

    def add(command: Command) -> Command:
        return click.option(
            "--receivers",
            type=click.IntRange(1, CLIENTS_MAX),
            default=default,
            show_default=True,
            help="Receiving processes, spread over the daemons.",
        )(command)

    return add


def runs_option(command: Command) -> Command:
    """A decorator that adds the option --runs."""
    return click.option(
        "--runs",
        type=click.IntRange(1, 100),
        default=1,
        show_default=True,
        help="Number of runs; figures are their medians.",
    )(command)


def seconds_option(default: float) -> Callable[[Command], Command]:
    """A decorator that adds the option --seconds."""

    def add(command: Command) -> Command:
        return click.option(
            "--seconds",
            type=click.FloatRange(min=0.05),
            default=default,
            show_default=True,
            help="Length of each run, after the warm-up.",
        )(command)

    return add


def tls_option(command: Command) -> Command:
    """A decorator that adds the option --tls."""
    return click.option(
        "--tls", is_flag=True, help="Measure clients without and with TLS in turn; print both and the ratio."
    )(command)


def sealed_option(command: Command) -> Command:
    """A decorator that adds the option --sealed."""
    return click.option(
        "--sealed",
        is_flag=True,
        help="Measure daemons without and with encryption in turn; print both and the ratio.",
    )(command)
