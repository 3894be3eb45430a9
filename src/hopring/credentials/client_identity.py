"""Keys and tokens of clients in files: loaded once for `connect`, tokens anew for each connection."""

from pathlib import Path

from hopring.credentials.files import CredentialError, read_secret
from hopring.credentials.user_keys import load_user_key
from hopring.session.protocol import (
    TOKEN_BYTES_MAX,
    AuthRequest,
    ChallengeReply,
    ProofRequest,
    proof_text,
)


class KeyIdentity:
    """A user with an Ed25519 key."""

    proves = True

    def __init__(self, user: str, key: Path) -> None:
        self.user = user
        self._key = load_user_key(key)

    def introduce(self) -> AuthRequest:
        """Names the user; the proof follows the daemon's challenge."""
        return AuthRequest("key", self.user)

    def prove(self, challenge: ChallengeReply, binding: bytes) -> ProofRequest:
        """Signs the challenge with the names of cluster and daemon, and the channel."""
        text = proof_text(challenge.nonce, challenge.cluster, challenge.daemon, self.user, binding)
        return ProofRequest(self._key.sign(text))


class TokenIdentity:
    """A token in a file, which may be replaced by a new one at any time."""

    proves = False

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read()

    def introduce(self) -> AuthRequest:
        """Shows the token that is in the file now."""
        return AuthRequest("token", "", self._read())

    def prove(self, challenge: ChallengeReply, binding: bytes) -> ProofRequest:
        """Never called: a token needs no proof."""
        raise AssertionError(challenge, binding)

    def _read(self) -> str:
        content = read_secret(self._path).strip()
        if not content.isascii() or not 0 < len(content) <= TOKEN_BYTES_MAX:
            problem = f"has no token of 1 to {TOKEN_BYTES_MAX} ASCII characters"
            raise CredentialError(self._path, problem, "ask the issuer for another token")
        return content.decode()
