"""The daemons of a local cluster, and the base class of its asyncio and its blocking interface.

No call waits for the protocols; `settled` tells their state. Calls may come from any thread.
"""

import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from threading import RLock
from typing import Any, Final

import msgspec

from hopring.check import trace
from hopring.check.trace_files import TraceRow, events
from hopring.config import ClientRight, Config, LinkProtocol, SecurityTuning, SpoolTuning, dump_toml
from hopring.credentials.directory import KeyDirectory
from hopring.local.plan import (
    PATIENCE_DEFAULT,
    SITES_DEFAULT,
    ClusterPlan,
    Links,
    Names,
    daemons_of,
    read_duration,
    sides_of,
    with_ports,
)
from hopring.local.ports import ReservedPorts
from hopring.local.process import ClusterError, DaemonFiles, DaemonProcess

KEY_DAYS: Final = 90
"""For how long certificates of a cluster's own keys are valid: longer than `hop doctor` warns of their end."""

SPOOL_SYNC_US: Final = 20_000
"""How often spoolers of a cluster sync: those who try things out should not have to wait for a second."""

STARTS_MAX: Final = 5
"""How often other ports are tried when another process takes one first."""

_TAKEN: Final = "Address already in use"
_OPERATIONAL: Final = ("OP", "GOP")  # Of daemons, of groups.


class LocalDaemons:
    """Daemon processes on loopback and the faults between them."""

    def __init__(self, plan: ClusterPlan, directory: Path | None, tracing: bool) -> None:
        """Starts nothing yet; ValueError if the plan cannot be carried out."""
        self._ports = ReservedPorts(plan.ports)
        self.config: Config = plan.config(self._ports.base)
        self._plan = plan
        self._tracing = tracing
        self._lock = RLock()
        # Sockets want short paths, so they are never in the user's own directory.
        self._run = Path(tempfile.mkdtemp(prefix="hop-"))
        self.directory = self._run if directory is None else directory
        self.names = [daemon.name for daemon in self.config.daemons]
        self.processes: dict[str, DaemonProcess] = {}
        self._sides = [frozenset(self.names)]
        self._shapes: dict[tuple[str, str], dict[str, object]] = {}  # By sender and receiver.
        self._starts = 0
        self._shape_links()

    def _shape_links(self) -> None:
        for pair, delay in self._plan.links.items():
            self._remember(pair, {"delay_us": read_duration(delay)})

    # Starting.

    def launch(self) -> None:
        """Starts all daemon processes, on fresh ports."""
        with self._lock:
            self._starts += 1
            self.directory.mkdir(parents=True, exist_ok=True)
            config = with_ports(self.config, self._first_daemon(), **self._plan.wished_ports)
            self.config = replace(config, security=SecurityTuning(str(self._keys())), spool=self._spool())
            self._file.write_text(dump_toml(self.config))
            for name in self.names:
                self.processes[name] = DaemonProcess(name, self._places(name))

    def _spool(self) -> SpoolTuning:
        if not self._plan.spool:
            return SpoolTuning()
        first = tuple([f"{site}1" for site in self._plan.sites])
        directory = str(self._spools.absolute() / "{name}")
        return SpoolTuning(directory, self._plan.spool, first, sync_us=SPOOL_SYNC_US)

    @property
    def _spools(self) -> Path:
        return self.directory / "spool"

    def spool_directory(self, name: str) -> Path:
        """The directory of the spools that a daemon writes; ValueError if it writes none."""
        if self._plan.spool and name in [f"{site}1" for site in self._plan.sites]:
            return self._spools / self._known(name)
        raise ValueError(f"daemon {name} writes no spools; with spool=[...] the first of each site does")

    def _keys(self) -> Path:
        """The directory of the cluster's keys; made for this cluster unless the plan names one."""
        if self._plan.keys is not None:
            return self._plan.keys.absolute()
        made = self._run / "keys"
        if not made.exists():
            now = datetime.now(UTC)
            KeyDirectory(made).create(self.config.cluster, self.names, now, KEY_DAYS, KEY_DAYS)
        return made

    def _first_daemon(self) -> str:
        """The first daemon of the first site, in the order of the plan."""
        return f"{next(iter(self._plan.sites))}1"

    def ready(self) -> bool:
        """Whether all daemons answer and have their link shapes; called again until it is true."""
        with self._lock:
            try:
                if not all(process.answers() for process in self.processes.values()):
                    return False
            except ClusterError as error:
                # A requested port is never replaced by another.
                wished = any(f"TCP port {port} " in error.log for port in self._plan.wished_ports.values())
                if _TAKEN not in error.log or self._starts == STARTS_MAX or wished:
                    raise
                self.kill_all()
                self._ports.release()
                self._ports = ReservedPorts(self._plan.ports)
                self.config = self._plan.config(self._ports.base)
                self.launch()
                return False
            for name in self.processes:
                self._apply(name)
            return True

    @property
    def _file(self) -> Path:
        return self.directory / "hop.toml"

    @property
    def admin_directory(self) -> Path:
        """The directory of the admin sockets."""
        return self._run

    def _places(self, name: str) -> DaemonFiles:
        trace_file = self.trace_file(name) if self._tracing else None
        log = self.directory / f"{name}.log"
        # With a requested port the sockets are where Spread clients look.
        sockets = self._run if isinstance(self._plan.spread, bool) else None
        admin = self.admin_directory / f"{name}.admin"
        return DaemonFiles(self._file, self._run, admin, log, trace_file, sockets)

    # Ending.

    def kill_all(self) -> None:
        """Kills all daemons at once."""
        with self._lock:
            for process in self.processes.values():
                process.kill()
            self.processes = {}

    def close(self) -> None:
        """Ends all daemons and removes temporary files."""
        with self._lock:
            for process in self.processes.values():
                process.begin_to_end()
            for process in self.processes.values():
                process.end()
            self.processes = {}
            self._ports.release()
            shutil.rmtree(self._run, ignore_errors=True)

    def discard(self) -> None:
        """Kills all daemons and removes temporary files."""
        with self._lock:
            self.kill_all()
            self._ports.release()
            shutil.rmtree(self._run, ignore_errors=True)

    # One daemon.

    def url(self, name: str) -> str:
        """The URL for clients of a daemon."""
        daemon = self.config.daemons[self.config.daemon_id(self._known(name))]
        return f"hop://{daemon.address}:{daemon.client_port}"

    def spread(self, name: str) -> str:
        """The address for Spread clients of a daemon; ValueError if they are not served."""
        daemon = self.config.daemons[self.config.daemon_id(self._known(name))]
        if daemon.spread_port is None:
            raise ValueError("the cluster does not serve Spread clients; start it with spread=True")
        return f"{daemon.spread_port}@{daemon.address}"

    def living(self, name: str) -> DaemonProcess:
        """The process of a running daemon; ValueError if it does not run."""
        if self._known(name) not in self.processes:
            raise ValueError(f"daemon {name} does not run; restart it first")
        return self.processes[name]

    def crash(self, name: str) -> None:
        """Kills a daemon, as a power cut does."""
        with self._lock:
            self.living(name).kill()
            del self.processes[name]

    def stop(self, name: str) -> None:
        """Ends a daemon in an orderly way: it tells the others."""
        with self._lock:
            self.living(name).end()
            del self.processes[name]

    def start(self, name: str) -> None:
        """Starts a daemon that has ended; `back` tells when it answers."""
        with self._lock:
            if self._known(name) in self.processes:
                raise ValueError(f"daemon {name} runs; crash or stop it first")
            self.processes[name] = DaemonProcess(name, self._places(name))

    def back(self, name: str) -> bool:
        """Whether a restarted daemon answers and has its link shapes."""
        with self._lock:
            if not self.living(name).answers():
                return False
            self._apply(name)
            return True

    def status(self, name: str) -> dict[str, Any]:
        """The status that a daemon reports on its admin socket."""
        with self._lock:
            return self.living(name).ask("status")

    def check(self) -> None:
        """Raises ClusterError if a daemon has ended by itself."""
        with self._lock:
            for process in self.processes.values():
                if process.exit_code is not None:
                    raise process.error(f"ended with exit code {process.exit_code}")

    def log(self, name: str) -> str:
        """The log of a daemon, including those of earlier starts."""
        with suppress(FileNotFoundError):
            return (self.directory / f"{self._known(name)}.log").read_text(errors="replace")
        return ""

    def _known(self, name: str) -> str:
        if name not in self.names:
            raise ValueError(f"there is no daemon {name}; choose of {', '.join(self.names)}")
        return name

    # The network between them.

    def partition(self, sides: Iterable[Names]) -> None:
        """Cuts all traffic between the sides; daemons that are not named form one more side."""
        with self._lock:
            self._sides = sides_of(self.config, sides)
            for name in self.processes:
                self._apply_cut(name)

    def shape(
        self, link: tuple[Names, Names], delay: str, jitter: str, loss: float, rate_bits_per_second: int
    ) -> None:
        """Sets delay, loss and rate between two sites or daemons, in both directions."""
        shape: dict[str, object] = {
            "delay_us": read_duration(delay),
            "jitter_us": read_duration(jitter),
            "loss": loss,
            "rate_bits_per_second": rate_bits_per_second,
        }
        with self._lock:
            self._remember(link, shape)
            ends = daemons_of(self.config, link[0]) + daemons_of(self.config, link[1])
            for name in ends:
                if name in self.processes:
                    self._apply_shapes(name)

    def _remember(self, link: tuple[Names, Names], shape: dict[str, object]) -> None:
        one, other = (daemons_of(self.config, names) for names in link)
        if set(one) & set(other):
            raise ValueError(f"{', '.join(sorted(set(one) & set(other)))} is at both ends of the link")
        for here in one:
            for there in other:
                self._shapes[here, there] = self._shapes[there, here] = shape

    def _apply(self, name: str) -> None:
        """Applies cuts and shapes to a daemon that has just started, which has none."""
        if len(self._sides) > 1:
            self._apply_cut(name)
        self._apply_shapes(name)

    def _apply_cut(self, name: str) -> None:
        side = next(side for side in self._sides if name in side)
        self.processes[name].ask("cut", daemons=sorted(set(self.names) - side))

    def _apply_shapes(self, name: str) -> None:
        mine = [(there, shape) for (here, there), shape in self._shapes.items() if here == name]
        alike: list[tuple[dict[str, object], list[str]]] = []
        for there, shape in mine:
            if not alike or alike[-1][0] != shape:
                alike.append((shape, []))
            alike[-1][1].append(there)
        for shape, to in alike:
            self.processes[name].ask("shape", to=to, **shape)

    # State and traces.

    @property
    def components(self) -> list[frozenset[str]]:
        """The running daemons, in sets that reach each other."""
        living = [side & self.processes.keys() for side in self._sides]
        return [side for side in living if side]

    def settled(self, seen: Callable[[str, str], None]) -> bool:
        """Whether daemons that reach each other share one view; `seen` is called with each view."""
        with self._lock:
            settled = True
            for component in self.components:
                views = set()
                for name in sorted(component):
                    status = self.processes[name].ask("status")
                    members, phase = status["members"], (status["phase"], status["groups_state"])
                    seen(name, f"{' '.join(members)} ({status['view']}, {phase[0]})")
                    views.add(status["view"])
                    settled = settled and phase == _OPERATIONAL and set(members) == component
                settled = settled and len(views) == 1
            return settled

    def trace_file(self, name: str) -> Path:
        """The trace file of a daemon."""
        return self.directory / f"{self._known(name)}.jsonl"

    def traces(self) -> list[trace.Event]:
        """The traces of all daemons so far, one after the other."""
        if not self._tracing:
            raise ValueError("the cluster was started without traces; start it with trace=True")
        with self._lock:
            return read_traces({name: self.trace_file(name) for name in self.names}, self.processes)


def read_traces(files: Mapping[str, Path], living: Iterable[str]) -> list[trace.Event]:
    """All traces one after the other; a daemon that does not run and did not end has crashed."""
    history: list[trace.Event] = []
    for name, file in files.items():
        of_daemon = list(events(_rows(file)))
        history += of_daemon
        if of_daemon and name not in living and not isinstance(of_daemon[-1], trace.Crash):
            history.append(trace.Crash(of_daemon[-1].process, of_daemon[-1].at_us))
    return history


def _rows(file: Path) -> list[TraceRow]:
    if not file.exists():
        return []
    decoder = msgspec.json.Decoder(TraceRow)
    whole, newline, _torn = file.read_bytes().rpartition(b"\n")
    return [decoder.decode(line) for line in (whole + newline).splitlines()]


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
        allow: Collection[str] = (),
        keys: str | Path | None = None,
        spool: Names = (),
    ) -> None:
        """The sites, by name, with their numbers of daemons: eu1, eu2 and so on.

        `links` are the delays of packets between two sites; other pairs have none. `directory` keeps
        configuration, logs and traces; without it they are removed at the end. `patience` is how long a daemon
        may be silent before the others consider it failed. `protocol` between sites is hop or tcp.
        `client_port` is that of the first daemon; all other ports are chosen. With `spread` the daemons serve
        Spread clients too; a number is the port of the first one. `allow` is what clients may ask for although
        it costs others something: "block" and "priority".
        The daemons encrypt what they send to each other, with the keys of the directory `keys`, or with keys
        that are made for this cluster alone. `spool` are groups, and patterns of them: the first daemon of each
        site writes them to spools in `directory`.
        """
        wanted = LinkProtocol(protocol)
        self._plan = ClusterPlan(
            sites or SITES_DEFAULT,
            links or {},
            patience,
            wanted,
            client_port=client_port,
            spread=spread,
            allow=tuple([ClientRight(right) for right in allow]),
            spool=(spool,) if isinstance(spool, str) else tuple(spool),
            keys=None if keys is None else Path(keys),
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

    def spool_directory(self, daemon: str) -> Path:
        """The directory of the spools of a daemon; ValueError if it writes none."""
        return self._core.spool_directory(daemon)

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
