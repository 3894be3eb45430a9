"""What a stream has done: its ledger, and the files of its tables, which change all at once. No pyspark.

A *pass* takes new rows into tables that have a file for each part: for a range of messages, or ten minutes. It
writes the new content of the parts that it touches elsewhere, and then the ledger, which says what was taken in
and which files go where. With the ledger the pass has happened; then the files are moved.

Invariants  rows that the ledger counts are in the tables once, whenever the process is killed: before it has
            written the ledger, the next start drops the new files; after that, it moves the rest of them;
            a file of a table is complete whenever it is there, and its name never is absent in between.
Limit       this holds for killed processes. A loss of power may cost what the kernel had not written yet.
"""

import os
import shutil
from pathlib import Path
from typing import Final

import msgspec

VERSION: Final = 1
"""Of the tables that a stream keeps. A stream of another version begins anew."""


class FilePlace(msgspec.Struct, frozen=True):
    """How far a file of a trace was read, in bytes of lines or row groups of Parquet, and how it begins."""

    done: int
    rows: int
    head: str


class StreamLedger(msgspec.Struct):
    """Everything that a stream has to remember besides its tables."""

    version: int = VERSION
    sites: dict[str, str] = {}
    passes: int = 0
    batches: dict[str, int] = {}  # By spool: the last batch that was taken in.
    files: dict[str, FilePlace] = {}  # Of the trace.
    clocks: dict[str, dict[str, int]] = {}  # By run and life of a daemon: wall clock minus its own.
    unset: dict[str, list[str]] = {}  # By run: lives whose clocks are not known.
    newest_us: dict[str, int] = {}  # By clock: that of records, and that of each run of the trace.
    sources: dict[str, int] = {}  # The same by spool and group, or by daemon.
    forgotten_us: int = 0  # Sends and latencies before this time are not kept any more.
    moves: list[tuple[str, str]] = []  # Files of the last pass: from, to; both below the output directory.

    def copy(self) -> "StreamLedger":
        """A copy to be changed in a pass, which may fail."""
        return msgspec.convert(msgspec.to_builtins(self), StreamLedger)


class LedgerFile:
    """The ledger on disk, and the place for files of a pass."""

    def __init__(self, out: Path, place: Path) -> None:
        """`place` is a directory below `out`."""
        self.out = out
        self.place = place
        self._file = place / "ledger.json"
        self.staged = place / "staged"

    def read(self) -> StreamLedger | None:
        """The ledger, after its last pass has been completed; None if there is none of this version."""
        try:
            ledger = msgspec.json.decode(self._file.read_bytes(), type=StreamLedger)
        except (FileNotFoundError, msgspec.DecodeError):
            return None
        if ledger.version != VERSION:
            return None
        self._move(ledger)
        return ledger

    def begin(self) -> Path:
        """An empty directory for the files of a pass."""
        shutil.rmtree(self.staged, ignore_errors=True)
        self.staged.mkdir(parents=True)
        return self.staged

    def commit(self, ledger: StreamLedger, files: list[tuple[Path, Path]]) -> None:
        """Makes the pass happen: the ledger counts its rows, and its files are those of the tables."""
        ledger.passes += 1
        ledger.moves = [(str(new.relative_to(self.out)), str(to.relative_to(self.out))) for new, to in files]
        self.place.mkdir(parents=True, exist_ok=True)
        beside = self._file.with_suffix(".new")
        with beside.open("wb") as file:
            file.write(msgspec.json.encode(ledger))
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._file)
        self._move(ledger)

    def forget(self) -> None:
        """Removes the ledger: the next start begins anew."""
        self._file.unlink(missing_ok=True)
        shutil.rmtree(self.place, ignore_errors=True)

    def _move(self, ledger: StreamLedger) -> None:
        for new, to in ledger.moves:
            source, target = self.out / new, self.out / to
            if source.exists():  # Otherwise it was moved before the process was killed.
                target.parent.mkdir(parents=True, exist_ok=True)
                source.replace(target)
        shutil.rmtree(self.staged, ignore_errors=True)
