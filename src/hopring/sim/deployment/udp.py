"""UDP sockets of simulated machines, with the calls that daemons make."""

import errno
import os
import select
import socket
from collections import deque
from collections.abc import Sequence
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from hopring.sim.deployment.kernel import Descriptor
from hopring.sim.network import Address

if TYPE_CHECKING:
    from hopring.sim.deployment.kernel import SimProcess

BUFFER_BYTES: Final = 8 << 20
_SOL_UDP: Final = 17
_UDP_SEGMENT: Final = 103
_SEGMENT_SIZE: Final = Struct("=H")

Ancillary = Sequence[tuple[int, int, bytes]]


class UdpSocket(Descriptor):
    """A socket for datagrams; trains leave as the datagrams that they consist of."""

    def __init__(self, process: "SimProcess", family: int) -> None:
        super().__init__(process)
        self.family: Final = socket.AddressFamily(family)
        self._port: int | None = None
        self._queue: deque[tuple[bytes, tuple[str, int]]] = deque()
        self._queued_bytes = 0

    def readiness(self) -> int:
        """A datagram more can always be sent."""
        return select.EPOLLOUT | (select.EPOLLIN if self._queue else 0)

    def released(self) -> None:
        """Gives its port back, if any."""
        if self._port is not None:
            self.process.kernel.network.unbind(Address(self.process.machine.name, self._port))

    def bind(self, address: tuple[str, int]) -> None:
        """Takes a port of this machine."""
        machine = self.process.machine
        if address[0] != machine.address:
            raise OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL))
        network = self.process.kernel.network
        if address[1] in network.host(machine.name).ports:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        self._port = address[1]
        network.bind(Address(machine.name, self._port), self._arrived)

    def getsockname(self) -> tuple[str, int]:
        """Its address and its port."""
        return self.process.machine.address, self._port or 0

    def setsockopt(self, *_option: object) -> None:
        """All options are granted, without effect."""

    def getsockopt(self, _level: int, option: int, _size: int = 0) -> Any:
        """The sizes of buffers, as they were asked for."""
        return 0 if option == _UDP_SEGMENT else BUFFER_BYTES

    def sendto(self, data: bytes | memoryview, address: tuple[str, int]) -> int:
        """Sends one datagram; one to nobody is lost."""
        kernel = self.process.kernel
        machine = kernel.machines.get(address[0])
        if machine is not None:
            assert self._port is not None, "daemons bind before they send"
            source = Address(self.process.machine.name, self._port)
            kernel.network.send(source, Address(machine.name, address[1]), bytes(data))
        return len(data)

    def sendmsg(
        self, pieces: Sequence[bytes | memoryview], ancillary: Ancillary, _flags: int, address: tuple[str, int]
    ) -> int:
        """Sends a train as its datagrams."""
        whole = b"".join(pieces)
        size = len(whole)
        for level, kind, body in ancillary:
            if (level, kind) == (_SOL_UDP, _UDP_SEGMENT):
                (size,) = _SEGMENT_SIZE.unpack(body)
        for at in range(0, len(whole), size):
            self.sendto(whole[at : at + size], address)
        return len(whole)

    def recvmsg_into(
        self, buffers: Sequence[memoryview], _ancillary_bytes: int
    ) -> tuple[int, list[tuple[int, int, bytes]], int, tuple[str, int]]:
        """Takes the first datagram that waits."""
        if not self._queue:
            raise BlockingIOError
        datagram, source = self._queue.popleft()
        self._queued_bytes -= len(datagram)
        size = min(len(datagram), len(buffers[0]))
        buffers[0][:size] = datagram[:size]
        return size, [], 0 if size == len(datagram) else int(socket.MSG_TRUNC), source

    def _arrived(self, source: Address, datagram: bytes) -> None:
        if self._queued_bytes + len(datagram) > BUFFER_BYTES:
            return
        self._queued_bytes += len(datagram)
        self._queue.append((datagram, (self.process.kernel.address_of(source.host), source.port)))
        self.changed()
