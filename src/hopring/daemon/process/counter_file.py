"""The high-water mark of the view counter on disk: best effort; its failure never keeps a daemon from starting.

View ids are unique without it (each start draws a nonce). It keeps their order over a restart: a daemon that
comes back alone should not install a view that looks older than those it was in.

The mark is a whole block ahead of the counter. A thread moves it at the start and whenever half of the block is
used, so a disk that is slow, full or gone does not delay the daemon. A new mark is written beside the old one,
synced, and put in its place by a rename: a crash at any moment leaves one or the other. The file is one line,
the mark and its checksum: all other daemons would refuse one that started with an arbitrary number.
"""

from pathlib import Path
from threading import Lock
from typing import Final
from zlib import crc32

from hopring.daemon.process.durable_file import read_file, replace_file
from hopring.system.kernel import Work, kernel

BLOCK: Final = 1_000
RETRY: Final = 50
"""If a mark could not be written, the next attempt is this many counters later."""
START_WAIT_S: Final = 1.0
"""How long a start waits for its first mark, so that not even an immediate crash repeats a counter."""
COUNTER_MAX: Final = (1 << 63) - 1
_TEXT_BYTES_MAX: Final = 64


class CounterFile:
    """One daemon's counter; `warnings` has each failure to read or write it once."""

    def __init__(self, path: Path) -> None:
        self.warnings: list[str] = []
        self._path = path
        self.start = self._read()
        """The counter to start with: no view of an earlier start had a higher one, as far as is known."""
        self._due = self.start  # From this counter on, the mark has to be moved.
        self._lock = Lock()
        self._wanted: int | None = None  # The mark that is to be written.
        self._writer: Work | None = None
        self.reserve(self.start + 1)
        self.wait_until_written(START_WAIT_S)

    def reserve(self, counter: int) -> None:
        """Keeps the mark ahead; call it with every counter before its use. It never waits."""
        if counter < self._due:
            return
        with self._lock:
            self._due = counter + BLOCK // 2
            self._wanted = min(counter + BLOCK, COUNTER_MAX)
            if self._writer is None:
                self._start_writer()

    def _start_writer(self) -> None:
        try:
            self._writer = kernel().start_work(self._write_all, "view counter")
        except RuntimeError as error:
            self._warn(f"cannot write {self._path} ({error}): after a restart views may look old")

    def wait_until_written(self, seconds_max: float | None = None) -> None:
        """Waits until the last mark is on disk, or could not be written; for an orderly end."""
        writer = self._writer
        if writer is not None:
            writer.join(seconds_max)

    # The thread.

    def _write_all(self) -> None:
        while True:
            with self._lock:
                mark, self._wanted = self._wanted, None
                if mark is None:
                    self._writer = None
                    return
            if not self._write(mark):
                self._due = min(self._due, mark - BLOCK + RETRY)

    def _write(self, mark: int) -> bool:
        try:
            replace_file(self._path, _line(mark))
        except OSError as error:
            self._warn(
                f"cannot write {self._path} ({error.strerror or error}): after a restart of this daemon its"
                " views may look older than they are"
            )
            return False
        return True

    # At the start.

    def _read(self) -> int:
        try:
            text = read_file(self._path, _TEXT_BYTES_MAX)
        except FileNotFoundError:
            return 0
        except OSError as error:
            self._warn(f"cannot read {self._path} ({error.strerror or error}): view counters start at 0")
            return 0
        mark = _mark(text)
        if mark is None:
            self._warn(f"{self._path} holds no view counter, or a damaged one: view counters start at 0")
            return 0
        return mark

    def _warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)


def _line(mark: int) -> bytes:
    digits = b"%d" % mark
    return b"%s %08x\n" % (digits, crc32(digits))


def _mark(text: bytes) -> int | None:
    """The mark of a line, if it is one."""
    digits = text.partition(b" ")[0]
    if not digits.isdigit() or int(digits) > COUNTER_MAX or text != _line(int(digits)):
        return None
    return int(digits)
