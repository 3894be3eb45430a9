"""Workloads, the tasks of worker processes, and the counters that all processes of a bench share.

The counters are in shared memory, so programs in any language can use them. They carry everything that is not
measured: readiness, go and stop, numbers of messages sent and received, and a window that limits how far
senders are ahead of the slowest receiver. So no system is charged for flow control, and none loses messages to
a slow reader. Each counter has one writer and is a little-endian number of 64 bits.

A message begins with a tag of 32 bits: its sequence number and its sender. Each receiver stores the CRC-32 of
all tags in the order of arrival; equal checksums mean equal orders.
"""

import mmap
from pathlib import Path
from struct import Struct
from typing import Final
from zlib import crc32

import msgspec

from hopring.client.outgoing import BUNDLE_BYTES_AIM

STOP, GO, WINDOW, SIZE, SENDERS, RECEIVERS, BURST, FAULT_AT = range(8)
CLIENTS_MAX: Final = 8
"""How many senders, and how many receivers, there can be."""

SENT: Final = 8
RECEIVED: Final = 16
ORDER: Final = 24
RECEIVER_READY: Final = 32
SENDER_READY: Final = 40
VIEW_AT: Final = 48
RESUMED_AT: Final = 56
SLOTS: Final = 64
_SLOT_BYTES: Final = 8

TAG: Final = Struct("<I")
TAG_BYTES: Final = TAG.size

Counters = memoryview
"""The counters as a sequence of numbers."""


def create_counters(file: Path) -> Counters:
    """Creates the file, with all counters zero."""
    file.write_bytes(bytes(SLOTS * _SLOT_BYTES))
    return open_counters(file)


def open_counters(file: Path) -> Counters:
    """Maps the file that another process has created."""
    with file.open("r+b") as opened:
        return memoryview(mmap.mmap(opened.fileno(), SLOTS * _SLOT_BYTES)).cast("q")


def window_left(counters: Counters) -> int:
    """How many more messages may be in flight."""
    slowest = min(counters[RECEIVED : RECEIVED + counters[RECEIVERS]])
    return counters[WINDOW] + slowest - sum(counters[SENT : SENT + CLIENTS_MAX])


def message_tag(sender: int, sequence: int) -> bytes:
    """The first bytes of a message."""
    return TAG.pack(sequence * CLIENTS_MAX + sender)


def order_checksum(count: int) -> int:
    """The checksum after `count` messages of sender 0 alone, none missing and none twice."""
    total = 0
    for first in range(0, count, 1 << 16):
        some = range(first * CLIENTS_MAX, min(count, first + (1 << 16)) * CLIENTS_MAX, CLIENTS_MAX)
        total = crc32(Struct(f"<{len(some)}I").pack(*some), total)
    return total


class ReceiverCounters:
    """The counters of one receiver."""

    def __init__(self, counters: Counters, receiver: int) -> None:
        self._counters = counters
        self._received_at = RECEIVED + receiver
        self._order_at = ORDER + receiver
        self._received = 0
        self._order = 0

    def add(self, marks: bytes) -> None:
        """Counts the messages with these tags."""
        self._received += len(marks) // TAG_BYTES
        self._order = crc32(marks, self._order)
        self._counters[self._order_at] = self._order
        self._counters[self._received_at] = self._received


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
    ca: str = ""  # The file of the cluster's authority, for clients by TLS.

    @property
    def groups(self) -> list[str]:
        """The names of all groups."""
        return [f"{self.group}-{at}" for at in range(self.workload.groups)]
