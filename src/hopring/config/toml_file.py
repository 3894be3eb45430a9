"""A configuration as TOML: reads and checks a file, and writes text that reads as the same configuration.

The reader is written by hand: a schema library would find the same mistakes, but its messages have neither the
line nor a remedy. The 32-bit hash of a configuration is computed here as well.
"""

import json
import re
import tomllib
from dataclasses import replace
from hashlib import sha256
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Final

from hopring.config.access import ANONYMOUS, is_user, read_grants, read_users, write_grants, write_users
from hopring.config.builder import ConfigBuilder, ConfigPlace
from hopring.config.error import ConfigError, find_line, read_limited
from hopring.config.model import (
    PORT_DEFAULT,
    VOTES_MAX,
    WEIGHT_DEFAULT,
    WEIGHT_MAX,
    AdminTuning,
    AdminVerb,
    ClientRight,
    ClientTuning,
    Config,
    Daemon,
    LinkConfig,
    LinkProtocol,
    LinkTuning,
    LogFormat,
    LogLevel,
    LogTuning,
    MembershipTuning,
    MulticastConfig,
    RingTuning,
    SecurityTuning,
    Site,
    SpreadSlow,
    Weights,
)
from hopring.config.settings import (
    CLIENT_SETTINGS,
    LINK_ORDER,
    LINK_SETTINGS,
    LOG_SETTINGS,
    MEMBERSHIP_ORDER,
    MEMBERSHIP_SETTINGS,
    RING_ORDER,
    RING_SETTINGS,
    WINDOW_DEFAULTS,
    ConfigTable,
    TuningKey,
    quote_key,
    show,
)
from hopring.config.spooling import read_spool, write_spool
from hopring.config.units import DURATION

CONFIG_DEPTH_MAX: Final = 16
"""Limit for brackets within brackets, and for the parts of a dotted key; a configuration has five at most.

Python's reader of TOML needs time and memory in proportion to the square of a key's parts: 50,000 took 10 s
and 3 GB.
"""

PORT_MAX: Final = 65_535
ADMIN_OFF: Final = "off"
ADMIN_ALL: Final = "all"
ADMIN_MODES: Final = ("0600", "0660")
"""Who may open the admin socket: the daemon's user, or its group too. The whole world is never an admin."""
TTL_MAX: Final = 255

_TOP: Final = (
    "cluster",
    "weights",
    "mesh",
    "default_weight",
    "default_protocol",
    "tie_site",
    "sites",
    "links",
    "membership",
    "clients",
    "log",
    "admin",
    "security",
    "spool",
    "users",
    "grants",
)
_DIGEST_PREFIX: Final = b"digest\n"
_SPREAD: Final = ("spread_slow", "spread_access", "spread_identity")
_SITE: Final = ("daemons", "multicast", "ring")
_DAEMON: Final = ("name", "address", "port", "client_port", "spread_port", "tls_port", "votes")
_LINK: Final = ("between", "weight", "protocol")
_TOML_LINE: Final = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")
_UNENDED: Final = ('"', "'", '"""', "'''")
_TOML_TOKEN: Final = re.compile(
    r'''"""(?:[^"\\]|\\.|"(?!""))*+"{3,5}|"""|"(?:[^"\\\n]|\\.)*+"|"|#[^\n]*|[\[\]{}=,.\n]'''
    r"""|'''(?:[^']|'(?!''))*+'{3,5}|'''|'[^'\n]*+'|'""",
    re.DOTALL,
)
"""The parts of a TOML file between which the depth can change: strings, comments and single signs."""
_DIGEST: Final = re.compile(r"[0-9a-fA-F]{64}")
_PLACEHOLDER: Final = re.compile(r"\{(?:name|cluster)\}")
_SOCKET_EXAMPLE: Final = 'socket = "/run/hopring/{name}.admin"'
_WEIGHT: Final = TuningKey("weight", "weight", DURATION, 1, WEIGHT_MAX)


def load_config(path: str | Path) -> Config:
    """The configuration in a file; ConfigError says what is wrong with it."""
    file = str(path)
    content = read_limited(file)
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(file, f"line {line}", "not UTF-8", "save the file as UTF-8", line) from None
    return parse_config(text, file)


def parse_config(text: str, file: str = "hop.toml") -> Config:
    """The configuration in a text; `file` is its name in errors."""
    values = parse_toml(text, file)
    try:
        return _read(ConfigTable(file, "", values))
    except ConfigError as error:
        raise error.on_line(find_line(text, error.where)) from None


def parse_toml(text: str, file: str) -> dict[str, Any]:
    """The values of a TOML file; ConfigError, with the line, if it is none."""
    _check_depth(text, file)
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ConfigError(file, "", "nested too deeply", "remove some brackets") from None
    except ValueError as error:
        found = _TOML_LINE.search(str(error))
        last = text.rstrip("\n").count("\n") + 1
        line = None if found is None else int(found[1] or last)
        problem = f"not valid TOML: {_TOML_LINE.sub('', str(error))}"
        where = "" if line is None else f"line {line}"
        raise ConfigError(file, where, problem, "correct the syntax (toml.io)", line) from None


def _check_depth(text: str, file: str) -> None:
    """Raises ConfigError if brackets or dotted keys are nested too deeply for the reader of TOML."""
    depth = parts = 0
    for found in _TOML_TOKEN.finditer(text):
        token = found[0]
        if token in _UNENDED:
            return  # A string without an end, at which the reader stops as well.
        if token == ".":
            parts += 1
        elif token in "[{":
            depth, parts = depth + 1, 0
        elif token in "]}":
            depth, parts = max(0, depth - 1), 0
        elif token in "=,\n" or token[0] == "#":
            parts = 0
        if max(depth, parts) > CONFIG_DEPTH_MAX:
            line = text.count("\n", 0, found.start()) + 1
            problem = f"nested more than {CONFIG_DEPTH_MAX} deep"
            remedy = "remove some brackets, or parts of the key"
            raise ConfigError(file, f"line {line}", problem, remedy, line)


def _read(top: ConfigTable) -> Config:
    top.allow(_TOP)
    builder = ConfigBuilder(
        top.file,
        cluster=top.text("cluster", "hopring"),
        mesh=top.flag("mesh", True),
        default_weight=_weight(top, "default_weight", WEIGHT_DEFAULT),
        default_protocol=top.choice("default_protocol", LinkProtocol.HOP),
        weights=top.choice("weights", Weights.FIXED),
    )
    builder.check_name(ConfigPlace("cluster"), builder.cluster)
    sites = top.table("sites")
    for name in sites.values:
        _read_site(builder, name, sites.table(name))
    if "grants" in top.values and "allow" in top.table("clients").values:
        remedy = "give the rights by slow and priority in [grants]"
        top.table("clients").refuse("allow", "beside [grants], which decide alone", remedy)
    for link in top.tables("links"):
        builder.add_link(ConfigPlace(link.path), _read_link(link, builder))
    tie_site = top.text("tie_site") if "tie_site" in top.values else None
    if tie_site is not None and tie_site not in sites.values:
        top.refuse("tie_site", f"there is no site {show(tie_site)}", "name one of [sites]")
    config = builder.finish()
    return replace(
        config,
        tie_site=tie_site,
        membership=_read_membership(top.table("membership")),
        clients=_read_clients(top.table("clients")),
        log=_read_log(top.table("log")),
        admin=_read_admin(top.table("admin")),
        security=_read_security(top.table("security")),
        spool=read_spool(top.table("spool"), tuple([daemon.name for daemon in config.daemons])),
        users=read_users(top.tables("users")),
        grants=read_grants(top.table("grants")) if "grants" in top.values else None,
    )


def _read_membership(table: ConfigTable) -> MembershipTuning:
    table.allow([setting.key for setting in MEMBERSHIP_SETTINGS])
    return MembershipTuning(**table.tuning(MEMBERSHIP_SETTINGS, MEMBERSHIP_ORDER))


def _read_clients(table: ConfigTable) -> ClientTuning:
    table.allow([*[setting.key for setting in CLIENT_SETTINGS], "allow", *_SPREAD])
    slow = table.choice("spread_slow", SpreadSlow.KICK) if "spread_slow" in table.values else None
    return ClientTuning(
        **table.tuning(CLIENT_SETTINGS, ()),
        allow=_client_rights(table),
        spread_slow=slow,
        spread_access=_networks(table, "spread_access"),
        spread_identity=_spread_identity(table),
    )


def _spread_identity(table: ConfigTable) -> str | None:
    if "spread_identity" not in table.values:
        return None
    name = table.text("spread_identity")
    if not is_user(name) and name != ANONYMOUS:
        table.refuse("spread_identity", f"{show(name)} is no identity", 'write spread_identity = "spread"')
    return name


def _client_rights(table: ConfigTable) -> tuple[ClientRight, ...] | None:
    if "allow" not in table.values:
        return None
    given, known = table.values["allow"], [right.value for right in ClientRight]
    for one in given if isinstance(given, list) else [given]:
        if not isinstance(given, list) or one not in known:
            problem = f"{show(one)} is not known" if isinstance(given, list) else f"{show(given)} is no list"
            table.refuse("allow", problem, 'write allow = ["block", "priority"], or one of them')
    return tuple([right for right in ClientRight if right.value in given])


def _networks(table: ConfigTable, key: str) -> tuple[str, ...] | None:
    if key not in table.values:
        return None
    given = table.values[key]
    if not isinstance(given, list):
        table.refuse(key, f"{show(given)} is no list", f'write {key} = ["10.0.0.0/8"]')
    for one in given:
        if not isinstance(one, str):
            table.refuse(key, f"{show(one)} is no network", f'write {key} = ["10.0.0.0/8"]')
    try:
        return tuple([str(ip_network(one)) for one in given])
    except ValueError as wrong:
        table.refuse(key, f"{wrong}", f'write {key} = ["10.0.0.0/8"]')


def _read_log(table: ConfigTable) -> LogTuning:
    table.allow(["format", "level", *[setting.key for setting in LOG_SETTINGS]])
    return LogTuning(
        table.choice("format", LogFormat.TEXT),
        table.choice("level", LogLevel.INFO),
        **table.tuning(LOG_SETTINGS, ()),
    )


def _read_admin(table: ConfigTable) -> AdminTuning:
    table.allow(("socket", "mode", "allow"))
    socket = table.text("socket", ADMIN_OFF)
    if socket != ADMIN_OFF and (not socket.startswith("/") or _PLACEHOLDER.sub("", socket).strip("/") == ""):
        table.refuse(
            "socket", f"{show(socket)} is no absolute path", f'write {_SOCKET_EXAMPLE}, or "{ADMIN_OFF}"'
        )
    if set(_PLACEHOLDER.sub("", socket)) & set('{}"\\') or not socket.isprintable():
        remedy = f"of what is in braces only {{name}} and {{cluster}} are known: {_SOCKET_EXAMPLE}"
        table.refuse("socket", f"{show(socket)} is no path of a socket", remedy)
    mode = table.text("mode", ADMIN_MODES[0])
    if mode not in ADMIN_MODES:
        table.refuse(
            "mode", f"{show(mode)} is not known", "choose " + " or ".join([f'"{m}"' for m in ADMIN_MODES])
        )
    return AdminTuning(None if socket == ADMIN_OFF else socket, int(mode, 8), _read_allow(table))


def _read_security(table: ConfigTable) -> SecurityTuning:
    table.allow(("keys", "insecure", "audit", "revoked"))
    keys = table.text("keys") if "keys" in table.values else None
    if keys is not None and (not keys or not keys.isprintable() or set(keys) & set('"\\')):
        table.refuse("keys", f"{show(keys)} is no directory", 'write keys = "keys", as `hop keys new` made it')
    insecure = table.flag("insecure", False)
    if insecure and keys is not None:
        table.refuse("insecure", "true beside keys", "remove one of the two")
    audit = table.text("audit") if "audit" in table.values else None
    if audit is not None and (not audit or not audit.isprintable() or set(audit) & set('"\\')):
        table.refuse("audit", f"{show(audit)} is no file", 'write audit = "audit.jsonl"')
    return SecurityTuning(keys, insecure, audit, _read_revoked(table))


def _read_revoked(table: ConfigTable) -> tuple[str, ...]:
    given = table.values.get("revoked", [])
    for one in given if isinstance(given, list) else [given]:
        if not isinstance(given, list) or not isinstance(one, str) or _DIGEST.fullmatch(one) is None:
            problem = f"{show(one)} is no " + ("SHA-256 digest" if isinstance(given, list) else "list")
            table.refuse("revoked", problem, "list the digests that `hop keys show` prints, of 64 hex digits")
    return tuple([one.lower() for one in given])


def _read_allow(table: ConfigTable) -> tuple[AdminVerb, ...]:
    given = table.values.get("allow", [])
    verbs = [verb.value for verb in AdminVerb]
    for one in given if isinstance(given, list) else [given]:
        if not isinstance(given, list) or one not in [*verbs, ADMIN_ALL]:
            known = ", ".join([f'"{verb}"' for verb in verbs])
            problem = f"{show(one)} is no verb" if isinstance(given, list) else f"{show(given)} is no list"
            table.refuse("allow", problem, f'choose of {known}, or write allow = ["{ADMIN_ALL}"]')
    return tuple([verb for verb in AdminVerb if verb.value in given or ADMIN_ALL in given])


def _read_site(builder: ConfigBuilder, name: str, table: ConfigTable) -> None:
    table.allow(_SITE)
    ring_table = table.table("ring")
    ring_table.allow([setting.key for setting in RING_SETTINGS])
    ring = RingTuning(**ring_table.tuning(RING_SETTINGS, RING_ORDER))
    builder.add_site(ConfigPlace(table.path), name, _read_multicast(builder, table), ring)
    for daemon in table.tables("daemons"):
        builder.add_daemon(ConfigPlace(daemon.path), name, _read_daemon(builder, daemon))


def _read_multicast(builder: ConfigBuilder, site: ConfigTable) -> MulticastConfig | None:
    if "multicast" not in site.values:
        return None
    table = site.table("multicast")
    table.allow(("group", "port", "ttl"))
    group = builder.check_group(ConfigPlace(table.path_of("group")), table.text("group"))
    ttl = table.number("ttl", "TTL", 1, TTL_MAX, default=1)
    return MulticastConfig(group, _port(table, "port") or PORT_DEFAULT, ttl or 1)


def _read_daemon(builder: ConfigBuilder, table: ConfigTable) -> Daemon:
    table.allow(_DAEMON)
    return Daemon(
        name=builder.check_name(ConfigPlace(table.path_of("name")), table.text("name")),
        address=builder.check_address(ConfigPlace(table.path_of("address")), table.text("address")),
        port=_port(table, "port") or PORT_DEFAULT,
        client_port=_port(table, "client_port"),
        spread_port=_port(table, "spread_port"),
        tls_port=_port(table, "tls_port"),
        votes=table.number("votes", "number of votes", 0, VOTES_MAX, default=1) or 0,
    )


def _read_link(table: ConfigTable, builder: ConfigBuilder) -> LinkConfig:
    table.allow([*_LINK, *[setting.key for setting in LINK_SETTINGS]])
    protocol = table.choice("protocol", builder.default_protocol)
    for setting in LINK_SETTINGS:
        if setting.key in table.values and protocol not in setting.protocols:
            table.refuse(setting.key, f"not for {protocol} links", 'remove it, or set protocol = "hop"')
    return LinkConfig(
        sites=_ends(table),
        weight=_weight(table, "weight", builder.default_weight),
        protocol=protocol,
        tuning=LinkTuning(**table.tuning(LINK_SETTINGS, LINK_ORDER)),
    )


def _ends(table: ConfigTable) -> tuple[str, str]:
    between = table.values.get("between")
    if not isinstance(between, list) or [type(name) for name in between] != [str, str]:
        problem = "missing" if between is None else f"{show(between)} does not name two sites"
        table.refuse("between", problem, 'write between = ["one site", "another site"]')
    return between[0], between[1]


def _weight(table: ConfigTable, key: str, default: int) -> int:
    """A weight is a plain number, or a duration, which counts in microseconds."""
    if isinstance(table.values.get(key), str):
        return table.setting(replace(_WEIGHT, key=key)) or default
    return table.number(key, "weight", 1, WEIGHT_MAX, default) or default


def _port(table: ConfigTable, key: str) -> int | None:
    return table.number(key, "port", 1, PORT_MAX)


def dump_toml(config: Config) -> str:
    """The configuration as TOML. Names and addresses need no escapes: their alphabet has none."""
    lines = [
        f'cluster = "{config.cluster}"',
        f'weights = "{config.weights}"',
        f"mesh = {str(config.mesh).lower()}",
        f"default_weight = {config.default_weight}",
        f'default_protocol = "{config.default_protocol}"',
    ]
    if config.tie_site is not None:
        lines.append(f'tie_site = "{config.tie_site}"')
    if membership := _settings(config.membership.given(), MEMBERSHIP_SETTINGS):
        lines += ["", "[membership]", *membership]
    if clients := _clients(config.clients):
        lines += ["", "[clients]", *clients]
    if config.log != LogTuning():
        lines += ["", "[log]", *_log(config.log)]
    if config.admin != AdminTuning():
        lines += ["", "[admin]", *_admin(config.admin)]
    if config.security != SecurityTuning():
        lines += ["", "[security]", *_security(config.security)]
    lines += write_spool(config.spool)
    lines += write_users(config.users)
    if config.grants is not None:
        lines += write_grants(config.grants)
    place = {config.daemons[number].name: at for at, number in enumerate(config.order)}
    for site in sorted(config.sites, key=lambda site: min([place[one.name] for one in site.daemons])):
        lines += _site(site, place)
    for link in config.links:
        lines += _link(link)
    return "\n".join(lines) + "\n"


def _clients(clients: ClientTuning) -> list[str]:
    lines = _settings(clients.given(), CLIENT_SETTINGS)
    if clients.allow is not None:
        rights = ", ".join([f'"{right}"' for right in clients.allow])
        lines.append(f"allow = [{rights}]")
    if clients.spread_slow is not None:
        lines.append(f'spread_slow = "{clients.spread_slow}"')
    if clients.spread_access is not None:
        networks = ", ".join([f'"{one}"' for one in clients.spread_access])
        lines.append(f"spread_access = [{networks}]")
    if clients.spread_identity is not None:
        lines.append(f"spread_identity = {json.dumps(clients.spread_identity, ensure_ascii=False)}")
    return lines


def _security(security: SecurityTuning) -> list[str]:
    lines = [] if security.keys is None else [f'keys = "{security.keys}"']
    lines += ["insecure = true"] if security.insecure else []
    lines += [] if security.audit is None else [f'audit = "{security.audit}"']
    digests = ", ".join([f'"{one}"' for one in security.revoked])
    return lines + ([f"revoked = [{digests}]"] if digests else [])


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
    ports = {one: getattr(daemon, one) for one in ("client_port", "spread_port", "tls_port")}
    lines += [f"{key} = {port}" for key, port in ports.items() if port is not None]
    return lines + ([f"votes = {daemon.votes}"] if daemon.votes != 1 else [])


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
    """The 32-bit hash in the header of every datagram; clients are told `config_digest` instead."""
    return int.from_bytes(sha256(_shared(config)).digest()[:4], "big")


def config_digest(config: Config) -> str:
    """Tells whether daemons have the same configuration, and nothing about the hash in datagrams."""
    return sha256(_DIGEST_PREFIX + _shared(config)).hexdigest()[:16]


def _shared(config: Config) -> bytes:
    """The parts of the configuration in which daemons must agree."""
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
    votes = [daemon.votes for daemon in config.daemons]
    shared |= {"votes": votes} if any(one != 1 for one in votes) else {}
    shared |= {} if config.tie_site is None else {"tie_site": config.tie_site}
    return json.dumps(shared, sort_keys=True, separators=(",", ":")).encode()


def _group(multicast: MulticastConfig | None) -> list[str | int]:
    if multicast is None:
        return []
    # A TTL of 1 is left out, so that the hash is that of versions that knew no other.
    return [multicast.group, multicast.port, *([multicast.ttl] if multicast.ttl != 1 else [])]
