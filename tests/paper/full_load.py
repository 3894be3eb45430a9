"""Simulated minutes at full load with 5 % loss: a separate program, so that its memory can be measured.

Full load means that the window is the limit: senders never let their queue run dry, and at every sample every
daemon has used its whole window. The window is small and the sites are far apart, because a window is used once
in the time in which a stability line goes round: so a few events a second are full load, and minutes are
affordable. Links have a fixed rate far above the load: with congestion control the loss would be the limit, not
the window.
"""

import gc
import json
import sys
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from hopring.check import trace
from hopring.check.trace import MessageDelivered, ViewInstalled
from hopring.config.builder import local_config
from hopring.config.model import Config, LinkConfig, LinkTuning
from hopring.membership.options import MembershipOptions
from hopring.services import Service
from hopring.sim.cluster import SimCluster, SimDaemon
from hopring.sim.path import Quality

SECOND_US = 1_000_000
DAEMONS = 4
WINDOW_BUNDLES = 8
BODY_BYTES = 1_000
SERVICES = (Service.AGREED, Service.SAFE, Service.FIFO, Service.RELIABLE)
SITE_DELAY_US, WIDE_DELAY_US = 4_000, 100_000
LOSS = 0.05
FEED_US = 100_000  # Far less than a window takes.

_LEAVES = (str, bytes, bytearray, memoryview, int, float, bool, type(None))


class LoadedCluster(SimCluster):
    """Two sites of two daemons that always have something to send; events are counted, not kept."""

    def __init__(self) -> None:
        base = local_config({"a": 2, "b": 2})
        tuning = LinkTuning(rate_bytes_per_second=1_000_000)
        config = Config(base.cluster, base.sites, (LinkConfig(("a", "b"), 10, tuning=tuning),))
        quality = Quality(delay_us=SITE_DELAY_US, loss=LOSS)
        self.seen: Counter[type] = Counter()
        self.most_entries = self.most_counted = 0
        super().__init__(config, 1, quality, MembershipOptions(window_bundles=WINDOW_BUNDLES))
        for near in ("a1", "a2"):
            for far in ("b1", "b2"):
                self.network.shape_both(near, far, delay_us=WIDE_DELAY_US)

    def note(self, event: trace.Event) -> None:
        """Counts an event, and samples the number of bundles that are held."""
        self.seen[type(event)] += 1
        for host in self.hosts.values():
            if len(host.membership.view.order.entries) > self.most_entries:
                self.most_entries = len(host.membership.view.order.entries)
                self.most_counted = self._counted(host)

    def _counted(self, host: SimDaemon) -> int:
        """Of the bundles that this daemon holds, the number that are still in their sender's window.

        The sender knows that the others are stable. This daemon keeps them until it knows so too, because
        recovery may ask it for any bundle that it does not know to be stable.
        """
        senders = {at.me.daemon: at.membership.view.order.entries for at in self.hosts.values()}
        entries = host.membership.view.order.entries
        return sum(key in senders[one.message.daemon] for key, one in entries.items() if one.message)

    def feed(self) -> None:
        """Keeps the send queue of every daemon filled."""
        for _, host in sorted(self.hosts.items()):
            while len(host.membership.flow.window.waiting) < 2 * WINDOW_BUNDLES:
                host.submit(SERVICES[host.sent % len(SERVICES)], BODY_BYTES)
        self.engine.after(FEED_US, self.feed)


def collections_of(one: object) -> Iterator[tuple[str, int]]:
    """Every list, dict, set and queue that is reachable from here, by its path, with its length."""
    yield from _walk(one, type(one).__name__, set())


def _walk(one: Any, way: str, seen: set[int]) -> Iterator[tuple[str, int]]:
    if isinstance(one, _LEAVES) or id(one) in seen:
        return
    seen.add(id(one))
    if isinstance(one, dict):
        yield way, len(one)
        parts = [(f"{way}[]", value) for value in one.values()]
    elif isinstance(one, (list, tuple, set, frozenset, deque)):
        yield way, len(one)
        parts = [(f"{way}[]", value) for value in one]
    else:
        parts = [(f"{way}.{name}", value) for name, value in _fields(one)]
    for where, part in parts:
        yield from _walk(part, where, seen)


def _fields(one: Any) -> list[tuple[str, Any]]:
    """The fields of an object of ours: a class, a slotted dataclass or a Struct."""
    if not type(one).__module__.startswith("hopring"):
        return []
    names = [*getattr(one, "__dict__", ())]
    for kind in type(one).__mro__:
        slots = [*getattr(kind, "__slots__", ()), *getattr(kind, "__mypyc_attrs__", ())]
        names += [name for name in slots if name not in {"__weakref__", "__dict__"}]
    if isinstance(one, msgspec.Struct):
        names += one.__struct_fields__
    return [(name, getattr(one, name)) for name in sorted(set(names)) if hasattr(one, name)]


@dataclass
class Sample:
    """One sample of the cluster."""

    second: int
    rss_kb: int
    entries: int  # The highest number at any daemon since the last sample.
    counted: int  # How many of these entries are in their sender's window.
    out: list[int]  # Of every daemon's window.
    waiting: list[int]
    views: int
    delivered: int
    lengths: dict[str, int] = field(default_factory=dict)  # The longest collection of each kind.


def rss_kb() -> int:
    """Resident memory of this process."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))


def look(cluster: LoadedCluster) -> Sample:
    """Takes a sample of the present state."""
    hosts: list[SimDaemon] = [host for _, host in sorted(cluster.hosts.items())]
    lengths: dict[str, int] = {}
    for host in hosts:
        for way, length in (*collections_of(host.membership), ("Host._heads", len(host._heads))):
            lengths[way] = max(length, lengths.get(way, 0))
    if cluster.engine.now_us % (10 * SECOND_US) == 0:
        gc.collect()
    most, cluster.most_entries = cluster.most_entries, 0
    return Sample(
        second=cluster.engine.now_us // SECOND_US,
        rss_kb=rss_kb(),
        entries=most,
        counted=cluster.most_counted,
        out=[host.membership.flow.window.out_bundles for host in hosts],
        waiting=[len(host.membership.flow.window.waiting) for host in hosts],
        views=cluster.seen[ViewInstalled],
        delivered=cluster.seen[MessageDelivered],
        lengths=lengths,
    )


def samples(seconds: int) -> Iterator[Sample]:
    """Yields one sample per simulated second."""
    cluster = LoadedCluster()
    cluster.start()
    cluster.run_for(2 * SECOND_US)
    assert cluster.settled()
    cluster.feed()
    for _ in range(seconds):
        cluster.run_for(SECOND_US)
        yield look(cluster)


if __name__ == "__main__":
    for sample in samples(int(sys.argv[1])):
        print(json.dumps(msgspec.to_builtins(sample)), flush=True)
