"""TLS settings of a daemon, made from its files: its certificate, and the authority of its cluster.

Only TLS 1.3 is spoken. There is no resumption of sessions: a handshake costs about a millisecond, and without
tickets each connection proves anew that its certificate is valid.
"""

import os
import ssl
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from shlex import quote
from typing import Final

from cryptography.hazmat.primitives.hashes import SHA256

from hopring.credentials.certificates import (
    cluster_of,
    daemon_uri,
    is_signed_by,
    load_certificate,
    load_private_key,
    uris_of,
)
from hopring.credentials.directory import NEW_DIRECTORY, KeyDirectory
from hopring.credentials.files import CredentialError, read_public

_COPY: Final = "copy both again from the directory where they were made"


@dataclass(frozen=True, slots=True)
class DaemonTls:
    """The settings of a daemon's connections. Between daemons each end proves its name; clients need not."""

    dialling: ssl.SSLContext
    accepting: ssl.SSLContext
    clients: ssl.SSLContext
    digest: bytes  # SHA-256 of the certificate, as clients see it.
    cluster: str


def load_daemon_tls(root: Path, cluster: str, daemon: str, now: datetime) -> DaemonTls:
    """The settings of a daemon from a directory of credentials; CredentialError if a file cannot be used."""
    directory = KeyDirectory(root)
    directory.check_root()
    digest = _check_files(directory, cluster, daemon, now)
    clients = _context(directory, daemon, ssl.PROTOCOL_TLS_SERVER)
    clients.verify_mode = ssl.CERT_OPTIONAL
    found = DaemonTls(
        _context(directory, daemon, ssl.PROTOCOL_TLS_CLIENT),
        _context(directory, daemon, ssl.PROTOCOL_TLS_SERVER),
        clients,
        digest,
        cluster,
    )
    if _digest(directory, daemon) != digest:
        # `ssl` does not tell which certificate it has read.
        path = directory.certificate_path(daemon)
        raise CredentialError(path, "was replaced while it was read", "try again")
    return found


def _digest(directory: KeyDirectory, daemon: str) -> bytes:
    return load_certificate(directory.certificate_path(daemon)).fingerprint(SHA256())


def _check_files(directory: KeyDirectory, cluster: str, daemon: str, now: datetime) -> bytes:
    """CredentialError if a file cannot be used; returns the digest of the certificate."""
    path, key_path = directory.certificate_path(daemon), directory.daemon_key_path(daemon)
    make = f"hop keys daemon {daemon} {quote(str(directory.root))}"
    for one in (path, key_path):
        if not os.path.lexists(one):
            raise CredentialError(one, "does not exist", f"`{make}` where ca.key is, then copy it to this host")
    authority = load_certificate(directory.authority_path)
    ours = cluster_of(authority, directory.authority_path)
    if ours != cluster:
        remedy = "copy the directory of this cluster"
        raise CredentialError(directory.authority_path, f"is the authority of {ours}, not of {cluster}", remedy)
    certificate = load_certificate(path)
    if load_private_key(key_path).public_key() != certificate.public_key():
        raise CredentialError(key_path, f"is not the private key of {path}", _COPY)
    if not is_signed_by(certificate, authority):
        problem = f"is not signed by the authority in {directory.authority_path}"
        raise CredentialError(path, problem, _COPY)
    uri = daemon_uri(cluster, daemon)
    if uri not in uris_of(certificate):
        raise CredentialError(path, f"is not a certificate for {uri}", f"`{make}`, then copy it to this host")
    for one, its, remedy in (
        (path, certificate, f"`{make} --renew`, then copy it to this host"),
        (directory.authority_path, authority, NEW_DIRECTORY),
    ):
        if now < its.not_valid_before_utc:
            problem = f"is valid from {its.not_valid_before_utc:%Y-%m-%d %H:%M} UTC only"
            raise CredentialError(one, problem, "check the clock of this host")
        if now >= its.not_valid_after_utc:
            raise CredentialError(one, f"expired on {its.not_valid_after_utc:%Y-%m-%d}", remedy)
    return certificate.fingerprint(SHA256())


def _context(directory: KeyDirectory, daemon: str, protocol: int) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # Daemons are named by URIs, which whoever uses a connection compares; a host may have any name.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    if protocol == ssl.PROTOCOL_TLS_SERVER:
        context.num_tickets = 0
    try:
        context.load_verify_locations(cadata=read_public(directory.authority_path).decode())
        context.load_cert_chain(directory.certificate_path(daemon), directory.daemon_key_path(daemon))
    except (OSError, ValueError) as error:  # An SSLError is an OSError.
        raise CredentialError(
            directory.certificate_path(daemon), f"is refused by TLS ({error})", _COPY
        ) from None
    return context
