"""The plan of a local cluster: its configuration, and names of sites and daemons."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from itertools import combinations
from pathlib import Path
from typing import Any, Final

from hopring.config import ClientRight, ClientTuning, Config, LinkProtocol, LinkTuning, RingTuning, local_config
from hopring.config.builder import ports_per_daemon
from hopring.config.units import DURATION
from hopring.local.ports import free_base_port

SITES_DEFAULT: Final[Mapping[str, int]] = {"local": 3}
PATIENCE_DEFAULT: Final = "2s"
PATIENCE_US_MIN: Final = 500_000
_NEAR: Final = 1_000  # The weight of links without a given delay.

Names = str | Collection[str]
"""A site, a daemon, or several of both."""

Links = Mapping[tuple[str, str], str]
"""The delay of packets between two sites, such as "40ms", by pair of sites."""


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """The options of a cluster; `config` turns them into a configuration on ports that are free then."""

    sites: Mapping[str, int] = field(default_factory=lambda: SITES_DEFAULT)
    links: Links = field(default_factory=dict)
    patience: str = PATIENCE_DEFAULT
    protocol: LinkProtocol = LinkProtocol.HOP
    cluster: str = "local"
    client_port: int | None = None  # Of the first daemon.
    spread: bool | int = False  # Whether Spread clients are served; a number is the port of the first daemon.
    allow: tuple[ClientRight, ...] = ()  # Of clients.
    spool: tuple[str, ...] = ()  # Groups, and patterns of them, that the first daemon of each site spools.
    keys: Path | None = None  # A directory of `hop keys`; without it the cluster has keys of its own.

    @property
    def wished_ports(self) -> dict[str, int]:
        """The ports requested for the first daemon, by configuration key."""
        wished = {} if self.client_port is None else {"client_port": self.client_port}
        return wished if isinstance(self.spread, bool) else wished | {"spread_port": self.spread}

    @property
    def ports(self) -> int:
        """How many consecutive ports the daemons need."""
        return sum(self.sites.values()) * ports_per_daemon(self.spread is not False)

    def config(self, base_port: int | None = None) -> Config:
        """The configuration; ConfigError or ValueError says what is wrong with the options."""
        patience_us = read_duration(self.patience)
        if patience_us < PATIENCE_US_MIN:
            raise ValueError(f"patience {self.patience!r} is too short; choose at least 500ms")
        weights: dict[tuple[str, str], int | str] = {
            (min(pair), max(pair)): _NEAR for pair in combinations(self.sites, 2)
        }
        for pair, delay in self.links.items():
            weights[min(pair), max(pair)] = max(_NEAR, read_duration(delay))
        base_port = free_base_port(self.ports) if base_port is None else base_port
        config = local_config(
            self.sites,
            weights,
            base_port,
            cluster=self.cluster,
            protocol=self.protocol,
            spread=self.spread is not False,
        )
        # On a busy machine a process may not run for a while; that should not look like its end.
        ring, link = RingTuning(token_loss_us=patience_us), LinkTuning(silence_us=patience_us)
        return replace(
            config,
            sites=tuple([replace(site, ring=ring) for site in config.sites]),
            links=tuple([replace(one, tuning=link) for one in config.links]),
            clients=ClientTuning(allow=self.allow or None),
        )


def with_ports(config: Config, name: str, **ports: Any) -> Config:
    """The configuration with other client ports for one daemon: `client_port`, `spread_port`."""
    sites = []
    for site in config.sites:
        daemons = [replace(one, **ports) if one.name == name else one for one in site.daemons]
        sites.append(replace(site, daemons=tuple(daemons)))
    return replace(config, sites=tuple(sites))


def daemons_of(config: Config, names: Names) -> list[str]:
    """The daemons of these sites and names, sorted; ValueError if one is unknown."""
    sites = {site.name: [daemon.name for daemon in site.daemons] for site in config.sites}
    known = [*sites, *[daemon.name for daemon in config.daemons]]
    found: set[str] = set()
    for name in [names] if isinstance(names, str) else names:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            remedy = f"did you mean {close[0]}?" if close else f"choose of {', '.join(known)}"
            raise ValueError(f"there is no site or daemon {name}; {remedy}")
        found.update(sites.get(name, [name]))
    return sorted(found)


def sides_of(config: Config, sides: Iterable[Names]) -> list[frozenset[str]]:
    """The sides of a partition; daemons that are not named form one more."""
    parts: list[frozenset[str]] = []
    for names in sides:
        part = frozenset(daemons_of(config, names))
        for other in parts:
            if part & other:
                raise ValueError(f"{', '.join(sorted(part & other))} would be on two sides; name each once")
        parts.append(part)
    rest = frozenset([daemon.name for daemon in config.daemons]).difference(*parts)
    return [part for part in (*parts, rest) if part]


def read_duration(text: str) -> int:
    """Parses a duration, in microseconds; ValueError says what is wrong with it."""
    try:
        return DURATION.read(text)
    except ValueError as wrong:
        raise ValueError(f'{text!r} {wrong}; write it as "{DURATION.example}"') from None
