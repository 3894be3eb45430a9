"""What can go wrong with a cluster on this machine."""

from hopring.errors import HopError


class ClusterError(HopError, RuntimeError):
    """A daemon could not be started, ended by itself, or does not answer; its log's end is in the message."""

    def __init__(self, daemon: str, problem: str, log: str = "") -> None:
        tail = "".join([f"\n  {line}" for line in log.splitlines()[-LOG_LINES:]])
        super().__init__(f"daemon {daemon} {problem}" + (f"; its log ends so:{tail}" if tail else ""))
        self.daemon = daemon
        self.problem = problem
        self.log = log


class NotSettled(HopError, TimeoutError):
    """The daemons did not come to the views that they should have."""

    def __init__(self, seconds: float, seen: dict[str, str]) -> None:
        views = "".join([f"\n  {name}: {view}" for name, view in sorted(seen.items())])
        super().__init__(f"after {seconds:g} s the daemons are not settled:{views}")
        self.seconds = seconds
        self.seen = seen


LOG_LINES = 12
