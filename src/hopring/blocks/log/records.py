"""Records that a member of a replicated log keeps on disk, and the state that they amount to.

A disk takes records in their order, and keeps after a crash all that were synced and perhaps some of those that
follow, in their order. Any such beginning is a state that the member was in, or a step towards the next one.

Invariants  a member votes only with records that say so: an empty disk, or one whose log is not whole, does
            not.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from hopring.errors import HopError


class LogDamaged(HopError):
    """The records on a disk do not fit together. Without the files, the member gets the log from the others."""

    def __init__(self, reason: str) -> None:
        remedy = "move the directory away: the member then begins without a log, and gets it from the others"
        super().__init__(f"the records of the log do not fit together: {reason}; {remedy}")
        self.reason = reason
        self.remedy = remedy


class StoredEntry(NamedTuple):
    """An entry of the log; without data it is the beginning of its epoch."""

    epoch: int
    data: bytes


class OwnerRecord(msgspec.Struct, frozen=True, array_like=True, tag="o"):
    """Whose log this is; the first record."""

    log: str  # The group.
    name: str
    members: tuple[str, ...]


class PromiseRecord(msgspec.Struct, frozen=True, array_like=True, tag="p"):
    """The member has promised to take nothing of an earlier epoch."""

    epoch: int


class FoundRecord(msgspec.Struct, frozen=True, array_like=True, tag="f"):
    """The member has begun this log, without any entry, and votes in it."""

    log_id: str


class VoteRecord(msgspec.Struct, frozen=True, array_like=True, tag="v"):
    """The log is whole: the member votes from here on."""

    log_id: str


class CutRecord(msgspec.Struct, frozen=True, array_like=True, tag="c"):
    """All entries behind this index are void."""

    end: int


class EntryRecord(msgspec.Struct, frozen=True, array_like=True, tag="e"):
    """Consecutive entries behind the last one."""

    start: int
    entries: tuple[tuple[int, bytes], ...]


class SnapshotRecord(msgspec.Struct, frozen=True, array_like=True, tag="s"):
    """The whole state of the member; it replaces all earlier records but the first one."""

    owner: OwnerRecord
    log_id: str
    votes: bool
    promised: int
    index: int  # Of the last entry that the data covers.
    epoch: int
    data: bytes
    entries: tuple[tuple[int, bytes], ...]  # Those behind the index.


LogRecord = OwnerRecord | PromiseRecord | FoundRecord | VoteRecord | CutRecord | EntryRecord | SnapshotRecord

_records: Final = msgspec.msgpack.Decoder(LogRecord)


def encode_record(record: LogRecord) -> bytes:
    """The bytes of a record on disk."""
    return msgspec.msgpack.encode(record)


def decode_record(data: bytes) -> LogRecord:
    """The record in some bytes; LogDamaged if there is none."""
    try:
        record: LogRecord = _records.decode(data)
    except (msgspec.DecodeError, ValueError) as error:
        raise LogDamaged(str(error)) from None
    return record


class LogImage:
    """The state of a member as its disk has it, or will have when all its records are synced."""

    def __init__(self) -> None:
        self.owner: OwnerRecord | None = None
        self.log_id = ""
        self.votes = False
        self.promised = 0
        self.base = 0  # The index of the last entry that the snapshot covers.
        self.base_epoch = 0
        self.snapshot = b""
        self.entries: list[StoredEntry] = []  # Those behind the base.
        self.entry_bytes = 0

    @property
    def end(self) -> int:
        """The index of the last entry."""
        return self.base + len(self.entries)

    @property
    def last_epoch(self) -> int:
        """The epoch of the last entry."""
        return self.entries[-1].epoch if self.entries else self.base_epoch

    def entry(self, index: int) -> StoredEntry:
        """The entry at an index behind the base."""
        return self.entries[index - self.base - 1]

    def table(self) -> tuple[tuple[int, int], ...]:
        """The epochs with the index of their first entry, from the base on."""
        found = [(self.base_epoch, self.base)]
        for index, one in enumerate(self.entries, self.base + 1):
            if one.epoch != found[-1][0]:
                found.append((one.epoch, index))
        return tuple(found)

    def take(self, record: LogRecord) -> None:
        """Changes the state as a record says; LogDamaged if the record does not follow."""
        match record:
            case EntryRecord(start, entries):
                if start != self.end + 1:
                    raise LogDamaged(f"entries from {start} on follow {self.end}")
                self.entries.extend([StoredEntry(*one) for one in entries])
                self.entry_bytes += sum([len(data) for _, data in entries])
            case PromiseRecord(epoch):
                self.promised = max(self.promised, epoch)
            case CutRecord(end):
                if not self.base <= end <= self.end:
                    raise LogDamaged(f"a cut at {end}, where the log is from {self.base} to {self.end}")
                del self.entries[end - self.base :]
                self.entry_bytes = sum([len(one.data) for one in self.entries])
            case FoundRecord(log_id) | VoteRecord(log_id):
                self.log_id, self.votes = log_id, True
            case OwnerRecord():
                self.owner = record
            case SnapshotRecord():
                self._take_snapshot(record)

    def _take_snapshot(self, record: SnapshotRecord) -> None:
        self.owner, self.log_id, self.votes = record.owner, record.log_id, record.votes
        self.promised = max(self.promised, record.promised)
        self.base, self.base_epoch, self.snapshot = record.index, record.epoch, record.data
        self.entries = [StoredEntry(*one) for one in record.entries]
        self.entry_bytes = sum([len(one.data) for one in self.entries])


def recovered(records: Iterable[LogRecord]) -> LogImage:
    """The state that these records amount to; LogDamaged if they do not fit together."""
    image = LogImage()
    for record in records:
        image.take(record)
    return image


def epoch_at(table: tuple[tuple[int, int], ...], index: int) -> int:
    """The epoch of the entry at an index, by a table of epochs; -1 before its first."""
    found = -1
    for epoch, first in table:
        if first > index:
            break
        found = epoch
    return found


def common_end(
    mine: tuple[tuple[int, int], ...], my_end: int, other: tuple[tuple[int, int], ...], other_end: int
) -> int:
    """The last index at which two logs have the same entry, and so the same beginning; -1: not known.

    Entries of one epoch are in one order, so the same index and epoch is the same entry.
    """
    low = max(mine[0][1], other[0][1])
    high = min(my_end, other_end)
    while high >= low:
        here, there = epoch_at(mine, high), epoch_at(other, high)
        if here == there:
            return high
        # Both are the same entry only before the later of the two epochs begins.
        later = max(here, there)
        firsts = [first for epoch, first in (*mine, *other) if epoch == later]
        high = min([high, *firsts]) - 1
    return -1
