"""A simulated machine: ports, timers, and whether it is running, paused or down.

Nothing survives a crash: ports and timers belong to one start of the host. A paused host does nothing at all;
datagrams wait for it in a bounded receive buffer and timers that come due wait too. On resume it reads the
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
    """Where a datagram comes from or goes to."""

    host: str
    port: int = 0


Receive = Callable[[Address, bytes], None]
"""What a port does with a datagram: its source and its bytes."""


class HostState(Enum):
    """What a host is doing."""

    RUNNING = "running"
    PAUSED = "paused"
    DOWN = "down"


@dataclass(slots=True)
class SimHost:
    """One machine; `starts` counts its boots, so that what belongs to an older one can tell."""

    name: str
    receive_buffer_bytes: int = RECEIVE_BUFFER_BYTES_DEFAULT
    state: HostState = HostState.RUNNING
    starts: int = 1
    next_stream_port: int = 10_000  # Never used again, not even after a crash.
    ports: dict[int, Receive] = field(default_factory=dict)
    waiting: deque[tuple[Address, int, bytes]] = field(default_factory=deque)
    waiting_bytes: int = 0
    overdue: list[tuple[Callable[..., None], tuple[Any, ...]]] = field(default_factory=list)
    late_us: int = 0  # Its timers run so much late.
    packet_cost_us: int = 0  # It takes so long over each datagram, and takes them one by one.
    busy_until_us: int = 0
    paused_at_us: int = 0
    stalled: Callable[[int], None] | None = None  # Its program, told how long it did not run.
    numb: bool = False  # Takes nothing in, not even what was under way.

    def arrive(self, source: Address, port: int, datagram: bytes) -> LossReason | None:
        """Takes a datagram in, or says why it cannot."""
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
        """Stops the machine where it is."""
        assert self.state is HostState.RUNNING, f"host {self.name} is {self.state.value}"
        self.paused_at_us = now_us
        self.state = HostState.PAUSED

    def resume(self, now_us: int) -> None:
        """Goes on: first the datagrams that waited, then the timers that came due."""
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
        """Loses everything the machine had in memory."""
        assert self.state is not HostState.DOWN, f"host {self.name} is down already"
        self.state = HostState.DOWN
        self.ports.clear()
        self.stalled = None
        self.waiting.clear()
        self.waiting_bytes = 0
        self.overdue.clear()

    def restart(self) -> None:
        """Boots the machine with no port bound; whoever simulates its programs starts them anew."""
        assert self.state is HostState.DOWN, f"host {self.name} is {self.state.value}"
        self.state = HostState.RUNNING
        self.starts += 1
