"""Workloads, and the tasks of worker processes."""

from typing import Final

import msgspec

from hopring.client.outgoing import BUNDLE_BYTES_AIM

IN_FLIGHT_BYTES: Final = 4 << 20
IN_FLIGHT_MAX: Final = 65_536
IN_FLIGHT_MIN: Final = 64
EACH_BYTES: Final = 7


class BenchWorkload(msgspec.Struct, frozen=True):
    """A workload, the same for every system."""

    size_bytes: int = 1024
    service: str = "agreed"
    senders: int = 1
    receivers: int = 3
    groups: int = 1  # Each message goes to the next one.
    single: bool = False  # Each message is written alone.
    each: bool = False  # Receivers take one message at a time.
    window: int = 0  # Messages in flight; 0 means as many as make 4 MiB, within limits.
    by_one: bool = False  # Our senders call `multicast` for each message, and not `multicast_many`.
    bundle: int = 0  # Messages in a burst; 0 means 62 KB, or at a given pace all that are due.
    pace_per_second: int = 0  # 0 means as fast as possible.
    seconds: float = 2.0
    warm_seconds: float = 1.0

    @property
    def in_flight(self) -> int:
        """The window: how many messages may be in flight."""
        return self.window or max(IN_FLIGHT_MIN, min(IN_FLIGHT_MAX, IN_FLIGHT_BYTES // self.size_bytes))

    @property
    def at_once(self) -> int:
        """Messages between two reads of the counters; at most the window."""
        usual = max(1, BUNDLE_BYTES_AIM // (self.size_bytes + EACH_BYTES))
        return min(self.in_flight, 1 if self.single else self.bundle or usual)

    @property
    def many(self) -> bool:
        """Whether our senders use `multicast_many`: several messages to one group at once."""
        return self.in_bursts and not (self.by_one or self.single or self.groups > 1)

    @property
    def in_bursts(self) -> bool:
        """Whether messages are sent in whole bursts only."""
        return not self.pace_per_second or self.bundle > 0


class WorkerTask(msgspec.Struct, frozen=True):
    """The task of one worker process."""

    role: str  # send, receive, ping or answer.
    number: int  # Among those of its role.
    counters: str  # The file.
    group: str  # The first part of the groups' names.
    workload: BenchWorkload = BenchWorkload()
    probes: int = 0
    pause_us: int = 0  # Between two probes.
    to_itself: bool = False  # A probe comes back by itself, without an answer.
    watch_views: bool = False  # Receivers note when views change.

    @property
    def groups(self) -> list[str]:
        """The names of all groups."""
        return [f"{self.group}-{at}" for at in range(self.workload.groups)]
