"""Seals what one process sends: single datagrams, trains, and datagrams that a site shares.

Implements  AES-256-GCM with a key for each sending process, and the number of the packet as nonce.
Below       datagrams that anybody may read.
Above       frames of links and datagrams of version 1; `sealing.py` opens them at the other end.
Invariants  no two ciphertexts of one key have the same nonce: a number is used for one packet, and the two
            ciphertexts of a train have different parts in it.

Forms. A packet that fits in a datagram is sealed by itself. A longer one is sealed as a whole, and its
ciphertext is cut into a train: that is several times cheaper than to seal every datagram, but one lost datagram
loses the packet. So repeats of longer packets, and the next SINGLY_SENDS of them on the same link, are sealed
singly, and on a path that loses packets links ask for single segments as without encryption. A packet for the
whole site and the token that follows it for one member are sealed as one datagram, which all get; `sealing.py`
gives the token to that member only.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, final

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from hopring.errors import HopError
from hopring.ids import DaemonId, Process
from hopring.sealing.keys import EPOCH_SHIFT, ClusterKey
from hopring.sealing.packet import (
    EVERYBODY,
    HEAD_BYTES,
    OVERHEAD_BYTES,
    PLACE_BYTES,
    REST,
    RIDER_BYTES,
    START_BYTES,
    TAG_BYTES,
    Form,
    SealedHead,
    encode_head,
    encode_place,
    encode_rider,
    finish_head,
    join_train,
    nonce_of,
    train_heads,
)
from hopring.wire.data import SEGMENT_OVERHEAD_BYTES, Data, Segment, datagrams_max_of
from hopring.wire.header import Family
from hopring.wire.train import Frame, LongDatagram, Train, encode, encode_both, encode_long

SINGLY_SENDS: Final = 64
"""How often a link that repeated a packet seals datagrams singly."""

COUNTER_MAX: Final = 2**63
"""A process that has sent this many packets has to start again."""


class SealedCluster(NamedTuple):
    """The facts that sealing needs: name of the cluster, hash of its configuration, number of daemons."""

    name: str
    hash: int
    daemons: int


class CountersUsedUp(HopError):
    """This process has sent as many packets as its keys allow; the next one has other keys."""

    def __init__(self) -> None:
        super().__init__("this process has sent 2^63 packets, all that its keys allow; start the daemon again")


@final
class _OwnKey:
    """What this process seals with in one epoch: a cipher, and the first bytes of the heads."""

    def __init__(self, end: int, cipher: AESGCM, datagram: bytes, train: bytes, shared: bytes) -> None:
        self.end: Final = end  # The first number that is not of this epoch.
        self.cipher: Final = cipher
        self.datagram: Final = datagram
        self.train: Final = train
        self.shared: Final = shared


class PacketSealer:
    """Seals the packets of one process."""

    def __init__(self, me: Process, cluster: SealedCluster, key: ClusterKey, counter: int) -> None:
        self.me: Final = me
        self.counter = counter
        """The number of the last packet: another layer of the same process and keys goes on from there."""
        self._cluster: Final = cluster
        self._name: Final = cluster.name.encode()
        self._key = key
        self._own: _OwnKey | None = None
        # By `_link`: the highest packet, and how often more to seal singly.
        self._tops: dict[int, int] = {}
        self._ring_top = -1  # The highest packet of the ring that came from others.
        self._singly: dict[int, int] = {}

    @property
    def key_in_use(self) -> int:
        """The id of the key that this process seals with."""
        return self._key.id

    def begin(self) -> None:
        """Another network begins, whose links count their packets anew."""
        self._tops.clear()
        self._ring_top = -1
        self._singly.clear()

    # Frames of links.

    def seal_frames(
        self, head: bytes, family: Family, frames: Sequence[Frame], segment_bytes: int, to: DaemonId
    ) -> list[Train]:
        """Packs frames of a link into datagrams of version 1 and seals these."""
        wire_bytes = segment_bytes + OVERHEAD_BYTES
        if _fit(frames, segment_bytes):
            trains = encode(head, frames, segment_bytes)
            if len(trains) == 1 and len(trains[0].buffer) <= segment_bytes:
                return [Train(self._seal(trains[0].buffer, to), wire_bytes)]
            return [Train(self._seal(clear, to), wire_bytes) for train in trains for clear in train.datagrams()]
        if self._is_repeat(family, to, frames):
            return [
                Train(b"".join([self._seal(one, to) for one in train.datagrams()]), wire_bytes)
                for train in encode(head, frames, segment_bytes)
            ]
        chunk_bytes = wire_bytes - HEAD_BYTES - PLACE_BYTES
        longest = max(segment_bytes, datagrams_max_of(segment_bytes) * chunk_bytes - 2 * TAG_BYTES)
        frame = frames[0]
        if len(frames) == 1 and isinstance(frame, Data):
            size = SEGMENT_OVERHEAD_BYTES + len(frame.payload)
            if segment_bytes < size <= longest:
                sealed = self._seal_train(encode_long(head, frame), to, chunk_bytes)
                return [Train(sealed, wire_bytes)]
        trains = []
        for train in encode(head, frames, longest):
            for clear in train.datagrams():
                if len(clear) <= segment_bytes:
                    trains.append(Train(self._seal(clear, to), wire_bytes))
                else:
                    cut = LongDatagram(clear[:SEGMENT_OVERHEAD_BYTES], clear[SEGMENT_OVERHEAD_BYTES:])
                    trains.append(Train(self._seal_train(cut, to, chunk_bytes), wire_bytes))
        return trains

    def seal_shared(
        self, head: bytes, frames: Sequence[Frame], more: Sequence[Frame], segment_bytes: int, to: DaemonId
    ) -> Train | None:
        """One datagram for the whole site, with more frames for one daemon; None if it would be too long."""
        both = encode_both(head, frames, more, segment_bytes - RIDER_BYTES)
        if both is None:
            return None
        clear, size = both
        own = self._number_packet()
        nonce = nonce_of(self.counter)
        sealed_head = finish_head(own.shared, EVERYBODY, nonce)
        sealed = sealed_head + own.cipher.encrypt(nonce, clear + encode_rider(to, size), sealed_head)
        return Train(sealed, len(sealed))

    def saw_packets(self, frames: tuple[Frame, ...]) -> None:
        """Notes packets of the ring that others have sent: this daemon may be asked to repeat them."""
        for frame in frames:
            if isinstance(frame, (Data, Segment)) and frame.seq > self._ring_top:
                self._ring_top = frame.seq

    def _is_repeat(self, family: Family, to: DaemonId, frames: Sequence[Frame]) -> bool:
        """Whether these frames repeat packets, or others to the same receiver did so a short time ago."""
        link = _link(family, to)
        top = self._tops.get(link, -1)
        if family is Family.RING and to == EVERYBODY:
            top = max(top, self._ring_top)
        highest = top
        repeats = False
        for frame in frames:
            if isinstance(frame, Segment):
                repeats = True
            elif isinstance(frame, Data):
                repeats = repeats or frame.seq <= top
                highest = max(highest, frame.seq)
        if highest > top:
            self._tops[link] = highest
        left = SINGLY_SENDS if repeats else self._singly.get(link, 0)
        if left:
            self._singly[link] = left - 1
        return left > 0

    # Datagrams.

    def seal_datagram(self, clear: bytes, to: DaemonId) -> Train:
        """Seals one datagram, of whatever size, for one daemon."""
        sealed = self._seal(clear, to)
        return Train(sealed, len(sealed))

    def _seal(self, clear: bytes, to: DaemonId) -> bytes:
        own = self._number_packet()
        nonce = nonce_of(self.counter)
        head = finish_head(own.datagram, to, nonce)
        return head + own.cipher.encrypt(nonce, clear, head)

    def _seal_train(self, clear: LongDatagram, to: DaemonId, chunk_bytes: int) -> bytes:
        own = self._number_packet()
        nonce = nonce_of(self.counter)
        head = finish_head(own.train, to, nonce)
        sealed_bytes = len(clear.start) + len(clear.rest) + 2 * TAG_BYTES
        count = -(-sealed_bytes // chunk_bytes)
        aad = head + encode_place(0, count, sealed_bytes)
        start = own.cipher.encrypt(nonce, clear.start, aad)
        rest = own.cipher.encrypt(nonce_of(self.counter | REST), clear.rest, aad + start)
        return join_train(train_heads(head, count, sealed_bytes, count), start, rest, chunk_bytes)

    def _seal_handshake(self, form: Form, key: ClusterKey, body: bytes, to: DaemonId) -> Train:
        self._number_packet()
        nonce = nonce_of(self.counter)
        head = finish_head(self._start(form, key), to, nonce)
        cipher = key.sender_key(self._name, self.me, self.counter >> EPOCH_SHIFT)
        sealed = head + cipher.encrypt(nonce, body, head)
        return Train(sealed, len(sealed))

    def _number_packet(self) -> _OwnKey:
        """Gives the next packet its number, which `counter` then is; returns what to seal it with."""
        own = self._own
        self.counter += 1
        if own is None or self.counter >= own.end:
            own = self._own = self._own_key(self.counter)
        return own

    def _own_key(self, counter: int) -> _OwnKey:
        _check_number(counter)
        key, epoch = self._key, counter >> EPOCH_SHIFT
        starts = [self._start(form, key) for form in (Form.DATAGRAM, Form.TRAIN, Form.SHARED)]
        return _OwnKey((epoch + 1) << EPOCH_SHIFT, key.sender_key(self._name, self.me, epoch), *starts)

    def _start(self, form: Form, key: ClusterKey) -> bytes:
        return encode_head(SealedHead(form, self._cluster.hash, *self.me, key.id, EVERYBODY, 0))[:START_BYTES]


def _check_number(counter: int) -> None:
    if counter >= COUNTER_MAX:
        raise CountersUsedUp


def _fit(frames: Sequence[Frame], segment_bytes: int) -> bool:
    """Whether each frame fits in a datagram, so that none is cut."""
    for frame in frames:
        if isinstance(frame, Data) and len(frame.payload) > segment_bytes - SEGMENT_OVERHEAD_BYTES:
            return False
        if isinstance(frame, Segment):
            return False
    return True


def _link(family: Family, to: DaemonId) -> int:
    """A number for the packets of one link, or of the ring, of this process."""
    return family << 16 | to
