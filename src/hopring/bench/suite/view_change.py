"""The cost of a change of daemons inside one site for the link to another site, in virtual time.

Two sites, 40 ms apart one way over a line of 10 Mbit/s. The third daemon of one site, which is not its
representative, leaves, crashes or comes back.

Idle: datagrams and bytes between the sites beyond those of a cluster without the change. Under load (1 KB
messages, FIFO, half of the line, from one representative to the other): the longest gap between two deliveries,
and the time until messages are as fast as before, if that is within five seconds. `kept` says that the new Hop
links begin with the measurements that the old ones had made of the path.
"""

import json
import sys
from collections.abc import Callable
from itertools import pairwise
from statistics import median

from hopring.check import trace
from hopring.config.model import Config, Daemon, LinkConfig, LinkProtocol, Site
from hopring.ids import Process
from hopring.links.link import LearnedPath
from hopring.services import Service
from hopring.sim.cluster import SimCluster
from hopring.sim.path import Quality

LINE = {"delay_us": 40_000, "rate_bytes_per_second": 1_250_000, "queue_bytes": 256 * 1024}
MESSAGE_BYTES = 1_024
LOAD = 0.5
BEFORE_US = 4_000_000
AFTER_US = 5_000_000

CHANGES: dict[str, Callable[[SimCluster], None]] = {
    "none": lambda _cluster: None,
    "leave": lambda cluster: cluster.stop("eu3"),
    "crash": lambda cluster: cluster.crash("eu3"),
    "return": lambda cluster: cluster.restart("eu3"),
}


class Forgetful(dict[Process, LearnedPath]):
    """Drops the measurements of earlier links."""

    def __setitem__(self, _neighbour: Process, _learned: LearnedPath) -> None:
        pass


class ViewChangeTrial:
    """One simulated cluster and one change of its daemons."""

    def __init__(self, protocol: LinkProtocol, change: str, kept: bool = True, seed: int = 1) -> None:
        sites = [
            Site(name, tuple(Daemon(f"{name}{number}", "127.0.0.1") for number in (1, 2, 3)))
            for name in ("eu", "us")
        ]
        config = Config("change", tuple(sites), (LinkConfig(("eu", "us"), 1, protocol),), mesh=False)
        self.cluster = SimCluster(config, seed, Quality(delay_us=100))
        for near in sites[0].daemons:
            for far in sites[1].daemons:
                self.cluster.network.shape_both(near.name, far.name, **LINE)
        self.change = change
        self.sent_at_us: dict[int, int] = {}
        self.cluster.start()
        if not kept:
            for host in self.cluster.hosts.values():
                host.membership.network.learned = Forgetful()
        self.cluster.run_for(5_000_000)
        if change == "return":
            self.cluster.stop("eu3")
            self.cluster.run_for(5_000_000)
        assert self.cluster.settled(), "the cluster is in one view"

    def wide(self) -> tuple[int, int]:
        """Datagrams and bytes sent between the sites."""
        tallies = [
            path.counters
            for (source, target), path in self.cluster.network.paths.items()
            if source[:2] != target[:2]
        ]
        return sum(tally.sent for tally in tallies), sum(tally.sent_bytes for tally in tallies)

    def idle(self) -> tuple[int, int]:
        """Datagrams and bytes between the sites since the change."""
        datagrams, size = self.wide()
        CHANGES[self.change](self.cluster)
        self.cluster.run_for(AFTER_US)
        assert self.cluster.settled(), "the cluster is in one view"
        after_datagrams, after_size = self.wide()
        return after_datagrams - datagrams, after_size - size

    def loaded(self) -> tuple[int, int]:
        """The longest gap between deliveries, and the time of the last slow message, since the change."""
        end_us = self.cluster.engine.now_us + BEFORE_US + AFTER_US
        self._submit(end_us)
        self.cluster.run_for(BEFORE_US)
        start_us = self.cluster.engine.now_us
        CHANGES[self.change](self.cluster)
        self.cluster.run_for(AFTER_US)
        arrivals = [
            (one.at_us, one.at_us - self.sent_at_us[one.message.number])
            for one in self.cluster.history
            if isinstance(one, trace.MessageDelivered) and one.process.daemon == "us1"
        ]
        usual_us = median(latency_us for at_us, latency_us in arrivals if at_us < start_us)
        gaps = [later - earlier for (earlier, _), (later, _) in pairwise(arrivals)]
        slow = [at_us - start_us for at_us, latency_us in arrivals if latency_us > 1.5 * usual_us]
        return max(gaps), max([at_us for at_us in slow if at_us > 0], default=0)

    def _submit(self, end_us: int) -> None:
        host = self.cluster.hosts["eu1"]
        host.submit(Service.FIFO, MESSAGE_BYTES)
        self.sent_at_us[host.sent] = self.cluster.engine.now_us
        if self.cluster.engine.now_us < end_us:
            pause_us = int(MESSAGE_BYTES * 1_000_000 / (LOAD * LINE["rate_bytes_per_second"]))
            self.cluster.engine.after(pause_us, self._submit, end_us)


def main() -> None:
    """Prints the figures of all changes, on both kinds of links."""
    for protocol in (LinkProtocol.HOP, LinkProtocol.TCP):
        usual = {change: ViewChangeTrial(protocol, change).idle() for change in CHANGES}
        for change in ("leave", "crash", "return"):
            for kept in (True, False) if protocol is LinkProtocol.HOP else (False,):
                gap_us, caught_up_us = ViewChangeTrial(protocol, change, kept).loaded()
                row = {
                    "case": f"{protocol.value} {change}" + (" kept" if kept else ""),
                    "datagrams": usual[change][0] - usual["none"][0],
                    "bytes": usual[change][1] - usual["none"][1],
                    "gap_ms": gap_us // 1_000,
                    "caught_up_ms": None if caught_up_us > AFTER_US - 200_000 else caught_up_us // 1_000,
                }
                print(json.dumps(row), flush=True)
                print("  ".join(f"{name} {value}" for name, value in row.items()), file=sys.stderr)


if __name__ == "__main__":
    main()
