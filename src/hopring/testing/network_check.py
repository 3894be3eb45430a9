"""The network specification (thesis 2.2.6, properties 2.21 to 2.23), judged on a history.

A history is the list of all daemons' events in the order in which they happened. Each daemon lives in windows:
from its ninit to its linkfailed, the next ninit, or the end. Members of one window are those of one ninit set.
With pruning, `nreceive` is owed only to the daemons whose sites the bundle is for.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from hopring.check.properties.property import Verdict, broken, holds

SERVER_SET = "2.21 network server set"
RELIABLE_MULTICAST = "2.22 reliable network multicast"
NETWORK_END = "2.23 network end"
NO_INVENTION = "2.22 no receipt without a multicast, and none twice"


@dataclass(frozen=True, slots=True)
class Ninit:
    """A daemon got a new network."""

    at_us: int
    daemon: str
    members: tuple[str, ...]
    network: int  # Its number, the same at all members.


@dataclass(frozen=True, slots=True)
class Nmcast:
    """A daemon multicast a bundle for these daemons."""

    at_us: int
    daemon: str
    bundle: bytes
    wanted_by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Nreceive:
    """A daemon received a bundle."""

    at_us: int
    daemon: str
    bundle: bytes


@dataclass(frozen=True, slots=True)
class Nlinkfailed:
    """The network of a daemon has ended."""

    at_us: int
    daemon: str
    reason: str


NetworkEvent = Ninit | Nmcast | Nreceive | Nlinkfailed
NetworkTrace = list[NetworkEvent]


@dataclass(slots=True)
class _Window:
    """One daemon's time in one network."""

    init: Ninit
    failed: bool = False
    sent: list[Nmcast] = field(default_factory=list)
    received: Counter[bytes] = field(default_factory=Counter)


def check_network(trace: NetworkTrace) -> list[Verdict]:
    """All properties of the network, the broken ones with their witnesses."""
    return [server_set(trace), reliable_multicast(trace), network_end(trace), no_invention(trace)]


def server_set(trace: NetworkTrace) -> Verdict:
    """2.21: the members of a network are those of its ninit, the same for all of them."""
    members: dict[int, Ninit] = {}
    for event in trace:
        if not isinstance(event, Ninit):
            continue
        first = members.setdefault(event.network, event)
        if event.members != first.members:
            both = f"{first.members} at {first.daemon}, {event.members} at {event.daemon}"
            return broken(SERVER_SET, f"network {event.network} is {both}")
        if event.daemon not in event.members:
            return broken(SERVER_SET, f"{event.daemon} starts network {event.network} without itself")
    return holds(SERVER_SET)


def reliable_multicast(trace: NetworkTrace) -> Verdict:
    """2.22: a multicast bundle is received by all its targets, unless the network fails at some member."""
    networks: dict[int, dict[str, _Window]] = {}
    for window in _windows(trace):
        networks.setdefault(window.init.network, {})[window.init.daemon] = window
    for number, windows in networks.items():
        if any(window.failed for window in windows.values()):
            continue
        for window in windows.values():
            for sent in window.sent:
                for name in sent.wanted_by:
                    if name in windows and not windows[name].received[sent.bundle]:
                        story = (
                            f"{_short(sent.bundle)} from {sent.daemon} never came to {name} in network {number}"
                        )
                        return broken(RELIABLE_MULTICAST, story)
    return holds(RELIABLE_MULTICAST)


def network_end(trace: NetworkTrace) -> Verdict:
    """2.23: between linkfailed and the next ninit nothing happens."""
    ended: dict[str, Nlinkfailed | None] = {}
    for event in trace:
        if isinstance(event, Ninit):
            ended[event.daemon] = None
            continue
        if event.daemon not in ended:
            return broken(NETWORK_END, f"{event.daemon} acts at {event.at_us} us before its first ninit")
        last = ended[event.daemon]
        if last is not None:
            kind = type(event).__name__
            return broken(
                NETWORK_END, f"{event.daemon} failed at {last.at_us} us, yet {kind} at {event.at_us} us"
            )
        if isinstance(event, Nlinkfailed):
            ended[event.daemon] = event
    return holds(NETWORK_END)


def no_invention(trace: NetworkTrace) -> Verdict:
    """Every receipt follows its multicast in the same network, and is the only one at that daemon."""
    network: dict[str, int] = {}
    sent: set[tuple[int, bytes]] = set()
    seen: set[tuple[int, str, bytes]] = set()
    for event in trace:
        match event:
            case Ninit():
                network[event.daemon] = event.network
            case Nmcast():
                sent.add((network[event.daemon], event.bundle))
            case Nreceive():
                number = network.get(event.daemon, 0)
                if (number, event.bundle) not in sent:
                    return broken(
                        NO_INVENTION, f"{event.daemon} received {_short(event.bundle)}, which nobody sent"
                    )
                if (number, event.daemon, event.bundle) in seen:
                    return broken(NO_INVENTION, f"{event.daemon} received {_short(event.bundle)} twice")
                seen.add((number, event.daemon, event.bundle))
    return holds(NO_INVENTION)


def _windows(trace: NetworkTrace) -> Iterator[_Window]:
    current: dict[str, _Window] = {}
    for event in trace:
        match event:
            case Ninit():
                if event.daemon in current:
                    yield current[event.daemon]
                current[event.daemon] = _Window(event)
            case Nmcast() if event.daemon in current:
                current[event.daemon].sent.append(event)
            case Nreceive() if event.daemon in current:
                current[event.daemon].received[event.bundle] += 1
            case Nlinkfailed() if event.daemon in current:
                current[event.daemon].failed = True
    yield from current.values()


def _short(bundle: bytes) -> str:
    return repr(bundle[:16]) + (f" and {len(bundle) - 16} bytes more" if len(bundle) > 16 else "")
