"""A directory of credentials, as `hop keys` makes it and as parts of it are copied to hosts.

    cluster.keys        the cluster keys; secret, on every host
    ca.key, ca.crt      the authority; the key is secret and needed only to sign further daemons
    daemons/NAME.key    the private key and the certificate of a daemon; the key is secret
    daemons/NAME.crt
    users/NAME.key      the key of a user; secret, and nobody else's business
    users/NAME.pub      its public half
    users/NAME.pem      the certificate of a user with its own private key; secret

Every part may be missing: a host has those of its own daemon only.
"""

import os
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256

from hopring.config.access import is_user
from hopring.config.builder import is_name
from hopring.credentials.certificates import (
    Authority,
    certificate_pem,
    cluster_of,
    daemon_uri,
    is_signed_by,
    load_authority,
    load_certificate,
    new_authority,
    new_key,
    private_pem,
    uris_of,
)
from hopring.credentials.cluster_keys import KeyFile, load_key_file
from hopring.credentials.cluster_keys import new_key as new_cluster_key
from hopring.credentials.files import (
    PUBLIC_MODE,
    ChangeRefused,
    CredentialError,
    NewFile,
    make_directory,
    replace_file,
    write_new,
)
from hopring.credentials.user_keys import fingerprint, load_user_public_key, public_line

CLUSTER_KEYS: Final = "cluster.keys"
AUTHORITY_KEY: Final = "ca.key"
AUTHORITY: Final = "ca.crt"
DAEMONS: Final = "daemons"
USERS: Final = "users"
NEW_DIRECTORY: Final = "make a new directory with `hop keys new` and copy it to all hosts"
"""The remedy for an authority that expires."""


@dataclass(frozen=True, slots=True)
class CertificateFacts:
    """Public facts of a certificate."""

    name: str  # Of the daemon, or of the cluster if it is the authority's.
    uris: list[str]
    expires: datetime
    sha256: str


@dataclass(frozen=True, slots=True)
class UserFacts:
    """Public facts of a user's key."""

    name: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class DirectoryFacts:
    """All that may be shown of a directory."""

    keys: list[tuple[str, str]]  # State and id.
    authority: CertificateFacts | None
    daemons: list[CertificateFacts]
    users: list[UserFacts]
    certificates: list[CertificateFacts]  # Of users.


class KeyDirectory:
    """Reads and changes the credentials in one directory."""

    def __init__(self, root: Path) -> None:
        self.root: Final = root
        self.keys_path: Final = root / CLUSTER_KEYS
        self.authority_key_path: Final = root / AUTHORITY_KEY
        self.authority_path: Final = root / AUTHORITY

    def create(
        self, cluster: str, daemons: list[str], now: datetime, authority_days: int, daemon_days: int
    ) -> KeyFile:
        """Makes a cluster key, an authority and certificates; ChangeRefused if something is there already."""
        parts = CLUSTER_KEYS, AUTHORITY_KEY, AUTHORITY, DAEMONS, USERS
        for path in [self.root / part for part in parts]:
            if os.path.lexists(path):
                remedy = "choose another directory with --out; `hop keys add` makes a further cluster key"
                raise ChangeRefused(path, "is there already", remedy)
        make_directory(self.root)
        if daemons:
            make_directory(self.root / DAEMONS)
        authority = new_authority(cluster, now, authority_days)
        keys = KeyFile(self.keys_path, (new_cluster_key(in_use=True),))
        files = [
            keys.as_new_file(),
            NewFile(self.authority_key_path, private_pem(authority.key)),
            NewFile(self.authority_path, certificate_pem(authority.certificate), PUBLIC_MODE),
        ]
        for name in daemons:
            files += self._daemon_files(authority, name, now, daemon_days)
        write_new(files)
        return keys

    def key_file(self) -> KeyFile:
        """The cluster keys of the directory."""
        self.check_root()
        return load_key_file(self.keys_path)

    def add_daemon(self, name: str, now: datetime, days: int) -> Path:
        """Makes the key and the certificate of a daemon; the path of the certificate."""
        authority = self._authority(now)
        for path in (self.daemon_key_path(name), self.certificate_path(name)):
            if os.path.lexists(path):
                remedy = "--renew replaces the certificate only; for another key remove both files"
                raise ChangeRefused(path, "is there already", remedy)
        make_directory(self.root / DAEMONS)
        write_new(self._daemon_files(authority, name, now, days))
        return self.certificate_path(name)

    def renew_daemon(self, name: str, now: datetime, days: int) -> Path:
        """Replaces a daemon's certificate by one for the same key; the path of the certificate."""
        authority = self._authority(now)
        path = self.certificate_path(name)
        before = load_certificate(path)
        if not is_signed_by(before, authority.certificate) or daemon_uri(
            authority.cluster, name
        ) not in uris_of(before):
            problem = f"was not made for {daemon_uri(authority.cluster, name)} by the authority in {AUTHORITY}"
            raise ChangeRefused(path, problem, "remove it, and make another one without --renew")
        public = before.public_key()
        assert isinstance(public, EllipticCurvePublicKey)
        certificate = authority.sign_daemon(name, public, now, days)
        replace_file(NewFile(path, certificate_pem(certificate), PUBLIC_MODE))
        return path

    def add_user(self, name: str) -> Path:
        """Makes the key of a user; the path of its public half."""
        self.check_root()
        make_directory(self.root / USERS)
        key = Ed25519PrivateKey.generate()
        public = self.user_path(name, "pub")
        line = NewFile(public, public_line(key.public_key(), name), PUBLIC_MODE)
        write_new([NewFile(self.user_path(name, "key"), private_pem(key)), line])
        return public

    def add_user_certificate(self, name: str, now: datetime, days: int, *, renew: bool = False) -> Path:
        """Makes a file with a key and a certificate of a user; the path of the file."""
        if not is_user(name):
            raise ChangeRefused(self.user_path(name, "pem"), "would name no user", "choose another name")
        authority = self._authority(now)
        make_directory(self.root / USERS)
        key, path = new_key(), self.user_path(name, "pem")
        certificate = authority.sign_user(name, key.public_key(), now, days)
        file = NewFile(path, private_pem(key) + certificate_pem(certificate))
        if renew:
            load_certificate(path)
            replace_file(file)
        else:
            write_new([file])
        return path

    def facts(self) -> DirectoryFacts:
        """The public facts of everything in the directory; the first file that cannot be used is an error."""
        self.check_root()
        keys = load_key_file(self.keys_path).keys if os.path.lexists(self.keys_path) else ()
        authority = None
        if os.path.lexists(self.authority_path):
            certificate = load_certificate(self.authority_path)
            authority = certificate_facts(cluster_of(certificate, self.authority_path), certificate)
        found = DirectoryFacts(
            [(one.state, f"{one.key.id:08x}") for one in keys],
            authority,
            [
                certificate_facts(name, load_certificate(self.certificate_path(name)))
                for name in self.names(DAEMONS, "crt")
            ],
            [
                UserFacts(name, fingerprint(load_user_public_key(self.user_path(name, "pub"))))
                for name in self.names(USERS, "pub")
            ],
            [
                certificate_facts(name, load_certificate(self.user_path(name, "pem")))
                for name in self.names(USERS, "pem")
            ],
        )
        if not any([found.keys, found.authority, found.daemons, found.users, found.certificates]):
            raise self._no_keys("has no keys")
        return found

    def check_root(self) -> None:
        """CredentialError if there is no directory."""
        if not self.root.is_dir():
            raise self._no_keys("is no directory" if os.path.lexists(self.root) else "does not exist")
        if not os.access(self.root, os.R_OK | os.X_OK):
            raise CredentialError(self.root, "cannot be read by this user", "run as its owner, or as root")

    def names(self, part: str, suffix: str) -> list[str]:
        """The names of daemons or users that have a file with this suffix."""
        files = sorted((self.root / part).glob(f"*.{suffix}"))
        return [name for name in [one.name.removesuffix(f".{suffix}") for one in files] if is_name(name)]

    def certificate_path(self, daemon: str) -> Path:
        """The file of a daemon's certificate."""
        return self.root / DAEMONS / f"{daemon}.crt"

    def daemon_key_path(self, daemon: str) -> Path:
        """The file of a daemon's private key."""
        return self.root / DAEMONS / f"{daemon}.key"

    def user_path(self, user: str, suffix: str) -> Path:
        """A file of a user: `key` and `pem` are private, `pub` is public."""
        return self.root / USERS / f"{user}.{suffix}"

    def _daemon_files(self, authority: Authority, name: str, now: datetime, days: int) -> list[NewFile]:
        key = new_key()
        certificate = authority.sign_daemon(name, key.public_key(), now, days)
        return [
            NewFile(self.daemon_key_path(name), private_pem(key)),
            NewFile(self.certificate_path(name), certificate_pem(certificate), PUBLIC_MODE),
        ]

    def _authority(self, now: datetime) -> Authority:
        self.check_root()
        authority = load_authority(self.authority_key_path, self.authority_path)
        end = authority.certificate.not_valid_after_utc
        if now >= end:
            raise CredentialError(self.authority_path, f"expired on {end:%Y-%m-%d}", NEW_DIRECTORY)
        return authority

    def _no_keys(self, problem: str) -> CredentialError:
        remedy = "name the directory of `hop keys new --out`, or make keys with it"
        return CredentialError(self.root, problem, remedy)


def certificate_facts(name: str, certificate: x509.Certificate) -> CertificateFacts:
    """The public facts of a certificate, under this name."""
    digest = certificate.fingerprint(SHA256()).hex()
    return CertificateFacts(name, uris_of(certificate), certificate.not_valid_after_utc, digest)
