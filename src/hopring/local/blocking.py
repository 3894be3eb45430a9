"""Local clusters for programs without an event loop: `hopring.sync.local_cluster`."""

import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from hopring.client.blocking import Session, connect
from hopring.local.daemons import LOOK_SECONDS, SETTLE_SECONDS, START_SECONDS, ClusterBase, LocalDaemons
from hopring.local.plan import Names
from hopring.local.process import ClusterError, NotSettled


class Cluster(ClusterBase):
    """Daemons for a block: `with local_cluster(...) as cluster`. They end with it."""

    def __enter__(self) -> Self:
        self._daemons = LocalDaemons(self._plan, self._directory, self._tracing)
        try:
            self._daemons.launch()
            _wait(self._daemons.ready, START_SECONDS, "the daemons")
            self.settled()
        except BaseException:
            self._daemons.discard()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        # SIGTERM, where a program makes an exit of it, is no failure either.
        if kind is None or issubclass(kind, SystemExit):
            self._core.close()
        else:
            self._core.discard()

    def connect(self, daemon: str, **options: Any) -> Session:
        """A session at a daemon, with the options of `hopring.sync.connect`."""
        return connect(self.url(daemon), **options)

    def status(self, daemon: str) -> dict[str, Any]:
        """The status that a daemon reports: view, members, counters."""
        return self._core.status(daemon)

    def partition(self, *sides: Names) -> None:
        """Cuts all traffic between sides of sites and daemons; those not named form one more side."""
        self._core.partition(sides)

    def heal(self) -> None:
        """Removes all cuts; delays and loss stay."""
        self._core.partition([])

    def shape(
        self,
        link: tuple[Names, Names],
        delay: str = "0ms",
        *,
        jitter: str = "0ms",
        loss: float = 0.0,
        rate_bits_per_second: int = 0,  # 0 is no limit.
    ) -> None:
        """Sets delay, loss and rate between two sites or daemons, in both directions."""
        self._core.shape(link, delay, jitter, loss, rate_bits_per_second)

    def crash(self, daemon: str) -> None:
        """Kills a daemon, which tells the others nothing."""
        self._core.crash(daemon)

    def stop(self, daemon: str) -> None:
        """Ends a daemon in an orderly way."""
        self._core.stop(daemon)

    def restart(self, daemon: str) -> None:
        """Starts a daemon again; a running one is ended first."""
        if daemon in self._core.processes:
            self._core.stop(daemon)
        self._core.start(daemon)
        _wait(lambda: self._core.back(daemon), START_SECONDS, daemon)

    def settled(self, timeout_seconds: float = SETTLE_SECONDS) -> None:
        """Waits until daemons that reach each other share one view; NotSettled if not in time."""
        seen: dict[str, str] = {}
        end = time.monotonic() + timeout_seconds
        while not self._core.settled(seen.__setitem__):
            if time.monotonic() >= end:
                raise NotSettled(timeout_seconds, seen)
            time.sleep(LOOK_SECONDS)


def _wait(condition: Callable[[], bool], seconds: float, whom: str) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= end:
            raise ClusterError(whom, f"does not answer after {seconds:g} s")
        time.sleep(LOOK_SECONDS)


local_cluster = Cluster
