"""Bodies of parcels on the disk of one member: immutable files, each with a table of what it has.

Implements  Makpangou and Birman, 4.1.1: what waits is on stable storage, and is removed when nobody needs it.
Below       the file system (spool/files.py).
Above       member_disk.py, which has one thread that writes, and serializes everything else.
Invariants  a file is complete when it has its name, and does not change after that. A file without a body that
            somebody needs is removed. Files that are mostly forgotten, or small and many, are merged into the
            next one, so the disk has at most some four times what waits.

    STATE/bodies/00000000000000000001.bodies
    magic, length and CRC of the table; table: set, sender, number, size and CRC of each body; the bodies
"""

import os
import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from hopring.haul.ids import ClusterId, ParcelId
from hopring.haul.stored.bodies import BodyKey
from hopring.spool.files import DIGITS, NEW, Disk, make_directory
from hopring.wide.disk.errors import ContentDamaged, sync

SUFFIX: Final = ".bodies"
DAMAGED: Final = ".damaged"
MAGIC: Final = b"hopbody1"
_HEAD: Final = struct.Struct("<8sII")

WORN_SHARE: Final = 4
"""A file of which less than one part in so many is needed is merged into the next one."""

SMALL_BYTES: Final = 1024 * 1024
SMALL_MAX: Final = 16
"""With so many files below that size, they are merged into the next one."""

MERGED_BYTES_MAX: Final = 16 * 1024 * 1024
"""What is merged at a time: the thread has other things to write."""


class TableRow(msgspec.Struct, array_like=True):
    """One body of a file."""

    set: str
    sender: ClusterId
    number: int
    size_bytes: int
    crc: int

    @property
    def key(self) -> BodyKey:
        """The parcel that it is of."""
        return self.set, ParcelId(self.sender, self.number)


_tables: Final = msgspec.msgpack.Decoder(list[TableRow])


@dataclass(slots=True)
class BodyBatch:
    """A file with what of it is needed: by body, its position, size and CRC."""

    path: Path
    size_bytes: int
    live: dict[BodyKey, tuple[int, int, int]] = field(default_factory=dict)
    live_bytes: int = 0

    def put(self, row: TableRow) -> None:
        """The next body of the file."""
        self.live[row.key] = self.size_bytes, row.size_bytes, row.crc
        self.size_bytes += row.size_bytes
        self.live_bytes += row.size_bytes

    def forget(self, key: BodyKey) -> None:
        """Nobody needs a body any more."""
        self.live_bytes -= self.live.pop(key)[1]

    @property
    def is_worn(self) -> bool:
        """Whether most of it is forgotten."""
        return self.live_bytes * WORN_SHARE < self.size_bytes

    def read(self, key: BodyKey) -> bytes:
        """The body of a parcel; ContentDamaged if it has changed."""
        at, size, crc = self.live[key]
        file = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            body = os.pread(file, size, at)
        finally:
            os.close(file)
        if zlib.crc32(body) != crc:
            raise ContentDamaged(self.path, f"the body of {key[0]} {key[1].sender}.{key[1].number} has changed")
        return body


class BodyBatches:
    """All files with bodies of one member."""

    def __init__(self, directory: Path, disk: Disk) -> None:
        """Reads the tables of what is there; OSError if that fails."""
        self.directory = directory
        self.damaged: list[Path] = []  # Put aside when this began.
        self._disk = disk
        self._batches: dict[int, BodyBatch] = {}
        self._of: dict[BodyKey, int] = {}
        self._empty: list[int] = []  # To be removed.
        make_directory(directory, disk)
        self._open()

    def _open(self) -> None:
        for path in sorted(self.directory.iterdir()):
            if path.name.endswith(NEW):
                self._disk.remove(path)
            elif path.name.endswith(SUFFIX):
                try:
                    batch = _read_batch(path)
                except ContentDamaged:
                    path.rename(path.with_name(path.name + DAMAGED))
                    self.damaged.append(path)
                    continue
                self.add(int(path.name.removesuffix(SUFFIX)), batch)

    @property
    def keys(self) -> frozenset[BodyKey]:
        """The bodies that are here."""
        return frozenset(self._of)

    @property
    def size_bytes(self) -> int:
        """The bytes of the bodies that are needed."""
        return sum([one.live_bytes for one in self._batches.values()])

    def __contains__(self, key: BodyKey) -> bool:
        return key in self._of

    def read(self, key: BodyKey) -> bytes:
        """The body of a parcel that is here; a file that is damaged is put aside, with all that it has."""
        batch = self._batches[self._of[key]]
        try:
            return batch.read(key)
        except ContentDamaged:
            batch.path.rename(batch.path.with_name(batch.path.name + DAMAGED))
            raise

    def forget(self, key: BodyKey) -> None:
        """Nobody needs a body any more."""
        number = self._of.pop(key, None)
        if number is not None:
            batch = self._batches[number]
            batch.forget(key)
            if not batch.live:
                self._empty.append(number)

    # Writing, in one thread.

    @property
    def next_number(self) -> int:
        """The number of the next file."""
        return max(self._batches, default=0) + 1

    def write(self, number: int, bodies: dict[BodyKey, bytes]) -> BodyBatch:
        """Writes a file, which is not among the others yet; OSError if that fails, and nothing is kept."""
        path = self.directory / f"{number:0{DIGITS}}{SUFFIX}"
        table = msgspec.msgpack.encode(
            [
                TableRow(name, parcel.sender, parcel.number, len(body), zlib.crc32(body))
                for (name, parcel), body in bodies.items()
            ]
        )
        head = _HEAD.pack(MAGIC, len(table), zlib.crc32(table))
        new = path.with_name(path.name + NEW)
        file = self._disk.open(new, create=True)
        try:
            self._disk.write(file, [head, table, *bodies.values()], 0)
            sync(self._disk, file, new)
        finally:
            os.close(file)
        self._disk.rename(new, path)
        return _batch_of(path, len(head) + len(table), _tables.decode(table))

    def add(self, number: int, batch: BodyBatch) -> None:
        """The file is there: its bodies are read from it from here on."""
        self._batches[number] = batch
        for key in batch.live:
            self.forget(key)  # An earlier file has it, too.
            self._of[key] = number
        if not batch.live:
            self._empty.append(number)

    def to_merge(self) -> list[BodyBatch]:
        """The files whose bodies go into the next one, if one is written now."""
        small = [one for one in self._batches.values() if one.size_bytes < SMALL_BYTES]
        worn = [one for one in self._batches.values() if one.live and one.is_worn]
        chosen = {one.path: one for one in [*(small if len(small) >= SMALL_MAX else []), *worn] if one.live}
        out: list[BodyBatch] = []
        room = MERGED_BYTES_MAX
        for one in chosen.values():
            room -= one.live_bytes
            if room < 0:
                break
            out.append(one)
        return out

    def take_empty(self) -> list[Path]:
        """Files that nobody needs any more; they are not among the others from here on."""
        paths = [self._batches.pop(number).path for number in self._empty]
        self._empty.clear()
        return paths


def _read_batch(path: Path) -> BodyBatch:
    with path.open("rb") as file:
        head = file.read(_HEAD.size)
        size_bytes = os.fstat(file.fileno()).st_size
        if len(head) < _HEAD.size:
            raise ContentDamaged(path, "it is cut off")
        magic, length, crc = _HEAD.unpack(head)
        table = file.read(min(length, size_bytes))
    if magic != MAGIC or zlib.crc32(table) != crc:
        raise ContentDamaged(path, "its table has changed")
    try:
        rows = _tables.decode(table)
    except (msgspec.DecodeError, ValueError):
        raise ContentDamaged(path, "its table has changed") from None
    batch = _batch_of(path, len(head) + len(table), rows)
    if batch.size_bytes != size_bytes:
        raise ContentDamaged(path, "it is cut off")
    return batch


def _batch_of(path: Path, at: int, rows: Iterable[TableRow]) -> BodyBatch:
    batch = BodyBatch(path, at)
    for row in rows:
        batch.put(row)
    return batch
