"""Clusters of this machine for programs without an event loop: `hopring.wide.sync.local`."""

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from hopring.client.blocking import Session, connect
from hopring.wide.clusters_file import ClustersFile
from hopring.wide.local_clusters.processes import START_SECONDS, LocalClusters, wait_ready


class LocalWideBase:
    """Clusters that are not started yet."""

    def __init__(
        self,
        clusters: Mapping[str, int] | None = None,
        *,
        members: int = 1,
        schedules: Mapping[tuple[str, str], str] | None = None,
        directory: Path | str | None = None,
    ) -> None:
        """The numbers of daemons of each cluster, by name, and the number of members of each.

        `schedules` are those of links that are not always open, by pair of clusters. `directory` keeps files
        and logs; without it they are removed at the end.
        """
        place = None if directory is None else Path(directory).absolute()
        self._core = LocalClusters(clusters, members=members, schedules=schedules, directory=place)

    @property
    def clusters(self) -> tuple[str, ...]:
        """The names of all clusters, in the order of their ids."""
        return tuple(self._core.daemon_counts)

    @property
    def path(self) -> Path:
        """The clusters file, for `hop wide --file`."""
        return self._core.path

    @property
    def running(self) -> tuple[str, ...]:
        """The members that run now."""
        return tuple(self._core.members)

    @property
    def file(self) -> ClustersFile:
        """The content of the clusters file, with absolute paths."""
        return self._core.file

    def ended(self) -> tuple[str, ...]:
        """The members that have ended by themselves."""
        return tuple([name for name, one in self._core.members.items() if one.exit_code is not None])

    def members(self, cluster: str) -> tuple[str, ...]:
        """The configured members of a cluster."""
        return self._core._known(cluster).members

    def url(self, cluster: str) -> str:
        """The URL of the daemons of a cluster, for `connect`."""
        return self._core.url(cluster)

    def pid(self, member: str) -> int:
        """The process of a member that runs."""
        return self._core.members[member].pid

    def log(self, member: str) -> str:
        """The log of a member."""
        return self._core.log(member)


class LocalWide(LocalWideBase):
    """Clusters for a block: `with wide.sync.local(...) as world`. They end with it."""

    def __enter__(self) -> Self:
        """Starts them; returns when all serve and are linked."""
        try:
            self._core.launch()
            wait_ready(self._core, START_SECONDS)
        except BaseException:
            self._core.discard()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None or issubclass(kind, SystemExit):
            self._core.close()
        else:
            self._core.discard()

    def connect(self, cluster: str, **options: Any) -> Session[Any]:
        """A session at a daemon of a cluster, with the options of `hopring.sync.connect`."""
        return connect(self.url(cluster), **options)

    def status(self, cluster: str) -> list[dict[str, Any]]:
        """The status of each member of a cluster that answers."""
        return self._core.statuses(cluster)

    def cut(self, one: str, other: str) -> None:
        """Cuts the link between two clusters: connections end, and no others are made."""
        self._core.cut(one, other)

    def heal(self) -> None:
        """Ends all cuts of links."""
        self._core.heal()

    def crash(self, member: str) -> None:
        """Kills a member, as a power cut does."""
        self._core.crash(member)

    def crash_cluster(self, cluster: str) -> None:
        """Kills all members of a cluster; its daemons go on."""
        self._core.crash_cluster(cluster)

    def restart(self, name: str) -> None:
        """Starts a member, or those of a cluster that do not run."""
        self._core.restart(name)

    def settled(self, timeout_seconds: float = START_SECONDS) -> None:
        """Waits until all that runs serves and is linked."""
        wait_ready(self._core, timeout_seconds)
