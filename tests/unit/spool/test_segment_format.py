"""The heads of files and the entries of an index."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopring.spool.errors import NotASpool, OtherVersion, SpoolDamaged
from hopring.spool.format import (
    ENTRY_BYTES,
    INDEX_HEAD_BYTES,
    IndexEntry,
    SegmentHead,
    decode_entries,
    decode_entry,
    decode_segment_head,
    encode_entry,
    encode_index_head,
    encode_segment_head,
    is_index_head,
)

HEAD = SegmentHead(40, 1_700_000_000_000_000, bytes(range(16)), "trades.eu", {"detector": 7})


def test_the_head_of_a_log_comes_back_and_is_padded() -> None:
    whole = encode_segment_head(HEAD)

    back = decode_segment_head(whole + b"blocks", "file")

    assert back == HEAD._replace(size_bytes=len(whole))
    assert len(whole) % 8 == 0


def test_every_truncated_head_is_an_error_that_names_the_file() -> None:
    whole = encode_segment_head(HEAD)
    facts_end = len(whole.rstrip(b"\0"))

    for size in range(facts_end):
        with pytest.raises((NotASpool, SpoolDamaged), match="some/file"):
            decode_segment_head(whole[:size], "some/file")


def test_every_flipped_bit_of_a_head_is_an_error() -> None:
    whole = encode_segment_head(HEAD)
    facts_end = len(whole.rstrip(b"\0"))

    for at in range(facts_end):
        for bit in range(8):
            spoiled = bytearray(whole)
            spoiled[at] ^= 1 << bit
            with pytest.raises((NotASpool, OtherVersion, SpoolDamaged)):
                decode_segment_head(bytes(spoiled), "file")


def test_another_version_is_named_with_what_to_do() -> None:
    whole = bytearray(encode_segment_head(HEAD))
    whole[8:10] = (9).to_bytes(2, "little")

    with pytest.raises(OtherVersion, match="format 9, this hopring has 2; read it with a newer hopring"):
        decode_segment_head(bytes(whole), "file")


entries = st.builds(
    IndexEntry,
    st.integers(0, 2**63),
    st.integers(0, 2**63),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**32 - 1),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 2**32 - 1),
    st.booleans(),
)


@given(entries)
def test_an_entry_comes_back(entry: IndexEntry) -> None:
    assert decode_entry(b"x" + encode_entry(entry), 1) == entry


def test_an_entry_with_any_flipped_bit_is_left_out() -> None:
    rows = [IndexEntry(at, 100 * at, 100, 1, 0, 5, False) for at in range(3)]
    whole = encode_index_head(0, 1) + b"".join(map(encode_entry, rows))
    assert decode_entries(whole) == rows

    for at in range(INDEX_HEAD_BYTES + ENTRY_BYTES, INDEX_HEAD_BYTES + 2 * ENTRY_BYTES):
        for bit in range(8):
            spoiled = bytearray(whole)
            spoiled[at] ^= 1 << bit
            assert decode_entries(bytes(spoiled)) == [rows[0], rows[2]]
    for size in range(len(whole)):
        assert decode_entries(whole[:size]) == rows[: max(0, size - INDEX_HEAD_BYTES) // ENTRY_BYTES]


def test_an_entry_that_goes_back_is_left_out() -> None:
    rows = [IndexEntry(0, 100, 100, 4, 0, 5, False), IndexEntry(3, 200, 100, 1, 0, 5, False)]

    assert decode_entries(encode_index_head(0, 1) + b"".join(map(encode_entry, rows))) == rows[:1]


def test_the_head_of_an_index_names_its_segment() -> None:
    whole = encode_index_head(40, HEAD.key)

    assert len(whole) == INDEX_HEAD_BYTES
    assert is_index_head(whole + b"entries", 40, HEAD.key)
    assert not is_index_head(whole, 41, HEAD.key)
    assert not is_index_head(whole[:-1], 40, HEAD.key)
