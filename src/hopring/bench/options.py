"""Options that the commands of `hop bench` share, and the workload that they make."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from hopring.bench.harness.shared_counters import MARK_BYTES, PLACES

Verb = TypeVar("Verb", bound=Callable[..., Any])

_MESSAGE_BYTES_MAX = 144 * 1024


def topology_options(verb: Verb) -> Verb:
    """How many daemons, and where."""
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
    return daemons(sites(verb))


def size_option(default: int) -> Callable[[Verb], Verb]:
    """How long a message is."""

    def add(verb: Verb) -> Verb:
        size = click.IntRange(MARK_BYTES, _MESSAGE_BYTES_MAX)
        return click.option(
            "--size",
            "size_bytes",
            metavar="BYTES",
            type=size,
            default=default,
            show_default=True,
            help="Size of a message.",
        )(verb)

    return add


def receivers_option(default: int) -> Callable[[Verb], Verb]:
    """How many receive."""

    def add(verb: Verb) -> Verb:
        return click.option(
            "--receivers",
            type=click.IntRange(1, PLACES),
            default=default,
            show_default=True,
            help="Receiving processes, spread over the daemons.",
        )(verb)

    return add


def runs_option(verb: Verb) -> Verb:
    """How often."""
    return click.option(
        "--runs",
        type=click.IntRange(1, 100),
        default=1,
        show_default=True,
        help="Number of runs; figures are their medians.",
    )(verb)


def seconds_option(default: float) -> Callable[[Verb], Verb]:
    """How long a run is."""

    def add(verb: Verb) -> Verb:
        return click.option(
            "--seconds",
            type=click.FloatRange(min=0.05),
            default=default,
            show_default=True,
            help="Length of each run, after the warm-up.",
        )(verb)

    return add
