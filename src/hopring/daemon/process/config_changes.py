"""Differences of two configurations for one daemon: applied at once, by a view change, or by a restart."""

from dataclasses import dataclass, fields, replace
from typing import Final

from hopring.config import (
    ClientTuning,
    Config,
    LinkTuning,
    LogTuning,
    MembershipTuning,
    RingTuning,
    cluster_hash,
)
from hopring.config.settings import (
    CLIENT_SETTINGS,
    LINK_SETTINGS,
    LOG_SETTINGS,
    MEMBERSHIP_SETTINGS,
    RING_SETTINGS,
    TuningKey,
)
from hopring.session.options import SessionOptions

AT_START: Final = frozenset({"window_bytes"})
"""Options that clients get in WELCOME; they apply from the next start."""


Tuning = LinkTuning | RingTuning | MembershipTuning | ClientTuning | LogTuning


@dataclass(frozen=True, slots=True)
class ConfigChanges:
    """The keys that differ in two configurations, as the file spells them."""

    live: tuple[str, ...]
    rebuild: tuple[str, ...]  # The daemon has to leave its view and begin another one.
    restart: tuple[str, ...]


def changes(old: Config, new: Config, name: str) -> ConfigChanges:
    """The changes for the daemon of this name, which is in both configurations."""
    clients = _tuned("clients", old.clients, new.clients, CLIENT_SETTINGS)
    live = [key for key in clients if key != "clients.window"]
    others = "allow", "spread_slow", "spread_access", "spread_identity"
    live += [f"clients.{key}" for key in others if getattr(old.clients, key) != getattr(new.clients, key)]
    live += [f"log.{key}" for key in ("format", "level") if getattr(old.log, key) != getattr(new.log, key)]
    live += _tuned("log", old.log, new.log, LOG_SETTINGS)
    live += [key for key in ("users", "grants") if getattr(old, key) != getattr(new, key)]
    live += ["admin.allow"] if old.admin.allow != new.admin.allow else []
    restart = [key for key in clients if key == "clients.window"]
    restart += [
        f"admin.{key}" for key in ("socket", "mode") if getattr(old.admin, key) != getattr(new.admin, key)
    ]
    live += ["security.revoked"] if old.security.revoked != new.security.revoked else []
    restart += ["security"] if replace(old.security, revoked=new.security.revoked) != new.security else []
    restart += ["spool"] if old.spool != new.spool else []
    rebuild = _shared(old, new) + _tunings(old, new)
    ours = old.daemons[old.daemon_id(name)], new.daemons[new.daemon_id(name)]
    ports = "client_port", "spread_port", "tls_port"
    restart += [f"{name}.{port}" for port in ports if getattr(ours[0], port) != getattr(ours[1], port)]
    if old.cluster != new.cluster or (ours[0].address, ours[0].port) != (ours[1].address, ours[1].port):
        # Its files are named after the cluster, and its clients know its address.
        restart, rebuild = restart + rebuild, []
    return ConfigChanges(tuple(live), tuple(rebuild), tuple(restart))


def _tunings(old: Config, new: Config) -> list[str]:
    """Tuning of rings and links that were there before, and of membership."""
    found: list[str] = []
    rings = {site.name: site.ring for site in old.sites}
    for site in new.sites:
        found += _tuned(f"sites.{site.name}.ring", rings.get(site.name, site.ring), site.ring, RING_SETTINGS)
    links = {link.sites: link.tuning for link in old.all_links}
    for link in new.all_links:
        where = f"links.{'-'.join(link.sites)}"
        found += _tuned(where, links.get(link.sites, link.tuning), link.tuning, LINK_SETTINGS)
    return found + _tuned("membership", old.membership, new.membership, MEMBERSHIP_SETTINGS)


def tuned_sessions(options: SessionOptions, clients: ClientTuning) -> SessionOptions:
    """The options of sessions by this configuration; options that it does not give have their defaults."""
    default = SessionOptions()
    values = {one.name: getattr(default, one.name) for one in fields(clients)} | clients.given()
    return replace(options, **{key: value for key, value in values.items() if key not in AT_START})


def _shared(old: Config, new: Config) -> list[str]:
    """Changes of parts that the cluster hash covers, by their keys in the file."""
    if cluster_hash(old) == cluster_hash(new):
        return []
    parts = {
        "cluster": (old.cluster, new.cluster),
        "weights": (old.weights, new.weights),
        "sites": (
            [(site.name, site.multicast) for site in old.sites],
            [(site.name, site.multicast) for site in new.sites],
        ),
        "daemons": (_placed(old), _placed(new)),
        "votes": (_votes(old), _votes(new)),
        "tie_site": (old.tie_site, new.tie_site),
        "links": (
            [(link.sites, link.weight, link.protocol) for link in old.all_links],
            [(link.sites, link.weight, link.protocol) for link in new.all_links],
        ),
    }
    return [key for key, (before, after) in parts.items() if before != after]


def _placed(config: Config) -> list[tuple[str, str, int, str]]:
    """All daemons with address and site; one may move to another site and keep its address."""
    return [(one.name, one.address, one.port, site.name) for site in config.sites for one in site.daemons]


def _votes(config: Config) -> dict[str, int]:
    return {one.name: one.votes for one in config.daemons if one.votes != 1}


def _tuned(
    where: str,
    old: Tuning,
    new: Tuning,
    settings: tuple[TuningKey, ...],
) -> list[str]:
    return [f"{where}.{one.key}" for one in settings if getattr(old, one.field) != getattr(new, one.field)]
