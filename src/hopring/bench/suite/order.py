"""The cost of order between sites, in virtual time: round trips beside a load, and promises.

    python -m hopring.bench.suite.order

The first rows are figure 5.4 of the thesis on the chain of its figure 5.3, four sites of one daemon, 30 ms and
1.5 Mbit/s from one to the next: a ping from the first to the last and its pong, beside a load of the same
service from the first. The others are three sites, each linked to each, at growing distances. `half_ms` is half
a round trip. Messages of the load come at random moments: with exact ones, each wait would be the same.
"""

import json
import random
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import Final

from hopring.check import trace
from hopring.config import Config, Daemon, LinkConfig, LinkTuning, Site, local_config
from hopring.membership.options import MembershipOptions
from hopring.services import Service
from hopring.sim.cluster import SimCluster, SimDaemon
from hopring.sim.path import Quality

HOP_US: Final = 30_000
T1_BYTES_PER_SECOND: Final = 187_500
CHAIN: Final = ("a", "b", "c", "d")

DELTAS_US: Final = (100_000, 20_000)
"""The delta of the thesis, and that of hopring."""

LOADS: Final = (0, 5, 20, 50, 100)
"""Messages of 1 KB a second."""

NEAR_US: Final = (100, 1_000, 5_000, 15_000, 30_000)
NEAR_LOADS: Final = (0, 100, 1_000)
LOAD_BYTES: Final = 1_000
PING_BYTES: Final = 100
PAUSE_US_MAX: Final = 100_000
PINGS: Final = 90
WARM_US: Final = 2_000_000
WAIT_US_MAX: Final = 10_000_000


def chain(delta_us: int) -> SimCluster:
    """The sites of figure 5.3, in one view."""
    sites = tuple([Site(name, (Daemon(f"{name}1", "127.0.0.1"),)) for name in CHAIN])
    tuning = LinkTuning(rate_bytes_per_second=T1_BYTES_PER_SECOND, burst_bytes=6_000)
    near = list(pairwise(CHAIN))
    links = tuple([LinkConfig(pair, HOP_US, tuning=tuning) for pair in near])
    options = MembershipOptions(update_delta_us=delta_us, probe_us=3_600_000_000)
    cluster = SimCluster(Config("chain", sites, links, mesh=False), 1, Quality(delay_us=HOP_US), options)
    for at, one in enumerate(CHAIN):
        for other in CHAIN[at + 1 :]:
            if (one, other) in near:
                line = {"rate_bytes_per_second": T1_BYTES_PER_SECOND, "queue_bytes": 64_000}
                cluster.network.shape_both(f"{one}1", f"{other}1", **line)
            else:
                cluster.network.cut_both(f"{one}1", f"{other}1")
    return _settled(cluster)


def mesh(delay_us: int, delta_us: int = MembershipOptions().update_delta_us) -> SimCluster:
    """Three sites of one daemon at this distance from each other, in one view."""
    options = MembershipOptions(update_delta_us=delta_us, probe_us=3_600_000_000)
    return _settled(SimCluster(local_config({"a": 1, "b": 1, "c": 1}), 1, Quality(delay_us=delay_us), options))


def _settled(cluster: SimCluster) -> SimCluster:
    cluster.start()
    cluster.run_for(5_000_000)
    assert cluster.settled(), "the sites come together"
    return cluster


@dataclass(slots=True)
class SteadyLoad:
    """Messages of one service from one daemon at a mean rate, at random moments."""

    host: SimDaemon
    service: Service
    per_second: int
    chance: random.Random
    sent: int = 0

    def send(self) -> None:
        """Sends a message and schedules the next."""
        if not self.per_second:
            return
        self.host.submit(self.service, LOAD_BYTES)
        self.sent += 1
        gap_us = int(1_000_000 / self.per_second * self.chance.uniform(0.5, 1.5))
        self.host.cluster.engine.after(gap_us, self.send)


def promises(cluster: SimCluster) -> int:
    """The number of promises of all sites in their view."""
    overlays = [host.snapshot().overlay for host in cluster.hosts.values()]
    return sum(overlay.promises for overlay in overlays if overlay is not None)


def deliver_us(cluster: SimCluster, sender: str, receiver: str, service: Service) -> int:
    """Sends a message and runs until it is delivered; returns the microseconds."""
    begin_us, seen = cluster.engine.now_us, len(cluster.history)
    host = cluster.hosts[sender]
    host.submit(service, PING_BYTES)
    message = (sender, host.sent)
    while cluster.engine.now_us < begin_us + WAIT_US_MAX:
        for event in cluster.history[seen:]:
            if (
                isinstance(event, trace.MessageDelivered)
                and event.process.daemon == receiver
                and (event.message.daemon, event.message.number) == message
            ):
                return event.at_us - begin_us
        seen = len(cluster.history)
        cluster.engine.run_until(cluster.engine.next_us or 0)
    raise AssertionError("the message does not come")


def round_trips(
    cluster: SimCluster,
    ends: tuple[str, str],
    service: Service,
    per_second: int,
    pings: int = PINGS,
    seed: int = 1,
) -> dict[str, float]:
    """Figures of round trips beside a load."""
    chance = random.Random(seed)
    load = SteadyLoad(cluster.hosts[ends[0]], service, per_second, chance)
    load.send()
    cluster.run_for(WARM_US)
    begin_us, before, sent = cluster.engine.now_us, promises(cluster), load.sent
    halves_us: list[float] = []
    for _ in range(pings):
        cluster.run_for(chance.randrange(PAUSE_US_MAX))
        there_us = deliver_us(cluster, ends[0], ends[1], service)
        halves_us.append((there_us + deliver_us(cluster, ends[1], ends[0], service)) / 2)
    count, bundles = promises(cluster) - before, load.sent - sent + 2 * pings
    return {
        "half_ms": round(fmean(halves_us) / 1_000, 2),
        "half_ms_max": round(max(halves_us) / 1_000, 2),
        "promises_per_second": round(count * 1_000_000 / (cluster.engine.now_us - begin_us), 1),
        "promises_per_bundle": round(count / bundles, 2),
    }


def main() -> None:
    """Prints a line for each point of a curve."""
    for delta_us in DELTAS_US:
        for service in (Service.RELIABLE, Service.AGREED, Service.SAFE):
            for per_second in LOADS:
                case = f"chain, delta {delta_us // 1_000} ms, {service.name.lower()}, {per_second}/s"
                figures = round_trips(chain(delta_us), ("a1", "d1"), service, per_second)
                print(json.dumps({"case": case} | figures), flush=True)
    for delay_us in NEAR_US:
        for service in (Service.FIFO, Service.AGREED, Service.SAFE):
            for per_second in NEAR_LOADS:
                case = f"three sites, {delay_us / 1_000:g} ms, {service.name.lower()}, {per_second}/s"
                figures = round_trips(mesh(delay_us), ("b1", "c1"), service, per_second, pings=30)
                print(json.dumps({"case": case} | figures), flush=True)


if __name__ == "__main__":
    main()
