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

# One way from each site to the core.
EVEN_MS = dict.fromkeys(SITES, 15)

# Three emulators and six daemons on what may be two cores: nobody is declared dead for being slow.
RING = RingTuning(token_loss_us=1_500_000)
LINK = LinkTuning(silence_us=2_500_000)

# Where a view that nobody asked for would be a failure, even longer.
STEADY_RING = RingTuning(token_loss_us=8_000_000)
STEADY_LINK = LinkTuning(silence_us=8_000_000)


def make_config(
    delays_ms: Mapping[str, int] = EVEN_MS,
    protocol: LinkProtocol = LinkProtocol.HOP,
    ring: RingTuning = RING,
    link: LinkTuning = LINK,
) -> Config:
    """A daemon on each host; multicast in eu, and datagrams to each other in the other sites."""
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
    """The same, and a daemon has to be silent for long before it is given up."""
    return make_config(ring=STEADY_RING, link=STEADY_LINK)


def address(place: str) -> str:
    """What routes call a site or a host."""
    if place in NUMBERS:
        return f"10.81.{NUMBERS[place]}.0/24"
    return f"10.81.{NUMBERS[place[:-1]]}.{place[-1]}/32"


class ThreeSites:
    """The hosts and the ways between them."""

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

    # Who reaches whom.

    def block(self, *ways: tuple[str, str]) -> None:
        """What is sent from the first to the second place of each way is lost: sites or hosts, of two sites."""
        rules = [f"from {address(source)} to {address(target)} blackhole" for source, target in ways]
        self.lab.batch("core", [f"rule add {rule}" for rule in rules])
        self._rules += rules

    def cut(self, one: str, other: str) -> None:
        """Neither reaches the other."""
        self.block((one, other), (other, one))

    def part(self, *side: str) -> None:
        """Nothing passes between these hosts and the others; the switch keeps apart who is in one site."""
        ways = [(one, other) for one in side for other in HOSTS if other not in side]
        far = [way for way in ways if way[0][:-1] != way[1][:-1]]
        for site in {one[:-1] for one, other in ways if one[:-1] == other[:-1]}:
            self._isolate(site, "on")
        self.block(*far, *[(other, one) for one, other in far])

    def heal(self) -> None:
        """Everybody reaches everybody."""
        self.lab.batch("core", [f"rule del {rule}" for rule in self._rules])
        self._rules = []
        for site in SITES:
            self._isolate(site, "off")

    def _isolate(self, site: str, how: str) -> None:
        ports = [f"link set {port} type bridge_slave isolated {how}" for port in ("p0", "p1")]
        self.lab.batch(f"sw{site}", ports)

    # How ways are.

    def shape(self, **arguments: float) -> None:
        """All ways out of sites have these of a shape's fields, beside their delay; none is as at first."""
        for site, wan in self._wans.items():
            delay_us = self._delays_ms[site] * 1_000
            away = Shape(**{"delay_us": delay_us, **arguments})  # type: ignore[arg-type]
            wan.shape(away, Shape(delay_us=delay_us))

    def reset(self) -> None:
        """As at first."""
        self.heal()
        self.shape()


@contextmanager
def everybody(
    lab: Lab, directory: Path, config: Config, module: str = "tests.hopd.hopd_with_load"
) -> Iterator[DaemonProcesses]:
    """All daemons, in one view."""

    def around(name: str) -> list[str]:
        return ["ip", "netns", "exec", lab.namespace(name)]

    with DaemonProcesses(config, directory, around, module) as daemons:
        daemons.start()
        daemons.wait(daemons.together)
        yield daemons
