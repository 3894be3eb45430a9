"""Pages of a spool: what a spooler answers to a program elsewhere that replays the past of a group.

A page has as many records as fit into a reply. One that does not fit alone comes in pieces, each a page of its
own. The first question says where to begin: at an offset, or behind a place in the order, which is the same in
all spools of the group. Its answer names the spool, and later questions go to that one only, because offsets
differ between spools.

Invariants  a page begins where it was asked to; an error is raised, and becomes that of the request.
"""

from pathlib import Path
from typing import Final

import msgspec

from hopring.ids import Place
from hopring.spool.errors import NotASpool, OffsetMissing, SpoolError
from hopring.spool.files import bases
from hopring.spool.reading import after_place, bounds, marks_before, read, read_head
from hopring.spool.record import SpoolRecord

REPLAY_SUFFIX: Final = "?spool"
"""Spoolers serve the group with this behind its name."""

PAGE_RECORDS: Final = 1_000
REQUEST_BYTES_MAX: Final = 1024
PAGE_SPARE_BYTES: Final = 4_096
"""Room in a reply for what is not records."""


class PlaceMissing(SpoolError, LookupError):
    """No message of the spool has this place."""

    def __init__(self, path: Path | str, place: Place) -> None:
        remedy = "begin at an offset, or at the place of a message of this group that is in the spool"
        super().__init__(path, f"it has no message at the place {tuple(place)}", remedy)
        self.place = place


class PageRequest(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Asks for a page, or for the marks before an offset."""

    spool: str = ""  # Its id in hexadecimal; empty at first, for that of any spooler.
    since: int | None = None
    place: Place | None = None  # Instead of an offset: begin behind the messages at this place.
    piece_at: int = 0  # Where the next piece of a long record begins.
    marks: bool = False  # Asks for the last batches before the offset instead.


class SpoolPage(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Records of a spool, or a piece of the encoding of one."""

    spool: str
    first: int  # The offset of the first record.
    records: tuple[SpoolRecord, ...] = ()
    piece: bytes = b""
    piece_end: int = 0  # The size of the encoded record that the piece is of; 0 for whole records.
    marks: dict[str, int] | None = None


_encoder: Final = msgspec.msgpack.Encoder(enc_hook=dict)  # Headers are mappings.
_requests: Final = msgspec.msgpack.Decoder(PageRequest)
_pages: Final = msgspec.msgpack.Decoder(SpoolPage)
_record: Final = msgspec.msgpack.Decoder(SpoolRecord)


def encode_request(request: PageRequest) -> bytes:
    """Encodes a question as the data of a request."""
    return _encoder.encode(request)


def decode_page(data: bytes) -> SpoolPage:
    """The page that a reply has; a msgspec.DecodeError if it has none."""
    return _pages.decode(data)


def decode_record(data: bytes) -> SpoolRecord:
    """A record whose pieces have all come."""
    return _record.decode(data)


def answer(directory: Path, data: bytes, bytes_max: int) -> bytes:
    """The data of the reply to a question about this spool; any error is that of the request."""
    if len(data) > REQUEST_BYTES_MAX:
        raise ValueError(f"a question of {len(data)} bytes")
    asked = _requests.decode(data)
    spool = read_head(directory, bases(directory)[-1]).spool_id.hex()
    if asked.spool not in ("", spool):
        raise NotASpool(directory, "another spool of this group", "ask the spooler that has it")
    first = _first(directory, asked)
    if asked.marks:
        return _encoder.encode(SpoolPage(spool, first, marks=marks_before(directory, first)))
    return _page(directory, spool, first, asked.piece_at, bytes_max - PAGE_SPARE_BYTES)


def _first(directory: Path, asked: PageRequest) -> int:
    known = bounds(directory)
    if asked.since is not None:
        if not known.start <= asked.since <= known.end:
            raise OffsetMissing(directory, asked.since, *known)
        return asked.since
    place = asked.place
    found = None if place is None else after_place(directory, place)
    if found is None:
        raise PlaceMissing(directory, place or Place(*[0] * 3))  # type: ignore[arg-type]
    return found


def _page(directory: Path, spool: str, first: int, piece_at: int, bytes_max: int) -> bytes:
    end = min(bounds(directory).end, first + PAGE_RECORDS)
    records: list[SpoolRecord] = []
    size_bytes = 0
    for record in read(directory, first, end):
        encoded = _encoder.encode(record)
        if not records and len(encoded) > bytes_max:
            piece = encoded[piece_at : piece_at + bytes_max]
            return _encoder.encode(SpoolPage(spool, first, piece=piece, piece_end=len(encoded)))
        size_bytes += len(encoded)
        if size_bytes > bytes_max:
            break
        records.append(record)
    return _encoder.encode(SpoolPage(spool, first, tuple(records)))
