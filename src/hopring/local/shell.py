"""What the two shells of a local cluster have in common: the wishes, and what can be told without waiting."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from hopring.check import trace
from hopring.config import Config, LinkProtocol
from hopring.local.daemons import Daemons
from hopring.local.plan import PATIENCE_DEFAULT, SITES_DEFAULT, Links, Plan

START_SECONDS: Final = 60.0
SETTLE_SECONDS: Final = 60.0
LOOK_SECONDS: Final = 0.05


class Shell:
    """Daemons of your own, not started yet."""

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
        """Sites by name with how many daemons each has: eu1, eu2 and so on.

        Links say how long a packet is under way between two sites; those that are not named have no delay. The
        directory is for configuration, logs and traces; without one they are gone in the end. For as long as
        the patience a daemon may be silent before the others give it up. The protocol between the sites is hop
        or tcp. The client port is that of the first daemon; all others are chosen.
        With `spread` the daemons serve Spread clients too; a number is the port of the first daemon for them.
        """
        wanted = LinkProtocol(protocol)
        self._plan = Plan(
            sites or SITES_DEFAULT, links or {}, patience, wanted, client_port=client_port, spread=spread
        )
        self._directory = None if directory is None else Path(directory).absolute()
        self._tracing = trace
        self._daemons: Daemons | None = None

    @property
    def _core(self) -> Daemons:
        if self._daemons is None:
            raise RuntimeError("the cluster has not been started: use it as a context manager")
        return self._daemons

    @property
    def config(self) -> Config:
        """The configuration, which is in the file `hop.toml` too."""
        return self._core.config

    @property
    def directory(self) -> Path:
        """Where configuration, logs and traces are."""
        return self._core.directory

    @property
    def daemons(self) -> list[str]:
        """The names of all daemons."""
        return list(self._core.names)

    @property
    def living(self) -> list[str]:
        """The names of those that run."""
        return sorted(self._core.processes)

    @property
    def components(self) -> list[frozenset[str]]:
        """Those that run, by who reaches whom."""
        return self._core.components

    def url(self, daemon: str) -> str:
        """Where clients of a daemon connect."""
        return self._core.url(daemon)

    def spread(self, daemon: str) -> str:
        """Where Spread clients of a daemon connect, as they spell it: 4803@127.0.0.1."""
        return self._core.spread(daemon)

    @property
    def admin_directory(self) -> Path:
        """Where the admin sockets of all daemons are, for `hop monitor --admin`."""
        return self._core.admin_directory

    def pid(self, daemon: str) -> int:
        """The number of a daemon's process."""
        return self._core.living(daemon).pid

    def check(self) -> None:
        """ClusterError, with the end of its log, if a daemon has ended by itself."""
        self._core.check()

    def log(self, daemon: str) -> str:
        """What a daemon has said, in all its lives."""
        return self._core.log(daemon)

    def trace_file(self, daemon: str) -> Path:
        """Where a daemon writes down what happens."""
        return self._core.trace_file(daemon)

    def traces(self) -> list[trace.Event]:
        """What happened at all daemons so far, one after the other, for `hopring.check`."""
        return self._core.traces()
