"""What daemons and clients ask of the operating system, and who answers: Linux, or a simulated world.

What a process does outside of its own memory goes through `kernel()`: clocks, random numbers, sockets, waiting
for descriptors, files, threads. A simulated world puts its own kernel there, and then the same code runs in
virtual time, on a network and disks that fail as a seed says (sim/deployment).

A process asks for the kernel when it begins, not for each call: nobody changes it while something runs.
"""

import os
import select
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Protocol

from hopring.system.timerfd import TimerFd


class Poller(Protocol):
    """Waits for descriptors, as `select.epoll`."""

    def register(self, fd: int, eventmask: int = ...) -> None:
        """Watches a descriptor from now on."""

    def modify(self, fd: int, eventmask: int) -> None:
        """Watches it for other events."""

    def unregister(self, fd: int) -> None:
        """Watches a descriptor no more."""

    def poll(self, seconds: float | None = None, maxevents: int = -1, /) -> list[tuple[int, int]]:
        """The descriptors that are ready, with their events."""

    def fileno(self) -> int:
        """A descriptor that is readable when one of the others is ready."""

    def close(self) -> None:
        """Gives up all of it."""


class WakeTimer(Protocol):
    """A descriptor that becomes readable at one moment, as `TimerFd`."""

    def fileno(self) -> int:
        """The number of the descriptor."""

    def set(self, at_us: int) -> None:
        """Sets the moment by the monotonic clock."""

    def close(self) -> None:
        """Closes the descriptor of the timer."""


class Work(Protocol):
    """Something that runs beside the process, as a thread."""

    def join(self, seconds: float | None = None, /) -> None:
        """Waits for its end, or so long."""


class Files(Protocol):
    """Files and pipes by descriptors, as the module `os` has them."""

    def open(self, path: str | os.PathLike[str], flags: int, mode: int = 0o777) -> int:
        """Opens a file; OSError if that fails."""

    def close(self, fd: int) -> None:
        """Closes a descriptor of any kind."""

    def read(self, fd: int, length: int, /) -> bytes:
        """Reads from where the last read ended."""

    def write(self, fd: int, data: bytes, /) -> int:
        """Writes where the last write ended; returns how many bytes it took."""

    def fsync(self, fd: int) -> None:
        """Returns when the content, or the names in the directory, are on disk."""

    def replace(self, src: str | os.PathLike[str], dst: str | os.PathLike[str]) -> None:
        """Gives a file another name, in place of the file that had it."""

    def pread(self, fd: int, length: int, offset: int, /) -> bytes:
        """Reads from a place of a file."""

    def pwrite(self, fd: int, data: bytes | memoryview, offset: int, /) -> int:
        """Writes to a place; returns how many bytes it took."""

    def fstat(self, fd: int) -> os.stat_result:
        """The kind and the size of a file, and more."""

    def lseek(self, fd: int, position: int, whence: int, /) -> int:
        """Moves the place where the next read or write begins; returns it."""

    def ftruncate(self, fd: int, length: int, /) -> None:
        """Cuts off what is behind this length."""

    def unlink(self, path: str | os.PathLike[str]) -> None:
        """Removes the name of a file."""

    def mkdir(self, path: str | os.PathLike[str], mode: int = 0o777) -> None:
        """Makes a directory in another one."""

    def listdir(self, path: str | os.PathLike[str]) -> list[str]:
        """The names in a directory."""

    def access(self, path: str | os.PathLike[str], mode: int) -> bool:
        """Whether this process may read or write it."""

    def pipe2(self, flags: int, /) -> tuple[int, int]:
        """A pipe: the end to read and the end to write."""


class OperatingSystem(Protocol):
    """The operating system as one process sees it."""

    files: Files

    @property
    def monotonic_ns(self) -> Callable[[], int]:
        """The clock that never goes back."""

    @property
    def random_bytes(self) -> Callable[[int], bytes]:
        """Bytes that nobody can guess; in a simulated world those of its seed."""

    def ahead_us(self) -> int:
        """How far the clock that counts while the host is suspended is ahead of the monotonic one."""

    def wall_ns(self) -> int:
        """The wall clock, which may jump."""

    def socket(self, family: int, kind: int) -> socket.socket:
        """A new socket, not bound."""

    def poller(self) -> Poller:
        """A new poller, which watches nothing."""

    def timer(self) -> WakeTimer:
        """A new timer, not set."""

    def yield_processor(self) -> None:
        """Lets another process run, if one wants to."""

    def start_work(self, run: Callable[[], None], name: str) -> Work:
        """Runs this beside the process; RuntimeError if that is not possible."""

    def write_if_ready(self, fd: int, data: bytes) -> bool:
        """Writes a line if that does not block; whether it did. OSError if the other end is gone."""


class Linux:
    """The real operating system: Linux."""

    monotonic_ns = staticmethod(time.monotonic_ns)
    random_bytes = staticmethod(os.urandom)
    files: Files = os

    def ahead_us(self) -> int:
        """As the clocks of the kernel say."""
        return (time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()) // 1_000

    def wall_ns(self) -> int:
        """As the clock of the host says."""
        return time.time_ns()

    def socket(self, family: int, kind: int) -> socket.socket:
        """A socket of this host."""
        return socket.socket(family, kind)

    def poller(self) -> Poller:
        """An epoll descriptor of its own."""
        return select.epoll()

    def timer(self) -> WakeTimer:
        """A timer descriptor of its own."""
        return TimerFd()

    def yield_processor(self) -> None:
        """Gives way by the kernel's scheduler."""
        os.sched_yield()

    def start_work(self, run: Callable[[], None], name: str) -> Work:
        """A thread that does not keep the process alive."""
        thread = Thread(target=run, name=name, daemon=True)
        thread.start()
        return thread

    def write_if_ready(self, fd: int, data: bytes) -> bool:
        """Writable means room for a short line, so the write does not block."""
        waiting = select.poll()
        waiting.register(fd, select.POLLOUT)
        ready = waiting.poll(0)
        if not ready or not ready[0][1] & select.POLLOUT:
            return False
        os.write(fd, data)
        return True


LINUX: OperatingSystem = Linux()

_in_force: OperatingSystem = LINUX


def kernel() -> OperatingSystem:
    """The kernel that is in force."""
    return _in_force


@contextmanager
def simulated(other: OperatingSystem) -> Iterator[None]:
    """Puts another kernel in force for the block; not in two threads at a time."""
    global _in_force  # noqa: PLW0603  A process has one.
    before, _in_force = _in_force, other
    try:
        yield
    finally:
        _in_force = before
