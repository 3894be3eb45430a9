"""Daemons as processes that serve clients, with steps that tests of clients share."""

import os
import subprocess
import sys
from dataclasses import replace

from tests.hopd.daemon_processes import DaemonProcesses
from tests.support.free_ports import free_base_port

from hopring import (
    Event,
    Group,
    Message,
    Session,
    View,
)
from hopring.config import ClientRight, ClientTuning, Config, LinkTuning, RingTuning, local_config

# On a busy machine a process may not run for a while; these tests do not test that.
RING = RingTuning(token_loss_us=1_500_000)


LINK = LinkTuning(silence_us=2_000_000)


SECONDS_MAX = 90.0


def cluster() -> Config:
    config = local_config({"eu": 1, "us": 1}, {("eu", "us"): "5ms"}, base_port=free_base_port(4))
    sites = [replace(site, ring=RING) for site in config.sites]
    links = tuple(replace(one, tuning=LINK) for one in config.links)
    return replace(config, sites=tuple(sites), links=links, clients=ClientTuning(allow=tuple(ClientRight)))


class ServedCluster:
    """Two daemons in two sites, and the addresses for their clients."""

    def __init__(self, daemons: DaemonProcesses, config: Config) -> None:
        self.daemons = daemons
        self.ports = {one.name: one.client_port or 0 for one in config.daemons}

    def url(self, name: str) -> str:
        return f"hop://127.0.0.1:{self.ports[name]}"


async def take(stream: Group | Session, messages: int) -> list[Event]:
    seen: list[Event] = []
    while sum(isinstance(event, Message) for event in seen) < messages:
        seen.append(await stream.receive())
    return seen


async def meet(*groups: Group) -> None:
    """Waits until each session sees all of them in the group."""
    for group in groups:
        while True:
            event = await group.receive()
            if isinstance(event, View) and len(event.members) == len(groups):
                break


def data(seen: list[Event]) -> list[bytes]:
    return [event.data for event in seen if isinstance(event, Message)]


def hop(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "hopring.cli.main", *arguments]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def run(*arguments: str) -> tuple[int, str, str]:
    process = hop(*arguments)
    out, err = process.communicate(timeout=SECONDS_MAX)
    return process.returncode, out, err
