"""A kernel in virtual time: machines, processes and descriptors, as far as daemons and clients use them.

It stands in for Linux (system/kernel.py), so that the code that users run, from the event loop of a daemon down
to its system calls, runs here without a change. A process runs when a descriptor that it watches has become
ready or its timer rings, and takes no virtual time for that. Calls are those of `current`, which runs.

Invariants  nothing depends on the real clock, on real files, or on the order of addresses in memory; a process
            that ended makes no call any more, and its descriptors are closed; one on a paused machine waits.
"""

import os
import select
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from hopring.sim.engine import generator
from hopring.sim.network import HostState, SimNetwork
from hopring.system.kernel import Files, Poller, WakeTimer, Work

if TYPE_CHECKING:
    from hopring.sim.deployment.disk import MachineDisk
    from hopring.sim.deployment.streams import Listener

FIRST_DESCRIPTOR: Final = 3
STANDARD_ERROR: Final = 2
DISK_US: Final = (200, 4_000)
"""How long work that waits for the disk takes."""

STREAM_BYTES: Final = (3_000, 20_000, 256 * 1024, 256 * 1024)
EPOCH_NS: Final = 1_700_000_000_000_000_000
"""The wall clock at the beginning of a world."""


class Descriptor:
    """Something open in a process; a poller may watch it."""

    def __init__(self, process: "SimProcess") -> None:
        self.process: Final = process
        self.number = process.install(self)
        self.watcher: SimPoller | None = None
        self.edge = False  # Reported once for each change.

    def fileno(self) -> int:
        """Its number; -1 once it is closed."""
        return self.number

    def readiness(self) -> int:
        """Its events, as `select.epoll` names them."""
        return 0

    def changed(self) -> None:
        """Its events may have become others: the process looks at them."""
        if self.watcher is not None:
            self.watcher.note(self.number)
            self.process.wake()

    def close(self) -> None:
        """Closes it, once and for all."""
        if self.number >= 0:
            self.process.descriptors.pop(self.number, None)
            self.number = -1
            self.released()

    def released(self) -> None:
        """It is closed, or its process has died."""


class SimPoller(Descriptor):
    """Watches descriptors, as epoll does."""

    def __init__(self, process: "SimProcess") -> None:
        super().__init__(process)
        self._wanted: dict[int, int] = {}
        self._noted: dict[int, None] = {}  # May be ready.

    def register(self, fd: int, eventmask: int = select.EPOLLIN) -> None:
        """Watches a descriptor from now on."""
        descriptor = self.process.descriptors[fd]
        descriptor.watcher = self
        descriptor.edge = bool(eventmask & select.EPOLLET)
        self._wanted[fd] = eventmask & ~select.EPOLLET
        self.note(fd)

    def modify(self, fd: int, eventmask: int) -> None:
        """Watches it for other events."""
        assert fd in self._wanted, "it is registered"
        self._wanted[fd] = eventmask
        self.note(fd)

    def unregister(self, fd: int) -> None:
        """Watches a descriptor no more."""
        del self._wanted[fd]
        self._noted.pop(fd, None)
        if fd in self.process.descriptors:  # A killed program is tidied up by Python later.
            self.process.descriptors[fd].watcher = None

    @property
    def idle(self) -> bool:
        """Whether nothing can be ready."""
        return not self._noted

    def note(self, fd: int) -> None:
        """A descriptor may be ready."""
        if fd in self._wanted:
            self._noted[fd] = None

    def poll(self, seconds: float | None = None, maxevents: int = -1, /) -> list[tuple[int, int]]:
        """What is ready now: a process sleeps by returning, not here."""
        assert seconds == 0, "nobody sleeps in a simulated kernel"
        found: list[tuple[int, int]] = []
        for fd in list(self._noted):
            descriptor = self.process.descriptors.get(fd)
            wanted = self._wanted.get(fd)
            ready = 0
            if descriptor is not None and wanted is not None:
                ready = descriptor.readiness() & (wanted | select.EPOLLERR | select.EPOLLHUP)
            if ready:
                found.append((fd, ready))
            if not ready or (descriptor is not None and descriptor.edge):
                del self._noted[fd]
            if len(found) == maxevents:
                break
        return found


class SimTimer(Descriptor):
    """Wakes its process at one moment."""

    def __init__(self, process: "SimProcess") -> None:
        super().__init__(process)
        self._settings = 0
        self._rang = False

    def set(self, at_us: int) -> None:
        """Sets the moment; one that is over is now."""
        self._settings += 1
        self._rang = False
        kernel = self.process.kernel
        when_us = max(at_us, kernel.network.engine.now_us)
        kernel.network.timer(self.process.machine.name, when_us, self._ring, self._settings)

    def readiness(self) -> int:
        """Readable when its moment has come."""
        return select.EPOLLIN if self._rang else 0

    def _ring(self, setting: int) -> None:
        if setting == self._settings and self.number >= 0:
            self._rang = True
            self.changed()


class Pipe(Descriptor):
    """One end of a pipe."""

    def __init__(self, process: "SimProcess") -> None:
        super().__init__(process)
        self.other: Pipe | None = None
        self.content = bytearray()
        self.ended = False

    def readiness(self) -> int:
        """Readable if there is something, or at its end."""
        return select.EPOLLIN if self.content or self.ended else 0

    def released(self) -> None:
        """The other end is told."""
        if self.other is not None:
            self.other.ended = True
            self.other.changed()


class SimProcess:
    """A program on a machine: `step` runs what is ready, and returns whether there is more."""

    def __init__(self, kernel: "SimKernel", machine: "Machine", name: str) -> None:
        self.kernel: Final = kernel
        self.machine: Final = machine
        self.name: Final = name
        self.alive = True
        self.descriptors: dict[int, Descriptor] = {}
        self.step: Callable[[], bool] = _nothing
        self.said: list[str] = []  # Lines on its standard error.
        self._next = FIRST_DESCRIPTOR
        self._due = False
        kernel.pids += 1
        self.pid: Final = kernel.pids
        machine.processes.append(self)

    def install(self, descriptor: Descriptor) -> int:
        """Gives a descriptor its number."""
        number = self._next
        self._next += 1
        self.descriptors[number] = descriptor
        return number

    def wake(self) -> None:
        """Runs it at this moment, behind what is due already."""
        if self.alive and not self._due:
            self._due = True
            network = self.kernel.network
            network.timer(self.machine.name, network.engine.now_us, self._run)

    def _run(self) -> None:
        self._due = False
        if self.alive and self.inside(self.step):
            self.wake()

    def inside(self, call: Callable[[], bool]) -> bool:
        """Calls this as the process; False if it has ended meanwhile."""
        with self.kernel.running(self):
            more = call()
        return more and self.alive

    def kill(self) -> None:
        """Ends it as `kill -9` does: the kernel closes what it had open."""
        if self.alive:
            self.alive = False
            self.machine.processes.remove(self)
            for descriptor in list(self.descriptors.values()):
                descriptor.number = -1
                descriptor.released()
            self.descriptors.clear()

    def vanish(self) -> None:
        """Its machine has lost its power: nobody is told."""
        self.alive = False
        self.descriptors.clear()


class Machine:
    """A host with an address, a disk, and programs."""

    def __init__(self, kernel: "SimKernel", name: str, address: str, disk: "MachineDisk") -> None:
        self.kernel: Final = kernel
        self.name: Final = name
        self.address: Final = address
        self.disk: Final = disk
        self.processes: list[SimProcess] = []
        self.listeners: dict[int | str, Listener] = {}  # By TCP port, or path.

    @property
    def up(self) -> bool:
        """Whether the machine has power."""
        return self.kernel.network.host(self.name).state is not HostState.DOWN

    def crash(self) -> None:
        """Loses power: what was not synced may be lost, and nobody is told."""
        for process in self.processes:
            process.vanish()
        self.processes.clear()
        self.listeners.clear()
        self.disk.crash()
        self.kernel.network.crash(self.name)


class SimWork:
    """Work beside a process, which ends after a while; `join` does it now."""

    def __init__(self, process: SimProcess, run: Callable[[], None]) -> None:
        self._process = process
        self._run = run
        self._done = False

    def join(self, seconds: float | None = None, /) -> None:
        """The work is done when this returns."""
        del seconds
        self.finish()

    def finish(self) -> None:
        """Does the work, unless it was done or its process has ended."""
        if not self._done and self._process.alive:
            self._done = True
            with self._process.kernel.running(self._process):
                self._run()


OpenSocket = Callable[[SimProcess, int, int], socket.socket]
"""Makes a socket of a process, of a family and a kind."""


class SimKernel:
    """The kernel of all machines of a world; see `Kernel` for its calls."""

    def __init__(self, network: SimNetwork, seed: int, open_socket: OpenSocket) -> None:
        self.network: Final = network
        self._open_socket = open_socket
        self.machines: dict[str, Machine] = {}  # By address.
        self._addresses: dict[str, str] = {}  # By name.
        self.pids = 0
        self.current: SimProcess | None = None
        self.files: Files = SimFiles(self)
        self.stream_bytes: Final = generator(seed, "streams").choice(STREAM_BYTES)
        """What one direction of a connection holds: on its way, and not read yet."""
        self._random = generator(seed, "random bytes")
        self._disks = generator(seed, "time of disks")

    # The world.

    def machine(self, name: str, address: str, disk: "MachineDisk") -> Machine:
        """A new machine, without a process."""
        machine = self.machines[address] = Machine(self, name, address, disk)
        self._addresses[name] = address
        self.network.host(name)
        return machine

    def address_of(self, name: str) -> str:
        """The address of a machine."""
        return self._addresses[name]

    @contextmanager
    def running(self, process: SimProcess) -> Iterator[None]:
        """Calls within the block are those of a process."""
        before, self.current = self.current, process
        try:
            yield
        finally:
            self.current = before

    @property
    def process(self) -> SimProcess:
        """The process that runs at this moment."""
        assert self.current is not None, "a process runs"
        return self.current

    # Calls of processes.

    def monotonic_ns(self) -> int:
        """Virtual time, which never goes back."""
        return self.network.engine.now_us * 1_000

    def random_bytes(self, count: int) -> bytes:
        """Bytes that follow from the seed."""
        return self._random.randbytes(count)

    def ahead_us(self) -> int:
        """No machine is ever suspended here."""
        return 0

    def wall_ns(self) -> int:
        """Virtual time as well: no clock jumps."""
        return EPOCH_NS + self.network.engine.now_us * 1_000

    def socket(self, family: int, kind: int) -> socket.socket:
        """A socket with those calls that daemons and clients make."""
        return self._open_socket(self.process, family, kind)

    def poller(self) -> Poller:
        """A new poller, which watches nothing."""
        return SimPoller(self.process)

    def timer(self) -> WakeTimer:
        """A new timer, which is not set."""
        return SimTimer(self.process)

    def yield_processor(self) -> None:
        """There are enough processors for everybody."""

    def start_work(self, run: Callable[[], None], name: str) -> Work:
        """Runs this after the time that a disk takes."""
        del name
        process = self.process
        work = SimWork(process, run)
        at_us = self.network.engine.now_us + self._disks.randint(*DISK_US)
        self.network.timer(process.machine.name, at_us, work.finish)
        return work

    def write_if_ready(self, fd: int, data: bytes) -> bool:
        """Keeps the lines on standard error."""
        assert fd == STANDARD_ERROR, "a log is there"
        self.process.said.append(data.decode())
        return True


class SimFiles:
    """Files and pipes of the process that runs."""

    def __init__(self, kernel: SimKernel) -> None:
        self._kernel = kernel

    @property
    def _disk(self) -> "MachineDisk":
        return self._kernel.process.machine.disk

    def open(self, path: "str | os.PathLike[str]", flags: int, mode: int = 0o777) -> int:
        """Opens a file of the machine."""
        del mode
        return self._disk.open(self._kernel.process, os.fspath(path), flags)

    def close(self, fd: int) -> None:
        """Closes a descriptor of any kind."""
        self._kernel.process.descriptors[fd].close()

    def read(self, fd: int, length: int, /) -> bytes:
        """Reads from a file or a pipe."""
        descriptor = self._kernel.process.descriptors[fd]
        if isinstance(descriptor, Pipe):
            if not descriptor.content and not descriptor.ended:
                raise BlockingIOError
            taken = bytes(descriptor.content[:length])
            del descriptor.content[:length]
            return taken
        return self._disk.read(descriptor, length)

    def write(self, fd: int, data: bytes, /) -> int:
        """Writes to a file or a pipe."""
        descriptor = self._kernel.process.descriptors[fd]
        if isinstance(descriptor, Pipe):
            assert descriptor.other is not None, "a pipe has two ends"
            descriptor.other.content += data
            descriptor.other.changed()
            return len(data)
        return self._disk.write(descriptor, data)

    def pread(self, fd: int, length: int, offset: int, /) -> bytes:
        """Reads from a place of a file."""
        return self._disk.pread(self._kernel.process.descriptors[fd], length, offset)

    def pwrite(self, fd: int, data: bytes | memoryview, offset: int, /) -> int:
        """Writes to a place of a file."""
        return self._disk.pwrite(self._kernel.process.descriptors[fd], bytes(data), offset)

    def fstat(self, fd: int) -> os.stat_result:
        """The kind and the size of a file."""
        return self._disk.stat(self._kernel.process.descriptors[fd])

    def lseek(self, fd: int, position: int, whence: int, /) -> int:
        """Moves to a place in a file."""
        return self._disk.seek(self._kernel.process.descriptors[fd], position, whence)

    def ftruncate(self, fd: int, length: int, /) -> None:
        """Cuts off the end of a file."""
        self._disk.truncate(self._kernel.process.descriptors[fd], length)

    def fsync(self, fd: int) -> None:
        """Puts a file, or the names in a directory, on disk."""
        self._disk.fsync(self._kernel.process.descriptors[fd])

    def replace(self, src: "str | os.PathLike[str]", dst: "str | os.PathLike[str]") -> None:
        """Gives a file another name."""
        self._disk.replace(os.fspath(src), os.fspath(dst))

    def unlink(self, path: "str | os.PathLike[str]") -> None:
        """Removes the name of a file."""
        self._disk.unlink(os.fspath(path))

    def mkdir(self, path: "str | os.PathLike[str]", mode: int = 0o777) -> None:
        """Makes a directory in another one."""
        del mode
        self._disk.mkdir(os.fspath(path))

    def listdir(self, path: "str | os.PathLike[str]") -> list[str]:
        """The names in a directory."""
        return self._disk.listdir(os.fspath(path))

    def access(self, path: "str | os.PathLike[str]", mode: int) -> bool:
        """Whatever there is may be used."""
        del mode
        return self._disk.exists(os.fspath(path))

    def pipe2(self, flags: int, /) -> tuple[int, int]:
        """A pipe between two descriptors."""
        del flags
        read, write = Pipe(self._kernel.process), Pipe(self._kernel.process)
        read.other, write.other = None, read
        return read.number, write.number


def _nothing() -> bool:
    return False
