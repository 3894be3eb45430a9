"""Reload: reads the configuration again, and applies each change at once, by a view change, or at the next
start."""

import argparse
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import Final

from hopring.config import (
    ClientTuning,
    Config,
    LinkTuning,
    LogFormat,
    LogTuning,
    MembershipTuning,
    RingTuning,
    cluster_hash,
)
from hopring.config.tuning import (
    CLIENT_SETTINGS,
    LINK_SETTINGS,
    LOG_SETTINGS,
    MEMBERSHIP_SETTINGS,
    RING_SETTINGS,
    Setting,
)
from hopring.daemon.admin.admin_socket import AdminSocket
from hopring.daemon.admin.protocol import AdminRefusal
from hopring.daemon.log import DaemonLog
from hopring.daemon.process.command_line import StartRefused, load
from hopring.daemon.process.environment import admin_verbs
from hopring.daemon.process.rejoin import Rejoin
from hopring.session.desk import Desk
from hopring.session.options import SessionOptions

AT_START: Final = frozenset({"window_bytes"})
"""What of clients is told them when they come, and so stays."""


Tuning = LinkTuning | RingTuning | MembershipTuning | ClientTuning | LogTuning


@dataclass(frozen=True, slots=True)
class ConfigChanges:
    """How two configurations differ for one daemon; keys as the file spells them."""

    live: tuple[str, ...]
    rebuild: tuple[str, ...]  # The daemon has to leave its view and begin another one.
    restart: tuple[str, ...]


def changes(old: Config, new: Config, name: str) -> ConfigChanges:
    """What changed; the name is the daemon's, which has to be in both."""
    clients = _tuned("clients", old.clients, new.clients, CLIENT_SETTINGS)
    live = [key for key in clients if key != "clients.window"]
    spread = "spread_slow", "spread_access"
    live += [f"clients.{key}" for key in spread if getattr(old.clients, key) != getattr(new.clients, key)]
    live += [f"log.{key}" for key in ("format", "level") if getattr(old.log, key) != getattr(new.log, key)]
    live += _tuned("log", old.log, new.log, LOG_SETTINGS)
    live += ["admin.allow"] if old.admin.allow != new.admin.allow else []
    restart = [key for key in clients if key == "clients.window"]
    restart += [
        f"admin.{key}" for key in ("socket", "mode") if getattr(old.admin, key) != getattr(new.admin, key)
    ]
    rebuild = _shared(old, new) + _tunings(old, new)
    ours = old.daemons[old.daemon_id(name)], new.daemons[new.daemon_id(name)]
    ports = "client_port", "spread_port"
    restart += [f"{name}.{port}" for port in ports if getattr(ours[0], port) != getattr(ours[1], port)]
    if old.cluster != new.cluster or (ours[0].address, ours[0].port) != (ours[1].address, ours[1].port):
        # Its files are called after the cluster, and its clients found it at its address.
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
    """The options of sessions with what the configuration says; what it no longer says is as by default."""
    default = SessionOptions()
    values = {one.name: getattr(default, one.name) for one in fields(clients)} | clients.given()
    return replace(options, **{key: value for key, value in values.items() if key not in AT_START})


def _shared(old: Config, new: Config) -> list[str]:
    """What the hash covers, by the parts of the file."""
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
        "links": (
            [(link.sites, link.weight, link.protocol) for link in old.all_links],
            [(link.sites, link.weight, link.protocol) for link in new.all_links],
        ),
    }
    return [key for key, (before, after) in parts.items() if before != after]


def _placed(config: Config) -> list[tuple[str, str, int, str]]:
    """All daemons with where they are; one may move to another site and keep its address."""
    return [(one.name, one.address, one.port, site.name) for site in config.sites for one in site.daemons]


def _tuned(
    where: str,
    old: Tuning,
    new: Tuning,
    settings: tuple[Setting, ...],
) -> list[str]:
    return [f"{where}.{one.key}" for one in settings if getattr(old, one.field) != getattr(new, one.field)]


_STAYS = "the old configuration stays in force"


class ConfigReload:
    """The configuration of one life of a daemon, as far as it is in force."""

    def __init__(
        self, arguments: argparse.Namespace, config: Config, log: DaemonLog, desk: Desk | None
    ) -> None:
        self._arguments = arguments
        self._config = config
        self._log = log
        self._desk = desk
        self.admin: AdminSocket | None = None
        self.reconfigure: Rejoin | None = None
        """What takes view changes; without it they need a restart."""

    def reload(self) -> None:
        """By a signal: what comes of it is in the log."""
        with suppress(StartRefused):
            self._read()

    def reload_for_admin(self) -> dict[str, object]:
        """By the admin channel: what comes of it is also answered."""
        try:
            found = self._read()
        except StartRefused as refused:
            raise AdminRefusal(str(refused), _STAYS) from None
        return {"changed": found.live, "view_change": found.rebuild, "needs_restart": found.restart}

    def taken(self, config: Config) -> None:
        """This is what all protocols go by now; what was not theirs to change stays."""
        ours = self._config
        self._config = replace(config, clients=ours.clients, log=ours.log, admin=ours.admin)

    def _read(self) -> ConfigChanges:
        file, name = self._arguments.file, self._arguments.name
        try:
            config = load(file, name)
        except StartRefused as refused:
            self._log.say("refused", reload=file, problem=refused, then=_STAYS)
            raise
        found = changes(self._config, config, name)
        if self.reconfigure is None:
            found = ConfigChanges(found.live, (), (*found.rebuild, *found.restart))
        self._take_at_once(config)
        self._log.say("reload", file=file, changed=",".join([*found.live, *found.rebuild]) or "nothing")
        if found.restart:
            self._log.say("refused", reload=file, needs_restart=",".join(found.restart))
        if found.rebuild and self.reconfigure is not None:
            self.reconfigure.begin(config)
        return found

    def _take_at_once(self, config: Config) -> None:
        # The rest stays as it was until it is had, so that it is told again next time.
        clients = replace(config.clients, window_bytes=self._config.clients.window_bytes)
        admin = replace(self._config.admin, allow=config.admin.allow)
        self._config = replace(self._config, clients=clients, log=config.log, admin=admin)
        if self.admin is not None:
            self.admin.allowed = admin_verbs(self._arguments, config)
        tune_log(self._log, config, self._arguments)
        if self._desk is not None:
            self._desk.tune(tuned_sessions(self._desk.options, config.clients))


def tune_log(log: DaemonLog, config: Config, arguments: argparse.Namespace) -> None:
    """As the configuration says, but for what the command line says."""
    given = arguments.log_format
    log.tune(config.log if given is None else replace(config.log, format=LogFormat(given)))
