"""Errors of the long-haul service: the text has the reason and a remedy, the fields the details."""

from typing import Final

from hopring.client.errors import InDoubt
from hopring.errors import HopError

_START: Final = "start its members with `hop wide run`, or clusters of this machine with `hop wide up`"


class LongHaulRefused(HopError):
    """A request to the long-haul service was refused for good; nothing was done."""

    def __init__(self, what: str, reason: str, remedy: str) -> None:
        super().__init__(f"{what}: {reason}; {remedy}")
        self.what = what
        self.reason = reason
        self.remedy = remedy


class NotInSet(LongHaulRefused):
    """The set is not known in this cluster, or has not the clusters that were named."""


class ClustersDiffer(LongHaulRefused):
    """A set has other clusters than those that were named; the reason has both lists."""


class WideFull(LongHaulRefused):
    """So much waits for a cluster, or for the group here, that nothing more is taken."""


class FileRefused(LongHaulRefused):
    """A file is not taken: its name leaves the directory of the set, it changes, or it cannot be read."""


class UnknownCluster(LongHaulRefused):
    """There is no cluster of this name in the clusters file of the members."""


class NoLongHaul(HopError):
    """No member of the long-haul service is in this cluster."""

    def __init__(self, url: str) -> None:
        super().__init__(f"no member of the long-haul service is in the cluster of {url}; {_START}")
        self.url = url


class NoWideQuorum(HopError):
    """Less than a majority of the configured members is here: nothing is accepted meanwhile."""

    def __init__(self, cluster: str, members: int, here: int) -> None:
        reason = f"{here} of {members} members of cluster {cluster} are here, and no majority has the log"
        super().__init__(f"{reason}; start the others: what was asked for is repeated until it is accepted")
        self.cluster = cluster
        self.members = members
        self.here = here


class NotAcceptedYet(InDoubt):
    """A request has no answer yet; the library goes on repeating it while the set is open."""


class NotAnswered(HopError, TimeoutError):
    """A call has no answer yet; it stays open, and the same name gets its answer later."""

    def __init__(self, call: str, to: str, seconds: float) -> None:
        super().__init__(
            f"the call {call} to {to} has no answer after {seconds:g} s; ask again by its name: it stays open"
        )
        self.call = call
        self.to = to
        self.seconds = seconds


class NotEverywhere(HopError, TimeoutError):
    """Not all destinations have the message yet; it waits for them, and is not lost."""

    def __init__(self, what: str, seconds: float) -> None:
        super().__init__(
            f"{what} is not everywhere after {seconds:g} s; it waits for clusters that are away: see "
            "`hop wide spools`"
        )
        self.seconds = seconds
