"""Disks of members in the simulator: the records of the log, and files beside it, which outlive processes."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from hopring.blocks.log.messages import decode_operation
from hopring.blocks.log.records import LogImage, LogRecord
from hopring.haul.stored.bodies import BodyKey
from hopring.haul.stored.keeping import StoreContents
from hopring.haul.stored.shelf import FileKey, StoreFilePiece


@dataclass(slots=True)
class SimMemberDisk:
    """The disk of one member. What is written to files is synced before the records that follow."""

    synced: list[LogRecord] = field(default_factory=list)
    writing: tuple[LogRecord, ...] = ()
    image: LogImage = field(default_factory=LogImage)  # What the synced records amount to.
    files: dict[FileKey, bytearray] = field(default_factory=dict)
    placed: dict[str, bytes] = field(default_factory=dict)  # By path: what the local groups find.
    bodies: dict[BodyKey, bytes] = field(default_factory=dict)
    _unsynced: list[tuple[FileKey | BodyKey, int]] = field(default_factory=list)  # With their size before.
    _before: int = 0  # How many of them come before the records that are being written.

    def write(self, records: tuple[LogRecord, ...]) -> None:
        """Records on their way, behind what was written to files."""
        self.writing = records
        self._before = len(self._unsynced)

    def sync(self, records: Sequence[LogRecord]) -> None:
        """Records that are kept from here on."""
        self.synced.extend(records)
        for one in records:
            self.image.take(one)
        if records:
            del self._unsynced[: self._before]
        self._before = 0

    def crash(self, dice: Random) -> tuple[LogRecord, ...]:
        """Loses what is on its way, or keeps some of its beginning; returns the records of that."""
        kept = self.writing[: dice.randint(0, len(self.writing))] if dice.random() < 0.5 else ()
        self.sync(kept)
        self.writing = ()
        lost = dice.randint(0, len(self._unsynced)) if self._unsynced else 0
        for key, size in reversed(self._unsynced[len(self._unsynced) - lost :]):
            if isinstance(key, FileKey):
                del self.files.get(key, bytearray())[size:]
            else:
                self.bodies.pop(key, None)
        self._unsynced.clear()
        return kept

    def has(self, client: str, number: int, index: int) -> bool:
        """Whether a request, which is accepted at an index, is here."""
        if 0 < index <= self.image.base:
            return True
        for one in reversed(self.image.entries):
            operation = decode_operation(one.data)
            if operation is not None and (operation.writer, operation.number) == (client, number):
                return True
        return False

    # Files.

    @property
    def contents(self) -> StoreContents:
        """What a process that starts finds."""
        sizes = {key: len(data) for key, data in self.files.items()}
        return StoreContents(sizes, frozenset(self.bodies))

    def store_bodies(self, bodies: tuple[tuple[BodyKey, bytes], ...]) -> None:
        """Adds bodies that are not there."""
        for key, body in bodies:
            assert key not in self.bodies, "a body is stored once"
            self._unsynced.append((key, 0))
            self.bodies[key] = body

    def forget_bodies(self, keys: tuple[BodyKey, ...]) -> None:
        """Removes bodies that are there."""
        for key in keys:
            del self.bodies[key]

    def store(self, piece: StoreFilePiece) -> None:
        """Adds a piece to a file at its end."""
        content = self.files.setdefault(piece.key, bytearray())
        assert len(content) == piece.offset, "a file grows at its end"
        self._unsynced.append((piece.key, len(content)))
        content += piece.data

    def drop(self, key: FileKey) -> None:
        """Removes a file at once."""
        self.files.pop(key, None)

    def piece(self, key: FileKey, offset: int, size_bytes: int) -> bytes:
        """Reads some of a file that is there."""
        piece = bytes(self.files[key][offset : offset + size_bytes])
        assert len(piece) == size_bytes, "what is read is there"
        return piece

    def content(self, key: FileKey) -> bytes:
        """A whole file, which is empty if nothing was written."""
        return bytes(self.files.get(key, b""))
