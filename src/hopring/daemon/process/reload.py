"""Reload: reads the configuration again, and applies each change as `config_changes` classifies it."""

import argparse
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from hopring.config import (
    Config,
    LogFormat,
)
from hopring.credentials.daemon_tls import DaemonTls
from hopring.credentials.files import CredentialError
from hopring.daemon.admin.admin_socket import AdminSocket
from hopring.daemon.admin.protocol import AdminRefusal
from hopring.daemon.clients.authentication import UserAuthenticator
from hopring.daemon.log import DaemonLog
from hopring.daemon.process.audit import AuditFile
from hopring.daemon.process.command_line import HopdExit, StartRefused, load
from hopring.daemon.process.config_changes import ConfigChanges, changes, tuned_sessions
from hopring.daemon.process.environment import admin_verbs
from hopring.daemon.process.rejoin import Rejoin
from hopring.daemon.process.security import load_access, load_keys, load_tls
from hopring.sealing.keys import KeyRing
from hopring.session.grants import GrantsTable
from hopring.session.server import SessionServer

_STAYS = "the old configuration stays in force"


class ConfigReload:
    """The configuration that is in force, and its reload."""

    def __init__(
        self,
        arguments: argparse.Namespace,
        config: Config,
        log: DaemonLog,
        session_server: SessionServer | None,
        change_keys: Callable[[KeyRing, DaemonTls | None], None],
    ) -> None:
        self._arguments = arguments
        self._config = config
        self._log = log
        self._session_server = session_server
        self._change_keys = change_keys
        self.audit: AuditFile | None = None
        self.apply_access: (
            Callable[[GrantsTable | None, UserAuthenticator | None, frozenset[bytes]], None] | None
        ) = None
        """Applies other grants, users and revoked certificates of clients."""
        self.admin: AdminSocket | None = None
        self.rejoin: Rejoin | None = None
        """Applies changes that need another view; without it they need a restart."""

    def reload(self) -> None:
        """Reloads because of a signal; the result is logged."""
        with suppress(StartRefused):
            self._read()

    def reload_for_admin(self) -> dict[str, object]:
        """Reloads for the admin channel; the result is logged and returned."""
        try:
            found = self._read()
        except StartRefused as refused:
            raise AdminRefusal(str(refused), _STAYS) from None
        return {"changed": found.live, "view_change": found.rebuild, "needs_restart": found.restart}

    def taken(self, config: Config) -> None:
        """Records the configuration that the protocols use now; clients, log and admin keep their settings."""
        ours = self._config
        self._config = replace(
            config,
            clients=ours.clients,
            log=ours.log,
            admin=ours.admin,
            security=ours.security,
            spool=ours.spool,
            users=ours.users,
            grants=ours.grants,
        )

    def _read(self) -> ConfigChanges:
        file, name = self._arguments.file, self._arguments.name
        try:
            config = load(file, name)
            keys, tls = load_keys(config, file), load_tls(config, self._arguments)
            access = load_access(config, file, name)
            if self.audit is not None:
                self._reopen(self.audit)
        except StartRefused as refused:
            self._note("reload_refused", problem=refused)
            self._log.say("refused", reload=file, problem=refused, then=_STAYS)
            raise
        found = changes(self._config, config, name)
        if self.rejoin is None:
            found = ConfigChanges(found.live, (), (*found.rebuild, *found.restart))
        self._take_at_once(config)
        if self.apply_access is not None:
            self.apply_access(*access)
        if keys is not None and self._config.security == config.security:
            self._change_keys(keys, tls)
            self._log.say(
                "keys", use=f"{keys.use:08x}", live=",".join(f"{one:08x}" for one in sorted(keys.keys))
            )
            self._note("keys", use=f"{keys.use:08x}", live=len(keys.keys))
        self._note("reload", changed=",".join([*found.live, *found.rebuild]) or "nothing")
        self._log.say("reload", file=file, changed=",".join([*found.live, *found.rebuild]) or "nothing")
        if found.restart:
            self._log.say("refused", reload=file, needs_restart=",".join(found.restart))
        if found.rebuild and self.rejoin is not None:
            self.rejoin.begin(config)
        return found

    def _note(self, event: str, **fields: object) -> None:
        if self.audit is not None:
            self.audit.write(event, **fields)

    @staticmethod
    def _reopen(audit: AuditFile) -> None:
        """Opens the audit again, so that its file may be moved away before a reload."""
        try:
            audit.reopen()
        except CredentialError as error:
            raise StartRefused(HopdExit.BAD_CONFIGURATION, str(error)) from None

    def _take_at_once(self, config: Config) -> None:
        # The rest stays as it was until it is had, so that it is told again next time.
        clients = replace(config.clients, window_bytes=self._config.clients.window_bytes)
        admin = replace(self._config.admin, allow=config.admin.allow)
        self._config = replace(
            self._config,
            clients=clients,
            log=config.log,
            admin=admin,
            security=replace(self._config.security, revoked=config.security.revoked),
            users=config.users,
            grants=config.grants,
        )
        if self.admin is not None:
            self.admin.allowed = admin_verbs(self._arguments, config)
        tune_log(self._log, config, self._arguments)
        if self._session_server is not None:
            self._session_server.tune(tuned_sessions(self._session_server.options, config.clients))


def tune_log(log: DaemonLog, config: Config, arguments: argparse.Namespace) -> None:
    """Applies the log settings of the configuration; flags of the command line override them."""
    given = arguments.log_format
    log.tune(config.log if given is None else replace(config.log, format=LogFormat(given)))
