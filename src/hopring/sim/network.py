"""The datagram network: hosts, the paths between them, multicast groups, cuts and partitions.

It carries bytes without interpreting them. Each direction between two hosts is a path with random generators of
its own. A multicast is one send that goes down the path to every other member, each with its own draw. Cuts
apply when a datagram leaves, crashes and pauses when it arrives: a datagram in flight when a cut begins still
arrives.

Random loss and delay are in `path.py`. A `TargetedFault` applies to a chosen datagram, so that a scenario can
say which: the n-th that fits a description is lost, late, or doubled.

A host is a machine with ports and timers. Nothing survives its crash: ports and timers belong to one start of
the host. A paused host does nothing; datagrams wait in its bounded receive buffer, and so do timers that come
due. On resume it reads the datagrams first and looks at its timers then, as a loop around a poll call does.
"""

from bisect import insort
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Final, NamedTuple, final

from hopring.sim.engine import SimEngine
from hopring.sim.line import SharedLine
from hopring.sim.path import LossReason, Path, Quality
from hopring.value import Value

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


@final
class Flight(Value):
    """A datagram as it leaves for one host."""

    def __init__(self, source: Address, target: Address, datagram: bytes) -> None:
        self.source: Final = source
        self.target: Final = target
        self.datagram: Final = datagram


@dataclass(frozen=True, slots=True)
class Lose:
    """The datagram is lost on its path."""


@dataclass(frozen=True, slots=True)
class Delay:
    """The datagram arrives later than it would have, by `delay_us`."""

    delay_us: int


@dataclass(frozen=True, slots=True)
class Duplicate:
    """`copies` more datagrams arrive, each `gap_us` after the one before."""

    copies: int = 1
    gap_us: int = 0


Effect = Lose | Delay | Duplicate


@dataclass(slots=True)
class TargetedFault:
    """Strikes the matching datagrams number `first` to `last`, counted from 1."""

    matches: Callable[[Flight], bool]
    effect: Effect
    first: int = 1
    last: int = 1
    seen: int = field(default=0, init=False)

    def strikes(self, flight: Flight) -> bool:
        """Whether the fault strikes this datagram; counts it if it matches."""
        if self.spent or not self.matches(flight):
            return False
        self.seen += 1
        return self.first <= self.seen

    @property
    def spent(self) -> bool:
        """Whether no further datagram will be struck."""
        return self.seen >= self.last


def apply(effect: Effect, fate: list[int] | LossReason) -> list[int] | LossReason:
    """The arrivals of a datagram after a fault has struck it; one that was lost by chance stays lost."""
    if isinstance(fate, LossReason):
        return fate
    match effect:
        case Lose():
            return LossReason.TARGETED
        case Delay(delay_us):
            return [arrival_us + delay_us for arrival_us in fate]
        case Duplicate(copies, gap_us):
            return fate + [fate[-1] + gap_us * copy for copy in range(1, copies + 1)]


@final
class SentDatagram(Value):
    """One send as an observer sees it; `fates` has, for each target host, the reason of its loss or None."""

    def __init__(
        self,
        at_us: int,
        source: Address,
        group: str | None,
        datagram: bytes,
        fates: tuple[tuple[str, LossReason | None], ...],
    ) -> None:
        self.at_us: Final = at_us
        self.source: Final = source
        self.group: Final = group
        self.datagram: Final = datagram
        self.fates: Final = fates


class SimNetwork:
    """Hosts, created when they are first named, and the paths, groups and cuts between them."""

    def __init__(self, engine: SimEngine, seed: int, quality: Quality | None = None) -> None:
        self.engine = engine
        self.seed = seed
        self.quality = quality or Quality()
        self.hosts: dict[str, SimHost] = {}
        self.paths: dict[tuple[str, str], Path] = {}
        self.on_send: Callable[[SentDatagram], None] | None = None
        self.on_arrival_lost: Callable[[str, LossReason], None] | None = None
        self._groups: dict[str, list[Address]] = {}  # Members in the order of their names.
        self._cuts: set[tuple[str, str]] = set()
        self._components: dict[str, int] = {}
        self._faults: list[TargetedFault] = []
        self._access_lines: dict[str, Path] = {}
        self.line: SharedLine | None = None

    # ---- Hosts, ports, timers ----

    def host(self, name: str) -> SimHost:
        """The host of that name."""
        if name not in self.hosts:
            self.hosts[name] = SimHost(name)
        return self.hosts[name]

    def bind(self, address: Address, receive: Receive) -> None:
        """Hands datagrams for this address to `receive` until the host crashes."""
        host = self.host(address.host)
        assert host.state is not HostState.DOWN, f"host {host.name} is down"
        assert address.port not in host.ports, f"{address} is bound already"
        host.ports[address.port] = receive

    def unbind(self, address: Address) -> None:
        """Closes the port, unless a crash has done so."""
        self.host(address.host).ports.pop(address.port, None)

    def timer(self, name: str, when_us: int, action: Callable[..., None], *args: Any) -> None:
        """Runs `action(*args)` on that host at that time: never after a crash, and late after a pause."""
        host = self.host(name)
        due_us = max(when_us, self.engine.now_us) + host.late_us
        self.engine.at(due_us, host.run_timer, host.starts, action, args)

    def pause(self, name: str, duration_us: int | None = None) -> None:
        """Stops a host, for a while or until `resume`."""
        host = self.host(name)
        host.pause(self.engine.now_us)
        if duration_us is not None:
            self.engine.after(duration_us, self._end_of_pause, host, host.starts)

    def _end_of_pause(self, host: SimHost, start: int) -> None:
        if host.starts == start and host.state is HostState.PAUSED:
            host.resume(self.engine.now_us)

    def resume(self, name: str) -> None:
        """Lets a paused host go on."""
        self.host(name).resume(self.engine.now_us)

    def crash(self, name: str) -> None:
        """Takes a host down; its memory is lost."""
        self.host(name).crash()
        for members in self._groups.values():
            members[:] = [address for address in members if address.host != name]

    def restart(self, name: str) -> None:
        """Boots a host; its programs have to be started by the caller."""
        self.host(name).restart()

    # ---- Paths ----

    def path(self, source: str, target: str) -> Path:
        """The path from one host to the other."""
        path = self.paths.get((source, target))
        if path is None:
            path = Path(f"{source}->{target}", self.quality, self.seed)
            self.paths[source, target] = path
        return path

    def shape(self, source: str, target: str, **changes: Any) -> None:
        """Changes some qualities of one direction, as in `shape("a", "b", loss=0.1)`."""
        path = self.path(source, target)
        path.quality = replace(path.quality, **changes)

    def shape_both(self, one: str, other: str, **changes: Any) -> None:
        """Changes some qualities of both directions between two hosts."""
        self.shape(one, other, **changes)
        self.shape(other, one, **changes)

    def shape_all(self, **changes: Any) -> None:
        """Changes some qualities of every path, including paths that are created later."""
        self.quality = replace(self.quality, **changes)
        for path in self.paths.values():
            path.quality = replace(path.quality, **changes)

    def access_line(self, name: str, rate_bytes_per_second: int, queue_bytes: int = 0) -> None:
        """Gives a host one line in front of all its paths; each copy of a multicast counts."""
        quality = Quality(rate_bytes_per_second=rate_bytes_per_second, queue_bytes=queue_bytes)
        self._access_lines[name] = Path(f"access line of {name}", quality, self.seed)

    def shared_line(self, line: SharedLine) -> SharedLine:
        """Puts all hosts on one line, in front of their paths: each send is on it once, also a multicast."""
        self.line = line
        return line

    # ---- Cuts ----

    def cut(self, source: str, target: str) -> None:
        """Drops all datagrams in this direction."""
        self._cuts.add((source, target))

    def cut_both(self, one: str, other: str) -> None:
        """Drops all datagrams between two hosts."""
        self.cut(one, other)
        self.cut(other, one)

    def mend(self, source: str, target: str) -> None:
        """Ends a cut of this direction, if there is one."""
        self._cuts.discard((source, target))

    def partition(self, *components: Iterable[str]) -> None:
        """Splits the hosts; those not named stay together in a component of their own."""
        self._components = {
            name: number for number, component in enumerate(components, start=1) for name in component
        }

    def move(self, name: str, beside: str) -> None:
        """Puts a host on the side of another one, while the network is split."""
        self._components[name] = self._components.get(beside, 0)

    def heal(self) -> None:
        """Ends all cuts and partitions."""
        self._cuts.clear()
        self._components.clear()

    def connected(self, source: str, target: str) -> bool:
        """Whether no cut or partition keeps the source from the target."""
        component = self._components
        return (source, target) not in self._cuts and component.get(source, 0) == component.get(target, 0)

    def interfere(self, fault: TargetedFault) -> TargetedFault:
        """Applies a targeted fault to datagrams that are sent from now on."""
        self._faults.append(fault)
        return fault

    # ---- Sending ----

    def send(self, source: Address, target: Address, datagram: bytes) -> None:
        """Sends a datagram to one address."""
        lost = self._launch(source, target, datagram, self._on_line(datagram))
        if self.on_send is not None:
            fates = ((target.host, lost),)
            self.on_send(SentDatagram(self.engine.now_us, source, None, datagram, fates))

    def join(self, group: str, address: Address) -> None:
        """Makes the address a receiver of the multicast group."""
        members = self._groups.setdefault(group, [])
        assert address not in members, f"{address} is in {group} already"
        insort(members, address)

    def leave(self, group: str, address: Address) -> None:
        """Ends a membership, unless a crash has done so."""
        if address in self._groups[group]:
            self._groups[group].remove(address)

    def multicast(self, source: Address, group: str, datagram: bytes) -> None:
        """Sends to every member of the group but the source itself, in the order of their names."""
        members = self._groups.get(group, ())
        left_us = self._on_line(datagram)
        fates = tuple(
            (member.host, self._launch(source, member, datagram, left_us))
            for member in members
            if member != source
        )
        if self.on_send is not None:
            self.on_send(SentDatagram(self.engine.now_us, source, group, datagram, fates))

    def _on_line(self, datagram: bytes) -> int | LossReason:
        """When the datagram has left the line that all share, or now."""
        now_us = self.engine.now_us
        return now_us if self.line is None else self.line.occupy(len(datagram), now_us)

    def _launch(
        self, source: Address, target: Address, datagram: bytes, left_us: int | LossReason
    ) -> LossReason | None:
        """Sends one datagram down its path; returns the reason if it is lost there."""
        path = self.path(source.host, target.host)
        counters = path.counters
        counters.sent += 1
        counters.sent_bytes += len(datagram)
        fate = self._fate(path, source, target, datagram, left_us)
        if isinstance(fate, LossReason):
            counters.lost[fate] += 1
            return fate
        counters.doubled += len(fate) - 1
        for arrival_us in fate:
            self.engine.at(arrival_us, self._arrive, path, source, target, datagram)
        return None

    def _fate(
        self, path: Path, source: Address, target: Address, datagram: bytes, left_us: int | LossReason
    ) -> list[int] | LossReason:
        if isinstance(left_us, LossReason):
            return left_us
        if (self._cuts or self._components) and not self.connected(source.host, target.host):
            return LossReason.CUT
        fate = self._carry(path, source.host, len(datagram), left_us)
        if self._faults:
            flight = Flight(source, target, datagram)
            # Every fault counts every datagram, also one that another fault has struck.
            for fault in [fault for fault in self._faults if fault.strikes(flight)]:
                fate = apply(fault.effect, fate)
            self._faults = [fault for fault in self._faults if not fault.spent]
        return fate

    def _carry(self, path: Path, source: str, datagram_bytes: int, left_us: int) -> list[int] | LossReason:
        line = self._access_lines.get(source)
        if line is not None:
            fate = line.carry(datagram_bytes, left_us)
            if isinstance(fate, LossReason):
                return fate
            left_us = fate[0]
        return path.carry(datagram_bytes, left_us)

    def _arrive(self, path: Path, source: Address, target: Address, datagram: bytes) -> None:
        host = self.host(target.host)
        if host.packet_cost_us or host.busy_until_us > self.engine.now_us:
            host.busy_until_us = max(host.busy_until_us, self.engine.now_us) + host.packet_cost_us
            self.engine.at(host.busy_until_us, self._hand_over, path, source, target, datagram)
        else:
            self._hand_over(path, source, target, datagram)

    def _hand_over(self, path: Path, source: Address, target: Address, datagram: bytes) -> None:
        lost = self.host(target.host).arrive(source, target.port, datagram)
        if lost is None:
            path.counters.delivered += 1
            path.counters.delivered_bytes += len(datagram)
            return
        path.counters.lost[lost] += 1
        if self.on_arrival_lost is not None:
            self.on_arrival_lost(path.name, lost)
