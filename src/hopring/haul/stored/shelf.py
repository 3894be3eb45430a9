"""The files of a cluster as all its members have them: how much is here, whether it is whole, and who needs it.

Implements  Makpangou and Birman, 3.1 and 5.3: the service has a file before it is sent, so that neither its
            sender nor any process here is needed afterwards.
Below       the disk of each member, which has the content (`StoreFilePiece`, `DropFile`).
Above       the application manager, whose state this is a part of: it changes by entries of the log alone.
Invariants  a file grows at its end only. It is whole when a member has found that its content has its digest;
            nothing is delivered with a file, and no file is sent on, before that. It goes when no parcel needs
            it any more, or, if none ever did, when nobody has added to it for a while.
"""

from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec

from hopring.errors import Drop, PeerError
from hopring.haul.ids import ParcelId
from hopring.haul.link.frames import FILES_MAX, WideFile
from hopring.ids import NEVER

FILES_BYTES_MAX: Final = 10 * 1024**3
"""All files of a cluster that are under way."""

UPLOAD_US: Final = 3_600_000_000
"""A file that no parcel names is kept for so long after the last piece of it."""


class FileKey(NamedTuple):
    """The name of a file on the disks of the members; one that begins anew has another name."""

    digest: bytes
    attempt: int


@dataclass(frozen=True, slots=True)
class StoreFilePiece:
    """Each member adds this to a file on its disk, at its end."""

    key: FileKey
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class DropFile:
    """Nobody needs this file any more."""

    key: FileKey


FileAct = StoreFilePiece | DropFile
FileUser = tuple[str, ParcelId]
"""A parcel of a set that comes with the file."""


@dataclass(slots=True)
class KeptFile:
    """One file, as far as it has come."""

    size_bytes: int
    attempt: int
    offset: int = 0  # All before this is here.
    whole: bool = False
    touched_us: int = 0  # Of the time of the state.
    users: set[FileUser] = field(default_factory=set)

    @property
    def is_complete(self) -> bool:
        """Whether nothing is missing, right or wrong."""
        return self.offset == self.size_bytes


class KeptFileState(msgspec.Struct, array_like=True):
    """A file in a snapshot."""

    digest: bytes
    size_bytes: int
    attempt: int
    offset: int
    whole: bool
    touched_us: int
    users: list[FileUser]


class FileShelf:
    """All files of a cluster, by their digests."""

    def __init__(self, bytes_max: int, upload_us: int) -> None:
        self.files: dict[bytes, KeptFile] = {}
        self.attempts = 0
        self.acts: list[FileAct] = []  # Taken by the application manager after each entry.
        self._bytes_max = bytes_max
        self._upload_us = upload_us

    @property
    def wake_at_us(self) -> int:
        """When a file that no parcel names is given up."""
        idle = [one.touched_us for one in self.files.values() if not one.users]
        return min(idle) + self._upload_us if idle else NEVER

    def is_whole(self, digest: bytes) -> bool:
        """Whether a file is here, and right."""
        kept = self.files.get(digest)
        return kept is not None and kept.whole

    def has_room(self, size_bytes: int) -> bool:
        """Whether a client may bring a file of this size."""
        total = sum([one.size_bytes for one in self.files.values()])
        return len(self.files) < FILES_MAX and total + max(1, size_bytes) <= self._bytes_max

    def begin(self, digest: bytes, size_bytes: int, now_us: int) -> KeptFile:
        """The file of a digest, which is made if it is new."""
        kept = self.files.get(digest)
        if kept is None:
            self.attempts += 1
            kept = self.files[digest] = KeptFile(size_bytes, self.attempts)
        kept.touched_us = max(kept.touched_us, now_us)
        return kept

    def check(self, file: WideFile) -> None:
        """Raises PeerError if a peer's file contradicts what is known of its digest."""
        kept = self.files.get(file.digest)
        if kept is not None and kept.size_bytes != file.size_bytes and (kept.users or kept.whole):
            raise PeerError(Drop.INCONSISTENT, f"a file of {file.size_bytes} bytes, and of {kept.size_bytes}")

    def expect(self, file: WideFile, user: FileUser, now_us: int) -> None:
        """A parcel that has arrived needs a file; `check` has accepted it."""
        kept = self.files.get(file.digest)
        if kept is not None and kept.size_bytes != file.size_bytes:
            self._remove(file.digest)  # A client's, of which no parcel is known: its size is wrong.
        self.begin(file.digest, file.size_bytes, now_us).users.add(user)

    def put(self, digest: bytes, offset: int, data: bytes, now_us: int) -> None:
        """A piece of a file; what is here already, or comes too early, changes nothing."""
        kept = self.files[digest]
        kept.touched_us = max(kept.touched_us, now_us)
        if kept.whole or not offset <= kept.offset < offset + len(data):
            return
        new = data[kept.offset - offset :]
        self.acts.append(StoreFilePiece(FileKey(digest, kept.attempt), kept.offset, new))
        kept.offset += len(new)

    def verified(self, key: FileKey, *, fits: bool) -> bool:
        """A member has compared a file with its digest; returns whether it is whole from here on."""
        kept = self.files.get(key.digest)
        if kept is None or kept.attempt != key.attempt or kept.whole or not kept.is_complete:
            return False
        if fits:
            kept.whole = True
            return True
        self._remove(key.digest)
        if kept.users:  # It comes again, from the beginning.
            self.begin(key.digest, kept.size_bytes, kept.touched_us).users = kept.users
        return False

    def release(self, digest: bytes, user: FileUser) -> None:
        """A parcel does not need its file any more."""
        kept = self.files.get(digest)
        if kept is not None:
            kept.users.discard(user)
            if not kept.users:
                self._remove(digest)

    def expire(self, now_us: int) -> None:
        """Gives up what no parcel names."""
        for digest, kept in list(self.files.items()):
            if not kept.users and now_us >= kept.touched_us + self._upload_us:
                self._remove(digest)

    def _remove(self, digest: bytes) -> None:
        kept = self.files.pop(digest)
        self.acts.append(DropFile(FileKey(digest, kept.attempt)))

    def take(self) -> list[FileAct]:
        """What the members do since the last call."""
        acts, self.acts = self.acts, []
        return acts

    def state(self) -> list[KeptFileState]:
        """All of it, for a snapshot."""
        return [
            KeptFileState(
                digest, one.size_bytes, one.attempt, one.offset, one.whole, one.touched_us, sorted(one.users)
            )
            for digest, one in self.files.items()
        ]

    def restore(self, attempts: int, files: list[KeptFileState]) -> None:
        """Replaces it by that of a snapshot."""
        self.attempts, self.acts = attempts, []
        self.files = {
            one.digest: KeptFile(
                one.size_bytes, one.attempt, one.offset, one.whole, one.touched_us, set(one.users)
            )
            for one in files
        }
