"""The mark of a daemon on disk: one of its processes may have voted for a primary view.

A vote is known in memory, to the process that gave it. The mark is what the next process of the same daemon
learns of it: that it must not found the first primary view of the cluster, and the epoch and the voters of the
last attempt, from which fences of locks go on. It is written before each vote, in a thread, so that a slow disk
does not delay the daemon; the daemon gives its vote when the mark is on disk.

The file is one line: cluster, daemon, epoch, voters and a checksum. If there is no file, the daemon has never
voted. One that cannot be read, is damaged or is another daemon's counts as a mark, but tells no epoch, and a
warning names the remedy.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final
from zlib import crc32

from hopring.daemon.loop.event_loop import Loop
from hopring.daemon.process.durable_file import read_file, replace_file
from hopring.ids import EPOCH_MAX
from hopring.system.kernel import kernel

_TEXT_BYTES_MAX: Final = 1 << 20
_WRITTEN: Final = b"+"
_FAILED: Final = b"-"


class PrimaryMark:
    """One daemon's mark; `warnings` has what is wrong with the file."""

    def __init__(self, loop: Loop, path: Path, cluster: str, daemon: str) -> None:
        self.warnings: list[str] = []
        self.warn: Callable[[str], None] | None = None  # Gets a warning that comes later.
        self._kernel = kernel()
        self._loop = loop
        self._path = path
        self._who = f"{cluster} {daemon}"
        self._line = b""
        self.vote: tuple[int, tuple[str, ...]] | None = None
        """The epoch of its last vote and the names of all voters, as far as the file tells."""
        self._done: Callable[[bool], None] | None = None
        self._pipe: tuple[int, int] | None = None
        self._problem = f"cannot write {path}: no thread could be started; this daemon does not vote"
        self.marked = self._read()
        """Whether an earlier process of this daemon may have voted."""

    def write(self, epoch: int, voters: tuple[str, ...], done: Callable[[bool], None]) -> None:
        """Writes the mark of a vote, and then calls `done` in the loop, with whether it is on disk."""
        assert self._pipe is None, "one mark is written at a time"
        self._line = _line(" ".join([self._who, str(epoch), *voters]))
        self._done = done
        self._pipe = self._kernel.files.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._loop.register(self._pipe[0], self._finished)
        try:
            report_to = self._pipe[1]
            self._kernel.start_work(lambda: self._work(report_to), "primary mark")
        except RuntimeError:
            self._kernel.files.write(self._pipe[1], _FAILED)

    def close(self) -> None:
        """Ends the wait for a mark that is being written."""
        if self._pipe is not None:
            self._loop.unregister(self._pipe[0])
            self._kernel.files.close(self._pipe[0])
            # The other end stays open: the thread may still write to it.
            self._pipe = None

    def _work(self, report_to: int) -> None:
        try:
            replace_file(self._path, self._line)
        except OSError as error:
            self._problem = (
                f"cannot write {self._path} ({error.strerror or error}): this daemon does not vote for primary"
                " views; make the directory writable, and restart"
            )
            self._kernel.files.write(report_to, _FAILED)
        else:
            self._kernel.files.write(report_to, _WRITTEN)

    def _finished(self, _events: int) -> None:
        assert self._pipe is not None, "the mark is being written"
        assert self._done is not None, "somebody waits for it"
        durable = self._kernel.files.read(self._pipe[0], 1) == _WRITTEN
        write_end, done = self._pipe[1], self._done
        self.close()
        self._kernel.files.close(write_end)
        if not durable and self.warn is not None:
            self.warn(self._problem)
        done(durable)

    def _read(self) -> bool:
        try:
            text = read_file(self._path, _TEXT_BYTES_MAX)
        except FileNotFoundError:
            return False
        except OSError as error:
            self._warn(f"cannot be read ({error.strerror or error})")
            return True
        self.vote = self._vote_in(text)
        if self.vote is None:
            self._warn("is damaged, or the mark of another daemon")
        return True

    def _vote_in(self, line: bytes) -> tuple[int, tuple[str, ...]] | None:
        """The vote of an undamaged mark of this daemon."""
        text = line.rpartition(b" ")[0]
        if line != _line(text):
            return None
        who, _, vote = text.decode(errors="replace").partition(f"{self._who} ")
        epoch, *voters = vote.split(" ")
        if who or not epoch.isdecimal() or int(epoch) > EPOCH_MAX:
            return None
        return int(epoch), tuple(voters)

    def _warn(self, problem: str) -> None:
        self.warnings.append(
            f"{self._path} {problem}: this daemon does not found a first primary view, and cannot tell how far"
            " fences of locks are; remove the file if it has never been in one"
        )


def _line(said: str | bytes) -> bytes:
    text = said.encode() if isinstance(said, str) else said
    return b"%s %08x\n" % (text, crc32(text))
