"""A cluster on this one machine, for trying things out."""

from collections.abc import Mapping
from typing import Final

from hopring.config.draft import Draft, Place
from hopring.config.model import WEIGHT_MAX, Config, Daemon, Link, LinkProtocol
from hopring.config.units import DURATION

BASE_PORT_DEFAULT: Final = 14_800
_LOOPBACK: Final = "127.0.0.1"


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
    """So many daemons per site on 127.0.0.1, named eu1, eu2 and so on, and the weights of some links.

    A weight is a number, or a duration such as "40ms". Each daemon has two ports, from `base_port` on: one for
    other daemons, the next for clients; and a third for Spread clients if these are to be served.
    """
    draft = Draft("local cluster", cluster=cluster, default_protocol=protocol, mesh=mesh)
    draft.check_name(Place("cluster"), cluster)
    port = base_port
    for site, count in sites.items():
        draft.add_site(Place(f"sites.{site}"), site)
        for number in range(1, count + 1):
            place = Place(f"sites.{site}.daemons[{number - 1}]")
            if not 1 <= port <= 65_536 - ports_per_daemon(spread):
                draft.refuse(place, f"{port} and the next are not ports", "choose a lower base_port")
            daemon = Daemon(f"{site}{number}", _LOOPBACK, port, port + 1, port + 2 if spread else None)
            draft.add_daemon(place, site, daemon)
            port += ports_per_daemon(spread)
    for ends, weight in (links or {}).items():
        place = Place(f"links[{ends[0]}, {ends[1]}]")
        draft.add_link(place, Link(ends, _weight(draft, place, weight), protocol))
    return draft.finish()


def _weight(draft: Draft, place: Place, weight: int | str) -> int:
    try:
        value = DURATION.read(weight) if isinstance(weight, str) else weight
    except ValueError as wrong:
        draft.refuse(place, f"{weight!r} {wrong}", f'write it as "{DURATION.example}"')
    if not 1 <= value <= WEIGHT_MAX:
        draft.refuse(place, f"{weight} is not a weight", f"choose 1 to {WEIGHT_MAX}")
    return value
