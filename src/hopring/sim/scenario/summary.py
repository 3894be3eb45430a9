"""Long runs in a few lines: what was submitted and received, what was sent and lost."""

from collections import Counter
from collections.abc import Iterable

from hopring.check.link_history import Failed, Received, Submitted
from hopring.check.network import Nlinkfailed, Nmcast, Nreceive
from hopring.sim.network import Sending
from hopring.sim.scenario.show import time
from hopring.sim.trace import Dropped, Event, Refused


def summary(events: Iterable[Event]) -> list[str]:
    """Counts per host, then per direction, in the order of their names."""
    hosts: dict[str, Counter[str]] = {}
    paths: dict[str, Counter[str]] = {}
    seen: set[tuple[str, bytes]] = set()
    for event in events:
        match event:
            case Sending():
                _count_sending(event, paths)
            case Submitted() | Refused() | Dropped():
                hosts.setdefault(event.host, Counter())[type(event).__name__.lower()] += 1
            case Nmcast():
                hosts.setdefault(event.daemon, Counter())["multicast"] += 1
            case Received():
                _count_receipt(hosts, seen, event.host, event.payload)
            case Nreceive():
                _count_receipt(hosts, seen, event.daemon, event.bundle)
            case Failed():
                hosts.setdefault(event.host, Counter())[_failure(event)] += 1
            case Nlinkfailed():
                hosts.setdefault(event.daemon, Counter())[_failure(event)] += 1
            case _:
                pass
    lines = [(name, counts) for table in (hosts, paths) for name, counts in sorted(table.items())]
    width = max((len(name) for name, _counts in lines), default=0)
    return [f"{name:<{width}}  {_text(counts)}" for name, counts in lines]


def _count_receipt(
    hosts: dict[str, Counter[str]], seen: set[tuple[str, bytes]], host: str, payload: bytes
) -> None:
    """An object that comes again is counted apart; stories that submit one twice have to read it so."""
    again = (host, payload) in seen
    seen.add((host, payload))
    hosts.setdefault(host, Counter())["received again" if again else "received"] += 1


def _failure(event: Failed | Nlinkfailed) -> str:
    return f"failure at {time(event.at_us)}: {event.reason}"


def _count_sending(event: Sending, paths: dict[str, Counter[str]]) -> None:
    for host, loss in event.fates:
        counts = paths.setdefault(f"{event.source.host}->{host}", Counter())
        counts["datagrams sent"] += 1
        counts["lost"] += loss is not None


def _text(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count)
