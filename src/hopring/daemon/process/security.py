"""The keys of a daemon, and its refusal to run without them where other hosts can reach it."""

import argparse
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Final, NamedTuple

from hopring.config import Config
from hopring.credentials.cluster_keys import load_key_ring
from hopring.credentials.daemon_tls import DaemonTls, load_daemon_tls
from hopring.credentials.files import CredentialError
from hopring.daemon.clients.authentication import UserAuthenticator
from hopring.daemon.net.peer_sockets import uses_streams
from hopring.daemon.process.audit import AuditFile
from hopring.daemon.process.command_line import HopdExit, StartRefused
from hopring.sealing.keys import KeyRing
from hopring.session.grants import GrantsTable

KEY_FILE: Final = "cluster.keys"

INSECURE: Final = "insecure = true: whoever reaches this daemon's ports can read, forge and end the cluster"
_MAKE_KEYS: Final = (
    "make keys with `hop keys new --config FILE`, copy them to all hosts and set keys in [security]"
)
_TRUST: Final = "or set insecure = true there, if everybody who reaches these addresses is trusted"


def load_keys(config: Config, file: str) -> KeyRing | None:
    """The cluster keys that the configuration names; None if it names none."""
    if config.security.keys is None:
        return None
    path = Path(file).parent / config.security.keys / KEY_FILE
    try:
        return load_key_ring(path)
    except CredentialError as error:
        raise StartRefused(HopdExit.BAD_CONFIGURATION, str(error)) from None


def load_tls(config: Config, arguments: argparse.Namespace) -> DaemonTls | None:
    """The certificates of a daemon with keys that has TCP links, or serves clients by TLS; None otherwise."""
    me = config.daemon_id(arguments.name)
    for_clients = config.daemons[me].tls_port is not None
    if config.security.keys is None and for_clients:
        problem = f"{arguments.file}: {arguments.name} has a tls_port, and no certificate"
        raise StartRefused(HopdExit.BAD_CONFIGURATION, f"{problem}; {_MAKE_KEYS}")
    if config.security.keys is None or not (for_clients or uses_streams(config, me)):
        return None
    root = Path(arguments.file).parent / config.security.keys
    try:
        return load_daemon_tls(root, config.cluster, arguments.name, datetime.now(UTC))
    except CredentialError as error:
        raise StartRefused(HopdExit.BAD_CONFIGURATION, str(error)) from None


class Access(NamedTuple):
    """What decides who clients are and what they may do; None for what the configuration does not have."""

    grants: GrantsTable | None
    authenticator: UserAuthenticator | None
    revoked: frozenset[bytes]  # Digests of certificates.


def load_access(config: Config, file: str, daemon: str) -> Access:
    """The grants of clients, the users with their keys, and the certificates that were revoked."""
    grants = None if config.grants is None else GrantsTable(config.grants)
    try:
        authenticator = UserAuthenticator(config, file, daemon) if config.users else None
    except CredentialError as error:
        raise StartRefused(HopdExit.BAD_CONFIGURATION, str(error)) from None
    return Access(grants, authenticator, frozenset([bytes.fromhex(one) for one in config.security.revoked]))


def open_audit(config: Config, file: str, daemon: str, now_us: Callable[[], int]) -> AuditFile | None:
    """The audit that the configuration names; None if it names none."""
    if config.security.audit is None:
        return None
    try:
        return AuditFile(Path(file).parent / config.security.audit, daemon, now_us)
    except CredentialError as error:
        raise StartRefused(HopdExit.BAD_CONFIGURATION, str(error)) from None


def check_exposure(config: Config, arguments: argparse.Namespace) -> None:
    """StartRefused if this daemon can be reached from other hosts and nothing protects it."""
    if config.security.insecure:
        return
    for problem, remedy in _exposed(config, arguments):
        raise StartRefused(HopdExit.BAD_CONFIGURATION, f"{problem}; {remedy}; {_TRUST}")


def warnings_of(config: Config) -> list[str]:
    """What the log says at each start."""
    return [INSECURE] if config.security.insecure else []


def _exposed(config: Config, arguments: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """What can be reached from other hosts without protection, each with its remedy."""
    own = config.daemons[config.daemon_id(arguments.name)]
    if config.security.keys is None and not ip_address(own.address).is_loopback:
        problem = f"{arguments.file}: {own.name} has the address {own.address}, and there are no keys"
        yield problem, _MAKE_KEYS
    if arguments.listen is not None and not _is_loopback(arguments.listen):
        problem = f"--listen {arguments.listen}: clients are served without encryption beyond this host"
        yield (
            problem,
            f"leave it out and give {own.name} a tls_port in {arguments.file}, which takes keys in [security]",
        )
    if arguments.metrics is not None and not _is_loopback(arguments.metrics[0]):
        problem = f"--metrics {arguments.metrics[0]}: pages are served without encryption beyond this host"
        yield problem, "use a loopback address, and a proxy or tunnel with encryption; set keys in [security]"


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
