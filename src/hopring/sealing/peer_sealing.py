"""Seals the datagrams of peers with a cluster key: any process that has the key may take part.

Implements  AES-256-GCM, with a key for each process and 2^32 packets, and the number of the packet as nonce.
Below       datagrams that anybody may read.
Above       datagrams of version 1 (rmp/packing.py).
Invariants  no two datagrams of one key have the same nonce. A number of a process is taken once.
Deviations  the processes are not configured, so their keys are derived when they are first heard. A process
            that has just begun does not know which numbers of others are old: an old datagram does no more
            there than one that the network has delayed. Long packets are not sealed as a whole, since each
            segment may be sent again by another process.

| field | bytes | meaning |
| magic, version | 2 + 1 | `HR`, 2 |
| form | 1 | 6 |
| cluster | 4 | hash of domain and group |
| process | 14 | address, port, and nonce of its start |
| key | 4 | id of the cluster key |
| counter | 8 | number of the datagram among those of this process; also the nonce of the cipher |
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from hopring.errors import Drop, HopError, PeerError
from hopring.sealing.keys import EPOCH_SHIFT, KeyRing
from hopring.sealing.packet import SEALED_VERSION, TAG_BYTES, nonce_of
from hopring.sealing.replay import ReplayWindow
from hopring.wire.header import MAGIC
from hopring.wire.header import VERSION as CLEAR_VERSION
from hopring.wire.rmp.ids import PeerProcess
from hopring.wire.train import Train

PEER_FORM: Final = 6
SENDERS_MAX: Final = 1024
"""Limit of the processes whose keys and numbers are remembered; the one heard longest ago is forgotten."""

COUNTER_MAX: Final = 2**63
TRAIN_DATAGRAMS_MAX: Final = 40
"""Sealed datagrams that are sent in one system call: with all heads they are shorter than 64 KiB."""

_HEAD: Final = Struct("<2sBBIIHQIQ")
HEAD_BYTES: Final = _HEAD.size
PEER_OVERHEAD_BYTES: Final = HEAD_BYTES + TAG_BYTES
"""Bytes that a sealed datagram has more than the same datagram in the clear."""


class PeerNumbersUsedUp(HopError):
    """This process has sent as many datagrams as its keys allow; the next one has other keys."""

    def __init__(self) -> None:
        super().__init__("this peer has sent 2^63 datagrams, all that its keys allow; connect again")


@dataclass(slots=True)
class _Sender:
    """What is known of one process: its ciphers by epoch, and the numbers that came."""

    window: ReplayWindow = field(default_factory=lambda: ReplayWindow(0))
    ciphers: dict[tuple[int, int], AESGCM] = field(default_factory=dict)  # By key id and epoch.


class PeerSealing:
    """Seals what one process sends, and opens what others have sent."""

    def __init__(self, me: PeerProcess, domain: str, keys: KeyRing) -> None:
        self.keys = keys
        self.counter = 0
        self._me, self._domain = me, domain.encode()
        self._own: dict[tuple[int, int], AESGCM] = {}
        self._senders: OrderedDict[PeerProcess, _Sender] = OrderedDict()

    @property
    def senders(self) -> int:
        """How many other processes have been heard, as far as they are remembered."""
        return len(self._senders)

    def use(self, keys: KeyRing) -> None:
        """Takes other keys from now on; numbers go on, and those of others stay known."""
        self.keys = keys
        self._own.clear()
        for sender in self._senders.values():
            sender.ciphers.clear()

    def seal_train(self, cluster: int, train: Train) -> list[Train]:
        """A train in the clear as sealed ones."""
        sealed = [self.seal(cluster, one) for one in train.datagrams()]
        size = train.segment_bytes + PEER_OVERHEAD_BYTES
        some = [sealed[at : at + TRAIN_DATAGRAMS_MAX] for at in range(0, len(sealed), TRAIN_DATAGRAMS_MAX)]
        return [Train(b"".join(one), size) for one in some]

    def seal(self, cluster: int, datagram: bytes) -> bytes:
        """One datagram with its head, sealed."""
        self.counter += 1
        if self.counter > COUNTER_MAX:
            raise PeerNumbersUsedUp
        use = self.keys.use
        head = _HEAD.pack(MAGIC, SEALED_VERSION, PEER_FORM, cluster, *self._me, use, self.counter)
        cipher = self._cipher(self._own, self._me, use, self.counter)
        return head + cipher.encrypt(nonce_of(self.counter), datagram, head)

    def open(self, datagram: bytes, address: int, port: int) -> bytes:
        """The datagram in the clear; refused unless it comes from where its process is, for the first time."""
        if len(datagram) < PEER_OVERHEAD_BYTES:
            raise PeerError(Drop.TRUNCATED, f"{len(datagram)} bytes hold no sealed datagram")
        head = datagram[:HEAD_BYTES]
        magic, version, form, _cluster, *who, key, counter = _HEAD.unpack(head)
        if magic != MAGIC:
            raise PeerError(Drop.MAGIC, f"datagram starts with {magic!r}")
        if version == CLEAR_VERSION:
            raise PeerError(Drop.CLEAR_TEXT, "a datagram without encryption, and this peer has a key")
        if version != SEALED_VERSION or form != PEER_FORM:
            raise PeerError(Drop.VERSION, f"version {version} and form {form}")
        process = PeerProcess(*who)
        if (process.address, process.port) != (address, port):
            raise PeerError(Drop.FOREIGN_SENDER, f"a datagram of {process} from another place")
        if key not in self.keys.keys:
            raise PeerError(Drop.KEY, f"key {key:08x}, which is none of ours")
        known = self._senders.get(process)
        sender = known or _Sender()
        if not 0 < counter <= COUNTER_MAX or not sender.window.is_new(counter):
            raise PeerError(Drop.REPLAY, f"datagram {counter} of {process} has come, or is old")
        cipher = self._cipher(sender.ciphers, process, key, counter)
        try:
            clear = cipher.decrypt(nonce_of(counter), datagram[HEAD_BYTES:], head)
        except InvalidTag:
            raise PeerError(Drop.SEAL, f"a seal that is not of key {key:08x}") from None
        self._remember(process, sender, counter)
        return clear

    def _remember(self, process: PeerProcess, sender: _Sender, counter: int) -> None:
        """Only what was opened counts: forged datagrams displace nobody."""
        sender.window.accept(counter)
        self._senders[process] = sender
        self._senders.move_to_end(process)
        if len(self._senders) > SENDERS_MAX:
            self._senders.popitem(last=False)

    def _cipher(
        self, ciphers: dict[tuple[int, int], AESGCM], process: PeerProcess, key: int, counter: int
    ) -> AESGCM:
        epoch = counter >> EPOCH_SHIFT
        found = ciphers.get((key, epoch))
        if found is None:
            ciphers.clear()
            found = ciphers[key, epoch] = self.keys.keys[key].peer_key(self._domain, process, epoch)
        return found
