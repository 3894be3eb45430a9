"""Counters in shared memory, for all processes of a bench, whatever their language.

They carry everything that is not measured: readiness, go and stop, numbers of messages sent and received,
and a window that limits how far senders are ahead of the slowest receiver. So no system is charged for flow
control, and none loses messages to a slow reader. Each counter has one writer and is a little-endian number of
64 bits.

A message begins with a tag of 32 bits: its sequence number and its sender. Each receiver stores the CRC-32 of
all tags in the order of arrival; equal checksums mean equal orders.
"""

import mmap
from pathlib import Path
from struct import Struct
from typing import Final
from zlib import crc32

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
