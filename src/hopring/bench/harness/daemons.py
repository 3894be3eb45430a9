"""The daemons of a bench: processes on loopback that end with it, and idle sessions at them."""

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Final, Self, TypeVar

import msgspec

from hopring.bench.harness.figures import CLEAR, SEALED, TLS
from hopring.bench.harness.processes import (
    ReportStep,
    child_environment,
    cpu_seconds,
    no_progress,
    terminate_all,
    with_prefix,
    with_run_number,
)
from hopring.bench.harness.workload import WorkerTask
from hopring.cli.terminal import Failure
from hopring.client.aio import Session, connect
from hopring.config import SecurityTuning, dump_toml, local_config
from hopring.credentials.directory import KeyDirectory
from hopring.local.plan import ClusterPlan, with_ports
from hopring.local.ports import ReservedPorts, free_base_port

START_SECONDS: Final = 60.0
START_SECONDS_EACH: Final = 1.0
"""Added for each daemon, because many processes may share few processors."""

LOOK_SECONDS: Final = 0.01
HOLDERS: Final = 10
"""Sessions that the groups are spread over."""
AT_ONCE: Final = 50
TWO_SITES: Final[Mapping[str, int]] = {"eu": 1, "us": 1}
_PORTS_EACH: Final = 3
_KEY_DAYS: Final = 30


def sites_of(daemons: int, sites: int) -> dict[str, int]:
    """A number of daemons, divided evenly among sites."""
    return {chr(ord("a") + at): daemons // sites + (at < daemons % sites) for at in range(sites)}


def ports_for(sites: Mapping[str, int]) -> int:
    """The first of free ports for all daemons of these sites."""
    return free_base_port(_ports_of(sites))


def _ports_of(sites: Mapping[str, int]) -> int:
    return _PORTS_EACH * sum(sites.values())


class BenchDaemons:
    """hopring as a system under test: `with BenchDaemons() as daemons`."""

    name = "hopring"
    members_send = False

    def __init__(
        self,
        sites: Mapping[str, int] = TWO_SITES,
        patience: str = "",
        say: ReportStep = no_progress,
        *,
        sealed: bool = False,
        tls: bool = False,
        base_port: int | None = None,
    ) -> None:
        """With the configuration's defaults, except for the patience with silent daemons if given.

        Datagrams are in the clear unless `sealed`; ports are free ones unless `base_port` is the first of them.
        With `tls` the daemons also serve clients by TLS, while `clients_by_tls` is set; their datagrams are
        sealed.
        """
        assert not (tls and patience), "ports are for one of them"
        self.clients_by_tls = False
        """Whether workers that are started from now on use TLS."""
        self._say = say
        self._directory = TemporaryDirectory(prefix="hop-bench-")
        self._ports = ReservedPorts(_ports_of(sites) if base_port is None else 0)
        base_port = self._ports.base if base_port is None else base_port
        if patience:
            config = ClusterPlan(sites, patience=patience).config(base_port)
        else:
            config = local_config(sites, base_port=base_port)
        self.names = [daemon.name for daemon in config.daemons]
        keys = KeyDirectory(Path(self._directory.name) / "keys")
        if sealed or tls:
            keys.create(config.cluster, self.names if tls else [], datetime.now(UTC), _KEY_DAYS, _KEY_DAYS)
            config = replace(config, security=SecurityTuning(str(keys.root)))
        if tls:
            for at, name in enumerate(self.names):
                config = with_ports(config, name, tls_port=base_port + 2 * len(self.names) + at)
        self._ca = str(keys.authority_path)
        self.urls = [f"hop://127.0.0.1:{daemon.client_port}" for daemon in config.daemons]
        self._tls_urls = [f"hops://127.0.0.1:{daemon.tls_port}" for daemon in config.daemons]
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._file = Path(self._directory.name) / "hop.toml"
        self._file.write_text(dump_toml(config))

    def __enter__(self) -> Self:
        count = len(self.names)
        self._say(f"starting {count} daemon{'s' * (count > 1)}, until all are in one view")
        try:
            for name in self.names:
                self.start(name)
            self.wait()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def start(self, name: str) -> None:
        """Starts or restarts a daemon."""
        command = [sys.executable, "-P", "-m", "hopring.daemon.hopd", str(self._file), "--name", name]
        with self._log(name).open("wb") as log:
            self._processes[name] = subprocess.Popen(
                [*command, "--state", self._directory.name], stderr=log, env=child_environment()
            )

    def kill(self, name: str) -> None:
        """Kills a daemon with SIGKILL."""
        process = self._processes.pop(name)
        process.kill()
        process.wait()

    def servers(self) -> dict[str, int]:
        """The process ids by daemon."""
        return {name: process.pid for name, process in self._processes.items()}

    def command(self, task: WorkerTask) -> list[str]:
        """The command of a worker; receivers are at the daemons in turn, the answering client at the next."""
        place = task.number + (task.role == "answer")
        urls = self._tls_urls if self.clients_by_tls else self.urls
        url = urls[place % len(urls)]
        if self.clients_by_tls:
            task = msgspec.structs.replace(task, ca=self._ca)
        return [
            sys.executable,
            "-P",
            "-m",
            "hopring.bench.harness.worker",
            url,
            msgspec.json.encode(task).decode(),
        ]

    def cpu_seconds(self) -> float:
        """CPU time of all daemons so far."""
        return sum([cpu_seconds(pid) for pid in self.servers().values()])

    def views(self) -> int:
        """The number of views installed since the daemons were started."""
        return sum([self._log(name).read_text().count("size=") for name in self.names])

    def _log(self, name: str) -> Path:
        return Path(self._directory.name) / f"{name}.log"

    def wait(self) -> None:
        """Waits until each daemon has installed a view of all since its start."""
        end = time.monotonic() + START_SECONDS + START_SECONDS_EACH * len(self.names)
        while not all(f"size={len(self.names)}" in self._log(name).read_text() for name in self.names):
            if time.monotonic() > end or any(one.poll() is not None for one in self._processes.values()):
                said = "".join(self._log(name).read_text() for name in self.names)
                raise Failure(f"the daemons do not form one view:\n{said}")
            time.sleep(LOOK_SECONDS)

    def _end(self) -> None:
        terminate_all(self._processes.values())
        self._ports.release()
        self._directory.cleanup()


@asynccontextmanager
async def idle_session(url: str) -> AsyncIterator[Session]:
    """A session that lasts for the block."""
    session = await connect(url, membership=False)
    try:
        yield session
    finally:
        session.abort()  # All at once, and the daemons end anyway.


async def join_all(wanted: list[tuple[Session, str]]) -> None:
    """Joins groups, several at a time."""
    for at in range(0, len(wanted), AT_ONCE):
        await asyncio.gather(*[_join(*one) for one in wanted[at : at + AT_ONCE]])


async def _join(session: Session, name: str) -> None:
    await session.join(name)


Measured = TypeVar("Measured")


def clients_in_clear_and_by_tls(
    sites: Mapping[str, int], runs: int, say: ReportStep, measure: Callable[[BenchDaemons, int], Measured]
) -> dict[str, list[Measured]]:
    """Measures clients without and with TLS in turn, at the same daemons, so that other load affects both.

    `measure` is called with running daemons and a number that is new each time.
    """
    results: dict[str, list[Measured]] = {CLEAR: [], TLS: []}
    with BenchDaemons(sites, say=say, tls=True) as daemons:
        for number in range(runs):
            for at, (kind, some) in enumerate(results.items()):
                say(f"{kind}, run {number + 1} of {runs}")
                daemons.clients_by_tls = kind == TLS
                some.append(measure(daemons, 2 * number + at))
    return results


def in_clear_and_sealed(
    sites: Mapping[str, int], runs: int, say: ReportStep, measure: Callable[[BenchDaemons, int], Measured]
) -> dict[str, list[Measured]]:
    """Measures daemons without and with encryption in turn, on the same ports, so that other load affects both.

    `measure` is called with running daemons and the number of the run.
    """
    ports = ReservedPorts(_ports_of(sites))
    results: dict[str, list[Measured]] = {CLEAR: [], SEALED: []}
    for number in range(runs):
        for kind, some in results.items():
            told = with_run_number(with_prefix(say, kind), number, runs)
            with BenchDaemons(sites, say=told, sealed=kind == SEALED, base_port=ports.base) as daemons:
                some.append(measure(daemons, number))
    ports.release()
    return results
