"""A cluster of real daemons for the fuzz of packets: two rings, a Hop link and TCP links, two tapped daemons.

`DaemonWatch` asks each daemon all the time, notes its memory and its drops, and how long it was silent.
"""

import json
import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from hopring.config import Config, LinkProtocol
from hopring.local.daemons import LocalDaemons
from hopring.local.plan import ClusterPlan
from hopring.local.process import ClusterError, DaemonFiles, DaemonProcess

ROOT: Final = Path(__file__).parents[2]
SITES: Final = {"ap": 1, "eu": 2, "us": 2}
TAPPED: Final = ("eu1", "us2")
"""The daemons that can lie: a representative with TCP and Hop links, and one that only its ring hears."""

LOOK_SECONDS: Final = 0.1
SILENT_SECONDS_MAX: Final = 2.0
GROWTH_BYTES_MAX: Final = 20 * 2**20
PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


class MixedPlan(ClusterPlan):
    """The links of one site are TCP, the others Hop."""

    def config(self, base_port: int | None = None) -> Config:
        config = super().config(base_port)
        links = [
            replace(one, protocol=LinkProtocol.TCP if "ap" in one.sites else LinkProtocol.HOP)
            for one in config.links
        ]
        return replace(config, links=tuple(links))


class FuzzedDaemons(LocalDaemons):
    """Local daemons of which some are run by `tests.fuzz.faulty_hopd`."""

    def __init__(self, directory: Path) -> None:
        super().__init__(MixedPlan(SITES, patience="1s"), directory, tracing=True)
        self.killed: set[int] = set()
        """The ids of processes that were killed from here."""
        self._reports = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._reports.bind(str(self.admin_directory / "reports"))
        self.taps = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self.taps.bind(str(self.admin_directory / "taps"))

    def crash(self, name: str) -> None:
        with self._lock:
            self.killed.add(self.living(name).pid)
            super().crash(name)

    def _places(self, name: str) -> DaemonFiles:
        # Daemons are compiled, as users run them, even if this process is not.
        places = replace(super()._places(name), environment={"HOPRING_PURE": "0", "PYTHONPATH": str(ROOT)})
        return replace(places, module="tests.fuzz.faulty_hopd") if name in TAPPED else places

    def order(self, name: str, **order: object) -> None:
        """Sends an order to a tapped daemon that runs; `report` has the answer."""
        with suppress(OSError):
            channel = self.taps if "tap" in order else self._reports
            channel.sendto(json.dumps(order).encode(), str(self.admin_directory / f"{name}.admin.fuzz"))

    def report(self) -> dict[str, Any] | None:
        """The last answer that has arrived; None if there is none."""
        last: dict[str, Any] | None = None
        with suppress(BlockingIOError):
            while True:
                last = json.loads(self._reports.recv(1 << 16))
        return last

    def tapped(self) -> list[bytes]:
        """Datagrams that the tapped daemons have sent or received since the last call."""
        out: list[bytes] = []
        with suppress(BlockingIOError):
            while True:
                out.append(self.taps.recv(1 << 16))
        return out

    def forged(self) -> set[tuple[str, int, int]]:
        """Daemon, stamp and service of all bundles that were forged so far."""
        found: set[tuple[str, int, int]] = set()
        for name in TAPPED:
            file = self.admin_directory / f"{name}.admin.forged"
            if file.exists():
                whole, newline, _torn = file.read_bytes().rpartition(b"\n")
                for line in (whole + newline).splitlines():
                    daemon, lts, service = json.loads(line)
                    if daemon < len(self.names):
                        found.add((self.config.daemons[daemon].name, lts, service))
        return found

    def forget_forged(self) -> None:
        """Bundles that were forged before belong to a history that was judged."""
        for name in TAPPED:
            file = self.admin_directory / f"{name}.admin.forged"
            if file.exists():
                os.truncate(file, 0)


@dataclass
class WatchedProcess:
    """One start of a daemon, as far as it was seen."""

    name: str
    pid: int
    first_bytes: int = 0
    last_bytes: int = 0
    most_bytes: int = 0
    silent_seconds: float = 0.0
    drops: dict[str, dict[str, int]] = field(default_factory=dict)
    received: int = 0
    views: int = 0
    members: int = 0  # Of its present view; 0 while it has none.

    @property
    def grown_bytes(self) -> int:
        """The growth since the first look after the warm-up."""
        return self.most_bytes - self.first_bytes if self.first_bytes else 0


class DaemonWatch:
    """Asks all running daemons for their status, in a thread of its own."""

    def __init__(self, daemons: FuzzedDaemons) -> None:
        self.seen: dict[int, WatchedProcess] = {}  # By process id.
        self.failures: list[str] = []
        self.warm = False
        """Whether memory is noted: daemons have had load."""
        self._daemons = daemons
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begins to watch."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread."""
        self._stop.set()
        self._thread.join()

    def dropped(self) -> dict[str, Counter[str]]:
        """What was refused, by layer and reason, over all starts of daemons."""
        total: dict[str, Counter[str]] = {}
        for one in list(self.seen.values()):
            for layer, drops in one.drops.items():
                total.setdefault(layer, Counter()).update(drops)
        return total

    def members_of(self, name: str) -> int:
        """The members of a daemon's view, as last seen; 0 if it has none or does not run."""
        process = self._daemons.processes.get(name)
        one = None if process is None else self.seen.get(process.pid)
        return 0 if one is None else one.members

    @property
    def received(self) -> int:
        """Datagrams that daemons have received, over all starts."""
        return sum([one.received for one in list(self.seen.values())])

    def _run(self) -> None:
        while not self._stop.wait(LOOK_SECONDS):
            for name, process in list(self._daemons.processes.items()):
                self._look(name, process)

    def _look(self, name: str, process: DaemonProcess) -> None:
        if self._daemons.processes.get(name) is not process:
            return
        one = self.seen.setdefault(process.pid, WatchedProcess(name, process.pid))
        me = threading.get_native_id()
        begun, waited, own = time.monotonic(), _waited_seconds(process.pid), _waited_seconds(me)
        try:
            if not process.answers():
                return  # It starts.
            status = process.ask("status")
        except ClusterError as error:
            if process.pid not in self._daemons.killed:
                self.failures.append(str(error))
                self._stop.set()
            return
        # A process that wants to run and gets no processor is not silent by its own fault, nor by ours.
        # One that has just been killed has no counters any more.
        starved = max(0.0, _waited_seconds(process.pid) - waited) + _waited_seconds(me) - own
        one.silent_seconds = max(one.silent_seconds, time.monotonic() - begun - starved)
        self._note(one, status)

    def _note(self, one: WatchedProcess, status: Mapping[str, Any]) -> None:
        size_bytes = _memory_bytes(one.pid)
        if self.warm and size_bytes:
            one.first_bytes = one.first_bytes or size_bytes
            one.last_bytes = size_bytes
            one.most_bytes = max(one.most_bytes, size_bytes)
        one.drops = status["counters"]["dropped_by_layer"]
        one.received = status["packets"]["received"]
        one.views = status["views"]
        one.members = len(status["members"]) if status["phase"] == "OP" else 0


def _memory_bytes(pid: int) -> int:
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES
    return 0


def _waited_seconds(pid: int) -> float:
    """The time for which a process was ready to run and another one had the processor."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    return 0.0
