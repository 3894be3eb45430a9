"""Sealing: datagrams between daemons are encrypted, authenticated, and accepted once.

Implements  AES-256-GCM with a key for each sending process and its packet counter as nonce; a window against
            replay for each process; a challenge to every process that was not met before.
Below       datagrams that anybody may read, change, repeat, send to another daemon, or make up.
Above       wire formats of version 1 as before: `open` returns datagrams that a holder of a cluster key sealed
            for this daemon, each once.
Invariants  nothing of a packet is returned before its seal, its receiver and its counter were checked, and its
            process has answered a challenge that this daemon made after its own start. A failed check changes
            nothing but a count. Of each daemon one process is known, the one that was met last: packets of an
            earlier one, however late they arrive, are refused. ASSEMBLIES_MAX incomplete trains wait for each.
Limits      whoever has the cluster key may speak for any daemon.

Forms. A packet that fits in a datagram is sealed by itself. A longer one is sealed once, and its ciphertext is
cut into a train: that is several times cheaper than to seal every datagram, but one lost datagram loses the
packet. So repeats, and the next SINGLY_SENDS of the same link, are sealed singly, and on a path that loses
packets links ask for single segments as without encryption.

Challenge. Counters of an unknown process cannot be compared with anything: its packets may be repeats from
before this daemon started. The first one is dropped and answered with a nonce, which the process sends back in
a packet of its own; later counters are accepted. Nonces are derived from a secret of this start, the process,
the time and the number of meetings with its daemon. So challenges need no memory, a flood of old packets fills
no table, and a response that was recorded before another process of the daemon was met is of no use.

Rotation. At most two keys are live. A process seals with the key that its key ring says as soon as all
processes heard lately have announced it, and with the other one until then.
"""

import hmac
from collections.abc import Sequence
from contextlib import suppress
from struct import Struct
from typing import Final, NamedTuple, NoReturn, final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from hopring.errors import Drop, PeerError
from hopring.ids import DaemonId, Process
from hopring.sealing.keys import EPOCH_SHIFT, KEYS_MAX, KeyRing
from hopring.sealing.packet import (
    END_BYTES,
    EVERYBODY,
    HEAD_BYTES,
    NONCE_AT,
    OVERHEAD_BYTES,
    PLACE_BYTES,
    SEALED_BYTES_MAX,
    START_BYTES,
    TAG_BYTES,
    Form,
    SealedHead,
    TrainPlace,
    decode_end,
    decode_head,
    decode_place,
    encode_end,
    encode_head,
    encode_place,
    has_same_sender,
    join_train,
    nonce_of,
    split_train,
    train_heads,
)
from hopring.sealing.replay import ReplayWindow
from hopring.wire.data import SEGMENTS_MAX, Data, Segment, datagrams_max_of
from hopring.wire.header import Family
from hopring.wire.train import Frame, Train, encode

ASSEMBLIES_MAX: Final = 4
"""Incomplete sealed trains that wait for each process."""

CHALLENGE_SLOT_US: Final = 1_000_000
"""The time for which a challenge is answered: this slot and the next."""

CHALLENGE_PAUSE_US: Final = 20_000
"""The least time between two challenges to one daemon."""

ANNOUNCE_US: Final = 1_000_000
"""How often key ids are announced to a process while two keys are live."""

HEARD_US: Final = 60_000_000
"""A process that was silent for longer does not delay the use of a new key."""

SINGLY_SENDS: Final = 64
"""How often a link that repeated a packet seals datagrams singly."""

NONCE_BYTES: Final = 16
SECRET_BYTES: Final = 32
COUNTER_MAX: Final = 2**63
"""A process that has sent this many packets has to start again."""

# receiver's incarnation, nonce, number of key ids; then the ids
_HANDSHAKE: Final = Struct("<Q16sB")
_KEY_ID: Final = Struct("<I")
_HANDSHAKES: Final = (Form.CHALLENGE, Form.RESPONSE)


class SealedCluster(NamedTuple):
    """The facts that sealing needs: name of the cluster, hash of its configuration, number of daemons."""

    name: str
    hash: int
    daemons: int


class SealingSnapshot(NamedTuple):
    """The keys of a process and of those that it has met, by their ids."""

    in_use: int  # What it seals with.
    wanted: int  # What its key ring says that it is to seal with, once all others have that key.
    live: tuple[int, ...]  # What it opens with.
    met: dict[Process, tuple[int, ...]]  # The keys that each met process has announced.


class CountersUsedUp(Exception):
    """This process has sent as many packets as its keys allow."""


@final
class _Assembly:
    """The datagrams of a sealed train that have arrived so far."""

    def __init__(self, aad: bytes, count: int) -> None:
        self.aad: Final = aad
        self.chunks: Final[list[bytes | None]] = [None] * count
        self.missing = count


@final
class _Life:
    """What is known of a process that answered a challenge."""

    def __init__(self, window: ReplayWindow, now_us: int) -> None:
        self.window: Final = window
        self.heard_us = now_us
        self.announced_us = now_us
        self.keys: Final[set[int]] = set()
        self.assemblies: Final[dict[int, _Assembly]] = {}


@final
class _OwnKey:
    """What this process seals with in one epoch: a cipher, and the first bytes of the heads."""

    def __init__(self, epoch: int, cipher: AESGCM, datagram: bytes, train: bytes) -> None:
        self.epoch: Final = epoch
        self.cipher: Final = cipher
        self.datagram: Final = datagram
        self.train: Final = train


@final
class _Origin:
    """What the first bytes of a head say, checked: its form, process and key; and the life of that process."""

    def __init__(self, form: Form, process: Process, key: int, life: _Life | None) -> None:
        self.form: Final = form
        self.process: Final = process
        self.key: Final = key
        self.life: Final = life
        self.epoch = -1
        self.cipher: AESGCM | None = None  # Of this epoch.


@final
class Sealing:
    """Seals what one process sends, and opens what it receives."""

    def __init__(
        self,
        me: Process,
        cluster: SealedCluster,
        ring: KeyRing,
        secret: bytes,
        counter: int = 0,
    ) -> None:
        assert len(secret) == SECRET_BYTES, "the caller draws the secret of this start"
        self.replies: list[tuple[DaemonId, Train]] = []
        """Challenges, responses and announcements that the driver sends and takes out."""
        self.me: Final = me
        self._cluster = cluster
        self._name = cluster.name.encode()
        self._ring = ring
        self._secret = secret
        self.counter = counter
        """The number of the last packet: another layer of the same process and keys goes on from there."""
        self._sealing_key = ring.use
        self._own: _OwnKey | None = None
        self._origins: dict[bytes, _Origin] = {}  # Of lives, by the first bytes of their heads.
        self._lives: dict[Process, _Life] = {}  # At most one of each daemon.
        self._meetings: dict[DaemonId, int] = {}  # How many processes of each daemon were met.
        self._challenged_us: dict[DaemonId, int] = {}
        # By `_link`: the highest packet, and how often more to seal singly.
        self._tops: dict[int, int] = {}
        self._singly: dict[int, int] = {}

    # Keys.

    @property
    def key_in_use(self) -> int:
        """The id of the key that this process seals with."""
        return self._sealing_key

    @property
    def met(self) -> list[Process]:
        """The processes that have answered a challenge."""
        return list(self._lives)

    def keys_of(self, process: Process) -> frozenset[int]:
        """The ids of keys that a process is known to have."""
        life = self._lives.get(process)
        return frozenset() if life is None else frozenset(life.keys)

    def snapshot(self) -> SealingSnapshot:
        """The keys at this moment."""
        met = {process: tuple(sorted(life.keys)) for process, life in self._lives.items()}
        return SealingSnapshot(self._sealing_key, self._ring.use, tuple(sorted(self._ring.keys)), met)

    def change_keys(self, ring: KeyRing, now_us: int) -> None:
        """Takes another key ring; the keys that it has no more are forgotten at once."""
        self._ring = ring
        self._own = None
        self._origins.clear()
        for life in self._lives.values():
            life.announced_us = now_us - ANNOUNCE_US
        if self._sealing_key not in ring.keys:
            self._sealing_key = ring.use
        for process in self._lives:
            self._announce(process, now_us)
        self._choose_key(now_us)

    def _choose_key(self, now_us: int) -> None:
        lately = [life for life in self._lives.values() if now_us - life.heard_us <= HEARD_US]
        wanted = self._ring.use
        self._own = None
        if all(wanted in life.keys for life in lately):
            self._sealing_key = wanted
            return
        for other in self._ring.keys:
            if all(other in life.keys for life in lately):
                self._sealing_key = other

    def _announce(self, process: Process, now_us: int) -> None:
        life = self._lives[process]
        if len(self._ring.keys) < 2 or now_us - life.announced_us < ANNOUNCE_US:
            return
        life.announced_us = now_us
        self._handshake(Form.RESPONSE, process, bytes(NONCE_BYTES), self._sealing_key)

    # Out.

    def begin(self) -> None:
        """Another network begins, whose links count their packets anew."""
        self._tops.clear()
        self._singly.clear()

    def seal_frames(
        self, head: bytes, family: Family, frames: Sequence[Frame], segment_bytes: int, to: DaemonId
    ) -> list[Train]:
        """Packs frames of a link into datagrams of version 1 and seals these."""
        singly = self._is_repeat(family, to, frames)
        wire_bytes = segment_bytes + OVERHEAD_BYTES
        if singly:
            return [
                Train(b"".join([self._seal(one, to) for one in train.datagrams()]), wire_bytes)
                for train in encode(head, frames, segment_bytes)
            ]
        chunk_bytes = wire_bytes - HEAD_BYTES - PLACE_BYTES
        longest = max(segment_bytes, datagrams_max_of(segment_bytes) * chunk_bytes - TAG_BYTES)
        trains: list[Train] = []
        for train in encode(head, frames, longest):
            for clear in train.datagrams():
                if len(clear) <= segment_bytes:
                    trains.append(Train(self._seal(clear, to), wire_bytes))
                else:
                    trains.append(Train(self._seal_train(clear, to, chunk_bytes), wire_bytes))
        return trains

    def saw_packets(self, family: Family, frames: Sequence[Frame]) -> None:
        """Notes packets of a ring that others have sent: this daemon may be asked to repeat them."""
        for frame in frames:
            if isinstance(frame, (Data, Segment)):
                link = _link(family, EVERYBODY)
                if frame.seq > self._tops.get(link, -1):
                    self._tops[link] = frame.seq

    def _is_repeat(self, family: Family, to: DaemonId, frames: Sequence[Frame]) -> bool:
        """Whether these frames repeat packets, or others to the same receiver did so a short time ago."""
        link = _link(family, to)
        top = highest = self._tops.get(link, -1)
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

    def seal_datagram(self, clear: bytes, to: DaemonId) -> Train:
        """Seals one datagram, of whatever size, for one daemon."""
        sealed = self._seal(clear, to)
        return Train(sealed, len(sealed))

    def _seal(self, clear: bytes, to: DaemonId) -> bytes:
        counter = self._next_counter()
        own = self._own_key(counter)
        end = encode_end(to, counter)
        head = own.datagram + end[:END_BYTES]
        return head + own.cipher.encrypt(end[NONCE_AT:], clear, head)

    def _seal_train(self, clear: bytes, to: DaemonId, chunk_bytes: int) -> bytes:
        counter = self._next_counter()
        own = self._own_key(counter)
        end = encode_end(to, counter)
        head = own.train + end[:END_BYTES]
        sealed_bytes = len(clear) + TAG_BYTES
        count = -(-sealed_bytes // chunk_bytes)
        aad = head + encode_place(TrainPlace(0, count, sealed_bytes))
        sealed = own.cipher.encrypt(end[NONCE_AT:], clear, aad)
        return join_train(train_heads(head, count, sealed_bytes, count), sealed, chunk_bytes)

    def _next_counter(self) -> int:
        self.counter += 1
        if self.counter >= COUNTER_MAX:
            raise CountersUsedUp("this process has used all numbers of packets: start it again")
        return self.counter

    def _own_key(self, counter: int) -> _OwnKey:
        own = self._own
        if own is None or own.epoch != counter >> EPOCH_SHIFT:
            key, epoch = self._sealing_key, counter >> EPOCH_SHIFT
            cipher = self._ring.keys[key].sender_key(self._name, self.me, epoch)
            start, train = (self._start(form, key) for form in (Form.DATAGRAM, Form.TRAIN))
            own = self._own = _OwnKey(epoch, cipher, start, train)
        return own

    def _start(self, form: Form, key: int) -> bytes:
        return encode_head(SealedHead(form, self._cluster.hash, *self.me, key, EVERYBODY, 0))[:START_BYTES]

    # In.

    def open(self, buffer: memoryview, segment_bytes: int, now_us: int) -> list[bytes | PeerError]:
        """The datagrams of version 1 in one receive buffer, bad packets as the errors to count."""
        opened: list[bytes | PeerError] = []
        if len(buffer) > segment_bytes and self._open_whole(buffer, segment_bytes, now_us, opened):
            return opened
        for at in range(0, len(buffer), segment_bytes):
            try:
                self._open_one(buffer[at : at + segment_bytes], now_us, opened)
            except PeerError as error:
                opened.append(error.with_traceback(None))  # Its frames hold `opened`: a cycle.
        return opened

    def _open_one(self, datagram: memoryview, now_us: int, opened: list[bytes | PeerError]) -> None:
        head = bytes(datagram[:HEAD_BYTES])
        origin = self._origins.get(head[:START_BYTES]) or self._origin(head)
        receiver, counter = decode_end(head)
        self._check_receiver(receiver, origin.form)
        if origin.form is Form.TRAIN:
            self._assemble(origin, counter, head, datagram, now_us, opened)
            return
        life, daemon = origin.life, origin.process.daemon
        if life is not None and not life.window.is_new(counter):
            raise PeerError(Drop.REPLAY, f"packet {counter} of daemon {daemon} again, or too late")
        clear = self._decrypt(origin, counter, datagram[HEAD_BYTES:], head)
        if origin.form is not Form.DATAGRAM:
            self._shake(origin, counter, clear, now_us)
        elif life is None:
            self._challenge(origin, now_us)
        else:
            self._heard(origin, life, counter, now_us)
            opened.append(_checked(clear, head))

    def _origin(self, head: bytes) -> _Origin:
        """The origin of a packet, from its head; that of a process that was met is kept."""
        said = decode_head(head, self._cluster.hash)
        process = self._check_head(said)
        life = self._lives.get(process)
        origin = _Origin(said.form, process, said.key, life)
        if life is not None:
            self._origins[head[:START_BYTES]] = origin
        return origin

    def _check_head(self, head: SealedHead) -> Process:
        if head.sender >= self._cluster.daemons:
            raise PeerError(Drop.FOREIGN_SENDER, f"daemon {head.sender} of {self._cluster.daemons}")
        if head.sender == self.me.daemon:
            raise PeerError(Drop.FOREIGN_SENDER, "a packet in our own name")
        if head.key not in self._ring.keys:
            raise PeerError(Drop.KEY, f"key {head.key:08x}, which this daemon does not have")
        return Process(head.sender, head.incarnation)

    def _check_receiver(self, receiver: DaemonId, form: Form) -> None:
        if receiver != self.me.daemon and (receiver != EVERYBODY or form in _HANDSHAKES):
            raise PeerError(Drop.FOREIGN_SENDER, f"a packet for daemon {receiver}")

    def _decrypt(self, origin: _Origin, counter: int, sealed: bytes | memoryview, aad: bytes) -> bytes:
        epoch, cipher = counter >> EPOCH_SHIFT, origin.cipher
        if cipher is None or epoch != origin.epoch:
            cipher = self._ring.keys[origin.key].sender_key(self._name, origin.process, epoch)
        clear: bytes | None = None
        with suppress(InvalidTag):
            clear = cipher.decrypt(nonce_of(counter), sealed, aad)
        if clear is None:
            # Raised here, because the context of an exception would hold the frames, too.
            raise PeerError(Drop.SEAL, f"packet {counter} of daemon {origin.process.daemon}: wrong seal")
        origin.epoch, origin.cipher = epoch, cipher
        return clear

    def _heard(self, origin: _Origin, life: _Life, counter: int, now_us: int) -> None:
        life.window.accept(counter)
        life.heard_us = now_us
        if origin.key not in life.keys:
            life.keys.add(origin.key)
            self._choose_key(now_us)
        self._announce(origin.process, now_us)

    # Trains.

    def _open_whole(
        self, buffer: memoryview, segment_bytes: int, now_us: int, opened: list[bytes | PeerError]
    ) -> bool:
        """Opens a buffer that is exactly one sealed train in its order; False if it is anything else."""
        full = (len(buffer) - 1) // segment_bytes
        head = bytes(buffer[:HEAD_BYTES])
        origin = self._origins.get(head[:START_BYTES])
        if origin is None or origin.form is not Form.TRAIN or segment_bytes <= HEAD_BYTES + PLACE_BYTES:
            return False  # Each datagram is judged by itself.
        receiver, counter = decode_end(head)
        sealed_bytes = len(buffer) - (full + 1) * (HEAD_BYTES + PLACE_BYTES)
        if full > SEGMENTS_MAX or not TAG_BYTES < sealed_bytes <= SEALED_BYTES_MAX:
            return False
        if receiver not in (self.me.daemon, EVERYBODY):
            return False
        heads, sealed = split_train(buffer, segment_bytes, full)
        if heads != train_heads(head, full + 1, sealed_bytes, full + 1):
            return False
        aad = heads[: HEAD_BYTES + PLACE_BYTES]
        self._open_train(origin, counter, sealed, aad, now_us, opened)
        return True

    def _assemble(
        self,
        origin: _Origin,
        counter: int,
        head: bytes,
        datagram: memoryview,
        now_us: int,
        opened: list[bytes | PeerError],
    ) -> None:
        place = decode_place(datagram)
        life, daemon = origin.life, origin.process.daemon
        if life is None:
            raise PeerError(Drop.UNMET, f"a train of daemon {daemon}, which has not been challenged yet")
        if not life.window.is_new(counter):
            raise PeerError(Drop.REPLAY, f"train {counter} of daemon {daemon} again, or too late")
        aad = head + encode_place(TrainPlace(0, place.segments, place.sealed_bytes))
        assembly = life.assemblies.get(counter)
        if assembly is None:
            if len(life.assemblies) == ASSEMBLIES_MAX:
                del life.assemblies[next(iter(life.assemblies))]
            assembly = life.assemblies[counter] = _Assembly(aad, place.segments)
        if assembly.aad != aad:
            raise PeerError(Drop.INCONSISTENT, f"segments of different trains under number {counter}")
        if assembly.chunks[place.segment] is not None:
            return
        assembly.chunks[place.segment] = bytes(datagram[HEAD_BYTES + PLACE_BYTES :])
        assembly.missing -= 1
        if not assembly.missing:
            del life.assemblies[counter]
            sealed = b"".join([chunk for chunk in assembly.chunks if chunk is not None])
            self._open_train(origin, counter, sealed, aad, now_us, opened)

    def _open_train(
        self,
        origin: _Origin,
        counter: int,
        sealed: bytes,
        aad: bytes,
        now_us: int,
        opened: list[bytes | PeerError],
    ) -> None:
        life = origin.life
        assert life is not None, "trains of others are not opened"
        try:
            if not life.window.is_new(counter):
                raise PeerError(Drop.REPLAY, f"train {counter} of daemon {origin.process.daemon} again")
            clear = self._decrypt(origin, counter, sealed, aad)
        except PeerError as error:
            opened.append(error)
            return
        self._heard(origin, life, counter, now_us)
        opened.append(_checked(clear, aad))

    # Challenges.

    def _challenge(self, origin: _Origin, now_us: int) -> NoReturn:
        """Asks an unknown process, whose packet had a right seal, to answer."""
        process = origin.process
        last_us = self._challenged_us.get(process.daemon)
        if last_us is None or now_us - last_us >= CHALLENGE_PAUSE_US:
            self._challenged_us[process.daemon] = now_us
            nonce = self._nonce(process, now_us // CHALLENGE_SLOT_US)
            self._handshake(Form.CHALLENGE, process, nonce, origin.key)
        raise PeerError(Drop.UNMET, f"daemon {process.daemon} has to answer a challenge first")

    def _shake(self, origin: _Origin, counter: int, body: bytes, now_us: int) -> None:
        """Takes a challenge, a response, or an announcement, which is a response without a nonce."""
        if len(body) < _HANDSHAKE.size:
            raise PeerError(Drop.TRUNCATED, f"handshake of {len(body)} bytes")
        incarnation, nonce, count = _HANDSHAKE.unpack_from(body)
        if count > KEYS_MAX or len(body) != _HANDSHAKE.size + count * _KEY_ID.size:
            raise PeerError(Drop.LENGTH, f"handshake with {count} keys in {len(body)} bytes")
        if incarnation != self.me.incarnation:
            raise PeerError(Drop.STALE_INCARNATION, "a handshake with an earlier start of this daemon")
        process, life = origin.process, origin.life
        if origin.form is Form.CHALLENGE:
            if life is not None:
                life.window.accept(counter)
            self._handshake(Form.RESPONSE, process, nonce, origin.key)
            return
        if life is None:
            slot = now_us // CHALLENGE_SLOT_US
            fresh = [self._nonce(process, slot), self._nonce(process, slot - 1)]
            if not any(hmac.compare_digest(nonce, one) for one in fresh):
                self._challenge(origin, now_us)  # It met this daemon, which has not met it yet.
            life = self._meet(process, counter, now_us)
        else:
            life.window.accept(counter)
            life.heard_us = now_us
        life.keys.clear()
        life.keys.add(origin.key)
        life.keys.update([one[0] for one in _KEY_ID.iter_unpack(body[_HANDSHAKE.size :])])
        self._choose_key(now_us)

    def _meet(self, process: Process, counter: int, now_us: int) -> _Life:
        for earlier in [one for one in self._lives if one.daemon == process.daemon]:
            del self._lives[earlier]
        self._origins.clear()
        self._meetings[process.daemon] = self._meetings.get(process.daemon, 0) + 1
        life = self._lives[process] = _Life(ReplayWindow(counter), now_us)
        return life

    def _nonce(self, process: Process, slot: int) -> bytes:
        meetings = self._meetings.get(process.daemon, 0)
        what = f"{process.daemon} {process.incarnation} {slot} {meetings}".encode()
        return hmac.digest(self._secret, what, "sha256")[:NONCE_BYTES]

    def _handshake(self, form: Form, process: Process, nonce: bytes, key: int) -> None:
        counter = self._next_counter()
        end = encode_end(process.daemon, counter)
        head = self._start(form, key) + end[:END_BYTES]
        cipher = self._ring.keys[key].sender_key(self._name, self.me, counter >> EPOCH_SHIFT)
        keys = b"".join([_KEY_ID.pack(one) for one in sorted(self._ring.keys)])
        body = _HANDSHAKE.pack(process.incarnation, nonce, len(self._ring.keys)) + keys
        sealed = head + cipher.encrypt(end[NONCE_AT:], body, head)
        self.replies.append((process.daemon, Train(sealed, len(sealed))))


def _link(family: Family, to: DaemonId) -> int:
    """A number for the packets of one link, or of the ring, of this process."""
    return family << 16 | to


def _checked(clear: bytes, head: bytes) -> bytes | PeerError:
    """What was opened, unless it names another sender than its seal."""
    if has_same_sender(clear, head):
        return clear
    return PeerError(Drop.INCONSISTENT, "a datagram that names another sender than its seal")
