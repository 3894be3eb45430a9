"""Keys of users: an Ed25519 key in PEM, and its public half as one line in the form of OpenSSH."""

import base64
import hashlib
from pathlib import Path
from typing import Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_ssh_public_key,
)

from hopring.credentials.files import CredentialError, read_public, read_secret

_MAKE: Final = "make another one with `hop keys user`"


def load_user_key(path: Path | str) -> Ed25519PrivateKey:
    """The private key of a user in a secret file."""
    content = read_secret(path)
    try:
        key = load_pem_private_key(content, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise CredentialError(path, "is no private key in PEM, or an encrypted one", _MAKE) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise CredentialError(path, "is a private key of another kind than Ed25519", _MAKE)
    return key


def load_user_public_key(path: Path | str) -> Ed25519PublicKey:
    """The public key of a user in a file of one line."""
    return parse_user_public_key(read_public(path), path)


def parse_user_public_key(content: bytes, path: Path | str) -> Ed25519PublicKey:
    """The public key of a user in one line; the path is for errors."""
    if len(content.splitlines()) != 1:
        raise CredentialError(path, "has more than one line", "give a file for each key")
    try:
        key = load_ssh_public_key(content.strip())
    except (ValueError, UnsupportedAlgorithm):
        raise CredentialError(path, "is no public key in the form of OpenSSH", _MAKE) from None
    if not isinstance(key, Ed25519PublicKey):
        raise CredentialError(path, "is a public key of another kind than Ed25519", _MAKE)
    return key


def public_line(key: Ed25519PublicKey, name: str) -> bytes:
    """A public key as one line that ends with the name of its user."""
    return key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH) + b" " + name.encode() + b"\n"


def fingerprint(key: Ed25519PublicKey) -> str:
    """The SHA-256 digest of a public key, as `ssh-keygen -l` shows it."""
    blob = base64.b64decode(key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).split()[1])
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")
