"""Cluster keys: secrets that all daemons share, their ids, and the keys of single senders derived from them.

Implements  HKDF-SHA256 (RFC 5869) over a cluster key of 256 bits, AES-256-GCM (NIST SP 800-38D). Invariants
the key of a sender is derived from the cluster's name, the daemon, its incarnation and an epoch of its
            counter, so no two processes and no two epochs of one process share a key and no nonce is used
            twice. The id of a key is derived from it one way: it may be sent in the clear, logged and shown.
"""

from collections.abc import Iterable
from struct import Struct
from typing import Final

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from hopring.errors import HopError
from hopring.ids import Process
from hopring.wire.rmp.ids import PeerProcess, encode_process

KEY_BYTES: Final = 32
KEYS_MAX: Final = 2
"""Keys that are live at a time: the one in use, and the one that replaces it."""

EPOCH_SHIFT: Final = 32
"""A sender's key is changed after 2^32 packets, well below the limits of AES-GCM."""

_EPOCH: Final = Struct("<Q")
_SENDER: Final = Struct("<HQQ")  # daemon, incarnation, epoch


class BadKey(HopError):
    """A key, or a set of keys, that cannot be used."""


class ClusterKey:
    """A secret of the cluster. Its representation shows only its id."""

    __slots__ = ("_secret", "id")

    def __init__(self, secret: bytes) -> None:
        if len(secret) != KEY_BYTES:
            raise BadKey(f"a cluster key has {KEY_BYTES} bytes, this one {len(secret)}")
        self._secret = secret
        self.id: Final = int.from_bytes(_derive(secret, b"hopring key id", 4), "little")

    def __repr__(self) -> str:
        return f"ClusterKey({self.id:08x})"

    def sender_key(self, cluster: bytes, sender: Process, epoch: int) -> AESGCM:
        """The cipher of everything that this process sends in this epoch."""
        who = _SENDER.pack(sender.daemon, sender.incarnation, epoch)
        return AESGCM(_derive(self._secret, b"hopring datagrams" + who + cluster, KEY_BYTES))

    def peer_key(self, domain: bytes, sender: PeerProcess, epoch: int) -> AESGCM:
        """The cipher of everything that this process without a daemon sends in this epoch."""
        who = encode_process(sender) + _EPOCH.pack(epoch)
        return AESGCM(_derive(self._secret, b"hopring peers" + who + domain, KEY_BYTES))


class KeyRing:
    """The live keys of a cluster by id, and the id of the key that is to be used for sending."""

    def __init__(self, keys: Iterable[ClusterKey], use: int) -> None:
        self.keys: Final = {key.id: key for key in keys}
        self.use: Final = use
        if not 1 <= len(self.keys) <= KEYS_MAX:
            raise BadKey(f"{len(self.keys)} cluster keys, between 1 and {KEYS_MAX} may be live")
        if use not in self.keys:
            raise BadKey(f"key {use:08x} is to be used and is not among the live ones")

    def __repr__(self) -> str:
        ids = ", ".join(f"{one:08x}" for one in sorted(self.keys))
        return f"KeyRing({ids}; use {self.use:08x})"


def _derive(secret: bytes, purpose: bytes, size: int) -> bytes:
    return HKDF(SHA256(), size, None, purpose).derive(secret)
