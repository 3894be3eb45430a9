"""Three sites of two hosts each in namespaces, with cuts, delays and losses between them.

eu1 eu2 -- switch -- gateway eu ==wan== core ==wan== gateway us -- switch -- us1 us2   (and ap likewise)

Every packet between two sites passes the core, so the core can cut each direction between sites by
itself. Inside a site the switch does.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.hopd.daemon_processes import DaemonProcesses
from tests.netns.namespace_lab import Lab, Wan

from hopring.config import (
    Config,
    Daemon,
    LinkConfig,
    LinkProtocol,
    LinkTuning,
    MulticastConfig,
    RingTuning,
    Site,
)
from hopring.daemon.net.shaper import Shape

SITES = ("ap", "eu", "us")
NUMBERS = {site: number for number, site in enumerate(SITES, start=1)}
HOSTS = tuple(f"{site}{host}" for site in SITES for host in (1, 2))

# Delay in one direction from each site to the core.
EVEN_MS = dict.fromkeys(SITES, 15)

# Three emulators and six daemons may share two cores: no daemon is declared dead for being slow.
RING = RingTuning(token_loss_us=1_500_000)
LINK = LinkTuning(silence_us=2_500_000)

# Longer where an unexpected view would be a failure.
STEADY_RING = RingTuning(token_loss_us=8_000_000)
STEADY_LINK = LinkTuning(silence_us=8_000_000)


def make_config(
    delays_ms: Mapping[str, int] = EVEN_MS,
    protocol: LinkProtocol = LinkProtocol.HOP,
    ring: RingTuning = RING,
    link: LinkTuning = LINK,
) -> Config:
    """A configuration with a daemon on each host: multicast in eu, unicast in the other sites."""
    sites = [
        Site(
            name=site,
            daemons=tuple(Daemon(f"{site}{host}", f"10.81.{number}.{host}") for host in (1, 2)),
            multicast=MulticastConfig("239.192.81.1", 4890) if site == "eu" else None,
            ring=ring,
        )
        for site, number in NUMBERS.items()
    ]
    pairs = [("ap", "eu"), ("ap", "us"), ("eu", "us")]
    links = [LinkConfig(ends, 1_000 * sum(delays_ms[site] for site in ends), protocol, link) for ends in pairs]
    return Config("lab", tuple(sites), tuple(links))


def steady_config() -> Config:
    """The same with a much longer silence limit."""
    return make_config(ring=STEADY_RING, link=STEADY_LINK)


def address(place: str) -> str:
    """The address of a site or a host, as `ip rule` takes it."""
    if place in NUMBERS:
        return f"10.81.{NUMBERS[place]}.0/24"
    return f"10.81.{NUMBERS[place[:-1]]}.{place[-1]}/32"


class ThreeSites:
    """The hosts and the links between them."""

    def __init__(self, lab: Lab, delays_ms: Mapping[str, int] = EVEN_MS, loss: float = 0.0) -> None:
        self.lab = lab
        self._delays_ms = delays_ms
        self._wans: dict[str, Wan] = {}
        self._rules: list[str] = []
        lab.host("core", forwarding=True)
        for site, number in NUMBERS.items():
            hosts = [f"{site}1", f"{site}2"]
            lab.host(*hosts)
            lab.host(site, forwarding=True)
            addresses = {host: [f"10.81.{number}.{host[-1]}/24"] for host in hosts}
            lab.switch(f"sw{site}", {**addresses, site: [f"10.81.{number}.254/24"]})
            away = Shape(delay_us=delays_ms[site] * 1_000, loss=loss)
            back = Shape(delay_us=delays_ms[site] * 1_000)
            near, far = f"10.82.{number}.1/24", f"10.82.{number}.2/24"
            self._wans[site] = lab.wan((site, "wan0", near), ("core", f"to{site}", far), away, back)
            for host in (*hosts, site):
                lab.ip(host, "link", "set", "eth0", "up")
            for host in hosts:
                lab.ip(host, "route", "add", "default", "via", f"10.81.{number}.254")
            lab.ip(site, "route", "add", "default", "via", f"10.82.{number}.2")
            lab.ip("core", "route", "add", f"10.81.{number}.0/24", "via", f"10.82.{number}.1")

    # Reachability.

    def block(self, *ways: tuple[str, str]) -> None:
        """Drops all packets from the first to the second of each pair of sites or hosts in different sites."""
        rules = [f"from {address(source)} to {address(target)} blackhole" for source, target in ways]
        self.lab.batch("core", [f"rule add {rule}" for rule in rules])
        self._rules += rules

    def cut(self, one: str, other: str) -> None:
        """Cuts both directions between two sites or hosts."""
        self.block((one, other), (other, one))

    def part(self, *side: str) -> None:
        """Separates these hosts from the others; inside a site the switch does it."""
        ways = [(one, other) for one in side for other in HOSTS if other not in side]
        far = [way for way in ways if way[0][:-1] != way[1][:-1]]
        for site in {one[:-1] for one, other in ways if one[:-1] == other[:-1]}:
            self._isolate(site, "on")
        self.block(*far, *[(other, one) for one, other in far])

    def heal(self) -> None:
        """Removes all cuts, between sites and inside them."""
        self.lab.batch("core", [f"rule del {rule}" for rule in self._rules])
        self._rules = []
        for site in SITES:
            self._isolate(site, "off")

    def _isolate(self, site: str, how: str) -> None:
        ports = [f"link set {port} type bridge_slave isolated {how}" for port in ("p0", "p1")]
        self.lab.batch(f"sw{site}", ports)

    # Quality of links.

    def shape(self, **arguments: float) -> None:
        """Applies these fields of a shape to all outputs of sites, besides their delay.

        Without any, resets them.
        """
        for site, wan in self._wans.items():
            delay_us = self._delays_ms[site] * 1_000
            away = Shape(**{"delay_us": delay_us, **arguments})  # type: ignore[arg-type]
            wan.shape(away, Shape(delay_us=delay_us))

    def reset(self) -> None:
        """Removes all cuts and resets all shapes."""
        self.heal()
        self.shape()


@contextmanager
def everybody(
    lab: Lab, directory: Path, config: Config, module: str = "tests.hopd.hopd_with_load"
) -> Iterator[DaemonProcesses]:
    """Runs all daemons and waits for a view of all of them."""

    def around(name: str) -> list[str]:
        return ["ip", "netns", "exec", lab.namespace(name)]

    with DaemonProcesses(config, directory, around, module) as daemons:
        daemons.start()
        daemons.wait(daemons.together)
        yield daemons
