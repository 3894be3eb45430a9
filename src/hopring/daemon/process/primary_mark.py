"""The mark of a daemon on disk: one of its processes may have voted for a primary view.

A vote is known in memory, to the process that gave it. The mark is what the next process of the same daemon
learns of it: that it must not found the first primary view of the cluster. It is written once in the life of a
daemon's state directory, in a thread, so that a slow disk does not delay the daemon; the daemon gives its first
vote when the mark is on disk.

The file is one line: cluster, daemon and a checksum. If there is no file, the daemon has never voted. One that
cannot be read, is damaged or is another daemon's counts as a mark, and a warning names the remedy.
"""

import os
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Final
from zlib import crc32

from hopring.daemon.loop.event_loop import Loop

_TEXT_BYTES_MAX: Final = 512
_WRITTEN: Final = b"+"
_FAILED: Final = b"-"


class PrimaryMark:
    """One daemon's mark; `warnings` has what is wrong with the file."""

    def __init__(self, loop: Loop, path: Path, cluster: str, daemon: str) -> None:
        self.warnings: list[str] = []
        self.warn: Callable[[str], None] | None = None  # Gets a warning that comes later.
        self._loop = loop
        self._path = path
        self._line = _line(cluster, daemon)
        self._done: Callable[[bool], None] | None = None
        self._pipe: tuple[int, int] | None = None
        self._problem = f"cannot write {path}: no thread could be started; this daemon does not vote"
        self.marked = self._read()
        """Whether an earlier process of this daemon may have voted."""

    def write(self, done: Callable[[bool], None]) -> None:
        """Writes the mark, and then calls `done` in the loop, with whether it is on disk."""
        assert self._pipe is None, "a mark is written once at a time"
        self._done = done
        self._pipe = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._loop.register(self._pipe[0], self._finished)
        try:
            Thread(target=self._work, args=(self._pipe[1],), name="primary mark", daemon=True).start()
        except RuntimeError:
            os.write(self._pipe[1], _FAILED)

    def close(self) -> None:
        """Ends the wait for a mark that is being written."""
        if self._pipe is not None:
            self._loop.unregister(self._pipe[0])
            os.close(self._pipe[0])
            # The other end stays open: the thread may still write to it.
            self._pipe = None

    def _work(self, report_to: int) -> None:
        beside = self._path.with_name(f"{self._path.name}.new")
        try:
            with beside.open("wb") as file:
                file.write(self._line)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self._path)
            directory = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)
        except OSError as error:
            self._problem = (
                f"cannot write {self._path} ({error.strerror or error}): this daemon does not vote for primary"
                " views; make the directory writable, and restart"
            )
            os.write(report_to, _FAILED)
        else:
            os.write(report_to, _WRITTEN)

    def _finished(self, _events: int) -> None:
        assert self._pipe is not None, "the mark is being written"
        assert self._done is not None, "somebody waits for it"
        durable = os.read(self._pipe[0], 1) == _WRITTEN
        write_end, done = self._pipe[1], self._done
        self.close()
        os.close(write_end)
        if not durable and self.warn is not None:
            self.warn(self._problem)
        done(durable)

    def _read(self) -> bool:
        try:
            # Non-blocking: the path may be a pipe, for example.
            handle = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            with open(handle, "rb", buffering=0) as file:
                text = file.read(_TEXT_BYTES_MAX)
        except FileNotFoundError:
            return False
        except OSError as error:
            self._warn(f"cannot be read ({error.strerror or error})")
            return True
        if text != self._line:
            self._warn("is damaged, or the mark of another daemon")
        return True

    def _warn(self, problem: str) -> None:
        self.warnings.append(
            f"{self._path} {problem}: this daemon does not found a first primary view; remove the file if it"
            " has never been in one"
        )


def _line(cluster: str, daemon: str) -> bytes:
    text = f"{cluster} {daemon}".encode()
    return b"%s %08x\n" % (text, crc32(text))
