"""What both kinds of local clusters share: options, and everything that needs no waiting."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from hopring.check import trace
from hopring.config import Config, LinkProtocol
from hopring.local.daemons import LocalDaemons
from hopring.local.plan import PATIENCE_DEFAULT, SITES_DEFAULT, ClusterPlan, Links

START_SECONDS: Final = 60.0
SETTLE_SECONDS: Final = 60.0
LOOK_SECONDS: Final = 0.05


class ClusterBase:
    """A local cluster, not started yet."""

    def __init__(
        self,
        sites: Mapping[str, int] | None = None,
        links: Links | None = None,
        *,
        directory: str | Path | None = None,
        patience: str = PATIENCE_DEFAULT,
        protocol: str = "hop",
        trace: bool = True,
        client_port: int | None = None,
        spread: bool | int = False,
    ) -> None:
        """The sites, by name, with their numbers of daemons: eu1, eu2 and so on.

        `links` are the delays of packets between two sites; other pairs have none. `directory` keeps
        configuration, logs and traces; without it they are removed at the end. `patience` is how long a daemon
        may be silent before the others consider it failed. `protocol` between sites is hop or tcp.
        `client_port` is that of the first daemon; all other ports are chosen. With `spread` the daemons serve
        Spread clients too; a number is the port of the first one.
        """
        wanted = LinkProtocol(protocol)
        self._plan = ClusterPlan(
            sites or SITES_DEFAULT, links or {}, patience, wanted, client_port=client_port, spread=spread
        )
        self._directory = None if directory is None else Path(directory).absolute()
        self._tracing = trace
        self._daemons: LocalDaemons | None = None

    @property
    def _core(self) -> LocalDaemons:
        if self._daemons is None:
            raise RuntimeError("the cluster has not been started: use it as a context manager")
        return self._daemons

    @property
    def config(self) -> Config:
        """The configuration, which is also in the file `hop.toml`."""
        return self._core.config

    @property
    def directory(self) -> Path:
        """The directory of configuration, logs and traces."""
        return self._core.directory

    @property
    def daemons(self) -> list[str]:
        """The names of all daemons."""
        return list(self._core.names)

    @property
    def living(self) -> list[str]:
        """The names of the running daemons."""
        return sorted(self._core.processes)

    @property
    def components(self) -> list[frozenset[str]]:
        """The running daemons, in sets that reach each other."""
        return self._core.components

    def url(self, daemon: str) -> str:
        """The URL for clients of a daemon."""
        return self._core.url(daemon)

    def spread(self, daemon: str) -> str:
        """The address for Spread clients of a daemon, in their notation: 4803@127.0.0.1."""
        return self._core.spread(daemon)

    @property
    def admin_directory(self) -> Path:
        """The directory of the admin sockets, for `hop monitor --admin`."""
        return self._core.admin_directory

    def pid(self, daemon: str) -> int:
        """The process id of a daemon."""
        return self._core.living(daemon).pid

    def check(self) -> None:
        """Raises ClusterError, with the end of the log, if a daemon has ended by itself."""
        self._core.check()

    def log(self, daemon: str) -> str:
        """The log of a daemon, including those of earlier starts."""
        return self._core.log(daemon)

    def trace_file(self, daemon: str) -> Path:
        """The trace file of a daemon."""
        return self._core.trace_file(daemon)

    def traces(self) -> list[trace.Event]:
        """The traces of all daemons so far, one after the other, for `hopring.check`."""
        return self._core.traces()
