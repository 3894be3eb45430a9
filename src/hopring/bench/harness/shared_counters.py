"""The board: numbers in memory that all processes of a bench share, whatever they are written in.

It carries what is no part of the work: who is ready, go and stop, how much was sent and received, and a window
that keeps senders from running away from the slowest receiver. So no system is charged for flow control, and
none loses a message to a slow reader. Each slot has one writer, and is a little-endian number of 64 bits.

A message begins with its mark: its sequence and its sender in one number of 32 bits. Receivers put the CRC-32
of all marks that they have seen, in that order, on the board; equal sums mean equal orders.
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
"""The board as a sequence of numbers."""


def create_counters(file: Path) -> Counters:
    """A new one, all zero."""
    file.write_bytes(bytes(SLOTS * _SLOT_BYTES))
    return open_counters(file)


def open_counters(file: Path) -> Counters:
    """The one that another process has made."""
    with file.open("r+b") as opened:
        return memoryview(mmap.mmap(opened.fileno(), SLOTS * _SLOT_BYTES)).cast("q")


def window_left(counters: Counters) -> int:
    """How many more messages may be under way now."""
    slowest = min(counters[RECEIVED : RECEIVED + counters[RECEIVERS]])
    return counters[WINDOW] + slowest - sum(counters[SENT : SENT + CLIENTS_MAX])


def message_tag(sender: int, sequence: int) -> bytes:
    """What a message begins with."""
    return TAG.pack(sequence * CLIENTS_MAX + sender)


def order_checksum(count: int) -> int:
    """The sum that a receiver has after so many messages of sender 0 alone, none missing, none twice."""
    total = 0
    for first in range(0, count, 1 << 16):
        some = range(first * CLIENTS_MAX, min(count, first + (1 << 16)) * CLIENTS_MAX, CLIENTS_MAX)
        total = crc32(Struct(f"<{len(some)}I").pack(*some), total)
    return total


class ReceiverCounters:
    """What one receiver has seen, told on the board."""

    def __init__(self, counters: Counters, receiver: int) -> None:
        self._board = counters
        self._received_at = RECEIVED + receiver
        self._order_at = ORDER + receiver
        self._received = 0
        self._order = 0

    def add(self, marks: bytes) -> None:
        """The marks of the next messages."""
        self._received += len(marks) // TAG_BYTES
        self._order = crc32(marks, self._order)
        self._board[self._order_at] = self._order
        self._board[self._received_at] = self._received
