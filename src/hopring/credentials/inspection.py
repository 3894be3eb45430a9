"""Checks of a directory of credentials: modes, owners, formats, what belongs together, and expiry."""

import os
import stat
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from shlex import quote
from typing import Final, TypeVar

from cryptography import x509

from hopring.credentials.certificates import (
    cluster_of,
    daemon_uri,
    is_signed_by,
    load_certificate,
    load_private_key,
    uris_of,
    user_uri,
)
from hopring.credentials.directory import AUTHORITY, DAEMONS, NEW_DIRECTORY, USERS, KeyDirectory
from hopring.credentials.files import CredentialError
from hopring.credentials.user_keys import load_user_key, load_user_public_key

EXPIRES_SOON: Final = timedelta(days=30)
_WRITABLE: Final = stat.S_IWGRP | stat.S_IWOTH
_COPY: Final = "copy both again from the directory where they were made"

Loaded = TypeVar("Loaded")


def inspect_directory(directory: KeyDirectory, now: datetime) -> list[CredentialError]:
    """Every problem in a directory, each with its remedy."""
    directory.check_root()
    return _Inspection(directory, now).run()


class _Inspection:
    def __init__(self, directory: KeyDirectory, now: datetime) -> None:
        self._directory = directory
        self._now = now
        self._found: list[CredentialError] = []

    def run(self) -> list[CredentialError]:
        here = self._directory
        self._check_writable(here.root)
        self._attempt(here.key_file)
        daemons = sorted({*here.names(DAEMONS, "crt"), *here.names(DAEMONS, "key")})
        certificates = here.names(USERS, "pem")
        needed = daemons or certificates or os.path.lexists(here.authority_key_path)
        authority = self._check_authority() if needed else None
        for name in daemons:
            self._check_daemon(name, authority)
        for name in sorted({*here.names(USERS, "pub"), *here.names(USERS, "key")}):
            self._check_user(name)
        for name in certificates:
            self._check_user_certificate(name, authority)
        return self._found

    def _check_authority(self) -> x509.Certificate | None:
        here = self._directory
        path = here.authority_path
        certificate = self._attempt(lambda: load_certificate(path))
        if certificate is None or self._attempt(lambda: cluster_of(certificate, path)) is None:
            return None
        self._check_writable(path)
        self._check_expiry(path, certificate, NEW_DIRECTORY)
        self._check_pair(here.authority_key_path, path, certificate)
        return certificate

    def _check_daemon(self, name: str, authority: x509.Certificate | None) -> None:
        here = self._directory
        path = here.certificate_path(name)
        certificate = self._attempt(lambda: load_certificate(path))
        if certificate is None:
            return
        command = f"hop keys daemon {name} {quote(str(here.root))} --renew"
        self._check_writable(path)
        self._check_expiry(path, certificate, f"`{command}`, then copy it to the daemon's host")
        self._check_pair(here.daemon_key_path(name), path, certificate)
        if authority is None:
            return
        if not is_signed_by(certificate, authority):
            self._add(path, f"is not signed by the authority in {AUTHORITY}", _COPY)
        uri = daemon_uri(cluster_of(authority, here.authority_path), name)
        if uri not in uris_of(certificate):
            self._add(path, f"is not a certificate for {uri}", "give the file the name of its daemon")

    def _check_user(self, name: str) -> None:
        public_path, key_path = [self._directory.user_path(name, suffix) for suffix in ("pub", "key")]
        public = self._attempt(lambda: load_user_public_key(public_path))
        self._check_writable(public_path)
        # The private key may be where it belongs, with its user.
        key = self._attempt(lambda: load_user_key(key_path)) if os.path.lexists(key_path) else None
        if public is not None and key is not None and key.public_key() != public:
            self._add(key_path, f"is not the private key of {public_path}", _COPY)

    def _check_user_certificate(self, name: str, authority: x509.Certificate | None) -> None:
        here, path = self._directory, self._directory.user_path(name, "pem")
        key = self._attempt(lambda: load_private_key(path))
        certificate = self._attempt(lambda: load_certificate(path)) if key is not None else None
        if key is None or certificate is None:
            return
        command = f"hop keys user {name} {quote(str(here.root))} --certificate --renew"
        self._check_expiry(path, certificate, f"`{command}`, then give it to {name}")
        if key.public_key() != certificate.public_key():
            self._add(path, "has a key that is not that of its certificate", f"`{command}`")
        if authority is None:
            return
        uri = user_uri(cluster_of(authority, here.authority_path), name)
        if not is_signed_by(certificate, authority) or uris_of(certificate) != [uri]:
            self._add(path, f"is not a certificate of the authority in {AUTHORITY} for {uri}", f"`{command}`")

    def _check_pair(self, key_path: Path, path: Path, certificate: x509.Certificate) -> None:
        """The private key may be elsewhere; where it is here, it belongs to the certificate."""
        if os.path.lexists(key_path):
            key = self._attempt(lambda: load_private_key(key_path))
            if key is not None and key.public_key() != certificate.public_key():
                self._add(key_path, f"is not the private key of {path}", _COPY)

    def _check_expiry(self, path: Path, certificate: x509.Certificate, remedy: str) -> None:
        begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
        if self._now < begin:
            self._add(path, f"is valid from {begin:%Y-%m-%d %H:%M} UTC only", "check the clock of this host")
        elif self._now >= end:
            self._add(path, f"expired on {end:%Y-%m-%d}", remedy)
        elif self._now >= end - EXPIRES_SOON:
            self._add(path, f"expires in {(end - self._now).days} days, on {end:%Y-%m-%d}", remedy)

    def _check_writable(self, path: Path) -> None:
        try:
            mode = stat.S_IMODE(path.stat().st_mode)
        except OSError:
            return  # Whoever loads it says so.
        if mode & _WRITABLE:
            problem = f"has mode {mode:04o}, others than its owner can write to it"
            self._add(path, problem, f"chmod go-w {quote(str(path))}")

    def _attempt(self, load: Callable[[], Loaded]) -> Loaded | None:
        try:
            return load()
        except CredentialError as error:
            self._found.append(error)
            return None

    def _add(self, path: Path, problem: str, remedy: str) -> None:
        self._found.append(CredentialError(path, problem, remedy))
