"""Daemons and members of several clusters of this machine, as processes; the base of the forms of `wide.local`.

No call waits for the protocols, but those that say so; calls may come from any thread.
"""

import contextlib
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from threading import RLock
from typing import Any, Final

from hopring.client.blocking import connect
from hopring.client.errors import MissingReplies, NoResponders
from hopring.client.events import ALL
from hopring.credentials.directory import KeyDirectory
from hopring.errors import HopError
from hopring.haul.ids import ClusterId
from hopring.local.blocking import Cluster
from hopring.local.daemons import KEY_DAYS
from hopring.local.ports import ReservedPorts
from hopring.local.process import ChildProcess, ClusterError
from hopring.wide.clusters_file import (
    FILE_NAME,
    MEMBER_COUNTS,
    AccessPoint,
    ClustersFile,
    WideCluster,
    WideLink,
    dump_clusters,
    parse_clusters,
)
from hopring.wide.messages import QUERY_GROUP

WIDE: Final = "local"
START_SECONDS: Final = 90.0
"""How long members may take until they serve, on a busy machine; after it something is wrong."""

LOOK_SECONDS: Final = 0.2
ASK_SECONDS: Final = 5.0
STARTS_MAX: Final = 5
_TAKEN: Final = "Address already in use"
CLUSTERS_DEFAULT: Final[Mapping[str, int]] = {"hub": 1, "norway": 1, "sandiego": 1}


class MemberProcessHandle(ChildProcess):
    """One start of a member."""

    kind = "member"

    def __init__(self, cluster: str, member: str, command: list[str], log: Path) -> None:
        """Starts the member as a process of its own."""
        super().__init__(member, command, log)
        self.cluster = cluster


class LocalClusters:
    """Clusters of this machine with their daemons and members."""

    def __init__(
        self,
        clusters: Mapping[str, int] | None = None,
        *,
        members: int = 1,
        schedules: Mapping[tuple[str, str], str] | None = None,
        directory: Path | None = None,
    ) -> None:
        """The numbers of daemons by cluster, and the number of members of each; nothing is started yet."""
        self.daemon_counts = dict(clusters or CLUSTERS_DEFAULT)
        if members not in MEMBER_COUNTS:
            raise ValueError(f"{members} members; a majority serves: choose 1, 3 or 5")
        self._members = members
        self._schedules = dict(schedules or {})
        self._lock = RLock()
        self._run = Path(tempfile.mkdtemp(prefix="hop-wide-"))
        self.directory = self._run if directory is None else directory
        self.daemons: dict[str, Cluster] = {}
        self.members: dict[str, MemberProcessHandle] = {}  # Those that run.
        self._cuts: set[frozenset[str]] = set()
        self._file: ClustersFile | None = None
        self._ports: ReservedPorts | None = None  # Of all members, also while some are down.
        self._starts = 0

    @property
    def file(self) -> ClustersFile:
        """The clusters file; there once it was started."""
        assert self._file is not None, "it was started"
        return self._file

    @property
    def path(self) -> Path:
        """The path of the clusters file."""
        return self.directory / FILE_NAME

    # Starting.

    def launch(self) -> None:
        """Starts all daemons and members; waits for the daemons."""
        self.directory.mkdir(parents=True, exist_ok=True)
        KeyDirectory(self.directory / "keys").create(
            WIDE, list(self.daemon_counts), datetime.now(UTC), KEY_DAYS, KEY_DAYS
        )
        with ThreadPoolExecutor(len(self.daemon_counts)) as threads:
            started = list(threads.map(self._start_daemons, self.daemon_counts))
        self.daemons = dict(zip(self.daemon_counts, started, strict=True))
        self._launch_members()

    def _start_daemons(self, name: str) -> Cluster:
        count = self.daemon_counts[name]
        return Cluster({name: count}, directory=self.directory / name, trace=False).__enter__()

    def _launch_members(self) -> None:
        with self._lock:
            self._starts += 1
            self._file = self._drawn()
            self.path.write_text(dump_clusters(replace(self.file, keys=Path("keys"))))
            for one in self.file.clusters:
                for member in one.members:
                    self.start(member)

    def _drawn(self) -> ClustersFile:
        """The clusters file, on ports that are free now."""
        self._release_ports()
        self._ports = ReservedPorts(len(self.daemon_counts) * self._members)
        port = self._ports.base
        clusters: list[WideCluster] = []
        for number, name in enumerate(self.daemon_counts, 1):
            members = tuple([f"{name}-m{one}" for one in range(1, self._members + 1)])
            first = port + (number - 1) * self._members
            access = tuple([AccessPoint("127.0.0.1", first + at) for at in range(self._members)])
            urls = tuple([self.daemons[name].url(one) for one in self.daemons[name].daemons])
            clusters.append(WideCluster(name, ClusterId(number), members, access, urls))
        links = [WideLink(pair, written=text) for pair, text in self._schedules.items()]
        drawn = ClustersFile(WIDE, tuple(clusters), tuple(links), Path("keys"))
        return parse_clusters(dump_clusters(drawn), str(self.path))

    def _release_ports(self) -> None:
        if self._ports is not None:
            self._ports.release()

    def ready(self) -> bool:
        """Whether all clusters serve, and links that may be open are; ClusterError if a member has ended."""
        with self._lock:
            try:
                for handle in self.members.values():
                    handle.check()
            except ClusterError as error:
                if _TAKEN not in error.log or self._starts >= STARTS_MAX:
                    raise
                self._kill_members()
                self._launch_members()
                return False
        return all(self._is_up(one) for one in self.file.clusters)

    def _is_up(self, cluster: WideCluster) -> bool:
        found = self.statuses(cluster.name)
        running = [one for one in cluster.members if one in self.members]
        if len(found) < len(running) or not any(one["serving"] for one in found):
            return False
        links = max(found, key=lambda one: bool(one["serving"]))["links"]
        return all(one["open"] for one in links if self._should_be_open(cluster.name, one))

    def _should_be_open(self, name: str, link: dict[str, Any]) -> bool:
        other = str(link["cluster"])
        there = self.file.cluster(other)
        runs = (
            there is not None and len([one for one in there.members if one in self.members]) > self._members / 2
        )
        cut = frozenset((name, other)) in self._cuts
        return bool(link["on"]) and link["schedule"] == "always" and not cut and runs

    def start(self, member: str) -> None:
        """Starts a member that does not run."""
        with self._lock:
            cluster = self._cluster_of(member)
            if member in self.members:
                raise ValueError(f"member {member} runs; crash it first")
            command = [sys.executable, "-P", "-m", "hopring.cli.main", "wide", "run", "--dangerous"]
            command += ["--file", str(self.path), "--cluster", cluster.name, "--member", member]
            command += ["--state", str(self.directory / "state" / member), "--end-with-stdin"]
            for cut in self._cuts:
                if cluster.name in cut:
                    command += ["--cut", next(iter(cut - {cluster.name}))]
            log = self.directory / f"{member}.log"
            self.members[member] = MemberProcessHandle(cluster.name, member, command, log)

    # Ending.

    def crash(self, member: str) -> None:
        """Kills a member, as a power cut does."""
        with self._lock:
            self._cluster_of(member)
            handle = self.members.pop(member, None)
            if handle is None:
                raise ValueError(f"member {member} does not run; restart it first")
            handle.kill()

    def crash_cluster(self, name: str) -> None:
        """Kills all members of a cluster; its daemons go on."""
        with self._lock:
            for member in self._known(name).members:
                if member in self.members:
                    self.members.pop(member).kill()

    def restart(self, name: str) -> None:
        """Starts a member, or all of a cluster that do not run."""
        with self._lock:
            cluster = self.file.cluster(name)
            members = (name,) if cluster is None else cluster.members
            for one in members:
                if one not in self.members:
                    self.start(one)

    def _kill_members(self) -> None:
        for handle in self.members.values():
            handle.kill()
        self.members = {}

    def close(self) -> None:
        """Ends all members and daemons, and removes temporary files."""
        with self._lock:
            for handle in self.members.values():
                handle.begin_to_end()
            for handle in self.members.values():
                handle.end()
            self._release_ports()
            self.members = {}
            for cluster in self.daemons.values():
                cluster.__exit__(None, None, None)
            self.daemons = {}
            shutil.rmtree(self._run, ignore_errors=True)

    def discard(self) -> None:
        """Kills all members and daemons, and removes temporary files."""
        with self._lock:
            self._kill_members()
            for cluster in self.daemons.values():
                cluster.__exit__(KeyboardInterrupt, None, None)
            self.daemons = {}
            shutil.rmtree(self._run, ignore_errors=True)

    # Links.

    def cut(self, one: str, other: str) -> None:
        """Cuts the link between two clusters: connections end, and no others are made."""
        with self._lock:
            self._cuts.add(frozenset((self._known(one).name, self._known(other).name)))
            self._tell_cuts(one)
            self._tell_cuts(other)

    def heal(self) -> None:
        """Ends all cuts of links."""
        with self._lock:
            self._cuts.clear()
            for name in self.daemon_counts:
                self._tell_cuts(name)

    def _tell_cuts(self, name: str) -> None:
        me = frozenset((name,))
        others = sorted([self._known(next(iter(cut - me))).id for cut in self._cuts if name in cut])
        self.ask(name, {"ask": "cut", "clusters": others})

    # Asking.

    def url(self, name: str) -> str:
        """The URL of the daemons of a cluster, for `connect`."""
        return ",".join(self._known(name).daemons)

    def ask(self, name: str, question: dict[str, Any]) -> list[dict[str, Any]]:
        """The answers of all members of a cluster that run to a question; none if nobody is there."""
        with contextlib.suppress(NoResponders, MissingReplies):
            with connect(self.url(name), membership=False, reconnect=False) as session:
                replies = session.request(
                    QUERY_GROUP, json.dumps(question).encode(), wait=ALL, timeout_seconds=ASK_SECONDS
                )
            return [json.loads(one.data) for one in replies]
        return []

    def statuses(self, name: str) -> list[dict[str, Any]]:
        """The status of each member of a cluster that answers."""
        try:
            return self.ask(name, {"ask": "status"})
        except HopError:
            return []  # It is just ending, or beginning.

    def log(self, member: str) -> str:
        """The log of a member, with those of its earlier starts."""
        self._cluster_of(member)
        with contextlib.suppress(FileNotFoundError):
            return (self.directory / f"{member}.log").read_text(errors="replace")
        return ""

    def _known(self, name: str) -> WideCluster:
        found = self.file.cluster(name)
        if found is None:
            raise ValueError(f"there is no cluster {name}; choose of {', '.join(self.daemon_counts)}")
        return found

    def _cluster_of(self, member: str) -> WideCluster:
        for one in self.file.clusters:
            if member in one.members:
                return one
        known = ", ".join([name for one in self.file.clusters for name in one.members])
        raise ValueError(f"there is no member {member}; choose of {known}")


class NotReady(HopError, TimeoutError):
    """The clusters did not come up, or did not find together again, in time."""

    def __init__(self, seconds: float, clusters: LocalClusters) -> None:
        logs = "".join([f"\n{one.name}:\n{one.log}" for one in clusters.members.values()])
        super().__init__(f"after {seconds:g} s not all clusters serve and are linked; the logs end so:{logs}")
        self.seconds = seconds


def wait_ready(clusters: LocalClusters, seconds: float) -> None:
    """Waits until all that runs serves and is linked; NotReady if not in time."""
    end = time.monotonic() + seconds
    while not clusters.ready():
        if time.monotonic() >= end:
            raise NotReady(seconds, clusters)
        time.sleep(LOOK_SECONDS)
