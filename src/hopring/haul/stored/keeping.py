"""What one member has on its disk beside its log, and what it lacks of that: another member gives it.

Below       the disk of this member; the group of the members (`Aside`).
Above       the member, which hands in what the state asks for.
Invariants  content on a disk is what the state says of that file, up to its size here: pieces are added at the
            end, in the order of the log. A member that got the state from another one, as a snapshot, lacks
            content; it asks the others, one after the other, and everybody else takes what comes, too.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import msgspec

from hopring.blocks.log.messages import Aside
from hopring.haul.ids import ParcelId
from hopring.haul.link.frames import CHUNK_BYTES_MAX
from hopring.haul.stored.bodies import ASK_OTHER_US, BodyFiles, BodyKey, StoreBodies
from hopring.haul.stored.shelf import DropFile, FileKey, StoreFilePiece
from hopring.ids import NEVER

if TYPE_CHECKING:
    from hopring.haul.application import ApplicationManager


@dataclass(frozen=True, slots=True)
class StoreContents:
    """What is on the disk of a member when it starts."""

    files: dict[FileKey, int] = field(default_factory=dict)  # With their sizes.
    bodies: frozenset[BodyKey] = frozenset()


class PieceWanted(msgspec.Struct, frozen=True, array_like=True, tag="w"):
    """A member lacks a file from an offset on."""

    to: str  # The member that is asked.
    key: FileKey
    offset: int


class PieceGiven(msgspec.Struct, frozen=True, array_like=True, tag="g"):
    """A piece of a file, for whoever lacks it."""

    key: FileKey
    offset: int
    data: bytes


class BodiesWanted(msgspec.Struct, frozen=True, array_like=True, tag="W"):
    """A member lacks bodies of parcels."""

    to: str  # The member that is asked.
    keys: tuple[BodyKey, ...]


class BodyGiven(msgspec.Struct, frozen=True, array_like=True, tag="G"):
    """The body of a parcel, for whoever lacks it."""

    key: BodyKey
    body: bytes


StoreMessage = PieceWanted | PieceGiven | BodiesWanted | BodyGiven
_messages: Final = msgspec.msgpack.Decoder(StoreMessage)


def piece_message(round_name: str, key: FileKey, offset: int, data: bytes) -> Aside:
    """The message with a piece of a file, for the group of the members."""
    return Aside(round_name, msgspec.msgpack.encode(PieceGiven(key, offset, data)))


def body_message(round_name: str, key: BodyKey, body: bytes) -> Aside:
    """The message with the body of a parcel, for the group of the members."""
    return Aside(round_name, msgspec.msgpack.encode(BodyGiven(key, body)))


def wanted_message(round_name: str, wanted: PieceWanted | BodiesWanted) -> Aside:
    """The message that asks for what is missing."""
    return Aside(round_name, msgspec.msgpack.encode(wanted))


def decode_store_message(data: bytes) -> StoreMessage | None:
    """The message in these bytes; None if there is none."""
    try:
        message: StoreMessage = _messages.decode(data)
    except (msgspec.DecodeError, ValueError):
        return None
    return message


class MemberFiles:
    """What one member has in files beside its log."""

    def __init__(self, app: "ApplicationManager", contents: StoreContents | None = None) -> None:
        self._app = app
        self._sizes: dict[FileKey, int] = dict(contents.files) if contents is not None else {}
        self.bodies = BodyFiles(contents.bodies if contents is not None else ())
        app.bodies_beside = contents is not None
        self._asked: FileKey | None = None
        self._ask_at_us = 0
        self._turn = 0

    def size_of(self, key: FileKey) -> int:
        """How much of a file is on this disk."""
        return self._sizes.get(key, 0)

    @property
    def lacking(self) -> list[tuple[FileKey, int]]:
        """The files of the state that are not all here, with what is."""
        keys = [(FileKey(digest, one.attempt), one.offset) for digest, one in self._app.shelf.files.items()]
        return [(key, self.size_of(key)) for key, offset in keys if self.size_of(key) < offset]

    @property
    def is_whole(self) -> bool:
        """Whether all that the state names is here."""
        return not self.lacking and not self.bodies.lacking

    # What goes to the disk.

    def store(self, piece: StoreFilePiece) -> list[StoreFilePiece]:
        """The log has a piece: it is written, unless something before it is missing here."""
        have = self.size_of(piece.key)
        if not piece.offset <= have < piece.offset + len(piece.data):
            return []
        self._sizes[piece.key] = piece.offset + len(piece.data)
        return [StoreFilePiece(piece.key, have, piece.data[have - piece.offset :])]

    def drop(self, key: FileKey) -> list[DropFile]:
        """Nobody needs a file any more."""
        return [DropFile(key)] if self._sizes.pop(key, None) is not None else []

    def sweep(self) -> list[DropFile]:
        """The state was replaced: what it does not name goes."""
        files = self._app.shelf.files
        known = {FileKey(digest, one.attempt) for digest, one in files.items()}
        sets = self._app.sets.values()
        kept = {(one.name, parcel) for one in sets for parcel in one.kept}
        self.bodies.look(kept, {(one.name, parcel) for one in sets for parcel in one.bodies})
        return [one for key in self._sizes.keys() - known for one in self.drop(key)]

    # Bodies.

    def has_body(self, name: str, parcel: ParcelId) -> bool:
        """Whether a body that the state keeps is here, in memory or on the disk."""
        return parcel in self._app.sets[name].bodies or (name, parcel) in self.bodies.there

    def store_bodies(self) -> list[StoreBodies]:
        """All bodies in memory go to the disk: a snapshot without them follows."""
        if not self._app.bodies_beside:
            return []
        bodies: dict[BodyKey, bytes] = {}
        for managed in self._app.sets.values():
            bodies |= {(managed.name, parcel): body for parcel, body in managed.bodies.items()}
            managed.bodies.clear()
        return self.bodies.store(bodies)

    def body_given(self, given: BodyGiven) -> list[StoreBodies]:
        """A body from another member."""
        return self.bodies.store({given.key: given.body}) if given.key in self.bodies.lacking else []

    # What is missing.

    def wake_at_us(self) -> int:
        """When another member is asked."""
        return min(self._ask_at_us if self.lacking else NEVER, self.bodies.wake_at_us)

    def ask_for_bodies(self, me: str, members: tuple[str, ...], now_us: int) -> BodiesWanted | None:
        """Which bodies are asked for now, and of whom."""
        found = self.bodies.ask([one for one in members if one != me], now_us)
        return None if found is None else BodiesWanted(*found)

    def ask(self, me: str, members: tuple[str, ...], now_us: int) -> PieceWanted | None:
        """Which piece of a file is asked for now, and of whom."""
        others = [one for one in members if one != me]
        lacking = self.lacking
        if not lacking or not others:
            self._asked, self._ask_at_us = None, now_us + ASK_OTHER_US
            return None
        key, offset = lacking[0]
        if self._asked == key and now_us < self._ask_at_us:
            return None
        if self._asked == key:
            self._turn += 1  # The one that was asked has said nothing.
        self._asked, self._ask_at_us = key, now_us + ASK_OTHER_US
        return PieceWanted(others[self._turn % len(others)], key, offset)

    def wanted(self, wanted: PieceWanted) -> tuple[int, int] | None:
        """Offset and size of the piece that another member gets; None if it is not here."""
        size = self.size_of(wanted.key) - wanted.offset
        return (wanted.offset, min(size, CHUNK_BYTES_MAX)) if size > 0 else None

    def given(self, given: PieceGiven) -> list[StoreFilePiece]:
        """A piece from another member."""
        kept = self._app.shelf.files.get(given.key.digest)
        end = given.offset + len(given.data)
        if kept is None or kept.attempt != given.key.attempt or end > kept.offset:
            return []
        stored = self.store(StoreFilePiece(given.key, given.offset, given.data))
        if stored and self._asked == given.key:
            self._asked = None  # The next piece is asked for at once.
        return stored
