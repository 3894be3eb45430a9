"""A deployment in virtual time: a machine for each daemon, with `hopd` on it and clients beside it.

Everything above the kernel is the product: `hopd` from its command line on, with its event loop, sockets,
session server, log and trace, and the client library on asyncio. A crash is that of a machine, which loses
power, and with it what its disk had not synced, or that of the daemon alone, and its clients live on.
"""

import argparse
import socket
from io import BytesIO
from typing import TYPE_CHECKING, Final, cast

from hopring.check import trace
from hopring.check.trace_files import read_json_lines
from hopring.config.model import Config
from hopring.daemon.engines.membership_host import MembershipHost
from hopring.daemon.engines.registry import DEFAULT_ENGINE
from hopring.daemon.hopd import Hopd
from hopring.daemon.loop.event_loop import Loop
from hopring.daemon.process.command_line import command_line
from hopring.engine import EngineState
from hopring.ids import DaemonId
from hopring.sim.deployment.disk import MachineDisk
from hopring.sim.deployment.kernel import Machine, SimKernel, SimProcess
from hopring.sim.deployment.streams import StreamSocket
from hopring.sim.deployment.udp import UdpSocket
from hopring.sim.engine import SimEngine, generator
from hopring.sim.network import HostState, SimNetwork
from hopring.sim.path import Quality

if TYPE_CHECKING:
    from hopring.sim.deployment.clients import ClientProgram

EVENTS_MAX: Final = 20_000_000
POWER: Final = 0.5
"""The share of crashes in which the machine loses power; in the others the daemon alone is killed."""

TRACE: Final = "/kept/trace.jsonl"
STATE: Final = "/state"


class SimHopd:
    """One run of `hopd` on a machine."""

    def __init__(self, deployment: "Deployment", name: str) -> None:
        self.deployment: Final = deployment
        self.name: Final = name
        self.leaving = False
        self.process: Final = SimProcess(deployment.kernel, deployment.machine_of(name), name)
        self.process.step = self._start
        self.process.wake()
        self._loop: Loop | None = None
        self._hopd: Hopd | None = None

    @property
    def hopd(self) -> Hopd:
        """The daemon, which has started."""
        assert self._hopd is not None, "it has started"
        return self._hopd

    def state(self) -> EngineState:
        """The phase and the view of its engine."""
        host = self.hopd._host
        assert isinstance(host, MembershipHost), "the engine of daemons"
        return host.membership.state()

    def leave(self) -> None:
        """Asks it to end, as SIGTERM does."""
        self.leaving = True
        self.process.inside(self._leave)
        self.process.wake()

    def _leave(self) -> bool:
        self.hopd.leave()
        return True

    def _start(self) -> bool:
        self._loop = loop = Loop()
        loop.lingering.linger_us = 0
        self._hopd = Hopd(loop, self.deployment.config, self._arguments(), None, DEFAULT_ENGINE)
        self.process.step = self._serve
        return True

    def _arguments(self) -> argparse.Namespace:
        words = ["hop.toml", "--name", self.name, "--state", STATE, "--trace", TRACE, "--no-admin"]
        return command_line().parse_args([*words, "--linger", "0", "--socket", socket_path(self.name)])

    def _serve(self) -> bool:
        assert self._loop is not None, "it has started"
        more = self._loop.serve()
        if self._loop.stopped:
            self.hopd.close()
            self.deployment.ended(self)
            return False
        return more


def open_socket(process: SimProcess, family: int, kind: int) -> socket.socket:
    """A socket with those calls that daemons and clients make."""
    datagrams = kind & ~(socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC) == socket.SOCK_DGRAM
    made = UdpSocket(process, family) if datagrams else StreamSocket(process, family)
    return cast("socket.socket", made)


def socket_path(name: str) -> str:
    """The Unix socket of a daemon for its clients."""
    return f"/{name}.sock"


class Deployment:
    """All machines of a world."""

    def __init__(self, config: Config, seed: int, quality: Quality, events_max: int = EVENTS_MAX) -> None:
        self.config: Final = config
        self.engine = SimEngine(events_max)
        self.network = SimNetwork(self.engine, seed, quality)
        self.kernel: Final = SimKernel(self.network, seed, open_socket)
        self.numbers = {one.name: DaemonId(at) for at, one in enumerate(config.daemons)}
        self.daemons: dict[str, SimHopd] = {}
        self.clients: list[ClientProgram] = []
        self.notes: list[trace.Event] = []
        """What the kernel knows: the ends of daemons."""
        self._dice = generator(seed, "crashes")
        for daemon in config.daemons:
            disk = MachineDisk(generator(seed, f"disk of {daemon.name}"))
            self.kernel.machine(daemon.name, daemon.address, disk)

    @property
    def hosts(self) -> dict[str, SimHopd]:
        """The daemons that have started and not ended."""
        return {name: one for name, one in self.daemons.items() if one._hopd is not None}

    def machine_of(self, name: str) -> Machine:
        """The machine of a daemon."""
        return self.kernel.machines[self.kernel.address_of(name)]

    # Faults.

    def start(self, *names: str) -> None:
        """Starts these daemons, or all."""
        for name in names or sorted(self.numbers):
            if name not in self.daemons:
                self.daemons[name] = SimHopd(self, name)

    def crash(self, name: str) -> None:
        """The machine loses power, or the daemon is killed."""
        daemon = self.daemons.pop(name)
        self._note_end(daemon)
        machine = self.machine_of(name)
        if self._dice.random() < POWER:
            for client in self.clients:
                if client.process.machine is machine:
                    client.note_end()
            machine.crash()
        else:
            daemon.process.kill()

    def stop(self, name: str) -> None:
        """Asks a daemon to end."""
        self.daemons[name].leave()

    def ended(self, daemon: SimHopd) -> None:
        """A daemon has ended by itself."""
        daemon.process.kill()
        if self.daemons.get(daemon.name) is daemon:
            del self.daemons[daemon.name]

    def restart(self, name: str) -> None:
        """Boots a machine, and starts its daemon."""
        self.network.restart(name)
        self.start(name)

    def forget(self, name: str) -> None:
        """Somebody removes the view counter of a daemon."""
        self.machine_of(name).disk.forget(f"{STATE}/{self.config.cluster}.{name}.views")

    def runs(self, name: str) -> bool:
        """Whether a daemon runs, on a machine that is not paused."""
        return name in self.hosts and self.network.host(name).state is HostState.RUNNING

    def _note_end(self, daemon: SimHopd) -> None:
        if daemon._hopd is not None:
            state = daemon.state()
            process = trace.ProcessName(daemon.name, state.me.incarnation)
            self.notes.append(trace.Crash(process, self.engine.now_us))

    # The history.

    def history(self) -> list[trace.Event]:
        """The traces of daemons and clients, in the order of time."""
        events: list[trace.Event] = []
        for name in sorted(self.numbers):
            events += read_json_lines(BytesIO(self.machine_of(name).disk.content_of(TRACE)))
        events += self.notes
        for client in self.clients:
            for recorder in client.recorders:
                events += recorder.events
        return sorted(events, key=lambda event: event.at_us)
