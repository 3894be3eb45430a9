"""Verifies the credentials of clients by the users of the configuration: signatures of keys, and tokens.

Signatures are checked by `cryptography`, tokens by PyJWT. Random numbers come from the operating system.
"""

import secrets
import time
from functools import lru_cache
from pathlib import Path
from typing import Final

import jwt
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from hopring.config import Config
from hopring.config.access import KEY_LINE, UID_PREFIX, is_user
from hopring.credentials.files import user_name
from hopring.credentials.user_keys import load_user_public_key, parse_user_public_key
from hopring.session.protocol import NONCE_BYTES, ChallengeReply, proof_text

LEEWAY_SECONDS: Final = 30
"""How far the clock of an issuer of tokens may differ from ours."""

LEFT_US_MAX: Final = 1 << 60
"""For credentials that are valid for longer, which is for ever: times have to fit into 64 bits."""

_ALGORITHMS: Final = ["EdDSA"]
_REQUIRED: Final = ["exp", "iss", "aud", "sub"]


class UserAuthenticator:
    """The users and issuers of a daemon's configuration, with their public keys."""

    def __init__(self, config: Config, file: str, daemon: str) -> None:
        """Reads the keys, relative to the configuration file; CredentialError if one cannot be used."""
        self._cluster = config.cluster
        self._daemon = daemon
        base = Path(file).parent
        keys = [(one, _load(one.key, base, file)) for one in config.users]
        self._users = {one.name: key for one, key in keys if one.name}
        self._issuers = [(one.issuer, one.audience or config.cluster, key) for one, key in keys if one.issuer]

    def challenge(self) -> ChallengeReply:
        """A fresh nonce, with the names of this cluster and daemon."""
        return ChallengeReply(secrets.token_bytes(NONCE_BYTES), self._cluster, self._daemon)

    def key_of(self, user: str) -> bytes | None:
        """The public key of a user; None if there is no such user."""
        key = self._users.get(user)
        return None if key is None else key.public_bytes_raw()

    def verify_proof(self, user: str, nonce: bytes, binding: bytes, signature: bytes) -> bool:
        """Whether the user's key signed this nonce."""
        key = self._users.get(user)
        if key is None:
            return False
        try:
            key.verify(signature, proof_text(nonce, self._cluster, self._daemon, user, binding))
        except InvalidSignature:
            return False
        return True

    def verify_token(self, token: str) -> tuple[str, int] | None:
        """The subject of a valid token of a listed issuer, and its time left; None if it is not accepted."""
        for issuer, audience, key in self._issuers:
            try:
                claims = jwt.decode(
                    token,
                    key,
                    algorithms=_ALGORITHMS,
                    issuer=issuer,
                    audience=audience,
                    leeway=LEEWAY_SECONDS,
                    options={"require": _REQUIRED},
                )
            except jwt.InvalidTokenError:
                continue
            subject = claims["sub"]
            # A subject that looks like a user of this host, or like nobody, would have foreign rights.
            if not isinstance(subject, str) or not is_user(subject):
                return None
            return subject, left_us(int(claims["exp"]) + LEEWAY_SECONDS)
        return None


def _load(key: str, base: Path, file: str) -> Ed25519PublicKey:
    if key.startswith(KEY_LINE):
        return parse_user_public_key(key.encode(), f"{file}: users")
    return load_user_public_key(base / key)


def left_us(expires_seconds: int) -> int:
    """The time until credentials expire, of which the Unix time is given; at most LEFT_US_MAX."""
    return min(max(0, int((expires_seconds - time.time()) * 1_000_000)), LEFT_US_MAX)


@lru_cache(maxsize=1024)
def uid_identity(uid: int) -> str:
    """The identity of a user of this host; kept, since a name service may be slow."""
    return f"{UID_PREFIX}{user_name(uid)}"
