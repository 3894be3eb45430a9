"""Builds a configuration: each part is checked against the earlier ones, then the whole.

All sources go through here: the TOML file, a spread.conf, and local clusters.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, NamedTuple, NoReturn

from hopring.config.error import ConfigError
from hopring.config.model import (
    WEIGHT_DEFAULT,
    WEIGHT_MAX,
    Config,
    Daemon,
    LinkConfig,
    LinkProtocol,
    MulticastConfig,
    RingTuning,
    Site,
    Weights,
)
from hopring.config.units import DURATION
from hopring.ids import DAEMONS_MAX, SITES_MAX

NAME_BYTES_MAX: Final = 32
SPREAD_NAME_BYTES_MAX: Final = 19
"""Of a daemon that Spread clients connect to: with a user of 10 bytes and two signs, that makes 31."""

NAME_REMEDY: Final = f"use at most {NAME_BYTES_MAX} of a-z, A-Z, 0-9, '-', '_', '.', and no sign at the start"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


BASE_PORT_DEFAULT: Final = 14_800
_LOOPBACK: Final = "127.0.0.1"


def is_name(text: str) -> bool:
    """Whether a cluster, a site or a daemon may be called this."""
    return len(text) <= NAME_BYTES_MAX and _NAME.fullmatch(text) is not None


class ConfigPlace(NamedTuple):
    """The position of a part in its source."""

    where: str
    line: int | None = None


@dataclass(slots=True)
class _SiteDraft:
    place: ConfigPlace
    multicast: MulticastConfig | None
    ring: RingTuning
    daemons: list[Daemon] = field(default_factory=list)


@dataclass(slots=True)
class ConfigBuilder:
    """Collects the parts; `finish` makes the configuration."""

    file: str
    cluster: str = "hopring"
    mesh: bool = True
    default_weight: int = WEIGHT_DEFAULT
    default_protocol: LinkProtocol = LinkProtocol.HOP
    weights: Weights = Weights.FIXED
    _sites: dict[str, _SiteDraft] = field(default_factory=dict)
    _links: dict[tuple[str, str], LinkConfig] = field(default_factory=dict)
    _daemons: dict[str, ConfigPlace] = field(default_factory=dict)
    _taken: dict[tuple[str, str, int], ConfigPlace] = field(default_factory=dict)
    _sample: IPv4Address | IPv6Address | None = None  # The first address; all others are of its family.

    def refuse(self, place: ConfigPlace, problem: str, remedy: str) -> NoReturn:
        """Raises the error for a part."""
        raise ConfigError(self.file, place.where, problem, remedy, place.line)

    def check_name(self, place: ConfigPlace, name: str) -> str:
        """The name, if it is a valid one."""
        if not is_name(name):
            self.refuse(place, f"{name!r:.60} is not a name", NAME_REMEDY)
        return name

    def check_address(self, place: ConfigPlace, text: str) -> str:
        """The address of a daemon in its usual spelling."""
        address = self._ip(place, text)
        if address.is_multicast or address.is_unspecified:
            self.refuse(
                place, f"{text} is not the address of a host", "give the address that others reach it by"
            )
        return str(address)

    def check_group(self, place: ConfigPlace, text: str) -> str:
        """The address of a multicast group in its usual spelling."""
        address = self._ip(place, text)
        if not address.is_multicast:
            self.refuse(place, f"{text} is not a multicast group", "choose one in 239.0.0.0/8 or ff15::/16")
        return str(address)

    def add_site(
        self,
        place: ConfigPlace,
        name: str,
        multicast: MulticastConfig | None = None,
        ring: RingTuning | None = None,
    ) -> None:
        """Adds a site without daemons."""
        self.check_name(place, name)
        if name in self._sites:
            taken = self._sites[name].place.where
            self.refuse(place, f"site {name} exists already at {taken}", "give it another name")
        if len(self._sites) == SITES_MAX:
            self.refuse(place, f"more than {SITES_MAX} sites", "merge sites, or make two clusters")
        if multicast is not None:
            self._take(place, "multicast group", multicast.group, multicast.port)
        self._sites[name] = _SiteDraft(place, multicast, ring or RingTuning())

    def add_daemon(self, place: ConfigPlace, site: str, daemon: Daemon) -> None:
        """Adds a daemon to a site."""
        self.check_name(place, daemon.name)
        if daemon.name in self._daemons:
            taken = self._daemons[daemon.name].where
            self.refuse(place, f"daemon {daemon.name} exists already at {taken}", "give it another name")
        if len(self._daemons) == DAEMONS_MAX:
            self.refuse(place, f"more than {DAEMONS_MAX} daemons", "make two clusters")
        self._take(place, "address", daemon.address, daemon.port)
        if daemon.client_port is not None:
            self._take(place, "client address", daemon.address, daemon.client_port)
        if daemon.spread_port is not None:
            self._check_spread(place, daemon)
            self._take(place, "client address", daemon.address, daemon.spread_port)
        if daemon.tls_port is not None:
            self._take(place, "client address", daemon.address, daemon.tls_port)
        self._daemons[daemon.name] = place
        self._sites[site].daemons.append(daemon)

    def _check_spread(self, place: ConfigPlace, daemon: Daemon) -> None:
        if len(daemon.name) > SPREAD_NAME_BYTES_MAX:
            problem = f"Spread clients cannot spell {daemon.name}"
            self.refuse(
                place, problem, f"give it a name of at most {SPREAD_NAME_BYTES_MAX} bytes, or no spread_port"
            )

    def add_link(self, place: ConfigPlace, link: LinkConfig) -> None:
        """Adds a link between two sites."""
        for name in link.sites:
            if name not in self._sites:
                known = ", ".join(sorted(self._sites))
                self.refuse(place, f"there is no site {name!r:.60}", f"choose two of: {known}")
        if link.sites[0] == link.sites[1]:
            self.refuse(place, f"a link from {link.sites[0]} to itself", "name two different sites")
        one, other = sorted(link.sites)
        if (one, other) in self._links:
            self.refuse(place, f"{one} and {other} are linked already", "keep one of the two entries")
        self._links[one, other] = LinkConfig((one, other), link.weight, link.protocol, link.tuning)

    def finish(self) -> Config:
        """The configuration, if the parts are complete and consistent."""
        if not self._sites:
            self.refuse(ConfigPlace(""), "there are no sites", "describe at least one, with one daemon")
        for name, site in self._sites.items():
            if not site.daemons:
                self.refuse(site.place, f"site {name} has no daemons", "add one, or remove the site")
        config = Config(
            cluster=self.cluster,
            sites=tuple([self._site(name) for name in sorted(self._sites)]),
            links=tuple([self._links[ends] for ends in sorted(self._links)]),
            mesh=self.mesh,
            default_weight=self.default_weight,
            default_protocol=self.default_protocol,
            weights=self.weights,
            listed=tuple(self._daemons),
        )
        self._check_reach(config)
        self._check_tcp_ports(config)
        return config

    def _site(self, name: str) -> Site:
        builder = self._sites[name]
        daemons = tuple(sorted(builder.daemons, key=lambda daemon: daemon.name))
        return Site(name, daemons, builder.multicast, builder.ring)

    def _ip(self, place: ConfigPlace, text: str) -> IPv4Address | IPv6Address:
        try:
            address = ip_address(text)
        except ValueError:
            self.refuse(place, f"{text!r:.60} is not an IP address", "write one as 10.0.0.1 or 2001:db8::1")
        if "%" in text:
            self.refuse(place, f"{text:.60} has a zone", "give an address that means the same on every host")
        # Every daemon has one address and every site has to reach every other: one family must do.
        self._sample = self._sample or address
        if address.version != self._sample.version:
            self.refuse(
                place,
                f"{text} is IPv{address.version}, but {self._sample} is IPv{self._sample.version}",
                "use one of the two everywhere",
            )
        return address

    def _take(self, place: ConfigPlace, kind: str, address: str, port: int) -> None:
        taken = self._taken.get((kind, address, port))
        if taken is not None:
            self.refuse(
                place, f"{kind} {address} port {port} is in use at {taken.where}", "change one of the two"
            )
        self._taken[kind, address, port] = place

    def _check_reach(self, config: Config) -> None:
        near: dict[str, list[str]] = {site.name: [] for site in config.sites}
        for one, other in [link.sites for link in config.all_links]:
            near[one].append(other)
            near[other].append(one)
        first = config.sites[0].name
        reached, new = {first}, [first]
        while new:
            new = sorted({name for site in new for name in near[site]} - reached)
            reached.update(new)
        for name in near:
            if name not in reached:
                remedy = "add [[links]] that join them, or set mesh = true"
                self.refuse(self._sites[name].place, f"no links lead from {first} to {name}", remedy)

    def _check_tcp_ports(self, config: Config) -> None:
        linked = {name for link in config.all_links if link.protocol is LinkProtocol.TCP for name in link.sites}
        for daemon in [daemon for name in sorted(linked) for daemon in self._sites[name].daemons]:
            taken = self._taken.get(("client address", daemon.address, daemon.port))
            if taken is not None:
                problem = f"the tcp links of {daemon.name} and clients would share port {daemon.port}"
                self.refuse(taken, problem, "choose another client_port or tls_port")


def ports_per_daemon(spread: bool) -> int:
    """One for daemons, one for clients, and one for Spread clients if these are served."""
    return 3 if spread else 2


def local_config(
    sites: Mapping[str, int],
    links: Mapping[tuple[str, str], int | str] | None = None,
    base_port: int = BASE_PORT_DEFAULT,
    *,
    cluster: str = "local",
    protocol: LinkProtocol = LinkProtocol.HOP,
    mesh: bool = True,
    spread: bool = False,
) -> Config:
    """A cluster on 127.0.0.1 with daemons named eu1, eu2 and so on, and weights for some links.

    A weight is a number, or a duration such as "40ms". Each daemon has two ports, from `base_port` on: one for
    other daemons and the next for clients; a third is for Spread clients if these are served.
    """
    builder = ConfigBuilder("local cluster", cluster=cluster, default_protocol=protocol, mesh=mesh)
    builder.check_name(ConfigPlace("cluster"), cluster)
    port = base_port
    for site, count in sites.items():
        builder.add_site(ConfigPlace(f"sites.{site}"), site)
        for number in range(1, count + 1):
            place = ConfigPlace(f"sites.{site}.daemons[{number - 1}]")
            if not 1 <= port <= 65_536 - ports_per_daemon(spread):
                builder.refuse(place, f"{port} and the next are not ports", "choose a lower base_port")
            daemon = Daemon(f"{site}{number}", _LOOPBACK, port, port + 1, port + 2 if spread else None)
            builder.add_daemon(place, site, daemon)
            port += ports_per_daemon(spread)
    for ends, weight in (links or {}).items():
        place = ConfigPlace(f"links[{ends[0]}, {ends[1]}]")
        builder.add_link(place, LinkConfig(ends, _weight(builder, place, weight), protocol))
    return builder.finish()


def _weight(builder: ConfigBuilder, place: ConfigPlace, weight: int | str) -> int:
    try:
        value = DURATION.read(weight) if isinstance(weight, str) else weight
    except ValueError as wrong:
        builder.refuse(place, f"{weight!r} {wrong}", f'write it as "{DURATION.example}"')
    if not 1 <= value <= WEIGHT_MAX:
        builder.refuse(place, f"{weight} is not a weight", f"choose 1 to {WEIGHT_MAX}")
    return value
