"""Daemons as processes with admin sockets, whose configuration file changes while they run."""

import subprocess
import sys
from collections.abc import Callable, Mapping
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

from click.testing import CliRunner, Result
from tests.support.free_ports import free_base_port
from tests.support.keys import with_keys
from tests.support.waiting import until

from hopring import sync
from hopring.cli.main import cli
from hopring.cli.monitor.admin_client import AdminClient
from hopring.config import (
    AdminTuning,
    Config,
    Daemon,
    LinkConfig,
    LinkProtocol,
    LinkTuning,
    RingTuning,
    Site,
    dump_toml,
)

SECONDS_MAX = 180.0
PATIENCE_US = 2_000_000


def wait(condition: Callable[[], bool], what: Callable[[], object] = lambda: "") -> None:
    """Waits for a condition, up to the deadline of these tests."""
    until(condition, what, SECONDS_MAX, look_seconds=0.05)


ASKS = ("partition", "window", "reload", "terminate")
"""Verbs that ask for confirmation."""


def monitor(directory: Path, *arguments: str) -> Result:
    """Runs `hop monitor`, with --yes where it would ask for confirmation."""
    yes = ["--yes"] if set(ASKS) & set(arguments) else []
    return CliRunner().invoke(cli, ["monitor", "--timeout", "60", "--admin", str(directory), *arguments, *yes])


class Fleet:
    """Daemons of a changing configuration; use it as `with Fleet() as fleet`."""

    def __init__(
        self,
        arguments: tuple[str, ...] = ("--dangerous",),
        protocol: LinkProtocol = LinkProtocol.HOP,
        admin: AdminTuning | None = None,
    ) -> None:
        """With `admin`, the file names the admin sockets instead of the command line."""
        self._directory = TemporaryDirectory(prefix="hop-")  # Short, because paths of sockets are limited.
        self.directory = Path(self._directory.name)
        self.file = self.directory / "hop.toml"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._arguments = arguments
        self._protocol = protocol
        self.admin = admin
        self._ports: dict[str, int] = {}
        self._base_port = free_base_port(24)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            process.wait(SECONDS_MAX)
        if kind is not None:
            for name in self.processes:
                print(f"--- {name}\n{self.log(name)}")
        self._directory.cleanup()

    def config(self, sites: Mapping[str, list[str]]) -> Config:
        """A configuration with these daemons by site; a name keeps its ports."""
        for name in [name for names in sites.values() for name in names]:
            self._ports.setdefault(name, self._base_port + 2 * len(self._ports))
        # On a busy machine a process may not run for a while; this must not look like its end.
        ring, link = RingTuning(token_loss_us=PATIENCE_US), LinkTuning(silence_us=PATIENCE_US)
        links = [
            LinkConfig(ends, protocol=self._protocol, tuning=link) for ends in combinations(sorted(sites), 2)
        ]
        places = [
            Site(site, tuple([self._daemon(name) for name in sorted(names)]), ring=ring)
            for site, names in sorted(sites.items())
        ]
        config = Config("fleet", tuple(places), tuple(links), admin=self.admin or AdminTuning())
        return with_keys(config, self.directory)

    def _daemon(self, name: str) -> Daemon:
        return Daemon(name, "127.0.0.1", self._ports[name], self._ports[name] + 1)

    def write(self, sites: Mapping[str, list[str]]) -> None:
        """Replaces the configuration in the file."""
        self.file.write_text(dump_toml(self.config(sites)))

    def start(self, *names: str) -> None:
        """Starts the named daemons as processes."""
        for name in names:
            command = [sys.executable, "-m", "hopring.daemon.hopd", str(self.file), "--name", name]
            command += ["--state", str(self.directory)]
            command += [] if self.admin else ["--admin", str(self.directory / f"{name}.admin")]
            command += ["--trace", str(self.trace(name)), *self._arguments]
            with (self.directory / f"{name}.log").open("ab") as log:
                self.processes[name] = subprocess.Popen(command, stderr=log)

    def trace(self, name: str) -> Path:
        """The trace file of a daemon."""
        return self.directory / f"{name}.jsonl"

    def log(self, name: str) -> str:
        """The log of a daemon."""
        return (self.directory / f"{name}.log").read_text()

    def url(self, name: str) -> str:
        """The address for clients of a daemon."""
        return f"hop://127.0.0.1:{self._ports[name] + 1}"

    def connect(self, daemon: str, **options: Any) -> sync.Session:
        """Connects a session that does not reconnect."""
        return sync.connect(self.url(daemon), reconnect=False, **options)

    def hop(self, *arguments: str) -> Result:
        """Runs `hop monitor` on the sockets of this fleet."""
        return monitor(self.directory, *arguments)

    def views(self) -> dict[str, list[str]]:
        """The members of each daemon's view, where the view is settled."""
        sight = AdminClient([self.directory], SECONDS_MAX).look()
        return {
            one.name: one.status["members"]
            for one in sight.seen
            if (one.status["phase"], one.status["groups_state"]) == ("OP", "GOP")
            and not one.status["reloading"]
        }

    def meet(self, *names: str) -> None:
        """Waits until these daemons share a view."""
        for name in names:
            wait(lambda one=name: (self.directory / f"{one}.admin").exists())  # type: ignore[misc]
        wait(lambda: all(self.views().get(name) == list(names) for name in names), self.views)
