"""A configuration as TOML text that reads as the same configuration, and as a 32-bit hash."""

import json
from hashlib import sha256

from hopring.config.model import (
    AdminTuning,
    ClientTuning,
    Config,
    Daemon,
    LinkConfig,
    LogTuning,
    MulticastConfig,
    Site,
)
from hopring.config.settings import (
    CLIENT_SETTINGS,
    LINK_SETTINGS,
    LOG_SETTINGS,
    MEMBERSHIP_SETTINGS,
    RING_SETTINGS,
    WINDOW_DEFAULTS,
    TuningKey,
    quote_key,
)


def dump_toml(config: Config) -> str:
    """The configuration as TOML. Names and addresses need no escapes: their alphabet has none."""
    lines = [
        f'cluster = "{config.cluster}"',
        f'weights = "{config.weights}"',
        f"mesh = {str(config.mesh).lower()}",
        f"default_weight = {config.default_weight}",
        f'default_protocol = "{config.default_protocol}"',
    ]
    if membership := _settings(config.membership.given(), MEMBERSHIP_SETTINGS):
        lines += ["", "[membership]", *membership]
    if clients := _clients(config.clients):
        lines += ["", "[clients]", *clients]
    if config.log != LogTuning():
        lines += ["", "[log]", *_log(config.log)]
    if config.admin != AdminTuning():
        lines += ["", "[admin]", *_admin(config.admin)]
    place = {config.daemons[number].name: at for at, number in enumerate(config.order)}
    for site in sorted(config.sites, key=lambda site: min([place[one.name] for one in site.daemons])):
        lines += _site(site, place)
    for link in config.links:
        lines += _link(link)
    return "\n".join(lines) + "\n"


def _clients(clients: ClientTuning) -> list[str]:
    lines = _settings(clients.given(), CLIENT_SETTINGS)
    if clients.spread_slow is not None:
        lines.append(f'spread_slow = "{clients.spread_slow}"')
    if clients.spread_access is not None:
        networks = ", ".join([f'"{one}"' for one in clients.spread_access])
        lines.append(f"spread_access = [{networks}]")
    return lines


def _log(log: LogTuning) -> list[str]:
    given = {"burst_lines": log.burst_lines, "every_us": log.every_us}
    return [
        f'format = "{log.format}"',
        f'level = "{log.level}"',
        *_settings({field: value for field, value in given.items() if value is not None}, LOG_SETTINGS),
    ]


def _admin(admin: AdminTuning) -> list[str]:
    socket = "off" if admin.socket is None else admin.socket
    allowed = ", ".join([f'"{verb}"' for verb in admin.allow])
    return [f'socket = "{socket}"', f'mode = "{admin.mode:04o}"', f"allow = [{allowed}]"]


def _site(site: Site, place: dict[str, int]) -> list[str]:
    key = quote_key(site.name)
    lines = ["", f"[sites.{key}]"]
    if site.multicast is not None:
        ttl = f", ttl = {site.multicast.ttl}" if site.multicast.ttl != 1 else ""
        lines.append(f'multicast = {{ group = "{site.multicast.group}", port = {site.multicast.port}{ttl} }}')
    if ring := _settings(site.ring.given(), RING_SETTINGS):
        lines.append(f"ring = {{ {', '.join(ring)} }}")
    for daemon in sorted(site.daemons, key=lambda one: place[one.name]):
        lines += _daemon(key, daemon)
    return lines


def _daemon(site_key: str, daemon: Daemon) -> list[str]:
    lines = [
        "",
        f"[[sites.{site_key}.daemons]]",
        f'name = "{daemon.name}"',
        f'address = "{daemon.address}"',
        f"port = {daemon.port}",
    ]
    ports = {"client_port": daemon.client_port, "spread_port": daemon.spread_port}
    return lines + [f"{key} = {port}" for key, port in ports.items() if port is not None]


def _link(link: LinkConfig) -> list[str]:
    one, other = link.sites
    return [
        "",
        "[[links]]",
        f'between = ["{one}", "{other}"]',
        f"weight = {link.weight}",
        f'protocol = "{link.protocol}"',
        *_settings(link.tuning.given(), LINK_SETTINGS),
    ]


def _settings(given: dict[str, int], settings: tuple[TuningKey, ...]) -> list[str]:
    return [f"{one.key} = {one.write(given[one.field])}" for one in settings if one.field in given]


def cluster_hash(config: Config) -> int:
    """The 32-bit hash in the header of every datagram."""
    shared: dict[str, object] = {
        "cluster": config.cluster,
        "weights": config.weights,
        "sites": [[site.name, _group(site.multicast), site.ring.segment_bytes] for site in config.sites],
        "daemons": [[daemon.name, daemon.address, daemon.port] for daemon in config.daemons],
        "site_of": config.site_of,
        "links": [[link.sites, link.weight, link.protocol] for link in config.all_links],
    }
    given = config.membership.given()
    window = {key: given[key] for key, default in WINDOW_DEFAULTS.items() if given.get(key, default) != default}
    shared |= {"window": window} if window else {}
    text = json.dumps(shared, sort_keys=True, separators=(",", ":"))
    return int.from_bytes(sha256(text.encode()).digest()[:4], "big")


def _group(multicast: MulticastConfig | None) -> list[str | int]:
    if multicast is None:
        return []
    # A TTL of 1 is left out, so that the hash is that of versions that knew no other.
    return [multicast.group, multicast.port, *([multicast.ttl] if multicast.ttl != 1 else [])]
