"""A world of links in virtual time: hosts, links of every kind between them, faults, and a trace.

>>> world = LinkWorld(seed=4711, quality=Quality(delay_us=25_000, loss=0.01))
>>> a, b = world.hop("a", "b")
>>> a.submit(b"hello")
True
>>> world.run_for(1_000_000)
>>> all(world.verdicts())
True

`check_link` judges the reliable link (thesis 2.2.7) on a history, a list of events in the order in which they
happened. The thesis names the actions of a link and leaves their properties to its use in 2.2.6; those judged
here are the ones that the network relies on. Events of other kinds and of other links are ignored. A history is
judged as if nothing came after it, so it has to be long enough for everything to have arrived.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from hopring.check.properties.property import Verdict, broken, holds
from hopring.ids import DaemonId, Generation, Incarnation
from hopring.links.hop.hop import Hop, HopOptions
from hopring.links.link import Link
from hopring.links.ring.options import RingOptions
from hopring.links.ring.ring import open_ring
from hopring.links.tcp import Tcp, TcpOptions
from hopring.sim.engine import EVENTS_MAX_DEFAULT, SimEngine, generator
from hopring.sim.network import Address, HostState, SimNetwork
from hopring.sim.path import Quality
from hopring.sim.tcp.links import SimTcpHost
from hopring.sim.tcp.stream import SimTcpOptions
from hopring.testing.link_ends import CLUSTER, EndSetup, HopEnd, LinkEnd, RingMember, TcpEnd
from hopring.testing.trace import HostChange, HostChanged, LinkEndFailed, ObjectReceived, ObjectSubmitted, Trace
from hopring.wire.data import SEGMENT_BYTES_DEFAULT
from hopring.wire.header import Family, Header

NO_INVENTION = "2.2.7 nothing is received that was not submitted before, and nothing more often"
ALL_ARRIVES = "2.2.7 what is submitted is received, unless the link fails"
LINK_END = "2.2.7 a failed link is silent"

_VERBS: Final = {ObjectSubmitted: "submitted", ObjectReceived: "received", LinkEndFailed: "failed"}


def check_link(history: Iterable[object], link: str, hosts: Sequence[str]) -> list[Verdict]:
    """All properties of one link between these hosts; a multicast link has more than two."""
    events = list(history)
    return [
        no_invention(events, link),
        all_arrives(events, link, hosts),
        link_end(events, link),
    ]


def no_invention(history: Iterable[object], link: str) -> Verdict:
    """Every receipt has a submission of its own, before it and at another host."""
    submitted: Counter[tuple[str, bytes]] = Counter()
    total: Counter[bytes] = Counter()
    received: Counter[tuple[str, bytes]] = Counter()
    for event in _of_link(history, link):
        match event:
            case ObjectSubmitted():
                submitted[event.host, event.payload] += 1
                total[event.payload] += 1
            case ObjectReceived():
                key = (event.host, event.payload)
                received[key] += 1
                by_others = total[event.payload] - submitted[key]
                if received[key] > by_others:
                    often = f"{_times(received[key])}, submitted by others {_times(by_others)} before"
                    where = f"at {event.at_us} us {event.host} received {_short(event.payload)}"
                    return broken(NO_INVENTION, f"{where} {often}")
            case _:
                pass
    return holds(NO_INVENTION)


def all_arrives(history: Iterable[object], link: str, hosts: Sequence[str]) -> Verdict:
    """Every submission is received at every other host, unless the link failed at one, or one crashed.

    A host that was down before the link was used, or that came back, does not excuse a link of its new life:
    that is a link of its own with a name of its own.
    """
    owed: dict[tuple[str, bytes], list[ObjectSubmitted]] = {}
    used = False
    for event in history:
        match event:
            case ObjectSubmitted() if event.link == link:
                used = True
                for host in hosts:
                    if host != event.host:
                        owed.setdefault((host, event.payload), []).append(event)
            case ObjectReceived() if event.link == link:
                waiting = owed.get((event.host, event.payload))
                if waiting:
                    waiting.pop(0)
            case LinkEndFailed() if event.link == link:
                return holds(ALL_ARRIVES)
            case HostChanged(_, host, HostChange.CRASH) if used and host in hosts:
                return holds(ALL_ARRIVES)
            case _:
                pass
    for (host, payload), waiting in owed.items():
        if waiting:
            first = waiting[0]
            story = f"{first.host} submitted {_short(payload)} at {first.at_us} us and {host} never received it"
            return broken(ALL_ARRIVES, story)
    return holds(ALL_ARRIVES)


def link_end(history: Iterable[object], link: str) -> Verdict:
    """A host whose end failed submits and receives nothing more on it, and fails only once."""
    failed: dict[str, LinkEndFailed] = {}
    for event in _of_link(history, link):
        last = failed.get(event.host)
        if last is not None:
            more = f"{_VERBS[type(event)]} at {event.at_us} us"
            return broken(LINK_END, f"failed at {event.host} at {last.at_us} us, yet {more}")
        if isinstance(event, LinkEndFailed):
            failed[event.host] = event
    return holds(LINK_END)


def _of_link(
    history: Iterable[object], link: str
) -> Iterator[ObjectSubmitted | ObjectReceived | LinkEndFailed]:
    for event in history:
        if isinstance(event, ObjectSubmitted | ObjectReceived | LinkEndFailed) and event.link == link:
            yield event


def _times(count: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")


def _short(payload: bytes) -> str:
    return repr(payload[:16]) + (f" and {len(payload) - 16} bytes more" if len(payload) > 16 else "")


class LinkWorld:
    """One run. The seed decides all random draws; `record_datagrams` traces every datagram too."""

    def __init__(
        self,
        seed: int = 0,
        quality: Quality | None = None,
        record_datagrams: bool = True,
        events_max: int = EVENTS_MAX_DEFAULT,
    ) -> None:
        self.seed = seed
        self.engine = SimEngine(events_max)
        self.network = SimNetwork(self.engine, seed, quality)
        self.trace: Trace = []
        self.ends: dict[tuple[str, str], LinkEnd] = {}
        """The present end of each link, by (link without generation, host)."""
        self.links: dict[str, tuple[str, ...]] = {}
        """The hosts of every link there was, by its name with the generation."""
        self.numbers: dict[str, DaemonId] = {}
        self._generations: dict[str, int] = {}
        self._ports: dict[str, int] = {}
        self._stream_hosts: dict[str, SimTcpHost] = {}
        if record_datagrams:
            self.network.on_send = self.trace.append

    @property
    def now_us(self) -> int:
        """The present virtual time, in microseconds."""
        return self.engine.now_us

    def run_for(self, duration_us: int) -> None:
        """Runs the world for this span of virtual time."""
        self.engine.run_for(duration_us)

    def verdicts(self) -> list[Verdict]:
        """The verdicts on every link there was."""
        return [
            verdict for link, hosts in self.links.items() for verdict in check_link(self.trace, link, hosts)
        ]

    # ---- Links ----

    def hop(
        self, one: str, other: str, options: HopOptions | None = None, initial_seq: int = 1
    ) -> tuple[HopEnd, HopEnd]:
        """Creates a Hop link; called again, a new generation of it on both sides."""
        chosen = options or HopOptions()
        return self.datagram_link(one, other, lambda: Hop(chosen, initial_seq), chosen.segment_bytes)

    def datagram_link(
        self, one: str, other: str, make: Callable[[], Link], segment_bytes: int = SEGMENT_BYTES_DEFAULT
    ) -> tuple[HopEnd, HopEnd]:
        """Creates a link of any kind over datagrams; `make` is called for each end."""
        name = f"{one}-{other}"
        generation = self._next_generation(name)
        self.links[_full_name(name, generation)] = (one, other)
        made = []
        for host, peer in ((one, other), (other, one)):
            place = self._place(name, host, Family.HOP, generation)
            peers = {self._number(peer): self._incarnation(peer)}
            made.append(HopEnd(place, Address(peer, self._ports[name]), peers, make(), segment_bytes))
            self.ends[name, host] = made[-1]
        return made[0], made[1]

    def ring(
        self, hosts: Sequence[str], options: RingOptions | None = None, initial_seq: int = 0
    ) -> tuple[RingMember, ...]:
        """Creates a ring of these hosts; called again, a new generation with the hosts given then."""
        name = "ring"
        generation = self._next_generation(name)
        self.links[_full_name(name, generation)] = tuple(hosts)
        numbers = {host: self._number(host) for host in hosts}
        ordered = tuple(sorted(numbers.values()))
        addresses = {numbers[host]: Address(host, self._ports[name]) for host in hosts}
        peers = {numbers[host]: self._incarnation(host) for host in hosts}
        made = []
        for host in hosts:
            link = open_ring(numbers[host], ordered, options or RingOptions(), initial_seq, self.now_us)
            place = self._place(name, host, Family.RING, generation)
            made.append(RingMember(place, addresses, peers, link))
            self.ends[name, host] = made[-1]
        return tuple(made)

    def tcp(
        self,
        one: str,
        other: str,
        options: TcpOptions | None = None,
        stream_options: SimTcpOptions | None = None,
    ) -> tuple[TcpEnd, TcpEnd]:
        """Creates a TCP link, opened by the first host; called again, a new connection."""
        name = f"{one}-{other}"
        generation = self._next_generation(name)
        self.links[_full_name(name, generation)] = (one, other)
        ends = []
        for host, peer in ((one, other), (other, one)):
            place = self._place(name, host, Family.TCP, generation)
            link = Tcp(place.header, self._number(peer), self._incarnation(peer), options or TcpOptions())
            ends.append(TcpEnd(place, link))
            self.ends[name, host] = ends[-1]
        first, second = ends
        # Every generation listens on a port of its own, so no greeting is needed to tell them apart.
        port = self._ports[name] * 1_000 + generation
        self._stream_host(other, stream_options).listen(port, lambda _host: second)
        self._stream_host(one, stream_options).connect(other, port, first)
        return first, second

    def _stream_host(self, name: str, options: SimTcpOptions | None) -> SimTcpHost:
        host = self._stream_hosts.get(name)
        if host is None:
            host = self._stream_hosts[name] = SimTcpHost(self.network, name, options)
        return host

    def _next_generation(self, name: str) -> int:
        """Closes the link of that name where it still stands, and numbers the one that replaces it."""
        for key in [key for key in self.ends if key[0] == name]:
            self.ends.pop(key).close()
        self._ports.setdefault(name, len(self._ports) + 1)
        self._generations[name] = self._generations.get(name, 0) + 1
        return self._generations[name]

    def _place(self, name: str, host: str, family: Family, generation: int) -> EndSetup:
        address = Address(host, self._ports[name])
        header = Header(family, CLUSTER, self._number(host), self._incarnation(host), Generation(generation))
        return EndSetup(self.network, _full_name(name, generation), address, header, self.trace.append)

    def _number(self, host: str) -> DaemonId:
        return self.numbers.setdefault(host, DaemonId(len(self.numbers) + 1))

    def _incarnation(self, host: str) -> Incarnation:
        starts = self.network.host(host).starts
        return Incarnation(generator(self.seed, f"incarnation {host} {starts}").getrandbits(64))

    # ---- Faults of hosts ----

    def crash(self, host: str) -> None:
        """Takes a host down; the other ends of its links detect that themselves."""
        self.network.crash(host)
        self._stream_hosts.pop(host, None)
        self.ends = {key: end for key, end in self.ends.items() if key[1] != host}
        self.trace.append(HostChanged(self.now_us, host, HostChange.CRASH))

    def restart(self, host: str) -> None:
        """Boots a host without links; TCP connections of its earlier run are reset."""
        self.network.restart(host)
        self._stream_host(host, None)
        self.trace.append(HostChanged(self.now_us, host, HostChange.RESTART))

    def pause(self, host: str, duration_us: int) -> None:
        """Stops a host for a while."""
        self.network.pause(host)
        self.trace.append(HostChanged(self.now_us, host, HostChange.PAUSE))
        self.engine.after(duration_us, self._resume, host, self.network.host(host).starts)

    def _resume(self, host: str, start: int) -> None:
        machine = self.network.host(host)
        if machine.starts == start and machine.state is HostState.PAUSED:
            self.trace.append(HostChanged(self.now_us, host, HostChange.RESUME))
            self.network.resume(host)


def _full_name(link: str, generation: int) -> str:
    return link if generation == 1 else f"{link}/{generation}"
