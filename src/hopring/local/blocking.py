"""A cluster on this machine for programs without an event loop: `hopring.sync.local_cluster`."""

import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from hopring.client.blocking import Session, connect
from hopring.local.daemons import Daemons
from hopring.local.error import ClusterError, NotSettled
from hopring.local.plan import Names
from hopring.local.shell import LOOK_SECONDS, SETTLE_SECONDS, START_SECONDS, Shell


class Cluster(Shell):
    """Daemons of your own: `with local_cluster(...) as cluster`. They end with the block."""

    def __enter__(self) -> Self:
        self._daemons = Daemons(self._plan, self._directory, self._tracing)
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
        """A session at a daemon; the options are those of `connect`."""
        return connect(self.url(daemon), **options)

    def status(self, daemon: str) -> dict[str, Any]:
        """What a daemon says of itself: view, members, counters."""
        return self._core.status(daemon)

    def partition(self, *sides: Names) -> None:
        """Nothing passes between the sides, of sites and daemons; those not named are one more side."""
        self._core.partition(sides)

    def heal(self) -> None:
        """All reach each other again; delays and loss stay."""
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
        """What goes between two sites or daemons is treated so from now on, in both directions."""
        self._core.shape(link, delay, jitter, loss, rate_bits_per_second)

    def crash(self, daemon: str) -> None:
        """Kills a daemon, which says nothing to anybody."""
        self._core.crash(daemon)

    def stop(self, daemon: str) -> None:
        """Ends a daemon in an orderly way."""
        self._core.stop(daemon)

    def restart(self, daemon: str) -> None:
        """Starts a daemon again; one that runs is ended first."""
        if daemon in self._core.processes:
            self._core.stop(daemon)
        self._core.start(daemon)
        _wait(lambda: self._core.back(daemon), START_SECONDS, daemon)

    def settled(self, timeout_seconds: float = SETTLE_SECONDS) -> None:
        """Waits until all daemons that reach each other are in one view of just them; NotSettled if not."""
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
