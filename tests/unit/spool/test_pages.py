"""Pages of a spool: whole records, pieces of long ones, marks, and questions that cannot be answered."""

from pathlib import Path

import msgspec
import pytest
from tests.unit.spool.spool_samples import VIEW, messages

from hopring.ids import Place
from hopring.spool.encode import AppendMark
from hopring.spool.errors import NotASpool, OffsetMissing
from hopring.spool.pages import (
    PAGE_SPARE_BYTES,
    PageRequest,
    PlaceMissing,
    SpoolPage,
    answer,
    decode_page,
    decode_record,
    encode_request,
)
from hopring.spool.reading import read
from hopring.spool.record import RecordHeader, RecordKind, SpoolRecord, run_of
from hopring.spool.writer import SpoolWriter
from hopring.wire.envelope import encode_envelope

PAGE = 2_000 + PAGE_SPARE_BYTES


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    envelope = encode_envelope({"key": "EURUSD"})
    with SpoolWriter(tmp_path, "trades") as writer:
        writer.append(messages(b"one", b"two", lts=7), AppendMark("app", 3))
        writer.append([run_of(RecordHeader(RecordKind.MESSAGE, 9), [b"three"], envelopes=[envelope])])
        writer.append(messages(bytes(5_000), lts=8), AppendMark("app", 4))
        writer.append(messages(*[bytes(300)] * 20, lts=9))
        return writer.directory


def ask(directory: Path, request: PageRequest) -> SpoolPage:
    data = answer(directory, encode_request(request), PAGE)
    assert len(data) <= PAGE
    return decode_page(data)


def all_of(directory: Path, request: PageRequest) -> list[SpoolRecord]:
    """All records from there on, page by page, as a replay asks for them."""
    page, piece, found = ask(directory, request), b"", list[SpoolRecord]()
    while page.records or page.piece_end:
        at = page.first
        if page.piece_end:
            piece += page.piece
        if page.piece_end and len(piece) == page.piece_end:
            found.append(decode_record(piece))
            piece, at = b"", at + 1
        found += page.records
        page = ask(directory, PageRequest(page.spool, at + len(page.records), piece_at=len(piece)))
    return found


def test_pages_have_all_records_with_headers_and_long_ones_in_pieces(directory: Path) -> None:
    assert all_of(directory, PageRequest(since=0)) == list(read(directory, 0, 24))
    assert all_of(directory, PageRequest(since=5)) == list(read(directory, 5, 24))
    assert ask(directory, PageRequest(since=24)).records == ()
    assert ask(directory, PageRequest(since=3)).piece_end > 5_000


def test_a_place_is_where_its_messages_end(directory: Path) -> None:
    assert ask(directory, PageRequest(place=Place(VIEW, 7, 0))).first == 2
    with pytest.raises(PlaceMissing, match="it has no message at the place"):
        ask(directory, PageRequest(place=Place(VIEW, 6, 0)))
    with pytest.raises(PlaceMissing):
        ask(directory, PageRequest())


def test_marks_are_those_before_the_offset(directory: Path) -> None:
    assert [ask(directory, PageRequest(since=at, marks=True)).marks for at in (0, 2, 3, 4)] == [
        *({}, {"app": 3}, {"app": 3}, {"app": 4})
    ]


def test_questions_that_cannot_be_answered_are_errors(directory: Path) -> None:
    with pytest.raises(OffsetMissing):
        ask(directory, PageRequest(since=25))
    with pytest.raises(NotASpool, match="another spool of this group"):
        ask(directory, PageRequest("00" * 16, 0))
    for data in (b"", b"noise", bytes(2_000)):
        with pytest.raises((msgspec.DecodeError, ValueError)):
            answer(directory, data, PAGE)
