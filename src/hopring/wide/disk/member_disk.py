"""The disk of one member: the records of its log, and the bodies and files that are beside it.

Below       the spool of the log (blocks/log/store.py), body_batches.py, file_contents.py.
Above       process/member_process.py, by `LogDisk`, which writes in a thread.
Invariants  what was stored before `write` is synced before the records of that `write`. What was stored is read
            at once, from memory until it is on the disk. What the disk refuses is kept, and written by the next
            `write` or `flush`; after a sync that has failed nothing is written any more.
"""

from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Final

from hopring.blocks.log.records import LogImage, LogRecord
from hopring.blocks.log.store import SpoolStore
from hopring.haul.member import LOG_NAME
from hopring.haul.stored.bodies import BodyKey
from hopring.haul.stored.keeping import StoreContents
from hopring.haul.stored.shelf import FileKey, StoreFilePiece
from hopring.spool.errors import refusal
from hopring.wide.disk.body_batches import BodyBatches
from hopring.wide.disk.errors import ContentDamaged, StoreUnsure
from hopring.wide.disk.file_contents import FileContents, FilesDisk

FLUSH_BYTES: Final = 4 * 1024 * 1024
"""With so much that is only in memory it is written, though no records are."""

BEHIND_BYTES: Final = 64 * 1024 * 1024
"""With so much that is only in memory the disk is behind, and nothing is taken from other members."""

BODIES: Final = "bodies"
CONTENTS: Final = "contents"


class MemberDisk:
    """Log, bodies and files of one member."""

    def __init__(
        self,
        state: Path,
        name: str,
        members: tuple[str, ...],
        places: Path,
        *,
        disk: FilesDisk | None = None,
    ) -> None:
        """Opens or creates them; SpoolOwned if another process has them, NotAMember if they are another's.

        `places` is the directory in which local groups find files.
        """
        self._log = SpoolStore(state, LOG_NAME, name, members, disk=disk)
        self._state = state
        self._disk = disk or FilesDisk()
        self._unsure: StoreUnsure | None = None
        try:
            self._batches = BodyBatches(state / BODIES, self._disk)
            self._files = FileContents(state / CONTENTS, places, name, self._disk)
            self.contents = StoreContents(self._files.sizes, self._batches.keys)
        except OSError as error:
            self._log.close()
            raise refusal(state, error) from error
        except BaseException:
            self._log.close()
            raise
        self.image: LogImage = self._log.image
        self._placing = Lock()
        self._lock = Lock()  # Of everything below and of the tables; never held while the disk works.
        self._writing = Lock()  # Held by the thread that writes.
        self._bodies: dict[BodyKey, bytes] = {}  # Not on the disk yet.
        self._ops: list[StoreFilePiece | FileKey] = []  # A key alone: the file goes.
        self._bytes = 0

    @property
    def damaged(self) -> list[Path]:
        """Files with bodies that were put aside when this was opened."""
        return self._batches.damaged

    @property
    def wants_flush(self) -> bool:
        """Whether so much is in memory alone that it is to be written now."""
        return self._bytes >= FLUSH_BYTES

    @property
    def is_behind(self) -> bool:
        """Whether nothing more is to be taken from other members for now."""
        return self._bytes >= BEHIND_BYTES

    # What the core says, in its order.

    def store_bodies(self, bodies: tuple[tuple[BodyKey, bytes], ...]) -> None:
        """Bodies that go to the disk."""
        with self._lock:
            self._bodies.update(bodies)
            self._bytes += sum([len(body) for _, body in bodies])

    def forget_bodies(self, keys: tuple[BodyKey, ...]) -> None:
        """Bodies that nobody needs any more."""
        with self._lock:
            for key in keys:
                self._bodies.pop(key, None)
                self._batches.forget(key)

    def store_piece(self, piece: StoreFilePiece) -> None:
        """A piece that goes to the end of a file."""
        with self._lock:
            self._ops.append(piece)
            self._bytes += len(piece.data)

    def drop_file(self, key: FileKey) -> None:
        """A file that nobody needs any more."""
        with self._lock:
            self._ops.append(key)

    def body(self, key: BodyKey) -> bytes:
        """A body that was stored; ContentDamaged if it has changed."""
        with self._lock:
            body = self._bodies.get(key)
            return self._batches.read(key) if body is None else body

    def piece(self, key: FileKey, offset: int, size_bytes: int) -> bytes:
        """Some of a file that was stored."""
        with self._lock:
            waiting = [one for one in self._ops if isinstance(one, StoreFilePiece) and one.key == key]
            on_disk = waiting[0].offset if waiting else offset + size_bytes
            piece = b""
            if offset < on_disk:
                piece = self._files.read(key, offset, min(size_bytes, on_disk - offset))
        for one in waiting:
            at = offset + len(piece)
            if one.offset <= at < one.offset + len(one.data):
                piece += one.data[at - one.offset :]
        if len(piece) < size_bytes:
            raise ContentDamaged(self._files.path(key), "it is cut off")
        return piece[:size_bytes]

    # In threads.

    def write(self, records: Sequence[LogRecord]) -> None:
        """Returns when everything that was stored, and then the records, are synced; SpoolError if not."""
        self.flush()
        self._log.write(records)

    def flush(self) -> None:
        """Returns when everything that was stored before is synced; SpoolError if it is not."""
        with self._writing:
            if self._unsure is not None:
                raise self._unsure
            try:
                self._flush_bodies()
                self._flush_files()
            except StoreUnsure as error:
                self._unsure = error
                raise
            except OSError as error:
                raise refusal(self._state, error) from error

    def _flush_bodies(self) -> None:
        with self._lock:
            empty = self._batches.take_empty()
            bodies = dict(self._bodies)
            merged = self._batches.to_merge() if bodies else []
            wanted = [(one, key) for one in merged for key in one.live]
            number = self._batches.next_number
        for path in empty:
            self._disk.remove(path)
        if not bodies:
            return
        moved: dict[BodyKey, bytes] = {}
        for batch, key in wanted:
            with self._lock:
                if key in batch.live:
                    moved[key] = batch.read(key)
        batch = self._batches.write(number, bodies | moved)
        with self._lock:
            for key in [one for one in batch.live if one not in self._bodies and one not in self._batches]:
                batch.forget(key)  # It was forgotten meanwhile.
            self._batches.add(number, batch)
            for key, body in bodies.items():
                self._bodies.pop(key, None)
                self._bytes -= len(body)

    def _flush_files(self) -> None:
        with self._lock:
            ops = list(self._ops)
        dropped = {one for one in ops if isinstance(one, FileKey)}
        pieces: dict[FileKey, list[tuple[int, bytes]]] = {}
        for one in ops:
            if isinstance(one, StoreFilePiece) and one.key not in dropped:
                pieces.setdefault(one.key, []).append((one.offset, one.data))
        for key, parts in pieces.items():
            self._files.write(key, parts)
        for key in dropped:
            self._files.remove(key)
        with self._lock:
            del self._ops[: len(ops)]
            self._bytes -= sum([len(one.data) for one in ops if isinstance(one, StoreFilePiece)])

    def check(self, key: FileKey) -> bool:
        """Whether the content of a file that is complete has its digest; SpoolError if it cannot be read."""
        self.flush()
        try:
            return self._files.fits(key)
        except FileNotFoundError:
            return False  # It was dropped meanwhile.
        except OSError as error:
            raise refusal(self._files.path(key), error) from error

    def place(self, key: FileKey, directory: str, place: str) -> Path | None:
        """Puts a copy of a file in its place, which is returned; SpoolError if the disk does not take it.

        None if the file is not here any more: somebody else has handed it over.
        """
        self.flush()
        try:
            with self._placing:
                return self._files.place(key, directory, place)
        except OSError as error:
            raise refusal(self._files.places / directory / place, error) from error

    def close(self) -> None:
        """Lets another process open it."""
        with self._writing:
            self._log.close()
