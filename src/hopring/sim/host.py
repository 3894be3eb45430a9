"""A simulated machine: ports, timers, and whether it is running, paused or down.

Nothing survives a crash: ports and timers belong to one start of the host. A paused host does nothing;
datagrams wait in its bounded receive buffer, and so do timers that come due. On resume it reads the
datagrams first and looks at its timers then, as a loop around a poll call does.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, NamedTuple

from hopring.sim.path import LossReason

RECEIVE_BUFFER_BYTES_DEFAULT: Final = 8 * 1024 * 1024


class Address(NamedTuple):
    """Source or target of a datagram."""

    host: str
    port: int = 0


Receive = Callable[[Address, bytes], None]
"""The receiver of a port, called with the source and the bytes of a datagram."""


class HostState(Enum):
    """Whether a host runs, is paused, or is down."""

    RUNNING = "running"
    PAUSED = "paused"
    DOWN = "down"


@dataclass(slots=True)
class SimHost:
    """One machine; `starts` counts its boots, so that timers of an older boot are recognised."""

    name: str
    receive_buffer_bytes: int = RECEIVE_BUFFER_BYTES_DEFAULT
    state: HostState = HostState.RUNNING
    starts: int = 1
    next_stream_port: int = 10_000  # Never used again, not even after a crash.
    ports: dict[int, Receive] = field(default_factory=dict)
    waiting: deque[tuple[Address, int, bytes]] = field(default_factory=deque)
    waiting_bytes: int = 0
    overdue: list[tuple[Callable[..., None], tuple[Any, ...]]] = field(default_factory=list)
    late_us: int = 0  # By this much its timers run late.
    packet_cost_us: int = 0  # Processing time of a datagram; datagrams are processed one by one.
    busy_until_us: int = 0
    paused_at_us: int = 0
    stalled: Callable[[int], None] | None = None  # Called after a pause with its length.
    numb: bool = False  # Drops every arriving datagram, even those in flight before.

    def arrive(self, source: Address, port: int, datagram: bytes) -> LossReason | None:
        """Hands a datagram to its port, or returns the reason of its loss."""
        if self.state is HostState.DOWN:
            return LossReason.HOST_DOWN
        if self.numb:
            return LossReason.CUT
        receive = self.ports.get(port)
        if receive is None:
            return LossReason.NO_RECEIVER
        if self.state is HostState.PAUSED:
            return self._keep(source, port, datagram)
        receive(source, datagram)
        return None

    def _keep(self, source: Address, port: int, datagram: bytes) -> LossReason | None:
        if self.waiting_bytes + len(datagram) > self.receive_buffer_bytes:
            return LossReason.RECEIVE_BUFFER
        self.waiting_bytes += len(datagram)
        self.waiting.append((source, port, datagram))
        return None

    def run_timer(self, start: int, action: Callable[..., None], args: tuple[Any, ...]) -> None:
        """Runs a timer that has come due, unless the start of the host that set it is over."""
        if start != self.starts or self.state is HostState.DOWN:
            return
        if self.state is HostState.PAUSED:
            self.overdue.append((action, args))
        else:
            action(*args)

    def pause(self, now_us: int) -> None:
        """Stops the machine; datagrams and timers wait."""
        assert self.state is HostState.RUNNING, f"host {self.name} is {self.state.value}"
        self.paused_at_us = now_us
        self.state = HostState.PAUSED

    def resume(self, now_us: int) -> None:
        """Continues: handles the datagrams that waited, then the timers that came due."""
        assert self.state is HostState.PAUSED, f"host {self.name} is {self.state.value}"
        self.state = HostState.RUNNING
        if self.stalled is not None:
            self.stalled(now_us - self.paused_at_us)
        waiting, self.waiting, self.waiting_bytes = self.waiting, deque(), 0
        overdue, self.overdue = self.overdue, []
        for source, port, datagram in waiting:
            self.arrive(source, port, datagram)
        for action, args in overdue:
            self.run_timer(self.starts, action, args)

    def crash(self) -> None:
        """Takes the machine down; ports, timers and waiting datagrams are lost."""
        assert self.state is not HostState.DOWN, f"host {self.name} is down already"
        self.state = HostState.DOWN
        self.ports.clear()
        self.stalled = None
        self.waiting.clear()
        self.waiting_bytes = 0
        self.overdue.clear()

    def restart(self) -> None:
        """Boots the machine with no port bound; the caller starts its programs."""
        assert self.state is HostState.DOWN, f"host {self.name} is {self.state.value}"
        self.state = HostState.RUNNING
        self.starts += 1
