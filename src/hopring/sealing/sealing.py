"""Sealing: datagrams between daemons are encrypted, authenticated, and accepted once.

Implements  the other end of `sealer.py`; a window against replay for each process; a challenge to every process
            that was not met before.
Below       datagrams that anybody may read, change, repeat, send to another daemon, or make up.
Above       wire formats of version 1 as before: `open` returns datagrams that a holder of a cluster key sealed
            for this daemon, each once.
Invariants  nothing of a packet is returned before its seal, its receiver and its counter were checked, and its
            process has answered a challenge that this daemon made after its own start. A failed check changes
            nothing but a count. Of each daemon one process is known, the one that was met last: packets of an
            earlier one, however late they arrive, are refused. ASSEMBLIES_MAX incomplete trains wait for each.
Limits      whoever has the cluster key may speak for any daemon.

Challenge. Counters of an unknown process cannot be compared with anything: its packets may be repeats from
before this daemon started. The first one is dropped and answered with a nonce, which the process sends back in
a packet of its own; later counters are accepted. Nonces are derived from a secret of this start, the process,
the time and the number of meetings with its daemon. So challenges need no memory, a flood of old packets fills
no table, and a response that was recorded before another process of the daemon was met is of no use.

Rotation. At most two keys are live. A process seals with the key that its key ring says as soon as all
processes heard lately have announced it, and with the other one until then.
"""

import hmac
from struct import Struct
from typing import Final, NamedTuple, NoReturn, final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from hopring.errors import Drop, PeerError
from hopring.ids import DaemonId, Process
from hopring.sealing.keys import EPOCH_SHIFT, KEYS_MAX, KeyRing
from hopring.sealing.packet import (
    EVERYBODY,
    HEAD_BYTES,
    PLACE_BYTES,
    REST,
    SEALED_BYTES_MAX,
    START_BYTES,
    TRAIN_BYTES_MIN,
    TRAIN_START_BYTES,
    Form,
    SealedHead,
    counter_of,
    decode_head,
    decode_place,
    encode_place,
    nonce_of,
    receiver_of,
    refuse_short,
    sender_bytes,
    split_rider,
    split_train,
    train_heads,
)
from hopring.sealing.replay import ReplayWindow
from hopring.sealing.sealer import PacketSealer, SealedCluster
from hopring.wire.data import SEGMENTS_MAX
from hopring.wire.train import LongDatagram, Train

Opened = bytes | LongDatagram | PeerError
"""A datagram of version 1, or the error to count."""

ASSEMBLIES_MAX: Final = 4
"""Incomplete sealed trains that wait for each process."""

CHALLENGE_SLOT_US: Final = 1_000_000
"""The time for which a challenge is answered: this slot and the next."""

CHALLENGE_PAUSE_US: Final = 20_000
"""The least time between two challenges to one daemon."""

ANNOUNCE_US: Final = 1_000_000
"""How often key ids are announced to all met processes while two keys are live."""

HEARD_US: Final = 60_000_000
"""A process that was silent for longer does not delay the use of a new key."""

NONCE_BYTES: Final = 16
SECRET_BYTES: Final = 32

# receiver's incarnation, nonce, number of key ids; then the ids
_HANDSHAKE: Final = Struct("<Q16sB")
_KEY_ID: Final = Struct("<I")


class SealingSnapshot(NamedTuple):
    """The keys of a process and of those that it has met, by their ids."""

    in_use: int  # What it seals with.
    wanted: int  # What its key ring says that it is to seal with, once all others have that key.
    live: tuple[int, ...]  # What it opens with.
    met: dict[Process, tuple[int, ...]]  # The keys that each met process has announced.


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
        self.keys: Final[set[int]] = set()
        self.assemblies: Final[dict[int, _Assembly]] = {}


@final
class _Origin:
    """What the first bytes of a head say, checked: its form, process and key; and the life of that process."""

    def __init__(self, form: Form, process: Process, key: int, life: _Life | None, sender: bytes) -> None:
        self.form: Final = form
        self.process: Final = process
        self.key: Final = key
        self.life: Final = life
        self.is_train: Final = form is Form.TRAIN
        self.is_shared: Final = form is Form.SHARED
        self.is_handshake: Final = form in (Form.CHALLENGE, Form.RESPONSE)
        self.sender: Final = sender  # As in the head of each of its datagrams.
        self.is_noted = False  # That the process has this key.
        self.epoch = -1
        self.cipher: AESGCM | None = None  # Of this epoch.


@final
class Sealing(PacketSealer):
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
        super().__init__(me, cluster, ring.keys[ring.use], counter)
        self.replies: list[tuple[DaemonId, Train]] = []
        """Challenges, responses and announcements that the driver sends and takes out."""
        self._number: Final = me.daemon
        self._ring = ring
        self._announces = len(ring.keys) > 1  # While two keys are live.
        self._announced_us = 0
        self._secret = secret
        self._origins: dict[bytes, _Origin] = {}  # Of lives, by the first bytes of their heads.
        self._lives: dict[Process, _Life] = {}  # At most one of each daemon.
        self._meetings: dict[DaemonId, int] = {}  # How many processes of each daemon were met.
        self._challenged_us: dict[DaemonId, int] = {}

    # Keys.

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
        return SealingSnapshot(self.key_in_use, self._ring.use, tuple(sorted(self._ring.keys)), met)

    def change_keys(self, ring: KeyRing, now_us: int) -> None:
        """Takes another key ring; the keys that it has no more are forgotten at once."""
        self._ring = ring
        self._announces = len(ring.keys) > 1
        self._own = None
        self._origins.clear()
        self._key = ring.keys.get(self.key_in_use) or ring.keys[ring.use]
        if self._announces:
            self._announce(now_us)
        self._choose_key(now_us)

    def _choose_key(self, now_us: int) -> None:
        lately = [life for life in self._lives.values() if now_us - life.heard_us <= HEARD_US]
        wanted = self._ring.use
        self._own = None
        if all(wanted in life.keys for life in lately):
            self._key = self._ring.keys[wanted]
            return
        for other, key in self._ring.keys.items():
            if all(other in life.keys for life in lately):
                self._key = key

    def _announce(self, now_us: int) -> None:
        """Tells the keys to all met processes, again and again, also to those that send nothing here."""
        self._announced_us = now_us
        for process in self._lives:
            self._handshake(Form.RESPONSE, process, bytes(NONCE_BYTES), self.key_in_use)

    # In.

    def open(self, buffer: memoryview, segment_bytes: int, now_us: int) -> list[Opened]:
        """The datagrams of version 1 in one receive buffer, bad packets as the errors to count."""
        if len(buffer) <= segment_bytes:
            one = self.open_datagram(buffer.tobytes(), now_us)
            return [] if one is None else [one]
        whole = self._open_whole(buffer, segment_bytes, now_us)
        if whole is not None:
            return [whole]
        starts = range(0, len(buffer), segment_bytes)
        every = [self.open_datagram(buffer[at : at + segment_bytes].tobytes(), now_us) for at in starts]
        return [one for one in every if one is not None]

    def open_datagram(self, datagram: bytes, now_us: int) -> Opened | None:
        """What a datagram holds, or completes; None if that is nothing yet, or nothing for those above."""
        try:
            return self._open_one(datagram, now_us)
        except PeerError as error:
            return error.with_traceback(None)  # Frames would be kept with it.

    def _open_one(self, datagram: bytes, now_us: int) -> Opened | None:
        if len(datagram) < HEAD_BYTES:
            refuse_short(datagram)
        origin = self._origins.get(datagram[:START_BYTES])
        if origin is None:
            origin = self._origin(datagram)
        self._check_receiver(receiver_of(datagram), origin)
        counter = counter_of(datagram)
        head = datagram[:HEAD_BYTES]
        if origin.is_train:
            return self._assemble(origin, counter, head, datagram, now_us)
        life = origin.life
        if life is not None and not life.window.is_new(counter):
            self._refuse_replay(origin, counter)
        clear = self._decrypt(origin, counter, nonce_of(counter), datagram[HEAD_BYTES:], head)
        if origin.is_handshake:
            self._shake(origin, counter, clear, now_us)
            return None
        if life is None:
            self._challenge(origin, now_us)
        mine = split_rider(clear, self._number) if origin.is_shared else clear
        self._heard(origin, life, counter, now_us)
        return _checked(mine, origin.sender)

    def _refuse_replay(self, origin: _Origin, counter: int) -> NoReturn:
        said = f"packet {counter} of daemon {origin.process.daemon} again, or too late"
        raise PeerError(Drop.REPLAY, said)

    def _origin(self, head: bytes) -> _Origin:
        """The origin of a packet, from its head; that of a process that was met is kept."""
        said = decode_head(head, self._cluster.hash)
        process = self._check_head(said)
        life = self._lives.get(process)
        origin = _Origin(said.form, process, said.key, life, sender_bytes(head))
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

    def _check_receiver(self, receiver: int, origin: _Origin) -> None:
        if receiver != self._number and (receiver != EVERYBODY or origin.is_handshake):
            raise PeerError(Drop.FOREIGN_SENDER, f"a packet for daemon {receiver}")

    def _decrypt(
        self, origin: _Origin, counter: int, nonce: bytes, sealed: bytes | memoryview, aad: bytes
    ) -> bytes:
        epoch, cipher = counter >> EPOCH_SHIFT, origin.cipher
        if cipher is None or epoch != origin.epoch:
            cipher = self._ring.keys[origin.key].sender_key(self._name, origin.process, epoch)
        try:
            clear = cipher.decrypt(nonce, sealed, aad)
        except InvalidTag:
            pass
        else:
            origin.epoch, origin.cipher = epoch, cipher
            return clear
        # Raised here, because the context of an exception would hold the frames, too.
        raise PeerError(Drop.SEAL, f"packet {counter} of daemon {origin.process.daemon}: wrong seal")

    def _heard(self, origin: _Origin, life: _Life, counter: int, now_us: int) -> None:
        life.window.accept(counter)
        life.heard_us = now_us
        if not origin.is_noted:
            origin.is_noted = True
            life.keys.add(origin.key)
            self._choose_key(now_us)
        if self._announces and now_us - self._announced_us >= ANNOUNCE_US:
            self._announce(now_us)

    # Trains.

    def _open_whole(self, buffer: memoryview, segment_bytes: int, now_us: int) -> Opened | None:
        """Opens a buffer that is exactly one sealed train in its order; None if it is anything else."""
        full = (len(buffer) - 1) // segment_bytes
        if len(buffer) < HEAD_BYTES:
            return None
        head = buffer[:HEAD_BYTES].tobytes()
        origin = self._origins.get(head[:START_BYTES])
        if origin is None or not origin.is_train or segment_bytes <= HEAD_BYTES + PLACE_BYTES:
            return None  # Each datagram is judged by itself.
        sealed_bytes = len(buffer) - (full + 1) * (HEAD_BYTES + PLACE_BYTES)
        if full > SEGMENTS_MAX or not TRAIN_BYTES_MIN <= sealed_bytes <= SEALED_BYTES_MAX:
            return None
        if receiver_of(head) not in (self._number, EVERYBODY):
            return None
        heads, sealed = split_train(buffer, segment_bytes, full)
        if heads != train_heads(head, full + 1, sealed_bytes, full + 1):
            return None
        aad = heads[: HEAD_BYTES + PLACE_BYTES]
        return self._open_train(origin, counter_of(head), sealed, aad, now_us)

    def _assemble(
        self, origin: _Origin, counter: int, head: bytes, datagram: bytes, now_us: int
    ) -> Opened | None:
        place = decode_place(datagram)
        life = origin.life
        if life is None:
            said = f"a train of daemon {origin.process.daemon}, which has not been challenged yet"
            raise PeerError(Drop.UNMET, said)
        if not life.window.is_new(counter):
            self._refuse_replay(origin, counter)
        aad = head + encode_place(0, place.segments, place.sealed_bytes)
        assembly = life.assemblies.get(counter)
        if assembly is None:
            if len(life.assemblies) == ASSEMBLIES_MAX:
                del life.assemblies[next(iter(life.assemblies))]
            assembly = life.assemblies[counter] = _Assembly(aad, place.segments)
        if assembly.aad != aad:
            raise PeerError(Drop.INCONSISTENT, f"segments of different trains under number {counter}")
        if assembly.chunks[place.segment] is not None:
            return None
        assembly.chunks[place.segment] = datagram[HEAD_BYTES + PLACE_BYTES :]
        assembly.missing -= 1
        if assembly.missing:
            return None
        del life.assemblies[counter]
        sealed = b"".join([chunk for chunk in assembly.chunks if chunk is not None])
        return self._open_train(origin, counter, sealed, aad, now_us)

    def _open_train(self, origin: _Origin, counter: int, sealed: bytes, aad: bytes, now_us: int) -> Opened:
        life = origin.life
        assert life is not None, "trains of others are not opened"
        try:
            if not life.window.is_new(counter):
                self._refuse_replay(origin, counter)
            first = sealed[:TRAIN_START_BYTES]
            start = self._decrypt(origin, counter, nonce_of(counter), first, aad)
            others = memoryview(sealed)[TRAIN_START_BYTES:]
            rest = self._decrypt(origin, counter, nonce_of(counter | REST), others, aad + first)
        except PeerError as error:
            return error.with_traceback(None)
        self._heard(origin, life, counter, now_us)
        checked = _checked(start, origin.sender)
        return checked if isinstance(checked, PeerError) else LongDatagram(checked, rest)

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
        self._origins.clear()
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
        keys = b"".join([_KEY_ID.pack(one) for one in sorted(self._ring.keys)])
        body = _HANDSHAKE.pack(process.incarnation, nonce, len(self._ring.keys)) + keys
        sealed = self._seal_handshake(form, self._ring.keys[key], body, process.daemon)
        self.replies.append((process.daemon, sealed))


def _checked(clear: bytes, sender: bytes) -> bytes | PeerError:
    """What was opened, unless it names another sender than its seal."""
    if sender_bytes(clear) == sender:
        return clear
    return PeerError(Drop.INCONSISTENT, "a datagram that names another sender than its seal")
