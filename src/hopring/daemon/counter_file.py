"""The view counter's high-water mark on disk: best effort, and never a reason not to start.

View ids are unique without it (a start draws its own nonce). What it keeps is their order over a restart: a
daemon that comes back alone should not install a view that looks older than those it was in. The mark is
written in blocks ahead of the counter, off the hot path, and put in place by a rename.
"""

import contextlib
import os
from pathlib import Path
from threading import Lock, Thread
from typing import Final

BLOCK: Final = 1_000
COUNTER_MAX: Final = 1 << 62
_TEXT_BYTES_MAX: Final = 64


class CounterFile:
    """One daemon's counter; `warnings` says what could not be read or written, each thing once."""

    def __init__(self, path: Path) -> None:
        self.warnings: list[str] = []
        self._path = path
        self._mark = self._read()

    @property
    def start(self) -> int:
        """The counter to start with: no view of an earlier start had a higher one."""
        return self._mark

    def holds(self, counter: int) -> bool:
        """Whether the mark is ahead of the counter, or as high as marks get."""
        return counter < self._mark or self._mark == COUNTER_MAX

    def reached(self, counter: int) -> None:
        """Keeps the mark ahead of the counter; most calls do nothing."""
        if self.holds(counter):
            return
        self._mark = min(counter + BLOCK, COUNTER_MAX)
        self._write(self._mark)

    def _read(self) -> int:
        try:
            with self._path.open("rb") as file:
                text = file.read(_TEXT_BYTES_MAX)
        except FileNotFoundError:
            return 0
        except OSError as error:
            self._warn(f"cannot read {self._path} ({error.strerror}): view counters start at 0")
            return 0
        digits = text.strip()
        if not digits.isdigit() or not text.endswith(b"\n") or int(digits) > COUNTER_MAX:
            self._warn(f"{self._path} holds no view counter: view counters start at 0")
            return 0
        return int(digits)

    def _write(self, mark: int) -> None:
        beside = self._path.with_name(f"{self._path.name}.{os.getpid()}.new")
        try:
            with beside.open("wb") as file:
                file.write(b"%d\n" % mark)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self._path)
        except OSError as error:
            self._warn(f"cannot write {self._path} ({error.strerror}): after a restart view ids may look old")
            with contextlib.suppress(OSError):
                beside.unlink()

    def _warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)


class CounterKeeper:
    """Keeps the mark half a block ahead, in a thread of its own: a disk may take its time, a daemon may not."""

    def __init__(self, file: CounterFile) -> None:
        self._file = file
        self._wanted = 0
        self._lock = Lock()
        self._thread: Thread | None = None  # While there is something to write.

    def reached(self, counter: int) -> None:
        """Notes the counter; returns at once."""
        with self._lock:
            self._wanted = max(self._wanted, counter + BLOCK // 2)
            if self._thread is not None or self._file.holds(self._wanted):
                return
            self._thread = Thread(target=self._keep, name="view counter", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Waits for the disk."""
        thread = self._thread
        if thread is not None:
            thread.join()

    def _keep(self) -> None:
        while True:
            with self._lock:
                wanted = self._wanted
                if self._file.holds(wanted):
                    self._thread = None
                    return
            self._file.reached(wanted)
